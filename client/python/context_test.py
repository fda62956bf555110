"""Context scopes the settings that there are, and names them when asked for others."""

import pytest
import tensord
from tensord import Context, Tensor

SETTINGS = {
    "TRAINING": (1, tensord.is_training, False, True),
    "DEFAULT_FLOAT": ("float64", lambda: Tensor([0.5]).dtype, "float32", "float64"),
    "DEFAULT_INT": (tensord.int64, lambda: Tensor([1]).dtype, "int32", "int64"),
    "FAST_MATH": (True, lambda: tensord.current().fast_math, False, True),
    "DEV": ("cpu:0", lambda: Tensor.zeros(2).device, None, "CPU:0"),
}  # fmt: skip


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_holds_inside(name):
    value, read, outside, inside = SETTINGS[name]
    outside = read() if outside is None else outside
    assert read() == outside
    with Context(**{name: value}):
        assert read() == inside
    assert read() == outside

    @Context(**{name: value})
    def decorated():
        return read()

    assert decorated() == inside and read() == outside


def test_several_at_once_and_nested():
    with Context(TRAINING=1, DEFAULT_FLOAT="float16") as outer:
        with Context(TRAINING=0), outer:
            assert tensord.is_training()
        assert tensord.is_training() and Tensor([0.5]).dtype == "float16"
    assert not tensord.is_training() and Tensor([0.5]).dtype == "float32"


def test_what_was_set_comes_back_after_an_error():
    with pytest.raises(ValueError, match="float"), Context(TRAINING=1, DEFAULT_FLOAT="int8"):
        raise AssertionError("not reached")
    assert not tensord.is_training()
    with pytest.raises(KeyError), Context(TRAINING=1):
        raise KeyError
    assert not tensord.is_training()


def test_an_unknown_setting_is_an_error_that_names_the_known():
    with pytest.raises(ValueError, match="BEAM is none of the settings that there are: TRAINING, DEFAULT_FLOAT"):
        Context(TRAINING=1, BEAM=2)
