import pickle

import numpy as np
import pytest
import tensord


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


def test_promotion():
    assert tensord.promote_types("uint8", "int8") == "int16"
    assert tensord.promote_types("float16", "bfloat16") == "float32"
