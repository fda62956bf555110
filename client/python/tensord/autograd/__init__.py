"""Derivatives beyond Tensor.backward and Tensor.gradient: of several outputs, and of values that are computed again
instead of being kept. function has rules of one's own, modes computing without derivatives, functional derivatives of
functions, forward_ad those that go along with the values, hooks what is to happen on the way, anomaly the search for NaN,
and gradcheck compares with differences.

Gradients are tensors like others: they are computed when data is asked for. Those that gradient() gives can be
differentiated again; those of grad() and backward() with create_graph=True, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Optional, Union, overload

import _tensord
from _tensord import Tensor, is_grad_enabled

from tensord.autograd.anomaly import detect_anomaly, is_anomaly_enabled, set_detect_anomaly
from tensord.autograd.function import Context, Function, _call, _packed, _with_rule, custom_gradient
from tensord.autograd.modes import enable_grad, inference_mode, no_grad, set_grad_enabled
from tensord.errors import FailedPreconditionError, InvalidArgumentError

Tensors = Union[Tensor, Sequence[Tensor]]
Weights = Union[Tensor, Sequence[Optional[Tensor]], None]


def _listed(tensors: Tensors) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


@overload
def gradient(outputs: Tensors, inputs: Tensors,
             grad_outputs: Weights = None) -> list[Tensor]: ...
@overload
def gradient(outputs: Tensor, *, spacing: Any = 1, dim: Union[int, Sequence[int], None] = None,
             edge_order: int = 1) -> tuple[Tensor, ...]: ...
def gradient(outputs: Tensors, inputs: Optional[Tensors] = None,
             grad_outputs: Weights = None, *, spacing: Any = 1,
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
    weights = _weights("gradient", grad_outputs, outs)
    total: Optional[list[Tensor]] = None
    for out, weight in zip(outs, weights):
        parts = out.gradient(*ins, gradient=weight)
        total = parts if total is None else [a + b for a, b in zip(total, parts)]
    assert total is not None
    return total


def _weights(name: str, given: Weights, outs: Sequence[Tensor]) -> list[Optional[Tensor]]:
    """One for each output."""
    weights: list[Optional[Tensor]] = [given] * len(outs) if given is None or isinstance(given, Tensor) else list(given)
    if len(weights) != len(outs):
        raise InvalidArgumentError(f"{name}: {len(weights)} weights for {len(outs)} outputs")
    if not outs:
        raise InvalidArgumentError(f"{name}: there are no outputs")
    return weights


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


def grad(outputs: Tensors, inputs: Tensors, grad_outputs: Weights = None, retain_graph: Optional[bool] = None,
         create_graph: bool = False, allow_unused: Optional[bool] = None, is_grads_batched: bool = False,
         materialize_grads: bool = False) -> tuple[Any, ...]:
    """torch.autograd.grad: `gradient` as a tuple, detached without create_graph.

    Inputs and outputs must require a gradient. An input without influence is an error; with allow_unused it gets None, and
    with materialize_grads zeros. is_grads_batched: the weights have an axis in front, along which they are many, and so
    have the results, which are computed at once. retain_graph changes nothing. RuntimeError says what is missing.
    """
    outs, ins = _listed(outputs), _listed(inputs)
    if materialize_grads and allow_unused is False:
        raise InvalidArgumentError("grad: materialize_grads gives zeros to inputs without influence, so allow_unused is not "
                                   "False")
    for name, tensors in ("output", outs), ("input", ins):
        for i, tensor in enumerate(tensors):
            if not tensor.requires_grad:
                raise FailedPreconditionError(f"grad: {name} {i} does not require a gradient; gradient() takes any tensors")
    weights = _weights("grad", grad_outputs, outs)
    versions = [_versions_below(outs, x) for x in ins]
    if not (allow_unused or materialize_grads):
        for i, found in enumerate(versions):
            if not found:
                raise InvalidArgumentError(f"grad: input {i} has no influence on the outputs; say allow_unused=True to get "
                                           "None, or materialize_grads=True for zeros")
    wanted = [version for found in versions for version in found]

    def pulled(*given: Optional[Tensor]) -> list[Tensor]:
        made = iter(gradient(outs, wanted, given) if wanted else ())
        sums = [sum((next(made) for _ in found[1:]), next(made)) for found in versions if found]
        return sums if create_graph else [each.detach() for each in sums]

    if is_grads_batched:
        from tensord.func import vmap

        if any(weight is None for weight in weights):
            raise InvalidArgumentError("grad: is_grads_batched needs grad_outputs, with an axis in front")
        sums = iter(vmap(pulled)(*weights) if wanted else ())
    else:
        sums = iter(pulled(*weights))
    return tuple(next(sums) if found else x.detach() * 0 if materialize_grads else None for found, x in zip(versions, ins))


def _versions_below(outs: Sequence[Tensor], x: Tensor) -> list[Tensor]:
    """The versions of x that the outputs are made of: itself, or those from before it was written to, if it is a leaf."""
    if any(_tensord._reaches(out, x) for out in outs):
        return [x]
    if not x.is_leaf or _tensord.is_capturing():
        return []
    found = {_tensord._version(at): at for out in outs for tensor, at in _tensord._gradient_targets(out)
             if tensor is not None and hash(tensor) == hash(x)}  # fmt: skip
    return list(found.values())


def backward(tensors: Tensors, grad_tensors: Weights = None, retain_graph: Optional[bool] = None,
             create_graph: bool = False, grad_variables: Weights = None, inputs: Optional[Tensors] = None) -> None:
    """torch.autograd.backward: Tensor.backward of several at once, so that a hook sees the sum of what arrives.

    Each is weighted by its tensor in grad_tensors, which has its shape; None is for a tensor of one element, as 1.
    """
    outs = _listed(tensors)
    weights = _weights("backward", grad_tensors if grad_variables is None else grad_variables, outs)
    only = None if inputs is None else _listed(inputs)
    for i, out in enumerate(outs):
        if not out.requires_grad:
            raise FailedPreconditionError(f"backward: tensor {i} does not require a gradient")
    if len(outs) == 1:
        outs[0].backward(weights[0], create_graph=create_graph, inputs=only)
        return
    for i, (out, weight) in enumerate(zip(outs, weights)):
        if weight is None and out.numel() != 1:
            raise InvalidArgumentError(f"backward: tensor {i} has shape {list(out.shape)}, and only one element needs no "
                                       "gradient of its own; give it in grad_tensors")
        if weight is not None and weight.shape != out.shape:
            raise InvalidArgumentError(f"backward: tensor {i} has shape {list(out.shape)}, its gradient "
                                       f"{list(weight.shape)}")
    row = Tensor.cat([out.reshape(-1) for out in outs])
    seeds = [_tensord._full([1], 1.0, row.dtype) if weight is None else weight.reshape(-1).cast(row.dtype)
             for weight in weights]  # fmt: skip
    row.backward(Tensor.cat(seeds), create_graph=create_graph, inputs=only)


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


# They build on all of the above.
from tensord.autograd import forward_ad, graph  # noqa: E402
from tensord.autograd.functional import hessian, jacobian, jvp, vjp  # noqa: E402
from tensord.autograd.gradcheck import gradcheck, gradgradcheck  # noqa: E402

__all__ = [
    "Context", "Function", "backward", "checkpoint", "custom_gradient", "detect_anomaly", "enable_grad", "forward_ad",
    "grad", "gradcheck", "gradgradcheck", "gradient", "graph", "hessian", "inference_mode", "is_anomaly_enabled",
    "is_grad_enabled", "jacobian", "jvp", "no_grad", "set_detect_anomaly", "set_grad_enabled", "vjp",
]  # fmt: skip
