"""Tensors that processes share: docs/sharing.md."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
import tensord
from daemon_fixtures import daemon_with_tokens
from tensord import Tensor, nn
from tensord.connection import _binary
from tensord.testing import Daemon

CONTROL = Path(_binary()).parents[1] / "tools" / "tensorctl" / "tensorctl"
NOBODY = 65534
MIB = 1 << 20


def control(address, *arguments):
    done = subprocess.run([CONTROL, "--address", address, *arguments], text=True, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def in_use(address):
    return sum(int(device["in_use_bytes"]) for device in json.loads(control(address, "devices", "--json"))["devices"])


def eventually(condition):
    """Looks until it is so; a test that never sees it runs into its own time limit."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


class Child:
    """A Python process that runs a script with `tensord` imported, up to each say() and on at each go()."""

    def __init__(self, address, script, *, user=None):
        prelude = "import os, sys, tensord\ndef say(x): print(x, flush=True); sys.stdin.readline()\n"
        if user is not None:
            prelude += f"os.setgroups([]); os.setgid({user}); os.setuid({user})\n"
        self.process = subprocess.Popen([sys.executable, "-c", prelude + script], text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, env={**os.environ, "TENSORD_ADDRESS": address})  # fmt: skip

    def line(self):
        return self.process.stdout.readline().rstrip("\n")

    def go(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self):
        self.process.communicate(timeout=60)
        assert self.process.returncode == 0


def test_processes_read_one_copy_and_write_their_own(tmp_path):
    with Daemon(tmp_path) as daemon, tensord.connect(daemon.address) as client:
        weights = Tensor(np.arange(MIB, dtype=np.float32)).realize()
        weights.publish("weights")
        client.synchronize()
        before = in_use(daemon.address)
        script = """
w = tensord.attach("weights")
say(w.sum().item())
say(tensord.counters()["live_bytes"] < 1 << 20)
w.assign(w * 2)
say(w.sum().item())
"""
        children = [Child(daemon.address, script) for _ in range(3)]
        total = float(np.arange(MIB, dtype=np.float32).sum(dtype=np.float64))
        assert [float(child.line()) == pytest.approx(total, rel=1e-4) for child in children] == [True] * 3
        [publication] = tensord.published()
        assert publication[:2] == (publication.owner, "weights") and publication.tensors == 1
        assert publication.bytes == 4 * MIB and publication.holders == 4 and not publication.saved
        assert in_use(daemon.address) - before < 4 * MIB  # of three clients; each copy would be 4 MiB
        for child in children:
            child.go()
        assert [child.line() for child in children] == ["True"] * 3  # they are charged nothing
        for child in children:
            child.go()
        assert [float(child.line()) == pytest.approx(2 * total, rel=1e-4) for child in children] == [True] * 3
        assert weights.numpy()[:3].tolist() == [0, 1, 2] and tensord.attach("weights").numpy()[-1] == MIB - 1
        for child in children:
            child.go()
            child.end()


def test_it_outlives_its_owner_until_nobody_has_it(tmp_path):
    with Daemon(tmp_path, "--session-lease=0s") as daemon, tensord.connect(daemon.address) as client:
        Tensor([0.0]).numpy()
        before = in_use(daemon.address)
        owner = Child(daemon.address, "tensord.ones(1 << 20).publish('orphan'); say('published')")
        assert owner.line() == "published"
        owner.process.send_signal(signal.SIGKILL)
        owner.process.communicate()
        eventually(lambda: "ended id=session-2" in daemon.log.read_text())
        held = tensord.attach("orphan")
        assert held.sum().item() == MIB
        tensord.unpublish("orphan")
        assert tensord.published() == [] and held.sum().item() == MIB
        with pytest.raises(tensord.errors.NotFoundError, match="has published nothing as 'orphan'"):
            tensord.attach("orphan")
        with pytest.raises(tensord.errors.NotFoundError, match="has published nothing as 'orphan'"):
            tensord.unpublish("orphan")
        assert in_use(daemon.address) - before >= 4 * MIB
        del held
        client.synchronize()
        eventually(lambda: in_use(daemon.address) - before < 4 * MIB)


