"""Bulk data through memory that client and daemon share: docs/protocol.md."""

import os
import re
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tensord
from tensord import Tensor
from tensord.testing import Daemon

MIB = 1 << 20
SEGMENT = 32 * MIB  # the largest of a client's
PATHS = ("uploaded", "downloaded", "segment_uploaded", "segment_downloaded")


def moved(daemon):
    """Bytes up and down since the start, and those of them that went through segments."""
    url = re.search(r"serving metrics url=(\S+)", daemon.log.read_text())[1]
    with urllib.request.urlopen(url, timeout=30) as reply:
        text = reply.read().decode()
    return np.array([int(float(re.search(rf"^tensord_{path}_bytes_total (\S+)", text, re.M)[1])) for path in PATHS])


def mapped(daemon):
    """How many segments the daemon has."""
    return Path(f"/proc/{daemon.process.pid}/maps").read_text().count("/memfd:tensord")


@pytest.fixture
def serving(tmp_path):
    with Daemon(tmp_path, "--metrics-listen=localhost:0", "--listen=localhost:0") as daemon:
        yield daemon


def numbers(count, seed=1):
    return np.random.default_rng(seed).integers(0, 256, count, dtype=np.uint8)


@pytest.mark.parametrize("lease", [None, 0])
def test_what_is_large_goes_through_segments(serving, lease):
    with tensord.connect(serving.address, lease=lease):
        Tensor([1.0]).numpy()  # generators of tests before this one go on in a new session
        for count in (0, 1000, MIB - 1, MIB, MIB + 1, 5 * MIB + 3, SEGMENT, SEGMENT + 7, 3 * SEGMENT):
            data = numbers(count)
            before = moved(serving)
            tensor = Tensor(data)
            assert (tensor.numpy() == data).all(), count
            up = count if count >= MIB and (lease is None or count <= SEGMENT) else 0
            down = count if count >= MIB else 0
            assert (moved(serving) - before).tolist() == [count, count, up, down], count


def test_many_threads_share_a_few(serving):
    with tensord.connect(serving.address) as client:

        def there_and_back(seed):
            for round in range(3):
                data = numbers((seed % 3 + 1) * MIB + seed, seed + 100 * round)
                assert (Tensor(data).numpy() == data).all()
            return True

        Tensor([1.0]).numpy()
        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(there_and_back, range(16)))
        assert 1 <= mapped(serving) <= 2 and not client.closed
        assert moved(serving)[2] > 0


def test_over_tcp_all_goes_by_the_socket(serving):
    port = re.search(r"address=localhost:(\d+)", serving.log.read_text())[1]
    with tensord.connect(f"localhost:{port}"):
        data = numbers(4 * MIB)
        assert (Tensor(data).numpy() == data).all()
    assert moved(serving)[2:].tolist() == [0, 0] and mapped(serving) == 0


@pytest.mark.parametrize("kill", [False, True])
def test_they_end_with_the_session(tmp_path, kill):
    script = "import sys, numpy, tensord; tensord.Tensor(numpy.ones(1 << 20)).numpy(); print(1, flush=True); sys.stdin.readline()"
    with Daemon(tmp_path, "--session-lease=0s") as daemon:
        child = subprocess.Popen([sys.executable, "-c", script], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 env={**os.environ, "TENSORD_ADDRESS": daemon.address})  # fmt: skip
        assert child.stdout.readline() == "1\n" and mapped(daemon) >= 1
        if kill:
            child.kill()
        child.communicate("\n" if not kill else None, timeout=60)
        end = time.monotonic() + 60
        while mapped(daemon):
            assert time.monotonic() < end
            time.sleep(0.01)


def test_after_a_restart_there_are_new_ones(tmp_path):
    with Daemon(tmp_path, "--metrics-listen=localhost:0") as daemon, tensord.connect(daemon.address) as client:
        data = numbers(2 * MIB)
        assert (Tensor(data).numpy() == data).all()
        daemon.kill()
        daemon.log.unlink()
        daemon.start()
        end = time.monotonic() + 60
        while not client.closed:
            assert time.monotonic() < end
            time.sleep(0.01)
        assert (Tensor(data).numpy() == data).all()
        assert moved(daemon)[2] == len(data)
