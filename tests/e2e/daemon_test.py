"""What spans client and daemon: several clients, restarts, draining, finding a daemon, the private one."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import tensord
from tensord import Tensor
from tensord.testing import Daemon


def work(seed):
    """Several kernels; the same ones for every seed."""
    x = Tensor(np.random.default_rng(seed).standard_normal((16, 32)).astype(np.float32))
    return ((x @ x.T).softmax(-1) @ x).layer_norm(32).sum(0)


def expected(seed):
    x = np.random.default_rng(seed).standard_normal((16, 32)).astype(np.float32)
    p = np.exp(x @ x.T - (x @ x.T).max(-1, keepdims=True))
    y = p / p.sum(-1, keepdims=True) @ x
    return ((y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + 1e-5)).sum(0)


SCRIPT = """
import sys
import numpy as np
import tensord
state = tensord.Tensor([float(sys.argv[1])]).realize()
@tensord.jit
def step(x):
    state.assign(state + x.sum())
    return state * 2
for i in range(20):
    out = step(np.full(8, i, np.float32))
print(out.item(), tensord.counters()["kernels_compiled"])
"""


def run(script, *arguments, **environment):
    return subprocess.run([sys.executable, "-c", script, *arguments], text=True, capture_output=True, timeout=120,
                          env={**os.environ, **environment})  # fmt: skip


def test_two_processes_at_once_share_the_daemon_and_not_their_data(daemon):
    processes = [
        subprocess.Popen([sys.executable, "-c", SCRIPT, str(start)], text=True, stdout=subprocess.PIPE,
                         env={**os.environ, "TENSORD_ADDRESS": daemon.address})
        for start in (0, 1000)
    ]  # fmt: skip
    printed = [process.communicate(timeout=120)[0].split() for process in processes]
    assert [float(value) for value, _ in printed] == [2 * 8 * 190, 2 * (1000 + 8 * 190)]
    # Equal kernels are compiled once for both.
    assert sum(int(compiled) for _, compiled in printed) <= 2


def test_threads_share_a_client(daemon):
    results, errors = {}, []

    def train(seed):
        try:
            for _ in range(5):
                results[seed] = work(seed).numpy()
        except tensord.TensordError as error:
            errors.append(error)

    threads = [threading.Thread(target=train, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    for seed, result in results.items():
        np.testing.assert_allclose(result, expected(seed), rtol=1e-3, atol=1e-4)


def test_a_new_session_finds_programs_that_another_one_compiled(daemon):
    work(1).realize()
    with tensord.connect(daemon.address):
        work(2).numpy()
        counters = tensord.counters()
    assert counters["kernels_compiled"] == 0 and counters["plan_hits"] >= 1


def test_a_killed_daemon_restarts_with_its_cache(tmp_path):
    with Daemon(tmp_path) as daemon:
        with tensord.connect(daemon.address, lease=0, connect_timeout=2) as client:
            np.testing.assert_allclose(work(3).numpy(), expected(3), rtol=1e-3, atol=1e-4)
            assert client.counters()["kernels_compiled"] > 0
            kept = work(4)
            daemon.kill()
            with pytest.raises(tensord.errors.UnavailableError, match="is lost"):
                kept.numpy()
            assert client.closed
        daemon.start()
        with tensord.connect(daemon.address) as client:
            np.testing.assert_allclose(work(5).numpy(), expected(5), rtol=1e-3, atol=1e-4)
            counters = client.counters()
    assert counters["kernels_compiled"] == 0 and counters["kernel_disk_hits"] > 0


def test_sigterm_finishes_accepted_work(tmp_path):
    with Daemon(tmp_path) as daemon:
        client = tensord.connect(daemon.address)
        result = work(6).realize()
        client.synchronize()
        status = daemon.terminate()
        assert status == 0
        with pytest.raises(tensord.TensordError):
            (result + 1).numpy()
        client.close()


def test_a_server_error_reaches_what_depends_on_it_and_the_session_goes_on(daemon):
    # More than any machine has: it is refused when the program runs, which nobody waits for yet.
    huge = tensord.zeros(1 << 17, 1 << 20).clone().realize()
    dependent = (huge[0] + 1).sum()
    with pytest.raises(MemoryError, match=str(4 << 37)):
        dependent.numpy()
    assert (Tensor([1.0]) + 1).item() == 2


def test_the_environment_names_the_daemon(daemon):
    printed = run("import tensord; print(tensord.connect().address, tensord.Tensor([1, 2]).sum().item())",
                  TENSORD_ADDRESS=daemon.address)  # fmt: skip
    assert printed.stdout.split() == [daemon.address, "3"] and printed.stderr == ""


def test_without_a_daemon_there_is_a_private_one_that_ends_with_the_process(tmp_path):
    script = "import tensord; print((tensord.Tensor([1.,2.])+1).tolist()); print(tensord.connection._daemon._process.pid)"
    printed = run(script, TENSORD_ADDRESS="", XDG_RUNTIME_DIR=str(tmp_path), TENSORD_CACHE_DIR=str(tmp_path / "cache"))
    assert printed.returncode == 0, printed.stderr
    values, process = printed.stdout.splitlines()
    assert values == "[2.0, 3.0]"
    assert printed.stderr.count("\n") == 1 and "private daemon" in printed.stderr
    assert not Path(f"/proc/{process}").exists()


def test_threads_that_connect_at_once_share_one_private_daemon(tmp_path):
    script = """
