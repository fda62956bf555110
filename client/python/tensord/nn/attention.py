"""Attention of several heads."""

from __future__ import annotations

from typing import Optional

from _tensord import Tensor

from tensord.dtypes import DTypeLike
from tensord.errors import InvalidArgumentError
from tensord.nn import functional as F, init
from tensord.nn.linear import Linear
from tensord.nn.module import Module
from tensord.nn.parameter import Parameter, empty_parameter


class MultiheadAttention(Module):
    """forward(query [queries, batch, embed], key [keys, batch, kdim], value [keys, batch, vdim]) gives the output
    [queries, batch, embed], and the weights [batch, queries, keys] averaged over the heads, or None. With batch_first the
    batch is axis 0; it may be missing.

    Masks are PyTorch's: True in key_padding_mask [batch, keys] and attn_mask [queries, keys] or [batch * heads, queries,
    keys] is what must not be seen; floats are added. The projections are in_proj_weight [3 * embed, embed], or with kdim
    or vdim q_proj_weight, k_proj_weight, v_proj_weight, and out_proj.
    """

    in_proj_weight: Optional[Parameter]
    in_proj_bias: Optional[Parameter]
    bias_k: Optional[Parameter]
    bias_v: Optional[Parameter]

    def __init__(self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True,
                 add_bias_kv: bool = False, add_zero_attn: bool = False, kdim: Optional[int] = None,
                 vdim: Optional[int] = None, batch_first: bool = False, device: Optional[str] = None,
                 dtype: Optional[DTypeLike] = None) -> None:
        super().__init__()
        if embed_dim < 1 or num_heads < 1 or embed_dim % num_heads:
            raise InvalidArgumentError(f"MultiheadAttention: embed_dim {embed_dim} in num_heads {num_heads}")
        self.embed_dim, self.num_heads, self.dropout, self.batch_first = embed_dim, num_heads, dropout, batch_first
        self.kdim, self.vdim = kdim or embed_dim, vdim or embed_dim
        self.head_dim, self.add_zero_attn = embed_dim // num_heads, add_zero_attn

        def parameter(*shape: int) -> Parameter:
            return empty_parameter(*shape, dtype=dtype, device=device)

        together = self.kdim == embed_dim and self.vdim == embed_dim
        self.q_proj_weight = None if together else parameter(embed_dim, embed_dim)
        self.k_proj_weight = None if together else parameter(embed_dim, self.kdim)
        self.v_proj_weight = None if together else parameter(embed_dim, self.vdim)
        self.in_proj_weight = parameter(3 * embed_dim, embed_dim) if together else None
        self.in_proj_bias = parameter(3 * embed_dim) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias, device, dtype)
        self.bias_k = parameter(1, 1, embed_dim) if add_bias_kv else None
        self.bias_v = parameter(1, 1, embed_dim) if add_bias_kv else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                init.zeros_(bias)
        for extra in (self.bias_k, self.bias_v):
            if extra is not None:
                init.xavier_normal_(extra)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Optional[Tensor] = None,
                need_weights: bool = True, attn_mask: Optional[Tensor] = None, average_attn_weights: bool = True,
                is_causal: bool = False) -> tuple[Tensor, Optional[Tensor]]:
        if is_causal and attn_mask is None:
            raise InvalidArgumentError("MultiheadAttention: is_causal says that attn_mask is causal, so it needs one; see "
                                       "Transformer.generate_square_subsequent_mask")
        flip = self.batch_first and query.ndim == 3
        if flip:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        output, weights = F.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias, self.bias_k,
            self.bias_v, self.add_zero_attn, self.dropout, self.out_proj.weight, self.out_proj.bias,
            training=self.training, key_padding_mask=key_padding_mask, need_weights=need_weights, attn_mask=attn_mask,
            use_separate_proj_weight=self.in_proj_weight is None, q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight, v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights)
        return output.transpose(0, 1) if flip else output, weights
