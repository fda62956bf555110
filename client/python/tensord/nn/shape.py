"""Layers that move elements: other shapes, windows, resampling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional, Union

from _tensord import Tensor

from tensord.errors import InvalidArgumentError
from tensord.nn import functional as F
from tensord.nn.functional import Size
from tensord.nn.module import Module


class Flatten(Module):
    """The axes start_dim to end_dim as one."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """The axis dim as several, of the sizes unflattened_size."""

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class Upsample(Module):
    """[batch, channels, spatial..] in another size, or scaled; modes are those of functional.interpolate."""

    def __init__(self, size: Optional[Size] = None, scale_factor: Any = None, mode: str = "nearest",
                 align_corners: Optional[bool] = None, recompute_scale_factor: Optional[bool] = None) -> None:
        super().__init__()
        self.size, self.mode, self.align_corners = size, mode, align_corners
        self.scale_factor: Any = (tuple(float(factor) for factor in scale_factor)
                                  if isinstance(scale_factor, (tuple, list)) else
                                  None if scale_factor is None else float(scale_factor))
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.interpolate(input, self.size, self.scale_factor, self.mode, self.align_corners,
                             self.recompute_scale_factor)

    def extra_repr(self) -> str:
        size = f"size={self.size}" if self.scale_factor is None else f"scale_factor={self.scale_factor}"
        return f"{size}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Upsample of [batch, channels, height, width] by the nearest element."""

    def __init__(self, size: Optional[Size] = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "nearest")


class UpsamplingBilinear2d(Upsample):
    """Upsample of [batch, channels, height, width], linear between corners that stay where they are."""

    def __init__(self, size: Optional[Size] = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "bilinear", align_corners=True)


class PixelShuffle(Module):
    """[.., channels * r * r, height, width] to [.., channels, height * r, width * r]."""

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return input.pixel_shuffle(self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """[.., channels, height * r, width * r] to [.., channels * r * r, height, width]."""

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return input.pixel_unshuffle(self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """[batch, channels, ..] with the channels of the groups in turn."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        if groups < 1:
            raise InvalidArgumentError(f"ChannelShuffle: {groups} groups")
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return input.channel_shuffle(self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"


class _Windows(Module):
    def __init__(self, kernel_size: Size, dilation: Size, padding: Size, stride: Size) -> None:
        super().__init__()
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def extra_repr(self) -> str:
        return (f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, "
                f"stride={self.stride}")


class Unfold(_Windows):
    """The windows of [batch, channels, height, width] as columns: [batch, channels * taps, windows]."""

    def __init__(self, kernel_size: Size, dilation: Size = 1, padding: Size = 0, stride: Size = 1) -> None:
        super().__init__(kernel_size, dilation, padding, stride)

    def forward(self, input: Tensor) -> Tensor:
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)


class Fold(_Windows):
    """The adjoint of Unfold: columns [batch, channels * taps, windows] added up at their places of output_size."""

    def __init__(self, output_size: Size, kernel_size: Size, dilation: Size = 1, padding: Size = 0,
                 stride: Size = 1) -> None:
        super().__init__(kernel_size, dilation, padding, stride)
        self.output_size: Union[int, Sequence[int]] = output_size

    def forward(self, input: Tensor) -> Tensor:
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}, {super().extra_repr()}"
