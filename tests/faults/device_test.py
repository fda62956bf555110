"""Devices that hang, fault, and have no memory: who did it is named, others do not notice, memory comes back."""

import pathlib
import re
import subprocess

import numpy as np
import pytest
import tensord
from tensord import Tensor

FLAGS = "--metrics-listen=localhost:0", "--launch-timeout=400ms", "--run-timeout=2s"


def endless():
    """A loop on the device that does not end; each of its launches does."""
    return tensord.while_loop(lambda a: (a >= 0).all(), lambda a: (a + 1) * 0, tensord.zeros(1, dtype="int32"))


# Devices, and a function that makes something that is never computed.
HANGS = {
    "a simulated kernel": ("paced(hang_kernel=fold)", lambda x: x.sum(), "kernel 'fold_[^']*' was stopped", "launch"),
    "a loop of many kernels": ("cpu", lambda x: endless() + x.sum(), "the run took longer than the 2s", "run"),
    "a long kernel": ("cpu", lambda x: huge(x), "kernel '[^']+' was stopped: it took longer than the 400ms", "launch"),
    "an interpreted kernel": ("interp", lambda x: huge(x), "kernel '[^']+' was stopped", "launch"),
}


def control(daemon, *arguments):
    program = pathlib.Path(__file__).parents[2] / "bazel-bin/tools/tensorctl/tensorctl"
    subprocess.run([program, "--address", daemon.address, *arguments], check=True, capture_output=True, timeout=60)


def huge(x):
    """One kernel with more to do than any machine does in the time it has."""
    big = x.sum() + tensord.arange(1 << 18).cast("float32")
    return (big.reshape(-1, 1) * big.reshape(1, -1)).sin().sum()


@pytest.mark.parametrize("name", HANGS)
def test_work_that_does_not_end_is_stopped_and_named(start, figures, until, name):
    device, hang, message, limit = HANGS[name]
    daemon = start(f"--devices={device}", *FLAGS)
    before = figures(daemon)
    with tensord.connect(daemon.address, lease=0) as guilty:
        x = Tensor(np.ones(64, np.float32)).realize()
        kept = (x * 3).realize()
        bad = hang(x).realize()
        follows = (bad + 1).realize()
        fine = (x * 5).realize()
        with tensord.connect(daemon.address, lease=0):
            other = (Tensor(np.ones(8, np.float32)) + 1).numpy()
            assert device.startswith("paced") or other.tolist() == [2] * 8
        told = f"a program in session-1: .*{message}.*--{limit}-timeout"
        for each in bad, follows:
            with pytest.raises(tensord.errors.DeadlineExceededError, match=told):
                each.numpy()
        # What that run did not write is as it was, and the session goes on.
        for each, value in (kept, 3), (fine, 5), (x, 1):
            assert each.numpy().shape == (64,)
            assert device.startswith("paced") or each.tolist() == [value] * 64
        assert not guilty.closed
    (line,) = re.findall(r"run failed on its device .*", daemon.log.read_text())
    assert "session=session-1 user=" in line and re.search(message, line)
    until(lambda: figures(daemon)["device_memory_used_bytes"] == before["device_memory_used_bytes"])


def test_an_assignment_that_did_not_end_poisons_its_target_only(start):
    daemon = start("--devices=paced(hang_launch=3)", *FLAGS)
    with tensord.connect(daemon.address):
        x, y = (Tensor(np.full(4, n, np.float32)).realize() for n in (1, 2))
        (x + 1).realize(), (x + 2).realize()
        x.assign(x * 2).realize()
        for each in x, x + 1:
            with pytest.raises(tensord.errors.DeadlineExceededError, match="launch-timeout"):
                each.numpy()
        assert y.tolist() == [2] * 4


NO_LIMITS = ["--devices=cpu", "--metrics-listen=localhost:0", "--launch-timeout=0", "--run-timeout=0",
             "--drain-timeout=500ms"]  # fmt: skip


def hung(daemon, figures, until):
    """A session whose run has begun and does not end, and its result."""
    client = tensord.connect(daemon.address, connect_timeout=1)
    result = (endless() + tensord.ones(1 << 20)).realize()
    until(lambda: figures(daemon)["device_queue_depth"] == 1 and figures(daemon)["device_memory_used_bytes"] > 1 << 20)
    return client, result


