"""What a daemon costs a user beside the work itself: starting it, its cache, what it refuses and gives up.

Prints what the C++ benchmarks print. Counts that must be right (programs compiled, bytes sent) are checked.
"""

import argparse
import hashlib
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import _tensord
import numpy as np
import tensord
from tensord import Tensor
from tensord.testing import Daemon

MIB = 1 << 20


def timed(function):
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def check(right, what):
    if not right:
        raise RuntimeError(what)


def faults(daemon):
    """Page faults so far, of this process and of the daemon."""
    theirs = Path(f"/proc/{daemon.process.pid}/stat").read_text().rpartition(")")[2].split()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt + int(theirs[7])


def runs_without_waiting(folder, repeat, runs):
    """Of a captured function, when nobody waits: the client's processor time, and page faults of both."""
    cost, faulted = [], []
    with Daemon(folder, "--devices=null") as daemon, tensord.connect(daemon.address) as client:
        step = tensord.jit(lambda x: x + 1)
        x = step(step(tensord.zeros(16).realize()))
        client.synchronize()
        for _ in range(repeat + 1):
            before, began = faults(daemon), time.process_time()
            for _ in range(runs):
                x = step(x)
            cost.append((time.process_time() - began) / runs)
            client.synchronize()
            faulted.append((faults(daemon) - before) * 1000 / runs)
    return {"processor time of the client, a run that nobody waits for": cost[1:]}, {"page faults of 1,000 runs": faulted[1:]}


def graph():
    """A program that no other benchmark has, and what it gives."""
    return lambda: ((tensord.arange(4096).reshape(64, 64).float() * 0.5).exp().sum(axis=1) + 1).max().item()


def caches(folder, repeat):
    """The first result of a program: by a new session, and by a daemon that was started anew."""
    compute = graph()
    cold, memory, disk, again = [], [], [], []
    for number in range(repeat):
        (folder / f"caches{number}").mkdir()
        with Daemon(folder / f"caches{number}") as daemon:
            with tensord.connect(daemon.address):
                Tensor([1.0]).item()
                cold.append(timed(compute))
                again += [timed(compute) for _ in range(5)]
            with tensord.connect(daemon.address) as client:
                Tensor([1.0]).item()
                memory.append(timed(compute))
                check(client.counters()["kernels_compiled"] == 0, "kernels in memory were compiled")
            daemon.terminate()
            daemon.start()
            with tensord.connect(daemon.address) as client:
                Tensor([1.0]).item()
                disk.append(timed(compute))
                check(client.counters()["kernels_compiled"] == 0, "kernels on disk were compiled")
    return {"first result of a program, nothing cached": cold, "first result, disk hit after a restart": disk,
            "first result, memory hit in a new session": memory, "the same result again": again}


def single_flight(folder, repeat, clients):
    """Clients that want the same new program at once, to one that does; it is compiled once."""
    alone, all_of_them = [], []
    for number in range(repeat):
        (folder / f"flight{number}").mkdir()
        with Daemon(folder / f"flight{number}", "--probe-interval=0") as daemon:
            for count, times in ((1, alone), (clients, all_of_them)):
                opened = [tensord.connect(daemon.address) for _ in range(count)]
                wanted = []
                for client in opened:
                    _tensord._set_current(client)
                    x = tensord.full((1000 + count,), 2.0).realize()
                    x.numpy()
                    wanted.append(((x * 3).sin() + (x * 5).cos()).sum())
                before = [client.counters()["kernels_compiled"] for client in opened]
                start = threading.Barrier(count + 1)
                threads = [threading.Thread(target=lambda one: (start.wait(), one.item()), args=[one]) for one in wanted]
                for thread in threads:
                    thread.start()
                start.wait()
                begin = time.perf_counter()
                for thread in threads:
                    thread.join()
                times.append(time.perf_counter() - begin)
                compiled = [client.counters()["kernels_compiled"] for client in opened]
                check(sum(n > m for n, m in zip(compiled, before)) == 1, "it was not compiled once")
                for client in opened:
                    client.close()
    return {"one client compiles": alone, f"{clients} clients want the same program": all_of_them}


