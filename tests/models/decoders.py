"""Decoders of text in the shapes of GPT-2 and LLaMA, one token a call.

A call has the tokens [batch] at the position `at`, a tensord.Variable, and looks back by keys and values that are kept.
So one captured call serves all positions.
"""

import tensord
from tensord import nn
from tensord.nn import functional as F


class Cache:
    """Keys or values [batch, heads, longest, size] of the positions so far."""

    def __init__(self, *shape):
        self.rows = tensord.zeros(*shape).realize()

    def append(self, at, row):
        """row [batch, heads, 1, size]; returns those from the first position to this one."""
        self.rows[:, :, at:at + 1].assign(row)
        return self.rows[:, :, :at + 1]


class GPT2Block(nn.Module):
    def __init__(self, size, heads, batch, longest):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(size), nn.LayerNorm(size)
        self.c_attn, self.c_proj = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.c_fc, self.mlp_c_proj = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)
        self.keys, self.values = (Cache(batch, heads, longest, size // heads) for _ in range(2))

    def forward(self, x, at):
        q, k, v = (part.unflatten(-1, (self.heads, 1, -1)) for part in self.c_attn(self.ln_1(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, self.keys.append(at, k), self.values.append(at, v))
        x = x + self.c_proj(y.flatten(1))
        return x + self.mlp_c_proj(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class GPT2(nn.Module):
    """Tokens [batch] at a position to logits [batch, vocabulary] of the next ones."""

    def __init__(self, vocabulary, longest, size, layers, heads, batch=1):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, size), nn.Embedding(longest, size)
        self.h = nn.ModuleList(GPT2Block(size, heads, batch, longest) for _ in range(layers))
        self.ln_f = nn.LayerNorm(size)

    def forward(self, tokens, at):
        x = self.wte(tokens) + self.wpe.weight[at]
        for block in self.h:
            x = block(x, at)
        return F.linear(self.ln_f(x), self.wte.weight)


def rotate(x, at, base=10000.0):
    """Rotary positions: turns the pairs (i, i + size/2) of x [..., size] by an angle that grows with the position."""
    half = x.shape[-1] // 2
    angles = at * base ** (tensord.arange(half).float() / -half)
    a, b, cos, sin = x[..., :half], x[..., half:], angles.cos(), angles.sin()
    return tensord.cat([a * cos - b * sin, b * cos + a * sin], -1)


class LlamaBlock(nn.Module):
    def __init__(self, size, heads, kv_heads, inside, batch, longest):
        super().__init__()
        self.heads, self.kv_heads = heads, kv_heads
        each = size // heads
        self.input_layernorm, self.post_attention_layernorm = nn.RMSNorm(size, eps=1e-5), nn.RMSNorm(size, eps=1e-5)
        self.q_proj, self.o_proj = nn.Linear(size, size, bias=False), nn.Linear(size, size, bias=False)
        self.k_proj, self.v_proj = (nn.Linear(size, kv_heads * each, bias=False) for _ in range(2))
        self.gate_proj, self.up_proj = (nn.Linear(size, inside, bias=False) for _ in range(2))
        self.down_proj = nn.Linear(inside, size, bias=False)
        self.keys, self.values = (Cache(batch, kv_heads, longest, each) for _ in range(2))

    def forward(self, x, at):
        y = self.input_layernorm(x)
        q = rotate(self.q_proj(y).unflatten(-1, (self.heads, 1, -1)), at)
        k = rotate(self.k_proj(y).unflatten(-1, (self.kv_heads, 1, -1)), at)
        v = self.v_proj(y).unflatten(-1, (self.kv_heads, 1, -1))
        y = F.scaled_dot_product_attention(q, self.keys.append(at, k), self.values.append(at, v), enable_gqa=True)
        x = x + self.o_proj(y.flatten(1))
        y = self.post_attention_layernorm(x)
        return x + self.down_proj(F.silu(self.gate_proj(y)) * self.up_proj(y))


class Llama(nn.Module):
    """Tokens [batch] at a position to logits [batch, vocabulary] of the next ones."""

    def __init__(self, vocabulary, longest, size, layers, heads, kv_heads, inside, batch=1):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocabulary, size)
        self.layers = nn.ModuleList(LlamaBlock(size, heads, kv_heads, inside, batch, longest) for _ in range(layers))
        self.norm = nn.RMSNorm(size, eps=1e-5)
        self.lm_head = nn.Linear(size, vocabulary, bias=False)

    def forward(self, tokens, at):
        x = self.embed_tokens(tokens)
        for layer in self.layers:
            x = layer(x, at)
        return self.lm_head(self.norm(x))
