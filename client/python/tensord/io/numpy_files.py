"""NumPy's .npy and .npz."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from typing import Any, BinaryIO, cast

import numpy as np
from _tensord import DType, Tensor

from tensord import dtypes
from tensord.errors import InvalidArgumentError, UnimplementedError
from tensord.io.archives import ZipArchive
from tensord.io.checked import (
    PathLike,
    TensorLike,
    invalid,
    named,
    open_file,
    parsing,
    reader,
    replacing,
    shape_of,
    short,
    stored,
    swapped,
    write_tensor,
)

#: NumPy's own headers take some hundred bytes; structured dtypes, which we lack, may take more.
MAX_HEADER_BYTES = 1 << 16

_DTYPES = {dtype: getattr(dtypes, dtype) for dtype in (
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
)} | {"bool": dtypes.bool_}  # fmt: skip


def npy_load(file: PathLike) -> Tensor:
    """The array of a .npy file. Its data is sent to the device when it is first used.

    UnimplementedError for dtypes that tensors lack; those that need a pickle are never read.
    """
    opened = open_file(file)
    with reader(opened) as raw:
        dtype, shape, fortran, byteorder = _header(opened.path, raw)
        start = raw.tell()
    tensor = swapped(opened, start, dtype, shape[::-1] if fortran else shape, byteorder)
    return tensor.permute(tuple(range(len(shape)))[::-1]) if fortran else tensor


def npz_load(file: PathLike) -> dict[str, Tensor]:
    """The arrays of a .npz file by name. Those that are not compressed are read when they are used."""
    archive = ZipArchive(open_file(file))
    tensors: dict[str, Tensor] = {}
    for member, info in archive.members.items():
        if not member.endswith(".npy"):
            raise invalid(file, f"member {short(member)} is no .npy")
        head = io.BytesIO(archive.read(member, info.file_size, first=MAX_HEADER_BYTES))
        dtype, shape, fortran, byteorder = _header(archive.file.path, head)
        tensor = archive.tensor(member, dtype, shape[::-1] if fortran else shape, byteorder, skip=head.tell())
        tensors[member.removesuffix(".npy")] = tensor.permute(tuple(range(len(shape)))[::-1]) if fortran else tensor
    return tensors


def npy_save(tensor: TensorLike, file: PathLike) -> None:
    """Writes a tensor as .npy. bfloat16 and float8, which NumPy's files lack, are an error."""
    value = stored("the tensor", tensor)
    head = _head("npy_save", value)
    with replacing(file) as out:
        out.write(head)
        write_tensor(out, value)


def npz_save(tensors: Mapping[str, TensorLike], file: PathLike) -> None:
    """Writes tensors by name as .npz, not compressed, one after the other."""
    values = named(tensors)
    heads = {name: _head(f"npz_save: '{name}'", value) for name, value in values.items()}
    with replacing(file) as out, zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, value in values.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                member.write(heads[name])
                member.write(value.numpy().data)


def _head(what: str, value: Tensor) -> bytes:
    if str(value.dtype) not in _DTYPES:
        raise InvalidArgumentError(f"{what}: NumPy's files have no {value.dtype}; cast it, or use .safetensors")
    out = io.BytesIO()
    descr = np.dtype("bool" if value.dtype == dtypes.bool_ else str(value.dtype)).str
    header = {"descr": descr, "fortran_order": False, "shape": tuple(value.shape)}
    np.lib.format.write_array_header_1_0(out, header)  # type: ignore[no-untyped-call]
    return out.getvalue()


def _header(path: str, raw: BinaryIO) -> tuple[DType, tuple[int, ...], bool, str]:
    with parsing(path):
        version = np.lib.format.read_magic(cast(Any, raw))  # type: ignore[no-untyped-call]
        read: Any = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(
            version
        )
        if read is None:
            raise UnimplementedError(f"'{path}': version {version} of .npy; 1.0 and 2.0 are known")
        shape, fortran, dtype = read(raw, max_header_size=MAX_HEADER_BYTES)
    if dtype.hasobject:
        raise invalid(path, "its elements are Python objects, which are pickles: they are not read")
    if dtype.name not in _DTYPES or dtype.subdtype is not None:
        raise UnimplementedError(f"'{path}': it has elements of {short(str(dtype))}, which tensors do not")
    byteorder = "big" if dtype.str.startswith(">") else "little"
    return _DTYPES[dtype.name], shape_of(path, "the array", shape), bool(fortran), byteorder


__all__ = ["npy_load", "npy_save", "npz_load", "npz_save"]
