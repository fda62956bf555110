"""GGUF, the files of llama.cpp: typed metadata, a table of tensors, and their data, often in blocks of few bits."""

from __future__ import annotations

import math
import re
import struct
from pathlib import Path
from typing import Any, NamedTuple, Optional

import numpy as np
from _tensord import DType, File, Tensor

from tensord import dtypes
from tensord.errors import InvalidArgumentError, NotFoundError, UnimplementedError
from tensord.io.checked import PathLike, invalid, open_file, shape_of, short
from tensord.io.gguf_quants import BLOCK_FORMATS, UNREAD_FORMATS

#: What the metadata may hold, so that a file of few bytes or of many does not fill the memory.
MAX_ELEMENTS = 1 << 26  # of all arrays together
MAX_STRING_BYTES = 1 << 26
MAX_DEPTH = 8  # of arrays in arrays

_WINDOW = 1 << 22

_NUMBERS = {
    0: "<u1",
    1: "<i1",
    2: "<u2",
    3: "<i2",
    4: "<u4",
    5: "<i4",
    6: "<f4",
    7: "<u1",
    10: "<u8",
    11: "<i8",
    12: "<f8",
}
_BOOL, _STRING, _ARRAY = 7, 8, 9

_DTYPES: dict[int, DType] = {
    0: dtypes.float32, 1: dtypes.float16, 24: dtypes.int8, 25: dtypes.int16, 26: dtypes.int32, 27: dtypes.int64,
    28: dtypes.float64, 30: dtypes.bfloat16,
}  # fmt: skip

_PART = re.compile(r"(.*)-(\d{5})-of-(\d{5})(\.gguf)$", re.DOTALL)


class _Entry(NamedTuple):
    name: str
    shape: tuple[int, ...]  # as rows of numbers: the file has it reversed
    kind: int
    offset: int  # from the start of the data
    nbytes: int


class _Cursor:
    """Goes through the file once, a window at a time."""

    def __init__(self, file: File) -> None:
        self.file, self.at = file, 0
        self._window, self._start = b"", 0
        self.elements = 0

    def take(self, count: int) -> bytes:
        if count > self.file.nbytes - self.at:
            raise invalid(self.file.path, f"{count} bytes are needed at byte {self.at} of {self.file.nbytes}: "
                                          "it was cut or is damaged")  # fmt: skip
        begin = self.at - self._start
        if begin + count > len(self._window):
            self._start, begin = self.at, 0
            self._window = self.file.read(self.at, min(max(count, _WINDOW), self.file.nbytes - self.at))
        self.at += count
        return self._window[begin : begin + count]

    def u32(self) -> int:
        return int.from_bytes(self.take(4), "little")

    def u64(self) -> int:
        return int.from_bytes(self.take(8), "little")

    def count(self, what: str, least_bytes: int) -> int:
        """A count of things that take that many bytes each, at the least."""
        count = self.u64()
        if count * least_bytes > self.file.nbytes - self.at:
            raise invalid(
                self.file.path, f"{count} {what} in a file of {self.file.nbytes} bytes: it was cut or is damaged"
            )
        return count

    def string(self) -> str:
        size = self.u64()
        if size > MAX_STRING_BYTES:
            raise invalid(self.file.path, f"a string of {size} bytes at byte {self.at}; {MAX_STRING_BYTES} are allowed")
        # Tokens of a vocabulary may be parts of characters.
        return self.take(size).decode("utf-8", "surrogateescape")

    def value(self, kind: int, depth: int = 0) -> Any:
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            return self.array(depth + 1)
        if kind not in _NUMBERS:
            raise invalid(self.file.path, f"a value of type {kind} at byte {self.at}; types 0 to 12 exist")
        return self.numbers(kind, 1)[0]

    def numbers(self, kind: int, count: int) -> list[Any]:
        dtype = np.dtype(_NUMBERS[kind])
        array = np.frombuffer(self.take(count * dtype.itemsize), dtype)
        if kind == _BOOL:
            if array.size and array.max() > 1:
                raise invalid(self.file.path, f"a bool that is {array.max()} before byte {self.at}")
            array = array.astype(bool)
        return list(array.tolist())

    def array(self, depth: int) -> list[Any]:
        if depth > MAX_DEPTH:
            raise invalid(self.file.path, f"arrays in arrays, more than {MAX_DEPTH} deep")
        kind = self.u32()
        least = np.dtype(_NUMBERS[kind]).itemsize if kind in _NUMBERS else 8 if kind == _STRING else 12
        count = self.count("elements of an array", least)
        self.elements += count
        if self.elements > MAX_ELEMENTS:
            raise invalid(self.file.path, f"arrays of {self.elements} elements or more; {MAX_ELEMENTS} are allowed")
        if kind in _NUMBERS:
            return self.numbers(kind, count)
        return [self.value(kind, depth) for _ in range(count)]


