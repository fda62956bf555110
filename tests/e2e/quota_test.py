"""Who holds the memory, what it costs, and why a client waits: docs/limits.md, docs/operating.md."""

import json
import subprocess

import numpy as np
import pytest
import tensord
from daemon_fixtures import daemon_with_tokens
from tensord import Tensor
from tensord.connection import _binary
from tensord.errors import ResourceExhaustedError
from tensord.testing import Daemon

MIB = 1 << 20
SEED = 16  # bytes that each session uploads at its beginning, for random numbers


def ask(daemon, *words):
    control = _binary().replace("server/tensord", "tools/tensorctl/tensorctl")
    command = [control, "--address", daemon.address, "--json", *words]
    return json.loads(subprocess.run(command, text=True, capture_output=True, check=True).stdout)


def test_a_refusal_says_what_is_there_and_who_holds_it(tmp_path):
    flags = ["--devices=paced", "--max-session-bytes=8MiB", "--max-user-bytes=12MiB"]
    size = 6 * MIB
    with Daemon(tmp_path, *flags) as daemon, tensord.connect(daemon.address):
        first = Tensor(np.zeros(size, np.uint8))
        with pytest.raises(ResourceExhaustedError, match="--max-session-bytes") as refused:
            (first + 1).realize().numpy()
        error = refused.value
        assert (error.limit, error.use, error.needed) == (8 * MIB, size + SEED, size)
        assert error.subject == "session:session-1" and error.retry_after is None
        with tensord.connect(daemon.address):
            with pytest.raises(ResourceExhaustedError, match="--max-user-bytes") as refused:
                Tensor(np.zeros(size, np.uint8)).numpy()
            error = refused.value
            assert (error.limit, error.use, error.needed) == (12 * MIB, size + 2 * SEED, size)
            assert error.subject.startswith("user:") and error.retry_after == 1.0
            assert error.holders == {"session-1": size + SEED, "session-2": SEED}
            held = tensord.memory()["PACED:0"]
            assert held["holders"] == error.holders and held["tensor_bytes"] == size + 2 * SEED
        assert ask(daemon, "memory")["devices"][0]["holders"][0]["bytes"] == str(size + SEED)


def test_what_is_published_counts_for_its_owner_until_nobody_holds_it(tmp_path):
    size = 6 * MIB
    with Daemon(tmp_path, "--devices=paced", "--max-user-bytes=12MiB") as daemon:
        with tensord.connect(daemon.address):
            tensord.publish("weights", Tensor(np.zeros(size, np.uint8)))
            held = tensord.memory()["PACED:0"]
            assert held["holders"] == {"published": size, "session-1": SEED}
            assert held["tensor_bytes"] == size + SEED
        with tensord.connect(daemon.address):
            attached = tensord.attach("weights")
            assert tensord.memory()["PACED:0"]["holders"] == {"published": size, "session-2": SEED}
            with pytest.raises(ResourceExhaustedError, match="--max-user-bytes") as refused:
                Tensor(np.ones(size, np.uint8)).numpy()
            assert refused.value.holders == {"published": size, "session-2": SEED}
            tensord.unpublish("weights")
            assert tensord.memory()["PACED:0"]["holders"]["published"] == size
            del attached
            Tensor(np.ones(size, np.uint8)).numpy()


def test_bills_add_up(tmp_path):
    """To the nanosecond: what sessions are charged is what their device counts as busy."""
    with Daemon(tmp_path, "--devices=paced(launch_us=200)") as daemon:
        clients, bills = [], []

        def work(runs):
            client = tensord.connect(daemon.address)
            clients.append(client)
            x = Tensor([1.0, 2.0])
            for _ in range(runs):
                x = (x * 2).realize()
            client.synchronize()

        for runs in 3, 5, 8:
            work(runs)
        tensord.synchronize()
        devices = ask(daemon, "devices")["devices"]
        sessions = [session["counters"] for session in ask(daemon, "sessions")["sessions"]]
        busy = sum(int(device["busy_ns"]) for device in devices)
        assert busy == sum(int(counters["device_ns"]) for counters in sessions) >= 16 * 200_000
        for client in clients:
            before = client.counters()
            client.close()
            bills.append(client.counters())  # the last word of the daemon
            assert bills[-1]["device_seconds"] == before["device_seconds"]
            assert bills[-1]["live_bytes"] == 0
        assert round(sum(bill["device_seconds"] for bill in bills) * 1e9) == busy


def test_the_bill_of_memory_is_size_times_time(tmp_path):
    with Daemon(tmp_path, "--devices=paced") as daemon, tensord.connect(daemon.address):
        held = Tensor(np.zeros(64 * MIB, np.uint8)).realize()
        while tensord.bill()["byte_seconds"] < MIB:  # 1/64 s
            pass
        assert held.shape == (64 * MIB,)
        assert tensord.bill()["bytes_uploaded"] == 64 * MIB + SEED


