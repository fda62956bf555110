"""Recording what a client and its daemon say, and playing it to another daemon: docs/protocol.md.

testdata has the traffic of earlier versions (record_protocol.py makes it), which every later daemon answers the same.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tensord.connection import _binary
from tensord.testing import Daemon

HERE = Path(__file__).parent
CONTROL = Path(_binary()).parents[1] / "tools" / "tensorctl" / "tensorctl"
RECORDINGS = sorted((HERE / "testdata").glob("*.tdrec"))

SCRIPT = """
import numpy as np
import tensord
with tensord.connect():
    x = tensord.Tensor(np.arange(8, dtype=np.int32) + 1_111_111)
    y = tensord.Tensor(np.ones(10_000, np.float32))
    print((x * 2).tolist()[0], (y + 1).sum().item())
"""


def replay(file, address, *flags):
    command = [CONTROL, "replay", file, "--address", address, *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def record(file, address, script=SCRIPT, contents="false"):
    environment = {"TENSORD_ADDRESS": address, "TENSORD_RECORD": str(file), "TENSORD_RECORD_CONTENTS": contents}
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False,
                          env={**os.environ, **environment})  # fmt: skip


@pytest.fixture(scope="module")
def recorded(daemon, tmp_path_factory):
    """One recording with the tensors' bytes, and one without."""
    folder = tmp_path_factory.mktemp("recorded")
    for name, contents in (("with", "true"), ("without", "false")):
        done = record(folder / name, daemon.address, contents=contents)
        assert done.stdout == "2222222 20000.0\n", done.stderr
    return folder


@pytest.mark.parametrize("file", RECORDINGS, ids=lambda file: file.stem)
def test_earlier_versions_are_answered_as_they_were(daemon, file):
    done = replay(file, daemon.address)
    assert done.returncode == 0, done.stderr
    assert "compared byte by byte" in done.stdout
    assert done.stdout.endswith("no differences\n")


def test_there_is_an_earlier_version():
    assert RECORDINGS


@pytest.mark.parametrize("name", ["with", "without"])
def test_a_recording_is_played_to_another_daemon(recorded, name, tmp_path):
    with Daemon(tmp_path) as other:
        done = replay(recorded / name, other.address)
    assert done.returncode == 0, done.stderr
    assert "1 sessions" in done.stdout and "1 uploads, 2 downloads" in done.stdout
    assert ("compared byte by byte" in done.stdout) == (name == "with")


def test_contents_are_left_out_unless_asked_for(recorded):
    element = (1_111_111).to_bytes(4, "little")
    assert element in (recorded / "with").read_bytes()
    assert element not in (recorded / "without").read_bytes()


def test_another_result_is_a_difference(recorded, daemon, tmp_path):
    changed = (recorded / "with").read_bytes().replace((1_111_112).to_bytes(4, "little"), (5).to_bytes(4, "little"))
    (tmp_path / "changed").write_bytes(changed)
    done = replay(tmp_path / "changed", daemon.address)
    assert done.returncode == 1
    assert "int32[8]: other bytes than recorded, the first at 4" in done.stderr
    assert done.stderr.endswith("1 differences\n")


def test_another_refusal_is_a_difference(recorded, tmp_path):
    with Daemon(tmp_path, "--max-session-bytes=1KiB") as small:
        done = replay(recorded / "with", small.address)
    assert done.returncode == 1
    assert "RESOURCE_EXHAUSTED" in done.stderr


def test_it_is_played_at_the_recorded_speed_if_asked(daemon, tmp_path):
    script = SCRIPT.replace("    print", "    import time; time.sleep(0.5)\n    print")
    assert record(tmp_path / "slow", daemon.address, script).returncode == 0
    done = replay(tmp_path / "slow", daemon.address, "--speed=1")
    assert done.returncode == 0, done.stderr
    took = done.stdout.split("downloads, in ")[1].split("\n")[0]
    assert took.endswith("s") and not took.endswith("ms") or float(took.removesuffix("ms")) >= 500


def test_devices_of_other_names_play_it(recorded, tmp_path):
    with Daemon(tmp_path, "--devices=interp") as other:
        done = replay(recorded / "with", other.address)
    assert done.returncode == 0, done.stderr
    assert "CPU:0 is played by INTERP:0" in done.stdout


def test_a_recording_that_breaks_off_is_played_as_far_as_it_goes(recorded, daemon, tmp_path):
    whole = (recorded / "with").read_bytes()
    (tmp_path / "cut").write_bytes(whole[: len(whole) // 2])
    done = replay(tmp_path / "cut", daemon.address)
    assert "the file ends amid an event" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("text", "error"),
    [(b"", "is no recording of tensord"), (b"#!/bin/sh\n", "is no recording of tensord"), (None, "No such file")],
)
def test_what_is_no_recording_is_refused(daemon, tmp_path, text, error):
    if text is not None:
        (tmp_path / "file").write_bytes(text)
    done = replay(tmp_path / "file", daemon.address)
    assert done.returncode == 1
    assert error in done.stderr


def test_a_file_is_written_by_one_process(daemon, tmp_path):
    script = """
import os, subprocess, sys
import tensord
with tensord.connect():
    sys.exit(subprocess.call([sys.executable, "-c", "import tensord; tensord.connect()"]))
"""
    done = record(tmp_path / "file", daemon.address, script)
    assert done.returncode == 1
    assert "is being written by another process: record each process to a file of its own" in done.stderr
