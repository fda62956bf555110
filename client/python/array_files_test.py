"""NumPy's files and archives, against NumPy, zipfile and tarfile; load_state_dict."""

import io
import tarfile
import zipfile

import numpy as np
import pytest
import tensord
from tensord import errors, nn
from tensord.io import npy_load, npy_save, npz_load, npz_save, tar_extract, zip_extract
from tensord.nn.state import get_state_dict, load_state_dict
from tensord.testing import fuzz_file

DTYPES = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
]
SHAPES = [(), (1,), (0, 3), (4, 5), (2, 3, 4)]


@pytest.mark.parametrize("dtype", DTYPES)
def test_npy_both_ways(tmp_path, dtype):
    for shape in SHAPES:
        data = np.random.default_rng(0).integers(0, 100, shape).astype(dtype)
        for given in (data, tensord.Tensor(data), np.array(data, order="F")):
            npy_save(given, tmp_path / "f.npy")
            back = np.load(tmp_path / "f.npy", allow_pickle=False)
            assert back.dtype == dtype and back.shape == shape
            np.testing.assert_array_equal(back, data)
        swapped = data.astype(data.dtype.newbyteorder(">"))
        for stored in (data, np.array(data, order="F"), swapped):
            np.save(tmp_path / "g.npy", stored)
            x = npy_load(tmp_path / "g.npy")
            assert str(x.dtype) == dtype and x.shape == shape
            np.testing.assert_array_equal(x.numpy(), data)


def test_npy_is_read_when_it_is_used(tmp_path):
    np.save(tmp_path / "f.npy", np.arange(100_000))
    before = tensord.counters()["bytes_uploaded"]
    x = tensord.load(tmp_path / "f.npy")
    assert tensord.counters()["bytes_uploaded"] == before and not x.is_realized
    assert x.max().item() == 99_999


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed, npz_save])
def test_npz(tmp_path, save):
    data = {"a": np.arange(6.0).reshape(2, 3), "b/c": np.array(5, np.int16), "f": np.asfortranarray(np.eye(3, 2)),
            "none": np.zeros((0, 2)), "big": np.arange(7, dtype=">i4")}  # fmt: skip
    save(tmp_path / "f.npz", **data) if save is not npz_save else save(data, tmp_path / "f.npz")
    loaded = tensord.load(tmp_path / "f.npz")
    again = np.load(tmp_path / "f.npz")
    assert loaded.keys() == set(again.files) == data.keys()
    for name, array in data.items():
        np.testing.assert_array_equal(loaded[name].numpy(), array)
        np.testing.assert_array_equal(again[name], array)


@pytest.mark.parametrize("array, error, message", [
    (np.array([{}], object), errors.InvalidArgumentError, "pickles"),
    (np.zeros(2, "c8"), errors.UnimplementedError, "complex64"), (np.zeros(2, "S3"), errors.UnimplementedError, "S3"),
    (np.zeros(2, [("a", "i4")]), errors.UnimplementedError, "'a'"),
    (np.zeros(2, "M8[s]"), errors.UnimplementedError, "datetime64"),
], ids=["object", "complex", "bytes", "record", "time"])  # fmt: skip
def test_dtypes_that_tensors_lack_are_errors(tmp_path, array, error, message):
    np.save(tmp_path / "f.npy", array)
    np.savez(tmp_path / "f.npz", a=array)
    for name in "f.npy", "f.npz":
        with pytest.raises(error, match=message):
            tensord.load(tmp_path / name)


def header(text, version=b"\1\0"):
    return b"\x93NUMPY" + version + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize("raw", [
    b"", b"\x93NUMPY", header(b""), header(b"{}"), header(b"__import__('os').system('true')"), header(b"(" * 5000),
    header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}"),
    header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (2**3,)}"),
    header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}"),
    header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (9,)}"),
    header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (9,)}", b"\7\0"),
    header(b"{'descr': ['<f4'], 'fortran_order': False, 'shape': ()}"),
], ids=range(12))  # fmt: skip
def test_a_wrong_npy_is_an_error(tmp_path, raw):
    (tmp_path / "f.npy").write_bytes(raw)
    with pytest.raises(errors.TensordError, match="f.npy"):
        npy_load(tmp_path / "f.npy")