def gguf_load(file: PathLike, dtype: Optional[Any] = None) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """(metadata, tensors), both by name. Axes are in the order of rows: the file's `ne` reversed.

    `dtype`: of the float tensors. Without it, those in blocks become float32 and the others keep theirs. Blocks are
    sent to the device as they are when a tensor is first used, and computed there; so int8 or 4-bit weights take as
    much memory as in the file until somebody realises the floats.

    The first part of a split file, name-00001-of-0000N.gguf, stands for all of them. UnimplementedError for block
    formats that are not known.
    """
    wanted = None if dtype is None else dtypes.to_dtype(dtype)
    if wanted is not None and wanted not in dtypes.floats:
        raise InvalidArgumentError(f"gguf_load: dtype {wanted} is no float to compute with")
    opened = open_file(file)
    metadata, tensors = _load_part(opened, wanted)
    name = Path(file).name
    split = _PART.fullmatch(name)
    count = metadata.get("split.count", 1)
    if type(count) is not int or not split or count <= 1:
        return metadata, tensors
    stem, number, of, ending = split.groups()
    if int(of) != count:
        raise invalid(file, f"it says that it is one of {count} parts, its name says {int(of)}")
    if int(number) != 1:
        raise invalid(file, f"it is part {int(number)}; load the first one, {stem}-00001-of-{of}{ending}")
    for part in range(2, count + 1):
        path = Path(file).with_name(f"{stem}-{part:05}-of-{of}{ending}")
        if not path.exists():
            raise NotFoundError(f"'{path}', part {part} of {count}, is missing")
        of_part, more = _load_part(open_file(path), wanted)
        if of_part.get("split.no") != part - 1:
            raise invalid(
                path, f"it is called part {part} and says that it is number {short(of_part.get('split.no'))} from 0"
            )
        twice = tensors.keys() & more.keys()
        if twice:
            raise invalid(path, f"tensor {short(min(twice))} is in an earlier part, too")
        tensors |= more
    total = metadata.get("split.tensors.count", len(tensors))
    if total != len(tensors):
        raise invalid(file, f"its parts have {len(tensors)} tensors, and it says {short(total)}")
    return metadata, tensors


def _load_part(file: File, wanted: Optional[DType]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    cursor = _Cursor(file)
    if file.nbytes < 24 or cursor.take(4) != b"GGUF":
        raise invalid(file.path, "it does not start with 'GGUF'")
    version = cursor.u32()
    if version not in (2, 3):
        swapped = version and not version & 0xFFFF
        raise UnimplementedError(f"'{file.path}': " + (
            "big-endian; convert it, by gguf-convert-endian for example" if swapped
            else f"version {version} of GGUF; 2 and 3 are known"))  # fmt: skip
    tensor_count = cursor.count("tensors", 8 + 4 + 4 + 8)
    metadata: dict[str, Any] = {}
    for _ in range(cursor.count("entries of metadata", 8 + 4 + 1)):
        key = cursor.string()
        if key in metadata:
            raise invalid(file.path, f"the key {short(key)} is there twice")
        metadata[key] = cursor.value(cursor.u32())
    alignment = metadata.get("general.alignment", 32)
    if type(alignment) is not int or alignment < 1 or alignment & (alignment - 1):
        raise invalid(file.path, f"an alignment of {short(alignment)}, which is no power of two")
    entries = [_entry(cursor) for _ in range(tensor_count)]
    start = -(-cursor.at // alignment) * alignment
    _check_places(file, entries, start, alignment)
    return metadata, {entry.name: _tensor(file, entry, start + entry.offset, wanted) for entry in entries}


def _entry(cursor: _Cursor) -> _Entry:
    path = cursor.file.path
    name = cursor.string()
    what = f"tensor {short(name)}"
    axes = cursor.u32()
    if axes > 4:
        raise invalid(path, f"{what}: {axes} axes; the format allows 4")
    shape = shape_of(path, what, struct.unpack(f"<{axes}Q", cursor.take(8 * axes))[::-1])
    kind, offset = cursor.u32(), cursor.u64()
    if kind in _DTYPES:
        return _Entry(name, shape, kind, offset, math.prod(shape) * _DTYPES[kind].itemsize)
    if kind not in BLOCK_FORMATS:
        known = ", ".join(block.name for block in BLOCK_FORMATS.values())
        raise UnimplementedError(f"'{path}': {what} is {UNREAD_FORMATS.get(kind, f'of type {kind}')}, which is "
                                 f"not read; known block formats are {known}")  # fmt: skip
    block = BLOCK_FORMATS[kind]
    if not shape or shape[-1] % block.values:
        raise invalid(
            path, f"{what}: rows of {shape[-1] if shape else 1} numbers in blocks of {block.values} ({block.name})"
        )
    return _Entry(name, shape, kind, offset, math.prod(shape) // block.values * block.nbytes)


def _check_places(file: File, entries: list[_Entry], start: int, alignment: int) -> None:
    names: set[str] = set()
    end = 0
    for entry in sorted(entries, key=lambda entry: entry.offset):
        what = f"tensor {short(entry.name)}"
        if entry.name in names:
            raise invalid(file.path, f"{what} is there twice")
        names.add(entry.name)
        if entry.offset % alignment:
            raise invalid(file.path, f"{what}: offset {entry.offset} is no multiple of the alignment, {alignment}")
        if entry.offset < end:
            raise invalid(
                file.path, f"{what}: it starts at {entry.offset} of the data, before the end of another at {end}"
            )
        end = entry.offset + entry.nbytes
    if entries and start + end > file.nbytes:
        raise invalid(file.path, f"its tensors end at byte {start + end}, the file at {file.nbytes}: it was cut")


def _tensor(file: File, entry: _Entry, offset: int, wanted: Optional[DType]) -> Tensor:
    plain = _DTYPES.get(entry.kind)
    if plain is not None:
        tensor = file.tensor(offset, plain, entry.shape)
        return tensor.cast(wanted) if wanted is not None and plain in dtypes.floats and plain != wanted else tensor
    block = BLOCK_FORMATS[entry.kind]
    blocks = file.tensor(offset, dtypes.uint8, (entry.nbytes // block.nbytes, block.nbytes))
    return block.numbers(blocks).cast(wanted or dtypes.float32).reshape(entry.shape)


__all__ = ["gguf_load"]
