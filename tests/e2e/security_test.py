"""Who gets in, over TCP and on unix sockets, and what they may do: docs/security.md."""

import contextlib
import hashlib
import os
import re
import shutil
import stat
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
import tensord
from tensord import TLS, Tensor
from tensord.connection import _binary
from tensord.testing import Daemon

TOKEN, OTHER = "f3a9" * 16, "07bd" * 16  # of alice and of bob
NOBODY = 65534
CONTROL = Path(_binary()).parents[1] / "tools" / "tensorctl" / "tensorctl"


def openssl(*arguments, folder):
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    """Certificates by one CA: of the daemon, for localhost, and of a client, carol. Another CA's client: mallory."""
    folder = tmp_path_factory.mktemp("pki")
    for ca, names in (("ca", ("server", "carol")), ("other-ca", ("mallory",))):
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                "-subj", f"/CN={ca}", "-keyout", f"{ca}.key", "-out", f"{ca}.pem", folder=folder)  # fmt: skip
        for name in names:
            openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
                    "-keyout", f"{name}.key", "-out", f"{name}.csr", folder=folder)  # fmt: skip
            (folder / "ext").write_text("subjectAltName=DNS:localhost,DNS:gpu1.example" if name == "server" else "")
            openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{ca}.pem", "-CAkey", f"{ca}.key", "-days", "2",
                    "-CAcreateserial", "-extfile", "ext", "-out", f"{name}.pem", folder=folder)  # fmt: skip
    return folder


@pytest.fixture
def tokens(tmp_path):
    file = tmp_path / "tokens"
    rows = [f"{user} sha256:{hashlib.sha256(token.encode()).hexdigest()}\n"
            for user, token in (("alice", TOKEN), ("bob", OTHER))]  # fmt: skip
    file.write_text("".join(rows))
    file.chmod(0o600)
    return file


@contextlib.contextmanager
def serving(tmp_path, pki, *flags, listen="localhost:0"):
    """A daemon that also listens on TCP, and that address."""
    tls = [f"--tls-cert={pki / 'server.pem'}", f"--tls-key={pki / 'server.key'}"] if pki else []
    with Daemon(tmp_path, f"--listen={listen}", "--log-level=debug", "--devices=null", *tls, *flags) as daemon:
        addresses = re.findall(r"listening address=(\S+)", daemon.log.read_text())
        port = next(address for address in addresses if not address.startswith("unix:")).rpartition(":")[2]
        yield daemon, f"localhost:{port}"


def session_of(address, **security):
    with tensord.connect(address, connect_timeout=20, **security) as client:
        Tensor([1.0]).realize()
        client.synchronize()


def start(*flags):
    return subprocess.run([_binary(), "--devices=null", "--cache-dir=none", *flags],
                          text=True, capture_output=True, timeout=60)  # fmt: skip


def control(address, *arguments, user=None, program=CONTROL, **environment):
    return subprocess.run([program, "--address", address, *arguments], text=True, capture_output=True, timeout=60,
                          env={**os.environ, **environment}, user=user)  # fmt: skip


def test_tls_and_a_token(tmp_path, pki, tokens):
    ca = TLS(ca=pki / "ca.pem")
    with serving(tmp_path, pki, f"--auth-tokens={tokens}") as (daemon, address):
        session_of(address, tls=ca, token=TOKEN)
        session_of(address, tls=TLS(ca=pki / "ca.pem", server_name="gpu1.example"), token=OTHER)
        for token, why in ((None, "wants to know who calls"), ("0" * 64, "does not know this token"),
                           (TOKEN[:-1], "does not know this token")):  # fmt: skip
            with pytest.raises(tensord.errors.UnauthenticatedError, match=why):
                session_of(address, tls=ca, token=token)
        for tls, why in ((TLS(ca=pki / "other-ca.pem"), "don't agree on TLS"),
                         (TLS(ca=pki / "ca.pem", server_name="gpu2.example"), "don't agree on TLS"),
                         (False, "connect with tls")):  # fmt: skip
            with pytest.raises(tensord.errors.UnavailableError, match=why):
                tensord.connect(address, tls=tls, connect_timeout=2)
        # The kernel vouches for who comes by the unix socket.
        session_of(daemon.address)
        log = daemon.log.read_text()
        assert "user='alice'" in log and "user='bob'" in log
        for secret in (TOKEN, OTHER, TOKEN[:-1], hashlib.sha256(TOKEN.encode()).hexdigest()):
            assert secret not in log
        assert "PRIVATE KEY" not in log
        # Who was refused is in the log, also by gRPC.
        for why in "the daemon wants to know who calls", "the daemon does not know this token":
            assert re.search(rf'\[auth\] \[warning\] refused peer=ipv\d:\S+ left_out=0 because="{why}', log)
        assert re.search(r"\[grpc\] \[warning\] Handshake failed", log)
        # tensorctl tells that from nobody being there, and says it only once.
        asked = control(address, "status", TENSORD_TLS_CA=str(pki / "other-ca.pem"))
        assert asked.returncode == 1 and re.fullmatch("tensorctl: the daemon at .* don't agree on TLS: .*\n", asked.stderr)
        asked = control(address, "status")
        assert asked.returncode == 1 and re.fullmatch("tensorctl: no daemon at .*--tls-cert, set TENSORD_TLS\n", asked.stderr)


