"""torch.nn.functional: functions of layers, in PyTorch's order of arguments and with its defaults.

Methods of Tensor with the same name may differ in both, which their docstrings say. What is the same in both is not here
but found in tensord.functional.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from inspect import signature
from typing import Any, Optional, Union

from _tensord import Tensor

from tensord.creation import rand
from tensord.errors import InvalidArgumentError

Size = Union[int, Sequence[int]]
MaybeSize = Union[int, None, Sequence[Optional[int]]]


def _rank(what: str, weight: Tensor, axes: int) -> None:
    if weight.ndim != axes + 2:
        raise InvalidArgumentError(
            f"{what}: weight {list(weight.shape)}: it needs {axes + 2} axes, {axes} of them spatial")


def _sizes(what: str, size: Any, axes: int) -> tuple[Any, ...]:
    """One per axis; one number serves all."""
    sizes = (size,) * axes if size is None or isinstance(size, int) else tuple(size)
    if len(sizes) == 1:
        sizes *= axes
    if len(sizes) != axes:
        raise InvalidArgumentError(f"{what}: {len(sizes)} numbers for {axes} axes")
    return sizes


def _kept(what: str, size: MaybeSize, axes: int) -> list[int]:
    """The same where None keeps a size, which -1 says from there on."""
    return [-1 if n is None else n for n in _sizes(what, size, axes)]


# ---- products

def linear(input: Tensor, weight: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    """input [.., in] by weight [out, in] to [.., out], as in PyTorch; Tensor.linear takes [in, out]."""
    return input.linear(weight.transpose(0, 1), bias) if weight.ndim == 2 else _dot(input, weight, bias)


def _dot(input: Tensor, weight: Tensor, bias: Optional[Tensor]) -> Tensor:
    y = input.matmul(weight)
    return y if bias is None else y + bias


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    """input1 [.., in1], input2 [.., in2] by weight [out, in1, in2] to [.., out]."""
    return input1.bilinear(input2, weight, bias)


# ---- convolution

def _conv(axes: int, input: Tensor, weight: Tensor, bias: Optional[Tensor], stride: Size,
          padding: Union[Size, str], dilation: Size, groups: int) -> Tensor:
    _rank(f"conv{axes}d", weight, axes)
    return input.conv2d(weight, bias, groups, stride, dilation, padding)


def conv1d(input: Tensor, weight: Tensor, bias: Optional[Tensor] = None, stride: Size = 1,
           padding: Union[Size, str] = 0, dilation: Size = 1, groups: int = 1) -> Tensor:
    """input [batch, in, length], weight [out, in / groups, taps]. padding may be "same" or "valid"."""
    return _conv(1, input, weight, bias, stride, padding, dilation, groups)


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """conv1d of input [length, batch, in] by weight [taps, in, out]: [length, batch, out]."""
    return conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad).permute(2, 0, 1)


def conv2d(input: Tensor, weight: Tensor, bias: Optional[Tensor] = None, stride: Size = 1,
           padding: Union[Size, str] = 0, dilation: Size = 1, groups: int = 1) -> Tensor:
    """input [batch, in, height, width], weight [out, in / groups, taps, taps]; arguments in PyTorch's order, which is
    not that of Tensor.conv2d. padding may be "same" or "valid"."""
    return _conv(2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(input: Tensor, weight: Tensor, bias: Optional[Tensor] = None, stride: Size = 1,
           padding: Union[Size, str] = 0, dilation: Size = 1, groups: int = 1) -> Tensor:
    """input [batch, in, depth, height, width], weight [out, in / groups, taps, taps, taps]."""
    return _conv(3, input, weight, bias, stride, padding, dilation, groups)


def _conv_transpose(axes: int, input: Tensor, weight: Tensor, bias: Optional[Tensor], stride: Size,
                    padding: Size, output_padding: Size, groups: int, dilation: Size) -> Tensor:
    what = f"conv_transpose{axes}d"
    _rank(what, weight, axes)
    strides, dilations = _sizes(what, stride, axes), _sizes(what, dilation, axes)
    for extra, s, d in zip(_sizes(what, output_padding, axes), strides, dilations):
        if not 0 <= extra < max(s, d):
            raise InvalidArgumentError(
                f"{what}: output_padding {extra} must be less than the stride {s} or the dilation {d}")
    return input.conv_transpose2d(weight, bias, groups, strides, dilations, padding, output_padding)


def conv_transpose1d(input: Tensor, weight: Tensor, bias: Optional[Tensor] = None, stride: Size = 1,
                     padding: Size = 0, output_padding: Size = 0, groups: int = 1,
                     dilation: Size = 1) -> Tensor:
    """input [batch, in, length], weight [in, out / groups, taps]."""
    return _conv_transpose(1, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose2d(input: Tensor, weight: Tensor, bias: Optional[Tensor] = None, stride: Size = 1,
                     padding: Size = 0, output_padding: Size = 0, groups: int = 1,
                     dilation: Size = 1) -> Tensor:
    """input [batch, in, height, width], weight [in, out / groups, taps, taps]; arguments in PyTorch's order, which is
    not that of Tensor.conv_transpose2d."""
    return _conv_transpose(2, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose3d(input: Tensor, weight: Tensor, bias: Optional[Tensor] = None, stride: Size = 1,
                     padding: Size = 0, output_padding: Size = 0, groups: int = 1,
                     dilation: Size = 1) -> Tensor:
    """input [batch, in, depth, height, width], weight [in, out / groups, taps, taps, taps]."""
    return _conv_transpose(3, input, weight, bias, stride, padding, output_padding, groups, dilation)


def unfold(input: Tensor, kernel_size: Size, dilation: Size = 1, padding: Size = 0, stride: Size = 1) -> Tensor:
    """The windows of [batch, channels, height, width] as columns: [batch, channels * taps, windows]. Tensor.unfold is
    another function, the windows along one axis."""
    return input.im2col(kernel_size, dilation, padding, stride)


def fold(input: Tensor, output_size: Size, kernel_size: Size, dilation: Size = 1, padding: Size = 0,
         stride: Size = 1) -> Tensor:
    """The adjoint of unfold: columns put back to their windows; what lies at one place is added."""
    return input.col2im(output_size, kernel_size, dilation, padding, stride)


# ---- pooling

def _max_pool(axes: int, input: Tensor, kernel_size: Size, stride: Optional[Size], padding: Size,
              dilation: Size, ceil_mode: bool, return_indices: bool) -> Any:
    kernel = _sizes(f"max_pool{axes}d", kernel_size, axes)
    return input.max_pool2d(kernel, stride, dilation, padding, ceil_mode, return_indices)


def max_pool1d(input: Tensor, kernel_size: Size, stride: Optional[Size] = None, padding: Size = 0,
               dilation: Size = 1, ceil_mode: bool = False, return_indices: bool = False) -> Any:
    """The largest element of each window over the last axis; with return_indices also its int32 place."""
    return _max_pool(1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool2d(input: Tensor, kernel_size: Size, stride: Optional[Size] = None, padding: Size = 0,
               dilation: Size = 1, ceil_mode: bool = False, return_indices: bool = False) -> Any:
    """The largest element of each window over the last two axes; with return_indices also its int32 place in the
    flattened plane. Tensor.max_pool2d takes dilation before padding."""
    return _max_pool(2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool3d(input: Tensor, kernel_size: Size, stride: Optional[Size] = None, padding: Size = 0,
               dilation: Size = 1, ceil_mode: bool = False, return_indices: bool = False) -> Any:
    """The largest element of each window over the last three axes; with return_indices also its int32 place."""
    return _max_pool(3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_unpool1d(input: Tensor, indices: Tensor, kernel_size: Size, stride: Optional[Size] = None,
                 padding: Size = 0, output_size: Optional[Sequence[int]] = None) -> Tensor:
    """Puts what max_pool1d chose back to its place, zeros elsewhere."""
    return input.max_unpool2d(indices, _sizes("max_unpool1d", kernel_size, 1), stride, 1, padding, output_size)


def max_unpool2d(input: Tensor, indices: Tensor, kernel_size: Size, stride: Optional[Size] = None,
                 padding: Size = 0, output_size: Optional[Sequence[int]] = None) -> Tensor:
    """Puts what max_pool2d chose back to its place, zeros elsewhere."""
    return input.max_unpool2d(indices, _sizes("max_unpool2d", kernel_size, 2), stride, 1, padding, output_size)


def max_unpool3d(input: Tensor, indices: Tensor, kernel_size: Size, stride: Optional[Size] = None,
                 padding: Size = 0, output_size: Optional[Sequence[int]] = None) -> Tensor:
    """Puts what max_pool3d chose back to its place, zeros elsewhere."""
    return input.max_unpool2d(indices, _sizes("max_unpool3d", kernel_size, 3), stride, 1, padding, output_size)


def _avg_pool(axes: int, input: Tensor, kernel_size: Size, stride: Optional[Size], padding: Size,
              ceil_mode: bool, count_include_pad: bool, divisor_override: Optional[int]) -> Tensor:
    kernel = _sizes(f"avg_pool{axes}d", kernel_size, axes)
    return input.avg_pool2d(kernel, stride, 1, padding, ceil_mode, count_include_pad, divisor_override)


def avg_pool1d(input: Tensor, kernel_size: Size, stride: Optional[Size] = None, padding: Size = 0,
               ceil_mode: bool = False, count_include_pad: bool = True) -> Tensor:
    """The mean of each window over the last axis."""
    return _avg_pool(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


def avg_pool2d(input: Tensor, kernel_size: Size, stride: Optional[Size] = None, padding: Size = 0,
               ceil_mode: bool = False, count_include_pad: bool = True,
               divisor_override: Optional[int] = None) -> Tensor:
    """The mean of each window over the last two axes. Tensor.avg_pool2d takes dilation before padding."""
    return _avg_pool(2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def avg_pool3d(input: Tensor, kernel_size: Size, stride: Optional[Size] = None, padding: Size = 0,
               ceil_mode: bool = False, count_include_pad: bool = True,
               divisor_override: Optional[int] = None) -> Tensor:
    """The mean of each window over the last three axes."""
    return _avg_pool(3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def lp_pool1d(input: Tensor, norm_type: float, kernel_size: Size, stride: Optional[Size] = None,
              ceil_mode: bool = False) -> Tensor:
    """The norm_type-th root of the sum of norm_type-th powers in each window over the last axis."""
    return input.lp_pool2d(norm_type, _sizes("lp_pool1d", kernel_size, 1), stride, ceil_mode)


def lp_pool2d(input: Tensor, norm_type: float, kernel_size: Size, stride: Optional[Size] = None,
              ceil_mode: bool = False) -> Tensor:
    """The norm_type-th root of the sum of norm_type-th powers in each window over the last two axes."""
    return input.lp_pool2d(norm_type, _sizes("lp_pool2d", kernel_size, 2), stride, ceil_mode)


def lp_pool3d(input: Tensor, norm_type: float, kernel_size: Size, stride: Optional[Size] = None,
              ceil_mode: bool = False) -> Tensor:
    """The norm_type-th root of the sum of norm_type-th powers in each window over the last three axes."""
    return input.lp_pool2d(norm_type, _sizes("lp_pool3d", kernel_size, 3), stride, ceil_mode)


def adaptive_avg_pool1d(input: Tensor, output_size: MaybeSize) -> Tensor:
    """Means of windows that share out the last axis evenly into output_size."""
    return input.adaptive_avg_pool(_kept("adaptive_avg_pool1d", output_size, 1))


def adaptive_avg_pool2d(input: Tensor, output_size: MaybeSize) -> Tensor:
    """Means of windows that share out the last two axes into output_size; None keeps a size."""
    return input.adaptive_avg_pool(_kept("adaptive_avg_pool2d", output_size, 2))


def adaptive_avg_pool3d(input: Tensor, output_size: MaybeSize) -> Tensor:
    """Means of windows that share out the last three axes into output_size; None keeps a size."""
    return input.adaptive_avg_pool(_kept("adaptive_avg_pool3d", output_size, 3))


def _adaptive_max_pool(axes: int, input: Tensor, output_size: MaybeSize, return_indices: bool) -> Any:
    values, indices = input.adaptive_max_pool(_kept(f"adaptive_max_pool{axes}d", output_size, axes))
    return (values, indices) if return_indices else values


def adaptive_max_pool1d(input: Tensor, output_size: MaybeSize, return_indices: bool = False) -> Any:
    """Largest elements of windows that share out the last axis; with return_indices also their places."""
    return _adaptive_max_pool(1, input, output_size, return_indices)


def adaptive_max_pool2d(input: Tensor, output_size: MaybeSize, return_indices: bool = False) -> Any:
    """Largest elements of windows that share out the last two axes; with return_indices also their places."""
    return _adaptive_max_pool(2, input, output_size, return_indices)


def adaptive_max_pool3d(input: Tensor, output_size: MaybeSize, return_indices: bool = False) -> Any:
    """Largest elements of windows that share out the last three axes; with return_indices also their places."""
    return _adaptive_max_pool(3, input, output_size, return_indices)


def _with_indices(function: Callable[..., Any]) -> Callable[..., tuple[Tensor, Tensor]]:
    """The pooling that gives the places as well, whatever return_indices says."""

    @wraps(function)
    def both(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        bound = signature(function).bind(*args, **kwargs)
        bound.arguments["return_indices"] = True
        found: tuple[Tensor, Tensor] = function(*bound.args, **bound.kwargs)
        return found

    return both


def _fractional_max_pool(axes: int, input: Tensor, kernel_size: Size, output_size: Optional[Size],
                         output_ratio: Any, return_indices: bool,
                         random_samples: Optional[Tensor]) -> Any:
    what = f"fractional_max_pool{axes}d"
    if (output_size is None) == (output_ratio is None):
        raise InvalidArgumentError(f"{what}: give output_size or output_ratio, and not both")
    if output_size is None:
        ratios = (output_ratio,) * axes if isinstance(output_ratio, float) else tuple(output_ratio)
        output_size = [int(size * ratio) for size, ratio in zip(input.shape[-axes:], ratios)]
    x = input if input.ndim == axes + 2 else input.unsqueeze(0)
    if random_samples is None:
        random_samples = rand(*x.shape[:2], axes)
    values, indices = x.fractional_max_pool(_sizes(what, kernel_size, axes), _sizes(what, output_size, axes),
                                            random_samples)
    if x.ndim != input.ndim:
        values, indices = values.squeeze(0), indices.squeeze(0)
    return (values, indices) if return_indices else values


def fractional_max_pool2d(input: Tensor, kernel_size: Size, output_size: Optional[Size] = None,
                          output_ratio: Any = None, return_indices: bool = False,
                          _random_samples: Optional[Tensor] = None) -> Any:
    """Max pooling of [batch, channels, height, width] in windows at pseudo-random places."""
    return _fractional_max_pool(2, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)


def fractional_max_pool3d(input: Tensor, kernel_size: Size, output_size: Optional[Size] = None,
                          output_ratio: Any = None, return_indices: bool = False,
                          _random_samples: Optional[Tensor] = None) -> Any:
    """Max pooling of [batch, channels, depth, height, width] in windows at pseudo-random places."""
    return _fractional_max_pool(3, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)


max_pool1d_with_indices = _with_indices(max_pool1d)
max_pool2d_with_indices = _with_indices(max_pool2d)
max_pool3d_with_indices = _with_indices(max_pool3d)
adaptive_max_pool1d_with_indices = _with_indices(adaptive_max_pool1d)
adaptive_max_pool2d_with_indices = _with_indices(adaptive_max_pool2d)
adaptive_max_pool3d_with_indices = _with_indices(adaptive_max_pool3d)
fractional_max_pool2d_with_indices = _with_indices(fractional_max_pool2d)
fractional_max_pool3d_with_indices = _with_indices(fractional_max_pool3d)


# ---- attention

def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Optional[Tensor] = None,
                                 dropout_p: float = 0.0, is_causal: bool = False,
                                 scale: Optional[float] = None, enable_gqa: bool = False) -> Tensor:
    """Arguments in PyTorch's order; dropout_p applies whether training or not. See the method of Tensor."""
    return query.scaled_dot_product_attention(key, value, attn_mask, dropout_p, is_causal, enable_gqa, scale, True)