def test_writes_in_place_go_to_a_copy(tmp_path):
    with Daemon(tmp_path) as daemon, tensord.connect(daemon.address):
        own = Tensor([1.0, 2.0, 3.0, 4.0])
        own.publish("x")
        seen = tensord.attach("x")

        @tensord.jit
        def step(x):
            x.assign(x + 1)
            return x.sum()

        cases = {
            "assign": lambda x: x.assign(x * 10),
            "add_": lambda x: x.add_(1),
            "setitem": lambda x: x.__setitem__(slice(0, 2), 0),
            "a view": lambda x: x[1:].assign(x[1:] + 5),
            "a captured function": step,
        }
        for name, write in cases.items():
            for tensor in own, seen:  # the publisher's, and another one's
                expected = [1.0, 2.0, 3.0, 4.0]
                tensor.publish("x")
                kept = tensord.attach("x")
                before = tensor.tolist()
                write(tensor)
                write(tensor)  # the second time it has its own memory
                assert tensor.tolist() != before, name
                assert kept.tolist() == before, name
                tensor.assign(Tensor(expected))
                assert tensord.attach("x").tolist() == before, name
        assert own.tolist() == seen.tolist() == [1, 2, 3, 4]


def test_a_new_version_takes_the_name_at_once(tmp_path):
    with Daemon(tmp_path) as daemon, tensord.connect(daemon.address):
        first = tensord.publish("model", {"w": tensord.ones(3), "b": tensord.zeros(2)})
        old = tensord.attach("model")
        assert list(old) == ["w", "b"]
        second = tensord.publish("model", {"w": tensord.full((2, 2), 7.0), "scale": Tensor(3)}, readers=["*"])
        assert second > first
        new = tensord.attach("model")
        assert new["w"].tolist() == [[7, 7], [7, 7]] and new["scale"].item() == 3 and list(new) == ["w", "scale"]
        assert old["w"].tolist() == [1, 1, 1] and old["b"].tolist() == [0, 0]
        [publication] = tensord.published()
        assert publication.version == second and publication.readers == ("*",) and publication.tensors == 2


def test_tied_tensors_and_dtypes_come_back_as_they_were(tmp_path):
    with Daemon(tmp_path, f"--state-dir={tmp_path / 'state'}") as daemon:
        with tensord.connect(daemon.address):
            shared = tensord.ones(1000)
            tensors = {"tied": shared, "again": shared, "bytes": Tensor(np.arange(5, dtype=np.uint8)),
                       "half": tensord.ones(3, dtype=tensord.bfloat16), "none": tensord.zeros(0, 4), "scalar": Tensor([2.5]).sum(),
                       "flags": Tensor([True, False])}  # fmt: skip
            tensord.publish("all", tensors)
            assert tensord.published()[0].bytes == 4000 + 5 + 6 + 0 + 4 + 2
        daemon.kill()
        daemon.start()
        with tensord.connect(daemon.address):
            back = tensord.attach("all")
            assert {key: (t.dtype, tuple(t.shape)) for key, t in back.items()} == {
                key: (t.dtype, tuple(t.shape)) for key, t in tensors.items()}  # fmt: skip
            assert back["tied"].sum().item() == 1000 and back["bytes"].tolist() == [0, 1, 2, 3, 4]
            assert back["flags"].tolist() == [True, False] and back["scalar"].item() == 2.5
            assert tensord.published()[0].bytes == 4017


@pytest.fixture
def people(tmp_path):
    """A daemon with alice, bob and carol by tokens; connect(name) is a session of theirs."""
    with daemon_with_tokens(tmp_path, ("alice", "bob", "carol"), "--max-published-bytes=1MiB") as found:
        yield found


