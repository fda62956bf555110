"""Derivatives of functions at given inputs, as torch.autograd.functional: tensord.func with its arguments and results in
that form. Inputs are a tensor or a tuple of them; what is derived by them stands alone or in a tuple likewise.

Each takes create_graph (whether the results can be differentiated by the inputs; else they are detached) and strict
(ValueError where a result does not depend on an input).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Optional, Union

from _tensord import Tensor

from tensord.errors import InvalidArgumentError
from tensord.func import _Differentiated, _fits, _forward_rows, _influence, _reverse_rows, _with_gradients

Tensors = Union[Tensor, Sequence[Tensor]]


def _listed(tensors: Tensors) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _packed(values: Sequence[Any], single: bool) -> Any:
    return values[0] if single else tuple(values)


class _Call:
    """A function of tensors that returns a tensor or some, at its inputs."""

    def __init__(self, name: str, func: Callable[..., Any], inputs: Tensors, create_graph: bool, strict: bool) -> None:
        self.name, self.create_graph = name, create_graph
        self.single_input = isinstance(inputs, Tensor)
        self.made = _Differentiated(name, func, _listed(inputs), None, False)
        self.single_output = isinstance(self.made.output(), Tensor)
        _influence(name, strict, self.made)

    def finished(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        back = self.made.back(tensors)
        return back if self.create_graph else [tensor.detach() for tensor in back]

    def outputs(self) -> Any:
        return _packed(self.finished(self.made.outs), self.single_output)

    def by_input(self, tensors: Sequence[Tensor]) -> Any:
        return _packed(self.finished(tensors), self.single_input)

    def gradients(self, name: str) -> list[Tensor]:
        if len(self.made.outs) != 1 or self.made.outs[0].numel() != 1:
            raise InvalidArgumentError(f"{name}: the function returns one element")
        return self.made.outs[0].reshape(()).gradient(*self.made.fresh)


def _given(name: str, v: Optional[Tensors], others: Sequence[Tensor]) -> list[Tensor]:
    if v is None:
        if len(others) != 1 or others[0].numel() != 1:
            raise InvalidArgumentError(f"{name}: v may be left out for a single element only")
        return [others[0].detach() * 0 + 1]
    directions = _listed(v)
    _fits(name, "tensors in v", directions, others)
    return directions


def vjp(func: Callable[..., Any], inputs: Tensors, v: Optional[Tensors] = None, create_graph: bool = False,
        strict: bool = False) -> tuple[Any, Any]:
    """The function's results, and `v` times its Jacobian; `v` has the shapes of the results."""
    with _with_gradients():
        call = _Call("vjp", func, inputs, create_graph, strict)
        return call.outputs(), call.by_input(call.made.pullback(_given("vjp", v, call.made.outs)))


def jvp(func: Callable[..., Any], inputs: Tensors, v: Optional[Tensors] = None, create_graph: bool = False,
        strict: bool = False) -> tuple[Any, Any]:
    """The function's results, and its Jacobian times `v`, which has the shapes of the inputs."""
    with _with_gradients():
        call = _Call("jvp", func, inputs, create_graph, strict)
        product = call.made.pushforward(_given("jvp", v, call.made.fresh))
        return call.outputs(), _packed(call.finished(product), call.single_output)


def jacobian(func: Callable[..., Any], inputs: Tensors, create_graph: bool = False, strict: bool = False,
             vectorize: bool = False, strategy: str = "reverse-mode") -> Any:
    """d result / d input, of shape result.shape + input.shape; a tuple for several inputs, results or both.

    All rows, or with the strategy "forward-mode" all columns, are computed at once: vectorize changes nothing.
    """
    with _with_gradients():
        call = _Call("jacobian", func, inputs, create_graph, strict)
        rows = _strategy("jacobian", strategy)(call.made)
        return _packed([call.by_input(block) for block in rows], call.single_output)


def _strategy(name: str, strategy: str) -> Callable[[_Differentiated], list[list[Tensor]]]:
    if strategy == "reverse-mode":
        return lambda made: _reverse_rows(made, None)
    if strategy == "forward-mode":
        return _forward_rows
    raise InvalidArgumentError(f"{name}: the strategy is 'reverse-mode' or 'forward-mode', not {strategy!r}")


def hessian(func: Callable[..., Tensor], inputs: Tensors, create_graph: bool = False, strict: bool = False,
            vectorize: bool = False, outer_jacobian_strategy: str = "reverse-mode") -> Any:
    """Second derivatives of a function of one element: for each input a tuple, or tensor, of shape
    input.shape + other.shape.
    """
    def first(*tensors: Tensor) -> tuple[Tensor, ...]:
        call = _Call("hessian", func, tensors, True, strict)
        return tuple(call.finished(call.gradients("hessian")))

    made = jacobian(first, _listed(inputs), create_graph, strict, vectorize, outer_jacobian_strategy)
    return made[0][0] if isinstance(inputs, Tensor) else made


def hvp(func: Callable[..., Tensor], inputs: Tensors, v: Optional[Tensors] = None, create_graph: bool = False,
        strict: bool = False) -> tuple[Any, Any]:
    """The function's value, and its second derivatives times `v`, which has the shapes of the inputs."""
    with _with_gradients():
        call = _Call("hvp", func, inputs, create_graph, strict)
        value, directions = call.outputs(), _given("hvp", v, call.made.fresh)
        product = sum(((g * d).sum() for g, d in zip(call.gradients("hvp"), directions)), Tensor(0.0))
        return value, call.by_input(product.gradient(*call.made.fresh))


def vhp(func: Callable[..., Tensor], inputs: Tensors, v: Optional[Tensors] = None, create_graph: bool = False,
        strict: bool = False) -> tuple[Any, Any]:
    """The same as hvp: second derivatives are symmetric."""
    return hvp(func, inputs, v, create_graph, strict)


__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]
