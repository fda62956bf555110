"""The examples of README.md do what it says they do."""

import os
import pathlib
import re
import subprocess
import sys

import numpy as np
from tensord.connection import _binary
from tensord.testing import Daemon

ROOT = pathlib.Path(__file__).parents[2]


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / "README.md").read_text(), re.S)


def test_the_python_examples(tmp_path):
    with Daemon(tmp_path, "--devices", "cpu:2") as daemon:
        done = subprocess.run([sys.executable, "-c", "".join(blocks("python"))], text=True, capture_output=True,
                              timeout=120, env={**os.environ, "TENSORD_ADDRESS": daemon.address})  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[[1.0], [2.0]]"


def test_the_cpp_example(daemon):
    assert (ROOT / "client" / "cc" / "example.cc").read_text() == "".join(blocks("cpp"))
    # Beside the daemon's binary, wherever that was built.
    example = pathlib.Path(_binary()).parents[1] / "client" / "cc" / "example"
    assert example.is_file(), f"{example} is missing; make it by: bazel build //client/cc:example"
    done = subprocess.run([example, daemon.address], text=True, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    x = np.array([[1.0, 2, 3], [4, 5, 6]])
    p = np.exp(x @ x.T / 10)
    y = p / p.sum(1, keepdims=True)
    expected = np.concatenate([y, y.max(1, keepdims=True), y.argmax(1)[:, None]], 1)
    np.testing.assert_allclose([float(line) for line in done.stdout.split()], expected.ravel(), rtol=1e-4)
