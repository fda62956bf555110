"""Convolution layers, over one, two and three axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Optional, Union

from _tensord import Tensor

from tensord.dtypes import DTypeLike
from tensord.errors import InvalidArgumentError
from tensord.nn import functional as F, init
from tensord.nn.functional import Size, _sizes
from tensord.nn.module import Module
from tensord.nn.parameter import empty_parameter

_PAD_MODES = ("zeros", "reflect", "replicate", "circular")


class _Conv(Module):
    """What convolutions and transposed ones share: arguments, and weights uniform within 1 / sqrt(taps of one output)."""

    _axes = 0
    _transposed = False

    def _set_up(self, in_channels: int, out_channels: int, kernel_size: Size, stride: Size,
                padding: Union[Size, str], output_padding: Size, dilation: Size, groups: int, bias: bool,
                padding_mode: str, device: Optional[str], dtype: Optional[DTypeLike]) -> None:
        name, axes = type(self).__name__, self._axes
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise InvalidArgumentError(f"{name}: {in_channels} to {out_channels} channels in {groups} groups")
        if padding_mode not in (_PAD_MODES[:1] if self._transposed else _PAD_MODES):
            raise InvalidArgumentError(f"{name}: padding_mode is one of {', '.join(_PAD_MODES)} (only zeros where "
                                       f"transposed), not '{padding_mode}'")
        self.in_channels, self.out_channels, self.groups, self.padding_mode = (in_channels, out_channels, groups,
                                                                               padding_mode)
        self.kernel_size, self.stride, self.dilation, self.output_padding = (
            _sizes(name, each, axes) for each in (kernel_size, stride, dilation, output_padding))
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise InvalidArgumentError(f"{name}: padding is 'same', 'valid' or numbers, not '{padding}'")
            if padding == "same" and any(s != 1 for s in self.stride):
                raise InvalidArgumentError(f"{name}: padding 'same' needs a stride of 1, not {self.stride}")
        self.padding: Any = padding if isinstance(padding, str) else _sizes(name, padding, axes)
        channels = (in_channels, out_channels // groups) if self._transposed else (out_channels, in_channels // groups)
        self.weight = empty_parameter(*channels, *self.kernel_size, dtype=dtype, device=device)
        self.bias = empty_parameter(out_channels, dtype=dtype, device=device) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        fan = math.prod(self.weight.shape[1:])
        bound = 1 / math.sqrt(fan) if fan else 0.0
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def _batched(self, input: Tensor) -> Tensor:
        if input.ndim not in (self._axes + 1, self._axes + 2):
            raise InvalidArgumentError(f"{type(self).__name__}: an input of shape {list(input.shape)}; it needs "
                                       f"{self._axes + 2} axes, or {self._axes + 1} without batch")
        return input if input.ndim == self._axes + 2 else input.unsqueeze(0)

    def extra_repr(self) -> str:
        none = (0,) * self._axes
        shown = {"kernel_size": self.kernel_size, "stride": self.stride}
        others: dict[str, tuple[Any, Any]] = {
            "padding": (self.padding, none), "dilation": (self.dilation, (1,) * self._axes),
            "output_padding": (self.output_padding, none), "groups": (self.groups, 1),
        }  # fmt: skip
        shown.update({name: value for name, (value, default) in others.items() if value != default})
        text = f"{self.in_channels}, {self.out_channels}" + "".join(f", {n}={v}" for n, v in shown.items())
        text += ", bias=False" if self.bias is None else ""
        return text + (f", padding_mode={self.padding_mode}" if self.padding_mode != "zeros" else "")


class _ConvNd(_Conv):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: Size, stride: Size = 1,
                 padding: Union[Size, str] = 0, dilation: Size = 1, groups: int = 1, bias: bool = True,
                 padding_mode: str = "zeros", device: Optional[str] = None,
                 dtype: Optional[DTypeLike] = None) -> None:
        super().__init__()
        self._set_up(in_channels, out_channels, kernel_size, stride, padding, 0, dilation, groups, bias,
                     padding_mode, device, dtype)

    def _around(self) -> list[int]:
        """The padding as numbers, the last axis first, before and behind."""
        if self.padding == "valid":
            return [0] * (2 * self._axes)
        if self.padding == "same":
            totals = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size)]
            return [width for total in reversed(totals) for width in (total // 2, total - total // 2)]
        return [width for n in reversed(self.padding) for width in (n, n)]

    def forward(self, input: Tensor) -> Tensor:
        x, padding = self._batched(input), self.padding
        if self.padding_mode != "zeros":
            x, padding = x.pad(self._around(), self.padding_mode), 0
        y = F._conv(self._axes, x, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)
        return y if input.ndim == self._axes + 2 else y.squeeze(0)


class Conv1d(_ConvNd):
    """x [batch, in, length], or without batch, to [batch, out, length']; weight [out, in / groups, taps], bias [out].

    padding may be "same" or "valid", padding_mode "zeros", "reflect", "replicate" or "circular".
    """

    _axes = 1


class Conv2d(_ConvNd):
    """x [batch, in, height, width], or without batch; weight [out, in / groups, taps, taps]. See Conv1d."""

    _axes = 2


class Conv3d(_ConvNd):
    """x [batch, in, depth, height, width], or without batch; weight [out, in / groups, taps, taps, taps]. See Conv1d."""

    _axes = 3


class _ConvTransposeNd(_Conv):
    _transposed = True

    def __init__(self, in_channels: int, out_channels: int, kernel_size: Size, stride: Size = 1, padding: Size = 0,
                 output_padding: Size = 0, groups: int = 1, bias: bool = True, dilation: Size = 1,
                 padding_mode: str = "zeros", device: Optional[str] = None,
                 dtype: Optional[DTypeLike] = None) -> None:
        super().__init__()
        self._set_up(in_channels, out_channels, kernel_size, stride, padding, output_padding, dilation, groups, bias,
                     padding_mode, device, dtype)

    def forward(self, input: Tensor, output_size: Optional[Sequence[int]] = None) -> Tensor:
        x = self._batched(input)
        extra = self.output_padding if output_size is None else self._extra(x, output_size)
        y = F._conv_transpose(self._axes, x, self.weight, self.bias, self.stride, self.padding, extra, self.groups,
                              self.dilation)
        return y if input.ndim == self._axes + 2 else y.squeeze(0)

    def _extra(self, x: Tensor, output_size: Sequence[int]) -> list[int]:
        """The output padding that gives this size."""
        wanted = list(output_size)[-self._axes:]
        least = [(n - 1) * s - 2 * p + d * (k - 1) + 1 for n, s, p, d, k in
                 zip(x.shape[2:], self.stride, self.padding, self.dilation, self.kernel_size)]  # fmt: skip
        for n, low, s in zip(wanted, least, self.stride):
            if not low <= n < low + s:
                raise InvalidArgumentError(f"{type(self).__name__}: output_size {wanted}; from {least} on, less than a "
                                           f"stride {list(self.stride)} more, are possible")
        return [n - low for n, low in zip(wanted, least)]


class ConvTranspose1d(_ConvTransposeNd):
    """x [batch, in, length], or without batch, to [batch, out, length']; weight [in, out / groups, taps]. forward takes
    the output's size, where several are possible."""

    _axes = 1


class ConvTranspose2d(_ConvTransposeNd):
    """x [batch, in, height, width], or without batch; weight [in, out / groups, taps, taps]. See ConvTranspose1d."""

    _axes = 2


class ConvTranspose3d(_ConvTransposeNd):
    """x [batch, in, depth, height, width], or without batch; weight [in, out / groups, taps, taps, taps]. See
    ConvTranspose1d."""

    _axes = 3