# ---- resampling

def interpolate(input: Tensor, size: Optional[Size] = None, scale_factor: Any = None, mode: str = "nearest",
                align_corners: Optional[bool] = None, recompute_scale_factor: Optional[bool] = None,
                antialias: bool = False) -> Tensor:
    """input [batch, channels, spatial..] in another size, or scaled. Modes are "nearest", "nearest-exact", "area" for
    any number of axes, "linear" for one, "bilinear" and "bicubic" for two, "trilinear" for three."""
    axes = input.ndim - 2
    wanted = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3}.get(mode, axes)
    if axes < 1 or wanted != axes:
        raise InvalidArgumentError(f"interpolate: mode '{mode}' is not for {axes} spatial axes; "
                                   "linear, bilinear, trilinear are for 1, 2, 3")
    if (size is None) == (scale_factor is None):
        raise InvalidArgumentError("interpolate: give size or scale_factor, and not both")
    if align_corners is not None and mode in ("nearest", "nearest-exact", "area"):
        raise InvalidArgumentError(f"interpolate: align_corners has no meaning for mode '{mode}'")
    scale: Sequence[float] = ()
    if size is None:
        factors = (scale_factor,) * axes if isinstance(scale_factor, (int, float)) else tuple(scale_factor)
        size = [int(n * factor) for n, factor in zip(input.shape[2:], _sizes("interpolate", factors, axes))]
        if not recompute_scale_factor and mode != "area":
            scale = [float(factor) for factor in factors]
    return input.interpolate(_sizes("interpolate", size, axes), mode, bool(align_corners), antialias, scale)


