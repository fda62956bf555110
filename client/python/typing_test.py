"""The stub of the extension says what the extension has, and the package's annotations hold."""

import pathlib
import subprocess
import sys

FOLDER = pathlib.Path(__file__).parent


def test_the_stub_is_what_the_extension_has():
    done = subprocess.run([sys.executable, FOLDER / "make_stub.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_mypy_finds_nothing(tmp_path):
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path, "tensord", "_tensord.pyi"],
                          cwd=FOLDER, capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_mypy_knows_what_tensord_has(tmp_path):
    names = ["exp", "conv2d", "zeros_like", "nn.Linear", "io.safe_load", "load", "conv4d"]
    (tmp_path / "names.py").write_text("import tensord\n" + "".join(f"tensord.{name}\n" for name in names))
    done = subprocess.run([sys.executable, "-m", "mypy", "--cache-dir", tmp_path, tmp_path / "names.py"],
                          cwd=FOLDER, capture_output=True, text=True)  # fmt: skip
    assert 'has no attribute "conv4d"' in done.stdout and "Found 1 error " in done.stdout, done.stdout
