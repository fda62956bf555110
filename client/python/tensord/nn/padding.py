"""Padding of the last one, two or three axes; the padding is one number, or two an axis, the last axis first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Union

from _tensord import Tensor

from tensord.nn.functional import _sizes
from tensord.nn.module import Module


class _Pad(Module):
    _axes = 0
    _pad_mode = "constant"

    def __init__(self, padding: Union[int, Sequence[int]]) -> None:
        super().__init__()
        self.padding: tuple[int, ...] = _sizes(type(self).__name__, padding, 2 * self._axes)

    def forward(self, input: Tensor) -> Tensor:
        return input.pad(self.padding, self._pad_mode)

    def extra_repr(self) -> str:
        return str(self.padding)


class _ConstantPad(_Pad):
    def __init__(self, padding: Union[int, Sequence[int]], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return input.pad(self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPad):
    """[.., length] with a value around."""

    _axes = 1


class ConstantPad2d(_ConstantPad):
    """[.., height, width] with a value around."""

    _axes = 2


class ConstantPad3d(_ConstantPad):
    """[.., depth, height, width] with a value around."""

    _axes = 3


class ZeroPad1d(_Pad):
    """[.., length] with zeros around."""

    _axes = 1


class ZeroPad2d(_Pad):
    """[.., height, width] with zeros around."""

    _axes = 2


class ZeroPad3d(_Pad):
    """[.., depth, height, width] with zeros around."""

    _axes = 3


class ReflectionPad1d(_Pad):
    """[.., length] with its mirror image around, the border itself left out."""

    _axes, _pad_mode = 1, "reflect"


class ReflectionPad2d(_Pad):
    """[.., height, width] with its mirror image around."""

    _axes, _pad_mode = 2, "reflect"


class ReflectionPad3d(_Pad):
    """[.., depth, height, width] with its mirror image around."""

    _axes, _pad_mode = 3, "reflect"


class ReplicationPad1d(_Pad):
    """[.., length] with its border repeated around."""

    _axes, _pad_mode = 1, "replicate"


class ReplicationPad2d(_Pad):
    """[.., height, width] with its border repeated around."""

    _axes, _pad_mode = 2, "replicate"


class ReplicationPad3d(_Pad):
    """[.., depth, height, width] with its border repeated around."""

    _axes, _pad_mode = 3, "replicate"


class CircularPad1d(_Pad):
    """[.., length] as if it went on in a circle."""

    _axes, _pad_mode = 1, "circular"


class CircularPad2d(_Pad):
    """[.., height, width] as if it went on in a circle."""

    _axes, _pad_mode = 2, "circular"


class CircularPad3d(_Pad):
    """[.., depth, height, width] as if it went on in a circle."""

    _axes, _pad_mode = 3, "circular"
