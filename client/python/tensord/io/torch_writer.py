"""Writes what torch.load reads: a zip file of a pickle and, beside it, the tensors' data."""

from __future__ import annotations

import io
import struct
import zipfile
from collections import OrderedDict
from typing import Any, BinaryIO, cast

from _tensord import Tensor

from tensord import dtypes
from tensord.errors import InvalidArgumentError
from tensord.io.checked import short, stored
from tensord.io.torch_files import STORAGES

_FOLDER = "archive"
_KINDS = {dtype: kind for kind, dtype in STORAGES.items()}
# torch.UInt16Storage and its like do not exist: such tensors are over bytes, and say their dtype.
_BY_BYTES = frozenset((dtypes.uint16, dtypes.uint32, dtypes.uint64, *dtypes.fp8s))
_DEPTH = 100


class _Pickler:
    """A pickle of protocol 2 with a fixed set of opcodes, so that neither PyTorch nor classes of the user are needed, and
    torch.load(weights_only=True) takes it."""

    def __init__(self) -> None:
        self.out = io.BytesIO()
        self.tensors: dict[int, tuple[str, Tensor]] = {}  # by identity: one that occurs twice is written once
        self.open: set[int] = set()

    def dumps(self, value: Any) -> bytes:
        self.out.write(b"\x80\x02")
        self.put(value)
        self.out.write(b".")
        return self.out.getvalue()

    def put(self, value: Any) -> None:
        kind = type(value)
        if value is None:
            self.out.write(b"N")
        elif kind is bool:
            self.out.write(b"\x88" if value else b"\x89")
        elif kind is int:
            data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
            if len(data) > 255:
                raise InvalidArgumentError(f"save: {short(value)} has more than 255 bytes")
            self.out.write(b"J" + struct.pack("<i", value) if -(2**31) <= value < 2**31 else
                           b"\x8a" + bytes((len(data),)) + data)
        elif kind is float:
            self.out.write(b"G" + struct.pack(">d", value))
        elif kind is str:
            data = value.encode("utf-8", "surrogatepass")
            self.out.write(b"X" + struct.pack("<I", len(data)) + data)
        elif isinstance(value, Tensor):
            self.tensor(value)
        elif isinstance(value, dtypes.DType):
            self.name("torch", str(value))
        elif kind in (list, dict, OrderedDict) or isinstance(value, tuple):
            self.container(value)
        else:
            raise InvalidArgumentError(
                f"save: {short(value)} is a {kind.__name__}; tensors, dtypes, None, bools, numbers, strings, and dicts, "
                "lists and tuples of these are saved: nothing of a file is executed when it is loaded")  # fmt: skip

    def container(self, value: Any) -> None:
        if id(value) in self.open:
            raise InvalidArgumentError("save: a container holds itself")
        if len(self.open) >= _DEPTH:
            raise InvalidArgumentError(f"save: containers are more than {_DEPTH} deep")
        self.open.add(id(value))
        if isinstance(value, tuple):
            self.out.write(b"(")
            for item in value:
                self.put(item)
            self.out.write(b"t")
        elif isinstance(value, list):
            self.out.write(b"](")
            for item in value:
                self.put(item)
            self.out.write(b"e")
        else:
            if isinstance(value, OrderedDict):
                self.name("collections", "OrderedDict")
                self.out.write(b")R(")
            else:
                self.out.write(b"}(")
            for key, item in value.items():
                self.put(key)
                self.put(item)
            self.out.write(b"u")
        self.open.remove(id(value))

    def name(self, module: str, name: str) -> None:
        self.out.write(f"c{module}\n{name}\n".encode())

    def tensor(self, tensor: Tensor) -> None:
        key, written = self.tensors.setdefault(hash(tensor), (str(len(self.tensors)), stored("tensor", tensor)))
        by_bytes = written.dtype in _BY_BYTES
        self.name("torch._utils", "_rebuild_tensor_v3" if by_bytes else "_rebuild_tensor_v2")
        self.out.write(b"((")  # the arguments, the first of which is the storage
        self.put("storage")
        if by_bytes:
            self.name("torch.storage", "UntypedStorage")
        else:
            self.name("torch", f"{_KINDS[written.dtype]}Storage")
        self.put(key)
        self.put("cpu")
        self.put(written.numel() * (written.dtype.itemsize if by_bytes else 1))
        self.out.write(b"tQ")
        self.put(0)
        self.put(tuple(written.shape))
        self.put(tuple(written.stride()))
        self.put(tensor.requires_grad and tensor.is_leaf)
        self.name("collections", "OrderedDict")  # hooks: there are none
        self.out.write(b")R")
        if by_bytes:
            self.name("torch", str(written.dtype))
        self.out.write(b"tR")


def write_torch(value: Any, file: BinaryIO) -> None:
    """What torch_load, and PyTorch's load, read again."""
    pickler = _Pickler()
    data = pickler.dumps(value)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(f"{_FOLDER}/data.pkl", data)
        archive.writestr(f"{_FOLDER}/byteorder", "little")
        for key, tensor in pickler.tensors.values():
            # One at a time: the data of all need not be here at once.
            elements = tensor.reshape(-1)
            plain = elements if elements.dtype == dtypes.uint8 else elements.cast(dtypes.uint8) if elements.dtype == \
                dtypes.bool_ else elements.bitcast(dtypes.uint8)  # fmt: skip
            with archive.open(f"{_FOLDER}/data/{key}", "w", force_zip64=True) as member:
                cast(Any, member).write(plain.data())
        archive.writestr(f"{_FOLDER}/version", "3\n")


__all__ = ["write_torch"]