def upsample(input: Tensor, size: Optional[Size] = None, scale_factor: Any = None, mode: str = "nearest",
             align_corners: Optional[bool] = None) -> Tensor:
    """The same as interpolate."""
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Optional[Size] = None, scale_factor: Any = None) -> Tensor:
    """interpolate with mode "nearest"."""
    return interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(input: Tensor, size: Optional[Size] = None, scale_factor: Any = None) -> Tensor:
    """interpolate with mode "bilinear" and align_corners=True."""
    return interpolate(input, size, scale_factor, "bilinear", align_corners=True)


def grid_sample(input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros",
                align_corners: Optional[bool] = None) -> Tensor:
    """input [batch, channels, spatial..] at the places grid [batch, out.., axes] in [-1, 1], the last axis first."""
    return input.grid_sample(grid, mode, padding_mode, bool(align_corners))


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: Optional[bool] = None) -> Tensor:
    """The grid of the map theta [batch, axes, axes + 1] for images of that size (batch, channels, spatial..)."""
    return theta.affine_grid(size, bool(align_corners))


def multi_head_attention_forward(
        query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: int, num_heads: int,
        in_proj_weight: Optional[Tensor], in_proj_bias: Optional[Tensor], bias_k: Optional[Tensor],
        bias_v: Optional[Tensor], add_zero_attn: bool, dropout_p: float, out_proj_weight: Tensor,
        out_proj_bias: Optional[Tensor], training: bool = True, key_padding_mask: Optional[Tensor] = None,
        need_weights: bool = True, attn_mask: Optional[Tensor] = None, use_separate_proj_weight: bool = False,
        q_proj_weight: Optional[Tensor] = None, k_proj_weight: Optional[Tensor] = None,
        v_proj_weight: Optional[Tensor] = None, static_k: Optional[Tensor] = None, static_v: Optional[Tensor] = None,
        average_attn_weights: bool = True, is_causal: bool = False) -> tuple[Tensor, Optional[Tensor]]:
    """Attention of several heads: query [queries, batch, size], key and value [keys, batch, ..], or without batch.
    Masks are PyTorch's: True in attn_mask and key_padding_mask is what must not be seen, floats are added."""
    if embed_dim_to_check != query.shape[-1] or embed_dim_to_check % num_heads:
        raise InvalidArgumentError(
            f"multi_head_attention_forward: a query of size {query.shape[-1]} for size {embed_dim_to_check} in "
            f"{num_heads} heads")
    batched = query.ndim == 3
    if not batched:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    if use_separate_proj_weight:
        weights: Sequence[Optional[Tensor]] = (q_proj_weight, k_proj_weight, v_proj_weight)
    else:
        if in_proj_weight is None:
            raise InvalidArgumentError("multi_head_attention_forward: in_proj_weight is missing")
        weights = in_proj_weight.chunk(3)
    biases = (None, None, None) if in_proj_bias is None else in_proj_bias.chunk(3)
    projected = []
    for x, weight, bias in zip((query, key, value), weights, biases):
        if weight is None:
            raise InvalidArgumentError("multi_head_attention_forward: a projection's weight is missing")
        projected.append(linear(x, weight, bias))
    q, k, v = projected
    batch, queries = q.shape[1], q.shape[0]
    if bias_k is not None and bias_v is not None:
        k = Tensor.cat([k, bias_k.expand(1, batch, bias_k.shape[-1])], dim=0)
        v = Tensor.cat([v, bias_v.expand(1, batch, bias_v.shape[-1])], dim=0)

    def heads(x: Tensor) -> Tensor:  # [length, batch, size] to [batch, heads, length, size / heads]
        return x.reshape(x.shape[0], batch, num_heads, -1).permute(1, 2, 0, 3)

    q = heads(q)
    k = heads(k) if static_k is None else static_k.reshape(batch, num_heads, *static_k.shape[1:])
    v = heads(v) if static_v is None else static_v.reshape(batch, num_heads, *static_v.shape[1:])
    added = k.shape[2] - key.shape[0] if static_k is None else 0
    if add_zero_attn:
        k, v = Tensor.cat([k, k[:, :, :1] * 0], dim=2), Tensor.cat([v, v[:, :, :1] * 0], dim=2)
        added += 1
    mask = None
    for each, shape in ((attn_mask, (-1, num_heads)), (key_padding_mask, (batch, 1, 1))):
        if each is None:
            continue
        if each.dtype.name == "bool":
            each = each.where(float("-inf"), each.cast(q.dtype) * 0)
        if shape[0] == -1:
            each = each.reshape(batch, num_heads, *each.shape[1:]) if each.ndim == 3 else each
        else:
            each = each.reshape(*shape, each.shape[-1])
        if added:
            each = each.pad((0, added))
        mask = each if mask is None else mask + each
    p = dropout_p if training else 0.0
    scores_needed = need_weights
    if not scores_needed:
        y = scaled_dot_product_attention(q, k, v, mask, p, is_causal and mask is None)
        weights_seen = None
    else:
        scores = q.matmul(k.transpose(-1, -2)) * (1 / (q.shape[-1] ** 0.5))
        weights_seen = (scores if mask is None else scores + mask).softmax(-1)
        if p:
            weights_seen = weights_seen.dropout(p, True)
        y = weights_seen.matmul(v)
    y = linear(y.permute(2, 0, 1, 3).reshape(queries, batch, -1), out_proj_weight, out_proj_bias)
    if weights_seen is not None and average_attn_weights:
        weights_seen = weights_seen.mean(1)
    if not batched:
        y = y.squeeze(1)
        weights_seen = None if weights_seen is None else weights_seen.squeeze(0)
    return y, weights_seen


