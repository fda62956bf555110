"""Methods that tinygrad has and PyTorch has not, over what tensord has under other names."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, NoReturn, Optional, Union

import _tensord
from _tensord import SymInt, Tensor

from tensord.creation import Number, empty, full, full_like, randperm
from tensord.download import from_url
from tensord.dtypes import DTypeLike, bool_, from_py, promote_types, strong_dtype
from tensord.errors import InvalidArgumentError, UnimplementedError
from tensord.jit import function
from tensord.kernels import Kernel
from tensord.place import Devices

Constant = Union[Number, tuple[Number, ...]]

# ---- constants


def const(value: Constant, dtype: Optional[DTypeLike] = None) -> Tensor:
    """A number as a tensor without axes, a tuple of them as a vector. Without a dtype a number is weak: it takes that of
    what stands beside it."""
    if isinstance(value, tuple):
        return Tensor(list(value), dtype)
    return Tensor(value) if dtype is None else full((), value, dtype=dtype)


def const_like(self: Tensor, value: Constant, dtype: Optional[DTypeLike] = None) -> Tensor:
    """A number, or a tuple that broadcasts, in the shape and dtype of self. ValueError if it does not broadcast."""
    if not isinstance(value, tuple):
        return full_like(self, value, dtype=dtype)
    return const(value, self.dtype if dtype is None else dtype).broadcast_to(self.shape)


def invalids(*shape: Any, device: Devices = None, dtype: Optional[DTypeLike] = None) -> Tensor:
    """empty: what nobody should read."""
    return empty(*shape, device=device, dtype=dtype)


def ufix(self: Tensor, x: Any) -> Tensor:
    """x as an operand beside self: a tensor as it is, a number in the shape of self and the dtype that it has there."""
    return x if isinstance(x, Tensor) else const_like(self, x, strong_dtype(promote_types(self.dtype, from_py(x))))


# ---- operations


def usum(self: Tensor, *xs: Any) -> Tensor:
    """self + x + ..., from left to right; of bool whether one of them is true. Operands broadcast."""
    return reduce(operator.or_ if self.dtype == bool_ else operator.add, xs, self)


def uprod(self: Tensor, *xs: Any) -> Tensor:
    """self * x * ..., from left to right; of bool whether all of them are true. Operands broadcast."""
    return reduce(operator.and_ if self.dtype == bool_ else operator.mul, xs, self)


def sequential(self: Tensor, layers: Sequence[Callable[[Any], Any]]) -> Any:
    """What the last of these functions gives, each called with the result of the one before, the first with self."""
    return reduce(lambda x, layer: layer(x), layers, self)


# Elementwise operations by their names in tensord's IR and, where they have others, in tinygrad's.
_ALU: dict[str, Callable[..., Any]] = {
    **{name: getattr(Tensor, name) for name in (
        "neg", "exp", "exp2", "log", "log2", "sin", "sqrt", "reciprocal", "trunc", "add", "sub", "mul", "div", "pow",
        "where", "threefry")},
    "max": Tensor.maximum, "min": Tensor.minimum, "fdiv": Tensor.div,
    "floordiv": lambda a, b: a // b, "floormod": lambda a, b: a % b,
    "truncdiv": lambda a, b: a.div(b, rounding_mode="trunc"), "truncmod": lambda a, b: a.fmod(b),
    "idiv": lambda a, b: a.div(b, rounding_mode="trunc"), "mod": lambda a, b: a.fmod(b),
    "cdiv": lambda a, b: a.div(b, rounding_mode="trunc"), "cmod": lambda a, b: a.fmod(b),
    "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << b, "shr": lambda a, b: a >> b,
    "cmplt": lambda a, b: a < b, "cmpeq": lambda a, b: a == b, "cmpne": lambda a, b: a != b,
    "mulacc": lambda a, b, c: a * b + c, "fma": Tensor._fma,
}  # fmt: skip


def alu(self: Tensor, op: Any, *src: Any) -> Tensor:
    """The elementwise operation of a name, such as "add" or "CMPLT" (or an object with that `name`), of self and the
    other operands, which broadcast and are promoted as by the operator. "mulacc" is a * b + c, rounded after each of the
    two, "fma" rounds once, below float64 (float64 is a ValueError). ValueError names those that there are."""
    name = str(getattr(op, "name", op)).lower()
    if name not in _ALU:
        raise InvalidArgumentError(f"alu: there is no operation '{name}'; there are {', '.join(sorted(_ALU))}")
    result: Tensor = _ALU[name](self, *src)
    return result


def _imatmul(self: Tensor, other: Any) -> Tensor:
    """self becomes self @ other, as by assign: in its own memory, shape and dtype."""
    return self.assign(self.matmul(other))


# ---- parameters


def _is_param(self: Tensor) -> bool:
    """requires_grad: whether optimisers update it."""
    return self.requires_grad


def is_param_(self: Tensor, flag: bool = True) -> Tensor:
    """requires_grad_(flag): marks a parameter, or a buffer, which optimisers leave as it is. ValueError for a dtype that
    is no float."""
    return self.requires_grad_(flag)


def as_param(self: Tensor, slot: int) -> NoReturn:
    """Always raises: a function gets its placeholders when it is traced, with the shapes and dtypes of that call, and a
    graph that was built before has none to be exchanged."""
    raise UnimplementedError(
        f"as_param({slot}): there are no placeholders outside of a function; write call(a, b, fxn=lambda a, b: ...), whose "
        "parameters they are")


# ---- calls


def call(self: Tensor, *args: Any, fxn: Callable[..., Any], grad_fxn: Optional[Callable[..., Any]] = None) -> Any:
    """fxn(self, *args) as an operation, see tensord.function: traced on stand-ins, without effects. `grad_fxn(*grads,
    inputs, outputs)` is its derivative instead of the one that follows from the operations. To trace it once for many
    calls, keep tensord.function(fxn). TypeError if fxn is no function: an expression of placeholders (as_param) is none."""
    if not callable(fxn) or isinstance(fxn, Tensor):
        raise TypeError("call: fxn is a Python function of the tensors, such as lambda a, b: a @ b")
    return function(fxn, grad_fxn=grad_fxn)(self, *args)


def callify(self: Tensor, *others: Tensor) -> Tensor:
    """The graphs of these tensors end here: each becomes contiguous(), a border for fusion, and gradients go on through
    it. Returns self. Programs are what is called, so there is no node to make. RuntimeError in a captured function."""
    for tensor in (self, *others):
        tensor.replace(tensor.contiguous())
    return self


def custom_kernel(self: Tensor, *others: Any, fxn: Callable[..., None],
                  grad_fxn: Optional[Callable[..., Any]] = None) -> list[Tensor]:
    """[what the kernel makes of the shape and dtype of self, *others], by a function of a kernel as tensord.kernel takes
    it: fxn(out, *others) stores into `out`, which replaces self; the others are read. Unlike tinygrad's, it writes one
    tensor, and none in place. `grad_fxn(grad, *others)` gives the gradients of the others, see Kernel.gradient.
    """
    kernel = Kernel(fxn)
    if grad_fxn is not None:
        kernel.gradient(grad_fxn)
    return [kernel(*others, out_like=self), *others]


def linear_with_vars(self: Tensor, *others: Tensor) -> tuple[list[str], dict[str, int]]:
    """The names of the kernels and copies that realize(self, *others) would run, in order, and the values of the Variables
    that they would read. They are scheduled and compiled by the daemon, and not run (parameters that were never computed
    are). What is in the body of a loop stands once. RuntimeError in a captured function, or for a Variable without a value;
    NotImplementedError for a tensor that only moves between devices."""
    kernels, variables = _tensord._schedule([self, *others])
    return list(kernels), dict(variables)


def schedule_linear(self: Tensor, *others: Tensor) -> list[str]:
    """The kernels of linear_with_vars."""
    return linear_with_vars(self, *others)[0]


# ---- sizes that vary


def _max_shape(self: Tensor) -> tuple[int, ...]:
    """The shape, where a size that varies counts as the largest that it can be."""
    return tuple(size.high if isinstance(size, SymInt) else size for size in self.shape)


def max_numel(self: Tensor) -> int:
    """The number of elements of max_shape."""
    return reduce(operator.mul, _max_shape(self), 1)


for _method in (alu, as_param, call, callify, const_like, custom_kernel, is_param_, linear_with_vars, max_numel,
                schedule_linear, sequential, ufix, uprod, usum):  # fmt: skip
    setattr(Tensor, _method.__name__, _method)
for _function in (const, from_url, invalids, randperm):
    setattr(Tensor, _function.__name__, staticmethod(_function))
setattr(Tensor, "__imatmul__", _imatmul)
setattr(Tensor, "is_param", property(_is_param))
setattr(Tensor, "max_shape", property(_max_shape))
# There are no images, so the layout of these is that of every tensor.
setattr(Tensor, "image_conv2d", Tensor.conv2d)
setattr(Tensor, "image_dot", Tensor.dot)