def test_an_operator_ends_who_hangs(start, figures, until):
    daemon = start(*NO_LIMITS)
    before = figures(daemon)
    client, result = hung(daemon, figures, until)
    control(daemon, "sessions", "kill", "session-1", "--reason=lunch")
    with tensord.connect(daemon.address, lease=0):
        assert (Tensor(np.ones(8, np.float32)) + 1).tolist() == [2] * 8
    assert 'gave up unfinished work id=session-1 because="session-1 was ended by' in daemon.log.read_text()
    with pytest.raises(tensord.errors.UnavailableError, match="was ended by .*: lunch"):
        result.numpy()
    client.close()
    until(lambda: figures(daemon)["device_memory_used_bytes"] == before["device_memory_used_bytes"])


def test_a_client_that_hangs_and_dies_is_given_up(start, child, figures, until):
    daemon = start(*NO_LIMITS, "--session-lease=100ms")
    before = figures(daemon)
    script = """
i = tensord.zeros(1, dtype="int32")
y = (tensord.while_loop(lambda a: (a >= 0).all(), lambda a: (a + 1) * 0, i) + tensord.ones(1 << 20)).realize()
input()
"""
    client = child(script, daemon)
    until(lambda: figures(daemon)["device_memory_used_bytes"] > 1 << 20)
    client.process.kill()
    until(lambda: 'id=session-1 because="its client was not back within the lease"' in daemon.log.read_text())
    until(lambda: figures(daemon)["device_memory_used_bytes"] == before["device_memory_used_bytes"])
    with tensord.connect(daemon.address):
        assert (Tensor(np.ones(8, np.float32)) + 1).tolist() == [2] * 8


@pytest.mark.parametrize("leaves", ["stays", "says goodbye"])
def test_a_drain_says_what_it_gave_up(start, figures, until, leaves):
    daemon = start(*NO_LIMITS)
    client, result = hung(daemon, figures, until)
    if leaves == "says goodbye":
        client.close()  # what it asked for is still done, if it can be
    assert daemon.terminate() == 0
    log = daemon.log.read_text()
    assert "ended all_work_finished=false" in log
    assert f"gave up unfinished work {'id=session-1' if leaves == 'stays' else 'device=CPU:0'}" in log
    with pytest.raises(tensord.TensordError):
        result.numpy()


@pytest.mark.parametrize("device", ["paced(fault_kernel=fold)"])
def test_a_kernel_that_faults(start, figures, until, device):
    daemon = start(f"--devices={device}", *FLAGS)
    before = figures(daemon)
    with tensord.connect(daemon.address, lease=0):
        x = Tensor(np.ones(64, np.float32)).realize()
        bad = x.sum().realize()
        fine = (x + 1).realize()
        with pytest.raises(tensord.errors.InternalError, match="a program in session-1: .*kernel 'fold_.*failed as"):
            bad.numpy()
        assert fine.numpy().shape == (64,)
    assert len(re.findall("run failed on its device session=session-1", daemon.log.read_text())) == 1
    until(lambda: figures(daemon)["device_memory_used_bytes"] == before["device_memory_used_bytes"])


def test_a_device_without_memory(start, figures, until):
    daemon = start("--devices=cpu", "--memory-bytes=16MiB", "--spill-host-bytes=0", *FLAGS)
    with tensord.connect(daemon.address) as other:
        kept = Tensor(np.arange(1 << 18, dtype=np.float32)).realize()
        other.synchronize()
        level = figures(daemon)["device_memory_used_bytes"]
        for _ in range(3):
            with tensord.connect(daemon.address, lease=0):
                held = []
                with pytest.raises(tensord.errors.ResourceExhaustedError, match="CPU:0"):
                    for n in range(32):
                        held.append((tensord.ones(1 << 18) * n).realize())
                        held[-1].numpy()
                assert held[0].numpy()[0] == 0  # what it has, it keeps
                held.clear()
                assert (tensord.ones(1 << 18) * 7).numpy()[-1] == 7
            until(lambda: figures(daemon)["device_memory_used_bytes"] == level)
        assert kept.numpy()[-1] == (1 << 18) - 1
