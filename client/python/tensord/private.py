"""The daemon that a process starts for itself; connection says when. Few do, so that only they import this."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tensord.errors import UnavailableError


class PrivateDaemon:
    """A daemon of this process: it ends when the pipe to its standard input closes."""

    def __init__(self, binary: str) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="tensord-"))
        self.address = f"unix:{self._folder}/sock"
        log = self._folder / "log"
        reader, writer = os.pipe()
        with open(log, "wb") as errors:
            self._process = subprocess.Popen(
                [binary, "--listen", self.address, "--exit-with-parent", "--ready-fd",
                 str(writer)],
                stdin=subprocess.PIPE, stdout=errors, stderr=errors, pass_fds=(writer,),
                # Its own group, so that Ctrl-C in a notebook does not take it away.
                start_new_session=True)
        os.close(writer)
        with open(reader) as ready:
            answered = ready.readline()
        if not answered:
            self._process.wait()
            said = log.read_text().strip()
            shutil.rmtree(self._folder, ignore_errors=True)
            raise UnavailableError(f"the private daemon did not start: {said}")
        print(f"tensord: started a private daemon at {self.address}, process {self._process.pid}; "
              "it ends with this one", file=sys.stderr)

    def leave(self) -> None:
        """Lets go of the pipe: the daemon ends when all that have it did."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def close(self) -> None:
        self.leave()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None
