"""One daemon for all tests of a folder that need not stop it, with a cache of its own; each test has a new session.

A conftest.py imports both fixtures.
"""

import pytest
import tensord
from tensord.testing import Daemon


@pytest.fixture(scope="session")
def daemon(tmp_path_factory):
    with Daemon(tmp_path_factory.mktemp("daemon")) as daemon:
        yield daemon


@pytest.fixture(autouse=True)
def client(daemon):
    daemon.check()
    with tensord.connect(daemon.address, timeout=60) as client:
        tensord.manual_seed(1)
        yield client
