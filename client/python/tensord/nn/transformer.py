"""The layers of "Attention is all you need". Sequences are [length, batch, d_model], or with batch_first [batch, length,
d_model]; the batch may be missing. Masks are those of MultiheadAttention, and an is_causal beside a mask only says what
the mask is."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any, Optional, Union

from _tensord import Tensor

from tensord.creation import full
from tensord.dtypes import DTypeLike
from tensord.errors import InvalidArgumentError
from tensord.nn import functional as F, init
from tensord.nn.attention import MultiheadAttention
from tensord.nn.container import ModuleList
from tensord.nn.dropout import Dropout
from tensord.nn.linear import Linear
from tensord.nn.module import Module
from tensord.nn.norm import LayerNorm

Activation = Union[str, Callable[[Tensor], Tensor]]


def _relu(x: Tensor) -> Tensor:
    return x.relu()


_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": _relu, "gelu": F.gelu}


def _activation(activation: Activation) -> Callable[[Tensor], Tensor]:
    if isinstance(activation, Module) or inspect.isfunction(activation):
        return activation
    if not isinstance(activation, str):
        return lambda x: activation(x)  # methods of C++, as Tensor.relu, can't be copied with the layer
    if activation not in _ACTIVATIONS:
        raise InvalidArgumentError(f"the activation is 'relu', 'gelu' or a function, not '{activation}'")
    return _ACTIVATIONS[activation]


class _Layer(Module):
    """What encoder and decoder layers share: parts in residual branches, each with a norm and a dropout."""

    _attentions: tuple[str, ...] = ()
    self_attn: MultiheadAttention

    def __init__(self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
                 activation: Activation = "relu", layer_norm_eps: float = 1e-5, batch_first: bool = False,
                 norm_first: bool = False, bias: bool = True, device: Optional[str] = None,
                 dtype: Optional[DTypeLike] = None) -> None:
        super().__init__()
        for name in self._attentions:
            setattr(self, name, MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first,
                                                   device=device, dtype=dtype))
        self.linear1 = Linear(d_model, dim_feedforward, bias, device, dtype)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, device, dtype)
        self.norm_first = norm_first
        branches = range(1, len(self._attentions) + 2)
        for i in branches:
            setattr(self, f"norm{i}", LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype))
        for i in branches:
            setattr(self, f"dropout{i}", Dropout(dropout))
        self.activation = _activation(activation)

    def _branch(self, i: int, x: Tensor, part: Callable[[Tensor], Tensor]) -> Tensor:
        norm, dropout = getattr(self, f"norm{i}"), getattr(self, f"dropout{i}")
        y: Tensor = x + dropout(part(norm(x))) if self.norm_first else norm(x + dropout(part(x)))
        return y

    def _feed_forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.linear2(self.dropout(self.activation(self.linear1(x))))
        return y

    def _attend(self, attention: Module, x: Tensor, memory: Tensor, mask: Optional[Tensor],
                padding: Optional[Tensor]) -> Tensor:
        y: Tensor = attention(x, memory, memory, attn_mask=mask, key_padding_mask=padding, need_weights=False)[0]
        return y


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward network: src to the same shape."""

    _attentions = ("self_attn",)

    def forward(self, src: Tensor, src_mask: Optional[Tensor] = None, src_key_padding_mask: Optional[Tensor] = None,
                is_causal: bool = False) -> Tensor:
        x = self._branch(1, src, lambda x: self._attend(self.self_attn, x, x, src_mask, src_key_padding_mask))
        return self._branch(2, x, self._feed_forward)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to a memory, and a feed-forward network: tgt to the same shape."""

    _attentions = ("self_attn", "multihead_attn")
    multihead_attn: MultiheadAttention

    def forward(self, tgt: Tensor, memory: Tensor, tgt_mask: Optional[Tensor] = None,
                memory_mask: Optional[Tensor] = None, tgt_key_padding_mask: Optional[Tensor] = None,
                memory_key_padding_mask: Optional[Tensor] = None, tgt_is_causal: bool = False,
                memory_is_causal: bool = False) -> Tensor:
        x = self._branch(1, tgt, lambda x: self._attend(self.self_attn, x, x, tgt_mask, tgt_key_padding_mask))
        x = self._branch(2, x, lambda x: self._attend(self.multihead_attn, x, memory, memory_mask,
                                                      memory_key_padding_mask))
        return self._branch(3, x, self._feed_forward)


class _Stack(Module):
    def __init__(self, layer: Module, num_layers: int, norm: Optional[Module]) -> None:
        super().__init__()
        self.layers = ModuleList(copy.deepcopy(layer) for _ in range(num_layers))
        self.num_layers, self.norm = num_layers, norm

    def _through(self, x: Tensor, *args: Any, **options: Any) -> Tensor:
        for layer in self.layers:
            x = layer(x, *args, **options)
        return x if self.norm is None else self.norm(x)


class TransformerEncoder(_Stack):
    """num_layers copies of a layer, and a norm. The last two arguments are about PyTorch's kernels and change nothing."""

    def __init__(self, encoder_layer: Module, num_layers: int, norm: Optional[Module] = None,
                 enable_nested_tensor: bool = True, mask_check: bool = True) -> None:
        super().__init__(encoder_layer, num_layers, norm)

    def forward(self, src: Tensor, mask: Optional[Tensor] = None, src_key_padding_mask: Optional[Tensor] = None,
                is_causal: Optional[bool] = None) -> Tensor:
        return self._through(src, src_mask=mask, src_key_padding_mask=src_key_padding_mask)