def test_a_changed_file_of_tokens_is_read_on_reload(tmp_path, pki, tokens):
    ca = TLS(ca=pki / "ca.pem")
    with serving(tmp_path, pki, f"--auth-tokens={tokens}") as (daemon, address):
        lines = tokens.read_text().splitlines()
        tokens.write_text(lines[1] + "\n")
        daemon.process.send_signal(1)
        while "configuration read again" not in daemon.log.read_text():
            daemon.check()
        session_of(address, tls=ca, token=OTHER)
        with pytest.raises(tensord.errors.UnauthenticatedError):
            session_of(address, tls=ca, token=TOKEN)


def test_changed_certificates_are_read_on_reload(tmp_path, pki):
    """The daemon's own, and that of the CA of clients. What is no good is not taken."""
    folder = tmp_path / "tls"
    folder.mkdir()
    files = {name: folder / name for name in ("cert", "key", "ca")}

    def put(**sources):
        for name, source in sources.items():
            shutil.copy(pki / source, files[name])
            files[name].chmod(0o600)

    def reload(daemon, said):
        count = daemon.log.read_text().count(said)
        daemon.process.send_signal(1)
        while daemon.log.read_text().count(said) == count:
            daemon.check()

    put(cert="server.pem", key="server.key", ca="ca.pem")
    carol, mallory = (TLS(pki / "ca.pem", pki / f"{name}.pem", pki / f"{name}.key") for name in ("carol", "mallory"))
    flags = [f"--tls-cert={files['cert']}", f"--tls-key={files['key']}", f"--tls-client-ca={files['ca']}"]
    with serving(tmp_path, None, *flags) as (daemon, address):
        with tensord.connect(address, tls=carol) as open_before:
            put(ca="other-ca.pem")
            reload(daemon, "configuration read again")
            deadline = time.monotonic() + 60
            while True:  # gRPC looks once in a second
                try:
                    session_of(address, tls=mallory)
                    break
                except tensord.errors.UnavailableError:
                    assert time.monotonic() < deadline
            with pytest.raises(tensord.errors.UnavailableError):
                tensord.connect(address, tls=carol, connect_timeout=2)
            assert not open_before.closed
        put(key="mallory.key")
        reload(daemon, "nothing is changed because of --tls-key: ")
        session_of(address, tls=mallory)


def test_client_certificates(tmp_path, pki):
    own = {name: TLS(pki / "ca.pem", pki / f"{name}.pem", pki / f"{name}.key") for name in ("carol", "mallory")}
    with serving(tmp_path, pki, f"--tls-client-ca={pki / 'ca.pem'}") as (daemon, address):
        session_of(address, tls=own["carol"])
        assert "user='carol'" in daemon.log.read_text()
        for tls in own["mallory"], TLS(ca=pki / "ca.pem"):
            with pytest.raises(tensord.errors.UnavailableError):
                session_of(address, tls=tls)


def test_a_certificate_or_a_token(tmp_path, pki, tokens):
    flags = [f"--tls-client-ca={pki / 'ca.pem'}", f"--auth-tokens={tokens}"]
    with serving(tmp_path, pki, *flags, listen="0.0.0.0:0") as (daemon, address):
        session_of(address, tls=TLS(pki / "ca.pem", pki / "carol.pem", pki / "carol.key"))
        session_of(address, tls=TLS(ca=pki / "ca.pem"), token=TOKEN)
        with pytest.raises(tensord.errors.UnauthenticatedError):
            session_of(address, tls=TLS(ca=pki / "ca.pem"))
        log = daemon.log.read_text()
        assert "user='carol'" in log and "user='alice'" in log


