import os
import pickle
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
import tensord
from tensord import Tensor, dtypes


@pytest.mark.parametrize("given, name", [
    ("float32", "float32"), ("half", "float16"), (np.int8, "int8"), (np.dtype("uint16"), "uint16"),
    (float, "float32"), (int, "int32"), (bool, "bool"), (tensord.float64, "float64"),
])  # fmt: skip
def test_names_and_foreign_dtypes_are_understood(given, name):
    assert str(tensord.dtype(given)) == name


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="float31"):
        tensord.dtype("float31")


def test_dtypes_are_values():
    assert tensord.float32 == "float32" and tensord.float32 != tensord.float16
    assert {tensord.int8: 1}[tensord.dtype("int8")] == 1
    assert pickle.loads(pickle.dumps(tensord.bfloat16)) == tensord.bfloat16
    assert repr(tensord.int64) == "tensord.int64"


def test_float8_by_pytorch_names():
    for name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"):
        assert getattr(tensord, name) is getattr(dtypes, name) == name
        assert Tensor([1.5], dtype=getattr(tensord, name)).dtype == name


def test_void_is_of_no_tensor():
    assert str(dtypes.void) == "void" and dtypes.void.itemsize == 0
    assert dtypes.void not in dtypes.all and dtypes.void != dtypes.bool_
    assert pickle.loads(pickle.dumps(dtypes.void)) == dtypes.void
    x = Tensor([1, 2])
    uses = [lambda d: Tensor([1], d), lambda d: Tensor(1, d), lambda d: tensord.zeros(2, dtype=d), x.cast, x.bitcast,
            lambda d: x.sum(dtype=d), lambda d: tensord.promote_types(d, "int8"), dtypes.finfo, dtypes.iinfo,
            lambda d: tensord.arange(3, dtype=d), tensord.set_default_dtype, lambda d: dtypes.void.max]
    for use in uses:
        for given in (dtypes.void, "void"):
            with pytest.raises(ValueError, match="void"):
                use(given)


def test_promotion():
    assert tensord.promote_types("uint8", "int8") == "int16"
    assert tensord.promote_types("float16", "bfloat16") == "float32"


def test_every_alias_and_group():
    names = {"char": "int8", "uchar": "uint8", "byte": "uint8", "short": "int16", "ushort": "uint16", "int": "int32",
             "uint": "uint32", "long": "int64", "ulong": "uint64", "half": "float16", "float": "float32",
             "double": "float64", "fp8e4m3": "float8_e4m3fn", "fp8e5m2": "float8_e5m2",
             "fp8e4m3fnuz": "float8_e4m3fnuz", "fp8e5m2fnuz": "float8_e5m2fnuz", "float8_e4m3": "float8_e4m3fn"}
    for alias, name in names.items():
        assert tensord.dtype(alias) == name
        assert getattr(dtypes, alias if hasattr(dtypes, alias) else alias + "_") == name
    assert len(dtypes.all) == len(set(dtypes.all)) == 17
    assert set(dtypes.all) == {dtypes.bool_, *dtypes.ints, *dtypes.floats}
    assert set(dtypes.ints) == {*dtypes.int8s, *dtypes.int16s, *dtypes.int32s, *dtypes.int64s}
    assert sorted([dtypes.float64, dtypes.bool_, dtypes.uint8, dtypes.int8, dtypes.weakfloat]) == [
        "bool", "int8", "uint8", "weakfloat", "float64"]


def test_kinds_and_limits():
    for d in dtypes.all:
        assert dtypes.is_float(d) + dtypes.is_int(d) + dtypes.is_bool(d) == 1
        assert d.bitsize == (1 if d == "bool" else 8 * d.itemsize)
    assert [dtypes.is_unsigned(d) for d in ("uint8", "int8", "float32")] == [True, False, False]
    for d in dtypes.ints:
        info = np.iinfo(str(d))
        assert (d.min, d.max) == (info.min, info.max) and dtypes.iinfo(d) == (info.bits, info.min, info.max)
    assert (dtypes.bool_.min, dtypes.bool_.max) == (False, True)
    assert dtypes.float32.max == float("inf") and dtypes.float8_e4m3.min == -448
    for d in dtypes.floats:
        info, theirs = dtypes.finfo(d), ml_dtypes.finfo(np.dtype(getattr(ml_dtypes, str(d), str(d))))
        for field in ("max", "eps", "smallest_normal", "smallest_subnormal"):
            assert getattr(info, field) == float(getattr(theirs, field)), (d, field)
        assert info.mantissa_bits == theirs.nmant
    exponent, mantissa, *_ = dtypes.finfo("bfloat16")
    assert (exponent, mantissa) == (8, 7)
    with pytest.raises(ValueError, match="no float"):
        dtypes.finfo("int8")
    with pytest.raises(ValueError, match="no integer"):
        dtypes.iinfo("half")


