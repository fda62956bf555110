"""Sessions that survive, and those that don't: killed clients, restarted daemons, and what Python is told."""

import logging
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tensord
from tensord import Tensor
from tensord.testing import Daemon

HOLDS = """
import tensord
kept = tensord.ones(1 << 20).realize()
kept.sum().item()
print("holds", flush=True)
input()
"""


def eventually(condition):
    """Looks until it is so; a test that never sees it runs into its own time limit."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def sessions(daemon):
    control = str(tensord.connection._binary()).replace("server/tensord", "tools/tensorctl/tensorctl")
    printed = subprocess.run([control, "sessions", "--address", daemon.address], text=True, capture_output=True, check=True)
    return printed.stdout


@pytest.mark.parametrize(("how", "parks"), [(signal.SIGKILL, True), (None, False)])
def test_the_memory_of_a_client_that_is_gone(tmp_path, how, parks):
    with Daemon(tmp_path, "--session-lease=1s") as daemon:
        child = subprocess.Popen([sys.executable, "-c", HOLDS], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 env={**os.environ, "TENSORD_ADDRESS": daemon.address})  # fmt: skip
        assert child.stdout.readline() == "holds\n"
        if how is None:
            child.communicate("\n", timeout=60)
        else:
            child.send_signal(how)
            child.communicate(timeout=60)
        eventually(lambda: "ended id=session-1" in daemon.log.read_text())
        log = daemon.log.read_text()
        assert ("parked id=session-1" in log) == parks and ("lease over id=session-1" in log) == parks
        with tensord.connect(daemon.address):
            assert tensord.counters()["live_bytes"] < 1 << 20


def test_after_a_restart_what_was_there_is_lost_and_new_work_goes_on(tmp_path, caplog):
    with Daemon(tmp_path) as daemon, tensord.connect(daemon.address) as client:
        x = Tensor([1.0, 2.0]).realize()

        @tensord.jit
        def double(y):
            return y * 2

        assert double(x).tolist() == [2, 4]
        pending = x + 1
        with caplog.at_level(logging.WARNING, "tensord"):
            daemon.kill()
            daemon.start()
            eventually(lambda: client.closed)
            for use in x.numpy, pending.numpy, (x * 3).numpy, lambda: double(x).numpy():
                with pytest.raises(tensord.errors.UnavailableError, match="session-1 with .* is lost: .*new session"):
                    use()
            # Something new, without connecting again; the captured function as well.
            fresh = Tensor([3.0])
            assert double(Tensor([3.0, 4.0])).tolist() == [6, 8]
            assert (fresh + tensord.zeros(1)).tolist() == [3] and not client.closed
            assert 0 <= tensord.rand(3).numpy().min() < 1  # nobody chose the seed
            with pytest.raises(tensord.errors.UnavailableError, match="is lost"):
                (fresh + x).numpy()
            eventually(lambda: len(caplog.records) >= 2)
        lost, told = [record.getMessage() for record in caplog.records][:2]
        assert lost.startswith(f"connection to {daemon.address} lost: ") and lost.endswith("; reconnecting")
        assert told.startswith(f"session-1 with {daemon.address} is lost: there is no such session")


def test_generators_go_on_in_the_next_session(tmp_path):
    with Daemon(tmp_path) as daemon, tensord.connect(daemon.address) as client:
        own = tensord.Generator()

        @tensord.jit
        def captured():
            return tensord.rand(2), tensord.rand(3, generator=own)

        def draws():
            for _ in range(2):
                yield tensord.rand(4).tolist()
                yield tensord.randn(3, generator=own).tolist()
                yield [each.tolist() for each in captured()]

        def seeded():
            tensord.manual_seed(7)
            own.manual_seed(8)
            return draws()

        expected = list(seeded())
        drawn = seeded()
        for i, numbers in enumerate(expected):
            assert next(drawn) == numbers, i
            if i == 2:
                daemon.kill()
                daemon.start()
                eventually(lambda: client.closed)


def test_an_assignment_that_was_under_way_does_not_stop_others(tmp_path):
    with Daemon(tmp_path) as daemon, tensord.connect(daemon.address) as client:
        state = Tensor([1.0]).realize()
        state.assign(state + 1)
        daemon.kill()
        daemon.start()
        eventually(lambda: client.closed)
        assert Tensor([5.0]).item() == 5
        with pytest.raises(tensord.errors.UnavailableError, match="is lost"):
            state.numpy()
        state.assign(Tensor([8.0]))
        assert state.item() == 8


def test_without_a_lease_a_session_ends_with_its_connection(tmp_path):
    with Daemon(tmp_path) as daemon, tensord.connect(daemon.address, lease=0, connect_timeout=2) as client:
        x = Tensor([1.0]).realize()
        tensord.synchronize()
        assert "connected" in sessions(daemon)
        daemon.kill()
        eventually(lambda: client.closed)
        with pytest.raises(tensord.errors.UnavailableError, match="is lost"):
            x.numpy()
        with pytest.raises(tensord.errors.UnavailableError, match="no daemon answers"):
            Tensor([1.0])
