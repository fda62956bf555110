"""Traces of sessions: docs/tracing.md."""

import collections
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest
import tensord
from tensord import Tensor
from tensord.connection import _binary
from tensord.testing import Daemon

CONTROL = Path(_binary()).parents[1] / "tools" / "tensorctl" / "tensorctl"
NOBODY = 65534
MS = 1_000_000  # ns
PACED = "--devices=paced(launch_us=3000)"  # each kernel takes exactly 3 ms of the device's time


def control(address, *arguments, code=0, program=CONTROL, user=None):
    done = subprocess.run([program, "--address", address, *arguments], text=True, capture_output=True, timeout=60, user=user)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


class File:
    """A trace, checked: its format, and that the slices of a track lie in or behind one another."""

    def __init__(self, text):
        document = json.loads(text)
        self.about = document["otherData"]
        self.slices = collections.defaultdict(list)  # by group and track: (name, begin, end, args), times in ns
        self.arrows = collections.defaultdict(dict)  # by id and kind of end: (name, track, time)
        groups, tracks = {}, {}
        for event in document.get("traceEvents", []):
            assert event["ph"] in ("X", "M", "s", "f") and isinstance(event["pid"], int) and isinstance(event["tid"], int)
            assert isinstance(event["name"], str) and event["name"]
            if event["name"] == "process_name":
                groups[event["pid"]] = event["args"]["name"]
            elif event["name"] == "thread_name":
                tracks[event["pid"], event["tid"]] = event["args"]["name"]
        for event in document.get("traceEvents", []):
            if event["ph"] == "M":
                continue
            track = groups[event["pid"]], tracks[event["pid"], event["tid"]]
            begin = round(event["ts"] * 1000)
            if event["ph"] == "X":
                assert event["dur"] >= 0 and event["cat"]
                self.slices[track].append((event["name"], begin, begin + round(event["dur"] * 1000), event.get("args", {})))
            else:
                assert event["ph"] == "s" or event["bp"] == "e"
                assert event["ph"] not in self.arrows[event["id"]]
                self.arrows[event["id"]][event["ph"]] = event["name"], track, begin
        for slices in self.slices.values():
            slices.sort(key=lambda slice: (slice[1], -slice[2]))
            around = []
            for _, begin, end, _ in slices:
                while around and around[-1] <= begin and around[-1] < end:
                    around.pop()
                assert not around or end <= around[-1]
                around.append(end)
        for ends in self.arrows.values():
            assert sorted(ends) == ["f", "s"]
            for _, track, time in ends.values():
                assert any(begin <= time <= end for _, begin, end, _ in self.slices[track])

    def named(self, *names, group=""):
        """Slices of these names in groups whose names begin so, by time."""
        found = [slice for (of, _), slices in self.slices.items() if of.startswith(group) for slice in slices]
        return sorted((slice for slice in found if slice[0] in names), key=lambda slice: slice[1])

    def runs(self):
        """Of the daemon: (command, begin, end of the run, its parts by name, its slices on devices, its kernels)."""
        on_device = collections.defaultdict(list)
        for (group, _), slices in self.slices.items():
            for slice in slices if group == "devices" else ():
                if "command" in slice[3]:
                    on_device[slice[3]["session"], slice[3]["command"]].append(slice)
        kernels = [slice for (group, _), slices in self.slices.items() if group == "devices"
                   for slice in slices if "command" not in slice[3]]  # fmt: skip
        found = []
        for (group, track), slices in self.slices.items():
            if not group.startswith("daemon, ") or not track.startswith("runs"):
                continue
            for _, begin, end, args in slices:
                if "command" not in args:
                    continue
                parts = {name: (b, e) for name, b, e, a in slices if begin <= b and e <= end and "command" not in a}
                devices = on_device[group.split()[1], args["command"]]
                inside = [k for k in kernels if any(d[1] <= k[1] and k[2] <= d[2] for d in devices)]
                found.append((args["command"], begin, end, parts, devices, inside))
        return sorted(found)


@contextlib.contextmanager
def traced(folder):
    path = folder / "trace.json"
    files = []
    with tensord.trace(path):
        yield files
    files.append(File(path.read_text()))


