"""nn.datasets reads the files as their authors publish them."""

import gzip
import io
import struct
import tarfile

import numpy as np
import pytest
from tensord import nn

rng = np.random.default_rng(5)
SIZES = {"train": 3, "t10k": 2}
IMAGES = {part: rng.integers(0, 256, (n, 28, 28), dtype=np.uint8) for part, n in SIZES.items()}
LABELS = {part: rng.integers(0, 10, n, dtype=np.uint8) for part, n in SIZES.items()}


def idx(array):
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


@pytest.fixture
def mnist(tmp_path):
    for part in SIZES:
        (tmp_path / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(IMAGES[part])))
        (tmp_path / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(LABELS[part])))
    return tmp_path


def check_mnist(found):
    images, labels, test_images, test_labels = found
    for part, x, y in (("train", images, labels), ("t10k", test_images, test_labels)):
        assert x.dtype == y.dtype == "uint8"
        np.testing.assert_array_equal(x.numpy(), IMAGES[part][:, None])
        np.testing.assert_array_equal(y.numpy(), LABELS[part])


def test_mnist_of_a_folder_and_of_a_url(mnist, tmp_path, monkeypatch):
    check_mnist(nn.datasets.mnist(root=mnist))
    check_mnist(nn.datasets.mnist("CPU:0", fashion=True, root=str(mnist)))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    check_mnist(nn.datasets.mnist(root=mnist.as_uri()))


def test_unpacked_files_do_as_well(mnist):
    packed = mnist / "train-labels-idx1-ubyte.gz"
    packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
    packed.unlink()
    check_mnist(nn.datasets.mnist(root=mnist))


def cifar_archive(parts):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, data in parts.items():
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return out.getvalue()


CIFAR = {name: rng.integers(0, 256, (2, 3073), dtype=np.uint8)
         for name in (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin")}  # fmt: skip


def test_cifar(tmp_path):
    parts = {name: rows.tobytes() for name, rows in reversed(CIFAR.items())}  # the order in the file does not count
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(cifar_archive(parts))
    images, labels, test_images, test_labels = nn.datasets.cifar(root=tmp_path)
    rows = np.concatenate(list(CIFAR.values())[:5])
    np.testing.assert_array_equal(images.numpy(), rows[:, 1:].reshape(10, 3, 32, 32))
    np.testing.assert_array_equal(labels.numpy(), rows[:, 0])
    np.testing.assert_array_equal(test_images.numpy(), CIFAR["test_batch.bin"][:, 1:].reshape(2, 3, 32, 32))
    np.testing.assert_array_equal(test_labels.numpy(), CIFAR["test_batch.bin"][:, 0])


def damaged(folder, name, change):
    path = folder / name
    path.write_bytes(change(path.read_bytes()))
    return folder


LABEL_FILE = "train-labels-idx1-ubyte.gz"
DAMAGE = [
    ("cut", lambda data: data[:-9], "no gzip"),
    ("of another kind", lambda data: gzip.compress(b"\0\0\x0d" + gzip.decompress(data)[3:]), "header"),
    ("too short", lambda data: gzip.compress(gzip.decompress(data)[:-1]), "as many"),
    ("empty", lambda data: b"", "header"),
]


@pytest.mark.parametrize("change, message", [pytest.param(*row[1:], id=row[0]) for row in DAMAGE])
def test_damaged_files_are_errors(mnist, change, message):
    with pytest.raises(ValueError, match=message):
        nn.datasets.mnist(root=damaged(mnist, LABEL_FILE, change))


def test_files_that_are_not_there(mnist, tmp_path, monkeypatch):
    (mnist / LABEL_FILE).unlink()
    with pytest.raises(LookupError, match="train-labels-idx1-ubyte.gz is not in"):
        nn.datasets.mnist(root=mnist)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(Exception, match="train-labels") as raised:
        nn.datasets.mnist(root=mnist.as_uri())
    assert type(raised.value).__name__ == "UnavailableError"
    with pytest.raises(LookupError, match="cifar-10-binary"):
        nn.datasets.cifar(root=mnist)
    for data, message in ((b"no archive", "tar.gz"), (cifar_archive({"data_batch_1.bin": b"123"}), "3073")):
        (mnist / "cifar-10-binary.tar.gz").write_bytes(data)
        with pytest.raises(ValueError, match=message):
            nn.datasets.cifar(root=mnist)
