"""Gradients and parameters as a whole."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Optional, Union

from _tensord import Tensor

from tensord.errors import InvalidArgumentError

Tensors = Union[Tensor, Iterable[Tensor]]


def _list(tensors: Tensors) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def get_total_norm(tensors: Tensors, norm_type: float = 2.0, error_if_nonfinite: bool = False,
                   foreach: Optional[bool] = None) -> Tensor:
    """The norm of all elements of all tensors: float32 or wider, without axes. With error_if_nonfinite its value is read,
    which a captured function can't."""
    each = [tensor.detach() for tensor in _list(tensors)]
    if not each:
        return Tensor([0.0]).reshape(())
    norms = Tensor.stack([tensor.reshape(-1).norm(norm_type) for tensor in each])
    total = norms.norm(norm_type)
    if error_if_nonfinite and not math.isfinite(float(total)):
        raise InvalidArgumentError(f"the total norm of order {norm_type} is {float(total)}")
    return total


def clip_grads_with_norm_(parameters: Tensors, max_norm: float, total_norm: Tensor,
                          foreach: Optional[bool] = None) -> None:
    """Scales the gradients by max_norm / total_norm, where that is less than one."""
    scale = (max_norm / (total_norm.detach() + 1e-6)).clamp(max=1.0)
    for parameter in _list(parameters):
        if parameter.grad is not None:
            parameter.grad = (parameter.grad * scale).cast(parameter.grad.dtype)


def clip_grad_norm_(parameters: Tensors, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
                    foreach: Optional[bool] = None) -> Tensor:
    """Scales the gradients so that their norm, all together, is at most max_norm. Gives the norm before that."""
    parameters = _list(parameters)
    total = get_total_norm([p.grad for p in parameters if p.grad is not None], norm_type, error_if_nonfinite)
    clip_grads_with_norm_(parameters, max_norm, total)
    return total


def clip_grad_value_(parameters: Tensors, clip_value: float, foreach: Optional[bool] = None) -> None:
    """Limits each element of the gradients to [-clip_value, clip_value]."""
    for parameter in _list(parameters):
        if parameter.grad is not None:
            parameter.grad = parameter.grad.clamp(-float(clip_value), float(clip_value))


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All elements in a row, [total]."""
    return Tensor.cat([parameter.reshape(-1) for parameter in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Assigns the parts of a vector [total] to parameters."""
    each = list(parameters)
    total = sum(parameter.numel() for parameter in each)
    if tuple(vec.shape) != (total,):
        raise InvalidArgumentError(f"vector_to_parameters: a vector of shape {list(vec.shape)} for {total} elements")
    start = 0
    for parameter in each:
        part = vec.detach()[start:start + parameter.numel()].reshape(*parameter.shape)
        # With memory of its own, that the vector may change afterwards.
        parameter.assign(part.clone().cast(parameter.dtype))
        start += parameter.numel()
