"""Element types: their names, groups, limits, promotion and defaults.

    >>> dtypes.least_upper_dtype("int8", "uint8")
    tensord.int16
    >>> dtypes.finfo("bfloat16").max
    3.3895313892515355e+38

Where a dtype is asked for, its name, NumPy's, PyTorch's and Python's types are understood too.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import Any, Final, NamedTuple, Union

import _tensord
from _tensord import (
    DType,
    can_lossless_cast,
    default_dtypes,
    dtype,
    from_py,
    least_upper_float,
    promote_types,
    set_default_dtype,
    strong_dtype,
    sum_acc_dtype,
)

#: What a dtype argument may be: ours, a name, or one of NumPy's, PyTorch's or Python's types.
DTypeLike = Union[DType, str, type, Any]

bool_: Final[DType] = dtype("bool")
int8: Final[DType] = dtype("int8")
uint8: Final[DType] = dtype("uint8")
int16: Final[DType] = dtype("int16")
uint16: Final[DType] = dtype("uint16")
int32: Final[DType] = dtype("int32")
uint32: Final[DType] = dtype("uint32")
int64: Final[DType] = dtype("int64")
uint64: Final[DType] = dtype("uint64")
float8_e4m3: Final[DType] = dtype("float8_e4m3fn")
float8_e5m2: Final[DType] = dtype("float8_e5m2")
float8_e4m3fnuz: Final[DType] = dtype("float8_e4m3fnuz")
float8_e5m2fnuz: Final[DType] = dtype("float8_e5m2fnuz")
float16: Final[DType] = dtype("float16")
bfloat16: Final[DType] = dtype("bfloat16")
float32: Final[DType] = dtype("float32")
float64: Final[DType] = dtype("float64")
#: Of the IR's ops that have no value. No tensor has it: an error wherever a tensor's dtype is asked for.
void: Final[DType] = DType("void")
#: Of plain numbers: they take the dtype of what stands beside them, and have no storage.
weakint: Final[DType] = dtype("weakint")
weakfloat: Final[DType] = dtype("weakfloat")

# Other names of the same.
char: Final[DType] = int8
uchar: Final[DType] = uint8
byte: Final[DType] = uint8
short: Final[DType] = int16
ushort: Final[DType] = uint16
int_: Final[DType] = int32
uint: Final[DType] = uint32
long: Final[DType] = int64
ulong: Final[DType] = uint64
half: Final[DType] = float16
float_: Final[DType] = float32
double: Final[DType] = float64
float8_e4m3fn: Final[DType] = float8_e4m3
fp8e4m3: Final[DType] = float8_e4m3
fp8e5m2: Final[DType] = float8_e5m2
fp8e4m3fnuz: Final[DType] = float8_e4m3fnuz
fp8e5m2fnuz: Final[DType] = float8_e5m2fnuz

# Groups.
fp8_ocp: Final = (float8_e4m3, float8_e5m2)
fp8_fnuz: Final = (float8_e4m3fnuz, float8_e5m2fnuz)
fp8s: Final = (*fp8_ocp, *fp8_fnuz)
floats: Final = (*fp8s, float16, bfloat16, float32, float64)
sints: Final = (int8, int16, int32, int64)
uints: Final = (uint8, uint16, uint32, uint64)
ints: Final = (*uints, *sints)
int8s: Final = (int8, uint8)
int16s: Final = (int16, uint16)
int32s: Final = (int32, uint32)
int64s: Final = (int64, uint64)
weaks: Final = (weakint, weakfloat)
all: Final = (bool_, *ints, *floats)


class FloatInfo(NamedTuple):
    """Of a float. As a pair, the exponent's and the mantissa's bits."""

    exponent_bits: int
    mantissa_bits: int
    bits: int
    min: float
    max: float
    eps: float
    smallest_normal: float
    smallest_subnormal: float


class IntInfo(NamedTuple):
    bits: int
    min: int
    max: int


def finfo(dtype: DTypeLike) -> FloatInfo:
    """Bits and limits of a float; ValueError for others."""
    return FloatInfo(**_tensord._finfo(dtype))


def iinfo(dtype: DTypeLike) -> IntInfo:
    """Bits and limits of an integer or bool; ValueError for floats."""
    parsed = to_dtype(dtype)
    if is_float(parsed):
        raise _invalid(f"iinfo: {parsed} is no integer; see finfo")
    return IntInfo(parsed.bitsize, int(parsed.min), int(parsed.max))


def _invalid(message: str) -> Exception:
    from tensord.errors import InvalidArgumentError
    return InvalidArgumentError(message)


def to_dtype(dtype: DTypeLike) -> DType:
    return dtype if isinstance(dtype, DType) else _tensord.dtype(dtype)


def is_float(dtype: DTypeLike) -> bool:
    return to_dtype(dtype) in floats or to_dtype(dtype) == weakfloat


def is_int(dtype: DTypeLike) -> bool:
    return to_dtype(dtype) in ints or to_dtype(dtype) == weakint


def is_unsigned(dtype: DTypeLike) -> bool:
    return to_dtype(dtype) in uints


def is_bool(dtype: DTypeLike) -> bool:
    return to_dtype(dtype) in (bool_,)


def weak_dtype(dtype: DTypeLike) -> DType:
    """The weak dtype of the same kind; bool is itself."""
    return weakfloat if is_float(dtype) else weakint if is_int(dtype) else to_dtype(dtype)


def least_upper_dtype(*dtypes: DTypeLike) -> DType:
    """The least dtype that stands above all of them in the lattice; what an operation over them gives."""
    first, *rest = dtypes
    result = to_dtype(first)
    for other in rest:
        result = promote_types(result, other)
    return result


def to_bits(value: float, dtype: DTypeLike) -> int:
    """The bits that a number has in the dtype, rounded as casts round."""
    return to_dtype(dtype)._to_bits(value)


def from_bits(bits: int, dtype: DTypeLike) -> Union[int, float]:
    """The number that these bits are in the dtype."""
    number: Union[int, float] = to_dtype(dtype)._from_bits(bits)
    return number


for _name, _group in (("TENSORD_DEFAULT_FLOAT", floats), ("TENSORD_DEFAULT_INT", ints)):
    _value = os.environ.get(_name)
    if _value is not None and not any(_value == known for known in _group):
        raise _invalid(f"{_name}={_value}: one of {', '.join(map(str, _group))} is needed")
del _name, _group, _value

__all__ = [
    "DType", "DTypeLike", "dtype", "promote_types", "least_upper_dtype", "least_upper_float", "can_lossless_cast",
    "sum_acc_dtype", "strong_dtype", "weak_dtype", "to_dtype", "from_py", "finfo", "iinfo", "is_float", "is_int",
    "is_unsigned", "is_bool", "default_float", "default_int", "set_default_dtype", "default_dtypes", "to_bits",
    "from_bits",
    "bool_", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
    "float8_e4m3", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz",
    "float16", "bfloat16", "float32", "float64", "weakint", "weakfloat", "void",
    "char", "uchar", "byte", "short", "ushort", "int_", "uint", "long", "ulong", "half", "float_", "double",
    "float8_e4m3fn", "fp8e4m3", "fp8e5m2", "fp8e4m3fnuz", "fp8e5m2fnuz",
    "fp8_ocp", "fp8_fnuz", "fp8s", "floats", "sints", "uints", "ints", "int8s", "int16s", "int32s", "int64s", "weaks",
]  # fmt: skip


#: What plain floats and plain integers become; assigning one is set_default_dtype. From `dtypes` they are read as they are
#: then, `from tensord.dtypes import default_float` takes what is the default at that time.
default_float: DType
default_int: DType


class _Module(ModuleType):
    """This module, with the defaults as attributes."""

    @property
    def default_float(self) -> DType:
        return _tensord.default_float()

    @default_float.setter
    def default_float(self, dtype: DTypeLike) -> None:
        _set_default("default_float", dtype, floats)

    @property
    def default_int(self) -> DType:
        return _tensord.default_int()

    @default_int.setter
    def default_int(self, dtype: DTypeLike) -> None:
        _set_default("default_int", dtype, ints)


def _set_default(name: str, dtype: DTypeLike, group: tuple[DType, ...]) -> None:
    if to_dtype(dtype) not in group:
        raise _invalid(f"{name} = {dtype}: one of {', '.join(map(str, group))} is needed")
    set_default_dtype(dtype)


sys.modules[__name__].__class__ = _Module


def __getattr__(name: str) -> DType:
    # Names that would hide Python's own in this file.
    plain = {"bool": bool_, "int": int32, "float": float32}
    if name in plain:
        return plain[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