def __getattr__(name: str) -> Any:
    if name.startswith("__"):  # asked for by `from .. import`, when tensord.functional can't be made yet
        raise AttributeError(name)
    from tensord import functional  # it takes functions from here

    if name in functional.__all__ or (name.endswith("_") and name[:-1] in functional.__all__):
        return getattr(Tensor, name) if name.endswith("_") else getattr(functional, name)
    raise AttributeError(f"tensord.nn.functional has no function '{name}'")


# ---- activations, whose defaults here are PyTorch's

def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """x times the normal distribution's share below x: exactly, or 'tanh', which is the default of Tensor.gelu."""
    return input.gelu(approximate)


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta x)) / beta, and x itself where beta x is above the threshold."""
    return input.softplus(beta, threshold)


def softmax2d(input: Tensor) -> Tensor:
    """softmax over the channels of [.., channels, height, width]."""
    return input.softmax(-3)


# ---- normalisation

def rms_norm(input: Tensor, normalized_shape: Size, weight: Optional[Tensor] = None,
             eps: Optional[float] = None) -> Tensor:
    """x over the root of its mean square, over the last axes, which have the given sizes."""
    if eps is None:
        eps = 2.220446049250313e-16 if input.dtype == "float64" else 1.1920928955078125e-07
    return input.rms_norm(weight, eps, normalized_shape)


def _more_than_one(name: str, input: Tensor, axes: Iterable[int], what: str) -> None:
    """ValueError if one value would be normalised by itself, which leaves nothing of it."""
    sizes = [input.shape[axis] for axis in axes]
    if all(size == 1 for size in sizes):
        raise InvalidArgumentError(f"{name}: an input of shape {list(input.shape)} has one value {what}; statistics of "
                                   "the input need more")


def batch_norm(input: Tensor, running_mean: Optional[Tensor], running_var: Optional[Tensor],
               weight: Optional[Tensor] = None, bias: Optional[Tensor] = None, training: bool = False,
               momentum: float = 0.1, eps: float = 1e-5) -> Tensor:
    """By the running statistics, or while training by the batch's own, which then move the running ones."""
    if not training:
        if running_mean is None or running_var is None:
            raise InvalidArgumentError("batch_norm: without running statistics it can only train")
        return input.batch_norm(running_mean, running_var, weight, bias, eps)
    _more_than_one("batch_norm", input, [i for i in range(input.ndim) if i != 1], "for each channel")
    y, mean, var = input.batch_norm_train(weight, bias, eps)
    for running, now in ((running_mean, mean), (running_var, var)):
        if running is not None:
            running.assign((running * (1 - momentum) + now.detach() * momentum).cast(running.dtype))
    return y


