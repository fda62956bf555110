"""GGUF files, written by the package gguf and dequantised by it; what is wrong with a file."""

import struct

import gguf
import numpy as np
import pytest
import tensord
from gguf import GGMLQuantizationType as Kind
from gguf import quants
from tensord import errors
from tensord.io import gguf_load
from tensord.testing import fuzz_file

BLOCKS = [Kind.Q4_0, Kind.Q4_1, Kind.Q5_0, Kind.Q5_1, Kind.Q8_0, Kind.Q2_K, Kind.Q3_K, Kind.Q4_K, Kind.Q5_K, Kind.Q6_K,
          Kind.IQ4_NL, Kind.IQ4_XS, Kind.MXFP4]  # fmt: skip
PLAIN = {Kind.F32: "float32", Kind.F16: "float16", Kind.F64: "float64", Kind.I8: "int8", Kind.I16: "int16",
         Kind.I32: "int32", Kind.I64: "int64"}  # fmt: skip
# Where a block of these has a float16, which random bytes would make infinite or huge.
HALVES = {Kind.Q4_0: [0], Kind.Q4_1: [0, 2], Kind.Q5_0: [0], Kind.Q5_1: [0, 2], Kind.Q8_0: [0], Kind.Q2_K: [80, 82],
          Kind.Q3_K: [108], Kind.Q4_K: [0, 2], Kind.Q5_K: [0, 2], Kind.Q6_K: [208], Kind.IQ4_NL: [0], Kind.IQ4_XS: [0],
          Kind.MXFP4: []}  # fmt: skip


def random_blocks(kind, rows, row_blocks, rng):
    values, nbytes = gguf.GGML_QUANT_SIZES[kind]
    raw = rng.integers(0, 256, (rows * row_blocks, nbytes), np.uint8)
    for at in HALVES[kind]:
        raw[:, at : at + 2] = rng.normal(0, 1, (len(raw), 1)).astype(np.float16).view(np.uint8)
    if kind == Kind.MXFP4:
        raw[:, 0] = rng.integers(100, 150, len(raw))
        raw[:4, 0] = 0, 1, 2, 253  # subnormal scales, and the largest
    return raw.reshape(rows, row_blocks * nbytes)


def write(path, tensors=(), metadata=(), alignment=None):
    writer = gguf.GGUFWriter(path, "test")
    if alignment:
        writer.add_custom_alignment(alignment)
    for key, value, kind in metadata:
        writer.add_key_value(key, value, kind)
    for name, data, kind in tensors:
        writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("kind", BLOCKS, ids=lambda kind: kind.name)
