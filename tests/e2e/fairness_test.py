"""Sessions that share devices which take their time: the simulated accelerator, backends/paced."""

import contextlib
import re
import urllib.request

import pytest
import tensord
from tensord import Tensor
from tensord.testing import Daemon

FIRST, SECOND = "PACED:0", "PACED:1"
QUEUED = 500  # runs of 10 ms: far more than the test waits for
RUNS = 10


def executed(daemon):
    """Runs of all sessions. (A client's own counters wait for what it has sent.)"""
    url = re.search(r"serving metrics url=(\S+)", daemon.log.read_text())[1]
    text = urllib.request.urlopen(url, timeout=60).read().decode()
    return float(re.search(r"^tensord_programs_run_total (\S+)$", text, re.M)[1])


def double(x, runs):
    results = [(x * 2).realize() for _ in range(runs)]
    assert len(results) == runs


@pytest.mark.parametrize("orders", [[(FIRST, SECOND)], [(FIRST, SECOND), (SECOND, FIRST)]], ids=["one", "both orders"])
def test_programs_for_two_devices_take_their_turns_on_both(tmp_path, orders):
    """And wait neither for all that was queued before, nor for each other in a circle."""
    flags = ["--devices=paced:2(launch_us=10000)", "--metrics-listen=localhost:0"]
    with Daemon(tmp_path, *flags) as daemon, contextlib.ExitStack() as stack:
        alone, both = [], []
        for devices in [FIRST, SECOND, *orders]:
            single = isinstance(devices, str)
            client = stack.enter_context(tensord.connect(daemon.address, device=devices if single else None))
            x = Tensor([[1.0], [2.0]])
            x = x if single else x.shard(devices, axis=0)
            # From here on the program is compiled, and the daemon knows how long it takes.
            double(x, 1)
            client.synchronize()
            (alone if single else both).append((client, x))
        before = executed(daemon)
        for _, x in alone:
            double(x, QUEUED)
        for _, x in both:
            double(x, RUNS)
        for client, _ in both:
            client.synchronize()
        others = executed(daemon) - before - RUNS * len(both)
        assert RUNS <= others < QUEUED


def test_programs_for_pairs_of_three_devices_wait_for_each_other_in_no_circle(tmp_path):
    """Each device is the first of one pair and the second of another."""
    pairs = [("PACED:0", "PACED:1"), ("PACED:1", "PACED:2"), ("PACED:2", "PACED:0")]
    with Daemon(tmp_path, "--devices=paced:3(launch_us=1000)") as daemon, contextlib.ExitStack() as stack:
        clients, tensors = [], []
        for pair in pairs * 2:
            clients.append(stack.enter_context(tensord.connect(daemon.address)))
            tensors.append(Tensor([[1.0], [2.0]]).shard(pair, axis=0))
        for _ in range(30):
            tensors = [x + 1 for x in tensors]
            for x in tensors:
                x.realize()
        for client in clients:
            client.synchronize()
