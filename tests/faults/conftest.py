"""What tests of faults share: daemons and clients as processes of their own, and looking until it is so."""

import collections
import os
import re
import subprocess
import sys
import time
import urllib.request

import pytest
from tensord.testing import Daemon


class Child:
    """A client in a process of its own; what it prints is read line by line."""

    def __init__(self, script, address):
        self.process = subprocess.Popen(
            [sys.executable, "-c", "import os, tensord, numpy as np\nfrom tensord import Tensor\n" + script],
            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, "TENSORD_ADDRESS": address})  # fmt: skip

    def line(self):
        return self.process.stdout.readline().rstrip("\n")

    def end(self):
        """What else it says, once it has ended by itself."""
        self.process.stdin.close()
        said = self.process.stdout.read(), self.process.stderr.read()
        self.process.wait(60)
        return said

    def send(self, number):
        self.process.send_signal(number)


def eventually(condition):
    """Looks until it is so; a test that never sees it fails."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it did not become so"
        time.sleep(0.01)


@pytest.fixture
def start(tmp_path):
    """Starts a daemon with these flags; it ends with the test."""
    daemons = []

    def start_daemon(*flags):
        daemons.append(Daemon(tmp_path, *flags))
        return daemons[-1]

    yield start_daemon
    for daemon in daemons:
        daemon.__exit__()


@pytest.fixture
def child():
    """Starts a client; it ends with the test."""
    children = []

    def start_child(script, daemon):
        children.append(Child(script, daemon.address))
        return children[-1]

    yield start_child
    for each in children:
        if each.process.poll() is None:
            each.process.kill()
        each.process.wait()
        for stream in each.process.stdin, each.process.stdout, each.process.stderr:
            stream.close()


@pytest.fixture
def until():
    return eventually


@pytest.fixture
def figures():
    """The metrics of a daemon that has --metrics-listen, by name; those of several devices are added up."""

    def scrape(daemon):
        url = re.findall(r"serving metrics url=(\S+)", daemon.log.read_text())[-1]
        values = collections.Counter()
        for line in urllib.request.urlopen(url, timeout=60).read().decode().splitlines():
            if line[0] != "#":
                name, value = re.fullmatch(r"(\w+)(?:\{.*\})? (\S+)", line).groups()
                values[name.removeprefix("tensord_")] += float(value)
        return values

    return scrape
