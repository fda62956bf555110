"""The web console of a real daemon, by HTTP, as docs/console.md says. console_page_test.py looks at the page."""

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest
import tensord
from security_test import CONTROL, NOBODY, OTHER, TOKEN, control, pki, tokens  # noqa: F401: fixtures
from tensord.testing import Daemon


@contextlib.contextmanager
def serving(folder, *flags):
    """A daemon with a console, and the console's port."""
    with Daemon(folder, "--console-listen=localhost:0", "--devices=cpu:2", *flags) as daemon:
        url = re.findall(r"serving console url=(\S+)", daemon.log.read_text())[-1]  # the log goes on
        yield daemon, int(url.rpartition(":")[2])


def ask(port, path, token=None, body=None):
    """Status and JSON of an answer."""
    connection = http.client.HTTPConnection("localhost", port, timeout=60)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    if body is not None:
        headers["Content-Type"] = "application/json"
    with contextlib.closing(connection):
        connection.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


def get(port, path, token=None, **options):
    status, answer = ask(port, path, token, **options)
    assert status == 200, answer
    return answer


def log_in(daemon, port, **options):
    """A token by a link that tensorctl makes."""
    made = control(daemon.address, "console", **options)
    assert made.returncode == 0, made.stderr
    url, _, code = made.stdout.strip().partition("/#")
    assert url == f"http://localhost:{port}"
    return get(port, "/api/login", body={"code": code})["token"]


def test_shows_where_the_time_of_a_device_goes(tmp_path):
    with serving(tmp_path) as (daemon, port), tensord.connect(daemon.address):
        x = tensord.rand(300, 300).realize()
        for _ in range(3):
            (x @ x).numpy()
        token = log_in(daemon, port)
        state = get(port, "/api/state", token)
        assert state["admin"] and len(state["sessions"]) == 1
        kernels = get(port, "/api/kernels", token)["kernels"]
        matmul = next(kernel for kernel in kernels if kernel["name"].startswith("fold_300_300"))
        assert matmul["launches"] == 3 and matmul["device_ns"] > 0
        # Steps are parts of runs.
        total = sum(kernel["device_ns"] for kernel in kernels)
        assert 0 < total <= sum(int(device["busy_ns"]) for device in state["devices"])
        source = get(port, f"/api/source?kernel={matmul['keys'][0]}", token)["text"]
        assert re.match(rf"# linear {matmul['name']} grid=\d+ params=\d+ ", source) and "Range" in source
        cached = get(port, "/api/cache", token)
        assert {matmul["keys"][0]} <= {kernel["key"] for kernel in cached["kernels"]}
        memory = get(port, "/api/memory", token)
        assert memory["held"]["devices"][0]["holders"][0]["session_id"] == "session-1"
        assert [300, 300] in [[int(size) for size in tensor["shape"]] for tensor in memory["tensors"]["tensors"]]


def test_a_daemon_that_starts_anew_still_has_the_sources(tmp_path):
    for _ in range(2):
        with serving(tmp_path) as (daemon, port), tensord.connect(daemon.address):
            tensord.arange(100).sum().item()
            token = log_in(daemon, port)
            for kernel in get(port, "/api/kernels", token)["kernels"]:
                for key in kernel["keys"]:
                    assert get(port, f"/api/source?kernel={key}", token)["text"].startswith("# linear ")
            stats = get(port, "/api/cache", token)["stats"]
    assert stats["kernel_misses"] == "0" and int(stats["kernel_disk_hits"]) > 0


def test_the_log_goes_on_after_it_was_opened_anew(tmp_path):
    with serving(tmp_path) as (daemon, port):
        token = log_in(daemon, port)
        daemon.process.send_signal(signal.SIGHUP)
        while "configuration read again" not in (lines := json.dumps(get(port, "/api/log", token))):
            daemon.check()
        assert "serving console" in lines and token not in lines
        assert token not in daemon.log.read_text()


def test_a_drain_is_seen_to_its_end(tmp_path):
    with serving(tmp_path, "--devices=paced:1(launch_us=2000000)") as (daemon, port):
        token = log_in(daemon, port)
        client = tensord.connect(daemon.address)
        (tensord.ones(4) + 1).realize()
        control(daemon.address, "drain")
        # Until the run has ended the console says so; then it is gone with the daemon.
        with contextlib.suppress(OSError, http.client.HTTPException):
            while not get(port, "/api/state", token)["status"]["draining"]:
                pass
        assert daemon.process.wait(60) == 0
        with contextlib.suppress(tensord.TensordError):
            client.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_a_link_has_the_rights_of_who_made_it():
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        program = shutil.copy(CONTROL, folder)  # where others find it
        with serving(Path(folder)) as (daemon, port):
            refused = control(daemon.address, "console", user=NOBODY, program=program)
            assert refused.returncode == 1  # the socket is not theirs
        with serving(Path(folder), "--socket-mode=0666") as (daemon, port), tensord.connect(daemon.address):
            tensord.ones(10).sum().item()
            ours = log_in(daemon, port)
            theirs = log_in(daemon, port, user=NOBODY, program=program)
            state = get(port, "/api/state", theirs)
            assert state["user"] == "nobody" and not state["admin"]
            assert [session["client_name"] for session in state["sessions"]] == [""]
            assert get(port, "/api/kernels", theirs)["kernels"] == []
            assert get(port, "/api/memory", theirs)["tensors"]["tensors"] == []
            key = get(port, "/api/kernels", ours)["kernels"][0]["keys"][0]
            assert ask(port, f"/api/source?kernel={key}", theirs)[0] == 404
            assert ask(port, "/api/log", theirs)[0] == 403
            assert ask(port, "/api/kill", theirs, body={"session_id": "session-1"})[0] == 403
            assert get(port, "/api/kill", ours, body={"session_id": "session-1"})["bytes_freed"] != "0"


def test_tokens_log_in(tmp_path, pki, tokens):  # noqa: F811
    flags = [f"--tls-cert={pki / 'server.pem'}", f"--tls-key={pki / 'server.key'}", f"--auth-tokens={tokens}",
             "--admin-users=alice"]  # fmt: skip
    with serving(tmp_path, *flags) as (daemon, port):
        assert ask(port, "/api/state")[0] == 401
        assert ask(port, "/api/state", "0" * 64)[0] == 401
        alice = get(port, "/api/state", TOKEN)
        assert alice["user"] == "alice" and alice["admin"]
        bob = get(port, "/api/state", OTHER)
        assert bob["user"] == "bob" and not bob["admin"]
        lines = tokens.read_text().splitlines()
        tokens.write_text(lines[1] + "\n")
        daemon.process.send_signal(signal.SIGHUP)
        while "configuration read again" not in daemon.log.read_text():
            daemon.check()
        assert ask(port, "/api/state", TOKEN)[0] == 401
        assert get(port, "/api/state", OTHER)["user"] == "bob"
        log = daemon.log.read_text()
        assert re.search(r"\[auth\] \[warning\] refused peer=127.0.0.1:\d+ ", log)
        assert TOKEN not in log and OTHER not in log


def test_without_tls_it_is_for_this_machine(tmp_path):
    refused = subprocess.run([CONTROL.parents[2] / "server" / "tensord", "--config=none", "--check-config",
                              "--console-listen=0.0.0.0:7080"], text=True, capture_output=True)  # fmt: skip
    assert refused.returncode == 1 and "other machines could connect, and what the console shows" in refused.stderr
    with Daemon(tmp_path) as daemon:
        none = control(daemon.address, "console")
        assert none.returncode == 1 and "serves no console: start it with --console-listen" in none.stderr
