"""Decoders with a cache and a position that varies say, token by token, what PyTorch says from the whole text."""

import numpy as np
import pytest
import tensord
import torch
from decoders import GPT2, Llama
from tensord import Tensor, Variable

F = torch.nn.functional
VOCABULARY, LONGEST, SIZE, LAYERS, HEADS, KV_HEADS, INSIDE = 211, 40, 64, 3, 8, 2, 96
PROMPT = [[5, 77, 3, 140], [9, 9, 200, 0]]  # two texts at once
NEW = 28


def gpt2(w, tokens):
    """Logits [batch, length, vocabulary]; by PyTorch's own encoder layer, where a position sees those before it."""
    length = tokens.shape[1]
    x = w["wte.weight"][tokens] + w["wpe.weight"][:length]
    for i in range(LAYERS):
        layer = torch.nn.TransformerEncoderLayer(
            SIZE, HEADS, 4 * SIZE, 0.0, lambda x: F.gelu(x, approximate="tanh"), batch_first=True, norm_first=True)
        names = {"self_attn.in_proj_": "c_attn.", "self_attn.out_proj.": "c_proj.", "norm1.": "ln_1.",
                 "norm2.": "ln_2.", "linear1.": "c_fc.", "linear2.": "mlp_c_proj."}  # fmt: skip
        layer.load_state_dict({a + n: w[f"h.{i}.{b}{n}"] for a, b in names.items() for n in ("weight", "bias")})
        x = layer(x, torch.nn.Transformer.generate_square_subsequent_mask(length))
    return F.layer_norm(x, (SIZE,), w["ln_f.weight"], w["ln_f.bias"]) @ w["wte.weight"].T


def llama(w, tokens):
    """Likewise; turns pairs by a product of complex numbers."""
    batch, length = tokens.shape
    each = SIZE // HEADS
    frequencies = 10000.0 ** (-torch.arange(0, each, 2) / each)
    turn = torch.polar(torch.tensor(1.0), torch.outer(torch.arange(length), frequencies))

    def split(x, heads):
        return x.view(batch, length, heads, each).transpose(1, 2)

    def rotate(x):
        x = torch.complex(*x.chunk(2, -1)) * turn
        return torch.cat([x.real, x.imag], -1)

    x = w["embed_tokens.weight"][tokens]
    for i in range(LAYERS):
        p = {name.removeprefix(f"layers.{i}.").removesuffix(".weight"): value for name, value in w.items()}
        y = F.rms_norm(x, (SIZE,), p["input_layernorm"], 1e-5)
        parts = ("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS)
        q, k, v = (split(y @ p[f"{name}_proj"].T, heads) for name, heads in parts)
        k, v = (t.repeat_interleave(HEADS // KV_HEADS, 1) for t in (rotate(k), v))
        y = F.scaled_dot_product_attention(rotate(q), k, v, is_causal=True)
        x = x + y.transpose(1, 2).flatten(2) @ p["o_proj"].T
        y = F.rms_norm(x, (SIZE,), p["post_attention_layernorm"], 1e-5)
        x = x + (F.silu(y @ p["gate_proj"].T) * (y @ p["up_proj"].T)) @ p["down_proj"].T
    return F.rms_norm(x, (SIZE,), w["norm.weight"], 1e-5) @ w["lm_head.weight"].T


MODELS = {
    "GPT-2": (lambda: GPT2(VOCABULARY, LONGEST, SIZE, LAYERS, HEADS, len(PROMPT)), gpt2),
    "LLaMA": (lambda: Llama(VOCABULARY, LONGEST, SIZE, LAYERS, HEADS, KV_HEADS, INSIDE, len(PROMPT)), llama),
}


@pytest.mark.parametrize("name", MODELS)
def test_decodes_as_pytorch_does(name):
    make, theirs = MODELS[name]
    model = make().eval()
    for parameter in model.parameters():  # wider than a fresh model's: the next token is not a matter of rounding
        parameter.assign(parameter * 2 + tensord.randn(*parameter.shape) * 0.05)
    weights = {key: torch.tensor(value.numpy()) for key, value in model.state_dict().items()}
    at = Variable("at", 0, LONGEST - 1)

    @tensord.jit
    def step(tokens):
        logits = model(tokens, at)
        return logits, logits.argmax(-1)

    text = torch.tensor(PROMPT)
    tokens = Tensor(np.array(PROMPT, np.int32)[:, 0])
    compiled = None
    for position in range(len(PROMPT[0]) + NEW - 1):
        at.bind(position)
        logits, following = step(tokens)
        with torch.no_grad():
            expected = theirs(weights, text)[:, position]
        where = f"position {position}"
        np.testing.assert_allclose(logits.numpy(), expected.numpy(), rtol=1e-3, atol=1e-3, err_msg=where)
        if position + 1 < len(PROMPT[0]):
            tokens = Tensor(np.array(PROMPT, np.int32)[:, position + 1])
        else:
            assert following.tolist() == expected.argmax(-1).tolist()
            text = torch.cat([text, expected.argmax(-1, keepdim=True)], 1)
            tokens = following
        counters = tensord.counters()
        now = counters["kernels_compiled"], counters["plan_misses"]
        if position == 1:
            compiled = now
        assert compiled in (None, now), f"something was compiled at {where}"
    assert step.captures == 1
    assert text.shape[1] == len(PROMPT[0]) + NEW
    assert len(set(text[0, len(PROMPT[0]):].tolist())) > 4, "a text that repeats itself proves little"
