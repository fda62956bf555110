import pathlib
import struct
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import mnist_data  # noqa: E402


def idx(*shape, kind=0x08, body=None):
    count = int(np.prod(shape))
    header = struct.pack(f">BBBB{len(shape)}I", 0, 0, kind, len(shape), *shape)
    return header + (bytes(range(count)) if body is None else body)


def test_parses_shape_and_elements():
    array = mnist_data.parse_idx(idx(2, 3, 4))
    assert array.shape == (2, 3, 4)
    assert array[1, 2, 3] == 23


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not an IDX file"),
        (b"\x1f\x8b\x08\x00", "not an IDX file"),
        (idx(2, kind=0x0D), "type 0x0d"),
        (idx(2)[:6], "header of rank 1 needs 8 bytes, has 6"),
        (idx(4, body=b"abc"), r"shape \[4\] needs 4 bytes of data, has 3"),
        (idx(2, body=b"abc"), r"shape \[2\] needs 2 bytes of data, has 3"),
        (idx(0xFFFFFFFF, 0xFFFFFFFF, body=b""), "has 0"),
    ],
)
def test_rejects_malformed(data, message):
    with pytest.raises(ValueError, match=message):
        mnist_data.parse_idx(data)


def test_says_which_file_to_delete(tmp_path):
    for name in mnist_data._FILES.values():
        (tmp_path / name).write_bytes(b"cut")
    with pytest.raises(ValueError, match="train-images-idx3-ubyte.*delete it"):
        mnist_data._load_mnist(tmp_path)
