"""What the formats share: opening, checks, replacing a file as a whole."""

from __future__ import annotations

import contextlib
import math
import os
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Union, cast

import numpy as np
from _tensord import DType, File, Tensor

from tensord import dtypes
from tensord.errors import InvalidArgumentError, TensordError

PathLike = Union[str, "os.PathLike[str]"]
TensorLike = Union[Tensor, "np.ndarray[Any, Any]"]


def invalid(path: PathLike, message: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"'{os.fspath(path)}': {message}")


@contextlib.contextmanager
def parsing(path: PathLike) -> Iterator[None]:
    """Around code that goes through a file's contents: what it raises at nonsense becomes one kind of error.

    All of it, because what Python's modules for archives and pickles and NumPy raise there is no part of their
    interfaces: struct.error, zlib.error, tokenize.TokenError and IndexError are among it.
    """
    try:
        yield
    except (TensordError, MemoryError):
        raise
    except Exception as error:
        raise invalid(path, f"it cannot be read: {short(str(error))}") from None


def open_file(path: PathLike) -> File:
    return File(os.fspath(path))


def reader(file: File) -> BinaryIO:
    """A Python file over the same descriptor, for the modules that want one."""
    # Opened anew by its descriptor's name, not duplicated: two duplicates would share a position.
    return open(f"/proc/self/fd/{file.fileno()}", "rb")


def shape_of(path: PathLike, what: str, shape: object, most: int = 64) -> tuple[int, ...]:
    """The shape, if it is one: integers that are no less than 0, whose product fits 63 bits."""
    if not isinstance(shape, Sequence) or isinstance(shape, (str, bytes)) or len(shape) > most:
        raise invalid(path, f"{what}: its shape is no list of at most {most} sizes")
    for size in shape:
        if type(size) is not int or not 0 <= size < 2**63:
            raise invalid(path, f"{what}: {short(size)} is no size")
    # Sizes other than 0 count even if there is a 0, because strides are made of them.
    if math.prod(size for size in shape if size) >= 2**63:
        raise invalid(path, f"{what}: shape {short(list(shape))} has too many elements")
    return tuple(shape)


def short(value: object) -> str:
    """For messages: a file may say anything, at any length."""
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # an integer of more digits than Python prints
        return f"a {type(value).__name__}"
    return text if len(text) <= 80 else text[:77] + "..."


def swapped(file: File, offset: int, dtype: DType, shape: tuple[int, ...], byteorder: str) -> Tensor:
    """Elements at an offset of a file that are in this byte order ("little" or "big"). The device turns them around."""
    if byteorder == sys.byteorder or dtype.itemsize == 1:
        return file.tensor(offset, dtype, shape)
    count = math.prod(shape)
    raw = file.tensor(offset, dtypes.uint8, (count, dtype.itemsize))
    return raw.flip(1).bitcast(dtype).reshape(shape)


def stored(name: str, value: TensorLike) -> Tensor:
    """A tensor with sizes that are numbers and elements that a file can hold."""
    tensor = value if isinstance(value, Tensor) else Tensor(value)
    if tensor.dtype in dtypes.weaks:
        raise InvalidArgumentError(f"'{name}' is a {tensor.dtype}, which has no storage: cast it first, to float32 for "
                                   "example")  # fmt: skip
    if all(isinstance(size, int) for size in tensor.shape):
        return tensor
    return Tensor(tensor.numpy(), tensor.dtype)  # sizes of a tensor that varies are known once it is computed


def named(tensors: Mapping[str, TensorLike]) -> dict[str, Tensor]:
    for name in tensors:
        if not isinstance(name, str):
            raise InvalidArgumentError(f"names of tensors are strings, not {short(name)}")
    return {name: stored(name, value) for name, value in tensors.items()}


@contextlib.contextmanager
def replacing(path: PathLike) -> Iterator[BinaryIO]:
    """A file to write that takes the place of `path` when the block ends well. Whatever happens, the power going off
    included, `path` is what it was or what it is to be."""
    target = os.path.realpath(path)  # a link stays, and what it points to is replaced
    folder = os.path.dirname(target)
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{os.path.basename(target)[:32]}.", suffix=".tmp", dir=folder)
    except OSError as error:
        raise invalid(path, f"cannot be written: {error.strerror}") from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, _mode(target))
            yield cast(BinaryIO, file)
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(at)  # the name
    finally:
        os.close(at)


def _mode(target: str) -> int:
    try:
        return stat.S_IMODE(os.stat(target).st_mode)
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


def write_tensor(file: BinaryIO, tensor: Tensor) -> None:
    """Appends its data, chunk by chunk."""
    file.flush()
    tensor._write_to(file.fileno())
