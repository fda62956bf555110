"""Mixed work with faults for as long as you like, and the slope of the daemon's memory. By hand:

    .venv/bin/python tests/faults/soak.py --minutes 20

Clients come and go: some train, some move data, some are killed, cut off from their terminal, or run what never ends.
Those that are to succeed check what they get. At the end all have left, and no session, tensor or byte may be there.
Exits with 1 if anything was wrong. Memory is sampled when nobody is there, twenty times; its slope is that of the
second half, by least squares. Plans are kept for all programs that were seen, up to a limit; they should
be all there by then.
"""

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from tensord.testing import Daemon

PRELUDE = """
import random, sys, time
import numpy as np
import tensord
from tensord import Tensor
rng = np.random.default_rng(int(sys.argv[1]))
end = time.monotonic() + float(sys.argv[2])
def endless():
    return tensord.while_loop(lambda a: (a >= 0).all(), lambda a: (a + 1) * 0, tensord.zeros(1, dtype="int32"))
"""

# Each goes on until its time is over and prints "right"; or is expected to fail so and prints that it did.
JOBS = {
    "train": """
x, y = rng.standard_normal((64, 16)).astype(np.float32), rng.standard_normal((64, 1)).astype(np.float32)
w = tensord.zeros(16, 1, requires_grad=True)
expected = np.zeros((16, 1))
tx, ty = Tensor(x), Tensor(y)
@tensord.jit
def step():
    loss = (tx @ w - ty).square().mean()
    w.assign(w - 0.01 * loss.gradient(w)[0])
while time.monotonic() < end:
    for _ in range(20):
        step()
        expected = expected - 0.01 * (2 / 64) * x.T.astype(np.float64) @ (x @ expected - y)
    np.testing.assert_allclose(w.numpy(), expected, rtol=1e-3, atol=1e-4)
""",
    "move": """
while time.monotonic() < end:
    data = rng.standard_normal(int(rng.choice([1, 1000, 1 << 16, 2_000_003]))).astype(np.float32)
    tensor = Tensor(data)
    assert (tensor.numpy() == data).all()
    assert abs((tensor * 2).numpy() - data * 2).max() == 0
""",
    "come and go": """
while time.monotonic() < end:
    with tensord.connect(lease=float(rng.choice([0, 5]))):
        n = int(rng.integers(1, 10))
        assert tensord.arange(n).sum().item() == n * (n - 1) // 2
""",
    "compile": """
while time.monotonic() < end:
    shape = [int(n) for n in rng.integers(1, 5, 3)]
    data = rng.standard_normal(shape).astype(np.float32)
    np.testing.assert_allclose((Tensor(data) * 3).sum(1).numpy(), (data * 3).sum(1), rtol=1e-4, atol=1e-4)
""",
    "hang": """
try:
    (endless() + 1).numpy()
    raise SystemExit("it ended")
except tensord.errors.DeadlineExceededError as error:
    assert "--run-timeout" in str(error)
assert tensord.ones(3).sum().item() == 3
""",
    "fault": """
tensord.connect(device="PACED:0")
try:
    tensord.ones(64).contiguous().realize().sum().numpy()
    raise SystemExit("it did not fail")
except tensord.errors.InternalError as error:
    assert "failed as the settings ask" in str(error)
""",
    "no memory": """
held = []
try:
    for n in range(64):
        held.append((tensord.ones(1 << 23) * n).realize())
        held[-1].numpy()
    raise SystemExit("there was memory for all")
except tensord.errors.ResourceExhaustedError:
    assert held[0].numpy()[0] == 0
""",
}
FLAGS = ["--devices=cpu,paced(launch_us=200,fault_kernel=fold)", "--memory-bytes=1GiB", "--max-session-bytes=512MiB",
         "--metrics-listen=localhost:0", "--session-lease=1s", "--launch-timeout=5s", "--run-timeout=5s"]  # fmt: skip


def figures(daemon):
    url = re.findall(r"serving metrics url=(\S+)", daemon.log.read_text())[-1]
    values = {}
    for line in urllib.request.urlopen(url, timeout=60).read().decode().splitlines():
        if line[0] != "#":
            name, value = re.fullmatch(r"tensord_(\w+)(?:\{.*\})? (\S+)|exposer.*", line).groups()
            if name:
                values[name] = values.get(name, 0) + float(value)
    status = Path(f"/proc/{daemon.process.pid}/status").read_text()
    values["resident_mb"] = int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) / 1024
    values["threads"] = int(re.search(r"Threads:\s+(\d+)", status)[1])
    values["descriptors"] = len(os.listdir(f"/proc/{daemon.process.pid}/fd"))
    return values


