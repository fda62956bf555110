"""What torch.save wrote, without PyTorch: the zip format of today, the pickles and the tar files of before."""

from __future__ import annotations

import io
import math
import tarfile
from collections.abc import Callable
from typing import Any, BinaryIO, Literal, Optional

from _tensord import DType, File, Tensor

from tensord import dtypes
from tensord.errors import UnimplementedError
from tensord.io.archives import ZipArchive
from tensord.io.checked import PathLike, invalid, open_file, parsing, reader, shape_of, short, swapped
from tensord.io.unpickler import Global, ordered_dict, unpickle

#: The pickle without the tensors' data.
MAX_PICKLE_BYTES = 1 << 30

_MAGIC = 0x1950A86A20F9469CFC6C
_LEGACY_VERSION = 1001


class StorageType:
    """What PyTorch's class of a storage is to us: its dtype, None for bytes; `missing` names one that we lack."""

    def __init__(self, dtype: Optional[DType], missing: str = "") -> None:
        self.dtype, self.missing = dtype, missing


class Storage:
    """Elements in a row, in the file. `at(dtype, count)` makes a tensor of `count` elements from its first byte on."""

    def __init__(
        self, key: str, dtype: Optional[DType], count: int, at: Callable[[DType, tuple[int, ...]], Tensor]
    ) -> None:
        self.key, self.dtype, self.count, self.at = key, dtype, count, at
        self._flat: dict[str, Tensor] = {}

    def flat(self, dtype: DType) -> Tensor:
        """All of it, one tensor for all who ask, of which they are views."""
        if str(dtype) not in self._flat:
            self._flat[str(dtype)] = self.at(dtype, (self.elements(dtype),))
        return self._flat[str(dtype)]

    def elements(self, dtype: DType) -> int:
        return self.count * (self.dtype.itemsize if self.dtype else 1) // dtype.itemsize


class _NumpyScalar:
    """numpy.dtype(name), whose state says its byte order."""

    def __init__(self, name: str, *_: Any) -> None:
        self.name, self.order = name, "<"

    def pickled_state(self, state: Any) -> None:
        self.order = state[1]

    def value(self, data: Any) -> Any:
        import numpy as np

        kind = self.name.lstrip("<>=|")
        if not isinstance(kind, str) or kind[:1] not in "biuf" or not kind[1:].isdigit():
            raise UnimplementedError(f"a number of NumPy's dtype {short(self.name)}; numbers of plain dtypes are read")
        raw = data if isinstance(data, bytes) else str(data).encode("latin1")
        return np.frombuffer(raw, np.dtype((self.order if self.order in "<>" else "") + kind), 1)[0].item()


def _encode(text: str, encoding: str = "latin1") -> bytes:
    """_codecs.encode, by which old pickles hold bytes."""
    if encoding not in ("latin1", "latin-1", "utf-8", "ascii"):
        raise UnimplementedError(f"bytes that are text in {short(encoding)}")
    return str(text).encode(encoding)


def _missing(name: str) -> Callable[..., Any]:
    def fail(*_: Any) -> Any:
        raise UnimplementedError(f"a tensor made by {name}: only dense tensors are read")

    return fail


STORAGES = {
    "Half": dtypes.float16, "BFloat16": dtypes.bfloat16, "Float": dtypes.float32, "Double": dtypes.float64,
    "Bool": dtypes.bool_, "Char": dtypes.int8, "Byte": dtypes.uint8, "Short": dtypes.int16, "Int": dtypes.int32,
    "Long": dtypes.int64, "UInt16": dtypes.uint16, "UInt32": dtypes.uint32, "UInt64": dtypes.uint64,
    "Float8_e4m3fn": dtypes.float8_e4m3fn, "Float8_e5m2": dtypes.float8_e5m2,
    "Float8_e4m3fnuz": dtypes.float8_e4m3fnuz, "Float8_e5m2fnuz": dtypes.float8_e5m2fnuz,
}  # fmt: skip
_NO_STORAGES = ("ComplexFloat", "ComplexDouble", "ComplexHalf", "QInt8", "QUInt8", "QInt32", "QUInt4x2", "QUInt2x4")
_NO_DTYPES = ("complex32", "complex64", "complex128", "qint8", "quint8", "qint32", "quint4x2", "quint2x4")


