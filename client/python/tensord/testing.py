"""A daemon for tests: on a socket and with a cache in a folder of its own, stopped at will.

    with Daemon(folder) as daemon:
        tensord.connect(daemon.address)
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Optional

from tensord.connection import _binary
from tensord.errors import TensordError


class Daemon:
    """Runs until it is told to stop, or until this process ends, however it ends."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self.folder = Path(folder)
        self.address = f"unix:{self.folder}/tensord.sock"
        self.cache = self.folder / "cache"
        self.log = self.folder / "log"
        self._flags = flags
        self.process: Optional[subprocess.Popen[bytes]] = None
        self.start()

    def start(self) -> None:
        """Starts it (again), and returns when it serves."""
        reader, writer = os.pipe()
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [_binary(), "--listen", self.address, "--cache-dir", str(self.cache),
                 "--exit-with-parent", "--ready-fd", str(writer), *self._flags],
                stdin=subprocess.PIPE, stdout=log, stderr=log, pass_fds=(writer,))
        os.close(writer)
        with open(reader) as ready:
            if not ready.readline():
                raise RuntimeError(f"the daemon did not start: {self.log.read_text()}")

    def check(self) -> None:
        """Raises, with its last words, if it is no longer running."""
        assert self.process is not None
        if self.process.poll() is not None:
            last = self.log.read_text().splitlines()[-5:]
            raise RuntimeError(f"the daemon ended with status {self.process.returncode}: {last}")

    def kill(self) -> None:
        """Ends it without a chance to tidy up."""
        self._signal(signal.SIGKILL)

    def terminate(self) -> int:
        """Asks it to finish accepted work and stop; returns its exit status."""
        return self._signal(signal.SIGTERM)

    def _signal(self, number: signal.Signals) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        status = self.process.wait(60)
        assert self.process.stdin is not None
        self.process.stdin.close()
        return status

    def __enter__(self) -> Daemon:
        return self

    def __exit__(self, *exception: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()


def fuzz_file(path: Path, load: Callable[[Path], Any], rounds: int) -> None:
    """Loads a file with some bytes changed, many times over. It may load or not, but by no other error than ours.

    Deterministic. The start of a file, where its header is, is changed more often than the rest.
    """
    original = path.read_bytes()
    rng = random.Random(0)
    for _ in range(rounds):
        data = bytearray(original)
        for _ in range(rng.choice((1, 1, 2, 8))):
            at = rng.randrange(min(len(data), rng.choice((32, 256, len(data)))))
            change = rng.randrange(5)
            if change == 0:
                data[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
            elif change == 1:
                data[at] ^= 1 << rng.randrange(8)
            elif change == 2:
                del data[at : at + rng.choice((1, 4, len(data)))]
            elif change == 3:
                data[at:at] = rng.randbytes(rng.choice((1, 8, 64)))
            else:
                start = rng.randrange(len(data))
                data[at : at + 8] = data[start : start + 8]
            if not data:
                break
        path.write_bytes(data)
        try:
            load(path)
        except TensordError:
            pass
