"""Files of safetensors, against the package of that name; what is wrong with a file; memory and crashes."""

import json
import os
import signal
import subprocess
import sys
import textwrap

import ml_dtypes
import numpy as np
import pytest
import safetensors
import tensord
from safetensors import numpy as oracle
from tensord import dtypes, errors
from tensord.io import safe_load, safe_load_metadata, safe_save
from tensord.testing import fuzz_file

NAMES = {
    "bool": "BOOL", "int8": "I8", "int16": "I16", "int32": "I32", "int64": "I64", "uint8": "U8", "uint16": "U16",
    "uint32": "U32", "uint64": "U64", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float16": "F16",
    "float8_e4m3fnuz": "F8_E4M3FNUZ", "float8_e5m2fnuz": "F8_E5M2FNUZ", "bfloat16": "BF16", "float32": "F32",
    "float64": "F64",
}  # fmt: skip


def numbers(dtype, shape):
    raw = np.random.default_rng(1).integers(0, 2 if dtype == "bool" else 100, shape)
    return raw.astype(getattr(ml_dtypes, dtype, None) or dtype)


def write(path, header, data=b"", size=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes((len(text) if size is None else size).to_bytes(8, "little") + text + data)
    return path


def entry(dtype="F32", shape=(2,), offsets=(0, 8), **more):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets), **more}


@pytest.mark.parametrize("dtype", NAMES)
@pytest.mark.parametrize("shape", [(), (3,), (0, 4), (2, 3, 5), (300, 41)], ids=str)
def test_what_was_saved_is_loaded(tmp_path, dtype, shape):
    data = numbers(dtype, shape)
    safe_save({"x": data, "y": tensord.Tensor(data)}, tmp_path / "a.safetensors")
    loaded = safe_load(tmp_path / "a.safetensors")
    for name in "x", "y":
        assert str(loaded[name].dtype) == dtype and loaded[name].shape == shape
        bits = loaded[name].bitcast("uint8") if shape else loaded[name]
        np.testing.assert_array_equal(bits.numpy(), data.view(np.uint8) if shape else data)


@pytest.mark.parametrize("dtype", NAMES)
def test_both_ways_with_the_package(tmp_path, dtype):
    data = {"b": numbers(dtype, (7, 3)), "a": numbers(dtype, (5,)), "long": numbers("int64", (2,))}
    safe_save(data, tmp_path / "ours", metadata={"ä": "ü\n", "b": ""})
    theirs = dict(safetensors.deserialize((tmp_path / "ours").read_bytes()))
    for name, array in data.items():
        assert theirs[name]["dtype"] == ("I64" if name == "long" else NAMES[dtype])
        assert theirs[name]["shape"] == list(array.shape) and theirs[name]["data"] == array.tobytes()
    oracle.save_file(data, tmp_path / "theirs", metadata={"k": "v"})
    for name, tensor in safe_load(tmp_path / "theirs").items():
        assert tensor.shape == data[name].shape and tensor.bitcast("uint8").numpy().tobytes() == data[name].tobytes()
        assert name == "long" or str(tensor.dtype) == dtype
    assert safe_load_metadata(tmp_path / "theirs") == {"k": "v"}
    assert safe_load_metadata(tmp_path / "ours") == {"ä": "ü\n", "b": ""}


def test_the_header_is_padded_and_tensors_are_aligned(tmp_path):
    safe_save({"a": np.zeros(3, np.uint8), "b": np.zeros(3, np.float64), "c": np.zeros(1, np.int16)}, tmp_path / "f")
    raw = (tmp_path / "f").read_bytes()
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + size])
    assert size % 8 == 0 and [header[name]["data_offsets"][0] for name in "bca"] == [0, 24, 26]


def test_loading_reads_nothing_until_a_tensor_is_used(tmp_path):
    safe_save({"a": np.zeros(100_000, np.float32), "b": np.ones(100_000, np.float32)}, tmp_path / "f")
    before = tensord.counters()["bytes_uploaded"]
    loaded = safe_load(tmp_path / "f")
    total = (loaded["b"] + 1).sum()
    assert not loaded["a"].is_realized and not loaded["b"].is_realized
    assert tensord.counters()["bytes_uploaded"] == before
    assert total.item() == 200_000
    assert tensord.counters()["bytes_uploaded"] - before == 400_000
    assert loaded["b"].sum().item() == 100_000  # sent once
    assert tensord.counters()["bytes_uploaded"] - before == 400_000 and not loaded["a"].is_realized


