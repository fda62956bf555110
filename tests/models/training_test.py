"""Captured training steps: from the same weights and data the loss follows PyTorch's, step by step."""

import numpy as np
import pytest
import tensord
import torch
from bert import Bert
from resnet import ResNet18
from tensord import Tensor, nn

F = torch.nn.functional
STEPS = 20
RNG = np.random.default_rng(2)

# Pictures of stripes; the class is their direction.
CLASSES, BATCH = 4, 8
LABELS = RNG.integers(0, CLASSES, (STEPS, BATCH)).astype(np.int32)
ANGLES, PHASES = LABELS * np.pi / CLASSES, RNG.uniform(0, 6, (STEPS, BATCH))
ROWS, COLUMNS = np.mgrid[:32, :32] / 2
COS, SIN, SHIFTS = (x[..., None, None] for x in (np.cos(ANGLES), np.sin(ANGLES), PHASES))
STRIPES = np.sin(ROWS * COS + COLUMNS * SIN + SHIFTS)
IMAGES = (STRIPES[:, :, None] + RNG.normal(0, 0.3, (STEPS, BATCH, 3, 32, 32))).astype(np.float32)

# Texts that count, from 1 to 6 and again; what is hidden is to be found.
VOCABULARY, LENGTH, SIZE, LAYERS, HEADS, INSIDE, EPS = 40, 24, 48, 2, 4, 96, 1e-12
HIDDEN_TOKEN = 0
TEXTS = (1 + (RNG.integers(0, 6, (STEPS, BATCH, 1)) + np.arange(LENGTH)) % 6).astype(np.int32)
HIDDEN = RNG.random(TEXTS.shape) < 0.2
IS_TEXT = np.arange(LENGTH) < RNG.integers(12, LENGTH + 1, (STEPS, BATCH, 1))
IDS = np.where(HIDDEN, HIDDEN_TOKEN, TEXTS)
ANSWERS = np.where(HIDDEN & IS_TEXT, TEXTS, -100).astype(np.int32)


class MaskedLanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.bert, self.head = Bert(VOCABULARY, LENGTH, SIZE, LAYERS, HEADS, INSIDE, EPS), nn.Linear(SIZE, VOCABULARY)

    def forward(self, ids, is_text):
        return self.head(self.bert(ids, is_text)).transpose(1, 2)


def torch_block(inputs, outputs, stride):
    def convolution(a, b, kernel, by):
        return torch.nn.Conv2d(a, b, kernel, by, kernel // 2, bias=False)

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            norm = torch.nn.BatchNorm2d
            self.conv1, self.bn1 = convolution(inputs, outputs, 3, stride), norm(outputs)
            self.conv2, self.bn2 = convolution(outputs, outputs, 3, 1), norm(outputs)
            if stride != 1:
                self.downsample = torch.nn.Sequential(convolution(inputs, outputs, 1, stride), norm(outputs))

        def forward(self, x):
            residual = self.downsample(x) if stride != 1 else x
            return F.relu(residual + self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))))

    return Block()


class TorchResNet18(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = torch.nn.Conv2d(3, 64, 7, 2, 3, bias=False), torch.nn.BatchNorm2d(64)
        channels = 64
        for i, (outputs, stride) in enumerate([(64, 1), (128, 2), (256, 2), (512, 2)], 1):
            layer = torch.nn.Sequential(torch_block(channels, outputs, stride), torch_block(outputs, outputs, 1))
            setattr(self, f"layer{i}", layer)
            channels = outputs
        self.fc = torch.nn.Linear(channels, CLASSES)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        for layer in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = layer(x)
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


class TorchMaskedLanguageModel(torch.nn.Module):
    """Of PyTorch's own encoder layer."""

    def __init__(self):
        super().__init__()
        self.words, self.positions, self.kinds = (torch.nn.Embedding(n, SIZE) for n in (VOCABULARY, LENGTH, 2))
        self.norm, self.head = torch.nn.LayerNorm(SIZE, EPS), torch.nn.Linear(SIZE, VOCABULARY)
        layer = torch.nn.TransformerEncoderLayer(SIZE, HEADS, INSIDE, 0.0, "gelu", EPS, batch_first=True)
        self.encoder = torch.nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)

    def forward(self, ids, is_text):
        x = self.norm(self.words(ids) + self.positions.weight + self.kinds.weight[0])
        return self.head(self.encoder(x, src_key_padding_mask=~is_text)).transpose(1, 2)


