"""Layers: plain objects, called as functions. Their parameters are found by nn.state."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Union

from _tensord import Tensor

from tensord.creation import ones, uniform, zeros
from tensord.errors import InvalidArgumentError
from tensord.nn import functional, optim, state
from tensord.training import is_training

Size = Union[int, Sequence[int]]


class Linear:
    """x [.., in] to [.., out]. The weight is [out, in]."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        bound = 1 / math.sqrt(in_features)
        self.weight = uniform(out_features, in_features, low=-bound, high=bound,
                              requires_grad=True)
        self.bias = uniform(out_features, low=-bound, high=bound,
                            requires_grad=True) if bias else None

    def __call__(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.weight, self.bias)


class Conv2d:
    """x [batch, in, height, width]. The weight is [out, in / groups, height, width]."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: Size, stride: Size = 1,
                 padding: Size = 0, dilation: Size = 1, groups: int = 1, bias: bool = True) -> None:
        taps = (kernel_size, kernel_size) if isinstance(kernel_size, int) else tuple(kernel_size)
        if in_channels % groups or out_channels % groups:
            raise InvalidArgumentError(
                f"Conv2d: {in_channels} to {out_channels} channels in {groups} groups")
        self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups
        bound = 1 / math.sqrt(in_channels // groups * math.prod(taps))
        self.weight = uniform(out_channels, in_channels // groups, *taps, low=-bound, high=bound,
                              requires_grad=True)
        self.bias = uniform(out_channels, low=-bound, high=bound,
                            requires_grad=True) if bias else None

    def __call__(self, x: Tensor) -> Tensor:
        return functional.conv2d(x, self.weight, self.bias, self.stride, self.padding,
                                 self.dilation, self.groups)


class BatchNorm:
    """Normalises each channel (axis 1): by the batch inside `with training():`, which also updates
    the running statistics, and by these outside."""

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float = 0.1,
                 affine: bool = True, track_running_stats: bool = True) -> None:
        self.eps, self.momentum = eps, momentum
        self.weight = ones(num_features, requires_grad=True) if affine else None
        self.bias = zeros(num_features, requires_grad=True) if affine else None
        self.running_mean = zeros(num_features).clone() if track_running_stats else None
        self.running_var = ones(num_features).clone() if track_running_stats else None

    def __call__(self, x: Tensor) -> Tensor:
        mean, var = self.running_mean, self.running_var
        if mean is None or var is None:
            return x.batch_norm_train(self.weight, self.bias, self.eps)[0]
        if not is_training():
            return x.batch_norm(mean, var, self.weight, self.bias, self.eps)
        y, batch_mean, batch_var = x.batch_norm_train(self.weight, self.bias, self.eps)
        mean.assign(mean * (1 - self.momentum) + batch_mean.detach() * self.momentum)
        var.assign(var * (1 - self.momentum) + batch_var.detach() * self.momentum)
        return y


BatchNorm2d = BatchNorm


class LayerNorm:
    """Normalises over the last axes, those of normalized_shape."""

    def __init__(self, normalized_shape: Size, eps: float = 1e-5,
                 elementwise_affine: bool = True) -> None:
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else normalized_shape
        self.normalized_shape: tuple[int, ...] = tuple(shape)
        self.eps = eps
        self.weight = ones(*self.normalized_shape, requires_grad=True) if elementwise_affine else None
        self.bias = zeros(*self.normalized_shape, requires_grad=True) if elementwise_affine else None

    def __call__(self, x: Tensor) -> Tensor:
        return x.layer_norm(self.normalized_shape, self.weight, self.bias, self.eps)


class GroupNorm:
    """Normalises groups of channels."""

    def __init__(self, num_groups: int, num_channels: int, eps: float = 1e-5,
                 affine: bool = True) -> None:
        self.num_groups, self.eps = num_groups, eps
        self.weight = ones(num_channels, requires_grad=True) if affine else None
        self.bias = zeros(num_channels, requires_grad=True) if affine else None

    def __call__(self, x: Tensor) -> Tensor:
        return x.group_norm(self.num_groups, self.weight, self.bias, self.eps)


class RMSNorm:
    """Scales the last axis to a root mean square of one."""

    def __init__(self, dim: int, eps: float = 1e-6, elementwise_affine: bool = True) -> None:
        self.dim, self.eps = dim, eps
        self.weight = ones(dim, requires_grad=True) if elementwise_affine else None

    def __call__(self, x: Tensor) -> Tensor:
        return x.rms_norm(self.weight, self.eps)


class Embedding:
    """Rows of a table by index; a zero row for an index outside."""

    def __init__(self, num_embeddings: int, embedding_dim: int) -> None:
        bound = math.sqrt(6 / (num_embeddings + embedding_dim))
        self.weight = uniform(num_embeddings, embedding_dim, low=-bound, high=bound,
                              requires_grad=True)

    def __call__(self, index: Tensor) -> Tensor:
        return index.embedding(self.weight)


class Dropout:
    """Zeros with probability p inside `with training():`."""

    def __init__(self, p: float = 0.5) -> None:
        self.p: float = p

    def __call__(self, x: Tensor) -> Tensor:
        return x.dropout(self.p, is_training())


__all__ = [
    "BatchNorm", "BatchNorm2d", "Conv2d", "Dropout", "Embedding", "GroupNorm", "LayerNorm",
    "Linear", "RMSNorm", "functional", "optim", "state",
]  # fmt: skip
