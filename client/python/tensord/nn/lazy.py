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
from tensord.nn.module import Module
from tensord.nn.norm import BatchNorm1d, BatchNorm2d, BatchNorm3d, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d


class _Lazy(Module):
    """The arguments of a layer but for its first, which stands along an axis of the input."""

    _becomes: type[Any]
    _axis: int

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        self._given = inspect.signature(type(self)).bind(*args, **kwargs)  # TypeError here, not at the first call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        input: Optional[Tensor] = args[0] if args else kwargs.get("input")
        if not isinstance(input, Tensor) or input.ndim < -self._axis:
            shape = list(input.shape) if isinstance(input, Tensor) else input
            raise InvalidArgumentError(f"{type(self).__name__}: the first input is {shape}, and has no axis {self._axis}")
        self._become(input.shape[self._axis])
        return self(*args, **kwargs)

    def _become(self, count: int) -> None:
        given, layer = self._given, self._becomes
        given.apply_defaults()
        kept = {name: value for name, value in vars(self).items() if name in ("_mode", "_pre_hooks", "_hooks")}
        vars(self).clear()
        object.__setattr__(self, "__class__", layer)
        layer.__init__(self, count, *given.args, **given.kwargs)
        vars(self).update(kept)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self._given.arguments.items())


def _lazy(becomes: type[Module], axis: int, **defaults: Any) -> type[Module]:
    """`defaults`: those that are not the layer's."""
    name = f"Lazy{becomes.__name__}"
    first, *rest = inspect.signature(becomes).parameters.values()
    rest = [each.replace(default=defaults.get(each.name, each.default)) for each in rest]
    return type(name, (_Lazy,), {
        "_becomes": becomes, "_axis": axis, "__module__": __name__, "__signature__": inspect.Signature(rest),
        "__doc__": f"A {becomes.__name__} whose {first.name} is what axis {axis} of its first input has.",
    })  # fmt: skip


LazyLinear = _lazy(Linear, -1)
LazyConv1d = _lazy(Conv1d, -2)
LazyConv2d = _lazy(Conv2d, -3)
LazyConv3d = _lazy(Conv3d, -4)
LazyConvTranspose1d = _lazy(ConvTranspose1d, -2)
LazyConvTranspose2d = _lazy(ConvTranspose2d, -3)
LazyConvTranspose3d = _lazy(ConvTranspose3d, -4)
LazyBatchNorm1d = _lazy(BatchNorm1d, -2)
LazyBatchNorm2d = _lazy(BatchNorm2d, -3)
LazyBatchNorm3d = _lazy(BatchNorm3d, -4)
LazyInstanceNorm1d = _lazy(InstanceNorm1d, -2, affine=True, track_running_stats=True)
LazyInstanceNorm2d = _lazy(InstanceNorm2d, -3, affine=True, track_running_stats=True)
LazyInstanceNorm3d = _lazy(InstanceNorm3d, -4, affine=True, track_running_stats=True)

__all__ = [
    "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyConv1d", "LazyConv2d", "LazyConv3d",
    "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d",
    "LazyInstanceNorm3d", "LazyLinear",
]  # fmt: skip
