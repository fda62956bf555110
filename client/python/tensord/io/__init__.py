"""Files of tensors: safetensors, PyTorch's, GGUF, NumPy's; zip and tar archives.

    weights = tensord.load("model.safetensors")  # by name; lazy: nothing is read but the header
    tensord.save(weights, "copy.safetensors")    # a crash leaves the old file or the new one, never a part

Files are not trusted: what they say is checked, nothing in them is executed. See docs/files.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Optional, Union

from _tensord import Tensor

from tensord.errors import InvalidArgumentError, UnimplementedError
from tensord.io.archives import tar_extract, zip_extract
from tensord.io.checked import PathLike, TensorLike, replacing
from tensord.io.gguf import gguf_load
from tensord.io.numpy_files import npy_load, npy_save, npz_load, npz_save
from tensord.io.safetensors import safe_load, safe_load_metadata, safe_save
from tensord.io.torch_files import torch_load
from tensord.io.torch_writer import write_torch

_LOADERS: dict[str, Callable[[PathLike], Any]] = {
    ".safetensors": safe_load, ".index.json": safe_load, ".npy": npy_load, ".npz": npz_load,
    ".pt": torch_load, ".pth": torch_load, ".bin": torch_load, ".gguf": lambda path: gguf_load(path)[1],
}  # fmt: skip
_SAVERS = {".safetensors": safe_save, ".npz": npz_save}
_TORCH = (".pt", ".pth", ".bin")


def load(f: Union[PathLike, BinaryIO], map_location: Optional[str] = None, *, weights_only: bool = True) -> Any:
    """What is in the file, by the ending of its name, or by how it begins for an open file, such as io.BytesIO, which is
    read from where it stands to its end.

    A dict of tensors for .safetensors, .safetensors.index.json, .npz and .gguf, a tensor for .npy, and whatever was
    saved for PyTorch's .pt, .pth and .bin. Tensors are brought to the device `map_location` if one is named. No file is
    executed, so that `weights_only` changes nothing: what PyTorch would have to execute are inert objects.
    """
    if map_location is not None and not isinstance(map_location, str):
        raise UnimplementedError("load: map_location is the name of a device; to() moves tensors apart")
    found = _by_ending(f, _LOADERS, "load")(f) if isinstance(f, (str, os.PathLike)) else _of_stream(f)
    return found if map_location is None else _moved(found, map_location)


def _of_stream(stream: BinaryIO) -> Any:
    data = stream.read()
    if not isinstance(data, bytes):
        raise TypeError("load: the file is one of text; open it as a binary one")
    # A file without a name, in memory: it lives as long as the tensors that are read from it.
    descriptor = os.memfd_create("tensord")
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(data)
        return _format_of(data)(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


def _format_of(data: bytes) -> Callable[[PathLike], Any]:
    if data.startswith(b"\x93NUMPY"):
        return npy_load
    if data.startswith(b"GGUF"):
        return _LOADERS[".gguf"]
    if data.startswith(b"PK"):
        return torch_load if b"data.pkl" in data[:256] or b"/data.pkl" in data[-65536:] else npz_load
    return safe_load if data[8:9] == b"{" else torch_load


def _moved(value: Any, device: str) -> Any:
    """The tensors in dicts, lists and tuples, on a device."""
    if isinstance(value, Tensor):
        return value.to(device.upper())
    if isinstance(value, dict):
        for key in value:
            value[key] = _moved(value[key], device)
        return value
    if isinstance(value, (list, tuple)):
        return type(value)([_moved(item, device) for item in value])
    return value


def save(obj: Any, f: Union[PathLike, BinaryIO], metadata: Optional[Mapping[str, str]] = None) -> None:
    """Writes tensors by name as .safetensors (which may have metadata) or .npz, one tensor as .npy, and, as .pt, .pth or
    .bin or to an open file such as io.BytesIO, in PyTorch's format what torch.load reads as well: dicts, lists and tuples
    of tensors and of plain values. ValueError for anything else in it, objects of classes above all."""
    value, path = obj, f
    if not isinstance(path, (str, os.PathLike)):
        if metadata is not None:
            raise InvalidArgumentError("save: PyTorch's format, in which an open file is written, has no room for metadata")
        write_torch(value, path)
        return
    if metadata is None and os.fspath(path).lower().endswith(_TORCH):
        with replacing(path) as file:
            write_torch(value, file)
        return
    if metadata is not None and not os.fspath(path).endswith(".safetensors"):
        raise InvalidArgumentError(f"save: '{path}' has no room for metadata; .safetensors has")
    if os.fspath(path).endswith(".npy"):
        npy_save(value, path)
        return
    saver = _by_ending(path, _SAVERS, "save", ".npy", *_TORCH)
    if not isinstance(value, Mapping):
        raise InvalidArgumentError(
            f"save: '{path}' holds tensors by name, so a dict is needed; a single tensor is saved as .npy"
        )
    if metadata is not None:
        safe_save(value, path, metadata)
    else:
        saver(value, path)


def _by_ending(path: PathLike, table: Mapping[str, Any], what: str, *more: str) -> Any:
    name = Path(path).name.lower()
    for ending, function in table.items():
        if name.endswith(ending):
            return function
    raise InvalidArgumentError(f"{what}: '{path}' ends in none of {', '.join([*table, *more])}, so its format "
                               "is unknown; call the function of the format, such as safe_load")  # fmt: skip


__all__ = [
    "PathLike", "TensorLike", "gguf_load", "load", "npy_load", "npy_save", "npz_load", "npz_save", "safe_load",
    "safe_load_metadata", "safe_save", "save", "tar_extract", "torch_load", "zip_extract",
]  # fmt: skip
