"""What torch.autograd.graph says of the graph of derivatives. Here it is the expression that computes a tensor, and there
are no nodes to hold, nor tensors saved for later: what a derivative reads is computed or kept as the program needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, Optional

from _tensord import Tensor

from tensord.autograd.hooks import GroupHook, RemovableHandle
from tensord.errors import FailedPreconditionError, InvalidArgumentError, UnimplementedError


def register_multi_grad_hook(tensors: Sequence[Tensor], fn: Callable[..., None], *, mode: str = "all") -> RemovableHandle:
    """fn(gradients) once the derivatives by all of the tensors are made, a list with None for those that have none. With
    mode="any" fn(gradient) at the first of them in each backward(). No tensor may be made of another.
    """
    if mode not in ("all", "any"):
        raise InvalidArgumentError(f"register_multi_grad_hook: mode is 'all' or 'any', not {mode!r}")
    for i, tensor in enumerate(tensors):
        if not tensor.requires_grad:
            raise FailedPreconditionError(f"register_multi_grad_hook: tensor {i} does not require a gradient")

    def call(gradients: list[Optional[Tensor]]) -> None:
        if mode == "all":
            fn(gradients)
            return
        fn(next(gradient for gradient in gradients if gradient is not None))

    return GroupHook(tensors, call).handle()


@contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[None]:
    """Changes nothing: what is written to keeps its old data for derivatives anyway."""
    yield


def _no_saved_tensors(name: str) -> NoReturn:
    raise UnimplementedError(f"{name}: no tensors are saved for derivatives here, which are expressions that are compiled "
                             "together with what they read; to keep less in memory see autograd.checkpoint")


class saved_tensors_hooks:
    """Always raises NotImplementedError: nothing is saved that could be packed."""

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        _no_saved_tensors("saved_tensors_hooks")


class save_on_cpu:
    """Always raises NotImplementedError: nothing is saved that could be moved."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        _no_saved_tensors("save_on_cpu")


def get_gradient_edge(tensor: Tensor) -> NoReturn:
    """Always raises NotImplementedError: there are no nodes."""
    raise UnimplementedError("get_gradient_edge: derivatives are expressions and have no nodes; pass the tensors "
                             "themselves to grad() and backward()")


__all__ = ["allow_mutation_on_saved_tensors", "get_gradient_edge", "register_multi_grad_hook", "save_on_cpu",
           "saved_tensors_hooks"]  # fmt: skip