def bert_names(state):
    """The weights of MaskedLanguageModel by the names of TorchMaskedLanguageModel."""
    found = {}
    for name, value in state.items():
        for its, theirs in [
            ("bert.embeddings.word_embeddings", "words"), ("bert.embeddings.position_embeddings", "positions"),
            ("bert.embeddings.token_type_embeddings", "kinds"), ("bert.embeddings.LayerNorm", "norm"),
            ("bert.encoder.layer", "encoder.layers"), ("attention.output.dense", "self_attn.out_proj"),
            ("attention.output.LayerNorm", "norm1"), ("intermediate.dense", "linear1"), ("output.dense", "linear2"),
            ("output.LayerNorm", "norm2"),
        ]:  # fmt: skip
            name = name.replace(its, theirs)
        found[name] = value
    for name in [name for name in found if "attention.self.query" in name]:
        parts = [found.pop(name.replace("query", part)) for part in ("query", "key", "value")]
        found[name.replace("attention.self.query.", "self_attn.in_proj_")] = torch.cat(parts)
    return found


TRAININGS = {
    # ours, PyTorch's, names of weights, inputs, targets, optimiser, dtype, steps, tolerance
    #
    # In a young ResNet a rounding error that turns a ReLU on grows quickly: in float32 PyTorch is 1e-4 away from its
    # own float64 after six steps, and 1e-1 after twenty. So twenty steps are compared in float64.
    "ResNet-18": (lambda: ResNet18(CLASSES), TorchResNet18, lambda state: state, (IMAGES,), LABELS,
                  ("SGD", {"lr": 5e-4, "momentum": 0.9, "weight_decay": 1e-4}), "float32", 5, 1e-3),
    "ResNet-18 in float64": (lambda: ResNet18(CLASSES), TorchResNet18, lambda state: state, (IMAGES,), LABELS,
                             ("SGD", {"lr": 5e-4, "momentum": 0.9, "weight_decay": 1e-4}), "float64", STEPS, 1e-10),
    "BERT": (MaskedLanguageModel, TorchMaskedLanguageModel, bert_names, (IDS, IS_TEXT), ANSWERS,
             ("AdamW", {"lr": 3e-3, "weight_decay": 0.05}), "float32", STEPS, 1e-5),
}  # fmt: skip


@pytest.mark.parametrize("name", TRAININGS)
def test_loss_follows_pytorchs(name):
    make, make_theirs, names, inputs, targets, (optimiser_name, options), dtype, steps, tolerance = TRAININGS[name]
    inputs = [x.astype(dtype) if x.dtype == np.float32 else x for x in inputs]
    model, theirs = make().to(dtype=dtype).train(), make_theirs().to(getattr(torch, dtype)).train()
    theirs.load_state_dict(names({key: torch.tensor(value.numpy()) for key, value in model.state_dict().items()}))
    optimiser = getattr(nn.optim, optimiser_name)(model.parameters(), **options)
    their_optimiser = getattr(torch.optim, optimiser_name)(theirs.parameters(), **options)

    @tensord.jit
    def step(inputs, targets):
        loss = nn.functional.cross_entropy(model(*inputs), targets)
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        return loss

    losses, expected, compiled = [], [], []
    for number in range(steps):
        losses.append(step([Tensor(x[number]) for x in inputs], Tensor(targets[number])).item())
        compiled.append(tensord.counters()["kernels_compiled"])
        loss = F.cross_entropy(theirs(*(torch.tensor(x[number]) for x in inputs)), torch.tensor(targets[number]).long())
        their_optimiser.zero_grad()
        loss.backward()
        their_optimiser.step()
        expected.append(loss.item())
    np.testing.assert_allclose(losses, expected, rtol=tolerance)
    assert steps < STEPS or np.mean(losses[-5:]) < 0.8 * np.mean(losses[:5]), "it learns"
    assert step.captures == 1 and compiled[0] == compiled[-1]
