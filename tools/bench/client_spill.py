"""How fast tensors leave a full device and come back: two clients that each have as much as the device, in turn.

Prints what the C++ benchmarks print. The peer is this process's memcpy of as many bytes, between arrays that it has.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import tensord
from tensord import Tensor
from tensord.testing import Daemon

MIB = 1 << 20


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mebibytes", type=int, default=256, help="of the device; clients have twice as much together")
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    size, count = arguments.mebibytes * MIB // 16, 15  # of each tensor, of each client's; the rest is for results
    rows = []

    def row(name, unit, values):
        rows.append({"name": name, "unit": unit, "median": statistics.median(values), "min": min(values),
                     "max": max(values), "samples": len(values)})

    source, target = np.random.default_rng(0).integers(0, 255, size, np.uint8), np.ones(size, np.uint8)
    flags = [f"--devices=paced(memory_mib={arguments.mebibytes})", "--spill-host-bytes=4GiB"]
    with tempfile.TemporaryDirectory() as folder, Daemon(Path(folder), *flags) as daemon:
        clients, held = [], []
        for _ in range(2):
            clients.append(tensord.connect(daemon.address))  # new tensors are this client's
            data = [np.roll(source, i + count * len(held)) for i in range(count)]
            held.append((data, [Tensor(each).realize() for each in data]))
            clients[-1].synchronize()
        speeds, copies = [], []
        for _ in range(2 + 2 * arguments.repeat):  # the first round of each finds no copies yet
            client, (data, tensors) = clients[0], held[0]
            before = client.counters()
            begin = time.perf_counter()
            for tensor in tensors:
                tensor[:1].realize()
            client.synchronize()
            seconds = time.perf_counter() - begin
            after = client.counters()
            moved = sum(after[name] - before[name] for name in ("bytes_spilled", "bytes_restored"))
            speeds.append(moved / seconds / 1e9)
            begin = time.perf_counter()
            for each in data:  # none is in a cache
                np.copyto(target, each)
            copies.append(size * count / (time.perf_counter() - begin) / 1e9)
            clients.reverse()
            held.reverse()
        for data, tensors in held:
            for want, tensor in zip(data, tensors):
                if not (tensor.numpy() == want).all():
                    raise SystemExit("a tensor came back with other bytes")
        for client in clients:
            client.close()
    row("spilled and restored", "GB/s", speeds[2:])
    row("memcpy", "GB/s", copies[2:])
    print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()
