"""zip and tar: their members by name, as bytes."""

from __future__ import annotations

import math
import tarfile
import zipfile
from typing import Optional

import numpy as np
from _tensord import DType, File, Tensor

from tensord import dtypes
from tensord.errors import UnimplementedError
from tensord.io.checked import PathLike, invalid, open_file, parsing, reader, short, swapped


class ZipArchive:
    """The members of a zip file. What is stored, not compressed, is read when it is used."""

    def __init__(self, file: File) -> None:
        self.file = file
        with parsing(file.path):
            self._zip = zipfile.ZipFile(f"/proc/self/fd/{file.fileno()}")
        self.members: dict[str, zipfile.ZipInfo] = {}
        for info in self._zip.infolist():
            if info.filename in self.members or not info.filename:
                raise invalid(file.path, f"a second member {short(info.filename)}, or one without a name")
            if not info.is_dir():
                self.members[info.filename] = info

    def stored_at(self, name: str) -> Optional[int]:
        """The offset of its bytes in the file; None if it is compressed."""
        info = self._checked(name)
        if info.compress_type != zipfile.ZIP_STORED:
            return None
        # The directory at the end says where a member's own header starts, and only that how long it is.
        if info.header_offset < 0 or info.header_offset + 30 > self.file.nbytes:
            raise invalid(self.file.path, f"member {short(name)} starts outside of the file")
        header = self.file.read(info.header_offset, 30)
        if header[:4] != b"PK\3\4":
            raise invalid(self.file.path, f"member {short(name)} has no header where the directory says")
        start = (
            info.header_offset + 30 + int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
        )
        if info.compress_size != info.file_size or start + info.file_size > self.file.nbytes:
            raise invalid(self.file.path, f"member {short(name)} of {info.file_size} bytes ends outside of the file")
        return start

    def read(self, name: str, most: int, first: Optional[int] = None) -> bytes:
        """Its bytes, or the first of them, in memory. ValueError if the member has more than `most`."""
        info = self._checked(name)
        if info.file_size > most:
            raise invalid(self.file.path, f"member {short(name)} has {info.file_size} bytes; {most} are allowed")
        with parsing(self.file.path), self._zip.open(info) as member:
            data = member.read(info.file_size + 1 if first is None else first)
        if first is None and len(data) != info.file_size:
            raise invalid(self.file.path, f"member {short(name)} has another size than the directory says")
        return data

    def tensor(
        self, name: str, dtype: DType, shape: tuple[int, ...], byteorder: str = "little", skip: int = 0
    ) -> Tensor:
        """Elements from byte `skip` of a member on."""
        size = math.prod(shape) * dtype.itemsize
        if self._checked(name).file_size < skip + size:
            raise invalid(self.file.path, f"member {short(name)} has {self.members[name].file_size} bytes, "
                                          f"{skip + size} are needed")  # fmt: skip
        start = self.stored_at(name)
        if start is not None:
            return swapped(self.file, start + skip, dtype, shape, byteorder)
        data = np.frombuffer(self.read(name, self.members[name].file_size), np.uint8, size, skip)
        if byteorder == "big" and dtype.itemsize > 1:
            data = data.reshape(-1, dtype.itemsize)[:, ::-1]
        return Tensor(data.tobytes(), dtype).reshape(shape)

    def _checked(self, name: str) -> zipfile.ZipInfo:
        info = self.members.get(name)
        if info is None:
            raise invalid(self.file.path, f"it has no member {short(name)}")
        if info.flag_bits & 1:
            raise UnimplementedError(f"'{self.file.path}': member {short(name)} is encrypted")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise UnimplementedError(f"'{self.file.path}': member {short(name)} is compressed by method "
                                     f"{info.compress_type}; stored and deflate are known")  # fmt: skip
        return info


def zip_extract(file: PathLike) -> dict[str, Tensor]:
    """The members of a zip file by name, each as uint8 [its bytes]. Stored ones are read when they are used."""
    archive = ZipArchive(open_file(file))
    return {name: archive.tensor(name, dtypes.uint8, (info.file_size,)) for name, info in archive.members.items()}


def tar_extract(file: PathLike) -> dict[str, Tensor]:
    """The regular files in a tar file by name, each as uint8 [its bytes]. Those of an uncompressed tar are read when
    they are used; .tar.gz, .tar.bz2 and .tar.xz are unpacked into memory."""
    opened = open_file(file)
    found: dict[str, Tensor] = {}
    with parsing(file), reader(opened) as raw, tarfile.open(fileobj=raw, mode="r:*") as tar:
        plain = tar.fileobj is raw
        for member in tar:
            if member.size < 0 or member.offset_data < 0:  # of which tarfile would make a loop without end
                raise invalid(file, f"member {short(member.name)} has {member.size} bytes")
            if not member.isreg() or member.issparse():
                continue
            if plain:
                found[member.name] = opened.tensor(member.offset_data, dtypes.uint8, (member.size,))
                continue
            source = tar.extractfile(member)
            found[member.name] = Tensor(source.read() if source else b"", dtypes.uint8)
    return found


__all__ = ["ZipArchive", "tar_extract", "zip_extract"]