class _Loader:
    def __init__(self, path: str) -> None:
        self.path = path
        self.table: dict[str, Any] = {
            "collections.OrderedDict": ordered_dict,
            "torch._utils._rebuild_tensor": self.tensor,
            "torch._utils._rebuild_tensor_v2": self.tensor,
            "torch._utils._rebuild_tensor_v3": self.tensor_of_bytes,
            "torch._utils._rebuild_parameter": lambda data, *_: data,
            "torch._utils._rebuild_parameter_with_state": lambda data, *_: data,
            "torch._tensor._rebuild_from_type_v2": self.from_type,
            "torch.Size": lambda sizes=(): tuple(sizes),
            "torch.device": lambda *where: ":".join(map(str, where)),
            "torch.serialization._get_layout": str,
            "_codecs.encode": _encode,
            "numpy.dtype": _NumpyScalar,
            "numpy.core.multiarray.scalar": lambda dtype, data: dtype.value(data),
            "numpy._core.multiarray.scalar": lambda dtype, data: dtype.value(data),
        }
        for module in "builtins", "__builtin__":
            self.table |= {f"{module}.set": lambda items=(): set(map(self.plain, items)),
                           f"{module}.frozenset": lambda items=(): frozenset(map(self.plain, items)),
                           f"{module}.complex": complex, f"{module}.bytearray": self.byte_array}  # fmt: skip
        for name in (
            "_rebuild_sparse_tensor",
            "_rebuild_sparse_csr_tensor",
            "_rebuild_nested_tensor",
            "_rebuild_qtensor",
            "_rebuild_meta_tensor_no_storage",
            "_rebuild_wrapper_subclass",
            "_rebuild_device_tensor_from_numpy",
        ):
            self.table[f"torch._utils.{name}"] = _missing(name)
        for kind, dtype in STORAGES.items():
            for module in "torch", "torch.storage", "torch.cuda":
                self.table[f"{module}.{kind}Storage"] = StorageType(dtype)
        for kind in _NO_STORAGES:
            for module in "torch", "torch.cuda":
                self.table[f"{module}.{kind}Storage"] = StorageType(None, kind.lower())
        self.table["torch.storage.UntypedStorage"] = self.table["torch.UntypedStorage"] = StorageType(None)
        for dtype in dtypes.all:
            self.table[f"torch.{dtype}"] = dtype
        for missing in _NO_DTYPES:
            self.table[f"torch.{missing}"] = StorageType(None, missing)

    def load(self, file: BinaryIO, persistent: Callable[[Any], Any]) -> Any:
        value = unpickle(file, self.path, self.table, persistent)
        if isinstance(value, Global):
            raise invalid(self.path, f"it holds the name {value} and nothing else")
        return value

    def no_persistent(self, what: Any) -> Any:
        raise invalid(self.path, f"its pickle refers to {short(what)}, which is not in the file")

    def plain(self, value: Any) -> Any:
        if type(value) not in (str, int, float, bool, bytes, type(None)):
            raise invalid(
                self.path, f"its pickle has a set with a {type(value).__name__}; strings and numbers are expected"
            )
        return value

    def byte_array(self, data: Any = b"") -> bytearray:
        if not isinstance(data, bytes):
            raise invalid(self.path, f"its pickle makes a bytearray of a {type(data).__name__}")
        return bytearray(data)

    def storage_type(self, kind: Any) -> Optional[DType]:
        if not isinstance(kind, StorageType):
            raise invalid(self.path, f"{short(kind)} is no type of a storage")
        if kind.missing:
            raise UnimplementedError(f"'{self.path}': it has tensors of {kind.missing}, which tensord does not have")
        return kind.dtype

    def count(self, value: Any) -> int:
        if type(value) is not int or not 0 <= value < 2**62:
            raise invalid(self.path, f"{short(value)} is no size of a storage")
        return value

    def from_type(self, function: Any, kind: Any, arguments: Any, state: Any) -> Any:
        """A subclass of Tensor, as the tensor that it is."""
        if not isinstance(function, Global) or function.function is None or not isinstance(arguments, tuple):
            raise invalid(self.path, f"a tensor made by {short(function)}, which is not known")
        return function.function(*arguments)

    def tensor_of_bytes(
        self, storage: Any, offset: Any, size: Any, stride: Any, _: Any, __: Any, dtype: Any, *more: Any
    ) -> Tensor:
        if isinstance(dtype, StorageType):
            self.storage_type(dtype)
        if not isinstance(dtype, DType):
            raise invalid(self.path, f"{short(dtype)} is no dtype")
        return self.tensor(storage, offset, size, stride, dtype=dtype)

    def tensor(
        self, storage: Any, offset: Any, size: Any, stride: Any, *_: Any, dtype: Optional[DType] = None
    ) -> Tensor:
        """Elements of a storage: element i is number offset + sum(i * stride)."""
        if not isinstance(storage, Storage):
            raise invalid(self.path, f"a tensor over {short(storage)}, which is no storage")
        what = f"a tensor over storage {short(storage.key)}"
        dtype = dtype or storage.dtype or dtypes.uint8
        sizes = shape_of(self.path, what, size)
        if (
            type(offset) is not int
            or offset < 0
            or not isinstance(stride, (list, tuple))
            or len(stride) != len(sizes)
            or any(type(s) is not int or not 0 <= s < 2**62 for s in stride)
        ):
            raise invalid(
                self.path, f"{what}: offset {short(offset)} and strides {short(stride)} do not fit shape {sizes}"
            )
        if 0 in sizes:
            return storage.at(dtype, (0,)).reshape(sizes)
        last = offset + sum((n - 1) * s for n, s in zip(sizes, stride))
        if last >= storage.elements(dtype):
            raise invalid(self.path, f"{what}: it reaches to element {last} of {storage.elements(dtype)}")
        return self.view(storage.flat(dtype), offset, sizes, tuple(stride))

    @staticmethod
    def view(flat: Tensor, offset: int, sizes: tuple[int, ...], strides: tuple[int, ...]) -> Tensor:
        # Rows in some order of axes, as nearly all are, are a reshape and a permutation: a compiler sees through these.
        order = sorted(range(len(sizes)), key=lambda axis: (-strides[axis], sizes[axis] == 1))
        dense, step = True, 1
        for axis in reversed(order):
            dense = dense and (sizes[axis] == 1 or strides[axis] == step)
            step *= sizes[axis]
        if not dense:
            return flat.as_strided(sizes, strides, offset)
        count = math.prod(sizes)
        if count != flat.shape[0]:
            flat = flat[offset : offset + count]
        result = flat.reshape([sizes[axis] for axis in order])
        return result.permute([order.index(axis) for axis in range(len(sizes))]) if order != sorted(order) else result


