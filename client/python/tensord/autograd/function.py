"""Operations with derivatives of their own: a Function as PyTorch has them, and custom_gradient of a plain function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import _tensord
from _tensord import Tensor, is_grad_enabled

from tensord.autograd.modes import no_grad
from tensord.errors import InvalidArgumentError


def _call(function: Callable[..., Any], inputs: list[Tensor]) -> tuple[list[Tensor], bool]:
    results = function(*inputs)
    return ([results], True) if isinstance(results, Tensor) else (list(results), False)


def _packed(tensors: list[Tensor], single: bool) -> Any:
    return tensors[0] if single else tuple(tensors)


def _with_rule(values: list[Tensor], inputs: Sequence[Any], rule: Callable[[list[Tensor]], Sequence[Any]],
               constant: Sequence[int] = ()) -> list[Tensor]:
    """The values, with the gradients that the rule makes of theirs. All in a row are one value to it. Those that are
    constant have none."""
    places = [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.dtype.is_floating_point]
    floats = [i for i, value in enumerate(values) if value.dtype.is_floating_point and i not in constant]
    if not places or not floats or not is_grad_enabled():
        return values
    parts = [values[i] for i in floats]
    row = parts[0] if len(parts) == 1 else Tensor.cat([part.reshape(-1) for part in parts])
    stand_in = _tensord._stand_in(row)

    def apart(joined: Tensor) -> list[Tensor]:
        if len(parts) == 1:
            return [joined]
        pieces = joined.split([part.numel() for part in parts])
        return [piece.reshape(part.shape).cast(part.dtype) for piece, part in zip(pieces, parts)]

    incoming = iter(apart(stand_in))
    grads = rule([next(incoming) if i in floats else _tensord._full(list(value.shape), 0.0, None)
                  for i, value in enumerate(values)])  # fmt: skip
    if len(grads) != len(inputs):
        raise ValueError(f"custom gradient: {len(grads)} gradients for {len(inputs)} inputs")
    ordered = [_tensord._full(list(inputs[i].shape), 0.0, inputs[i].dtype) if grads[i] is None else grads[i]
               for i in places]  # fmt: skip
    joined = apart(_tensord._custom_gradient(row, [inputs[i] for i in places], stand_in, ordered))
    results = list(values)
    for i, value in zip(floats, joined):
        results[i] = value
    return results


def custom_gradient(function: Callable[..., Any], rule: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, whose derivative is what `rule(*grads, inputs=..., outputs=...)` computes with tensors.

    The rule takes a gradient for each result and gives one for each argument, None where there is none; it is called when
    the function is, with stand-ins, so it must not ask for data.
    """

    def call(*inputs: Any) -> Any:
        outs, single = _call(function, list(inputs))

        def grads(incoming: list[Tensor]) -> Sequence[Any]:
            made = rule(*incoming, inputs=inputs, outputs=tuple(outs))
            return [made] if made is None or isinstance(made, Tensor) else made

        return _packed(_with_rule(outs, inputs, grads), single)

    return call


class Context:
    """What forward leaves for backward: save_for_backward(...) and any attributes."""

    def __init__(self) -> None:
        self.saved_tensors: tuple[Any, ...] = ()
        self.needs_input_grad: tuple[bool, ...] = ()
        self.materialize_grads = True
        self._dirty: tuple[Tensor, ...] = ()
        self._constant: tuple[Tensor, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors

    def mark_dirty(self, *args: Tensor) -> None:
        """Arguments that forward changes in place and returns: what they are then is the result of this operation."""
        self._dirty = args

    def mark_non_differentiable(self, *args: Tensor) -> None:
        """Results that require no gradient."""
        self._constant = args

    def set_materialize_grads(self, value: bool) -> None:
        """With False backward gets None, not zeros, for results that have no gradient: those that are no floats or are
        marked as not differentiable. Whether somebody uses a result is not known when backward is called.
        """
        self.materialize_grads = value


def _among(tensor: Any, tensors: Sequence[Tensor]) -> bool:
    return any(tensor is each for each in tensors)  # == compares elements


class Function:
    """An operation with a derivative of its own, as torch.autograd.Function.

        class Double(Function):
            @staticmethod
            def forward(ctx, x): return x * 2
            @staticmethod
            def backward(ctx, grad): return grad * 2
        y = Double.apply(x)

    With a setup_context(ctx, inputs, output), forward gets the arguments alone. `backward` computes with tensors; it is
    called when `apply` is, with stand-ins for the gradients, so it must not ask for data. Its results can be
    differentiated again.
    """

    @staticmethod
    def forward(*args: Any) -> Any:
        raise NotImplementedError("a Function needs a forward")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        raise NotImplementedError("a Function's setup_context")

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise NotImplementedError("a Function needs a backward")

    @classmethod
    def apply(cls, *args: Any) -> Any:
        ctx = Context()
        ctx.needs_input_grad = tuple(isinstance(arg, Tensor) and arg.dtype.is_floating_point for arg in args)
        inputs = [+arg if isinstance(arg, Tensor) else arg for arg in args]  # as they are before forward writes to them
        if cls.setup_context is Function.setup_context:
            results = cls.forward(ctx, *args)
        else:
            results = cls.forward(*args)
            cls.setup_context(ctx, args, results)
        outs, single = ([results], True) if isinstance(results, Tensor) else (list(results), False)
        constant = [i for i, out in enumerate(outs) if _among(out, ctx._constant)]
        for i in constant:
            outs[i] = outs[i].detach()

        def grads(incoming: list[Tensor]) -> Sequence[Any]:
            given = [None if not ctx.materialize_grads and (i in constant or not outs[i].dtype.is_floating_point) else grad
                     for i, grad in enumerate(incoming)]  # fmt: skip
            made = cls.backward(ctx, *given)
            return made if isinstance(made, (tuple, list)) else [made]

        made = _with_rule(outs, inputs, grads, constant)
        for dirty in ctx._dirty:
            at = next((i for i, out in enumerate(outs) if out is dirty), None)
            if at is None:
                raise InvalidArgumentError(f"{cls.__name__}: what is marked as dirty is an argument that forward returns")
            made[at] = dirty.replace(made[at])
        return _packed(made, single)


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Of a Function's backward: its results are not differentiated again."""

    @wraps(backward)
    def call(ctx: Any, *grads: Any) -> Any:
        with no_grad():
            return backward(ctx, *grads)

    return call


FunctionCtx = Context

__all__ = ["Context", "Function", "FunctionCtx", "custom_gradient", "once_differentiable"]
