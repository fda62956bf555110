"""Derivatives beyond Tensor.backward and Tensor.gradient: several outputs, rules of one's own, values that are computed
again instead of being kept, and computing without derivatives. functional has derivatives of functions, hooks what is to
happen on the way, anomaly the search for NaN.

Gradients are tensors like others: they are computed when data is asked for. Those that gradient() gives can be
differentiated again; those of grad() and backward() with create_graph=True, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import ContextDecorator
from functools import wraps
from inspect import isgeneratorfunction
from typing import Any, Optional, TypeVar, Union, cast, overload

import _tensord
from _tensord import Tensor, is_grad_enabled

from tensord.autograd.anomaly import detect_anomaly, is_anomaly_enabled, set_detect_anomaly
from tensord.errors import InvalidArgumentError

Tensors = Union[Tensor, Sequence[Tensor]]
_F = TypeVar("_F", bound=Callable[..., Any])


def _listed(tensors: Tensors) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


@overload
def gradient(outputs: Tensors, inputs: Tensors,
             grad_outputs: Union[Tensor, Sequence[Optional[Tensor]], None] = None) -> list[Tensor]: ...
@overload
def gradient(outputs: Tensor, *, spacing: Any = 1, dim: Union[int, Sequence[int], None] = None,
             edge_order: int = 1) -> tuple[Tensor, ...]: ...
def gradient(outputs: Tensors, inputs: Optional[Tensors] = None,
             grad_outputs: Union[Tensor, Sequence[Optional[Tensor]], None] = None, *, spacing: Any = 1,
             dim: Union[int, Sequence[int], None] = None, edge_order: int = 1) -> Union[list[Tensor], tuple[Tensor, ...]]:
    """d outputs / d input for each input, weighted by `grad_outputs` and added up over the outputs.

    An output without a weight needs a single element. An input that has no influence gets zeros. ValueError if shapes do
    not fit or something is not a float.

    Of one tensor without inputs it is torch.gradient: how fast its values grow along each axis, or the axes `dim`, by
    differences, a tensor of its shape for each. Its points are `spacing` apart, one number for all axes or one for each,
    or stand at coordinates, a vector for each axis. The ends of an axis are estimated by `edge_order` neighbours, 1 or 2,
    which it must have. Integers give float32.
    """
    if inputs is None:
        if not isinstance(outputs, Tensor) or grad_outputs is not None:
            raise TypeError("gradient: it takes outputs and inputs, or one tensor to estimate how fast it grows")
        return _by_differences(outputs, spacing, dim, edge_order)
    if (spacing, dim, edge_order) != (1, None, 1):
        raise TypeError("gradient: spacing, dim and edge_order are of the gradient of one tensor, which has no inputs")
    outs, ins = _listed(outputs), _listed(inputs)
    weights: list[Optional[Tensor]] = (
        [grad_outputs] * len(outs) if grad_outputs is None or isinstance(grad_outputs, Tensor) else list(grad_outputs))
    if len(weights) != len(outs):
        raise ValueError(f"gradient: {len(weights)} weights for {len(outs)} outputs")
    if not outs:
        raise ValueError("gradient: there are no outputs")
    total: Optional[list[Tensor]] = None
    for out, weight in zip(outs, weights):
        parts = out.gradient(*ins, gradient=weight)
        total = parts if total is None else [a + b for a, b in zip(total, parts)]
    assert total is not None
    return total


def _by_differences(x: Tensor, spacing: Any, dim: Union[int, Sequence[int], None], edge_order: int) -> tuple[Tensor, ...]:
    axes = range(x.ndim) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    if spacing is None or isinstance(spacing, (int, float)):
        spacing = [1 if spacing is None else spacing] * len(axes)
    spacing = [spacing] if isinstance(spacing, Tensor) else list(spacing)
    if len(spacing) != len(axes):
        raise InvalidArgumentError(f"gradient: {len(spacing)} spacings for {len(axes)} axes; give one number, or one, or a "
                                   "vector of coordinates, for each axis")
    return tuple(
        _tensord._numerical_gradient(x, axis, 1.0, each, edge_order) if isinstance(each, Tensor)
        else _tensord._numerical_gradient(x, axis, each, None, edge_order) for axis, each in zip(axes, spacing))


def grad(outputs: Tensors, inputs: Tensors, grad_outputs: Union[Tensor, Sequence[Optional[Tensor]], None] = None,
         retain_graph: Optional[bool] = None, create_graph: bool = False, allow_unused: Optional[bool] = None,
         ) -> tuple[Any, ...]:  # fmt: skip
    """torch.autograd.grad: `gradient` as a tuple, detached without create_graph. An input without influence gets zeros,
    or None with allow_unused=True; allow_unused=False is a ValueError then. retain_graph changes nothing.
    """
    made: list[Any] = gradient(outputs, inputs, grad_outputs)
    if allow_unused is not None:
        outs = _listed(outputs)
        used = [any(_tensord._reaches(out, x) for out in outs) for x in _listed(inputs)]
        if not allow_unused and not all(used):
            raise InvalidArgumentError(f"grad: input {used.index(False)} has no influence; say allow_unused=True for None")
        made = [g if is_used else None for g, is_used in zip(made, used)]
    return tuple(g if g is None or create_graph else g.detach() for g in made)


def _call(function: Callable[..., Any], inputs: list[Tensor]) -> tuple[list[Tensor], bool]:
    results = function(*inputs)
    return _listed(results), isinstance(results, Tensor)


def _packed(tensors: list[Tensor], single: bool) -> Any:
    return tensors[0] if single else tuple(tensors)


# ---- rules of one's own


def _with_rule(values: list[Tensor], inputs: Sequence[Any], rule: Callable[[list[Tensor]], Sequence[Any]]) -> list[Tensor]:
    """The values, with the gradients that the rule makes of theirs. All in a row are one value to it."""
    places = [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.dtype.is_floating_point]
    floats = [i for i, value in enumerate(values) if value.dtype.is_floating_point]
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

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors


class Function:
    """An operation with a derivative of its own, as torch.autograd.Function.

        class Double(Function):
            @staticmethod
            def forward(ctx, x): return x * 2
            @staticmethod
            def backward(ctx, grad): return grad * 2
        y = Double.apply(x)

    `backward` computes with tensors; it is called when `apply` is, with stand-ins for the gradients, so it must not ask
    for data. Its results can be differentiated again.
    """

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        raise NotImplementedError("a Function needs a forward")

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        raise NotImplementedError("a Function needs a backward")

    @classmethod
    def apply(cls, *args: Any) -> Any:
        ctx = Context()
        ctx.needs_input_grad = tuple(isinstance(arg, Tensor) and arg.dtype.is_floating_point for arg in args)
        results = cls.forward(ctx, *args)

        def grads(incoming: list[Tensor]) -> Sequence[Any]:
            made = cls.backward(ctx, *incoming)
            return made if isinstance(made, (tuple, list)) else [made]

        return _packed(_with_rule(_listed(results), args, grads), isinstance(results, Tensor))


def checkpoint(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """function(*args, **kwargs), of which only tensors among `args` are kept for the derivative.

    When the derivative is computed, the rest is computed again from them: less memory for more work. Tensors that the
    function uses without getting them as arguments have derivatives if they have data, as parameters do.
    """
    outs, single = _call(lambda *inputs: function(*inputs, **kwargs), list(args))
    arguments = [arg for arg in args if isinstance(arg, Tensor)]
    if not is_grad_enabled():
        return _packed(outs, single)
    return _packed(_tensord._checkpoint(outs, arguments), single)


# ---- without derivatives


class set_grad_enabled(ContextDecorator):
    """Whether what this thread computes from now on, or inside `with`, has derivatives; without, it is detached."""

    def __init__(self, mode: bool) -> None:
        self._mode = mode
        self._before = [_tensord._set_grad_enabled(mode)]

    def __enter__(self) -> None:
        _tensord._set_grad_enabled(self._mode)

    def __exit__(self, *exception: object) -> None:
        _tensord._set_grad_enabled(self._before[-1])


class _Mode(ContextDecorator):
    _enabled = False

    def __init__(self) -> None:
        self._before: list[bool] = []

    def __call__(self, func: _F) -> _F:
        if not isgeneratorfunction(func):
            return super().__call__(func)

        @wraps(func)
        def steps(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            # The mode is of the function's own steps, not of what its caller does between them.
            running = func(*args, **kwargs)
            step, sent = running.send, None
            while True:
                try:
                    with self:
                        value = step(sent)
                except StopIteration as end:
                    return end.value
                try:
                    step, sent = running.send, (yield value)
                except GeneratorExit:
                    with self:
                        running.close()
                    raise
                except BaseException as error:
                    step, sent = running.throw, error

        return cast(_F, steps)

    def __enter__(self) -> None:
        self._before.append(_tensord._set_grad_enabled(self._enabled))

    def __exit__(self, *exception: object) -> None:
        _tensord._set_grad_enabled(self._before.pop())


class no_grad(_Mode):
    """with no_grad(): what is computed inside is detached. Also a decorator, of generator functions too."""


class inference_mode(no_grad):
    """The same as no_grad."""


class enable_grad(_Mode):
    """Inside no_grad: derivatives again."""

    _enabled = True


# They build on all of the above.
from tensord.autograd.functional import hessian, jacobian, jvp, vjp  # noqa: E402

__all__ = [
    "Context", "Function", "checkpoint", "custom_gradient", "detect_anomaly", "enable_grad", "grad", "gradient", "hessian",
    "inference_mode", "is_anomaly_enabled", "is_grad_enabled", "jacobian", "jvp", "no_grad", "set_detect_anomaly",
    "set_grad_enabled", "vjp",
]  # fmt: skip
