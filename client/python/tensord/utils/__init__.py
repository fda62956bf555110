"""torch.utils: loading data, and values that are computed again for derivatives."""

from __future__ import annotations

from tensord.utils import checkpoint, data

__all__ = ["checkpoint", "data"]
