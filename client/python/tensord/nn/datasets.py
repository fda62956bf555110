"""Data sets of images by tinygrad's names, from files as their authors publish them."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from pathlib import Path
from typing import Optional, Union

import numpy as np
from _tensord import Tensor

from tensord.download import from_url
from tensord.errors import InvalidArgumentError, NotFoundError
from tensord.place import Devices

_MNIST = "https://storage.googleapis.com/cvdf-datasets/mnist"
_FASHION = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
_CIFAR = "https://www.cs.toronto.edu/~kriz"
_CIFAR_FILE = "cifar-10-binary.tar.gz"
_CIFAR_PARTS = [f"data_batch_{i}.bin" for i in range(1, 6)], ["test_batch.bin"]

Root = Union[None, str, "os.PathLike[str]"]


def mnist(device: Devices = None, fashion: bool = False, root: Root = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(images [60000, 1, 28, 28], labels [60000], test images [10000, 1, 28, 28], test labels), uint8: handwritten digits,
    or clothes with `fashion`.

    `root` is a folder, or a URL, that has the four files train-images-idx3-ubyte.gz and so on, packed or, in a folder,
    without .gz. Without it they are fetched from where they are published, once, see from_url. LookupError for a file that
    is not in the folder, UnavailableError for one that cannot be fetched, ValueError for one that is no such file.
    """
    place = root if root is not None else _FASHION if fashion else _MNIST
    arrays = [_idx(place, f"{part}-{kind}-ubyte", rank) for part in ("train", "t10k")
              for kind, rank in (("images-idx3", 3), ("labels-idx1", 1))]
    images, labels, test_images, test_labels = arrays
    return (_put(images[:, None], device), _put(labels, device), _put(test_images[:, None], device),
            _put(test_labels, device))


def cifar(device: Devices = None, root: Root = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(images [50000, 3, 32, 32], labels [50000], test images [10000, 3, 32, 32], test labels), uint8: CIFAR-10.

    `root` is a folder, or a URL, that has cifar-10-binary.tar.gz; errors are those of mnist.
    """
    place = _CIFAR if root is None else root
    data = _bytes(place, _CIFAR_FILE)
    parts: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            for member in archive:
                file = archive.extractfile(member)
                if file is not None:
                    parts[Path(member.name).name] = file.read()
    except (tarfile.TarError, OSError, EOFError) as error:
        raise InvalidArgumentError(f"{_CIFAR_FILE} in {place} is no tar.gz file: {error}") from error
    made: list[Tensor] = []
    for names in _CIFAR_PARTS:
        for name in names:
            if len(parts.get(name, b"")) % 3073 or not parts.get(name):
                raise InvalidArgumentError(f"{_CIFAR_FILE} in {place}: {name} has {len(parts.get(name, b''))} bytes; it "
                                           "needs records of 3073, a label and an image")
        rows = np.frombuffer(b"".join(parts[name] for name in names), np.uint8).reshape(-1, 3073)
        made += [_put(rows[:, 1:].reshape(-1, 3, 32, 32), device), _put(rows[:, 0], device)]
    return made[0], made[1], made[2], made[3]


def _put(array: np.ndarray[tuple[int, ...], np.dtype[np.uint8]], device: Devices) -> Tensor:
    made = Tensor(np.ascontiguousarray(array))
    return made if device is None else made.to(device)


def _bytes(place: Union[str, os.PathLike[str]], name: str, other: Optional[str] = None) -> bytes:
    """Of a file in a folder, by either name, or behind a URL."""
    if isinstance(place, str) and "://" in place:
        data: bytes = from_url(f"{place.rstrip('/')}/{name}").numpy().tobytes()
        return data
    for each in (name, other):
        if each is not None and (Path(place) / each).is_file():
            return (Path(place) / each).read_bytes()
    raise NotFoundError(f"{name} is not in {os.fspath(place)}; root is a folder, or a URL, that has it")


def _idx(place: Union[str, os.PathLike[str]], name: str, rank: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """Bytes with their sizes before them, each four bytes, the highest first."""
    data = _bytes(place, f"{name}.gz", name)
    if data[:2] == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError) as error:
            raise InvalidArgumentError(f"{name}.gz in {place} is no gzip file: {error}") from error
    start = 4 + 4 * rank
    sizes = tuple(int(size) for size in np.frombuffer(data[4:start], ">u4"))
    if data[:4] != bytes((0, 0, 8, rank)) or len(sizes) != rank or len(data) - start != int(np.prod(sizes)):
        raise InvalidArgumentError(f"{name} in {place}: {len(data)} bytes; it needs the header of {rank} sizes of bytes, "
                                   "and as many bytes as they say")
    return np.frombuffer(data, np.uint8, offset=start).reshape(sizes)


__all__ = ["cifar", "mnist"]
