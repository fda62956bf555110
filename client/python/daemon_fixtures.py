"""One daemon for all tests of a folder that need not stop it, with a cache of its own; each test has a new session.

A conftest.py imports both fixtures. Tests that need users of different names start `daemon_with_tokens`.
"""

import contextlib
import hashlib
import re
import subprocess

import pytest
import tensord
from tensord import TLS
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


@contextlib.contextmanager
def daemon_with_tokens(folder, users, *flags):
    """The daemon, and connect(user): a session of that user's."""
    pki = folder / "pki"
    pki.mkdir()
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", "key", "-out", "cert"],
                   cwd=pki, check=True, capture_output=True)  # fmt: skip
    tokens = {name: hashlib.sha256(name.encode()).hexdigest() for name in users}
    file = folder / "tokens"
    file.write_text("".join(f"{user} sha256:{hashlib.sha256(token.encode()).hexdigest()}\n" for user, token in tokens.items()))
    file.chmod(0o600)
    tls = [f"--tls-cert={pki / 'cert'}", f"--tls-key={pki / 'key'}", f"--auth-tokens={file}", "--listen=localhost:0"]
    with Daemon(folder, *tls, *flags) as daemon:
        port = re.search(r"address=localhost:(\d+)", daemon.log.read_text()).group(1)

        def connect(user):
            return tensord.connect(f"localhost:{port}", tls=TLS(ca=pki / "cert"), token=tokens[user], connect_timeout=20)

        yield daemon, connect