def test_a_run_is_seen_from_the_call_to_the_kernel(tmp_path):
    """By a device whose clock moves by the service times alone, so that they are known to the nanosecond."""
    with Daemon(tmp_path, PACED) as daemon, tensord.connect(daemon.address) as client:
        x = Tensor(np.ones(4, np.float32)).realize()
        (x * 2).realize()
        client.synchronize()
        with traced(tmp_path) as files:
            for _ in range(3):  # of one kernel
                (x * 2).realize()
                client.synchronize()
            (x.exp() + 1).realize()  # its program is new
            client.synchronize()
    file = files[0]
    runs = file.runs()
    assert len(runs) == 4
    calls = file.named("run", group="client")
    assert [call[3]["command"] for call in calls] == [run[0] for run in runs]
    for (_, begin, end, parts, devices, kernels), call in zip(runs, calls):
        assert list(parts)[:2] == ["rpc", "queue"] and {"turn", "device", "reply"} <= set(parts)
        order = [parts[name] for name in ("rpc", "queue", "turn", "device", "reply")]
        assert order[0][0] == begin and order[-1][1] == end
        assert all(before[1] == after[0] for before, after in zip(order, order[1:]))
        assert call[1] <= order[0][0]  # it was sent after the call had begun
        [on] = devices
        assert on[2] <= parts["device"][1]  # its clock may be behind, so its begin may look earlier
        assert on[2] - on[1] == len(kernels) * 3 * MS and kernels
        assert all(kernel[2] - kernel[1] == 3 * MS for kernel in kernels)
    assert [len(run[5]) for run in runs[:3]] == [1, 1, 1]
    # The last one waited for its program.
    assert "compile" in runs[3][3] and not any("compile" in run[3] for run in runs[:3])
    [compiled] = [slice for slice in file.named("compile", group="daemon") if slice[3] == {}]
    assert runs[3][3]["queue"][1] >= compiled[2]
    assert "of the machine that client and daemon are on" in file.about["clock"]
    # Each run has an arrow from its call, and one to its kernel.
    names = collections.Counter(ends["s"][0] for ends in file.arrows.values())
    assert names == {"call": 4, "run": 4}
    starts = {ends["f"][2]: ends["s"][2] for ends in file.arrows.values() if ends["s"][0] == "call"}
    assert starts == {run[1]: call[1] for run, call in zip(runs, calls)}
    first = {ends["f"][2] for ends in file.arrows.values() if ends["s"][0] == "run"}
    assert first == {run[5][0][1] for run in runs}


