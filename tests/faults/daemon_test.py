"""Daemons that are killed at bad moments, find their cache spoilt or the disk full, and clocks that jump."""

import os
import re
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest
import tensord
from tensord import Tensor

METRICS = "--metrics-listen=localhost:0"


def work(seed=0):
    """Several kernels, and what they should give."""
    x = np.random.default_rng(seed).standard_normal((16, 32)).astype(np.float32)
    p = np.exp(x @ x.T - (x @ x.T).max(-1, keepdims=True))
    expected = p / p.sum(-1, keepdims=True) @ x
    t = Tensor(x)
    np.testing.assert_allclose(((t @ t.T).softmax(-1) @ t).numpy(), expected, rtol=1e-4, atol=1e-5)


def entries(daemon):
    return sorted(path for path in daemon.cache.rglob("*") if path.is_file())


@pytest.mark.parametrize("moment", ["compiling", "writing the cache"])
def test_a_daemon_that_is_killed_while_it_compiles(start, until, moment):
    """The next one takes no half-written kernel for a whole one, and the client goes on with it."""
    daemon = start(METRICS)
    with tensord.connect(daemon.address, timeout=60):
        for round_ in range(3):
            count = len(entries(daemon)) if daemon.cache.exists() else 0
            pending = [(tensord.ones(8, 8) * (i + 1)).sin().sum(i % 2).exp().realize() for i in range(8)]
            if moment == "writing the cache":
                until(lambda: len(entries(daemon)) > count)
            daemon.kill()
            daemon.start()
            with pytest.raises(tensord.errors.UnavailableError, match="is lost"):
                pending[0].numpy()
            work(round_)
            shutil.rmtree(daemon.cache)
            daemon.terminate()
            daemon.start()
            until(lambda: tensord.connection.current().closed)
            work(round_)


SPOIL = {
    "truncated": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "one bit": lambda data: data[:-9] + bytes([data[-9] ^ 4]) + data[-8:],
    "something else": lambda data: b"\x7fELF" + os.urandom(4096),
}


@pytest.mark.parametrize("how", SPOIL)
def test_a_cache_that_was_spoilt_is_built_anew(start, figures, how):
    daemon = start(METRICS)
    with tensord.connect(daemon.address):
        work()
    daemon.terminate()
    written = entries(daemon)
    assert written
    for path in written:
        path.write_bytes(SPOIL[how](path.read_bytes()))
    daemon.start()
    with tensord.connect(daemon.address):
        work()
        now = figures(daemon)
        assert now["kernel_cache_hits_total"] == 0 and now["kernel_cache_rejected_total"] > 0
    # Built anew: the next daemon takes all of them.
    daemon.terminate()
    daemon.start()
    with tensord.connect(daemon.address):
        work()
        assert figures(daemon)["kernel_cache_misses_total"] == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a small file system")
def test_a_disk_that_is_full(start, figures, tmp_path):
    """Kernels are kept in memory only; log lines are lost; nobody's work is."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount: {mounted.stderr}")
    try:
        (disk / "cache").mkdir()
        (disk / "filler").write_bytes(b"x" * (60 << 10))
        daemon = start(METRICS, f"--cache-dir={disk}/cache")
        with tensord.connect(daemon.address):
            for seed in range(2):
                work(seed)
            assert figures(daemon)["kernel_cache_misses_total"] > 0
            assert re.search(r"No space left", daemon.log.read_text())
            # And when there is room again, they are kept.
            (disk / "filler").unlink()
            (tensord.ones(5, 7) * 3).sin().sum().item()
            assert figures(daemon)["kernel_cache_disk_entries"] > 0
        daemon.check()
    finally:
        if "daemon" in locals():
            daemon.__exit__()
        subprocess.run(["umount", disk], check=True)


# The machine's date, and a file with the seconds that it has jumped. What is no date goes on as ever.
JUMPS = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static long jump(void) {
  char text[32] = {0};
  int fd = open(getenv("TEST_JUMP"), O_RDONLY | O_CLOEXEC);
  if (fd >= 0) {
    if (read(fd, text, sizeof text - 1) < 0) text[0] = 0;
    close(fd);
  }
  return atol(text);
}
int clock_gettime(clockid_t clock, struct timespec* now) {
  static int (*real)(clockid_t, struct timespec*);
  if (!real) *(void**)&real = dlsym(RTLD_NEXT, "clock_gettime");
  int result = real(clock, now);
  if (clock == CLOCK_REALTIME) now->tv_sec += jump();
  return result;
}
int gettimeofday(struct timeval* now, void* zone) {
  struct timespec precise;
  clock_gettime(CLOCK_REALTIME, &precise);
  now->tv_sec = precise.tv_sec;
  now->tv_usec = precise.tv_nsec / 1000;
  return 0;
}
"""

HOLDS = """
x = Tensor(np.arange(4, dtype=np.float32)).realize()
x.numpy()
print("holds", flush=True)
input()
print((x + 1).tolist(), flush=True)
"""


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs a C compiler")
@pytest.mark.parametrize("hours", [1, -1])
def test_a_clock_that_jumps(start, child, figures, until, tmp_path, monkeypatch, hours):
    """Neither ends a lease, nor makes one last; nor does it end a drain, nor work."""
    (tmp_path / "jumps.c").write_text(JUMPS)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", tmp_path / "jumps.so", tmp_path / "jumps.c", "-ldl"], check=True)
    date = tmp_path / "jump"
    with monkeypatch.context() as patch:
        patch.setenv("LD_PRELOAD", str(tmp_path / "jumps.so"))
        patch.setenv("TEST_JUMP", str(date))
        daemon = start(METRICS, "--session-lease=2s", "--devices=cpu,paced(launch_us=700000)", "--launch-timeout=30s")
    began = time.time()
    goes_on, dies = child(HOLDS, daemon), child(HOLDS, daemon)
    assert goes_on.line() == dies.line() == "holds"
    dies.process.kill()
    until(lambda: figures(daemon)["sessions_parked"] == 1)
    date.write_text(str(3600 * hours))
    # It has jumped, as the daemon sees it.
    until(lambda: abs(time.time() - began) < 60)
    with tensord.connect(daemon.address, device="PACED:0") as client:
        (Tensor(np.ones(4, np.float32)) + 1).numpy()
        assert re.findall(r"^\[(\d{4}-\d\d-\d\d \d\d):", daemon.log.read_text(), re.M)[-1] == time.strftime(
            "%Y-%m-%d %H", time.localtime(time.time() + 3600 * hours))  # fmt: skip
        # The lease ends in its time, and no sooner: the parked one is there when a second has passed.
        until(lambda: "lease over id=session-" in daemon.log.read_text())
        until(lambda: figures(daemon)["sessions"] == 2)
        goes_on.process.stdin.write("\n")
        goes_on.process.stdin.flush()
        assert goes_on.end() == ("[1.0, 2.0, 3.0, 4.0]\n", "")
        pending = (Tensor(np.ones(4, np.float32)) * 2).realize()
        assert daemon.terminate() == 0
        assert "ended all_work_finished=true" in daemon.log.read_text()
        assert client.closed and pending is not None


def test_signals_that_mean_nothing_are_ignored(start):
    daemon = start()
    with tensord.connect(daemon.address):
        for number in signal.SIGPIPE, signal.SIGURG, signal.SIGWINCH:
            daemon.process.send_signal(number)
            work()
        daemon.check()
