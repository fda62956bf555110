#!/usr/bin/env python3
"""Trains a convolutional network on MNIST: forward, backward and update are one submitted program.

The batches are drawn on the device, by the program itself; a step sends nothing but its own name.
"""

import argparse
import sys
import time

import mnist_data
import numpy as np
import tensord
from tensord import Tensor, nn


class Net:
    """conv 5x5 - conv 5x5 - norm - pool - conv 3x3 - conv 3x3 - norm - pool - linear"""

    def __init__(self, mean, std):
        self.mean, self.std = mean, std  # of the pixels
        self.layers = [
            nn.Conv2d(1, 32, 5), Tensor.relu,
            nn.Conv2d(32, 32, 5), Tensor.relu,
            nn.BatchNorm(32), lambda x: x.max_pool2d(2),
            nn.Conv2d(32, 64, 3), Tensor.relu,
            nn.Conv2d(64, 64, 3), Tensor.relu,
            nn.BatchNorm(64), lambda x: x.max_pool2d(2),
            lambda x: x.flatten(1), nn.Linear(576, 10),
        ]  # fmt: skip

    def __call__(self, x):
        # uint8 [batch, 28, 28]
        x = (x.unsqueeze(1).float() - self.mean) / self.std
        for layer in self.layers:
            x = layer(x)
        return x


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=70)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--lr", type=float, default=3e-3, help="at the first step")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--devices", type=int, default=1, help="that divide a batch; of a daemon with --devices cpu:N")
    parser.add_argument("--address", help="of the daemon; see tensord.connect")
    arguments = parser.parse_args()
    if arguments.steps < 1 or arguments.batch < 1:
        parser.error("--steps and --batch are at least 1")
    if arguments.devices < 1 or arguments.batch % arguments.devices:
        parser.error("--devices is at least 1 and divides --batch")

    data = mnist_data.load()
    client = tensord.connect(arguments.address)
    devices = [client.device]
    if arguments.devices > 1:
        devices = [f"{tensord.device(client.device).type}:{i}" for i in range(arguments.devices)]

    def shard(tensor, axis=None):
        """On all devices: whole, or a part of the axis on each."""
        return tensor.shard(devices, axis) if len(devices) > 1 else tensor

    print(f"{data.name}: {len(data.train_images)} images for training, {len(data.test_images)} for the test; "
          f"{', '.join(devices)} at {client.address}")
    tensord.manual_seed(arguments.seed)
    images, labels = shard(Tensor(data.train_images)), shard(Tensor(data.train_labels.astype(np.int32)))
    net = Net(float(data.train_images.mean()), float(data.train_images.std()))
    if len(devices) > 1:
        for tensor in nn.state.get_state_dict(net).values():  # parameters, and statistics of the norms
            tensor.shard_(devices)
    optimiser = nn.optim.Adam(nn.state.get_parameters(net), lr=arguments.lr)

    @tensord.jit
    def step():
        chosen = shard(tensord.randint(0, len(images), (arguments.batch,)), 0)
        loss = net(images[chosen]).cross_entropy(labels[chosen])
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()  # at the end: gradients that are left would be written
        # Linearly down to nothing, as part of the program. A constant 0.001 ended at 97.7 to 98.3% after 70 steps.
        optimiser.lr = (optimiser.lr - arguments.lr / arguments.steps).maximum(0.0)
        return loss

    @tensord.jit
    def count_right(images, labels):
        return (net(images).argmax(1) == labels).sum()

    batches = [slice(i, i + 1000) for i in range(0, len(data.test_images), 1000)]
    tests = [(shard(Tensor(data.test_images[part])), shard(Tensor(data.test_labels[part].astype(np.int32))))
             for part in batches]  # fmt: skip

    def accuracy(tests):
        right = [count_right(*test) for test in tests]
        return 100 * sum(count.item() for count in right) / sum(len(labels) for _, labels in tests)

    start = time.perf_counter()
    test = ""
    for number in range(1, arguments.steps + 1):
        with tensord.training():
            loss = step()
        if number % 10 == 0:
            test = f"  {accuracy(tests[:1]):.1f}% of {len(tests[0][1])} test images at step {number}"
        show(number, arguments.steps, f"loss {loss.item():.4f}{test}")
        if number == 1:
            first = time.perf_counter() - start
    seconds = time.perf_counter() - start
    final = accuracy(tests)
    print()

    print(f"{seconds:.1f} s, of which the first step with its compilation took {first:.1f} s")
    report(client.counters())
    print(f"test accuracy {final:.2f}%")


def show(number, steps, text):
    """A bar that stays on its line in a terminal; elsewhere, a line now and then."""
    terminal = sys.stdout.isatty()
    if not terminal and number % 10 and number != steps:
        return
    done = 30 * number // steps
    text = f"[{'#' * done}{'.' * (30 - done)}] {number}/{steps} {text}"
    print(f"\r{text:<90}" if terminal else text, end="" if terminal else "\n", flush=True)


def report(counters):
    print(f"{counters['programs_run']} programs, {counters['kernels_launched']} kernels launched, "
          f"{counters['device_seconds']:.1f} s on the device, {counters['bytes_uploaded'] / 1e6:.1f} MB up, "
          f"{counters['bytes_downloaded'] / 1e3:.1f} kB down")
    compiled, from_disk = counters["kernels_compiled"], counters["kernel_disk_hits"]
    if compiled:
        print(f"{compiled} kernels compiled in {counters['compile_seconds']:.1f} s, {from_disk} came from the cache on disk")
    else:
        print(f"no kernel was compiled: all came from the daemon's cache, {from_disk} of them from disk")


if __name__ == "__main__":
    main()