def test_blocks_become_the_numbers_of_the_package(tmp_path, kind):
    rng = np.random.default_rng(kind)
    raw = random_blocks(kind, 5, 3, rng)
    write(tmp_path / "f.gguf", [("w", raw, kind)])
    expected = quants.dequantize(raw, kind)
    before = tensord.counters()["bytes_uploaded"]
    w = gguf_load(tmp_path / "f.gguf")[1]["w"]
    assert w.shape == expected.shape and w.dtype == tensord.float32 and not w.is_realized
    np.testing.assert_allclose(w.numpy(), expected, rtol=1e-6, atol=0)  # a fused multiply and add rounds once
    assert tensord.counters()["bytes_uploaded"] - before < 1.1 * raw.nbytes + 200  # blocks, not floats
    half = gguf_load(tmp_path / "f.gguf", dtype="float16")[1]["w"]
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(half.numpy(), expected.astype(np.float16), rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize("kind", [Kind.Q4_0, Kind.Q8_0, Kind.MXFP4], ids=lambda kind: kind.name)
def test_what_the_package_quantised_is_near_what_it_was(tmp_path, kind):
    data = np.random.default_rng(0).normal(0, 1, (2, 3, 64)).astype(np.float32)
    write(tmp_path / "f", [("w", quants.quantize(data, kind), kind)])
    w = gguf_load(tmp_path / "f")[1]["w"]
    assert w.shape == (2, 3, 64)
    assert np.abs(w.numpy() - data).max() < {Kind.Q8_0: 0.03, Kind.Q4_0: 0.4, Kind.MXFP4: 1}[kind]
    x = np.ones((64, 2), np.float32)
    np.testing.assert_allclose((w @ tensord.Tensor(x)).numpy(), w.numpy() @ x, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", [*PLAIN, Kind.BF16], ids=lambda kind: kind.name)
def test_plain_dtypes(tmp_path, kind):
    data = np.arange(24).reshape(2, 3, 4)
    raw = quants.quantize(data.astype(np.float32), kind) if kind == Kind.BF16 else data.astype(PLAIN[kind])
    write(tmp_path / "f", [("x", raw, kind)], alignment=64)
    x = gguf_load(tmp_path / "f")[1]["x"]
    assert str(x.dtype) == PLAIN.get(kind, "bfloat16") and x.shape == (2, 3, 4)
    np.testing.assert_array_equal(x.numpy().astype(np.float64), data)
    as_half = gguf_load(tmp_path / "f", dtype=tensord.float16)[1]["x"]
    assert as_half.dtype == (x.dtype if np.dtype(raw.dtype).kind == "i" else tensord.float16)


def test_metadata_of_all_types(tmp_path):
    types = gguf.GGUFValueType
    values = {
        "a.uint8": (200, types.UINT8), "a.int8": (-100, types.INT8), "a.uint16": (60000, types.UINT16),
        "a.int16": (-30000, types.INT16), "a.uint32": (4_000_000_000, types.UINT32),
        "a.int32": (-2_000_000_000, types.INT32),
        "a.uint64": (2**64 - 1, types.UINT64), "a.int64": (-(2**63), types.INT64), "a.float32": (0.5, types.FLOAT32),
        "a.float64": (0.1, types.FLOAT64), "a.bool": (True, types.BOOL), "a.string": ("ä€", types.STRING),
        "a.strings": (["", "b", "ü"], types.ARRAY), "a.ints": ([1, 2, 3], types.ARRAY),
        "a.floats": ([1.5, -2.0], types.ARRAY),
        "a.bools": ([True, False], types.ARRAY), "a.nested": ([[1, 2], [3]], types.ARRAY),
    }  # fmt: skip
    write(tmp_path / "f", metadata=[(key, value, kind) for key, (value, kind) in values.items()])
    metadata, tensors = gguf_load(tmp_path / "f")
    assert tensors == {} and metadata["general.architecture"] == "test"
    for key, (value, _) in values.items():
        assert metadata[key] == value and type(metadata[key]) is type(value), key


def kv(key, kind, raw):
    return struct.pack("<Q", len(key)) + key + struct.pack("<I", kind) + raw


def info(name, dims, kind, offset):
    return struct.pack(f"<Q{len(name)}sI{len(dims)}QIQ", len(name), name, len(dims), *dims, kind, offset)


def raw_file(entries=(), infos=(), data=b"", version=3, counts=None, magic=b"GGUF"):
    tensor_count, kv_count = counts or (len(infos), len(entries))
    head = magic + struct.pack("<IQQ", version, tensor_count, kv_count) + b"".join(entries) + b"".join(infos)
    return head + bytes(-len(head) % 32) + data


def array(kind, count, raw=b""):
    return struct.pack("<IQ", kind, count) + raw


INVALID, UNREAD = errors.InvalidArgumentError, errors.UnimplementedError
WRONG = {  # name: (file, error, message)
    "empty": (b"", INVALID, "start with 'GGUF'"),
    "another magic": (raw_file(magic=b"GGML"), INVALID, "start with 'GGUF'"),
    "version 1": (raw_file(version=1), UNREAD, "version 1"),
    "version 4": (raw_file(version=4), UNREAD, "version 4"),
    "big-endian": (raw_file(version=3 << 24), UNREAD, "big-endian"),
    "tensors without end": (raw_file(counts=(2**63, 0)), INVALID, "tensors in a file of"),
    "metadata without end": (raw_file(counts=(0, 2**40)), INVALID, "entries of metadata in a file of"),
    "a key without end": (raw_file([struct.pack("<Q", 2**50)], data=bytes(32)), INVALID, "a string of"),
    "a key beyond the file": (raw_file([struct.pack("<Q", 1000)], data=bytes(32)), INVALID, "it was cut"),
    "a key twice": (raw_file([kv(b"a", 0, b"\1")] * 2), INVALID, "there twice"),
    "a type of value": (raw_file([kv(b"a", 13, bytes(8))]), INVALID, "type 13"),
    "a bool of 2": (raw_file([kv(b"a", 7, b"\2")]), INVALID, "a bool that is 2"),
    "an array without end": (raw_file([kv(b"a", 9, array(0, 2**60))]), INVALID, "elements of an array in a file of"),
    "an array of strings without end": (raw_file([kv(b"a", 9, array(8, 10))], data=bytes(32)), INVALID,
                                     "elements of an array"),
    "an array of no type": (raw_file([kv(b"a", 9, array(77, 1, bytes(64)))]), INVALID, "type 77"),
    "arrays too deep": (raw_file([kv(b"a", 9, array(9, 1) * 20)]), INVALID, "more than 8 deep"),
    "alignment 0": (raw_file([kv(b"general.alignment", 4, bytes(4))]), INVALID, "no power of two"),
    "alignment 24": (raw_file([kv(b"general.alignment", 4, b"\x18\0\0\0")]), INVALID, "no power of two"),
    "alignment of text": (raw_file([kv(b"general.alignment", 8, struct.pack("<Q2s", 2, b"32"))]), INVALID,
                          "no power of two"),
    "five axes": (raw_file(infos=[info(b"x", [1] * 5, 0, 0)], data=bytes(32)), INVALID, "5 axes"),
    "sizes that overflow": (raw_file(infos=[info(b"x", [2**40, 2**40], 0, 0)], data=bytes(32)), INVALID,
                            "too many elements"),
    "a size beyond 63 bits": (raw_file(infos=[info(b"x", [2**63], 0, 0)], data=bytes(32)), INVALID, "no size"),
    "half a block": (raw_file(infos=[info(b"x", [16], 2, 0)], data=bytes(32)), INVALID, "rows of 16 numbers in"),
    "a block without axes": (raw_file(infos=[info(b"x", [], 2, 0)], data=bytes(32)), INVALID, "rows of 1 numbers"),
    "a format of the package": (raw_file(infos=[info(b"x", [256], 16, 0)], data=bytes(99)), UNREAD, "IQ2_XXS"),
    "a format of nobody": (raw_file(infos=[info(b"x", [256], 99, 0)], data=bytes(99)), UNREAD, "of type 99"),
    "data that is cut": (raw_file(infos=[info(b"x", [9], 0, 0)], data=bytes(35)), INVALID, "it was cut"),
    "an offset beyond": (raw_file(infos=[info(b"x", [1], 0, 2**63)], data=bytes(32)), INVALID, "it was cut"),
    "an offset between": (raw_file(infos=[info(b"x", [1], 0, 4)], data=bytes(32)), INVALID, "no multiple of the"),
    "an overlap": (raw_file(infos=[info(b"x", [9], 0, 0), info(b"y", [1], 0, 32)], data=bytes(64)), INVALID,
                   "before the end"),
    "a name twice": (raw_file(infos=[info(b"x", [1], 0, 0), info(b"x", [1], 0, 32)], data=bytes(64)), INVALID,
                     "there twice"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_file_is_an_error_that_names_it(tmp_path, name):
    data, error, message = WRONG[name]
    (tmp_path / "f.gguf").write_bytes(data)
    with pytest.raises(error, match=message) as caught:
        gguf_load(tmp_path / "f.gguf")
    assert str(tmp_path / "f.gguf") in str(caught.value)


def test_version_2_is_read(tmp_path):
    (tmp_path / "f").write_bytes(
        raw_file([kv(b"a", 0, b"\7")], [info(b"x", [2], 0, 0)], struct.pack("<2f", 1, 2), version=2)
    )
    metadata, tensors = gguf_load(tmp_path / "f")
    assert metadata == {"a": 7} and tensors["x"].tolist() == [1, 2]


def parts(folder, numbers=(0, 1, 2), total=3):
    types = gguf.GGUFValueType
    for place, number in enumerate(numbers):
        write(folder / f"m-{place + 1:05}-of-{len(numbers):05}.gguf",
              [(f"w{place}", np.full((2, 2), place, np.float32), None)],
              [("split.no", number, types.UINT16), ("split.count", len(numbers), types.UINT16),
               ("split.tensors.count", total, types.INT32)])  # fmt: skip
    return folder / f"m-00001-of-{len(numbers):05}.gguf"


def test_parts_are_one_model(tmp_path):
    metadata, tensors = gguf_load(parts(tmp_path))
    assert metadata["split.no"] == 0
    assert {name: tensor[0, 0].item() for name, tensor in tensors.items()} == {"w0": 0, "w1": 1, "w2": 2}
    with pytest.raises(INVALID, match="part 2; load the first one, m-00001-of-00003.gguf"):
        gguf_load(tmp_path / "m-00002-of-00003.gguf")
    (tmp_path / "m-00003-of-00003.gguf").unlink()
    with pytest.raises(errors.NotFoundError, match="m-00003-of-00003.gguf', part 3 of 3, is missing"):
        gguf_load(tmp_path / "m-00001-of-00003.gguf")


@pytest.mark.parametrize("numbers, total, message", [((0, 2, 1), 3, "called part 2"), ((0, 1), 5, "and it says 5")])
def test_parts_that_do_not_belong_together_are_an_error(tmp_path, numbers, total, message):
    with pytest.raises(INVALID, match=message):
        gguf_load(parts(tmp_path, numbers, total))


def test_a_dtype_that_is_no_float_is_an_error(tmp_path):
    with pytest.raises(INVALID, match="no float"):
        gguf_load(write(tmp_path / "f"), dtype="int8")


def test_mutated_files_are_errors_or_tensors(tmp_path):
    rng = np.random.default_rng(0)
    tensors = [("a", random_blocks(Kind.Q4_0, 2, 2, rng), Kind.Q4_0), ("b", np.zeros(3, np.float32), None)]
    path = write(tmp_path / "f", tensors,
                 [("k", ["a", "b"], gguf.GGUFValueType.ARRAY), ("n", 5, gguf.GGUFValueType.UINT32)])  # fmt: skip
    fuzz_file(path, gguf_load, rounds=300)
