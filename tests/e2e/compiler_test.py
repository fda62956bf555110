"""Compiling happens in processes of its own: a fault of the compiler costs the program it was at work on."""

import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
import tensord
from tensord import Tensor, errors
from tensord.testing import Daemon


def children(pid):
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], text=True, capture_output=True, check=False)
    return [int(line) for line in listed.stdout.split()]


def state(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2]
    except FileNotFoundError:
        return "gone"


def wait_for(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.01)


@pytest.fixture
def faulty(tmp_path, monkeypatch):
    """Starts a daemon whose compiler has a fault where a program is called `bad`."""
    daemons = []

    def start(fault, *flags):
        monkeypatch.setenv("TENSORD_COMPILE_FAULT", f"{fault}:bad")
        daemons.append(Daemon(tmp_path, *flags))
        return daemons[-1]

    yield start
    for daemon in daemons:
        daemon.__exit__()


def run(n):
    x = Tensor(np.arange(n, dtype=np.float32))
    return (x * 2 + 1).sum().item()


FAULTS = {
    "crash": ((), errors.InternalError, r"'bad'.*ended the compiler's process, signal 6.*report it", "signal 6"),
    "loop": (("--compile-timeout=1s",), errors.DeadlineExceededError, r"'bad'.*more than 1s, --compile-timeout",
             "timeout"),
    "memory": (("--compile-memory-bytes=256MiB",), errors.ResourceExhaustedError,
               r"'bad'.*more than 268435456 bytes of memory, --compile-memory-bytes", "out of memory"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_compiler_costs_its_program_only(faulty, fault):
    flags, error, message, why = FAULTS[fault]
    daemon = faulty(fault, *flags)
    with tensord.connect(daemon.address) as other:
        kept = (Tensor([1.0, 2.0]) + 1).realize()
        with tensord.connect(daemon.address):

            @tensord.jit
            def bad(x):
                return x.sin() * 3

            @tensord.jit
            def good(x):
                return x.cos() * 3

            x = Tensor([0.0, 1.0])
            with pytest.raises(error, match=message):
                for _ in range(3):  # captured by the second call
                    bad(x).numpy()
            for _ in range(3):
                np.testing.assert_allclose(good(x).numpy(), np.cos([0.0, 1.0]) * 3, rtol=1e-6)
            assert run(10) == 100
        with other:
            assert kept.tolist() == [2.0, 3.0]
            assert run(11) == 121
    log = daemon.log.read_text()
    assert "lost a process" in log and "program='bad'" in log and f"because={why}" in log
    assert daemon.process.poll() is None


def test_a_process_that_died_meanwhile_is_replaced(tmp_path):
    with Daemon(tmp_path) as daemon, tensord.connect(daemon.address):
        assert run(5) == 25
        (worker,) = children(daemon.process.pid)
        os.kill(worker, signal.SIGKILL)  # the daemon may hear of it now, or when it asks
        assert run(6) == 36
        assert worker not in children(daemon.process.pid)


def test_a_compilation_may_have_no_limit_on_its_time(tmp_path):
    with Daemon(tmp_path, "--compile-timeout=inf") as daemon, tensord.connect(daemon.address):
        assert run(8) == 64


def test_kernels_come_from_the_cache_whoever_compiled_them(tmp_path):
    with Daemon(tmp_path) as daemon:
        for compiled in (1, 0):
            with tensord.connect(daemon.address):
                assert run(7) == 49
                assert (tensord.counters()["kernels_compiled"] > 0) == bool(compiled)
            daemon.kill()
            daemon.start()


def test_a_compilation_without_end_ends_with_the_daemon(faulty):
    daemon = faulty("loop")
    with tensord.connect(daemon.address):

        @tensord.jit
        def bad(x):
            return x + 1

        bad(Tensor([1.0])).realize()
        pending = bad(Tensor([1.0]))
        pending.realize()
        (worker,) = children(daemon.process.pid)
        wait_for(lambda: Path(f"/proc/{worker}/stat").read_text().split()[13] not in ("0", "1", "2"))
        daemon.kill()
        wait_for(lambda: state(worker) in "Z gone")