def torch_load(file: PathLike) -> Any:
    """What torch.save wrote: a tensor, or the dicts, lists and plain values that hold tensors.

    PyTorch is not needed and nothing of the file is executed: functions are taken from a fixed table, and objects of
    unknown classes are inert `Dummy`s. Parameters become tensors without requires_grad. The data of a tensor is sent to
    the device when it is first used; tensors that shared a storage are views of one tensor.

    UnimplementedError for complex, quantised and sparse tensors.
    """
    opened = open_file(file)
    with reader(opened) as raw, parsing(file):
        start = raw.read(4)
        if start == b"PK\3\4":
            return _load_zip(opened)
        raw.seek(0)
        if _is_tar(raw):
            return _load_tar(opened)
        raw.seek(0)
        return _load_pickles(opened, raw)


def _load_zip(file: File) -> Any:
    archive = ZipArchive(file)
    pickles = [
        name for name in archive.members if name == "data.pkl" or name.endswith("/data.pkl") and name.count("/") == 1
    ]
    if len(pickles) != 1:
        hint = "; it is TorchScript or a package, of which only code makes sense" if any(
            name.endswith(("/constants.pkl", "/extern_modules")) for name in archive.members) else ""  # fmt: skip
        raise invalid(file.path, f"{len(pickles)} members are called data.pkl, one is needed{hint}")
    prefix = pickles[0].removesuffix("data.pkl")
    byteorder = "little"
    if prefix + "byteorder" in archive.members:
        byteorder = archive.read(prefix + "byteorder", 16).decode("latin1").strip()
        if byteorder not in ("little", "big"):
            raise invalid(file.path, f"its byte order is {short(byteorder)}, which is neither little nor big")
    loader = _Loader(file.path)
    storages: dict[tuple[str, str], Storage] = {}

    def persistent(what: Any) -> Storage:
        if not isinstance(what, tuple) or len(what) != 5 or what[0] != "storage" or not isinstance(what[2], str):
            loader.no_persistent(what)
        dtype, key, count = loader.storage_type(what[1]), what[2], loader.count(what[4])
        if (key, str(dtype)) not in storages:
            member = f"{prefix}data/{key}"
            if member not in archive.members:
                loader.no_persistent(what)
            size = count * (dtype.itemsize if dtype else 1)
            if archive.members[member].file_size < size:
                raise invalid(
                    file.path, f"storage {short(key)} has {archive.members[member].file_size} bytes, not {size}"
                )
            storages[key, str(dtype)] = Storage(
                key, dtype, count, lambda dtype, shape: archive.tensor(member, dtype, shape, byteorder)
            )
        return storages[key, str(dtype)]

    return loader.load(io.BytesIO(archive.read(pickles[0], MAX_PICKLE_BYTES)), persistent)


