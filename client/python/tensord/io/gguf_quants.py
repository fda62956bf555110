"""GGUF's block formats, computed on the device from the blocks as they lie in the file.

A block holds some numbers of one row: integers of few bits and the scales that make numbers of them. So the daemon gets
a quarter or so of the bytes that floats take, and the conversion is part of the kernels that use the tensor.

Each format is a function from blocks, uint8 [blocks, bytes], to float32 [blocks, values].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from _tensord import Tensor

from tensord import dtypes
from tensord.creation import arange


def _fields(packed: Tensor, bits: int, width: int) -> Tensor:
    """Integers of `bits` bits, int32 [blocks, fields]: of each `width` bytes first the lowest bits of all, ..."""
    shifts = arange(0, 8, bits, dtype=dtypes.uint8).reshape(-1, 1)
    groups = packed.reshape(packed.shape[0], packed.shape[1] // width, 1, width)
    fields: Tensor = ((groups >> shifts) & (2**bits - 1)).cast(dtypes.int32)
    return fields.reshape(packed.shape[0], packed.shape[1] * 8 // bits)


def _half(blocks: Tensor, at: int) -> Tensor:
    """The float16 at a byte, as float32 [blocks, 1]."""
    return blocks[:, at : at + 2].bitcast(dtypes.float16).cast(dtypes.float32)


def _scaled(numbers: Tensor, scales: Tensor) -> Tensor:
    """Scale i times the i-th of equal parts of a block: [blocks, n] and [blocks, k] to [blocks, n]."""
    return _spread(scales, numbers.shape[1]) * numbers.cast(dtypes.float32)


def _spread(scales: Tensor, values: int) -> Tensor:
    blocks, count = scales.shape
    return scales.reshape(blocks, count, 1).expand(blocks, count, values // count).reshape(blocks, values)


def _of_table(index: Tensor, table: Sequence[int]) -> Tensor:
    return Tensor(list(table), dtypes.int32).take(index)


def _q4_0(b: Tensor) -> Tensor:
    return _scaled(_fields(b[:, 2:], 4, 16) - 8, _half(b, 0))


def _q4_1(b: Tensor) -> Tensor:
    return _scaled(_fields(b[:, 4:], 4, 16), _half(b, 0)) + _half(b, 2)


def _five_bits(b: Tensor, at: int) -> Tensor:
    return _fields(b[:, at + 4 :], 4, 16) | (_fields(b[:, at : at + 4], 1, 1) << 4)


def _q5_0(b: Tensor) -> Tensor:
    return _scaled(_five_bits(b, 2) - 16, _half(b, 0))


def _q5_1(b: Tensor) -> Tensor:
    return _scaled(_five_bits(b, 4), _half(b, 0)) + _half(b, 2)


def _q8_0(b: Tensor) -> Tensor:
    return _scaled(b[:, 2:].bitcast(dtypes.int8), _half(b, 0))


def _q2_k(b: Tensor) -> Tensor:
    pairs = b[:, :16]
    scales = _half(b, 80) * (pairs & 15).cast(dtypes.float32)
    mins = _half(b, 82) * (pairs >> 4).cast(dtypes.float32)
    return _scaled(_fields(b[:, 16:80], 2, 32), scales) - _spread(mins, 256)


def _q3_k(b: Tensor) -> Tensor:
    scales = (_fields(b[:, 96:104], 4, 8) | (_fields(b[:, 104:108], 2, 4) << 4)) - 32
    # The third bit says that 4 is not taken off.
    numbers = (_fields(b[:, 32:96], 2, 32) | (_fields(b[:, :32], 1, 32) << 2)) - 4
    return _scaled(numbers, _half(b, 108) * scales.cast(dtypes.float32))


def _scales_and_mins(b: Tensor) -> tuple[Tensor, Tensor]:
    """Eight of each with 6 bits in the 12 bytes from byte 4 on, times their factors: the first four in the low bits of
    bytes, the others in halves of four bytes, with the two top bits of the first ones on top."""
    low, high, halves = b[:, 4:8], b[:, 8:12], b[:, 12:16]
    scales = Tensor.cat([low & 63, (halves & 15) | ((low >> 6) << 4)], dim=1)
    mins = Tensor.cat([high & 63, (halves >> 4) | ((high >> 6) << 4)], dim=1)
    return _half(b, 0) * scales.cast(dtypes.float32), _half(b, 2) * mins.cast(dtypes.float32)


def _q4_k(b: Tensor) -> Tensor:
    scales, mins = _scales_and_mins(b)
    return _scaled(_fields(b[:, 16:], 4, 32), scales) - _spread(mins, 256)


def _q5_k(b: Tensor) -> Tensor:
    scales, mins = _scales_and_mins(b)
    numbers = _fields(b[:, 48:], 4, 32) | (_fields(b[:, 16:48], 1, 32) << 4)
    return _scaled(numbers, scales) - _spread(mins, 256)


def _q6_k(b: Tensor) -> Tensor:
    numbers = (_fields(b[:, :128], 4, 64) | (_fields(b[:, 128:192], 2, 32) << 4)) - 32
    return _scaled(numbers, _half(b, 208) * b[:, 192:208].bitcast(dtypes.int8).cast(dtypes.float32))


# The 16 values of the "non-linear" 4-bit formats.
_IQ4 = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)


def _iq4_nl(b: Tensor) -> Tensor:
    return _scaled(_of_table(_fields(b[:, 2:], 4, 16), _IQ4), _half(b, 0))


def _iq4_xs(b: Tensor) -> Tensor:
    scales = (_fields(b[:, 4:8], 4, 1) | (_fields(b[:, 2:4], 2, 1) << 4)) - 32
    return _scaled(_of_table(_fields(b[:, 8:], 4, 16), _IQ4), _half(b, 0) * scales.cast(dtypes.float32))


def _mxfp4(b: Tensor) -> Tensor:
    # The table has twice the values, hence half of 2 ** (exponent - 127): below 2 a subnormal.
    exponent = b[:, :1].cast(dtypes.int32)
    scale = (exponent < 2).where(0x200000 << exponent.clamp(0, 1), (exponent - 1) << 23).bitcast(dtypes.float32)
    return _scaled(
        _of_table(_fields(b[:, 1:], 4, 16), (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)), scale
    )


class BlockFormat(NamedTuple):
    name: str
    values: int  # of a block
    nbytes: int
    numbers: Callable[[Tensor], Tensor]


#: By the number of the type in the file.
BLOCK_FORMATS = {
    2: BlockFormat("Q4_0", 32, 18, _q4_0),
    3: BlockFormat("Q4_1", 32, 20, _q4_1),
    6: BlockFormat("Q5_0", 32, 22, _q5_0),
    7: BlockFormat("Q5_1", 32, 24, _q5_1),
    8: BlockFormat("Q8_0", 32, 34, _q8_0),
    10: BlockFormat("Q2_K", 256, 84, _q2_k),
    11: BlockFormat("Q3_K", 256, 110, _q3_k),
    12: BlockFormat("Q4_K", 256, 144, _q4_k),
    13: BlockFormat("Q5_K", 256, 176, _q5_k),
    14: BlockFormat("Q6_K", 256, 210, _q6_k),
    20: BlockFormat("IQ4_NL", 32, 18, _iq4_nl),
    23: BlockFormat("IQ4_XS", 256, 136, _iq4_xs),
    39: BlockFormat("MXFP4", 32, 17, _mxfp4),
}

#: Those that are left out, so that an error can name them.
UNREAD_FORMATS = {
    9: "Q8_1", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 21: "IQ3_S", 22: "IQ2_S",
    29: "IQ1_M",
    34: "TQ1_0", 35: "TQ2_0", 40: "NVFP4", 41: "Q1_0",
}  # fmt: skip

__all__ = ["BLOCK_FORMATS", "UNREAD_FORMATS", "BlockFormat"]
