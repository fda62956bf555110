"""Clients that are killed, send what is none, read slowly, or are a thousand: nobody else notices."""

import os
import re
import resource
import socket
import threading
from pathlib import Path

import numpy as np
import pytest
import tensord
from tensord import Tensor

METRICS = "--metrics-listen=localhost:0"


def computes(daemon):
    with tensord.connect(daemon.address, lease=0):
        assert (Tensor(np.arange(8, dtype=np.float32)) * 2).sum().item() == 56


# What a client is doing when it is killed; the daemon has begun with it once so many bytes are held.
DOING = {
    "an upload": "Tensor(np.ones(1 << 25, np.float32))",
    "a download": "x = tensord.ones(1 << 25).contiguous().realize()\nwhile True: x.numpy()",
    "runs": "x = tensord.ones(1 << 22).contiguous().realize()\nwhile True: x = (x * 1.5).realize()",
    "a compilation": "x = tensord.ones(1 << 22).contiguous().realize()\n"
                     "for i in range(1000): (x * i).sin().sum().realize()",
}


@pytest.mark.parametrize("lease", [0, None], ids=["without lease", "with lease"])
@pytest.mark.parametrize("doing", DOING)
def test_a_client_that_is_killed(start, child, figures, until, doing, lease):
    daemon = start(METRICS, "--session-lease=200ms")
    computes(daemon)
    until(lambda: figures(daemon)["sessions"] == 0)
    before = figures(daemon)
    client = child(f"tensord.connect(lease={lease})\n{DOING[doing]}", daemon)
    until(lambda: figures(daemon)["device_memory_used_bytes"] > 1 << 20)
    client.process.kill()
    computes(daemon)
    until(lambda: figures(daemon)["sessions"] == 0)
    # The run that was under way ends first.
    until(lambda: figures(daemon)["device_memory_used_bytes"] == before["device_memory_used_bytes"])
    assert re.search(r"ended id=session-2", daemon.log.read_text())
    assert ("parked id=session-2" in daemon.log.read_text()) == (lease is None)


def test_bytes_that_are_no_protocol(start, figures, until):
    daemon = start(METRICS)
    computes(daemon)
    for sent in (b"", b"GET / HTTP/1.1\r\n\r\n", b"\x00" * 100, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 200):
        with socket.socket(socket.AF_UNIX) as raw:
            raw.connect(daemon.address.removeprefix("unix:"))
            raw.sendall(sent)
            raw.shutdown(socket.SHUT_WR)
            raw.settimeout(30)
            while raw.recv(4096):
                pass
    computes(daemon)
    until(lambda: figures(daemon)["sessions"] == 0)
    daemon.check()


SLOW = """
import threading
x = tensord.ones(1 << 24).contiguous().realize()
x.numpy()
reader = threading.Thread(target=x.numpy)
reader.start()
os.kill(os.getpid(), 19)  # stops: nobody reads from the sockets any more
reader.join()
print(x.sum().item(), flush=True)
"""


def test_a_reader_that_stands_still_holds_up_nobody_and_goes_on(start, child, until):
    daemon = start(METRICS)
    slow = child(SLOW, daemon)
    until(lambda: "T (stopped)" in open(f"/proc/{slow.process.pid}/status").read())
    for _ in range(20):
        computes(daemon)
    slow.send(18)
    assert slow.end() == ("16777216.0\n", "")


def test_a_thousand_connections(start, child, figures, until):
    """Each of them a session; then all are cut off at once, and all are gone after their lease."""
    daemon = start(METRICS, "--session-lease=500ms")
    computes(daemon)
    status = open(f"/proc/{daemon.process.pid}/status").read()
    threads = int(re.search(r"Threads:\s+(\d+)", status)[1])
    resident = int(re.search(r"VmRSS:\s+(\d+) kB", status)[1])
    script = """
clients = [tensord.connect() for _ in range(250)]
print(len(clients), flush=True)
input()
"""
    children = [child(script, daemon) for _ in range(4)]
    assert [each.line() for each in children] == ["250"] * 4
    assert figures(daemon)["sessions"] == 1000
    status = open(f"/proc/{daemon.process.pid}/status").read()
    assert int(re.search(r"Threads:\s+(\d+)", status)[1]) < threads + 16
    assert int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) < resident + 1000 * 128  # half of it gRPC's
    computes(daemon)
    for each in children:
        each.process.kill()
    until(lambda: figures(daemon)["sessions"] == 0)
    computes(daemon)
    daemon.check()


