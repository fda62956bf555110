"""The older name of func.functional_call, as torch.nn.utils.stateless."""

from __future__ import annotations

from tensord.func import functional_call

__all__ = ["functional_call"]
