"""Size: the shape of a tensor, as PyTorch names it."""

from __future__ import annotations

import math
from typing import Any


class Size(tuple[int, ...]):
    """A tuple of sizes that knows how many elements they make: Size([2, 3]).numel() is 6. shape gives plain tuples, which
    are equal to it."""

    __slots__ = ()

    def numel(self) -> int:
        return math.prod(self)

    def __repr__(self) -> str:
        return f"tensord.Size({list(self)})"

    def __add__(self, other: Any) -> Size:
        return Size(tuple(self) + tuple(other))

    def __getitem__(self, index: Any) -> Any:
        item = super().__getitem__(index)
        return Size(item) if isinstance(index, slice) else item


__all__ = ["Size"]