def test_a_lazy_tensor_is_a_tensor(tmp_path):
    safe_save({"x": np.arange(6, dtype=np.float32).reshape(2, 3)}, tmp_path / "f")
    x = safe_load(tmp_path / "f")["x"]

    @tensord.jit
    def double(y):
        x.assign(x * 2)
        return x + y

    assert double(tensord.ones(3)).tolist() == [[1, 3, 5], [7, 9, 11]]
    assert double(tensord.ones(3)).tolist() == [[1, 5, 9], [13, 17, 21]]

    fresh = safe_load(tmp_path / "f")["x"]
    assert double(fresh[0]).tolist() == [[0, 9, 18], [24, 33, 42]]  # an argument that is in a file
    fresh.requires_grad_()
    fresh.square().sum().backward()
    assert fresh.grad.tolist() == [[0, 2, 4], [6, 8, 10]]
    view = safe_load(tmp_path / "f")["x"].T
    view[0] += 10
    assert view.tolist() == [[10, 13], [1, 4], [2, 5]]
    unread = safe_load(tmp_path / "f")["x"]
    before = tensord.counters()["bytes_uploaded"]
    unread.assign(tensord.zeros(2, 3))
    assert (
        unread.sum().item() == 0 and tensord.counters()["bytes_uploaded"] == before
    )  # what is overwritten is not read


