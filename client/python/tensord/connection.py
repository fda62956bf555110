"""Finding a daemon: the address given, the environment's, the user's own, or a private one."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Optional, Union

import _tensord
from _tensord import Client

from tensord.errors import FailedPreconditionError, TensordError, UnavailableError

if TYPE_CHECKING:
    from tensord.private import PrivateDaemon


# Threads that need a client at the same time share the first one's.
_connecting = threading.RLock()


class TLS(NamedTuple):
    """How to connect to a daemon that other machines reach, by PEM files.

    `ca` is of who signs the daemon's certificate, the system's if None; `cert` and `key` are the
    client's own, where the daemon wants one; `server_name` is what the daemon's certificate says,
    where that isn't the host of the address.
    """

    ca: Union[str, os.PathLike[str], None] = None
    cert: Union[str, os.PathLike[str], None] = None
    key: Union[str, os.PathLike[str], None] = None
    server_name: Optional[str] = None


def connect(address: Optional[str] = None, *, device: Optional[str] = None,
            timeout: Optional[float] = None, connect_timeout: float = 10.0,
            priority: Literal["interactive", "normal", "batch"] = "normal",
            lease: Optional[float] = None, tls: Union[bool, TLS] = False, token: Optional[str] = None) -> Client:
    """Opens a session and makes it the one that new tensors belong to.

    Without an address it is the one in TENSORD_ADDRESS; else the user's default socket, if a daemon
    answers there; else that of a private daemon, started here and ending with this process.
    `timeout` is of every call that waits for data. `priority` is the part of a device that the
    session gets while others want it as well: 16 for "interactive" to 4 for "normal" to 1 for
    "batch". InvalidArgumentError if it is none of these. `lease` is how many seconds the session
    survives a broken connection, at most what the daemon allows, which is what None asks for; 0: none.
    Calls wait meanwhile, and the logger "tensord" tells of it. After that the session's tensors are
    lost (UnavailableError), and new ones are made in a new session. `with connect() as client:` closes
    it at the end.

    For an address HOST:PORT of a daemon with certificates, `tls` says how to check it and what to
    show (True: the system's certificates), and `token` who calls; a token needs TLS and so asks
    for it. What isn't given is taken from TENSORD_TLS, TENSORD_TLS_CA, TENSORD_TLS_CERT,
    TENSORD_TLS_KEY, TENSORD_TLS_SERVER_NAME and TENSORD_TOKEN. UnavailableError if the two don't
    agree on TLS, UnauthenticatedError if the daemon doesn't know the caller. On unix sockets the
    kernel says who calls, and neither is used.

    A connection belongs to its process. In one that is forked afterwards neither it nor another
    one can be used, which is a ConnectionError: start processes by multiprocessing's "spawn".
    """
    _tensord._check_fork()
    security = {} if token is None else {"token": token}
    if tls:
        security["tls"] = "true"
        if isinstance(tls, TLS):
            security |= {field: os.fspath(value) for field, value in tls._asdict().items() if value is not None}
    address = address or os.environ.get("TENSORD_ADDRESS") or None
    if address is not None:
        client = _connect(address, device, timeout, connect_timeout, priority, lease, security)
    else:
        client = (_connect_to_default(device, timeout, priority, lease)
                  or _connect(_private_daemon(), device, timeout, connect_timeout, priority, lease))
    _tensord._set_current(client)
    return client


_refused: Optional[str] = None


def refuse(why: str) -> None:
    """From now on this process connects only by a call of connect(); what needs a client without is an error."""
    global _refused
    _refused = why


def current() -> Client:
    """The client that new tensors belong to; connects if there is none yet."""
    with _connecting:
        client = _tensord._current()
        if client is None and _refused:
            raise FailedPreconditionError(_refused)
        return client or connect()


def counters() -> dict[str, Any]:
    """What the connection has cost so far: kernels launched and compiled, bytes, device seconds."""
    return current().counters()


def bill() -> dict[str, float]:
    """What the session has cost: device, compile and byte seconds, and bytes moved.

    `device_seconds` is what its runs took on devices, by their clocks; `byte_seconds` the memory of its
    tensors, times how long it held them; `compile_seconds` scheduling and compiling, summed over
    threads; `bytes_not_sent` uploads whose bytes the daemon had already; `bytes_spilled` tensors, anybody's,
    that left a full device so that this session had memory, and `bytes_restored` its own that were brought
    back. `Client.counters()` of a client that was closed is the bill of the whole session.
    """
    cost = counters()
    cost["compile_seconds"] += cost["schedule_seconds"]
    names = ("device_seconds", "byte_seconds", "compile_seconds", "bytes_uploaded", "bytes_downloaded",
             "bytes_not_sent", "bytes_spilled", "bytes_restored")
    return {name: cost[name] for name in names}


def explain() -> dict[str, Any]:
    """What the session waits for, why its last programs had to be compiled, who holds the memory.

    `waits_for` is "nothing", or what holds up the first command that the daemon has not executed:
    "turn" (runs on the device, and in line before it), "program" (it is being compiled), "compiles" (as
    many as may be are), "tensor" (an operand on its way), "readers" (of a tensor that it would
    overwrite), "runs" (as many as may be are on the device, or they have the memory), "memory" (of the
    device, which is full: others' tensors are being moved away). `what` names the command, `queues` its place in the line of each device: what is ahead, of this session and of
    others, and an estimate of when it starts. `misses` are the last programs that had no plan, each
    with the nearest one that the same user had, and in what they differ. `memory` has the holders of
    each device's memory by session.
    """
    return current().explain()


def memory() -> dict[str, dict[str, Any]]:
    """Who holds the memory of each device: bytes by session, and what there is in all."""
    return {device["device"]: {key: value for key, value in device.items() if key != "device"}
            for device in explain()["memory"]}


def synchronize() -> None:
    """Waits until the device has done everything that was sent to it."""
    current().synchronize()


def _connect(address: str, device: Optional[str], timeout: Optional[float],
             connect_timeout: float, priority: str, lease: Optional[float],
             security: Optional[dict[str, str]] = None) -> Client:
    version = ".".join(str(part) for part in sys.version_info[:3])
    name = f"python {version}, {Path(sys.argv[0] or 'interactive').name}"
    _log_lines()
    return _tensord._connect(address, device or "", name, connect_timeout, timeout, priority, lease, security or {})


_logging: Optional[threading.Thread] = None


def _log_lines() -> None:
    """Starts the thread that logs what the client has to say of connections that break."""
    global _logging
    with _connecting:
        if _logging is None:
            _logging = threading.Thread(target=_log, name="tensord-log", daemon=True)
            _logging.start()


def _log() -> None:
    import logging

    logger = logging.getLogger("tensord")
    while (line := _tensord._next_line()) is not None:
        logger.warning("%s", line)


def _connect_to_default(device: Optional[str], timeout: Optional[float],
                        priority: str, lease: Optional[float]) -> Optional[Client]:
    address = _tensord.default_address()
    if not Path(address.removeprefix("unix:")).is_socket():
        return None
    try:
        return _connect(address, device, timeout, 1.0, priority, lease)
    except UnavailableError:
        return None  # a socket that a dead daemon left


def _binary() -> str:
    given = os.environ.get("TENSORD_SERVER")
    if given:
        return given
    # In a checkout, the package is client/python/tensord and Bazel's result bazel-bin/server.
    built = Path(__file__).resolve().parents[3] / "bazel-bin" / "server" / "tensord"
    if built.is_file():
        return str(built)
    beside = Path(__file__).resolve().parent / "tensord"
    if beside.is_file():
        return str(beside)
    from shutil import which

    found = which("tensord")
    if found:
        return found
    raise UnavailableError(
        "no daemon answers and none can be started: give connect() an address, or set "
        "TENSORD_ADDRESS, or install the daemon, or build it by: bazel build //server:tensord")


_daemon: Optional[PrivateDaemon] = None


def _private_daemon() -> str:
    global _daemon
    if _daemon is None or not _daemon.alive:
        from tensord.private import PrivateDaemon

        _daemon = PrivateDaemon(_binary())
    return _daemon.address


def _forked() -> None:
    # The connection, the daemon and its folder are the parent's.
    global _connecting, _daemon
    _connecting = threading.RLock()
    _tensord._set_current(None)
    if _daemon is not None:
        _daemon.leave()
        _daemon = None


os.register_at_fork(after_in_child=_forked)


@atexit.register
def _close() -> None:
    client = _tensord._current()
    if client is not None:
        client.close()
        _tensord._set_current(None)
    if _logging is not None and _logging.is_alive():  # not in a fork
        _tensord._stop_lines()
        _logging.join()
    if _daemon is not None:
        _daemon.close()


def _enter(self: Client) -> Client:
    return self


def _exit(self: Client, *exception: object) -> None:
    self.close()
    if _tensord._current() is self:
        _tensord._set_current(None)


setattr(Client, "__enter__", _enter)
setattr(Client, "__exit__", _exit)

__all__ = ["Client", "TLS", "TensordError", "bill", "connect", "counters", "current", "explain", "memory",
           "synchronize"]
