"""The clean root that the tests of this folder install into, one after the other."""

import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # pytest's importlib mode leaves that to us

import pytest  # noqa: E402
from clean_root import CannotMake, CleanRoot  # noqa: E402


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    path = tmp_path_factory.mktemp("clean") / "root"
    try:
        yield CleanRoot(path)
    except CannotMake as reason:
        pytest.skip(str(reason))
    finally:
        shutil.rmtree(path, ignore_errors=True)  # it is large
