"""Kernels written by hand: what one launch computes, element by element.

    @tensord.kernel
    def add_one(out, x):
        i, j = tensord.kernel.ranges(*out.shape)
        out[i, j] = x[i, j] + 1

    y = add_one(x, out_like=x)

The function is called with descriptions of its outputs and inputs, once for each call and not once for each element:
ranges stand for all turns of a loop, and what is computed of them and of elements is the code of the loop. They are
tensors without axes and without data, so everything elementwise works on them: arithmetic, comparisons, tensord.where,
exp, float(), ... The compiler vectorises the loops and runs them in parallel.

What it may rely on is proven when the kernel is called; see docs/kernels.md for the rules.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Sequence
from typing import Any, Union

import _tensord
from _tensord import Tensor

from tensord.autograd.function import _packed, _with_rule

Scalar = Union[Tensor, bool, int, float]

_calls = threading.local()


def _current(what: str) -> _tensord._KernelCall:
    stack = getattr(_calls, "stack", None)
    if not stack:
        raise RuntimeError(f"{what} works in the function of a kernel only")
    call: _tensord._KernelCall = stack[-1]
    return call


class _Operand:
    """An output or input as the kernel's function sees it."""

    def __init__(self, call: _tensord._KernelCall, number: int, name: str, shape: tuple[int, ...], dtype: Any) -> None:
        self._call, self._number, self._name = call, number, name
        self.shape, self.dtype, self.ndim = shape, dtype, len(shape)

    def __repr__(self) -> str:
        return f"{self._name}: {self.dtype}{list(self.shape)}"

    def _index(self, index: Any) -> list[Tensor]:
        parts = index if isinstance(index, tuple) else (index,)
        if len(parts) != self.ndim:
            raise IndexError(f"{self._name} has {self.ndim} axes, {len(parts)} indices are given; a kernel computes "
                             "with single elements")
        result = []
        for axis, part in enumerate(parts):
            if isinstance(part, Tensor):
                result.append(part)
            elif isinstance(part, int):
                result.append(Tensor(part + self.shape[axis] if part < 0 else part))
            else:
                raise TypeError(f"{self._name}: an index is an integer or a value of the kernel, not a "
                                f"{type(part).__name__}")  # fmt: skip
        return result


class Output(_Operand):
    """An output: `out[i, j] = value` stores each of its elements, once, cast to its dtype."""

    def __setitem__(self, index: Any, value: Scalar) -> None:
        value = value if isinstance(value, Tensor) else Tensor(value)
        self._call.store(self._number, self._index(index), value)

    def __getitem__(self, index: Any) -> Tensor:
        raise TypeError(f"{self._name} is an output and can't be read; use the value that you store")


class Input(_Operand):
    """An input: `x[i, j]` is an element of it."""

    def __getitem__(self, index: Any) -> Tensor:
        return self._call.load(self._number, self._index(index))

    def at(self, *index: Any, where: Tensor, other: Scalar = 0) -> Tensor:
        """The element at the index where the condition holds, and only there must it be inside; `other` elsewhere."""
        gate = where if isinstance(where, Tensor) else Tensor(bool(where))
        value = self._call.load(self._number, self._index(index), gate)
        if isinstance(other, (bool, int, float)) and other == 0:
            return value
        return Tensor.where(gate, value, other)


def _outputs(out: Any, out_like: Any) -> tuple[list[tuple[tuple[int, ...], Any]], bool]:
    """Shape and dtype of each output, and whether there is one only."""
    if (out is None) == (out_like is None):
        raise TypeError("a kernel is called with either out=(shape, dtype) or out_like=tensor; or a list of such")
    if out_like is not None:
        single = isinstance(out_like, Tensor)
        likes = [out_like] if single else list(out_like)
        return [(tuple(like.shape), like.dtype) for like in likes], single
    single = not isinstance(out, list)
    described = [out] if single else out
    result = []
    for one in described:
        if not isinstance(one, tuple) or len(one) != 2:
            raise TypeError(f"an output is (shape, dtype), not {one!r}")
        shape, dtype = one
        result.append(((shape,) if isinstance(shape, int) else tuple(shape), dtype))
    return result, single