def settled(daemon, own_bytes):
    """Once everything is gone that should go, or did not in half a minute. The health probes keep `own_bytes`."""
    end = time.monotonic() + 30
    while True:
        values = figures(daemon)
        left = values["sessions"], values["device_memory_used_bytes"] - own_bytes, values["device_memory_cached_bytes"]
        if not any(left) or time.monotonic() > end:
            return values
        time.sleep(0.1)


class Client:
    def __init__(self, daemon, job, seed, seconds, killed_after):
        self.job, self.killed_after = job, killed_after
        self.process = subprocess.Popen(
            [sys.executable, "-c", PRELUDE + JOBS[job] + 'print("right")', str(seed), str(seconds)], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, "TENSORD_ADDRESS": daemon.address})  # fmt: skip
        self.began = time.monotonic()

    def over(self):
        """Whether it has ended; kills it if that is its fate."""
        if self.killed_after is not None and time.monotonic() - self.began > self.killed_after:
            self.process.kill()
        if time.monotonic() - self.began > 300:
            self.process.kill()
            raise AssertionError(f"{self.job}: it hangs")
        return self.process.poll() is not None

    def wrong(self):
        out, err = self.process.communicate()
        killed = self.killed_after is not None and self.process.returncode == -9
        return None if killed or out == "right\n" else f"{self.job}: {out}{err[-2000:]}"


def slope(samples):
    """By least squares, per minute."""
    mean_t, mean_v = (sum(column) / len(samples) for column in zip(*samples, strict=True))
    spread = sum((t - mean_t) ** 2 for t, _ in samples)
    return 60 * sum((t - mean_t) * (v - mean_v) for t, v in samples) / spread if spread else 0.0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--clients", type=int, default=4, help="at once")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    faults, samples, done = [], [], {}
    with tempfile.TemporaryDirectory() as folder, Daemon(Path(folder), *FLAGS) as daemon:
        begin = time.monotonic()
        while "device_healthy" not in (before := figures(daemon)):  # the probe's own memory is there then
            time.sleep(0.1)
        clients, started = [], 0
        every = options.minutes * 60 / 20
        next_sample = every
        while (now := time.monotonic() - begin) < options.minutes * 60 or clients:
            daemon.check()
            for client in [each for each in clients if each.over()]:
                clients.remove(client)
                faults += [wrong for wrong in [client.wrong()] if wrong]
                done[client.job] = done.get(client.job, 0) + 1
            while now < min(next_sample, options.minutes * 60) and len(clients) < options.clients:
                killed = rng.uniform(0.3, 4) if rng.random() < 0.3 else None
                clients.append(Client(daemon, rng.choice(list(JOBS)), started, rng.uniform(1, 6), killed))
                started += 1
            if now >= next_sample and not clients:
                values = settled(daemon, before["device_memory_used_bytes"])
                samples.append((now, values["resident_mb"]))
                print(f"{now:7.0f} s  {values['resident_mb']:7.1f} MB  {values['sessions']:4.0f} sessions  "
                      f"{values['device_memory_used_bytes'] / 1e6:7.1f} MB of tensors  "
                      f"{values['plan_cache_entries']:4.0f} plans  {values['threads']:3} threads  "
                      f"{values['descriptors']:3} descriptors  {started} clients", flush=True)  # fmt: skip
                next_sample = time.monotonic() - begin + every
            time.sleep(0.02)
        after = settled(daemon, before["device_memory_used_bytes"])
        for name in "sessions", "sessions_parked", "device_memory_used_bytes", "device_queue_depth":
            if after[name] != before[name]:
                faults.append(f"{name}: {after[name]:g} is left")
        if daemon.terminate() != 0 or "all_work_finished=true" not in daemon.log.read_text():
            faults.append("the daemon did not end well")
    second_half = [sample for sample in samples if sample[0] > options.minutes * 30]
    print("clients:", ", ".join(f"{count} {job}" for job, count in sorted(done.items())))
    for name in "descriptors", "threads":
        print(f"{name} {before[name]} -> {after[name]}")
    print(f"resident: {slope(second_half) * 10:.2f} MB in 10 minutes, by {len(second_half)} samples of the second half")
    for fault in faults:
        print("WRONG", fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
