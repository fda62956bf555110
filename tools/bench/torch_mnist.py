"""The peer of our MNIST step: the same network, batch and optimiser in PyTorch, eager, on the CPU.

Prints what the C++ benchmarks print, and which PyTorch it was.
"""

import argparse
import json
import os
import time

import torch
from torch import nn


def network():
    return nn.Sequential(
        nn.Conv2d(1, 32, 5), nn.ReLU(),
        nn.Conv2d(32, 32, 5), nn.ReLU(),
        nn.BatchNorm2d(32), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3), nn.ReLU(),
        nn.Conv2d(64, 64, 3), nn.ReLU(),
        nn.BatchNorm2d(64), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(576, 10),
    )  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--repeat", type=int, default=10)
    arguments = parser.parse_args()
    threads = len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)
    images = torch.randint(0, 256, (60000, 1, 28, 28), dtype=torch.uint8)
    labels = torch.randint(0, 10, (60000,))
    net = network()
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-3)
    loss_of = nn.CrossEntropyLoss()
    times = []
    for i in range(-3, arguments.repeat):
        start = time.perf_counter()
        chosen = torch.randint(0, len(images), (arguments.batch,))
        optimiser.zero_grad()
        loss = loss_of(net(images[chosen].float() / 255), labels[chosen])
        loss.backward()
        optimiser.step()
        loss.item()
        if i >= 0:
            times.append((time.perf_counter() - start) * 1e3)
    times.sort()
    row = {"name": "mnist_step", "unit": "ms", "median": times[len(times) // 2], "min": times[0], "max": times[-1],
           "samples": len(times)}
    print(json.dumps({"rows": [row], "about": f"PyTorch {torch.__version__}, {threads} threads"}))


if __name__ == "__main__":
    main()