def second_upload(folder, repeat, mebibytes):
    """Bytes that the daemon has, sent again by TCP. (On one machine sending them is faster than hashing them.)"""
    data = np.random.default_rng(1).integers(0, 256, mebibytes * MIB, dtype=np.uint8)
    first, second, hashing = [], [], []
    with Daemon(folder, "--listen=localhost:0") as daemon:
        port = re.search(r"address=localhost:(\d+)", daemon.log.read_text())[1]
        with tensord.connect(f"localhost:{port}") as client:
            for number in range(repeat):
                data[:8] = number
                times = [first, second]
                held = []
                for each in times:
                    sent = client.counters()["bytes_uploaded"]
                    begin = time.perf_counter()
                    held.append(Tensor(data).realize())
                    client.synchronize()
                    each.append(time.perf_counter() - begin)
                    sent = client.counters()["bytes_uploaded"] - sent
                    check((sent < data.nbytes / 100) == (each is second), f"{sent} bytes were sent")
                hashing.append(timed(lambda: hashlib.sha256(data).digest()))
    return {f"upload of {mebibytes} MiB by TCP": first, f"upload of {mebibytes} MiB that the daemon has": second,
            "SHA-256 of them": hashing}


def refusals(folder, repeat):
    """An allocation beyond the quota, refused, to a run that is done."""
    refused, done = [], []
    with Daemon(folder, "--devices=null", "--max-session-bytes=1MiB") as daemon, tensord.connect(daemon.address) as client:
        small = tensord.jit(lambda x: x + 1)
        big = tensord.jit(lambda x: x.expand(1024, 1024) + 1)
        x = tensord.zeros(1).realize()
        for _ in range(3):
            small(x).realize().numpy()
        for _ in range(repeat):
            done.append(timed(lambda: small(x).realize().numpy()))

            def ask():
                try:
                    big(x).realize().numpy()
                except tensord.errors.ResourceExhaustedError:
                    return
                raise RuntimeError("4 MiB were allowed where 1 MiB is the limit")

            refused.append(timed(ask))
        check(client.counters()["live_bytes"] <= MIB, "there is more than the quota")
    return {"a run and its result": done, "a run that is refused": refused}


def deadlines(folder, repeat):
    """How much later than its deadline a call ends that waits for a device."""
    late = []
    with Daemon(folder, "--devices=paced(launch_us=200000)") as daemon:
        for _ in range(repeat):
            with tensord.connect(daemon.address, timeout=0.02) as client:
                x = (tensord.zeros(4) + 1).realize()
                begin = time.perf_counter()
                try:
                    x.numpy()
                    raise RuntimeError("a run of 200 ms was done after 20")
                except tensord.errors.DeadlineExceededError:
                    late.append(time.perf_counter() - begin - 0.02)
                client.close()
    return {"a call ends after its deadline": late}


def starts(folder, repeat):
    """Until a daemon serves, and until it has ended again; and what importing the client takes."""
    start, drain, imported = [], [], []
    for number in range(repeat):
        (folder / f"start{number}").mkdir()
        begin = time.perf_counter()
        daemon = Daemon(folder / f"start{number}")
        start.append(time.perf_counter() - begin)
        with tensord.connect(daemon.address):
            x = tensord.ones(64, 64).realize()
            for _ in range(50):
                x = (x @ x * 0.01).realize()
            x.numpy()
            drain.append(timed(daemon.terminate))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for _ in range(repeat):
        plain = timed(lambda: subprocess.run([sys.executable, "-c", "import numpy"], env=environment, check=True))
        whole = timed(lambda: subprocess.run([sys.executable, "-c", "import numpy, tensord"], env=environment, check=True))
        imported.append(whole - plain)
    return {"start until it serves": start, "SIGTERM until the end, a session open": drain,
            "import tensord, NumPy beside": imported}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument("--runs", type=int, default=10000)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--mebibytes", type=int, default=256)
    arguments = parser.parse_args()
    rows = []

    def add(figures, unit, scale):
        for name, values in figures.items():
            values = sorted(scale * value for value in values)
            rows.append({"name": name, "unit": unit, "median": statistics.median(values), "min": values[0],
                         "max": values[-1], "p99": values[min(len(values) - 1, int(len(values) * 0.99))],
                         "samples": len(values)})

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cost, faulted = runs_without_waiting(folder, arguments.repeat, arguments.runs)
        add(cost, "us", 1e6)
        add(faulted, "", 1)
        add(caches(folder, arguments.repeat), "ms", 1e3)
        add(single_flight(folder, max(1, arguments.repeat // 3), arguments.clients), "ms", 1e3)
        add(second_upload(folder, arguments.repeat, arguments.mebibytes), "ms", 1e3)
        add(refusals(folder, 20 * arguments.repeat), "us", 1e6)
        add(deadlines(folder, arguments.repeat), "ms", 1e3)
        add(starts(folder, arguments.repeat), "ms", 1e3)
    _tensord._set_current(None)
    print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()
