"""safetensors: a header of JSON and the tensors behind it, without a gap."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn, Optional

from _tensord import DType, File, Tensor

from tensord import dtypes
from tensord.errors import InvalidArgumentError, UnimplementedError
from tensord.io.checked import PathLike, TensorLike, invalid, named, open_file, replacing, shape_of, short, write_tensor

# By the format.
MAX_HEADER_BYTES = 100_000_000
# Of model.safetensors.index.json, which has no such rule.
MAX_INDEX_BYTES = 100_000_000

_DTYPES: dict[str, DType] = {
    "BOOL": dtypes.bool_,
    "I8": dtypes.int8, "I16": dtypes.int16, "I32": dtypes.int32, "I64": dtypes.int64,
    "U8": dtypes.uint8, "U16": dtypes.uint16, "U32": dtypes.uint32, "U64": dtypes.uint64,
    "F8_E4M3": dtypes.float8_e4m3, "F8_E5M2": dtypes.float8_e5m2,
    "F8_E4M3FNUZ": dtypes.float8_e4m3fnuz, "F8_E5M2FNUZ": dtypes.float8_e5m2fnuz,
    "F16": dtypes.float16, "BF16": dtypes.bfloat16, "F32": dtypes.float32, "F64": dtypes.float64,
}  # fmt: skip
_NAMES = {str(dtype): name for name, dtype in _DTYPES.items()}
# Known to the format, not to us.
_UNKNOWN = {"F4", "F6_E2M3", "F6_E3M2", "F8_E8M0", "C64"}


def safe_load(file: PathLike) -> dict[str, Tensor]:
    """The tensors of a .safetensors file, or of all files that a .safetensors.index.json names.

    Nothing but headers is read: the bytes of a tensor are sent to the device when it is first used.
    """
    if os.fspath(file).endswith(".json"):
        return _load_sharded(file)
    opened = open_file(file)
    header, start = _header(opened)
    return {name: opened.tensor(start + begin, dtype, shape) for name, (dtype, shape, begin) in _tensors(
        opened, header, start).items()}  # fmt: skip


def safe_load_metadata(file: PathLike) -> dict[str, str]:
    """The strings that were saved beside the tensors; empty if there are none."""
    opened = open_file(file)
    header, start = _header(opened)
    _tensors(opened, header, start)
    metadata: dict[str, str] = header.get("__metadata__", {})
    return metadata


def safe_save(tensors: Mapping[str, TensorLike], file: PathLike, metadata: Optional[Mapping[str, str]] = None) -> None:
    """Writes tensors by name, one after the other, and then puts the file in the place of an old one.

    ValueError for a weak dtype, which has no storage, and for metadata that is not strings.
    """
    if "__metadata__" in tensors:
        raise InvalidArgumentError("safe_save: the format keeps the name '__metadata__' for itself")
    # The largest elements first: each tensor then starts at a multiple of its element size.
    ordered = sorted(named(tensors).items(), key=lambda item: (-item[1].dtype.itemsize, item[0]))
    header: dict[str, Any] = {}
    if metadata is not None:
        for key, value in metadata.items():
            if not isinstance(key, str) or not isinstance(value, str):
                raise InvalidArgumentError(f"safe_save: metadata is strings, not {short(key)}: {short(value)}")
        header["__metadata__"] = dict(metadata)
    end = 0
    for name, tensor in ordered:
        begin, end = end, end + math.prod(tensor.shape) * tensor.dtype.itemsize
        header[name] = {"dtype": _NAMES[str(tensor.dtype)], "shape": list(tensor.shape), "data_offsets": [begin, end]}
    try:
        text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(f"safe_save: a name or the metadata is no text: {error}") from error
    text += b" " * (-len(text) % 8)
    if len(text) > MAX_HEADER_BYTES:
        raise InvalidArgumentError(f"safe_save: names, shapes and metadata take {len(text)} bytes, the format allows "
                                   f"{MAX_HEADER_BYTES}")  # fmt: skip
    with replacing(file) as out:
        out.write(len(text).to_bytes(8, "little") + text)
        for _, tensor in ordered:
            write_tensor(out, tensor)


def _header(file: File) -> tuple[dict[str, Any], int]:
    if file.nbytes < 8:
        raise invalid(
            file.path, f"{file.nbytes} bytes are no safetensors file, which starts with 8 for its header's size"
        )
    size = int.from_bytes(file.read(0, 8), "little")
    if size > MAX_HEADER_BYTES:
        raise invalid(
            file.path, f"a header of {size} bytes; the format allows {MAX_HEADER_BYTES}. Is it a safetensors file?"
        )
    if size > file.nbytes - 8:
        raise invalid(file.path, f"a header of {size} bytes in a file of {file.nbytes}: it was cut")
    text = file.read(8, size)
    if text[:1] != b"{":
        raise invalid(file.path, "its header does not start with '{'. Is it a safetensors file?")
    header = parse_json(file.path, text)
    if not isinstance(header, dict):
        raise invalid(file.path, "its header is no JSON object")
    metadata = header.get("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise invalid(file.path, "its __metadata__ is no map of strings to strings")
    return header, 8 + size


def _tensors(file: File, header: Mapping[str, Any], start: int) -> dict[str, tuple[DType, tuple[int, ...], int]]:
    """(dtype, shape, offset) by name, in the file's order."""
    found = {}
    spans = []
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        what = f"tensor {short(name)}"
        if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
            raise invalid(file.path, f"{what}: dtype, shape and data_offsets are needed, not {short(entry)}")
        dtype = entry["dtype"]
        if dtype in _UNKNOWN if isinstance(dtype, str) else False:
            raise UnimplementedError(f"'{file.path}': {what} is {dtype}, which tensord does not have")
        if not isinstance(dtype, str) or dtype not in _DTYPES:
            raise invalid(file.path, f"{what}: {short(dtype)} is no dtype of the format")
        shape = shape_of(file.path, what, entry["shape"])
        offsets = entry["data_offsets"]
        if not isinstance(offsets, list) or len(offsets) != 2 or any(type(o) is not int or o < 0 for o in offsets):
            raise invalid(file.path, f"{what}: data_offsets are two numbers, not {short(offsets)}")
        needed = math.prod(shape) * _DTYPES[dtype].itemsize
        if offsets[1] - offsets[0] != needed:
            raise invalid(file.path, f"{what}: {dtype}{short(list(shape))} takes {needed} bytes, data_offsets are "
                                     f"{short(offsets)}")  # fmt: skip
        spans.append((offsets[0], offsets[1], name))
        found[name] = (_DTYPES[dtype], shape, offsets[0])
    at = 0
    for begin, end, name in sorted(spans):
        if begin != at:
            raise invalid(file.path, f"tensor {short(name)} starts at byte {begin} of the data, the one before ends at "
                                     f"{at}: the format allows neither overlap nor gap")  # fmt: skip
        at = end
    if at != file.nbytes - start:
        raise invalid(file.path, f"its tensors take {at} bytes, {file.nbytes - start} are there")
    return found


