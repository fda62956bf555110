"""Pooling over the last one, two or three axes of [batch, channels, ..] or [channels, ..]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

from _tensord import Tensor

from tensord.nn import functional as F
from tensord.nn.functional import MaybeSize, Size
from tensord.nn.module import Module


class _Pool(Module):
    _axes = 0
    _function = ""  # of functional, without the number of axes

    def _pool(self, *args: Any) -> Any:
        return getattr(F, f"{self._function}{self._axes}d")(*args)


class _MaxPool(_Pool):
    _function = "max_pool"

    def __init__(self, kernel_size: Size, stride: Optional[Size] = None, padding: Size = 0, dilation: Size = 1,
                 return_indices: bool = False, ceil_mode: bool = False) -> None:
        super().__init__()
        self.kernel_size, self.stride, self.padding, self.dilation = (
            kernel_size, kernel_size if stride is None else stride, padding, dilation)
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def forward(self, input: Tensor) -> Any:
        return self._pool(input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode,
                          self.return_indices)

    def extra_repr(self) -> str:
        return (f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
                f"dilation={self.dilation}, ceil_mode={self.ceil_mode}")


class MaxPool1d(_MaxPool):
    """The largest element of each window over the last axis; with return_indices also its place."""

    _axes = 1


class MaxPool2d(_MaxPool):
    """The largest element of each window over the last two axes; with return_indices also its place in the plane."""

    _axes = 2


class MaxPool3d(_MaxPool):
    """The largest element of each window over the last three axes; with return_indices also its place."""

    _axes = 3


class _MaxUnpool(_Pool):
    _function = "max_unpool"

    def __init__(self, kernel_size: Size, stride: Optional[Size] = None, padding: Size = 0) -> None:
        super().__init__()
        self.kernel_size, self.stride, self.padding = (
            F._sizes(type(self).__name__, each, self._axes)
            for each in (kernel_size, kernel_size if stride is None else stride, padding))

    def forward(self, input: Tensor, indices: Tensor, output_size: Optional[Sequence[int]] = None) -> Tensor:
        y: Tensor = self._pool(input, indices, self.kernel_size, self.stride, self.padding, output_size)
        return y

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """Puts what MaxPool1d chose back to its place, zeros elsewhere: forward(values, indices, output_size=None)."""

    _axes = 1


class MaxUnpool2d(_MaxUnpool):
    """Puts what MaxPool2d chose back to its place, zeros elsewhere."""

    _axes = 2


class MaxUnpool3d(_MaxUnpool):
    """Puts what MaxPool3d chose back to its place, zeros elsewhere."""

    _axes = 3


class _AvgPool(_Pool):
    _function = "avg_pool"

    def __init__(self, kernel_size: Size, stride: Optional[Size] = None, padding: Size = 0, ceil_mode: bool = False,
                 count_include_pad: bool = True, divisor_override: Optional[int] = None) -> None:
        super().__init__()
        self.kernel_size, self.stride, self.padding = kernel_size, kernel_size if stride is None else stride, padding
        self.ceil_mode, self.count_include_pad, self.divisor_override = ceil_mode, count_include_pad, divisor_override

    def forward(self, input: Tensor) -> Tensor:
        y: Tensor = self._pool(input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
                               self.count_include_pad, self.divisor_override)
        return y

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPool):
    """The mean of each window over the last axis; padding counts as zeros if count_include_pad."""

    _axes = 1

    def __init__(self, kernel_size: Size, stride: Optional[Size] = None, padding: Size = 0, ceil_mode: bool = False,
                 count_include_pad: bool = True) -> None:
        kernel, step, pad = (F._sizes("AvgPool1d", each, 1)
                             for each in (kernel_size, kernel_size if stride is None else stride, padding))
        super().__init__(kernel, step, pad, ceil_mode, count_include_pad)

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)


class AvgPool2d(_AvgPool):
    """The mean of each window over the last two axes; the sum is divided by divisor_override if given."""

    _axes = 2


class AvgPool3d(_AvgPool):
    """The mean of each window over the last three axes; the sum is divided by divisor_override if given."""

    _axes = 3


class _LPPool(_Pool):
    _function = "lp_pool"

    def __init__(self, norm_type: float, kernel_size: Size, stride: Optional[Size] = None,
                 ceil_mode: bool = False) -> None:
        super().__init__()
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = norm_type, kernel_size, stride, ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        y: Tensor = self._pool(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)
        return y

    def extra_repr(self) -> str:
        return (f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
                f"ceil_mode={self.ceil_mode}")


class LPPool1d(_LPPool):
    """The norm_type-th root of the sum of norm_type-th powers in each window over the last axis."""

    _axes = 1


class LPPool2d(_LPPool):
    """The norm_type-th root of the sum of norm_type-th powers in each window over the last two axes."""

    _axes = 2


class LPPool3d(_LPPool):
    """The norm_type-th root of the sum of norm_type-th powers in each window over the last three axes."""

    _axes = 3


class _AdaptiveAvgPool(_Pool):
    _function = "adaptive_avg_pool"

    def __init__(self, output_size: MaybeSize) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        y: Tensor = self._pool(input, self.output_size)
        return y

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """Means of windows that share out the last axis into output_size."""

    _axes = 1


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """Means of windows that share out the last two axes into output_size; None keeps a size."""

    _axes = 2


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """Means of windows that share out the last three axes into output_size; None keeps a size."""

    _axes = 3


class _AdaptiveMaxPool(_Pool):
    _function = "adaptive_max_pool"

    def __init__(self, output_size: MaybeSize, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size, self.return_indices = output_size, return_indices

    def forward(self, input: Tensor) -> Any:
        return self._pool(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """Largest elements of windows that share out the last axis into output_size."""

    _axes = 1


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """Largest elements of windows that share out the last two axes into output_size; None keeps a size."""

    _axes = 2


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """Largest elements of windows that share out the last three axes into output_size; None keeps a size."""

    _axes = 3


class _FractionalMaxPool(_Pool):
    _function = "fractional_max_pool"
    _random_samples: Optional[Tensor]

    def __init__(self, kernel_size: Size, output_size: Optional[Size] = None, output_ratio: Any = None,
                 return_indices: bool = False, _random_samples: Optional[Tensor] = None) -> None:
        super().__init__()
        if (output_size is None) == (output_ratio is None):
            raise ValueError(f"{type(self).__name__}: give output_size or output_ratio, and not both")
        self.kernel_size, self.output_size, self.output_ratio = kernel_size, output_size, output_ratio
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)

    def forward(self, input: Tensor) -> Any:
        return self._pool(input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices,
                          self._random_samples)


class FractionalMaxPool2d(_FractionalMaxPool):
    """Max pooling of [batch, channels, height, width] in windows at pseudo-random places."""

    _axes = 2


class FractionalMaxPool3d(_FractionalMaxPool):
    """Max pooling of [batch, channels, depth, height, width] in windows at pseudo-random places."""

    _axes = 3
