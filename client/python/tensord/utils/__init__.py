"""torch.utils: loading data."""

from __future__ import annotations

from tensord.utils import data

__all__ = ["data"]