def test_runs_that_overlap_and_transfers(daemon, client, tmp_path):
    x = tensord.rand(64, 64).realize()
    client.synchronize()
    with traced(tmp_path) as files:
        big = Tensor(np.zeros(1 << 20, np.float32)).realize()
        outs = [(x @ x + i).realize() for i in range(40)]
        assert big.numpy().nbytes == 4 << 20
        Tensor([1.0]).realize()
        threads = [threading.Thread(target=lambda i=i: (x - i).numpy()) for i in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(outs) == 40
    file = files[0]
    runs = file.runs()
    assert len(runs) >= 43 and all(len(run[4]) == 1 and run[5] for run in runs)
    for _, _, _, parts, [on], _ in runs:  # the device's clock is the machine's
        assert parts["device"][0] <= on[1] and on[2] <= parts["device"][1]
    sizes = [slice[3].get("bytes") for slice in file.named("upload", group="daemon")]
    assert 4 << 20 in sizes and 4 in sizes
    assert 4 << 20 in [slice[3].get("bytes") for slice in file.named("download", group="daemon")]
    assert 4 << 20 in [slice[3].get("bytes") for slice in file.named("download", group="client")]
    assert len({track for group, track in file.slices if group.startswith("client ")}) == 4
    assert {"realize", "run", "upload", "download", "await run"} <= {s[0] for s in file.named(*ALL_CALLS, group="client ")}
    # Devices do one thing after the other, and arrows know which run is whose.
    assert len({ends["s"][2] for ends in file.arrows.values() if ends["s"][0] == "call"}) == len(runs)


ALL_CALLS = ["call", "capture", "realize", "run", "send program", "upload", "download", "wait", "await run"]


def test_captured_functions_are_calls(client, tmp_path):
    step = tensord.jit(lambda x: x * 3 + 1)
    x = Tensor([1.0, 2.0])
    with traced(tmp_path) as files:
        for _ in range(3):
            assert step(x).tolist() == [4.0, 7.0]
    names = [slice[0] for slice in files[0].named(*ALL_CALLS, group="client ")]
    assert names.count("capture") == 1 and names.count("call") >= 3


def test_a_run_that_fails_says_so(tmp_path):
    with Daemon(tmp_path, "--devices=paced(fault_launch=2)") as daemon, tensord.connect(daemon.address) as client:
        x = Tensor(np.ones(4, np.float32)).realize()
        with traced(tmp_path) as files:
            (x * 2).realize()
            bad = (x * 3).realize()
            with pytest.raises(tensord.TensordError, match="failed as the settings ask"):
                client.synchronize()
                bad.numpy()
    errors = [slice[3].get("error") for (group, track), slices in files[0].slices.items()
              if group.startswith("daemon") and track.startswith("runs") for slice in slices if "command" in slice[3]]  # fmt: skip
    assert sorted(errors, key=str) == sorted([None, "INTERNAL"], key=str)


def test_the_file_is_written_whatever_happens(client, tmp_path):
    x = Tensor([1.0]).realize()
    path = tmp_path / "trace.json"
    with pytest.raises(ZeroDivisionError), tensord.trace(path):
        (x + 1).numpy()
        1 / 0
    assert len(File(path.read_text()).runs()) == 1
    for wrong, error, says in [
        (tmp_path / "nowhere" / "t.json", tensord.errors.InvalidArgumentError, "can't be written"),
        (path, tensord.errors.FailedPreconditionError, "traced already"),
    ]:
        with tensord.trace(tmp_path / "other.json"), pytest.raises(error, match=says):
            with tensord.trace(wrong):
                raise AssertionError("there is no such trace")
    with tensord.trace(path):  # and once more
        (x + 1).numpy()
    assert len(File(path.read_text()).runs()) == 1


def test_a_session_that_is_lost_leaves_what_its_client_knows(tmp_path):
    path = tmp_path / "trace.json"
    with Daemon(tmp_path) as daemon, tensord.connect(daemon.address, lease=0):
        x = Tensor([1.0]).realize()
        with pytest.raises(tensord.TensordError, match="has what the client knows"), tensord.trace(path):
            (x + 1).numpy()
            daemon.kill()
    file = File(path.read_text())
    assert "missing" in file.about and not file.runs() and file.named("download", group="client")


def test_of_a_tensor_it_is_the_sum_of_the_diagonal(client):
    assert tensord.trace(Tensor([[1.0, 2.0], [3.0, 4.0]])).item() == 5.0


def test_tensorctl_shows_what_the_daemon_has_kept(tmp_path):
    with Daemon(tmp_path, PACED, "--trace-runs=8") as daemon, tensord.connect(daemon.address) as client:
        x = Tensor(np.ones(4, np.float32)).realize()
        results = [(x * 2).realize() for _ in range(20)]
        results[-1].numpy()  # which waits for what the daemon says of the run, and then it is noted
        tensord.connect(daemon.address)
        Tensor([5.0]).realize()
        tensord.synchronize()
        file = File(control(daemon.address, "trace"))
        transfers = file.named("upload", "download", group="daemon")
        assert len(file.runs()) + len(transfers) == 8 and len(file.runs()) > 1
        assert [slice[3]["bytes"] for slice in transfers][-1] == 4  # the latest
        assert all(run[4][0][2] - run[4][0][1] == 3 * MS and run[3]["rpc"] for run in file.runs())
        assert not any(run[5] for run in file.runs())  # nobody asked for kernels
        assert {group.split()[1] for group, _ in file.slices if group.startswith("daemon")} == {"session-1", "session-2"}
        path = tmp_path / "t.json"
        said = control(daemon.address, "trace", "--session", "session-1", "-o", str(path))
        assert f"{path}: {len(file.runs())} runs, 1 transfers and 0 compilations of 1 sessions" in said
        assert File(path.read_text()).runs() == file.runs()
        for arguments, code, says in [
            (["--session=session-9"], 1, "there is no session 'session-9'"),
            (["--seconds=0"], 2, "--seconds 0: takes a number above 0"),
            (["--output=/nowhere/t.json"], 1, "'/nowhere/t.json' can't be written"),
        ]:
            assert says in control(daemon.address, "trace", *arguments, code=code)


def test_tensorctl_records_from_now_on_with_kernels(tmp_path):
    with Daemon(tmp_path, PACED) as daemon, tensord.connect(daemon.address) as client:
        x = Tensor(np.ones(4, np.float32)).realize()
        (x * 2).realize()
        client.synchronize()
        stop = threading.Event()

        def run():
            while not stop.is_set():
                (x * 2).realize()
                client.synchronize()

        thread = threading.Thread(target=run)
        thread.start()
        file = File(control(daemon.address, "trace", "--seconds=0.5"))
        stop.set()
        thread.join()
        assert file.runs() and any(run[5] for run in file.runs())
        assert {kernel[2] - kernel[1] for run in file.runs() for kernel in run[5]} == {3 * MS}


def test_nothing_is_noted_when_it_is_off(tmp_path):
    with Daemon(tmp_path, "--trace-runs=0") as daemon, tensord.connect(daemon.address):
        x = Tensor([1.0]).realize()
        (x + 1).numpy()
        assert "start it with --trace-runs above 0" in control(daemon.address, "trace", code=1)
        with traced(tmp_path) as files:  # but a session that asks for its own has it
            (x + 2).numpy()
        assert len(files[0].runs()) == 1
        assert files[0].runs()[0][5]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_users_see_their_own():
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        program = shutil.copy(CONTROL, folder)  # where others find it
        with Daemon(Path(folder), "--socket-mode=0666") as daemon, tensord.connect(daemon.address):
            (Tensor([1.0]).realize() + 1).numpy()
            assert len(File(control(daemon.address, "trace")).runs()) == 1
            theirs = control(daemon.address, "trace", program=program, user=NOBODY)
            assert not File(theirs).slices and "session-1" not in theirs
            refused = control(daemon.address, "trace", "--session=session-1", code=1, program=program, user=NOBODY)
            assert "session-1 is another user's: its trace is for administrators" in refused
            tensord.current().close()
            gone = control(daemon.address, "trace", "--session=session-1", code=1, program=program, user=NOBODY)
            assert "there is no session 'session-1', and no record of it" in gone
