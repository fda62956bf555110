"""Files that PyTorch writes, read without it."""

import argparse
import collections
import io
import struct
import tarfile

import numpy as np
import pytest
import tensord
import torch
from tensord import errors
from tensord.io import torch_load
from tensord.testing import Daemon, fuzz_file

DTYPES = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32,
          torch.uint64, torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.float8_e4m3fn,
          torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz]  # fmt: skip
FORMATS = {"zip": {}, "legacy": {"_use_new_zipfile_serialization": False}}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    with Daemon(tmp_path_factory.mktemp("daemon")) as daemon, tensord.connect(daemon.address, timeout=60):
        yield daemon


pytestmark = pytest.mark.usefixtures("daemon")


def same(ours, theirs):
    assert tuple(ours.shape) == tuple(theirs.shape) and str(ours.dtype) == str(theirs.dtype).removeprefix("torch.")
    np.testing.assert_array_equal(bits(ours), bits(theirs.detach()))


def bits(x):
    """As integers: NaNs are equal to themselves."""
    size = {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}[x.dtype.itemsize]
    if isinstance(x, torch.Tensor):
        return x.contiguous().view(getattr(torch, size)).numpy() if x.dtype != torch.bool else x.numpy().view("uint8")
    return x.cast("uint8").numpy() if x.dtype == tensord.bool_ else x.bitcast(size).numpy()


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dtypes(tmp_path, dtype, kind):
    x = (torch.arange(35).reshape(5, 7) % (2 if dtype == torch.bool else 100)).to(dtype)
    saved = {"x": x, "t": x.t(), "empty": x[:0], "scalar": x[1, 2], "parameter": torch.nn.Parameter(x, False)}
    torch.save(saved, tmp_path / "f.pt", **FORMATS[kind])
    loaded = tensord.load(tmp_path / "f.pt")
    assert loaded.keys() == saved.keys()
    for name, value in saved.items():
        same(loaded[name], value)


VIEWS = {
    "offset": lambda x: x[1:, 2:], "permuted": lambda x: x.permute(2, 0, 1),
    "expanded": lambda x: x[0:1].expand(4, 3, 4),
    "steps": lambda x: x[:, ::2, 1::2], "diagonal": lambda x: x.diagonal(0, 1, 2),
    "windows": lambda x: x.unfold(2, 3, 1),
    "overlap": lambda x: x.as_strided((5, 5), (1, 1), 2), "one": lambda x: x[1, 1, 1], "column": lambda x: x[:, :1, :1],
    "channels last": lambda x: x[None].to(memory_format=torch.channels_last), "flat": lambda x: x.reshape(-1)[3:9],
    "empty": lambda x: x[:, 3:], "other dtype": lambda x: x.view(torch.int32),
    "half of it": lambda x: x.view(torch.float16)[..., 1::2],
}  # fmt: skip


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("view", VIEWS)
def test_views(tmp_path, view, kind):
    x = VIEWS[view](torch.arange(24.0).reshape(2, 3, 4))
    torch.save(x, tmp_path / "f.pt", **FORMATS[kind])
    same(torch_load(tmp_path / "f.pt"), x)


@pytest.mark.parametrize("kind", FORMATS)
def test_storages_are_shared(tmp_path, kind):
    x = torch.arange(6.0)
    torch.save([x, x[2:], x.reshape(2, 3).t()], tmp_path / "f.pt", **FORMATS[kind])
    flat, tail, table = torch_load(tmp_path / "f.pt")
    tail[0] = 50
    assert flat.tolist() == [0, 1, 50, 3, 4, 5] and table.tolist() == [[0, 3], [1, 4], [50, 5]]


@pytest.mark.parametrize("kind", FORMATS)
def test_a_checkpoint(tmp_path, kind):
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(5, 3)).sum().backward()
    optimizer.step()
    saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3, "loss": 0.25,
             "shape": x_shape(),
             "args": argparse.Namespace(lr=0.1), "device": torch.device("cpu"), "numpy": np.float64(0.5),
             "dtype": torch.bfloat16, "default": collections.OrderedDict(a=1)}  # fmt: skip
    torch.save(saved, tmp_path / "f.pth", **FORMATS[kind])
    loaded = tensord.load(tmp_path / "f.pth")
    for name, value in model.state_dict().items():
        same(loaded["model"][name], value)
    for index, state in optimizer.state_dict()["state"].items():
        same(loaded["optimizer"]["state"][index]["exp_avg"], state["exp_avg"])
    assert loaded["optimizer"]["param_groups"][0]["betas"] == (0.9, 0.999)
    assert (loaded["epoch"], loaded["loss"], loaded["shape"], loaded["numpy"]) == (3, 0.25, (2, 3), 0.5)
    assert loaded["args"].state == {"lr": 0.1} and loaded["dtype"] == tensord.bfloat16