def instance_norm(input: Tensor, running_mean: Optional[Tensor] = None, running_var: Optional[Tensor] = None,
                  weight: Optional[Tensor] = None, bias: Optional[Tensor] = None, use_input_stats: bool = True,
                  momentum: float = 0.1, eps: float = 1e-5) -> Tensor:
    """Each channel of each sample by its own statistics, or by running ones."""
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    axes = tuple(range(2, input.ndim))
    _more_than_one("instance_norm", input, axes, "for each channel of a sample")
    for running, now in ((running_mean, input.mean(axes)), (running_var, input.var(axes))):
        if running is not None:
            running.assign((running * (1 - momentum) + now.detach().mean(0) * momentum).cast(running.dtype))
    return input.instance_norm(weight, bias, eps)


# ---- dropout: without `training`, active inside `with tensord.training()`

def dropout1d(input: Tensor, p: float = 0.5, training: Optional[bool] = None) -> Tensor:
    """Whole channels of [batch, channels, length] dropped at random."""
    return input.feature_dropout(p, training)


def dropout2d(input: Tensor, p: float = 0.5, training: Optional[bool] = None) -> Tensor:
    """Whole channels of [batch, channels, height, width] dropped at random."""
    return input.feature_dropout(p, training)


def dropout3d(input: Tensor, p: float = 0.5, training: Optional[bool] = None) -> Tensor:
    """Whole channels of [batch, channels, depth, height, width] dropped at random."""
    return input.feature_dropout(p, training)


