"""Signal processing under PyTorch's names (torch.signal)."""

from __future__ import annotations

from tensord.signal import windows

__all__ = ["windows"]