class Kernel:
    """A function that kernels are made of; call it with the inputs and `out` or `out_like`.

    Arguments that are no tensors are handed to the function as they are.
    """

    def __init__(self, function: Callable[..., None]) -> None:
        self._function = function
        self._rule: Callable[..., Any] | None = None
        self.__name__ = getattr(function, "__name__", "kernel")
        self.__doc__ = function.__doc__
        self._parameters = [name for name, parameter in inspect.signature(function).parameters.items()
                            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)]

    def gradient(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Gives the kernel a gradient: `rule(*grads, *inputs)`, with a gradient for each output.

        It returns the gradient of each argument, in order, None where there is none. A keyword parameter `outputs` gets
        what the kernel computed. The rule is called when the kernel is, so it computes with tensors and asks for no
        data. What it returns can be differentiated again.
        """
        self._rule = rule
        return rule

    def __call__(self, *inputs: Any, out: Any = None, out_like: Any = None) -> Any:
        described, single = _outputs(out, out_like)
        names = self._parameters + [f"argument{i}" for i in range(len(self._parameters), len(described) + len(inputs))]
        places = [i for i, value in enumerate(inputs) if isinstance(value, Tensor)]
        tensors = [inputs[i] for i in places]
        call = _tensord._KernelCall(
            self.__name__ if self.__name__.isidentifier() and self.__name__.isascii() else "kernel",
            [(names[k], dtype, list(shape)) for k, (shape, dtype) in enumerate(described)],
            tensors, [names[len(described) + i] for i in places])  # fmt: skip
        if not call.is_empty:
            arguments: list[Any] = [Output(call, k, names[k], *one) for k, one in enumerate(described)]
            numbers = iter(range(len(places)))
            for i, value in enumerate(inputs):
                if isinstance(value, Tensor):
                    value = Input(call, next(numbers), names[len(described) + i], tuple(value.shape), value.dtype)
                arguments.append(value)
            self._run(call, arguments)
        values = call.finish()
        if self._rule is not None:
            values = self._with_gradient(values, inputs, self._rule)
        return _packed(values, single)

    def _run(self, call: _tensord._KernelCall, arguments: Sequence[Any]) -> None:
        stack = _calls.__dict__.setdefault("stack", [])
        stack.append(call)
        try:
            self._function(*arguments)
        finally:
            stack.pop()

    @staticmethod
    def _with_gradient(values: list[Tensor], inputs: Sequence[Any], rule: Callable[..., Any]) -> list[Tensor]:
        wants_outputs = "outputs" in inspect.signature(rule).parameters
        extra: dict[str, Any] = {"outputs": tuple(values)} if wants_outputs else {}

        def grads(incoming: list[Tensor]) -> Sequence[Any]:
            made = rule(*incoming, *inputs, **extra)
            return [made] if made is None or isinstance(made, Tensor) else made

        return _with_rule(values, inputs, grads)


class _Language:
    """`tensord.kernel`: the decorator, and what functions of kernels use."""

    def __call__(self, function: Callable[..., None]) -> Kernel:
        return Kernel(function)

    def ranges(self, *sizes: int) -> tuple[Tensor, ...]:
        """Loops: 0 ... size-1 for each size, as int64. They run in any order and in parallel."""
        call = _current("kernel.ranges")
        return tuple(call.range(size) for size in sizes)

    def range(self, size: int) -> Tensor:
        """One loop."""
        return _current("kernel.range").range(size)

    def reduce_range(self, size: int) -> Tensor:
        """A loop that sum, prod, max or min closes; without turns they give what they start from."""
        return _current("kernel.reduce_range").reduce_range(size)

    def _reduce(self, kind: str, value: Scalar, ranges: tuple[Tensor, ...]) -> Tensor:
        value = value if isinstance(value, Tensor) else Tensor(value)
        return _current(f"kernel.{kind}").reduce(kind, value, list(ranges))

    def sum(self, value: Scalar, *ranges: Tensor) -> Tensor:
        """The sum of the value over all turns of reduce ranges; in float32 for smaller floats, as Tensor.sum."""
        return self._reduce("add", value, ranges)

    def prod(self, value: Scalar, *ranges: Tensor) -> Tensor:
        """The product likewise."""
        return self._reduce("mul", value, ranges)

    def max(self, value: Scalar, *ranges: Tensor) -> Tensor:
        """The largest value; NaN if there is one."""
        return self._reduce("max", value, ranges)

    def min(self, value: Scalar, *ranges: Tensor) -> Tensor:
        """The smallest value; NaN if there is one."""
        return self._reduce("min", value, ranges)


kernel = _Language()
"""Makes a kernel of a function, and holds what such functions use."""
