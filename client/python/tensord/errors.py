"""Exceptions: one class per status code of the daemon, each also the built-in kind it resembles."""

from __future__ import annotations

from typing import Optional


class TensordError(Exception):
    """What tensord raises. The message names the thing, the rule and the values."""


class CancelledError(TensordError):
    pass


class UnknownError(TensordError):
    pass


class InvalidArgumentError(TensordError, ValueError, RuntimeError):
    """The caller asked for something that has no meaning, such as shapes that do not fit.

    NumPy raises ValueError there and PyTorch RuntimeError: a handler for either catches it.
    """


class NumberOverflowError(InvalidArgumentError, OverflowError):
    """A number that the dtype lacks."""


class DeadlineExceededError(TensordError, TimeoutError):
    """The timeout passed. What was sent may still be done."""


class NotFoundError(TensordError, LookupError):
    pass


class AlreadyExistsError(TensordError):
    pass


class PermissionDeniedError(TensordError, PermissionError):
    pass


class ResourceExhaustedError(TensordError, MemoryError):
    """A limit of the daemon, of memory for example.

    `subject` is what there is not enough of ("session:session-3", "user:alice", "device:CPU:0"), with
    its `limit`, the `use` of it and what was `needed`. `retry_after` is in how many seconds it may work,
    None if waiting does not help. `holders` are the sessions that hold most of it, and how much. All
    of it is None for limits that are not shared.
    """

    subject: Optional[str] = None
    limit: Optional[int] = None
    use: Optional[int] = None
    needed: Optional[int] = None
    retry_after: Optional[float] = None
    holders: Optional[dict[str, int]] = None


class FailedPreconditionError(TensordError, RuntimeError):
    """Not possible in this state, such as reading data while a function is captured."""


class AbortedError(TensordError):
    pass


class OutOfRangeError(TensordError, IndexError):
    """An index outside of its axis."""


class UnimplementedError(TensordError, NotImplementedError):
    pass


class InternalError(TensordError, RuntimeError):
    """A fault of tensord's own."""


class UnavailableError(TensordError, ConnectionError):
    """No daemon, or the session with it is over."""


class DataLossError(TensordError):
    pass


class UnauthenticatedError(TensordError, PermissionError):
    pass


_BY_CODE: dict[int, type[TensordError]] = {
    1: CancelledError,
    2: UnknownError,
    3: InvalidArgumentError,
    4: DeadlineExceededError,
    5: NotFoundError,
    6: AlreadyExistsError,
    7: PermissionDeniedError,
    8: ResourceExhaustedError,
    9: FailedPreconditionError,
    10: AbortedError,
    11: OutOfRangeError,
    12: UnimplementedError,
    13: InternalError,
    14: UnavailableError,
    15: DataLossError,
    16: UnauthenticatedError,
}


def error_for(code: int) -> type[TensordError]:
    """The class for a status code of gRPC."""
    return _BY_CODE.get(code, UnknownError)
