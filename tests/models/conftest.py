"""One daemon for the whole folder; each test has a new session."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "torch")]

import clone  # noqa: E402, F401  before tensord
import pytest  # noqa: E402
import torch  # noqa: E402
from daemon_fixtures import client, daemon  # noqa: E402, F401: for every test of this folder


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """The daemon works beside PyTorch, whose threads take several times as long if they wait for each other's cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
