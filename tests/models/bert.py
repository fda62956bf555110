"""BERT: an encoder of text. Parts have the names that they have in Hugging Face's files."""

import tensord
from tensord import nn
from tensord.nn import functional as F


class Embeddings(nn.Module):
    def __init__(self, vocabulary, longest, size, eps):
        super().__init__()
        self.word_embeddings = nn.Embedding(vocabulary, size)
        self.position_embeddings = nn.Embedding(longest, size)
        self.token_type_embeddings = nn.Embedding(2, size)
        self.LayerNorm = nn.LayerNorm(size, eps=eps)

    def forward(self, ids):
        x = self.word_embeddings(ids) + self.position_embeddings(tensord.arange(ids.shape[1]))
        return self.LayerNorm(x + self.token_type_embeddings.weight[0])


class SelfAttention(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(size, size) for _ in range(3))

    def forward(self, x, seen):
        parts = self.query, self.key, self.value
        q, k, v = (part(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        return F.scaled_dot_product_attention(q, k, v, seen).transpose(1, 2).flatten(2)


class Output(nn.Module):
    """Adds to what was there before, and normalises."""

    def __init__(self, inputs, size, eps):
        super().__init__()
        self.dense, self.LayerNorm = nn.Linear(inputs, size), nn.LayerNorm(size, eps=eps)

    def forward(self, x, before):
        return self.LayerNorm(self.dense(x) + before)


class Layer(nn.Module):
    def __init__(self, size, heads, inside, eps):
        super().__init__()
        self.attention = nn.ModuleDict({"self": SelfAttention(size, heads), "output": Output(size, size, eps)})
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(size, inside)})
        self.output = Output(inside, size, eps)

    def forward(self, x, seen):
        x = self.attention["output"](self.attention["self"](x, seen), x)
        return self.output(F.gelu(self.intermediate["dense"](x)), x)


class Bert(nn.Module):
    """Token ids [batch, length], and which of them are text (the others fill up), to [batch, length, size]."""

    def __init__(self, vocabulary, longest, size, layers, heads, inside, eps=1e-12):
        super().__init__()
        self.embeddings = Embeddings(vocabulary, longest, size, eps)
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList(Layer(size, heads, inside, eps) for _ in range(layers))})

    def forward(self, ids, is_text):
        x = self.embeddings(ids)
        seen = is_text[:, None, None, :]  # by all heads and queries
        for layer in self.encoder["layer"]:
            x = layer(x, seen)
        return x


def sentence_embeddings(bert, ids, is_text):
    """[batch, size] of length 1: the mean over the tokens that are text."""
    weights = is_text.float().unsqueeze(-1)
    return F.normalize((bert(ids, is_text) * weights).sum(1) / weights.sum(1), dim=-1)
