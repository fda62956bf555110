"""A minimal system of this machine's release, in a folder: nothing is there but what a test installs.

It is made once, by mmdebstrap, and kept in the user's cache with the packages that are installed into copies of it.
"""

import os
import pathlib
import shutil
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "tensord"
# Components of the archive, and what is there besides required packages, of which Ubuntu's apt is none.
SYSTEMS = {
    "debian": ("main", "python3-venv,ca-certificates"),
    "ubuntu": ("main,universe", "apt,python3-venv,ca-certificates"),
}
KEPT_DAYS = 30

# Runs inside, with mounts and processes that end with the command.
_ENTER = """
root=$0 archives=$1
shift
mount -t proc proc "$root/proc"
mount --bind "$archives" "$root/var/cache/apt/archives"
exec chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"
"""


class CannotMake(Exception):
    """There can be no such system here; the message says why."""


class CleanRoot:
    """A copy of the minimal system, to be spoilt. Paths inside are `path / "etc"` outside."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self.archives = CACHE / "apt-archives"
        (self.archives / "partial").mkdir(parents=True, exist_ok=True)
        path.mkdir()
        subprocess.run(["tar", "-C", path, "-xpf", _image()], check=True)
        shutil.copy("/etc/resolv.conf", path / "etc/resolv.conf")

    def command(self, *command: str) -> list[str]:
        """What runs a command inside."""
        return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-ec", _ENTER,
                str(self.path), str(self.archives), *command]

    def run(self, *command: str, check: bool = True) -> subprocess.CompletedProcess:
        done = subprocess.run(self.command(*command), text=True, capture_output=True, stdin=subprocess.DEVNULL)
        assert not check or done.returncode == 0, f"{command}: status {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def apt_get(self, *arguments: str) -> None:
        self.run("apt-get", "-q", "-y", "--no-install-recommends", "-o", "APT::Sandbox::User=root", *arguments)


def _image() -> pathlib.Path:
    if os.geteuid() != 0:
        raise CannotMake("a clean root needs the rights of root, to mount and to change root")
    if shutil.which("apt-get") is None:
        raise CannotMake("a clean root is made of Debian's packages, and this system has no apt-get")
    release = dict(line.split("=", 1) for line in pathlib.Path("/etc/os-release").read_text().splitlines() if "=" in line)
    system, suite = release["ID"].strip('"'), release.get("VERSION_CODENAME", "").strip('"')
    if system not in SYSTEMS:
        raise CannotMake(f"a clean root is made for {' and '.join(SYSTEMS)}, not for {system}")
    components, included = SYSTEMS[system]
    image = CACHE / f"clean-root-{suite}-{included.replace(',', '-')}.tar"
    if image.exists() and image.stat().st_mtime > time.time() - KEPT_DAYS * 86400:
        return image
    part = image.with_suffix(f".{os.getpid()}.part.tar")
    for command in (
        [ROOT / "tools/install_packages", "mmdebstrap"],
        ["mmdebstrap", "--variant=minbase", f"--include={included}", f"--components={components}", suite, part],
    ):
        made = subprocess.run(command, text=True, capture_output=True, stdin=subprocess.DEVNULL)
        if made.returncode != 0:
            part.unlink(missing_ok=True)
            raise CannotMake(f"{command[0]} failed: {made.stderr.strip()[-2000:]}")
    part.rename(image)
    return image
