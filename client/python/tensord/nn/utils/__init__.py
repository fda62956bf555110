"""torch.nn.utils: gradients and parameters as a whole, parameters that are computed from others, layers that are made
one, and sequences of different lengths (rnn)."""

from __future__ import annotations

from tensord.nn.utils import parametrizations, parametrize, prune, rnn, stateless
from tensord.nn.utils.fusion import (
    fuse_conv_bn_eval,
    fuse_conv_bn_weights,
    fuse_linear_bn_eval,
    fuse_linear_bn_weights,
)
from tensord.nn.utils.hooks import remove_spectral_norm, remove_weight_norm, spectral_norm, weight_norm
from tensord.nn.utils.skip import skip_init
from tensord.nn.utils.whole import (
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
    parameters_to_vector,
    vector_to_parameters,
)

__all__ = [
    "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "fuse_conv_bn_eval", "fuse_conv_bn_weights",
    "fuse_linear_bn_eval", "fuse_linear_bn_weights", "get_total_norm", "parameters_to_vector", "parametrizations",
    "parametrize", "prune", "remove_spectral_norm", "remove_weight_norm", "rnn", "skip_init", "spectral_norm", "stateless",
    "vector_to_parameters", "weight_norm",
]  # fmt: skip