def test_who_may_attach(people):
    daemon, connect = people
    readers = {"own": [], "for bob": ["bob"], "for all": ["*"]}
    with connect("alice"):
        for name, who in readers.items():
            Tensor([1.0]).publish(name, readers=who)
        assert [p.name for p in tensord.published()] == ["for all", "for bob", "own"]
        assert [p.readers for p in tensord.published()] == [("*",), ("bob",), ()]
    for user, may in (("alice", list(readers)), ("bob", ["for bob", "for all"]), ("carol", ["for all"])):
        with connect(user):
            assert sorted(may) == [p.name for p in tensord.published()]
            if user != "alice":
                assert {p.readers for p in tensord.published()} == {()}
            refused = {}
            for name in [*readers, "never published"]:
                if name in may:
                    assert tensord.attach(name, owner="alice").tolist() == [1]
                    continue
                with pytest.raises(tensord.errors.NotFoundError) as raised:
                    tensord.attach(name, owner="alice")
                refused[name] = str(raised.value).replace(f"'{name}'", "...")
            # What one may not see looks as what is not there.
            assert len(set(refused.values())) == 1
            if user != "alice":
                with pytest.raises(tensord.errors.NotFoundError):
                    tensord.unpublish("for all")
                Tensor([2.0]).publish("for all")  # names are each user's own
                assert tensord.attach("for all").tolist() == [2]
                assert tensord.attach("for all", owner="alice").tolist() == [1]
    # Root sees and ends all.
    assert re.search(r"for bob +alice +1 +4 B", control(daemon.address, "published"))
    control(daemon.address, "published", "remove", "for bob", "alice")
    assert "for bob" not in control(daemon.address, "published")


