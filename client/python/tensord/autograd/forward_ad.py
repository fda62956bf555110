"""Derivatives that go along with the values, as torch.autograd.forward_ad.

    with dual_level():
        y = f(make_dual(x, direction))
        value, tangent = unpack_dual(y)

Here nothing goes along: unpack_dual makes the product with the Jacobian of what was computed in between, as func.jvp does.
"""

from __future__ import annotations

from contextlib import ContextDecorator
from typing import Any, NamedTuple, Optional

import _tensord
from _tensord import Tensor

from tensord.autograd.modes import enable_grad
from tensord.errors import FailedPreconditionError, InvalidArgumentError


class UnpackedDualTensor(NamedTuple):
    """A value, and how it changes in the direction; None if it does not depend on a dual tensor."""

    primal: Tensor
    tangent: Optional[Tensor]


class _Dual(NamedTuple):
    fresh: Tensor  # what is computed with
    primal: Tensor
    tangent: Tensor


_levels: list[list[_Dual]] = []


def enter_dual_level() -> int:
    if _levels:
        raise FailedPreconditionError("forward_ad: one dual level at a time; func.jvp nests")
    _levels.append([])
    return 0


def exit_dual_level(*, level: Optional[int] = None) -> None:
    if not _levels:
        raise FailedPreconditionError("forward_ad: no dual level has begun")
    _levels.pop()


class dual_level(ContextDecorator):
    """with dual_level(): make_dual and unpack_dual. Afterwards dual tensors have no tangents any more."""

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *exception: object) -> None:
        exit_dual_level()


def _current(name: str) -> list[_Dual]:
    if not _levels:
        raise FailedPreconditionError(f"{name}: only inside of `with dual_level()`")
    return _levels[-1]


def make_dual(tensor: Tensor, tangent: Tensor, *, level: Optional[int] = None) -> Tensor:
    """A float tensor that is `tensor` and changes in the direction `tangent`, of the same shape and dtype. It requires a
    gradient. RuntimeError outside of a dual level.
    """
    duals = _current("make_dual")
    if not tensor.dtype.is_floating_point or not tangent.dtype.is_floating_point:
        raise InvalidArgumentError(f"make_dual: {tensor.dtype} with a tangent {tangent.dtype}; both must be floats")
    if tangent.shape != tensor.shape or tangent.dtype != tensor.dtype:
        raise InvalidArgumentError(f"make_dual: a tensor {tensor.dtype} {list(tensor.shape)} with a tangent "
                                   f"{tangent.dtype} {list(tangent.shape)}; they must be the same")
    with enable_grad():
        fresh = _tensord._independent(tensor)
    duals.append(_Dual(fresh, tensor, tangent))
    return fresh


def unpack_dual(tensor: Tensor, *, level: Optional[int] = None) -> UnpackedDualTensor:
    """Its value and its tangent, of the same shape; outside of a dual level the tensor itself and None."""
    from tensord.func import _pushed_forward

    duals: list[Any] = [dual for dual in (_levels[-1] if _levels else []) if _tensord._depends_on(tensor, [dual.fresh])]
    if not duals:
        return UnpackedDualTensor(tensor, None)
    fresh, primals = [dual.fresh for dual in duals], [dual.primal for dual in duals]
    with enable_grad():
        (tangent,) = _pushed_forward([tensor], fresh, [dual.tangent for dual in duals])
    return UnpackedDualTensor(*_tensord._substituted([tensor, tangent], fresh, primals))


__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]