def _load_pickles(file: File, raw: BinaryIO) -> Any:
    """Five pickles, the fourth of which is the object, and then the storages, each a count and its elements."""
    loader = _Loader(file.path)
    magic = loader.load(raw, loader.no_persistent)
    if magic != _MAGIC or isinstance(magic, bool):
        raise invalid(file.path, "it is neither a zip nor a tar nor a pickle that torch.save wrote")
    version, system = loader.load(raw, loader.no_persistent), loader.load(raw, loader.no_persistent)
    if version != _LEGACY_VERSION or not isinstance(system, dict):
        raise invalid(file.path, f"version {short(version)} of PyTorch's format; {_LEGACY_VERSION} is known")
    byteorder: Literal["little", "big"] = "little" if system.get("little_endian", True) else "big"
    start = raw.tell()

    # Where a storage lies is known only when all of them are, so the pickle is read twice.
    offsets: Optional[dict[str, int]] = None
    storages: dict[str, Storage] = {}

    def persistent(what: Any) -> Any:
        if isinstance(what, tuple) and len(what) == 4 and what[0] == "module":
            return what[1]  # a class, with its source code
        if not isinstance(what, tuple) or len(what) != 6 or what[0] != "storage" or not isinstance(what[2], str):
            loader.no_persistent(what)
        dtype, key, count = loader.storage_type(what[1]), what[2], loader.count(what[4])

        def at(dtype: DType, shape: tuple[int, ...]) -> Tensor:
            if offsets is None or key not in offsets:
                loader.no_persistent(what)
            return swapped(file, offsets[key], dtype, shape, byteorder)  # type: ignore[index]

        root = storages.setdefault(key, Storage(key, dtype, count, at))
        if root.count != count or root.dtype != dtype:
            raise invalid(file.path, f"storage {short(key)} is described in two ways")
        if what[5] is None:
            return root
        _, offset, size = what[5]
        if type(offset) is not int or type(size) is not int or not 0 <= offset <= offset + size <= count:
            raise invalid(file.path, f"a view of storage {short(key)} from {short(offset)}, {short(size)} long")
        return Storage(key, dtype, size, lambda dtype, shape: root.flat(dtype)[offset : offset + math.prod(shape)])

    def dry(self_storage: Any, *_: Any, **__: Any) -> None:
        return None

    scan = _Loader(file.path)
    for name, function in scan.table.items():
        if name.startswith(("torch._utils.", "torch._tensor.")) and callable(function):
            scan.table[name] = dry
    scan.load(raw, persistent)
    keys = loader.load(raw, loader.no_persistent)
    if not isinstance(keys, list):
        raise invalid(file.path, "it has no list of storages")
    offsets, at = {}, raw.tell()
    for key in keys:
        if not isinstance(key, str) or key not in storages:
            raise invalid(file.path, f"storage {short(key)} belongs to no tensor")
        storage = storages[key]
        count = file.read(at, 8) if at + 8 <= file.nbytes else b""
        if count != storage.count.to_bytes(8, byteorder):
            raise invalid(file.path, f"storage {short(key)} is not where it should be: the file was cut or is damaged")
        offsets[key] = at + 8
        at += 8 + storage.count * (storage.dtype.itemsize if storage.dtype else 1)
    raw.seek(start)
    return loader.load(raw, persistent)


