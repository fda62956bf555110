"""Loops that run on the device: their body is compiled once, however often it runs.

Each takes functions that are called once, with tensors that stand for what an iteration finds, and
builds the body from what they return. Tensors from outside may be used in them; what does not
depend on the iteration is computed once, before the loop. State may be a tensor, or any nesting of
tuples, lists and dicts of tensors, numbers and arrays; each keeps its shape and dtype from one
iteration to the next. Random numbers that a body draws are drawn once and equal in each iteration.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import _tensord
from _tensord import Tensor

from tensord.creation import zeros
from tensord.jit import _key
from tensord.structure import Leaf as _Leaf, flatten as _flatten, unflatten as _unflatten


def _tensors(state: Any) -> tuple[Any, list[Tensor]]:
    """The structure of the state, and its tensors; numbers become tensors."""
    def convert(value: Any) -> Any:
        if isinstance(value, (bool, int, float)):
            return Tensor(value)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*(convert(item) for item in value))
        if isinstance(value, (tuple, list)):
            return type(value)(convert(item) for item in value)
        if isinstance(value, dict):
            return {key: convert(item) for key, item in value.items()}
        return value

    tensors: list[Tensor] = []
    structure = _flatten(convert(state), tensors)
    return structure, tensors


def _same(name: str, before: Any, after: Any) -> None:
    if _key(before) != _key(after):
        raise TypeError(f"{name}: the body returns another structure than the state has: "
                        f"{_shown(after)} instead of {_shown(before)}")


def _shown(structure: Any) -> str:
    if isinstance(structure, _Leaf):
        return "tensor"
    if isinstance(structure, (tuple, list)):
        items = ", ".join(_shown(item) for item in structure)
        return f"({items})" if isinstance(structure, tuple) else f"[{items}]"
    if isinstance(structure, dict):
        return "{" + ", ".join(f"{key!r}: {_shown(item)}" for key, item in structure.items()) + "}"
    return repr(structure)


def while_loop(cond_fun: Callable[[Any], Tensor], body_fun: Callable[[Any], Any], init_val: Any,
               max_iterations: int | None = None) -> Any:
    """The state after ``while cond_fun(state): state = body_fun(state)``.

    cond_fun returns a bool tensor of one element. The loop ends after `max_iterations` in any case.
    It has no gradient, because how often it runs is not known before; fori_loop and scan have.
    """
    structure, initial = _tensors(init_val)
    if not initial:
        raise TypeError("while_loop: the state holds no tensor")
    stand_ins = _tensord._begin_loop(initial)
    state = _unflatten(structure, stand_ins)
    after, following = _tensors(body_fun(state))
    _same("while_loop", structure, after)
    condition = cond_fun(state)
    if not isinstance(condition, Tensor):
        raise TypeError(f"while_loop: cond_fun returns {type(condition).__name__}, not a tensor")
    results = _tensord._end_loop(stand_ins, condition, following, max_iterations)
    return _unflatten(structure, results)


def fori_loop(lower: int, upper: int, body_fun: Callable[[Tensor, Any], Any], init_val: Any) -> Any:
    """The state after ``for i in range(lower, upper): state = body_fun(i, state)``.

    i is an int32 tensor without axes. Differentiable, again and again.
    """
    state, _ = scan(lambda carry, i: (body_fun(i, carry), None), init_val,
                    length=max(upper - lower, 0), _first=lower)
    return state


def scan(f: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any = None,
         length: int | None = None, reverse: bool = False, _first: int | None = None) -> tuple[Any, Any]:
    """``for x in xs: state, y = f(state, x)``; returns the last state, and the ys stacked.

    xs: tensors that are iterated over their first axis, of one length; without any, give `length`.
    y: whatever f returns second, in any structure; each part gets a new first axis. None for none.
    reverse: from the last x to the first; the ys stand where their xs stand.
    Differentiable, again and again: states are kept for each iteration only where needed.
    """
    structure, initial = _tensors(init)
    rows_structure, inputs = _tensors(xs)
    for tensor in inputs:
        if tensor.ndim == 0:
            raise ValueError("scan: a tensor without axes can't be iterated over")
        if length is None:
            length = tensor.shape[0]
        if tensor.shape[0] != length:
            raise ValueError(f"scan: {length} iterations over a tensor of shape {tuple(tensor.shape)}")
    if length is None:
        raise ValueError("scan: give xs or a length")
    stand_ins = _tensord._begin_loop([Tensor(0, dtype="int32"), *initial])
    counter = stand_ins[0]
    i = (length - 1) - counter if reverse else counter
    rows = [_tensord._row(tensor, i) for tensor in inputs]
    x = i + _first if _first is not None else _unflatten(rows_structure, rows)
    returned = f(_unflatten(structure, stand_ins[1:]), x)
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise TypeError("scan: f returns the next state and an output, as a tuple of two")
    after, following = _tensors(returned[0])
    _same("scan", structure, after)
    out_structure, outs = _tensors(returned[1])
    stacks = [zeros(length, *out.shape, dtype=out.dtype) for out in outs]
    stacking = _tensord._add_states(stand_ins, stacks) if stacks else []
    written = [_tensord._with_row(stack, i, out) for stack, out in zip(stacking, outs)]
    results = _tensord._end_loop([*stand_ins, *stacking], counter < length,
                                 [counter + 1, *following, *written], length)
    middle = 1 + len(initial)
    return _unflatten(structure, results[1:middle]), _unflatten(out_structure, results[middle:])
