"""Makes a recording of the session protocol as it is now, which replay_test.py plays to every later daemon.

    TENSORD_RECORD=tests/e2e/testdata/NAME.tdrec TENSORD_RECORD_CONTENTS=true \
        .venv/bin/python tests/e2e/record_protocol.py

A release that changes the protocol adds a file; the ones that are there stay as they are. All results are exact, so
that they are the same on every machine.
"""

import numpy as np
import tensord
from tensord import Tensor


def whole(*shape):
    """Small whole numbers, whose sums and products have no rounding."""
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape) % 7 - 3


def programs():
    a, b = Tensor(whole(8, 12)), Tensor(whole(12, 4))
    (a @ b).relu().sum(0).numpy()
    a.max(1).numpy()
    a.transpose(0, 1).flip(0)[1:5, ::2].numpy()
    tensord.where(a > 0, a, -a).numpy()
    Tensor(np.arange(10))[Tensor(np.array([3, 3, 9, 0]))].numpy()
    Tensor(np.array([5, 1, 4, 1, 5])).sort().values.numpy()
    tensord.conv2d(Tensor(whole(1, 2, 6, 6)), Tensor(whole(3, 2, 3, 3))).numpy()
    for dtype in (np.bool_, np.int8, np.uint16, np.int64, np.float16, np.float64):
        (Tensor((np.arange(6) % 2).astype(dtype)) == 1).numpy()
    tensord.arange(5).to(tensord.bfloat16).float().numpy()


def in_place():
    count = tensord.zeros(3).realize()
    step = tensord.jit(lambda x: count.assign(count + x).sum())
    for i in range(5):
        step(np.full(3, i, np.float32)).item()
    count += 1
    count.numpy()


def transfers():
    large = Tensor((np.arange(20_000) % 251).astype(np.uint8))  # too large for its command
    (large.int() + 1).sum().item()
    large.numpy()
    Tensor(np.zeros((0, 4), np.float32)).numpy()  # no bytes at all


def errors():
    for wrong in (lambda: tensord.zeros(1 << 50, dtype=tensord.uint8).contiguous(), lambda: tensord.zeros(1 << 45).sum(0)):
        try:
            wrong().realize().numpy()
        except tensord.TensordError:
            pass
    (tensord.ones(2) + 1).numpy()  # the session goes on


def main():
    with tensord.connect(priority="interactive"):
        programs()
        in_place()
        transfers()
        tensord.synchronize()
        tensord.counters()
    with tensord.connect():
        errors()


if __name__ == "__main__":
    main()