def _is_tar(raw: BinaryIO) -> bool:
    header = raw.read(512)
    return len(header) == 512 and (header[257:262] == b"ustar" or header.startswith((b"storages\0", b"sys_info\0")))


def _load_tar(file: File) -> Any:
    """Members: storages (their elements), tensors (shapes over them) and a pickle that names tensors."""
    loader = _Loader(file.path)
    with reader(file) as raw:
        members: dict[str, tuple[int, int]] = {}
        with tarfile.open(fileobj=raw, mode="r:") as tar:
            for member in tar:
                if member.size < 0 or member.offset_data + member.size > file.nbytes:
                    raise invalid(file.path, f"member {short(member.name)} ends outside of the file")
                if member.isreg():
                    members[member.name] = (member.offset_data, member.size)
        for name in "storages", "tensors", "pickle":
            if name not in members:
                raise invalid(file.path, f"no file that torch.save wrote: it has no member {name}")

        objects: dict[Any, Any] = {}
        raw.seek(members["storages"][0])
        for _ in range(loader.count(loader.load(raw, loader.no_persistent))):
            key, _, kind = _fields(loader, raw, 3)
            dtype = loader.storage_type(kind)
            count = int.from_bytes(raw.read(8), "little", signed=True)
            objects[key] = _storage_at(loader, file, str(key), dtype, loader.count(count), raw.tell())
            raw.seek(loader.count(count) * (dtype.itemsize if dtype else 1), io.SEEK_CUR)
        for view in _list(loader, loader.load(raw, loader.no_persistent)):
            target, key, offset, count = view
            root = objects[loader.plain(key)]
            skip = loader.count(offset) * (root.dtype.itemsize if root.dtype else 1)
            objects[loader.plain(target)] = _view_of(loader, root, skip, loader.count(count))

        raw.seek(members["tensors"][0])
        for _ in range(loader.count(loader.load(raw, loader.no_persistent))):
            key, storage, _ = _fields(loader, raw, 3)
            ndim = int.from_bytes(raw.read(8)[:4], "little", signed=True)
            if not 0 <= ndim <= 64:
                raise invalid(file.path, f"a tensor of {ndim} axes")
            numbers = [int.from_bytes(raw.read(8), "little", signed=True) for _ in range(2 * ndim + 1)]
            if storage not in objects:
                loader.no_persistent(storage)
            objects[key] = loader.tensor(objects[storage], numbers[-1], numbers[:ndim], numbers[ndim:-1])

        def persistent(what: Any) -> Any:
            if isinstance(what, tuple) and what:
                return what[0]  # a class, with its source code
            number = int(what) if isinstance(what, str) and what.isdigit() and len(what) < 30 else what
            if type(number) is not int or number not in objects:
                loader.no_persistent(what)
            return objects[number]

        raw.seek(members["pickle"][0])
        return loader.load(raw, persistent)


def _storage_at(loader: _Loader, file: File, key: str, dtype: Optional[DType], count: int, offset: int) -> Storage:
    if offset + count * (dtype.itemsize if dtype else 1) > file.nbytes:
        raise invalid(loader.path, f"storage {short(key)} of {count} elements ends outside of the file")
    return Storage(key, dtype, count, lambda dtype, shape: file.tensor(offset, dtype, shape))


def _view_of(loader: _Loader, root: Storage, skip_bytes: int, count: int) -> Storage:
    item = root.dtype.itemsize if root.dtype else 1
    if skip_bytes + count * item > root.count * item:
        raise invalid(loader.path, f"a view of storage {short(root.key)} ends outside of it")
    first = skip_bytes // item
    return Storage(root.key, root.dtype, count, lambda dtype, shape: root.flat(dtype)[first : first + math.prod(shape)])


def _fields(loader: _Loader, raw: BinaryIO, count: int) -> tuple[Any, ...]:
    value = loader.load(raw, loader.no_persistent)
    if not isinstance(value, tuple) or len(value) != count or type(value[0]) not in (int, str):
        raise invalid(loader.path, f"{short(value)} where {count} fields are expected")
    return value


def _list(loader: _Loader, value: Any) -> list[Any]:
    if not isinstance(value, list) or not all(isinstance(item, tuple) and len(item) == 4 for item in value):
        raise invalid(loader.path, f"{short(value)} where a list of views is expected")
    return value


__all__ = ["torch_load"]
