"""Traces: what a session did and when, for ui.perfetto.dev and chrome://tracing; docs/tracing.md.

    with tensord.trace("step.json"):
        step(x).numpy()
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Optional, Union, overload

import _tensord
from _tensord import Client, Tensor

from tensord.connection import current
from tensord.errors import TensordError


@contextmanager
def session_trace(path: Union[str, os.PathLike[str]], *, client: Optional[Client] = None) -> Iterator[None]:
    """Writes what a session does in the block to a file; tensord.trace(path) is the same."""
    running = _tensord._start_trace(client or current(), os.fspath(path))
    try:
        yield
    except BaseException:
        try:
            running.stop()
        except TensordError as error:  # the block's own error says more
            warnings.warn(f"trace: {error}", RuntimeWarning, stacklevel=3)
        raise
    if lost := running.stop():
        warnings.warn(f"trace: '{os.fspath(path)}' lacks the first {lost} runs and transfers: trace less at once",
                      RuntimeWarning, stacklevel=3)  # fmt: skip


@overload
def trace(input: Tensor) -> Tensor: ...
@overload
def trace(input: Union[str, os.PathLike[str]], *, client: Optional[Client] = None) -> AbstractContextManager[None]: ...
def trace(
    input: Union[Tensor, str, os.PathLike[str]], *, client: Optional[Client] = None
) -> Union[Tensor, AbstractContextManager[None]]:
    """with trace("step.json"): ...    Of a tensor, the sum of its diagonal: Tensor.trace.

    Writes what the session of `client`, or of the current one, does in the block, on any thread, to one JSON file: the
    client's calls, their way to the daemon, the wait for earlier work, for compilation and for a turn, and each kernel
    by the device's own clock. The end of the block waits for the runs that it sent. Kernels are timed only in the block.

    InvalidArgumentError if the file can't be written; FailedPreconditionError if the session is traced already;
    ResourceExhaustedError if the daemon traces 16 sessions; UnimplementedError by an older daemon. If the session is
    lost meanwhile, the file has what the client knows, and the error says so. A RuntimeWarning if there was more than the
    daemon keeps of one trace, 16384 runs and transfers: then the first are missing.
    """
    if isinstance(input, Tensor):
        return input.trace()
    return session_trace(input, client=client)


__all__ = ["session_trace", "trace"]