def parse_json(path: str, text: bytes) -> Any:
    """JSON without duplicate keys and without what only Python takes for JSON."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) != len(pairs):
            seen: set[str] = set()
            twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            raise invalid(path, f"the key {short(twice)} is there twice")
        return result

    def refuse(constant: str) -> NoReturn:
        raise invalid(path, f"{constant} is not JSON")

    try:
        return json.loads(text.decode(), object_pairs_hook=unique, parse_constant=refuse)
    except InvalidArgumentError:
        raise
    except RecursionError:
        raise invalid(path, "its JSON is nested too deeply") from None
    except ValueError as error:  # the decoder's errors, UnicodeDecodeError, an integer of thousands of digits
        raise invalid(path, f"its JSON cannot be read: {short(str(error))}") from None


def _load_sharded(path: PathLike) -> dict[str, Tensor]:
    index_file = open_file(path)
    if index_file.nbytes > MAX_INDEX_BYTES:
        raise invalid(path, f"an index of {index_file.nbytes} bytes; {MAX_INDEX_BYTES} are allowed")
    index = parse_json(index_file.path, index_file.read(0, index_file.nbytes))
    weight_map = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(weight_map, dict) or not all(isinstance(shard, str) for shard in weight_map.values()):
        raise invalid(path, "it has no weight_map of names to files")
    shards: dict[str, dict[str, Tensor]] = {}
    tensors = {}
    for name, shard in weight_map.items():
        if shard not in shards:
            if shard != os.path.basename(shard) or shard in ("", ".", "..") or "\0" in shard:
                raise invalid(path, f"{short(shard)} is no name of a file in the same folder")
            shards[shard] = safe_load(Path(path).parent / shard)
        if name not in shards[shard]:
            raise invalid(path, f"tensor {short(name)} is not in {short(shard)}, where the index says")
        tensors[name] = shards[shard][name]
    return tensors


__all__ = ["safe_load", "safe_load_metadata", "safe_save"]