class TransformerDecoder(_Stack):
    """num_layers copies of a layer, and a norm."""

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Optional[Module] = None) -> None:
        super().__init__(decoder_layer, num_layers, norm)

    def forward(self, tgt: Tensor, memory: Tensor, tgt_mask: Optional[Tensor] = None,
                memory_mask: Optional[Tensor] = None, tgt_key_padding_mask: Optional[Tensor] = None,
                memory_key_padding_mask: Optional[Tensor] = None, tgt_is_causal: Optional[bool] = None,
                memory_is_causal: bool = False) -> Tensor:
        return self._through(tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask,
                             tgt_key_padding_mask=tgt_key_padding_mask, memory_key_padding_mask=memory_key_padding_mask)


class Transformer(Module):
    """An encoder of src and a decoder of tgt that attends to it; gives the shape of tgt."""

    def __init__(self, d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6, num_decoder_layers: int = 6,
                 dim_feedforward: int = 2048, dropout: float = 0.1, activation: Activation = "relu",
                 custom_encoder: Optional[Module] = None, custom_decoder: Optional[Module] = None,
                 layer_norm_eps: float = 1e-5, batch_first: bool = False, norm_first: bool = False, bias: bool = True,
                 device: Optional[str] = None, dtype: Optional[DTypeLike] = None) -> None:
        super().__init__()
        options = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias,
                   device, dtype)

        def norm() -> LayerNorm:
            return LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)

        self.encoder: Module = custom_encoder or TransformerEncoder(TransformerEncoderLayer(*options),
                                                                    num_encoder_layers, norm())
        self.decoder: Module = custom_decoder or TransformerDecoder(TransformerDecoderLayer(*options),
                                                                    num_decoder_layers, norm())
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)

    def forward(self, src: Tensor, tgt: Tensor, src_mask: Optional[Tensor] = None, tgt_mask: Optional[Tensor] = None,
                memory_mask: Optional[Tensor] = None, src_key_padding_mask: Optional[Tensor] = None,
                tgt_key_padding_mask: Optional[Tensor] = None, memory_key_padding_mask: Optional[Tensor] = None,
                src_is_causal: Optional[bool] = None, tgt_is_causal: Optional[bool] = None,
                memory_is_causal: bool = False) -> Tensor:
        for name, x in (("src", src), ("tgt", tgt)):
            if x.shape[-1] != self.d_model:
                raise InvalidArgumentError(f"Transformer: {name} of shape {list(x.shape)} for d_model {self.d_model}")
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask)
        y: Tensor = self.decoder(tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask,
                                 tgt_key_padding_mask=tgt_key_padding_mask,
                                 memory_key_padding_mask=memory_key_padding_mask)
        return y

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Optional[str] = None,
                                        dtype: Optional[DTypeLike] = None) -> Tensor:
        """[sz, sz]: -inf above the diagonal, so that a place sees those before it and itself."""
        mask = full((sz, sz), float("-inf"), dtype=dtype).triu(1)
        return mask if device is None else mask.to(device=device)