def test_helpers():
    assert dtypes.least_upper_dtype("bool", "uint8", "int8", "float16") == "float16"
    assert dtypes.least_upper_dtype("int64", "uint64") == "weakfloat"
    assert [dtypes.least_upper_float(d) for d in ("int8", "half", "weakint")] == ["float32", "float16", "weakfloat"]
    assert dtypes.can_lossless_cast("int16", "float32") and not dtypes.can_lossless_cast("int32", "float32")
    assert [dtypes.sum_acc_dtype(d) for d in ("bool", "uint8", "half", "double", "int64")] == [
        "int32", "uint32", "float32", "float64", "int64"]
    assert [dtypes.from_py(x) for x in (1, 1.5, True, [1, 2.5], [1], [])] == [
        "weakint", "weakfloat", "bool", "float32", "int32", "float32"]
    assert dtypes.strong_dtype("weakint") == "int32" and dtypes.weak_dtype("float16") == "weakfloat"
    assert dtypes.uint8.const(300) == 44 and dtypes.int8.const(2.7) == 2 and dtypes.bfloat16.const(1.001) == 1.0
    assert dtypes.to_bits(1.0, "bfloat16") == 0x3F80 and dtypes.from_bits(0x7E, "fp8e4m3") == 448


def test_plain_numbers_are_weak():
    half, byte = Tensor(np.ones(2, "float16")), Tensor(np.ones(2, "int8"))
    weak = [half * 2.5, half + Tensor(3), half * Tensor(0.1), byte + 1, byte * Tensor(2), byte * 2.5, byte * 2.5 + half,
            Tensor(3) + Tensor(4), Tensor(3) / 2, Tensor([True]) + 1, half + np.float64(1.0)]
    assert [str(x.dtype) for x in weak] == [
        "float16", "float16", "float16", "int8", "int8", "weakfloat", "float16", "weakint", "weakfloat", "weakint",
        "float16"]
    # They are read as the defaults, and keep their numbers whatever they meet later.
    assert (byte * 2.5).numpy().dtype == np.float32 and (Tensor(3) + 4).numpy().dtype == np.int32
    tenth = Tensor(0.1)
    assert tenth.numpy() == np.float32(0.1)
    assert (Tensor([1.0], dtype="float64") * tenth).tolist() == [0.1]
    total = byte * 2.5
    total.realize()
    assert total.dtype == "weakfloat" and (total + half).dtype == "float16" and total.tolist() == [2.5, 2.5]
    assert (Tensor(np.uint64([1])) + Tensor(np.int64([2]))).tolist() == [3.0]
    assert Tensor(3_000_000_000).item() == 3_000_000_000
    assert (Tensor([True, False]) * 2**40).tolist() == [2**40, 0]
    with pytest.raises(RuntimeError, match="storage"):
        Tensor(3).assign(4)
    with pytest.raises(RuntimeError, match="storage"):
        Tensor(3.0).requires_grad_()
    into = Tensor(np.zeros(2, "float16"))
    into.assign(Tensor(1.5))
    assert into.tolist() == [1.5, 1.5]


def test_captured_functions_take_and_return_weak_tensors():
    @tensord.jit
    def scale(x, y):
        return x * 2.5 + y

    a = Tensor([1, 2])
    for _ in range(3):
        assert scale(a, Tensor(4)).tolist() == [6.5, 9.0]


def test_defaults_can_be_set():
    with tensord.default_dtypes(float="float64", int="int64"):
        assert Tensor([0.1]).dtype == "float64" and Tensor([1]).dtype == "int64"
        assert tensord.zeros(2).dtype == "float64" and tensord.arange(3).dtype == "int64"
        assert (Tensor([1]) / 2).dtype == "float64" and tensord.dtype(float) == "float64"
        assert (Tensor([1]) * 0.1).numpy().dtype == np.float64
        with tensord.default_dtypes(float=tensord.bfloat16):
            assert tensord.ones(1).dtype == "bfloat16" and tensord.arange(3).dtype == "int64"
            assert Tensor([1.001]).tolist() == [1.0]
    assert dtypes.default_float == "float32" and dtypes.default_int == "int32"
    dtypes.default_float, dtypes.default_int = "float64", tensord.int16
    assert (dtypes.default_float, Tensor([1.5]).dtype, Tensor([1]).dtype) == ("float64", "float64", "int16")
    assert tensord.get_default_dtype() == "float64"
    dtypes.default_float, dtypes.default_int = dtypes.float32, dtypes.int32
    for name, wrong in (("default_float", "int32"), ("default_int", "float32"), ("default_int", "bool")):
        with pytest.raises(ValueError, match=name):
            setattr(dtypes, name, wrong)
    tensord.set_default_dtype("float16")
    assert Tensor([1.5]).dtype == "float16"
    tensord.set_default_dtype("float32")
    with pytest.raises(ValueError, match="default"):
        tensord.set_default_dtype("bool")


def test_environment_sets_defaults():
    code = "import tensord; print(tensord.dtypes.default_float, tensord.dtypes.default_int)"

    def run(**env):
        return subprocess.run([sys.executable, "-c", code], env={**os.environ, **env}, capture_output=True, text=True)

    assert run(TENSORD_DEFAULT_FLOAT="bfloat16", TENSORD_DEFAULT_INT="int64").stdout == "bfloat16 int64\n"
    assert "TENSORD_DEFAULT_FLOAT=int8" in run(TENSORD_DEFAULT_FLOAT="int8").stderr
