import pathlib
import re
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import mnist  # noqa: E402
import mnist_data  # noqa: E402
import tensord  # noqa: E402
from tensord import Tensor, nn  # noqa: E402
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


def test_two_devices_begin_as_one_does(small_data, monkeypatch, capsys, tmp_path):
    losses = {"1": [], "2": []}
    with Daemon(tmp_path, "--devices", "cpu:2") as daemon:
        for steps in "1", "2":  # later, float32 sums in another order tell: 3% at the fourth step
            for devices in losses:
                lines = train(monkeypatch, capsys, daemon.address, "--steps", steps, "--devices", devices)
                assert ("CPU:0, CPU:1 at" in lines[0]) == (devices == "2")
                losses[devices].append(float(re.search(r"loss ([\d.]+)", "\n".join(lines))[1]))
    np.testing.assert_allclose(losses["2"], losses["1"], rtol=2e-3)


def test_two_devices_train_as_one_does_in_float64(small_data, tmp_path):
    data = mnist_data.load()

    def losses(devices):
        tensord.manual_seed(1)
        net = mnist.Net(50.0, 60.0)
        net.layers = [lambda x: x.double()] + [
            layer.double() if isinstance(layer, nn.Module) else layer for layer in net.layers
        ]
        for tensor in nn.state.get_state_dict(net).values():
            tensor.shard_(devices)
        optimiser = nn.optim.Adam(nn.state.get_parameters(net), lr=3e-3)

        @tensord.jit
        def step(images, labels):
            loss = net(images).cross_entropy(labels)
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()
            return loss

        batches = [slice(at, at + 20) for at in range(0, 60, 20)] * 3
        with tensord.training():
            return [
                step(*(Tensor(x[batch]).shard(devices, 0) for x in (data.train_images, data.train_labels))).item()
                for batch in batches
            ]

    with Daemon(tmp_path, "--devices", "cpu:2") as daemon, tensord.connect(daemon.address):
        one, two = losses(["CPU:0"]), losses(["CPU:0", "CPU:1"])
    np.testing.assert_allclose(two, one, rtol=1e-9)
    assert two[-1] < two[0] / 2


@pytest.mark.parametrize("arguments", [["--steps", "0"], ["--devices", "0"], ["--devices", "3", "--batch", "16"]])
def test_refuses_what_makes_no_sense(monkeypatch, arguments):
    monkeypatch.setattr(sys, "argv", ["mnist.py", *arguments])
    with pytest.raises(SystemExit):
        mnist.main()