def test_threads_may_use_a_lazy_tensor_at_once(tmp_path, client):
    import threading

    data = np.arange(3 << 20, dtype=np.float32)
    safe_save({"x": data}, tmp_path / "f")
    x = safe_load(tmp_path / "f")["x"]
    before = tensord.counters()["bytes_uploaded"]
    results = []
    threads = [threading.Thread(target=lambda: results.append((x + 0).max().item())) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [data[-1]] * 6
    assert tensord.counters()["bytes_uploaded"] - before == data.nbytes


def test_the_file_may_be_replaced_and_saved_to_itself(tmp_path):
    path = tmp_path / "f.safetensors"
    tensord.save({"x": np.arange(50_000)}, path)
    lazy = tensord.load(path)
    tensord.save({"x": np.zeros(50_000)}, path)
    assert lazy["x"].numpy()[7] == 7  # still the file that was opened
    again = tensord.load(path)
    again["x"] = again["x"] + 1
    tensord.save(again, path)
    assert tensord.load(path)["x"].numpy().max() == 1


@pytest.mark.parametrize("count, left", [(1 << 20, 1 << 22), (1 << 20, 0), (5, 0)], ids=str)
def test_a_file_that_shrinks_is_an_error(tmp_path, count, left):
    safe_save({"x": np.zeros(count)}, tmp_path / "f")
    x = safe_load(tmp_path / "f")["x"]
    os.truncate(tmp_path / "f", left)
    with pytest.raises(errors.DataLossError, match="cut since it was opened"):
        x.sum().item()
    with pytest.raises(errors.DataLossError):
        x.numpy()
    assert tensord.ones(3).sum().item() == 3  # the session goes on
    tensord.synchronize()


HEADERS = {  # name: (header, data, message)
    "no JSON": (b"{]", b"", "JSON cannot be read"),
    "not an object": (b"[]", b"", "start with '{'"),
    "a byte before": (b" {}", b"", "start with '{'"),
    "a key twice": (b'{"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[],'
                    b'"data_offsets":[0,1]}}', b"x", "there twice"),
    "a field twice": (b'{"a":{"dtype":"U8","dtype":"I8","shape":[],"data_offsets":[0,1]}}', b"x", "there twice"),
    "nested": (b'{"a":' + b"[" * 200_000, b"", "nested too deeply|cannot be read"),
    "NaN": (b'{"a": NaN}', b"", "NaN is not JSON"),
    "no UTF-8": (b'{"\xff": 1}', b"", "cannot be read"),
    "digits": (b'{"a":{"dtype":"U8","shape":[' + b"9" * 5000 + b'],"data_offsets":[0,1]}}', b"x", "cannot be read"),
    "an entry that is a list": ({"a": []}, b"", "are needed"),
    "a field too many": ({"a": entry(stride=1)}, bytes(8), "are needed"),
    "a field too few": ({"a": {"dtype": "F32", "shape": []}}, bytes(4), "are needed"),
    "a dtype of nobody": ({"a": entry("F31")}, bytes(8), "no dtype of the format"),
    "a dtype that is a list": ({"a": entry([])}, bytes(8), "no dtype of the format"),
    "a shape of floats": ({"a": entry(shape=[2.0])}, bytes(8), "no size"),
    "a shape of bools": ({"a": entry(shape=[True, 2])}, bytes(8), "no size"),
    "a negative size": ({"a": entry(shape=[-2])}, bytes(8), "no size"),
    "sizes that overflow": ({"a": entry(shape=[2**32, 2**32])}, bytes(8), "too many elements"),
    "overflow hidden by a 0": ({"a": entry(shape=[0, 2**62, 2**62], offsets=(0, 0))}, b"", "too many elements"),
    "too many axes": ({"a": entry(shape=[1] * 65)}, bytes(4), "at most 64"),
    "another size": ({"a": entry(offsets=(0, 4))}, bytes(4), "takes 8 bytes"),
    "end before begin": ({"a": entry(offsets=(8, 0))}, bytes(8), "takes 8 bytes"),
    "negative offsets": ({"a": entry(offsets=(-8, 0))}, bytes(8), "two numbers"),
    "three offsets": ({"a": entry(offsets=(0, 8, 8))}, bytes(8), "two numbers"),
    "a gap at the start": ({"a": entry(offsets=(8, 16))}, bytes(16), "neither overlap nor gap"),
    "a gap": ({"a": entry(), "b": entry(offsets=(9, 17))}, bytes(17), "neither overlap nor gap"),
    "an overlap": ({"a": entry(), "b": entry(offsets=(4, 12))}, bytes(12), "neither overlap nor gap"),
    "bytes too few": ({"a": entry()}, bytes(7), "take 8 bytes, 7 are there"),
    "bytes too many": ({"a": entry()}, bytes(9), "take 8 bytes, 9 are there"),
    "offsets beyond 64 bits": ({"a": entry(shape=[0], offsets=(2**70, 2**70))}, b"", "neither overlap nor gap"),
    "metadata of numbers": ({"__metadata__": {"a": 1}}, b"", "no map of strings"),
    "metadata that is a list": ({"__metadata__": []}, b"", "no map of strings"),
}  # fmt: skip


@pytest.mark.parametrize("name", HEADERS)
def test_a_wrong_header_is_an_error_that_names_the_file(tmp_path, name):
    header, data, message = HEADERS[name]
    path = write(tmp_path / "f.safetensors", header, data)
    for load in safe_load, safe_load_metadata:
        with pytest.raises(errors.InvalidArgumentError, match=message) as caught:
            load(path)
        assert str(path) in str(caught.value) and len(str(caught.value)) < 600


@pytest.mark.parametrize("raw, message", [
    (b"", "0 bytes are no"), (b"\1", "1 bytes are no"), ((2**63).to_bytes(8, "little"), "the format allows"),
    ((100).to_bytes(8, "little") + b"{}", "it was cut"),
    ((100_000_001).to_bytes(8, "little") + b"{}", "the format allows 100000000"),
], ids=["empty", "short", "huge", "cut", "one too many"])  # fmt: skip
def test_a_wrong_header_size_is_an_error(tmp_path, raw, message):
    (tmp_path / "f").write_bytes(raw)
    with pytest.raises(errors.InvalidArgumentError, match=message):
        safe_load(tmp_path / "f")


def test_what_cannot_be_opened_is_an_error(tmp_path):
    with pytest.raises(errors.NotFoundError, match="cannot be opened"):
        safe_load(tmp_path / "nothing")
    with pytest.raises(errors.InvalidArgumentError, match="no regular file"):
        safe_load(tmp_path)
    with pytest.raises(errors.InvalidArgumentError, match="ends in none of"):
        tensord.load(tmp_path / "model.txt")
    with pytest.raises(errors.UnimplementedError, match="C64"):
        safe_load(write(tmp_path / "f", {"a": entry("C64")}, bytes(16)))


def test_padding_spaces_and_an_empty_file_are_fine(tmp_path):
    assert safe_load(write(tmp_path / "f", b"{}      ")) == {}
    assert (
        safe_load(write(tmp_path / "g", b'{"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]}}   ', b"\5"))["a"].item()
        == 5
    )
    safe_save({}, tmp_path / "h")
    assert oracle.load_file(tmp_path / "h") == {}


@pytest.mark.parametrize("tensors, metadata, message", [
    ({"a": 3}, None, "cast it first"), ({"__metadata__": np.zeros(1)}, None, "for itself"),
    ({3: np.zeros(1)}, None, "strings"),
    ({"\ud800": np.zeros(1)}, None, "no text"), ({}, {"a": 1}, "metadata is strings"),
], ids=["weak", "reserved", "number", "surrogate", "metadata"])  # fmt: skip
def test_what_cannot_be_saved_leaves_the_old_file(tmp_path, tensors, metadata, message):
    (tmp_path / "f").write_text("old")
    tensors = {name: tensord.Tensor(value) if isinstance(value, int) else value for name, value in tensors.items()}
    with pytest.raises(errors.InvalidArgumentError, match=message):
        safe_save(tensors, tmp_path / "f", metadata)
    assert [path.name for path in tmp_path.iterdir()] == ["f"] and (tmp_path / "f").read_text() == "old"


def test_an_error_of_the_device_leaves_the_old_file(tmp_path):
    (tmp_path / "f").write_text("old")
    safe_save({"x": np.zeros(1 << 20)}, tmp_path / "source")
    lost = safe_load(tmp_path / "source")["x"]
    os.truncate(tmp_path / "source", 100)
    with pytest.raises(errors.DataLossError):
        safe_save({"a": np.zeros(5), "x": lost}, tmp_path / "f")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f", "source"] and (tmp_path / "f").read_text() == "old"


def test_links_and_modes_stay(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "real").chmod(0o640)
    (tmp_path / "link").symlink_to("real")
    safe_save({"x": np.zeros(3)}, tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").stat().st_mode & 0o777 == 0o640
    safe_save({"x": np.zeros(3)}, tmp_path / "new")
    mask = os.umask(0)
    os.umask(mask)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o666 & ~mask


def test_a_process_killed_in_the_middle_leaves_the_old_file(tmp_path, daemon):
    path = tmp_path / "f.safetensors"
    safe_save({"x": np.arange(5)}, path)
    child = subprocess.Popen([sys.executable, "-c", textwrap.dedent(f"""
        import sys, time, tensord
        from tensord.io import checked, safetensors
        write = safetensors.write_tensor
        def slowly(file, tensor):
            write(file, tensor)
            print("written", flush=True)
            time.sleep(600)
        safetensors.write_tensor = slowly
        tensord.connect({daemon.address!r})
        tensord.save({{"x": tensord.ones(1 << 20), "y": tensord.ones(5)}}, {str(path)!r})
    """)], stdout=subprocess.PIPE)  # fmt: skip
    assert child.stdout.readline() == b"written\n"
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert safe_load(path)["x"].tolist() == [0, 1, 2, 3, 4]
    assert len(list(tmp_path.iterdir())) == 2  # what was written is beside it


def test_a_large_file_needs_no_memory(tmp_path, daemon):
    """512 MiB in two tensors, of which the daemon gets one; the client holds neither."""
    half = 256 << 20
    path = tmp_path / "sparse.safetensors"
    header = {name: entry("U8", [half], [i * half, (i + 1) * half]) for i, name in enumerate("ab")}
    write(path, header)
    os.truncate(path, path.stat().st_size + 2 * half)
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(f"""
        import tensord
        def peak():
            return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) >> 10
        tensord.connect({daemon.address!r})
        tensord.ones(10).sum().item()
        before = peak()
        weights = tensord.load({str(path)!r})
        assert (weights["b"] == 0).all().item()
        tensord.save({{"b": weights["b"]}}, {str(tmp_path / "copy.safetensors")!r})
        print(peak() - before)
    """)], stdout=subprocess.PIPE, check=True)  # fmt: skip
    assert (tmp_path / "copy.safetensors").stat().st_size > half
    assert int(done.stdout) < 64  # MiB


