"""torch.nn.utils: gradients and parameters as a whole, and parameters that are computed from others."""

from __future__ import annotations

from tensord.nn.utils import parametrizations, parametrize
from tensord.nn.utils.whole import (
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
    parameters_to_vector,
    vector_to_parameters,
)

__all__ = [
    "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm", "parameters_to_vector",
    "parametrizations", "parametrize", "vector_to_parameters",
]  # fmt: skip