def test_explain_says_what_is_ahead(tmp_path):
    with Daemon(tmp_path, "--devices=paced(launch_us=20000)") as daemon:
        heavy = tensord.connect(daemon.address)
        x = Tensor([1.0])
        (x * 2).realize().numpy()
        results = [(x * 2).realize() for _ in range(300)]
        assert len(results) == 300
        with tensord.connect(daemon.address):
            y = Tensor([1.0, 2.0])
            waiting = [(y + i).realize() for i in range(4)]
            assert len(waiting) == 4
            while (why := tensord.explain())["waits_for"] != "turn":
                assert why["waits_for"] in ("nothing", "program", "tensor")
            (queue,) = why["queues"]
            assert queue["device"] == "PACED:0" and queue["place"] <= queue["waiting"]
            assert queue["own_runs"] + queue["other_runs"] >= 1
            assert queue["starts_in_seconds"] > 0 and "run of program" in why["what"]
        assert heavy.explain()["waits_for"] in ("turn", "runs", "nothing")


def test_explain_says_why_a_program_was_compiled(tmp_path):
    with Daemon(tmp_path) as daemon, tensord.connect(daemon.address):
        for shape in (3, 4), (3, 5):
            (tensord.ones(*shape).realize() * 3 + 1).numpy()
        miss = tensord.explain()["misses"][-1]
        assert miss["differs"] == ["shape"] and miss["compiled"] >= 1
        assert "float32[3, 5] instead of float32[3, 4]" in miss["text"]
        count = len(tensord.explain()["misses"])
        (tensord.ones(3, 5).realize() * 3 + 1).numpy()
        assert len(tensord.explain()["misses"]) == count


def test_bytes_that_the_user_has_on_the_daemon_are_not_sent_again(tmp_path):
    data = np.random.default_rng(0).integers(0, 255, 3 * MIB + 5, np.uint8)
    with daemon_with_tokens(tmp_path, ["alice", "bob"]) as (_, connect), connect("alice"):
        first = Tensor(data).realize()
        assert tensord.bill()["bytes_uploaded"] == len(data) + SEED
        with connect("bob"):
            Tensor(data).realize()
            assert tensord.bill()["bytes_not_sent"] == 0  # what others have is nobody's business
        with connect("alice"):
            second = Tensor(data)
            assert (second.numpy() == data).all()
            bill = tensord.bill()
            assert (bill["bytes_uploaded"], bill["bytes_not_sent"]) == (SEED, len(data))
            other = data.copy()
            other[-1] ^= 1
            assert (Tensor(other).numpy() == other).all()
            assert tensord.bill()["bytes_uploaded"] == len(data) + SEED
            # A tensor that was written to is no longer what was sent; the copy is.
            second.assign(second + 1)
            second.realize()
            third = Tensor(data)
            assert (third.numpy() == data).all() and (second.numpy() == data + 1).all()
            assert tensord.bill()["bytes_not_sent"] == 2 * len(data)
        assert (first.numpy() == data).all()


def test_lengths_that_were_looked_for_in_vain_are_not_hashed_again(tmp_path):
    with daemon_with_tokens(tmp_path, ["alice"]) as (_, connect), connect("alice"):
        held = [Tensor(np.full(2 * MIB, i, np.uint8)).realize() for i in range(4)]
        assert tensord.bill()["bytes_not_sent"] == 0
        # Two misses in a row: now these bytes would be found, and are not looked for.
        held.append(Tensor(np.full(2 * MIB, 3, np.uint8)).realize())
        bill = tensord.bill()
        assert (bill["bytes_uploaded"], bill["bytes_not_sent"]) == (10 * MIB + SEED, 0)
        assert [tensor.numpy()[-1] for tensor in held] == [0, 1, 2, 3, 3]


def test_on_one_machine_bytes_are_sent_rather_than_hashed(tmp_path):
    data = np.zeros(2 * MIB, np.uint8)
    with Daemon(tmp_path) as daemon, tensord.connect(daemon.address):
        held = [Tensor(data).realize() for _ in range(2)]
        assert (tensord.bill()["bytes_uploaded"], tensord.bill()["bytes_not_sent"]) == (2 * len(data) + SEED, 0)
        assert all((tensor.numpy() == data).all() for tensor in held)


def test_explain_knows_a_cache_of_another_build(tmp_path):
    with Daemon(tmp_path) as daemon:
        with tensord.connect(daemon.address):
            (tensord.ones(5).realize() * 3).numpy()
            assert all("compiler" not in miss["differs"] for miss in tensord.explain()["misses"])
        daemon.terminate()
        (daemon.cache / "last_build").write_text("another\n")
        for kernel in daemon.cache.glob("??/*"):  # which would not be found
            kernel.unlink()
        daemon.start()
        with tensord.connect(daemon.address):
            (tensord.ones(5).realize() * 3).numpy()
            miss = tensord.explain()["misses"][-1]
            assert miss["differs"] == ["compiler"] and "another build" in miss["text"]
