"""A normalisation by running statistics as part of the layer before it."""

from __future__ import annotations

import copy
from typing import Optional, TypeVar, Union

from _tensord import Tensor

from tensord.creation import ones_like, zeros_like
from tensord.errors import InvalidArgumentError
from tensord.nn.conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from tensord.nn.linear import Linear
from tensord.nn.norm import BatchNorm
from tensord.nn.parameter import Parameter

Conv = TypeVar("Conv", bound=Union[Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d])


def _fused(weight: Tensor, bias: Optional[Tensor], mean: Tensor, var: Tensor, eps: float, gain: Optional[Tensor],
           shift: Optional[Tensor], axis: int) -> tuple[Parameter, Parameter]:
    """Of a weight with outputs along an axis. In the dtypes that are there."""
    scale = (ones_like(mean) if gain is None else gain) * (var + eps).rsqrt()
    moved = (zeros_like(mean) if bias is None else bias) - mean
    new_bias = moved * scale + (zeros_like(mean) if shift is None else shift)
    new_weight = weight * scale.reshape(*(-1 if i == axis else 1 for i in range(weight.ndim)))
    return (Parameter(new_weight.detach().cast(weight.dtype).realize(), weight.requires_grad),
            Parameter(new_bias.detach().cast((weight if bias is None else bias).dtype).realize(),
                      (weight if bias is None else bias).requires_grad))


def fuse_conv_bn_weights(conv_w: Tensor, conv_b: Optional[Tensor], bn_rm: Tensor, bn_rv: Tensor, bn_eps: float,
                         bn_w: Optional[Tensor], bn_b: Optional[Tensor],
                         transpose: bool = False) -> tuple[Parameter, Parameter]:
    """Weight and bias of a convolution (`transpose`: of a transposed one) and what follows it as one."""
    return _fused(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 1 if transpose else 0)


def fuse_linear_bn_weights(linear_w: Tensor, linear_b: Optional[Tensor], bn_rm: Tensor, bn_rv: Tensor, bn_eps: float,
                           bn_w: Optional[Tensor], bn_b: Optional[Tensor]) -> tuple[Parameter, Parameter]:
    """Weight and bias of a linear layer and what follows it as one."""
    return _fused(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 0)


def _statistics(what: str, layer: Union[Conv, Linear], bn: BatchNorm) -> tuple[Tensor, Tensor]:
    if layer.training or bn.training:
        raise InvalidArgumentError(f"{what}: only layers that do not train are fused; call eval() first")
    if bn.running_mean is None or bn.running_var is None:
        raise InvalidArgumentError(f"{what}: {bn!r} has no running statistics")
    return bn.running_mean, bn.running_var


def fuse_conv_bn_eval(conv: Conv, bn: BatchNorm, transpose: bool = False) -> Conv:
    """A copy of a convolution that does what `bn` does after it as well, in evaluation."""
    mean, var = _statistics("fuse_conv_bn_eval", conv, bn)
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(fused.weight, fused.bias, mean, var, bn.eps, bn.weight, bn.bias,
                                                    transpose)
    return fused


def fuse_linear_bn_eval(linear: Linear, bn: BatchNorm) -> Linear:
    """A copy of a linear layer that does what `bn` does after it as well, in evaluation. Either has one feature for one
    of the other, or `bn` has a single one."""
    mean, var = _statistics("fuse_linear_bn_eval", linear, bn)
    if bn.num_features not in (1, linear.out_features):
        raise InvalidArgumentError(f"fuse_linear_bn_eval: {bn.num_features} features after {linear.out_features} outputs; "
                                   "they are equal, or one")
    fused = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(fused.weight, fused.bias, mean, var, bn.eps, bn.weight, bn.bias)
    return fused
