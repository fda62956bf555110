"""Layers whose number of inputs is that of the first input they get.

    layer = nn.LazyLinear(8)
    layer(x)      # from here on a Linear(x.shape[-1], 8)

Before the first call such a layer has no parameters: call the model once before an optimiser is made or a state is loaded.
"""

from __future__ import annotations

import inspect
from typing import Any, Optional

from _tensord import Tensor

from tensord.errors import InvalidArgumentError
from tensord.nn.conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from tensord.nn.linear import Linear
from tensord.nn.module import INTERNAL, Module
from tensord.nn.norm import BatchNorm1d, BatchNorm2d, BatchNorm3d, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d


class _Lazy(Module):
    """The arguments of a layer but for its first, which stands along an axis of the input."""

    _becomes: type[Any]
    _axis: int

    def __init_subclass__(cls, becomes: Optional[type[Module]] = None, axis: int = -1, **defaults: Any) -> None:
        """`defaults`: those that are not the layer's."""
        super().__init_subclass__()
        if becomes is None:
            return
        cls._becomes, cls._axis = becomes, axis
        first, *rest = inspect.signature(becomes).parameters.values()
        rest = [each.replace(default=defaults.get(each.name, each.default)) for each in rest]
        setattr(cls, "__signature__", inspect.Signature(rest))
        cls.__doc__ = f"A {becomes.__name__} whose {first.name} is what axis {axis} of its first input has."

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        self._given = inspect.signature(type(self)).bind(*args, **kwargs)  # TypeError here, not at the first call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        input: Optional[Tensor] = args[0] if args else kwargs.get("input")
        if not isinstance(input, Tensor) or not -input.ndim <= self._axis < input.ndim:
            shape = list(input.shape) if isinstance(input, Tensor) else input
            raise InvalidArgumentError(f"{type(self).__name__}: the first input is {shape}, and has no axis {self._axis}")
        self._become(input.shape[self._axis])
        return self(*args, **kwargs)

    def _become(self, count: int) -> None:
        given, layer = self._given, self._becomes
        given.apply_defaults()
        kept = {name: value for name, value in vars(self).items() if name in INTERNAL - {"_buffer_names"}}
        vars(self).clear()
        object.__setattr__(self, "__class__", layer)
        layer.__init__(self, count, *given.args, **given.kwargs)
        vars(self).update(kept)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self._given.arguments.items())


class LazyLinear(_Lazy, becomes=Linear, axis=-1):
    pass


class LazyConv1d(_Lazy, becomes=Conv1d, axis=-2):
    pass


class LazyConv2d(_Lazy, becomes=Conv2d, axis=-3):
    pass


class LazyConv3d(_Lazy, becomes=Conv3d, axis=-4):
    pass


class LazyConvTranspose1d(_Lazy, becomes=ConvTranspose1d, axis=-2):
    pass


class LazyConvTranspose2d(_Lazy, becomes=ConvTranspose2d, axis=-3):
    pass


class LazyConvTranspose3d(_Lazy, becomes=ConvTranspose3d, axis=-4):
    pass


class LazyBatchNorm1d(_Lazy, becomes=BatchNorm1d, axis=1):
    pass


class LazyBatchNorm2d(_Lazy, becomes=BatchNorm2d, axis=1):
    pass


class LazyBatchNorm3d(_Lazy, becomes=BatchNorm3d, axis=1):
    pass


class LazyInstanceNorm1d(_Lazy, becomes=InstanceNorm1d, axis=-2, affine=True, track_running_stats=True):
    pass


class LazyInstanceNorm2d(_Lazy, becomes=InstanceNorm2d, axis=-3, affine=True, track_running_stats=True):
    pass


class LazyInstanceNorm3d(_Lazy, becomes=InstanceNorm3d, axis=-4, affine=True, track_running_stats=True):
    pass


__all__ = [
    "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyConv1d", "LazyConv2d", "LazyConv3d",
    "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d",
    "LazyInstanceNorm3d", "LazyLinear",
]  # fmt: skip
