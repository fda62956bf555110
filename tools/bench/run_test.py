import json
import os
import pathlib
import subprocess
import sys

import pytest

_RUN = pathlib.Path(__file__).with_name("run")
_BINARIES = os.environ.get("TENSORD_BINARIES", _RUN.parents[2] / "bazel-bin")
_BENCHMARKS = [
    "compile", "launch", "roundtrip", "fairness", "metrics", "load", "sharing", "daemon", "spill", "mnist", "matmul",
    "capture"
]  # fmt: skip


def run(*arguments):
    command = [sys.executable, _RUN, "--binaries", _BINARIES, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", _BENCHMARKS)
def test_measures_and_writes_json(name, tmp_path):
    file = tmp_path / "result.json"
    done = run("--quick", "--json", file, name)
    assert done.returncode == 0, done.stderr
    assert f"\n{name}\n" in done.stdout
    result = json.loads(file.read_text())
    assert list(result["benchmarks"]) == [name]
    rows = result["benchmarks"][name]["rows"]
    assert rows
    for row in rows:
        assert 0 <= row["min"] <= row["median"] <= row["max"], row


def test_names_what_it_does_not_know():
    done = run("launch", "lunch")
    assert done.returncode == 2
    assert "no benchmark lunch" in done.stderr


def test_says_how_to_build(tmp_path):
    done = run("--quick", "--binaries", tmp_path)
    assert done.returncode == 1
    assert "bazel build //tools/bench/..." in done.stderr