def test_the_environment_says_how_to_connect(tmp_path, pki, tokens, monkeypatch):
    with serving(tmp_path, pki, f"--auth-tokens={tokens}") as (daemon, address):
        monkeypatch.setenv("TENSORD_TLS_CA", str(pki / "ca.pem"))
        monkeypatch.setenv("TENSORD_TOKEN", TOKEN)
        session_of(address)
        assert control(address, "status").stdout.startswith("version")
        monkeypatch.setenv("TENSORD_TLS", "maybe")
        with pytest.raises(tensord.errors.InvalidArgumentError, match="TENSORD_TLS=maybe: takes true or false"):
            session_of(address)
        assert control(address, "status").stderr == "tensorctl: TENSORD_TLS=maybe: takes true or false\n"


def test_bad_options_are_named(tmp_path, pki):
    for options, why in (
        ({"tls": TLS(ca="/no/such")}, "cannot read the CA's certificate /no/such"),
        ({"tls": TLS(ca=__file__)}, "is no PEM file"),
        ({"tls": TLS(ca=pki / "ca.pem", cert=pki / "carol.pem")}, "go together"),
        ({"token": "my secret"}, "the token has a space"),
    ):
        with pytest.raises(tensord.errors.InvalidArgumentError, match=why) as raised:
            tensord.connect("localhost:1", **options)
        assert "my secret" not in str(raised.value)


def test_the_daemon_refuses_what_would_not_be_safe(tmp_path, pki, tokens):
    loose, cert, key = tmp_path / "loose.key", pki / "server.pem", pki / "server.key"
    loose.write_bytes(key.read_bytes())
    loose.chmod(0o644)
    listen = f"--listen=unix:{tmp_path}/t.sock"
    for flags, why in (
        (["--listen=0.0.0.0:0"], "other machines could connect"),
        (["--listen=0.0.0.0:0", f"--tls-cert={cert}", f"--tls-key={key}"], "anybody would be let in; listen on localhost, or give --auth-tokens"),
        ([listen, f"--auth-tokens={tokens}"], "--auth-tokens needs --tls-cert"),
        ([listen, f"--tls-cert={cert}"], "--tls-cert needs --tls-key"),
        ([listen, f"--tls-cert={cert}", f"--tls-key={loose}"], "others may read or change"),
        ([listen, f"--tls-cert={cert}", f"--tls-key={pki / 'carol.key'}"], "no key for the certificate"),
        ([listen, f"--tls-cert={tokens}", f"--tls-key={key}"], "has no certificate"),
        ([listen, "--socket-mode=rw"], "permissions in octal"),
    ):
        done = start(*flags)
        assert done.returncode != 0 and why in done.stderr, done.stderr


def test_insecure_is_for_networks_that_are_trusted(tmp_path):
    with serving(tmp_path, None, "--insecure", listen="0.0.0.0:0") as (_, address):
        session_of(address)
        # But nobody in particular is no administrator.
        assert "a caller without a name is none" in control(address, "cache", "clear").stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_users_of_one_machine():
    """Others get in if the socket's mode says so, and see and end what is theirs."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        program = shutil.copy(CONTROL, folder)  # where others find it
        with Daemon(Path(folder), "--devices=null") as daemon, tensord.connect(daemon.address) as client:
            socket = Path(daemon.address.removeprefix("unix:"))
            assert stat.S_IMODE(socket.stat().st_mode) == 0o600
            assert control(daemon.address, "status", user=NOBODY, program=program).returncode == 1
            assert control(daemon.address, "status").returncode == 0
        with Daemon(Path(folder), "--devices=null", "--socket-mode=0666") as daemon:
            assert stat.S_IMODE(socket.stat().st_mode) == 0o666
            with tensord.connect(daemon.address) as client:
                held = Tensor([1.0]).realize()
                sessions = control(daemon.address, "sessions", user=NOBODY, program=program).stdout
                assert "session-1" in sessions and "root" not in sessions and "python" not in sessions
                assert "root" in control(daemon.address, "sessions").stdout
                for command in (["cache", "clear"], ["sessions", "kill", "session-1"]):
                    refused = control(daemon.address, *command, user=NOBODY, program=program)
                    assert refused.returncode == 1 and "is for administrators" in refused.stderr
                client.synchronize()
                assert control(daemon.address, "cache", "clear").returncode == 0
                assert control(daemon.address, "sessions", "kill", "session-1").returncode == 0
                with pytest.raises(tensord.TensordError, match="session-1 was ended by 'root'"):
                    held.numpy()
        with Daemon(Path(folder), "--devices=null", "--socket-mode=0666", "--admin-users=nobody") as daemon:
            assert control(daemon.address, "cache", "clear", user=NOBODY, program=program).returncode == 0