# ---- tables

def embedding_bag(input: Tensor, weight: Tensor, offsets: Optional[Tensor] = None, max_norm: Optional[float] = None,
                  norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False,
                  per_sample_weights: Optional[Tensor] = None, include_last_offset: bool = False,
                  padding_idx: Optional[int] = None) -> Tensor:
    """Rows of `weight` reduced over bags of indices. With scale_grad_by_freq the gradient of a row is divided by how
    often it is read. Gradients are dense, whatever `sparse` says, and max_norm leaves the table as it is."""
    if offsets is not None and include_last_offset:
        offsets = offsets[:-1]
    return input.embedding_bag(weight, offsets, mode, per_sample_weights, padding_idx, max_norm, norm_type,
                               scale_grad_by_freq)


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """A new last axis with 1 at the label. Without a number of classes it is read from the data."""
    return tensor.one_hot(int(tensor.max().item()) + 1 if num_classes == -1 else num_classes)


# ---- losses

def _ignored(target: Tensor, ignore_index: Optional[int]) -> Optional[int]:
    """PyTorch's default, -100, means nothing where the target is probabilities."""
    return None if ignore_index == -100 and target.dtype.is_floating_point else ignore_index


def nll_loss(input: Tensor, target: Tensor, weight: Optional[Tensor] = None, ignore_index: Optional[int] = -100,
             reduction: str = "mean") -> Tensor:
    """Of logarithms of probabilities and integer labels; the classes are axis 1."""
    return input.nll_loss(target, weight, ignore_index, reduction)


