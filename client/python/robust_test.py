"""No arguments, however wrong, may end the process: each method of Tensor is called with random ones."""

import os
import subprocess
import sys

CALLS = """
import random
import numpy as np
import tensord
from tensord import Tensor

random.seed(3)


def values():
    return [Tensor(np.float32([[1, 2], [3, 4]])), Tensor([1, 2, 3]), Tensor(True), Tensor(np.zeros((0, 3), np.float32)),
            Tensor(2.5), 3, -1, 2.0, "mean", None, (1, 0), [0, 1], True]


for name in sorted(dir(Tensor)):
    method = getattr(Tensor, name)
    if name.startswith("__") or not callable(method):
        continue
    print(name, flush=True)
    for _ in range(30):
        among = values()
        arguments = [random.choice(among) for _ in range(random.randint(0, 3))]
        try:
            method(random.choice(among[:5]), *arguments)
        except Exception:
            pass
print("done")
"""


def test_wrong_arguments_are_errors_at_most(daemon):
    done = subprocess.run([sys.executable, "-c", CALLS], text=True, capture_output=True, timeout=300,
                          env={**os.environ, "TENSORD_ADDRESS": daemon.address})  # fmt: skip
    lines = done.stdout.split()
    assert done.returncode == 0 and lines[-1] == "done", f"ended in {lines[-1:]}: {done.stderr[-2000:]}"
    daemon.check()
