import pathlib
import re
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import mnist  # noqa: E402
import mnist_data  # noqa: E402
import tensord  # noqa: E402
from tensord.testing import Daemon  # noqa: E402


@pytest.fixture
def small_data(monkeypatch):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, 60, dtype=np.uint8)
    images = rng.integers(0, 50, (60, 28, 28), dtype=np.uint8)
    for image, label in zip(images, labels):
        image[2 * label : 2 * label + 4] += 200  # a bar whose height is the label
    data = mnist_data.Dataset("bars", images, labels, images[:20], labels[:20])
    monkeypatch.setattr(mnist_data, "load", lambda: data)


def train(monkeypatch, capsys, address, *arguments):
    monkeypatch.setattr(sys, "argv", ["mnist.py", "--address", address, "--batch", "16", *arguments])
    mnist.main()
    tensord.current().close()
    return capsys.readouterr().out.splitlines()


def test_trains_and_says_what_it_cost(small_data, monkeypatch, capsys, tmp_path):
    with Daemon(tmp_path) as daemon:
        cold = train(monkeypatch, capsys, daemon.address, "--steps", "30")
        assert re.fullmatch(r"test accuracy \d+\.\d\d%", cold[-1])
        losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)", "\n".join(cold))]
        assert len(losses) >= 2 and losses[-1] < losses[0]
        assert re.search(r"[1-9]\d* kernels compiled", "\n".join(cold))

        # Another process after a restart: the same programs, from the cache on disk.
        daemon.kill()
        daemon.start()
        warm = train(monkeypatch, capsys, daemon.address, "--steps", "30")
    assert "no kernel was compiled" in "\n".join(warm)
    assert warm[-1] == cold[-1], "the same seed draws the same batches"


def test_refuses_steps_that_make_no_sense(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["mnist.py", "--steps", "0"])
    with pytest.raises(SystemExit):
        mnist.main()