def test_shards_are_one_model(tmp_path):
    safe_save({"a": np.arange(3), "c": np.arange(2)}, tmp_path / "model-1.safetensors")
    safe_save({"b": np.arange(4)}, tmp_path / "model-2.safetensors")
    index = tmp_path / "model.safetensors.index.json"
    names = {"a": "model-1.safetensors", "b": "model-2.safetensors"}
    index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": names}))
    assert {name: len(tensor) for name, tensor in tensord.load(index).items()} == {"a": 3, "b": 4}
    for wrong, message in [
        ({"weight_map": {"a": "../model-1.safetensors"}}, "no name of a file in the same folder"),
        ({"weight_map": {"a": "/etc/passwd"}}, "no name of a file in the same folder"),
        ({"weight_map": {"a": ".."}}, "no name of a file in the same folder"),
        ({"weight_map": {"a": 1}}, "no weight_map"), ({}, "no weight_map"), ([], "no weight_map"),
        ({"weight_map": {"z": "model-1.safetensors"}}, "not in 'model-1.safetensors'"),
    ]:  # fmt: skip
        index.write_text(json.dumps(wrong))
        with pytest.raises(errors.InvalidArgumentError, match=message):
            safe_load(index)
    index.write_text(json.dumps({"weight_map": {"a": "model-3.safetensors"}}))
    with pytest.raises(errors.NotFoundError):
        safe_load(index)


def test_mutated_files_are_errors_or_tensors(tmp_path):
    path = tmp_path / "f.safetensors"
    safe_save({"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.zeros(5, bool)}, path, {"k": "v"})
    fuzz_file(path, safe_load, rounds=600)


def test_dtypes_of_the_format_are_all_dtypes_of_ours():
    from tensord.io import safetensors as ours

    assert {str(dtype) for dtype in dtypes.all} == {str(dtype) for dtype in ours._DTYPES.values()}
