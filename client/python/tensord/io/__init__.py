"""Files of tensors: safetensors, PyTorch's, GGUF, NumPy's; zip and tar archives.

    weights = tensord.load("model.safetensors")  # by name; lazy: nothing is read but the header
    tensord.save(weights, "copy.safetensors")    # a crash leaves the old file or the new one, never a part

Files are not trusted: what they say is checked, nothing in them is executed. See docs/files.md.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Optional

from tensord.errors import InvalidArgumentError
from tensord.io.archives import tar_extract, zip_extract
from tensord.io.checked import PathLike, TensorLike
from tensord.io.gguf import gguf_load
from tensord.io.numpy_files import npy_load, npy_save, npz_load, npz_save
from tensord.io.safetensors import safe_load, safe_load_metadata, safe_save
from tensord.io.torch_files import torch_load

_LOADERS = {
    ".safetensors": safe_load, ".index.json": safe_load, ".npy": npy_load, ".npz": npz_load,
    ".pt": torch_load, ".pth": torch_load, ".bin": torch_load, ".gguf": lambda path: gguf_load(path)[1],
}  # fmt: skip
_SAVERS = {".safetensors": safe_save, ".npz": npz_save}


def load(path: PathLike) -> Any:
    """What is in the file, by the ending of its name.

    A dict of tensors for .safetensors, .safetensors.index.json, .npz and .gguf, a tensor for .npy, and whatever was
    saved for PyTorch's .pt, .pth and .bin.
    """
    return _by_ending(path, _LOADERS, "load")(path)


def save(value: Any, path: PathLike, metadata: Optional[Mapping[str, str]] = None) -> None:
    """Writes tensors by name as .safetensors (which may have metadata) or .npz, or one tensor as .npy."""
    if metadata is not None and not os.fspath(path).endswith(".safetensors"):
        raise InvalidArgumentError(f"save: '{path}' has no room for metadata; .safetensors has")
    if os.fspath(path).endswith(".npy"):
        npy_save(value, path)
        return
    saver = _by_ending(path, _SAVERS, "save", ".npy")
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
