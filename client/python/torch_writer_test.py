"""save in PyTorch's format, and load of open files. tests/torch/files_test.py has PyTorch read what is saved here."""

import io
from collections import OrderedDict, namedtuple

import numpy as np
import pytest
import tensord
from tensord import Tensor, dtypes

A = np.arange(6, dtype=np.float32).reshape(2, 3)
VALUES = [
    ("a tensor", Tensor(A)),
    ("plain values", {"none": None, "yes": True, "no": False, "text": "a\u00e4\U0001f600", "float": -1.5e300, 3: "three"}),
    ("integers", [0, -1, 255, 256, 2**31 - 1, -(2**31), 2**31, -(2**31) - 1, 2**200, -(2**200)]),
    ("empty containers", [{}, [], (), OrderedDict()]),
    ("nested", {"model": OrderedDict(w=Tensor(A)), "steps": [(1, Tensor([2])), {"deep": [[Tensor(True)]]}]}),
    ("dtypes", [dtypes.float16, dtypes.bfloat16, dtypes.bool_]),
    ("each dtype", [tensord.tensor([1, 0, 1], dtype=dtype) for dtype in dtypes.all]),
    ("shapes", [tensord.zeros(0, 3), tensord.tensor(2.5), Tensor(A).T, Tensor(A)[1], tensord.ones(2, 1).expand(2, 5)]),
]


def check_same(a, b):
    if isinstance(a, Tensor):
        assert isinstance(b, Tensor) and (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    elif isinstance(a, dict):
        assert type(a) is type(b) and list(a) == list(b)
        check_same(list(a.values()), list(b.values()))
    elif isinstance(a, (list, tuple)):
        assert type(a) is type(b) and len(a) == len(b)
        for x, y in zip(a, b):
            check_same(x, y)
    else:
        assert type(a) is type(b) and a == b


@pytest.mark.parametrize("value", [pytest.param(row[1], id=row[0]) for row in VALUES])
def test_what_is_saved_is_loaded(value, tmp_path):
    file = io.BytesIO()
    tensord.save(value, file)
    file.seek(0)
    check_same(value, tensord.load(file))
    for name in ("x.pt", "x.PTH", "x.bin"):
        tensord.save(value, tmp_path / name)
        check_same(value, tensord.load(tmp_path / name))


def test_a_tensor_that_occurs_twice_is_written_once():
    x, sizes = Tensor(np.zeros(1000, np.float32)), []
    for value in ([x], [x, x, {"again": x}]):
        file = io.BytesIO()
        tensord.save(value, file)
        sizes.append(len(file.getvalue()))
    assert sizes[1] - sizes[0] < 1000


def test_map_location():
    file = io.BytesIO()
    tensord.save({"a": [Tensor(A), (Tensor([1]), "b")]}, file)
    file.seek(0)
    loaded = tensord.load(file, map_location="cpu:0")
    assert loaded["a"][0].device == "CPU:0" and loaded["a"][1][1] == "b"
    with pytest.raises(NotImplementedError, match="map_location"):
        tensord.load(file, map_location=lambda storage, where: storage)


FORMATS = [
    ("npy", lambda file: np.save(file, A), lambda got: got),
    ("npz", lambda file: np.savez(file, a=A), lambda got: got["a"]),
]


@pytest.mark.parametrize("write, read", [pytest.param(*row[1:], id=row[0]) for row in FORMATS])
def test_open_files_of_other_formats(write, read):
    file = io.BytesIO(b"before")
    file.seek(6)
    write(file)
    file.seek(6)  # from where it stands
    np.testing.assert_array_equal(read(tensord.load(file)).numpy(), A)


def test_an_open_safetensors_file(tmp_path):
    tensord.save({"a": Tensor(A)}, tmp_path / "x.safetensors")
    with open(tmp_path / "x.safetensors", "rb") as file:
        loaded = tensord.load(file)
    (tmp_path / "x.safetensors").unlink()
    np.testing.assert_array_equal(loaded["a"].numpy(), A)


class Custom:
    pass


def holding_itself():
    value = []
    value.append(value)
    return value


def deep():
    value = []
    for _ in range(1000):
        value = [value]
    return value


REFUSED = [
    ("an object", [Custom()], "Custom"),
    ("a class", {"a": Custom}, "type"),
    ("a function", [len], "builtin_function"),
    ("an array", [A], "ndarray"),
    ("itself", holding_itself(), "itself"),
    ("too deep", deep(), "deep"),
    ("a huge number", [2**5000], "255 bytes"),
    ("a weak number", [Tensor(3)], "weakint"),
]


@pytest.mark.parametrize("value, message", [pytest.param(*row[1:], id=row[0]) for row in REFUSED])
def test_refused_values_leave_no_file(value, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        tensord.save(value, tmp_path / "x.pt")
    file = io.BytesIO()
    with pytest.raises(ValueError, match=message):
        tensord.save(value, file)
    assert list(tmp_path.iterdir()) == [] and file.getvalue() == b""


def test_named_tuples_are_saved_as_tuples():
    file = io.BytesIO()
    tensord.save(namedtuple("Pair", "a b")(1, 2), file)
    file.seek(0)
    assert type(tensord.load(file)) is tuple


def test_open_files_are_errors_where_they_are_nonsense():
    for data in (b"", b"nonsense", b"PK\3\4" + bytes(100), b"\x93NUMPY\1\0" + bytes(4)):
        with pytest.raises(ValueError):
            tensord.load(io.BytesIO(data))
    with pytest.raises(TypeError, match="binary"):
        tensord.load(io.StringIO("text"))
    with pytest.raises(ValueError, match="metadata"):
        tensord.save([], io.BytesIO(), {"a": "b"})
