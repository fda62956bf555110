"""Tensors that leave a full device and come back: docs/memory.md."""

import json
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
import tensord
from tensord import Tensor
from tensord.connection import _binary
from tensord.errors import ResourceExhaustedError
from tensord.testing import Daemon

MIB = 1 << 20
PARKED = """
import numpy as np, tensord
data = np.arange(6 << 18, dtype=np.float32)
kept = tensord.Tensor(data).realize()
kept.sum().item()
print("holds", flush=True)
input()
print("as it was" if ((kept + 1).numpy() == data + 1).all() else "not as it was", flush=True)
"""
SEED = 16  # bytes that each session uploads at its beginning, for random numbers


def ask(daemon, *words):
    control = _binary().replace("server/tensord", "tools/tensorctl/tensorctl")
    command = [control, "--address", daemon.address, "--json", *words]
    return json.loads(subprocess.run(command, text=True, capture_output=True, check=True).stdout)


def bills(daemon):
    """Bytes that were spilled and restored for each session."""
    return {
        each["session_id"]: tuple(int(each["counters"][f"bytes_{name}"]) for name in ("spilled", "restored"))
        for each in ask(daemon, "sessions")["sessions"]
    }


def floats(mib, seed):
    """So many MiB that are like no others."""
    return np.random.default_rng(seed).standard_normal((mib, MIB // 4), np.float32)


def together(daemon, work, *seeds):
    """Runs a function of this file in processes of their own, each with a connection; what they print."""
    command = [sys.executable, __file__, work.__name__]
    env = {**os.environ, "TENSORD_ADDRESS": daemon.address}
    children = [subprocess.Popen([*command, str(seed)], text=True, env=env, stdout=subprocess.PIPE) for seed in seeds]
    printed = [child.communicate()[0] for child in children]
    assert [child.returncode for child in children] == [0] * len(seeds)
    return printed


def test_one_client_may_have_more_than_the_device(tmp_path):
    with Daemon(tmp_path, "--devices=cpu", "--memory-bytes=32MiB") as daemon, tensord.connect(daemon.address):
        data = [floats(4, i) for i in range(24)]
        tensors = [Tensor(each).realize() for each in data]
        doubled = [(each * 2).realize() for each in tensors]
        for expected, tensor, twice in zip(data, tensors, doubled):
            assert (twice.numpy() == expected * 2).all()
            assert (tensor.numpy() == expected).all()
        moved = bills(daemon)["session-1"]
        assert moved[0] >= 2 * 96 * MIB - 32 * MIB and moved[1] > 0


def update(seed):
    expected = [floats(8, seed * 10 + i) for i in range(2)]
    tensors = [Tensor(each).realize() for each in expected]
    for turn in range(6):
        for i, tensor in enumerate(tensors):
            tensor.assign(tensor + turn).realize()
            expected[i] = expected[i] + np.float32(turn)
    for want, tensor in zip(expected, tensors):
        np.testing.assert_array_equal(tensor.numpy(), want)


def test_four_clients_share_a_device_that_is_too_small_for_them(tmp_path):
    with Daemon(tmp_path, "--devices=cpu", "--memory-bytes=32MiB") as daemon:
        together(daemon, update, 0, 1, 2, 3)
        assert spilled(daemon) == (0, 0)


def test_without_room_to_spill_it_is_refused(tmp_path):
    flags = ["--devices=cpu", "--memory-bytes=32MiB", "--spill-host-bytes=0"]
    with Daemon(tmp_path, *flags) as daemon, tensord.connect(daemon.address):
        kept = [Tensor(floats(8, i)).realize() for i in range(3)]
        with pytest.raises(ResourceExhaustedError, match="cannot allocate") as refused:
            (kept[0] + 1).realize().numpy()
            (kept[1] + 1).realize().numpy()
        assert refused.value.subject == "device:CPU:0"


def test_what_can_never_fit_is_refused(tmp_path):
    with Daemon(tmp_path, "--devices=cpu", "--memory-bytes=32MiB") as daemon, tensord.connect(daemon.address):
        kept = [Tensor(floats(12, i)).realize() for i in range(3)]
        with pytest.raises(ResourceExhaustedError, match="are needed at once") as refused:
            tensord.stack(kept).realize().numpy()
        assert refused.value.subject == "device:CPU:0" and refused.value.needed >= 72 * MIB
        assert (kept[2].numpy() == floats(12, 2)).all()


def state(daemon):
    """The states of all tensors of all sessions."""
    return [tensor["state"] for tensor in ask(daemon, "buffers")["tensors"]]


def spilled(daemon):
    """Bytes of tensors that are spilled: on the host, on disk."""
    stats = ask(daemon, "memory")["spilled"]
    return int(stats["host_bytes"]), int(stats["disk_bytes"])


def fill(mib=28, seed=100):
    """Has so much for a while, and with it all of a small device: what else may go has gone."""
    tensors = [Tensor(floats(4, seed + i)).realize() for i in range(mib // 4)]
    for each in tensors:
        each.numpy()


CPU = ["--devices=cpu", "--memory-bytes=32MiB"]


def test_a_session_that_does_nothing_goes_first_and_finds_its_tensors_as_they_were(tmp_path):
    with Daemon(tmp_path, *CPU) as daemon, tensord.connect(daemon.address) as idle:
        data = [floats(6, i) for i in range(3)]
        kept = [Tensor(each).realize() for each in data]
        idle.synchronize()
        with tensord.connect(daemon.address):
            mine = [Tensor(floats(6, 10 + i)).realize() for i in range(4)]
            assert all((each.numpy() == floats(6, 10 + i)).all() for i, each in enumerate(mine))
            states = {(each["session_id"], each["state"]) for each in ask(daemon, "buffers")["tensors"]}
            assert ("session-1", "spilled") in states and ("session-2", "spilled") not in states
            moved = bills(daemon)
            assert moved["session-1"] == (0, 0) and moved["session-2"][0] > 0
            assert spilled(daemon)[0] > 0
        for want, tensor in zip(data, kept):
            assert (tensor.numpy() == want).all()
        del kept, tensor, mine
        idle.synchronize()
        assert spilled(daemon) == (0, 0)


def test_what_is_spilled_moves_on_to_disk(tmp_path):
    folder = tmp_path / "spilled"
    flags = [*CPU, "--spill-host-bytes=8MiB", f"--spill-dir={folder}", "--spill-disk-bytes=64MiB"]
    with Daemon(tmp_path, *flags) as daemon, tensord.connect(daemon.address) as client:
        data = [floats(4, i) for i in range(20)]
        kept = [Tensor(each).realize() for each in data]
        client.synchronize()
        host, disk = spilled(daemon)
        assert host <= 8 * MIB and disk >= 40 * MIB
        assert list(folder.iterdir()) == []  # the files have no names
        for want, tensor in zip(data, kept):
            assert (tensor.numpy() == want).all()
        more = []
        with pytest.raises(ResourceExhaustedError, match="--spill-disk-bytes allows"):
            for i in range(20):
                more.append(Tensor(floats(4, 50 + i)).realize())
                more[-1].numpy()
        more.clear()
        for want, tensor in zip(data, kept):
            assert (tensor.numpy() == want).all()
        daemon.kill()
        assert list(folder.iterdir()) == []


def test_tensors_are_released_while_they_are_spilled_and_while_others_want_room(tmp_path):
    with Daemon(tmp_path, *CPU) as daemon, tensord.connect(daemon.address) as client:
        for round in range(4):
            kept = [Tensor(floats(4, i)).realize() for i in range(16)]
            del kept[::2]
            assert (kept[0].numpy() == floats(4, 1)).all()
            del kept
        client.synchronize()
        assert spilled(daemon) == (0, 0)
        assert ask(daemon, "memory")["devices"][0]["tensor_bytes"] == str(SEED)


def test_a_session_ends_while_its_tensors_are_spilled(tmp_path):
    with Daemon(tmp_path, *CPU) as daemon:
        victim = tensord.connect(daemon.address)
        kept = [Tensor(floats(6, i)).realize() for i in range(3)]
        victim.synchronize()
        with tensord.connect(daemon.address):
            fill()
            assert spilled(daemon)[0] > 0
            ask(daemon, "sessions", "kill", "session-1")
            assert spilled(daemon) == (0, 0)
            assert len(kept) == 3


def test_what_is_spilled_can_be_published(tmp_path):
    with Daemon(tmp_path, *CPU) as daemon, tensord.connect(daemon.address) as owner:
        weights = Tensor(floats(6, 1)).realize()
        owner.synchronize()
        with tensord.connect(daemon.address):
            fill()
        assert "spilled" in state(daemon)
        tensord.publish("weights", weights)
        with tensord.connect(daemon.address):
            attached = tensord.attach("weights")
            fill(24)
            assert (attached.numpy() == floats(6, 1)).all()
            # What is published stays, so that much can't be had.
            with pytest.raises(ResourceExhaustedError, match="what is published"):
                Tensor(floats(28, 2)).numpy()
        assert (weights.numpy() == floats(6, 1)).all()


def train(seed):
    x, y = Tensor(floats(4, seed)).realize(), Tensor(floats(4, seed + 1)).realize()
    w = Tensor(np.zeros((4, MIB // 4), np.float32)).realize()

    @tensord.jit
    def step():
        w.assign(w - 0.25 * (w * x - y) * x)
        return (w * x - y).square().mean()

    print([step().item() for _ in range(12)])


def test_captured_loops_of_two_clients_that_do_not_fit_together(tmp_path):
    losses = []
    for memory in "24MiB", "1GiB":
        folder = tmp_path / memory
        folder.mkdir()
        with Daemon(folder, "--devices=cpu", f"--memory-bytes={memory}") as daemon:
            losses.append(together(daemon, train, 1, 11))
    assert losses[0] == losses[1]


def test_a_client_that_stands_still_finds_its_tensors(tmp_path):
    with Daemon(tmp_path, *CPU) as daemon:
        child = subprocess.Popen([sys.executable, "-c", PARKED], text=True, stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, env={**os.environ, "TENSORD_ADDRESS": daemon.address})
        assert child.stdout.readline() == "holds\n"
        child.send_signal(signal.SIGSTOP)
        with tensord.connect(daemon.address):
            fill()
        assert "spilled" in state(daemon)
        child.send_signal(signal.SIGCONT)
        assert child.communicate("\n", timeout=60)[0] == "as it was\n"


def test_a_drain_finishes_what_waits_for_memory(tmp_path):
    with Daemon(tmp_path, *CPU) as daemon:
        client = tensord.connect(daemon.address)
        data = [floats(6, i) for i in range(10)]
        kept = [Tensor(each).realize() for each in data]
        doubled = [(each * 2).realize() for each in kept]
        client.synchronize()
        assert len(doubled) == 10
        assert daemon.terminate() == 0


def test_a_download_waits_for_what_is_being_read(tmp_path):
    with Daemon(tmp_path, *CPU) as daemon, tensord.connect(daemon.address):
        data = [floats(7, i) for i in range(8)]
        kept = [Tensor(each).realize() for each in data]
        read = [None] * len(kept)

        def download(i):
            read[i] = kept[i].numpy()

        threads = [threading.Thread(target=download, args=(i,)) for i in range(len(kept))]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert all((got == want).all() for got, want in zip(read, data))


def anything(seed):
    """Random tensors and operations, and what NumPy makes of them."""
    rng = np.random.default_rng(seed)
    data, tensors = [], []
    for _ in range(60):
        kind = rng.integers(0, 7)
        i, j = (int(rng.integers(0, len(data))) if data else 0 for _ in range(2))
        if kind <= 1 or len(data) < 2:
            data.append(rng.integers(-100, 100, (int(rng.integers(1, 4)), MIB // 8)).astype(np.float32))
            tensors.append(Tensor(data[-1]).realize())
        elif kind == 2:
            data.append(data[i] + 1)
            tensors.append((tensors[i] + 1).realize())
        elif kind == 3:
            data[i] = data[i] - 3
            tensors[i].assign(tensors[i] - 3).realize()
        elif kind == 4:
            want = data[i].sum(0) + data[j].sum(0)
            np.testing.assert_array_equal((tensors[i].sum(0) + tensors[j].sum(0)).numpy(), want)
        elif kind == 5:
            np.testing.assert_array_equal(tensors[i].numpy(), data[i])
        if kind == 6 or len(data) > 10:
            del data[i], tensors[i]
    for want, tensor in zip(data, tensors):
        np.testing.assert_array_equal(tensor.numpy(), want)


@pytest.mark.parametrize("flags", [[], ["--spill-host-bytes=1MiB", "--spill-dir=DIR"]], ids=["host", "disk"])
def test_any_work_of_many_sessions_gives_what_numpy_gives(tmp_path, flags):
    flags = [each.replace("DIR", str(tmp_path / "spilled")) for each in flags]
    with Daemon(tmp_path, "--devices=cpu", "--memory-bytes=8MiB", *flags) as daemon:
        together(daemon, anything, 0, 1, 2, 3)
        assert spilled(daemon) == (0, 0)


def simulate(_):
    kept = [Tensor(np.zeros(16 * MIB, np.uint8)).realize() for _ in range(8)]
    for _ in range(2):
        for each in kept:
            (each + 1).realize()
    tensord.synchronize()


def test_a_device_that_computes_nothing_spills_as_well(tmp_path):
    with Daemon(tmp_path, "--devices=paced(launch_us=100)", "--memory-bytes=256MiB") as daemon:
        together(daemon, simulate, 0, 1, 2, 3)
        assert spilled(daemon) == (0, 0)


if __name__ == "__main__":
    globals()[sys.argv[1]](int(sys.argv[2]))
