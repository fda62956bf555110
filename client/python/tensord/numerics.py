"""How strictly programs keep to floating-point arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tensord.connection import current


@contextmanager
def fast_math(mode: bool = True) -> Iterator[None]:
    """with fast_math(): ...

    Programs that are built in the block, and captured functions that are called there, may simplify floats as if they were
    real numbers: x * 0 is 0 and x / x is 1 whatever x is, and sums and products with constants are reordered. It is a
    setting of the current client, hence of all threads that use it.
    """
    client = current()
    before = client.fast_math
    client.fast_math = mode
    try:
        yield
    finally:
        client.fast_math = before
