"""The MNIST step as a user of the Python client has it, timed from its call to its loss.

Prints what the C++ benchmarks print. The images are random: only time is measured.
"""

import argparse
import json
import time

import numpy as np
import tensord
from tensord import Tensor, nn


def network():
    return [
        nn.Conv2d(1, 32, 5), Tensor.relu,
        nn.Conv2d(32, 32, 5), Tensor.relu,
        nn.BatchNorm(32), lambda x: x.max_pool2d(2),
        nn.Conv2d(32, 64, 3), Tensor.relu,
        nn.Conv2d(64, 64, 3), Tensor.relu,
        nn.BatchNorm(64), lambda x: x.max_pool2d(2),
        lambda x: x.flatten(1), nn.Linear(576, 10),
    ]  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--address", required=True)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--repeat", type=int, default=10)
    arguments = parser.parse_args()
    tensord.connect(arguments.address)
    random = np.random.default_rng(1)
    images = Tensor(random.integers(0, 256, (60000, 28, 28), dtype=np.uint8))
    labels = Tensor(random.integers(0, 10, (60000,), dtype=np.int32))
    layers = network()
    optimiser = nn.optim.Adam(nn.state.get_parameters(layers), lr=1e-3)

    @tensord.jit
    def step():
        chosen = tensord.randint(0, len(images), (arguments.batch,))
        x = images[chosen].unsqueeze(1).float() / 255
        for layer in layers:
            x = layer(x)
        loss = x.cross_entropy(labels[chosen])
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()  # at the end: gradients that are left would be written
        return loss

    times = []
    for i in range(-3, arguments.repeat):
        start = time.perf_counter()
        with tensord.training():
            step().item()
        if i >= 0:
            times.append((time.perf_counter() - start) * 1e3)
    times.sort()
    row = {"name": "mnist_step", "unit": "ms", "median": times[len(times) // 2], "min": times[0], "max": times[-1],
           "samples": len(times)}
    print(json.dumps({"rows": [row]}))


if __name__ == "__main__":
    main()
