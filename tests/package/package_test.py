"""What tools/package/build makes, installed where nothing else is: first the wheel alone, then the daemon beside it.

The binaries are those of everyday, so that they need not be compiled a second time. Tests go from one state of the clean
root to the next, in the order in which they stand here.
"""

import pathlib
import re
import shlex
import subprocess
import sys

import pytest
from clean_root import CACHE

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOCKET = "unix:/run/tensord/tensord.sock"
NUMPY = re.search(r"^numpy==.*$", (ROOT / "tools/requirements.txt").read_text(), re.M)[0]
PYTHON = "/venv/bin/python"
UNITS = ["tensord.service", "tensord.socket"]
VERSION = re.search(r'kVersion = "(.*)"', (ROOT / "core/base/version.h").read_text())[1]


@pytest.fixture(scope="module")
def packages(root):
    """In /packages of the clean root."""
    out = root.path / "packages"
    built = subprocess.run([ROOT / "tools/package/build", "--everyday", "--out", out], text=True, capture_output=True)
    assert built.returncode == 0, built.stdout + built.stderr
    return {file.suffix: file for file in out.iterdir()}


@pytest.fixture(scope="module")
def with_wheel(root, packages):
    """The wheel in a virtual environment, and NumPy, which it needs; no network, no sources."""
    wheels = CACHE / "wheels"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    if not list(wheels.glob(NUMPY.replace("==", "-") + "-*")):
        subprocess.run([*pip, "download", "--no-deps", "--only-binary=:all:", "--dest", wheels, NUMPY], check=True)
    for file in wheels.glob(NUMPY.replace("==", "-") + "-*"):
        (root.path / "packages" / file.name).write_bytes(file.read_bytes())
    root.run("python3", "-m", "venv", "/venv")
    root.run(PYTHON, "-m", "pip", "install", "--no-index", "--only-binary=:all:", "--find-links", "/packages", "tensord")
    return root


@pytest.fixture(scope="module")
def with_daemon(with_wheel, packages):
    """The Debian package, with what it depends on."""
    with_wheel.apt_get("update")
    with_wheel.apt_get("install", f"/packages/{packages['.deb'].name}")
    return with_wheel


@pytest.fixture(scope="module")
def daemon(with_daemon):
    """Running, by the unit's command and as its user, in the folders that systemd would have made."""
    folders = "/run/tensord", "/var/cache/tensord", "/var/lib/tensord"
    with_daemon.run("install", "-d", "-m", "700", "-o", "tensord", "-g", "tensord", *folders)
    (with_daemon.path / "run/tensord").chmod(0o755)
    unit = (with_daemon.path / "lib/systemd/system/tensord.service").read_text()
    variables = re.search(r"^Environment=(.*)$", unit.replace("%C", "/var/cache").replace("%S", "/var/lib"), re.M)[1]
    start = shlex.split(re.search(r"^ExecStart=(.*)$", unit, re.M)[1])
    command = with_daemon.command(
        "runuser", "-u", "tensord", "--", "env", *variables.split(), "TENSORD_METRICS_LISTEN=localhost:0",
        *start, "--listen", SOCKET, "--ready-fd", "1", "--exit-with-parent",
    )  # fmt: skip
    log = with_daemon.path / "daemon.log"
    with open(log, "w") as file:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file, text=True)
    try:
        assert process.stdout.readline().strip() == SOCKET, log.read_text()
        yield with_daemon
    finally:
        process.stdin.close()
        process.wait(60)


# A systemd that says what it was asked for.
SYSTEMCTL = """#!/bin/sh
echo "$@" >>/systemctl.log
case "$*" in *is-enabled*) echo enabled ;; esac
"""


@pytest.fixture
def asked_of_systemd(with_daemon):
    """A function: to start and stop what, since it was called before."""
    log, program = with_daemon.path / "systemctl.log", with_daemon.path / "usr/bin/systemctl"
    real, running = program.with_name("systemctl.real"), with_daemon.path / "run/systemd/system"
    program.rename(real)
    program.write_text(SYSTEMCTL)
    program.chmod(0o755)
    running.mkdir(parents=True)

    def asked():
        lines = log.read_text().splitlines()
        log.unlink()
        return [line.removeprefix("--quiet --system ") for line in lines if re.search(r"\b(start|restart|stop)\b", line)]

    yield asked
    running.rmdir()
    real.rename(program)


def test_the_wheel_needs_no_compiler_and_no_other_library(with_wheel):
    for tool in ("cc", "gcc", "g++", "c++", "clang", "ld", "tensord"):
        assert with_wheel.run("sh", "-c", f"command -v {tool}", check=False).returncode != 0, tool
    (extension,) = with_wheel.path.glob("venv/lib/python3*/site-packages/_tensord.*.so")
    libraries = with_wheel.run("ldd", "/" + str(extension.relative_to(with_wheel.path))).stdout
    assert "not found" not in libraries
    assert re.search(r"libgrpc-\S+ => /venv/\S+/tensord.libs/", libraries)
    terms = " ".join(file.name for file in with_wheel.path.glob("venv/lib/python3*/site-packages/tensord-*.dist-info/licenses/**/*"))
    for library in "libgrpc", "libprotobuf", "libssl", "libabsl":
        assert re.search(rf"\b{library}[+\d]", terms), library