def cross_entropy(input: Tensor, target: Tensor, weight: Optional[Tensor] = None, ignore_index: Optional[int] = -100,
                  reduction: str = "mean", label_smoothing: float = 0.0) -> Tensor:
    """Of logits and integer labels, or probabilities of the shape of the logits; the classes are axis 1."""
    return input.cross_entropy(target, weight, _ignored(target, ignore_index), reduction, label_smoothing)


def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Optional[Tensor] = None,
                                     reduction: str = "mean", pos_weight: Optional[Tensor] = None) -> Tensor:
    """Of the logits of probabilities."""
    return input.binary_cross_entropy_with_logits(target, pos_weight, reduction, weight)


def triplet_margin_with_distance_loss(anchor: Tensor, positive: Tensor, negative: Tensor, *,
                                      distance_function: Optional[Callable[[Tensor, Tensor], Tensor]] = None,
                                      margin: float = 1.0, swap: bool = False, reduction: str = "mean") -> Tensor:
    """max(0, margin + d(anchor, positive) - d(anchor, negative)) for any distance."""
    distance = distance_function or Tensor.pairwise_distance
    far = distance(anchor, negative)
    if swap:
        far = far.minimum(distance(positive, negative))
    loss = (distance(anchor, positive) - far + margin).relu()
    if reduction not in ("mean", "sum", "none"):
        raise InvalidArgumentError(f"reduction is 'mean', 'sum' or 'none', not '{reduction}'")
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0,
             reduction: str = "mean", zero_infinity: bool = False) -> Tensor:
    """Connectionist temporal classification of log_probs [time, n, classes] or [time, classes].

    Targets are padded rows [n, longest], or all labels in a row, which needs the lengths as data. Lengths are tensors
    or numbers.
    """
    single = log_probs.ndim == 2
    if single:
        log_probs = log_probs.unsqueeze(1)
    lengths = target_lengths if isinstance(target_lengths, Tensor) else Tensor(target_lengths, "int64")
    steps = input_lengths if isinstance(input_lengths, Tensor) else Tensor(input_lengths, "int64")
    lengths, steps = lengths.reshape(-1), steps.reshape(-1)
    if targets.ndim == 1:
        rows, start, counts = [], 0, lengths.tolist()
        longest = max(counts, default=0)
        for count in counts:
            rows.append(targets[start:start + count].pad((0, longest - count)))
            start += count
        targets = Tensor.stack(rows)
    loss = log_probs.ctc_loss(targets, steps, lengths, blank, reduction, zero_infinity)
    return loss.reshape() if single and reduction == "none" else loss