def x_shape():
    return torch.zeros(2, 3).shape


@pytest.mark.parametrize("kind", FORMATS)
def test_a_whole_model_is_inert(tmp_path, kind):
    model = torch.nn.Linear(2, 3)
    torch.save(model, tmp_path / "f.pt", **FORMATS[kind])
    loaded = torch_load(tmp_path / "f.pt")
    assert loaded.class_name == "torch.nn.modules.linear.Linear"
    same(loaded.state["_parameters"]["weight"], model.weight)


def test_large_tensors_are_read_when_they_are_used(tmp_path):
    torch.save({"a": torch.zeros(1 << 22), "b": torch.ones(1 << 20)}, tmp_path / "f.pt")
    before = tensord.counters()["bytes_uploaded"]
    loaded = torch_load(tmp_path / "f.pt")
    assert loaded["b"].sum().item() == 1 << 20
    assert tensord.counters()["bytes_uploaded"] - before == 4 << 20


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("x", [
    torch.zeros(2, dtype=torch.complex64), torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
    torch.eye(2).to_sparse(), torch.eye(2).to_sparse_csr(),
], ids=["complex", "quantised", "sparse", "csr"])  # fmt: skip
def test_what_tensors_cannot_be_is_named(tmp_path, x, kind):
    torch.save(x, tmp_path / "f.pt", **FORMATS[kind])
    with pytest.raises(errors.UnimplementedError, match="complex|q|sparse"):
        torch_load(tmp_path / "f.pt")


def test_torchscript_is_inert(tmp_path):
    model = torch.nn.Linear(2, 3)
    torch.jit.save(torch.jit.trace(model, torch.ones(1, 2)), tmp_path / "f.pt")
    loaded = torch_load(tmp_path / "f.pt")
    assert loaded.class_name.startswith("__torch__.")
    same(loaded.state["weight"], model.weight)


def pickled(*values):
    """As old PyTorch did: the names that a storage has in its pickle."""
    import pickle

    out = io.BytesIO()
    for value in values:
        pickle.dump(value, out, 2)
    return out.getvalue()


def tar_file(path):
    """PyTorch wrote these until version 0.1.10, and only reads them since."""
    members = {
        "sys_info": pickled({"protocol_version": 1000, "little_endian": True, "type_sizes": {}}),
        "storages": pickled(1, (7, "cpu", torch.FloatStorage)) + struct.pack("<q6f", 6, *range(6))
                    + pickled([(8, 7, 2, 3)]),
        "tensors": pickled(2, (1, 7, torch.FloatTensor)) + struct.pack("<i4x5q", 2, 2, 3, 3, 1, 0)
                   + pickled((2, 8, torch.FloatTensor)) + struct.pack("<i4x3q", 1, 2, 1, 1),
        "pickle": b"\x80\x02}(X\1\0\0\0aP1\nX\1\0\0\0bP2\nu.",
    }  # fmt: skip
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def test_tar_files(tmp_path):
    path = tar_file(tmp_path / "f.tar")
    ours = torch_load(path)
    assert ours["a"].tolist() == [[0, 1, 2], [3, 4, 5]] and ours["b"].tolist() == [3, 4]
    theirs = torch.load(path, weights_only=False)
    for name in "a", "b":
        same(ours[name], theirs[name])


@pytest.mark.parametrize("kind", [*FORMATS, "tar"])
def test_mutated_files_are_errors_or_values(tmp_path, kind):
    path = tmp_path / "f.pt"
    if kind == "tar":
        tar_file(path)
    else:
        torch.save(
            {"a": torch.arange(6.0).reshape(2, 3).t(), "b": [torch.zeros(2, dtype=torch.bfloat16)]},
            path,
            **FORMATS[kind],
        )
    fuzz_file(path, torch_load, rounds=500)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_cut_file_is_an_error(tmp_path, kind):
    path = tmp_path / "f.pt"
    torch.save({"a": torch.arange(600.0)}, path, **FORMATS[kind])
    whole = path.read_bytes()
    for size in range(0, len(whole), 97):
        path.write_bytes(whole[:size])
        with pytest.raises(errors.TensordError):
            torch_load(path)["a"].sum().item()
