"""What one weight costs the daemon that twenty processes use: published and attached, and for comparison sent by each.

Prints what the C++ benchmarks print. Resident memory is what the kernel says of the daemon.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import tensord
from tensord.testing import Daemon

MIB = 1 << 20

CHILD = """
import sys, time
import numpy as np, tensord
count = int(sys.argv[2])
tensord.ones(1).numpy()
begin = time.perf_counter()
w = tensord.attach("w") if sys.argv[1] == "attach" else tensord.Tensor(np.ones(count, np.float32))
w[:1].numpy()
print(1e3 * (time.perf_counter() - begin), flush=True)
sys.stdin.readline()
if w.sum().item() != count: raise SystemExit("wrong sum")
print("done", flush=True)
sys.stdin.readline()
"""


def resident(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024  # MiB


def measure(how, clients, mebibytes):
    """The daemon's growth in MiB while that many processes have the weight, and their times to get it in ms."""
    count = mebibytes * MIB // 4
    with tempfile.TemporaryDirectory() as folder, Daemon(Path(folder)) as daemon, tensord.connect(daemon.address):
        tensord.ones(1).numpy()
        before = resident(daemon.process.pid)
        if how == "attach":
            weight = tensord.ones(count).realize()
            begin = time.perf_counter()
            weight.publish("w")
            published = 1e3 * (time.perf_counter() - begin)
            del weight
        children, times = [], []
        for _ in range(clients):
            children.append(subprocess.Popen([sys.executable, "-c", CHILD, how, str(count)], text=True,
                                             stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                             env={**os.environ, "TENSORD_ADDRESS": daemon.address}))
            times.append(float(children[-1].stdout.readline()))
        for child in children:  # all have it, and now all use it
            child.stdin.write("\n")
            child.stdin.flush()
        for child in children:
            if child.stdout.readline() != "done\n":
                raise RuntimeError("a client failed")
        grown = resident(daemon.process.pid) - before
        for child in children:
            child.communicate("\n")
        return grown, times, published if how == "attach" else 0.0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--mebibytes", type=int, default=64)
    arguments = parser.parse_args()
    rows = []

    def row(name, unit, values):
        rows.append({"name": name, "unit": unit, "median": statistics.median(values), "min": min(values),
                     "max": max(values), "samples": len(values)})

    for how, what in ("attach", "attached by"), ("send", "sent by each of"):
        name = f"{arguments.mebibytes} MiB {what} {arguments.clients} processes"
        grown, times, published = measure(how, arguments.clients, arguments.mebibytes)
        row(f"{name}: daemon's memory", "MiB", [grown])
        row(f"{name}: time of each", "ms", times)
        if how == "attach":
            row(f"{name}: publish", "ms", [published])
    print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()