def test_the_wheel_says_what_it_is(with_wheel):
    code = "import importlib.metadata, tensord; print(tensord.__version__, importlib.metadata.version('tensord'))"
    assert with_wheel.run(PYTHON, "-c", code).stdout.split() == [VERSION, VERSION]
    (site,) = with_wheel.path.glob("venv/lib/python3*/site-packages")
    for file in ("tensord/py.typed", "tensord/functional.pyi", "_tensord-stubs/__init__.pyi"):
        assert (site / file).is_file(), file


def test_the_wheel_without_a_daemon_says_what_is_missing(with_wheel):
    done = with_wheel.run(PYTHON, "-c", "import tensord; tensord.ones(2).numpy()", check=False)
    assert "UnavailableError: no daemon answers and none can be started" in done.stderr


def test_lintian_finds_no_fault(packages):
    subprocess.run([ROOT / "tools/install_packages", "lintian"], check=True, capture_output=True)
    found = subprocess.run(["lintian", "--allow-root", packages[".deb"]], text=True, capture_output=True)
    assert not found.stdout.strip(), found.stdout


def test_the_package_brings_user_config_units_and_manuals(with_daemon):
    assert with_daemon.run("tensord", "--version").stdout.startswith(f"tensord {VERSION} ")
    assert with_daemon.run("id", "-un", "tensord").stdout == "tensord\n"
    conffiles = with_daemon.run("dpkg-query", "-W", "-f", "${Conffiles}", "tensord").stdout
    assert conffiles.split()[0] == "/etc/tensord/tensord.toml"
    for name in ("tensord.8", "tensorctl.1"):
        assert list(with_daemon.path.glob(f"usr/share/man/man*/{name}.gz")), name
    wants = with_daemon.path / "etc/systemd/system"
    assert (wants / "multi-user.target.wants/tensord.service").is_symlink()
    assert (wants / "sockets.target.wants/tensord.socket").is_symlink()
    checked = with_daemon.run("runuser", "-u", "tensord", "--", "env", "XDG_CACHE_HOME=/var/cache", "tensord", "--check-config")
    assert re.search(r'^metrics-listen = "localhost:9178" .*/etc/tensord/tensord.toml', checked.stdout, re.M)


def test_systemd_finds_no_fault_in_the_units(with_daemon):
    done = with_daemon.run("systemd-analyze", "verify", "--man=no", *UNITS)
    assert "tensord" not in done.stdout + done.stderr
    # Ten times what it calls the exposure, of 100; the file says what is left out.
    with_daemon.run("systemd-analyze", "security", "--offline=true", "--threshold=20", "/lib/systemd/system/tensord.service")


def test_tensorctl_asks_the_daemon(daemon):
    listed = daemon.run("tensorctl", "--address", SOCKET, "devices").stdout
    assert "CPU:0" in listed


def test_the_wheel_computes_by_the_daemon(daemon):
    code = f"""
import tensord
tensord.connect({SOCKET!r})
x = tensord.Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
loss = (x @ x).sum()
print(loss.item(), loss.gradient(x)[0].tolist())
tensord.publish("x", x.detach())
"""
    # The gradient of x[i, k] is the sum of row k and that of column i.
    assert daemon.run(PYTHON, "-c", code).stdout == "54.0 [[7.0, 11.0], [9.0, 13.0]]\n"
    for kept in "cache", "lib":  # what it compiled, and what is published
        assert list((daemon.path / "var" / kept / "tensord").iterdir()), kept


def test_the_wheel_starts_a_private_daemon_of_the_package(daemon):
    done = daemon.run(PYTHON, "-c", "import tensord; print((tensord.arange(4) * 2).tolist())")
    assert done.stdout == "[0, 2, 4, 6]\n"
    assert "started a private daemon" in done.stderr


def test_an_upgrade_keeps_the_configuration_and_restarts_the_daemon_at_its_socket(with_daemon, packages, asked_of_systemd):
    config, newer = with_daemon.path / "etc/tensord/tensord.toml", with_daemon.path / "packages/newer"
    changed = config.read_text() + 'log-level = "debug"\n'
    config.write_text(changed)
    subprocess.run(["dpkg-deb", "--raw-extract", packages[".deb"], newer], check=True)
    control = newer / "DEBIAN/control"
    control.write_text(control.read_text().replace(f"Version: {VERSION}\n", f"Version: {VERSION}+next\n"))
    subprocess.run(["dpkg-deb", "--build", "-Znone", "--root-owner-group", newer, f"{newer}.deb"], check=True, capture_output=True)
    with_daemon.run("dpkg", "--install", "/packages/newer.deb")
    assert with_daemon.run("dpkg-query", "-W", "-f", "${Version}", "tensord").stdout == f"{VERSION}+next"
    assert config.read_text() == changed
    assert asked_of_systemd() == ["restart tensord.service", "start tensord.socket"]


def test_purging_leaves_nothing(with_daemon, asked_of_systemd):
    for folder in "var/cache/tensord/kernels", "var/lib/tensord":
        (with_daemon.path / folder).mkdir(parents=True, exist_ok=True)
    with_daemon.apt_get("purge", "tensord")
    left = with_daemon.run("find", "/etc", "/usr", "/lib", "/var/cache", "/var/lib", "-name", "*tensord*").stdout
    assert left == ""
    assert sorted(asked_of_systemd()) == ["stop tensord.service", "stop tensord.socket"]