def test_what_a_user_publishes_is_limited(people):
    _, connect = people
    with connect("alice") as client:
        half = tensord.ones(MIB // 8).realize()  # 512 KiB
        half.publish("a")
        half.publish("a copy by name")  # the same memory counts once
        with pytest.raises(tensord.errors.ResourceExhaustedError, match="'alice' has published 524288 of the limit of 1048576"):
            tensord.ones(MIB // 8 + 1).publish("b")
        tensord.ones(MIB // 8).publish("b")
        held = tensord.attach("b")
        tensord.unpublish("b")
        with pytest.raises(tensord.errors.ResourceExhaustedError, match="which counts what others still hold"):
            tensord.ones(2).publish("c")
        del held
        client.synchronize()
        tensord.ones(2).publish("c")
    with connect("bob"):
        tensord.ones(MIB // 4).publish("b")  # each user has a limit of their own


def test_nobody_in_particular_shares_nothing(tmp_path):
    with Daemon(tmp_path, "--listen=localhost:0") as daemon:
        port = re.search(r"address=localhost:(\d+)", daemon.log.read_text()).group(1)
        with tensord.connect(daemon.address):
            Tensor([1.0]).publish("x", readers=["*"])
        with tensord.connect(f"localhost:{port}"):
            for call in (lambda: Tensor([1.0]).publish("y"), lambda: tensord.attach("x"),
                         lambda: tensord.attach("x", owner="root")):  # fmt: skip
                with pytest.raises(tensord.errors.PermissionDeniedError, match="does not know who you are"):
                    call()
            assert tensord.published() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_another_user_of_the_machine():
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        with Daemon(Path(folder), "--socket-mode=0666") as daemon, tensord.connect(daemon.address):
            Tensor([1.0]).publish("mine")
            Tensor([2.0]).publish("ours", readers=["nobody"])
            script = """
for name in "mine", "ours":
    try:
        say(tensord.attach(name, owner="root").tolist())
    except tensord.errors.NotFoundError as error:
        say(error)
"""
            other = Child(daemon.address, script, user=NOBODY)
            assert "'root' has published nothing as 'mine' that you may attach" in other.line()
            other.go()
            assert other.line() == "[2.0]"
            other.go()
            other.end()


def test_a_restart_finds_what_was_saved(tmp_path):
    state = tmp_path / "state"
    with Daemon(tmp_path, f"--state-dir={state}") as daemon:
        with tensord.connect(daemon.address):
            for name in "kept", "corrupt", "cut", "taken back":
                Tensor(np.full(1000, len(name), np.float32)).publish(name, readers=["*"])
            Tensor([5.0]).publish("kept")  # a second version, in place of the first
            tensord.unpublish("taken back")
            files = {}
            for name in "corrupt", "cut":
                [path] = [path for path in state.iterdir() if name.encode() in path.read_bytes()]
                files[name] = path
            assert len(list(state.iterdir())) == 3
        daemon.kill()
        data = bytearray(files["corrupt"].read_bytes())
        data[len(data) // 2] ^= 1
        files["corrupt"].write_bytes(data)
        files["cut"].write_bytes(files["cut"].read_bytes()[:-1])
        (state / "rest.published.unfinished").write_bytes(b"half")
        daemon.start()
        with tensord.connect(daemon.address):
            [publication] = tensord.published()
            assert publication.name == "kept" and publication.saved and publication.readers == ()
            assert tensord.attach("kept").tolist() == [5]
            log = daemon.log.read_text()
            assert log.count("set aside: its checksum is wrong") == 1 and log.count("set aside: its size is not") == 1
            assert sorted(path.suffix for path in state.iterdir()) == [".corrupt", ".corrupt", ".published"]
            # A second daemon would overwrite what is the first one's.
            second = subprocess.run([_binary(), f"--listen=unix:{tmp_path}/2.sock", f"--state-dir={state}", "--cache-dir=none"],
                                    text=True, capture_output=True, timeout=60)  # fmt: skip
            assert second.returncode == 1 and "another daemon uses it" in second.stderr
        # And once more, by way of a drain.
        assert daemon.terminate() == 0
        daemon.start()
        with tensord.connect(daemon.address):
            assert tensord.attach("kept").tolist() == [5]


def test_a_folder_that_others_may_write_is_refused(tmp_path):
    state = tmp_path / "state"
    state.mkdir()
    state.chmod(0o777)
    done = subprocess.run([_binary(), f"--listen=unix:{tmp_path}/t.sock", f"--state-dir={state}", "--cache-dir=none"],
                          text=True, capture_output=True, timeout=60)  # fmt: skip
    assert done.returncode == 1 and "nobody else may write there" in done.stderr


def test_a_model_is_attached_and_trained(tmp_path):
    with Daemon(tmp_path) as daemon, tensord.connect(daemon.address):
        tensord.manual_seed(1)
        model, twin, other = nn.Linear(3, 2), nn.Linear(3, 2), nn.Linear(3, 4)
        x = tensord.rand(5, 3)
        expected = model(x).numpy()
        nn.state.publish(model, "linear")
        assert nn.state.attach(twin, "linear") == list(nn.state.get_state_dict(twin).values())
        np.testing.assert_array_equal(twin(x).numpy(), expected)
        assert twin.weight.requires_grad
        optimizer = nn.optim.SGD(nn.state.get_parameters(twin), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            twin(x).square().mean().backward()
            optimizer.step()
        assert np.abs(twin(x).numpy() - expected).max() > 1e-3
        np.testing.assert_array_equal(model(x).numpy(), expected)
        third = nn.Linear(3, 2)
        nn.state.attach(third, "linear")
        np.testing.assert_array_equal(third(x).numpy(), expected)
        with pytest.raises(tensord.errors.InvalidArgumentError, match=r"'weight' is .*\[2, 3\], the model's .*\[4, 3\]"):
            nn.state.attach(other, "linear")


def test_what_cannot_be_published_is_named(tmp_path):
    with Daemon(tmp_path, "--devices=cpu:2") as daemon, tensord.connect(daemon.address) as client:
        x = tensord.rand(4, 2)
        n = tensord.Variable("n", 1, 4).bind(2)
        cases = [
            (lambda: tensord.publish("x", {}), "there is no tensor"),
            (lambda: tensord.publish("x", x, readers="bob"), "a list of users"),
            (lambda: x.publish(""), "the name '' has 0 bytes: 1 to 200"),
            (lambda: x.publish("x" * 201), "has 201 bytes: 1 to 200"),
            (lambda: tensord.publish("x", {"": x, "y": x}), "key '' has 0 bytes"),
            (lambda: x.publish("x", readers=[""]), "reader '' has 0 bytes"),
            (lambda: x.shard(("CPU:0", "CPU:1"), axis=0).publish("x"), "is divided among CPU:0, CPU:1"),
            (lambda: x[:n].publish("x"), "has sizes that are numbers"),
        ]
        for call, why in cases:
            with pytest.raises(tensord.errors.InvalidArgumentError, match=re.escape(why)):
                call()
        assert tensord.published() == []
        # What lies elsewhere is attached there.
        (x + 0).to("CPU:1").publish("there")
        there = tensord.attach("there")
        assert there.device == "CPU:1" and (there + 1).shape == (4, 2)
        np.testing.assert_array_equal(there.numpy(), x.numpy())
        with tensord.connect(daemon.address), pytest.raises(tensord.errors.InvalidArgumentError, match="a different client"):
            tensord.publish("both", {"mine": tensord.ones(1), "theirs": x})
        assert not client.closed