import threading, tensord
sums = []
threads = [threading.Thread(target=lambda: sums.append(tensord.Tensor([1, 2]).sum().item())) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(sums)
"""
    printed = run(script, TENSORD_ADDRESS="", XDG_RUNTIME_DIR=str(tmp_path), TENSORD_CACHE_DIR=str(tmp_path / "cache"))
    assert printed.stdout.strip() == str([3] * 8), printed.stderr
    assert printed.stderr.count("private daemon") == 1


def test_captured_functions_of_many_threads(daemon):
    errors, finished = [], []

    def train(start):
        weight, expected = Tensor(np.full(4, start, np.float32)).realize(), np.full(4, start, np.float32)

        @tensord.jit
        def step(x):
            weight.assign(weight + x)
            return weight * 2, tensord.rand(2)

        for i in range(60):
            doubled, _ = step(Tensor([1.0, 2.0, 3.0, 4.0]))
            expected = expected + [1, 2, 3, 4]
            if i % 7 == 0 and doubled.tolist() != (2 * expected).tolist():
                errors.append(f"{start}: {doubled.tolist()} at step {i}")
            if i % 11 == 0:
                old = weight * 1
                weight.assign(weight + 1)
                if old.tolist() != expected.tolist():
                    errors.append(f"{start}: an old version changed at step {i}")
                expected = expected + 1
        finished.append(start)

    threads = [threading.Thread(target=train, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors and sorted(finished) == [0, 1, 2, 3]


def test_importing_connects_to_nothing(tmp_path):
    printed = run("import tensord; print(tensord.float32)", TENSORD_ADDRESS="unix:/nowhere", TENSORD_SERVER="/nowhere")
    assert printed.stdout == "float32\n", printed.stderr


def test_no_daemon_at_the_address():
    with pytest.raises(ConnectionError, match="tensord --listen unix:/nowhere"):
        tensord.connect("unix:/nowhere", connect_timeout=0.2)


def test_a_missing_binary_names_the_command_that_builds_it(tmp_path):
    printed = run("import tensord; tensord.Tensor([1]).numpy()", TENSORD_ADDRESS="", XDG_RUNTIME_DIR=str(tmp_path),
                  TENSORD_SERVER=str(tmp_path / "none"))  # fmt: skip
    assert printed.returncode != 0 and "none" in printed.stderr


def test_a_steady_step_sends_little(daemon):
    weight = Tensor(np.ones((64, 64), np.float32)).realize()

    @tensord.jit
    def step():
        weight.assign(weight * 0.5 + 1)
        return weight.sum()

    step().item()
    before = tensord.counters()
    for _ in range(10):
        step()
    after = tensord.counters()
    assert after["programs_run"] - before["programs_run"] == 10
    assert after["bytes_uploaded"] == before["bytes_uploaded"] and after["plan_misses"] == before["plan_misses"]
