"""Whether layers behave as in training: batch norm by the batch's statistics, dropout active."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_training: ContextVar[bool] = ContextVar("tensord_training", default=False)


@contextmanager
def training(mode: bool = True) -> Iterator[None]:
    """with training(): ... step ..."""
    token = _training.set(mode)
    try:
        yield
    finally:
        _training.reset(token)


def is_training() -> bool:
    return _training.get()
