"""Element types, named as in NumPy and PyTorch."""

from __future__ import annotations

from typing import Any, Final, Union

from _tensord import DType, dtype, promote_types

#: What a dtype argument may be: ours, a name, or one of NumPy's or Python's types.
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

half: Final[DType] = float16
float_: Final[DType] = float32
double: Final[DType] = float64
int_: Final[DType] = int32
long: Final[DType] = int64

__all__ = [
    "DType", "DTypeLike", "dtype", "promote_types",
    "bool_", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
    "float8_e4m3", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz",
    "float16", "bfloat16", "float32", "float64",
    "half", "float_", "double", "int_", "long",
]  # fmt: skip
