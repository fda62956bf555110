"""Hashes against hashlib."""

import hashlib

import numpy as np
import pytest
from tensord import Tensor

rng = np.random.default_rng(7)


@pytest.mark.parametrize("name, size, length", [
    ("sha3_256", 32, 3), ("sha3_256", 32, 135), ("sha3_256", 32, 136), ("sha3_224", 28, 200), ("shake_128", 16, 0),
])  # fmt: skip
def test_keccak(name, size, length):
    messages = rng.integers(0, 256, (2, length), dtype=np.uint8)
    digests = [hashlib.new(name, m.tobytes()).digest(*([size] if name == "shake_128" else [])) for m in messages]
    assert [bytes(row) for row in Tensor(messages).keccak(name).numpy()] == digests


def test_keccak_by_rate_and_suffix():
    message = np.frombuffer(b"abc", np.uint8)
    assert bytes(Tensor(message).keccak((136, 6)).numpy()) == hashlib.sha3_256(b"abc").digest()
    for cfg in ("md5", (7, 6), (136, 300)):
        with pytest.raises(ValueError, match="keccak"):
            Tensor(message).keccak(cfg)