def test_what_numpy_files_lack_is_not_saved(tmp_path):
    with pytest.raises(errors.InvalidArgumentError, match="bfloat16"):
        tensord.save(tensord.ones(2).cast("bfloat16"), tmp_path / "f.npy")
    with pytest.raises(errors.InvalidArgumentError, match="float8"):
        tensord.save({"x": tensord.ones(2).cast("float8_e5m2")}, tmp_path / "f.npz")
    with pytest.raises(errors.InvalidArgumentError, match="by name"):
        tensord.save(tensord.ones(2), tmp_path / "f.npz")
    with pytest.raises(errors.InvalidArgumentError, match="room for metadata"):
        tensord.save({}, tmp_path / "f.npz", metadata={})
    with pytest.raises(errors.InvalidArgumentError, match="ends in none of"):
        tensord.save({}, tmp_path / "f.gguf")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_zip_members(tmp_path, compression):
    members = {"a.txt": b"hello", "d/empty": b"", "d/big": bytes(range(256)) * 1000}
    with zipfile.ZipFile(tmp_path / "f.zip", "w", compression) as file:
        file.mkdir("d") if hasattr(file, "mkdir") else None
        for name, data in members.items():
            file.writestr(name, data)
    extracted = zip_extract(tmp_path / "f.zip")
    assert {name: tensor.numpy().tobytes() for name, tensor in extracted.items()} == members
    assert all(tensor.dtype == tensord.uint8 for tensor in extracted.values())


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz"])
def test_tar_members(tmp_path, mode):
    members = {"a.txt": b"hello", "d/empty": b"", "x" * 150: bytes(range(256)) * 10}
    with tarfile.open(tmp_path / "f.tar", mode) as file:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            file.addfile(info, io.BytesIO(data))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        file.addfile(link)
    assert {name: tensor.numpy().tobytes() for name, tensor in tar_extract(tmp_path / "f.tar").items()} == members


def test_archives_that_are_wrong_are_errors(tmp_path):
    (tmp_path / "f").write_bytes(b"nothing of the kind")
    for extract in zip_extract, tar_extract, npz_load:
        with pytest.raises(errors.InvalidArgumentError, match="cannot be read"):
            extract(tmp_path / "f")
    with zipfile.ZipFile(tmp_path / "g.zip", "w", zipfile.ZIP_BZIP2) as file:
        file.writestr("a", b"x" * 100)
    with pytest.raises(errors.UnimplementedError, match="stored and deflate"):
        zip_extract(tmp_path / "g.zip")


@pytest.mark.parametrize("kind", ["zip", "deflated", "tar", "tar.gz", "npy", "npz"])
def test_mutated_files_are_errors_or_tensors(tmp_path, kind):
    path = tmp_path / "f"
    if kind in ("zip", "deflated"):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED if kind == "deflated" else zipfile.ZIP_STORED) as file:
            file.writestr("a", b"hello" * 9)
            file.writestr("b", b"")
    elif kind.startswith("tar"):
        with tarfile.open(path, "w:gz" if kind == "tar.gz" else "w") as file:
            for name in "a", "b" * 120:
                info = tarfile.TarInfo(name)
                info.size = 45
                file.addfile(info, io.BytesIO(b"hello" * 9))
    else:
        (npy_save if kind == "npy" else npz_save)(np.arange(5) if kind == "npy" else {"a": np.arange(5)}, path)
    load = {"npy": npy_load, "npz": npz_load}.get(kind, tar_extract if kind.startswith("tar") else zip_extract)
    fuzz_file(path, load, rounds=400)


class Model:
    def __init__(self):
        self.layer = nn.Linear(3, 2)
        self.scale = tensord.ones(()).clone()
        self.shift = [tensord.zeros(1).clone()]


def test_a_model_is_saved_and_loaded(tmp_path):
    model, other = Model(), Model()
    tensord.save(get_state_dict(model), tmp_path / "m.safetensors")
    loaded = load_state_dict(other, tensord.load(tmp_path / "m.safetensors"))
    assert len(loaded) == 4 and other.layer.weight.requires_grad
    assert other.layer.weight.tolist() == model.layer.weight.tolist()


def test_what_load_state_dict_accepts(capsys):
    state = {
        "layer.weight": np.ones((2, 3)),
        "layer.bias": tensord.ones(2),
        "scale": np.full(1, 2.0),
        "shift.0": np.array(3.0),
    }
    model = Model()
    load_state_dict(model, state)
    assert model.scale.item() == 2 and model.shift[0].tolist() == [3] and model.layer.weight.dtype == tensord.float32
    with pytest.raises(errors.InvalidArgumentError, match="missing \\['scale'\\], unexpected \\['more'\\]"):
        load_state_dict(model, {name: x for name, x in state.items() if name != "scale"} | {"more": np.ones(1)})
    load_state_dict(model, {"scale": np.full((), 5.0), "more": np.ones(1)}, strict=False, verbose=True)
    assert model.scale.item() == 5 and "'more' is not in the model" in capsys.readouterr().out
    with pytest.raises(errors.InvalidArgumentError, match=r"'layer.bias' has shape \(2,\), the new one \(1, 2\)"):
        load_state_dict(model, state | {"scale": np.full((), 9.0), "layer.bias": np.ones((1, 2))})
    assert model.scale.item() == 5  # nothing is assigned if anything is wrong
    rest = dict(state, more=np.ones(1))
    load_state_dict(model, rest, strict=False, consume=True)
    assert rest.keys() == {"more"}
    load_state_dict(model, {"scale": np.full((), 7.0)}, strict=False, realize=False)
    assert model.scale.item() == 7
