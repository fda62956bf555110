"""What broken connections, killed clients and killed daemons cost, as a user of the Python client has it.

Prints what the C++ benchmarks print. Times that need the daemon's side are read from its log.
"""

import argparse
import datetime
import json
import logging
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import _tensord
import tensord
from tensord import Tensor
from tensord.testing import Daemon

LEASE = 0.5  # of clients that are killed
DOWN = 0.3   # seconds without a daemon

CHILD = """
import tensord
kept = tensord.ones(1 << 22).realize()
step = tensord.jit(lambda x: x + 1)
x = step(step(tensord.zeros(1024)))
x.numpy()
print("works", flush=True)
while True:
    x = step(x)
"""


class Proxy:
    """Passes a unix socket's connections on, and breaks them when told."""

    def __init__(self, path, target):
        self.address, self._target, self._pairs = f"unix:{path}", target, []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            client, _ = self._listener.accept()
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._target)
            self._pairs.append((client, server))
            for ends in (client, server), (server, client):
                threading.Thread(target=self._pump, args=ends, daemon=True).start()

    @staticmethod
    def _pump(source, sink):
        try:
            while data := source.recv(1 << 16):
                sink.sendall(data)
        except OSError:
            pass
        for end in source, sink:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self):
        for pair in self._pairs:
            for end in pair:
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
        self._pairs.clear()


class Heard(logging.Handler):
    """When the client said what."""

    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append((time.time(), record.getMessage()))

    def when(self, text):
        end = time.monotonic() + 60
        while time.monotonic() < end:
            for at, line in self.lines:
                if text in line:
                    return at
            time.sleep(0.0005)
        raise RuntimeError(f"the client never said '{text}'")


def logged(daemon, text):
    """When the daemon wrote that to its log."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if found := re.search(rf"^\[([^\]]*)\].*{text}", daemon.log.read_text(), re.M):
            return datetime.datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S.%f").timestamp()
        time.sleep(0.002)
    raise RuntimeError(f"the daemon never wrote '{text}'")


def killed_clients(repeat):
    """From the kill until the memory is back, without a lease and beyond the lease."""
    noticed, beyond = [], []
    for _ in range(repeat):
        with tempfile.TemporaryDirectory() as folder, Daemon(Path(folder), f"--session-lease={LEASE}s") as daemon:
            child = subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE,
                                     env={**os.environ, "TENSORD_ADDRESS": daemon.address})  # fmt: skip
            child.stdout.readline()
            at = time.time()
            child.send_signal(signal.SIGKILL)
            child.wait()
            noticed.append(logged(daemon, "parked id=session-1") - at)
            beyond.append(logged(daemon, "ended id=session-1") - at - LEASE)
    return {"client killed, until the daemon notices": noticed, "client killed, memory back after the lease's end": beyond}


def cut_connections(repeat):
    """From the cut until the next result, in the midst of a program that counts; the count must be right."""
    times = []
    with tempfile.TemporaryDirectory() as folder, Daemon(Path(folder)) as daemon:
        proxy = Proxy(f"{folder}/p", daemon.address.removeprefix("unix:"))
        with tensord.connect(proxy.address):
            count = tensord.zeros(1).realize()
            step = tensord.jit(lambda: count.assign(count + 1))
            runs = 0
            for _ in range(3):
                step()
                runs += 1
            count.numpy()
            for _ in range(repeat):
                for _ in range(5):
                    step()
                    runs += 1
                at = time.time()
                proxy.cut()
                found = count.item()
                times.append(time.time() - at)
                if found != runs:
                    raise RuntimeError(f"{runs} runs were counted as {found}")
    return {"connection cut, until the next result": times}


def killed_daemons(repeat, clients):
    """From the kill until a client knows; and from the new daemon's readiness until new work of all of them is done."""
    noticed, usable = [], []
    heard = Heard()
    logging.getLogger("tensord").addHandler(heard)
    for _ in range(repeat):
        with tempfile.TemporaryDirectory() as folder, Daemon(Path(folder)) as daemon:
            opened = [tensord.connect(daemon.address) for _ in range(clients)]
            Tensor([1.0]).item()
            heard.lines.clear()
            at = time.time()
            daemon.kill()
            noticed.append(heard.when("reconnecting") - at)
            time.sleep(max(0.0, at + DOWN - time.time()))
            daemon.start()
            listening = time.time()
            for client in opened:
                _tensord._set_current(client)
                while True:
                    try:
                        Tensor([1.0]).item()
                        break
                    except tensord.errors.UnavailableError:
                        pass  # it learns just now that its session is lost
            usable.append(time.time() - listening)
            for client in opened:
                client.close()
            _tensord._set_current(None)
    return {f"daemon killed, until one of {clients} clients knows": noticed,
            f"daemon restarted, until all of {clients} clients have a result": usable}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=10)
    arguments = parser.parse_args()
    logging.getLogger("tensord").propagate = False  # it says what breaks, again and again
    logging.getLogger("tensord").addHandler(logging.NullHandler())
    figures = {**killed_clients(arguments.repeat), **cut_connections(10 * arguments.repeat),
               **killed_daemons(arguments.repeat, 1), **killed_daemons(max(2, arguments.repeat // 5), 200)}
    rows = []
    for name, seconds in figures.items():
        ms = sorted(1e3 * value for value in seconds)
        rows.append({"name": name, "unit": "ms", "median": statistics.median(ms), "min": ms[0], "max": ms[-1],
                     "p99": ms[min(len(ms) - 1, int(len(ms) * 0.99))], "samples": len(ms)})
    print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()