def test_what_clients_call_things_begins_no_line_of_the_log(start):
    daemon = start()
    with tensord.connect(daemon.address):
        for name in "a\n[2030-01-01] [auth] [warning] forged", "\x1b[2J", "\u2028[forged]", "a\0b":
            tensord.publish(name, tensord.ones(2))
            with pytest.raises(tensord.TensordError):
                tensord.attach(name, owner=name)
    log = daemon.log.read_text()
    assert log.count("published name=") == 4
    assert not re.search(r"[^\n\x20-\x7e]", log)
    for line in log.splitlines():
        assert re.match(r"\[[-0-9]+ [0-9:.]+\] \[[a-z]+\] \[[a-z]+\] ", line), line


def test_a_daemon_has_as_many_descriptors_as_it_may(start):
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, limit[1]))
    try:
        daemon = start()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)
    assert resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE) == (limit[1], limit[1])
    computes(daemon)


def test_connections_that_take_all_descriptors(start, until):
    """Who is there goes on, without segments; who comes waits until others have gone."""
    daemon = start()
    folder = f"/proc/{daemon.process.pid}/fd"
    large = np.ones(1 << 20, np.float32)
    with tensord.connect(daemon.address):
        kept = Tensor(np.arange(8, dtype=np.float32)).realize()
        limit = len(os.listdir(folder)) + 50
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, (limit, most))
        silent = [socket.socket(socket.AF_UNIX) for _ in range(100)]
        for each in silent:
            each.connect(daemon.address.removeprefix("unix:"))
        until(lambda: "cannot accept" in daemon.log.read_text())
        for _ in range(3):
            assert (kept + 1).sum().item() == 36
            assert Tensor(large).sum().item() == large.size
        assert "/memfd:tensord" not in Path(f"/proc/{daemon.process.pid}/maps").read_text()
        for each in silent:
            each.close()
        until(lambda: len(os.listdir(folder)) < limit)
        assert (kept + 2).sum().item() == 44
    computes(daemon)
    # A line now and then, however often it tries.
    assert daemon.log.read_text().count("cannot accept") <= 20


def test_after_many_sessions_nothing_of_them_is_left(start, figures, until):
    """Each computes, moves bulk data, publishes, attaches and takes back."""
    daemon = start(METRICS, "--session-lease=0s")
    large = np.ones(1 << 19, np.float32)

    def left():
        now = figures(daemon)
        files = os.listdir(f"/proc/{daemon.process.pid}/fd")
        maps = Path(f"/proc/{daemon.process.pid}/maps").read_text()
        return {
            "sessions": now["sessions"], "memory": now["device_memory_used_bytes"], "published": now["publications"],
            "files": len(files), "segments": maps.count("/memfd:tensord"),
        }  # fmt: skip

    def cycle(i):
        with tensord.connect(daemon.address):
            x = (Tensor(large) * 2).realize()
            tensord.publish("x", x)
            assert tensord.attach("x").sum().item() == 2 * large.size
            assert x.numpy()[i] == 2
            tensord.unpublish("x")

    for i in range(5):
        cycle(i)
    until(lambda: left()["sessions"] == 0 and left()["memory"] == 0)
    before = left()
    for i in range(100):
        cycle(i)
    until(lambda: left() == before)


def test_a_deadline_that_has_passed_already(start):
    daemon = start("--devices=cpu")
    with tensord.connect(daemon.address, timeout=1e-9):
        upload = lambda: Tensor(np.ones(1 << 20, np.float32)).numpy()  # noqa: E731
        for ask in upload, lambda: tensord.ones(3).numpy(), tensord.counters:
            with pytest.raises((tensord.errors.DeadlineExceededError, TimeoutError)):
                ask()
    computes(daemon)


def test_threads_of_one_client_that_dies_while_they_wait(start, until):
    """All of them hear why."""
    daemon = start("--devices=paced(launch_us=3600000000)", "--launch-timeout=0", "--session-lease=0s")
    heard = []
    with tensord.connect(daemon.address, connect_timeout=1):
        waiting = [(Tensor(np.ones(4, np.float32)) + i).realize() for i in range(2)]

        def wait(x):
            try:
                x.numpy()
            except tensord.TensordError as error:
                heard.append(str(error))

        threads = [threading.Thread(target=wait, args=(x,)) for x in waiting]
        for thread in threads:
            thread.start()
        daemon.kill()
        for thread in threads:
            thread.join(60)
    assert len(heard) == 2 and all("is lost" in each for each in heard)
