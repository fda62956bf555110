"""Modules against PyTorch's: with its state dict, the same outputs, gradients, buffers and text."""

import inspect

import numpy as np
import pytest
import tensord
import torch
from tensord import Tensor, nn

RNG = np.random.default_rng(5)


def x(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def ints(high, *shape):
    return RNG.integers(0, high, shape)


def positive(*shape):
    return RNG.uniform(0.05, 0.95, shape).astype(np.float32)


def signs(*shape):
    return np.where(RNG.random(shape) < 0.5, -1, 1).astype(np.float32)


def mask(*shape):
    made = RNG.random(shape) < 0.3
    made[..., 0] = False  # each query sees something
    return made


class Case:
    def __init__(self, name, *args, inputs, training=True, tolerance=2e-5, calls=1, text=True, gradient=True, **options):
        self.name, self.args, self.options, self.inputs = name, args, options, inputs
        self.training, self.tolerance, self.calls = training, tolerance, calls
        self.text, self.gradient = text, gradient

    def __str__(self):
        options = [str(arg) for arg in self.args] + [f"{name}={value}" for name, value in self.options.items()]
        shapes = [list(np.shape(value)) for value in self.inputs if not isinstance(value, (tuple, dict))]
        return f"{self.name}({', '.join(options)}) of {shapes}{'' if self.training else ', eval'}"

    def make(self, lib):
        """Of torch.nn or tensord.nn."""
        to = (lambda v: torch.tensor(v)) if lib is torch.nn else (lambda v: Tensor(v))

        def convert(value):
            return to(value) if isinstance(value, np.ndarray) else value(lib) if isinstance(value, Part) else value

        return getattr(lib, self.name)(*map(convert, self.args), **{k: convert(v) for k, v in self.options.items()})


class Part:
    """A module as an argument."""

    def __init__(self, name, *args, **options):
        self.name, self.args, self.options = name, args, options

    def __call__(self, lib):
        return getattr(lib, self.name)(*self.args, **self.options)

    def __str__(self):
        return self.name


def case(name, *args, inputs, **options):
    return Case(name, *args, inputs=inputs, **options)


def over_axes(name, shapes, **options):
    """A row for each of 1, 2, 3 axes."""
    return [case(f"{name}{i + 1}d", inputs=[x(*shape)], **options) for i, shape in enumerate(shapes)]


PLANES = [(2, 4, 9), (2, 4, 7, 8), (2, 4, 5, 6, 5)]
CONVS = [
    {}, {"stride": 2, "padding": 1}, {"dilation": 2}, {"groups": 2}, {"bias": False}, {"padding": "same"},
    {"padding": "same", "padding_mode": "reflect"}, {"padding": 1, "padding_mode": "circular"},
    {"padding": 2, "padding_mode": "replicate", "stride": 2},
]  # fmt: skip
TRANSPOSED = [{}, {"stride": 2}, {"stride": 2, "padding": 1, "output_padding": 1}, {"groups": 2, "dilation": 2, "bias": False}]
ACTIVATIONS = {
    "ReLU": [{}], "ReLU6": [{}], "SiLU": [{}], "Mish": [{}], "Hardswish": [{}], "Hardsigmoid": [{}], "SELU": [{}],
    "Sigmoid": [{}], "LogSigmoid": [{}], "Tanh": [{}], "Tanhshrink": [{}], "Softsign": [{}], "ELU": [{}, {"alpha": 0.5}],
    "CELU": [{}, {"alpha": 2.0}], "LeakyReLU": [{}, {"negative_slope": 0.3}], "Hardtanh": [{}, {"min_val": -0.3, "max_val": 0.6}],
    "Threshold": [{"threshold": 0.2, "value": -3.0}], "GELU": [{}, {"approximate": "tanh"}],
    "Softplus": [{}, {"beta": 2.0, "threshold": 1.0}], "Hardshrink": [{}, {"lambd": 0.2}], "Softshrink": [{}, {"lambd": 0.2}],
    "PReLU": [{}, {"num_parameters": 3, "init": 0.1}], "GLU": [{}, {"dim": 2}], "Softmax": [{"dim": 1}, {}],
    "LogSoftmax": [{"dim": -1}, {}], "Softmin": [{"dim": 1}], "Identity": [{}],
}  # fmt: skip
REDUCTIONS = ("mean", "sum", "none")
LOSSES = [
    ("L1Loss", {}, [x(4, 5), x(4, 5)]), ("MSELoss", {}, [x(4, 5), x(4, 5)]),
    ("SoftMarginLoss", {}, [x(4, 5), signs(4, 5).astype(np.int64)]), ("MultiLabelMarginLoss", {}, [x(2, 4), np.array([[3, 0, -1, 1], [1, -1, 0, 2]])]),
    ("SmoothL1Loss", {}, [x(4, 5), x(4, 5)]), ("SmoothL1Loss", {"beta": 0.3}, [x(4, 5), x(4, 5)]),
    ("HuberLoss", {"delta": 0.4}, [x(4, 5), x(4, 5)]), ("KLDivLoss", {}, [-positive(3, 4), positive(3, 4)]),
    ("KLDivLoss", {"log_target": True}, [-positive(3, 4), -positive(3, 4)]),
    ("PoissonNLLLoss", {}, [x(4, 5), positive(4, 5) * 4]), ("PoissonNLLLoss", {"log_input": False, "full": True}, [positive(4, 5), positive(4, 5) * 4]),
    ("GaussianNLLLoss", {}, [x(4, 5), x(4, 5), positive(4, 5)]), ("GaussianNLLLoss", {"full": True}, [x(4, 5), x(4, 5), positive(4, 1)]),
    ("NLLLoss", {}, [x(5, 4), ints(4, 5)]), ("NLLLoss", {"weight": positive(4), "ignore_index": 1}, [x(5, 4, 3), ints(4, 5, 3)]),
    ("CrossEntropyLoss", {}, [x(5, 4), ints(4, 5)]),
    ("CrossEntropyLoss", {"weight": positive(4), "ignore_index": 2, "label_smoothing": 0.1}, [x(5, 4), ints(4, 5)]),
    ("CrossEntropyLoss", {"label_smoothing": 0.2}, [x(5, 4), positive(5, 4)]),
    ("BCELoss", {}, [positive(4, 5), positive(4, 5)]), ("BCELoss", {"weight": positive(5)}, [positive(4, 5), positive(4, 5)]),
    ("BCEWithLogitsLoss", {}, [x(4, 5), positive(4, 5)]),
    ("BCEWithLogitsLoss", {"weight": positive(5), "pos_weight": positive(5)}, [x(4, 5), positive(4, 5)]),
    ("MultiLabelSoftMarginLoss", {"weight": positive(5)}, [x(4, 5), ints(2, 4, 5).astype(np.float32)]),
    ("MultiMarginLoss", {}, [x(4, 5), ints(5, 4)]), ("MultiMarginLoss", {"p": 2, "margin": 0.5, "weight": positive(5)}, [x(4, 5), ints(5, 4)]),
    ("HingeEmbeddingLoss", {"margin": 0.5}, [x(4, 5), signs(4, 5)]), ("CosineEmbeddingLoss", {"margin": 0.1}, [x(4, 5), x(4, 5), signs(4)]),
    ("MarginRankingLoss", {"margin": 0.2}, [x(6), x(6), signs(6)]), ("TripletMarginLoss", {}, [x(4, 5), x(4, 5), x(4, 5)]),
    ("TripletMarginLoss", {"swap": True, "p": 1.0, "margin": 2.0}, [x(4, 5), x(4, 5), x(4, 5)]),
    ("TripletMarginWithDistanceLoss", {"margin": 0.7}, [x(4, 5), x(4, 5), x(4, 5)]),
]  # fmt: skip
RNNS = [
    {}, {"num_layers": 2}, {"bidirectional": True}, {"num_layers": 2, "bidirectional": True, "batch_first": True},
    {"bias": False},
]  # fmt: skip
CASES = [
    case("Linear", 5, 3, inputs=[x(2, 5)]), case("Linear", 5, 3, bias=False, inputs=[x(2, 4, 5)]),
    case("Bilinear", 4, 5, 3, inputs=[x(2, 4), x(2, 5)]), case("Bilinear", 4, 5, 3, bias=False, inputs=[x(2, 4), x(2, 5)]),
    *(case(f"Conv{n}d", 4, 6, 3, inputs=[x(*PLANES[n - 1])], **options) for n in (1, 2, 3) for options in CONVS),
    case("Conv2d", 4, 6, (3, 2), (2, 1), (1, 0), (1, 2), inputs=[x(2, 4, 7, 8)]),
    case("Conv2d", 4, 6, 4, padding="same", dilation=2, padding_mode="circular", inputs=[x(2, 4, 9, 8)]),
    *(case(f"Conv{n}d", 4, 6, 3, inputs=[x(*PLANES[n - 1][1:])]) for n in (1, 2, 3)),
    *(case(f"ConvTranspose{n}d", 4, 6, 3, inputs=[x(*PLANES[n - 1])], **options) for n in (1, 2, 3) for options in TRANSPOSED),
    case("ConvTranspose2d", 4, 6, 3, stride=2, inputs=[x(4, 5, 5)]),
    case("ConvTranspose2d", 4, 6, 3, stride=2, padding=1, inputs=[x(2, 4, 5, 5), {"output_size": [10, 9]}]),
    # Normalisation: several calls, so that statistics run along.
    *(case(f"BatchNorm{n}d", 4, inputs=[x(*PLANES[n - 1])], calls=3, training=t, **options) for n in (1, 2, 3) for t in (True, False)
      for options in ({}, {"momentum": None}, {"momentum": 0.3, "eps": 1e-3}, {"affine": False}, {"track_running_stats": False})),
    case("BatchNorm1d", 4, inputs=[x(5, 4)], calls=2),
    *(case(f"InstanceNorm{n}d", 4, inputs=[x(*PLANES[n - 1])], calls=2, training=t, **options) for n in (1, 2, 3) for t in (True, False)
      for options in ({}, {"affine": True}, {"track_running_stats": True, "momentum": 0.3})),
    case("InstanceNorm2d", 4, affine=True, inputs=[x(4, 5, 6)]),
    case("AdaptiveLogSoftmaxWithLoss", 16, 20, [4, 10], inputs=[x(9, 16), ints(20, 9)]),
    case("AdaptiveLogSoftmaxWithLoss", 8, 12, [2, 3, 9], div_value=2.0, head_bias=True, inputs=[x(8), ints(12)]),
    case("LayerNorm", 6, inputs=[x(2, 4, 6)]), case("LayerNorm", (4, 6), bias=False, eps=1e-3, inputs=[x(2, 4, 6)]),
    case("LayerNorm", [6], elementwise_affine=False, inputs=[x(2, 6)]),
    case("RMSNorm", 6, inputs=[x(2, 4, 6)]), case("RMSNorm", (4, 6), eps=1e-3, elementwise_affine=False, inputs=[x(2, 4, 6)]),
    case("GroupNorm", 2, 4, inputs=[x(2, 4, 5, 6)]), case("GroupNorm", 4, 4, affine=False, eps=1e-3, inputs=[x(2, 4, 5)]),
    case("LocalResponseNorm", 3, alpha=0.1, inputs=[x(2, 6, 4, 4)]),
    # Tables.
    case("Embedding", 7, 3, inputs=[ints(7, 2, 5)]), case("Embedding", 7, 3, padding_idx=2, inputs=[ints(7, 2, 5)]),
    case("Embedding", 7, 3, padding_idx=-1, max_norm=0.5, inputs=[ints(7, 9)]),
    case("Embedding", 7, 3, max_norm=1.0, norm_type=1.0, inputs=[ints(4, 2, 5)]),
    *(case("EmbeddingBag", 7, 3, mode=m, inputs=[ints(7, 4, 5)]) for m in ("mean", "sum", "max")),
    case("EmbeddingBag", 7, 3, inputs=[ints(7, 9), np.array([0, 2, 2, 6])]),
    case("EmbeddingBag", 7, 3, padding_idx=1, mode="sum", max_norm=0.7, inputs=[ints(7, 4, 5)]),
    case("EmbeddingBag", 7, 3, include_last_offset=True, inputs=[ints(7, 9), np.array([0, 2, 5, 9])]),
    # Recurrence.
    *(case(f"{kind}Cell", 4, 5, inputs=[x(3, 4)], **options) for kind in ("RNN", "LSTM", "GRU") for options in ({}, {"bias": False})),
    case("RNNCell", 4, 5, nonlinearity="relu", inputs=[x(3, 4), x(3, 5)]), case("GRUCell", 4, 5, inputs=[x(4), x(5)]),
    case("LSTMCell", 4, 5, inputs=[x(3, 4), (x(3, 5), x(3, 5))]),
    *(case(kind, 4, 5, inputs=[x(6, 3, 4)], **options) for kind in ("RNN", "LSTM", "GRU") for options in RNNS),
    case("RNN", 4, 5, nonlinearity="relu", num_layers=2, inputs=[x(6, 3, 4), x(2, 3, 5)], text=False),
    case("LSTM", 4, 5, proj_size=2, num_layers=2, bidirectional=True, inputs=[x(6, 3, 4)]),
    case("LSTM", 4, 5, batch_first=True, inputs=[x(2, 6, 4), (x(1, 2, 5), x(1, 2, 5))]),
    case("GRU", 4, 5, bidirectional=True, inputs=[x(6, 4), x(2, 5)]),
    # Attention.
    case("MultiheadAttention", 8, 2, inputs=[x(5, 3, 8), x(6, 3, 8), x(6, 3, 8)], text=False),
    case("MultiheadAttention", 8, 2, bias=False, batch_first=True, inputs=[x(3, 5, 8), x(3, 6, 8), x(3, 6, 8), {"need_weights": False}], text=False),
    case("MultiheadAttention", 8, 4, kdim=5, vdim=6, inputs=[x(5, 3, 8), x(6, 3, 5), x(6, 3, 6), {"average_attn_weights": False}], text=False),
    case("MultiheadAttention", 8, 2, add_bias_kv=True, add_zero_attn=True, text=False,
         inputs=[x(5, 3, 8), x(6, 3, 8), x(6, 3, 8), {"key_padding_mask": mask(3, 6), "attn_mask": mask(5, 6)}]),
    case("MultiheadAttention", 8, 2, inputs=[x(5, 8), x(6, 8), x(6, 8), {"attn_mask": x(5, 6)}], text=False),
    *(case("TransformerEncoderLayer", 8, 2, 12, dropout=0.0, inputs=[x(5, 3, 8)], text=False, **options)
      for options in ({}, {"norm_first": True}, {"activation": "gelu", "batch_first": True, "bias": False})),
    case("TransformerEncoderLayer", 8, 2, 12, 0.0, text=False,
         inputs=[x(5, 3, 8), {"src_mask": mask(5, 5), "src_key_padding_mask": mask(3, 5)}]),
    *(case("TransformerDecoderLayer", 8, 2, 12, dropout=0.0, inputs=[x(5, 3, 8), x(6, 3, 8)], text=False, **options)
      for options in ({}, {"norm_first": True, "activation": "gelu"})),
    case("TransformerDecoderLayer", 8, 2, 12, 0.0, text=False,
         inputs=[x(5, 3, 8), x(6, 3, 8), {"tgt_mask": mask(5, 5), "memory_mask": mask(5, 6), "memory_key_padding_mask": mask(3, 6)}]),
    case("TransformerEncoder", Part("TransformerEncoderLayer", 8, 2, 12, 0.0), 2, Part("LayerNorm", 8), text=False,
         inputs=[x(5, 3, 8)]),
    case("TransformerDecoder", Part("TransformerDecoderLayer", 8, 2, 12, 0.0), 2, text=False, inputs=[x(5, 3, 8), x(6, 3, 8)]),
    case("Transformer", 8, 2, 2, 1, 12, 0.0, text=False, inputs=[x(6, 3, 8), x(5, 3, 8), {"tgt_mask": mask(5, 5)}], tolerance=5e-5),
    case("Transformer", 8, 2, 1, 2, 12, 0.0, batch_first=True, norm_first=True, text=False, inputs=[x(3, 6, 8), x(3, 5, 8)]),
    # Activations.
    *(case(name, inputs=[x(2, 3, 4, 6)], text=options != {} or name not in ("Softmax", "LogSoftmax"), **options)
      for name, rows in ACTIVATIONS.items() for options in rows),
    case("Softmax2d", inputs=[x(2, 3, 4, 4)]), case("RReLU", inputs=[x(2, 3, 4)], training=False),
    # Pooling.
    *(case(f"MaxPool{n}d", 3, inputs=[x(*PLANES[n - 1])], **options) for n in (1, 2, 3)
      for options in ({}, {"stride": 2, "padding": 1}, {"ceil_mode": True}, {"return_indices": True}, {"stride": 1, "dilation": 2})),
    *(case(f"AvgPool{n}d", 3, inputs=[x(*PLANES[n - 1])], **options) for n in (1, 2, 3)
      for options in ({}, {"stride": 2, "padding": 1}, {"padding": 1, "count_include_pad": False}, {"ceil_mode": True})),
    case("AvgPool2d", 2, divisor_override=3, inputs=[x(2, 4, 7, 8)]), case("MaxPool2d", (3, 2), inputs=[x(4, 7, 8)]),
    *(case(f"LPPool{n}d", 3, 2, inputs=[np.abs(x(*PLANES[n - 1])) + 0.1], tolerance=1e-4) for n in (1, 2, 3)),
    *(case(f"AdaptiveAvgPool{n}d", 3, inputs=[x(*PLANES[n - 1])]) for n in (1, 2, 3)),
    *(case(f"AdaptiveMaxPool{n}d", 3, inputs=[x(*PLANES[n - 1])]) for n in (1, 2, 3)),
    case("AdaptiveAvgPool2d", (None, 3), inputs=[x(2, 4, 7, 8)]), case("AdaptiveMaxPool2d", (2, 3), return_indices=True, inputs=[x(2, 4, 7, 8)]),
    *(case(f"MaxUnpool{n}d", 2, inputs=[x(1, 2, *[2] * n), np.arange(2**n).reshape([2] * n)[None, None].repeat(2, 1) * 2]) for n in (1, 2, 3)),
    case("FractionalMaxPool2d", 2, output_size=3, _random_samples=positive(2, 4, 2), inputs=[x(2, 4, 7, 8)]),
    case("FractionalMaxPool3d", 2, output_ratio=(0.5, 0.5, 0.5), _random_samples=positive(2, 4, 3), inputs=[x(2, 4, 5, 6, 5)]),
    # Padding and shapes.
    *(case(f"{mode}Pad{n}d", *args, inputs=[x(*PLANES[n - 1])]) for n in (1, 2, 3)
      for mode, args in (("Zero", (2,)), ("Constant", (2, 1.5)), ("Reflection", (2,)), ("Replication", (2,)), ("Circular", (2,)))),
    case("ReflectionPad2d", (1, 2, 3, 0), inputs=[x(2, 4, 7, 8)]), case("ConstantPad2d", (1, -2, 3, 0), 0.5, inputs=[x(2, 4, 7, 8)]),
    case("Flatten", inputs=[x(2, 3, 4)]), case("Flatten", 0, 1, inputs=[x(2, 3, 4)]), case("Unflatten", 1, (2, 3), inputs=[x(2, 6, 4)]),
    *(case("Upsample", inputs=[x(2, 3, 4, 5)], **options) for options in
      ({"scale_factor": 2}, {"size": (7, 9), "mode": "bilinear"}, {"scale_factor": (2, 3), "mode": "bicubic", "align_corners": True})),
    case("UpsamplingNearest2d", scale_factor=2, inputs=[x(2, 3, 4, 5)]), case("UpsamplingBilinear2d", size=(7, 9), inputs=[x(2, 3, 4, 5)]),
    case("PixelShuffle", 2, inputs=[x(2, 8, 3, 4)]), case("PixelUnshuffle", 2, inputs=[x(2, 3, 4, 6)]), case("ChannelShuffle", 2, inputs=[x(2, 6, 3, 3)]),
    case("Unfold", (2, 3), padding=1, inputs=[x(2, 3, 5, 6)]), case("Fold", (4, 5), (2, 2), inputs=[x(2, 12, 12)]),
    # Dropout without chance.
    *(case(name, inputs=[x(2, 3, 4, 5)[(slice(None),) * 4] if name != "Dropout1d" else x(2, 3, 4)], training=False)
      for name in ("Dropout", "Dropout1d", "Dropout2d", "AlphaDropout", "FeatureAlphaDropout")),
    case("Dropout3d", 0.2, inputs=[x(2, 3, 4, 5, 3)], training=False),
    case("CosineSimilarity", inputs=[x(4, 5), x(4, 5)]), case("CosineSimilarity", 0, 1e-3, inputs=[x(4, 5), x(4, 5)]),
    case("PairwiseDistance", inputs=[x(4, 5), x(4, 5)]), case("PairwiseDistance", 1.0, keepdim=True, inputs=[x(4, 5), x(4, 5)]),
    *(case(name, inputs=inputs, reduction=r, text=False, **options) for name, options, inputs in LOSSES for r in REDUCTIONS),
    case("KLDivLoss", reduction="batchmean", inputs=[-positive(3, 4), positive(3, 4)]),
    # PyTorch's derivative takes it that a log_softmax stands before.
    case("CTCLoss", gradient=False, inputs=[np.log(np.full((6, 2, 4), 0.25, np.float32)) + x(6, 2, 4) * 0.1, ints(3, 2, 3) + 1, np.array([6, 5]), np.array([3, 2])]),
]  # fmt: skip


def leaves(value):
    return [leaf for item in value for leaf in leaves(item)] if isinstance(value, (tuple, list)) else [] if value is None else [value]


class Run:
    """A module and its inputs, on one side."""

    def __init__(self, case, module):
        self.module, self.torch = module, isinstance(module, torch.nn.Module)
        self.floats = []
        self.module.train(case.training)
        arguments = [self.convert(value) for value in case.inputs]
        keywords = {k: v for argument in arguments if isinstance(argument, dict) for k, v in argument.items()}
        arguments = [argument for argument in arguments if not isinstance(argument, dict)]
        for _ in range(case.calls):
            self.outputs = leaves(module(*arguments, **keywords))

    def convert(self, value):
        if isinstance(value, dict):
            return {k: self.plain(v) if isinstance(v, np.ndarray) else v for k, v in value.items()}
        if isinstance(value, tuple):
            return tuple(map(self.convert, value))
        tensor = self.plain(value)
        if value.dtype == np.float32:
            tensor.requires_grad_()
            self.floats.append(tensor)
        return tensor

    def plain(self, value):
        return torch.tensor(value) if self.torch else Tensor(value)

    def backward(self, seeds):
        total = sum((out * self.plain(seed)).sum() for out, seed in zip(self.outputs, seeds) if seed is not None)
        total.backward()


def array(tensor):
    return None if tensor is None else tensor.detach().numpy()


def close(have, want, tolerance, what):
    if want is None:  # PyTorch has no gradient where there is no influence
        assert have is None or not np.any(have), what
    else:
        assert have is not None and have.shape == want.shape, (what, None if have is None else have.shape, want.shape)
        np.testing.assert_allclose(have, want, rtol=tolerance, atol=tolerance, err_msg=what)


def pair(case):
    torch.manual_seed(1)
    theirs, ours = case.make(torch.nn), case.make(nn)
    loaded = ours.load_state_dict(theirs.state_dict())
    assert loaded == ([], [])
    assert list(ours.state_dict()) == list(theirs.state_dict())
    return theirs, ours


@pytest.mark.parametrize("case", CASES, ids=[f"{i} {case}" for i, case in enumerate(CASES)])
def test_module(judge, case):
    theirs, ours = pair(case)
    want, have = Run(case, theirs), Run(case, ours)
    assert len(have.outputs) == len(want.outputs)
    rng = np.random.default_rng(0)
    differentiable = [out.dtype.is_floating_point and out.requires_grad for out in want.outputs]
    seeds = [rng.standard_normal(out.shape).astype(np.float32) if d else None for out, d in zip(want.outputs, differentiable)]
    if any(differentiable) and case.gradient:
        want.backward(seeds)
        have.backward(seeds)
    names = [name for name, _ in theirs.named_parameters()]
    assert [name for name, _ in ours.named_parameters()] == names
    ours_grads = [p.grad for p in ours.parameters()] + [v.grad for v in have.floats]
    theirs_grads = [p.grad for p in theirs.parameters()] + [v.grad for v in want.floats]
    everything = [*have.outputs, *ours.state_dict().values(), *[g for g in ours_grads if g is not None]]
    tensord.realize(everything)
    for i, (mine, other) in enumerate(zip(have.outputs, want.outputs)):
        close(mine.numpy(), array(other), case.tolerance, f"output {i}")
    for name, value in theirs.state_dict().items():
        close(ours.state_dict()[name].numpy(), array(value), case.tolerance, name)
    for name, mine, other in zip([*names, *(f"input {i}" for i in range(9))], ours_grads, theirs_grads):
        close(None if mine is None else mine.numpy(), array(other), case.tolerance * 10, f"gradient of {name}")
    if case.text:
        assert repr(ours) == repr(theirs)


CLASSES = sorted({case.name for case in CASES} | {"Module", "Sequential", "ModuleList", "ModuleDict", "Parameter"})
# Arguments that PyTorch deprecates, or that choose its kernels.
OLD = {"size_average", "reduce", "_freeze", "min_value", "max_value", "args", "kwargs"}


@pytest.mark.parametrize("name", [name for name in CLASSES if name not in ("Module", "Parameter", "RNN", "LSTM", "GRU", "ModuleDict", "ModuleList")])
def test_arguments_and_defaults_are_those_of_pytorch(name):
    theirs = {p.name: p.default for p in inspect.signature(getattr(torch.nn, name)).parameters.values() if p.name not in OLD}
    ours = {p.name: p.default for p in inspect.signature(getattr(nn, name)).parameters.values() if p.name not in OLD}
    if name in ("Transformer", "TransformerEncoderLayer", "TransformerDecoderLayer"):
        assert theirs.pop("activation").__name__ == ours.pop("activation") == "relu"
    if name not in ("Sequential", "Unflatten"):
        assert ours == theirs
        assert list(ours) == list(theirs)


# Modules whose parameters are drawn: the deviation of many must be PyTorch's, and their range.
DRAWN = [
    ("Linear", 400, 50), ("Bilinear", 20, 30, 40), ("Conv2d", 16, 64, 3), ("ConvTranspose2d", 32, 32, 3), ("Embedding", 200, 60),
    ("EmbeddingBag", 200, 60), ("LSTM", 60, 50), ("GRUCell", 60, 50), ("MultiheadAttention", 64, 4),
]  # fmt: skip


@pytest.mark.parametrize("drawn", DRAWN, ids=[drawn[0] for drawn in DRAWN])
def test_parameters_are_drawn_as_in_pytorch(judge, drawn):
    name, *args = drawn
    torch.manual_seed(1)
    theirs, ours = getattr(torch.nn, name)(*args), getattr(nn, name)(*args)
    for key, want in theirs.state_dict().items():
        have, want = ours.state_dict()[key].numpy(), want.numpy()
        if want.size < 1000:
            assert np.abs(have).max() <= np.abs(want).max() * 1.2 + 1e-12
            continue
        np.testing.assert_allclose(have.std(), want.std(), rtol=0.06)
        np.testing.assert_allclose(have.mean(), 0, atol=0.1 * want.std())
        if name not in ("Embedding", "EmbeddingBag"):  # whose range has no bound
            np.testing.assert_allclose(np.abs(have).max(), np.abs(want).max(), rtol=0.02)


INIT = {
    "uniform_": ((-1.0, 3.0), {}), "normal_": ((1.0, 0.5), {}), "trunc_normal_": ((0.5, 2.0, -1.0, 2.0), {}),
    "xavier_uniform_": ((), {"gain": 2.0}), "xavier_normal_": ((), {"gain": 0.5}),
    "kaiming_uniform_": ((), {"a": 0.3, "mode": "fan_out"}), "kaiming_normal_": ((), {"nonlinearity": "relu"}),
    "orthogonal_": ((), {"gain": 2.0}), "sparse_": ((0.3, 0.5), {}),
}  # fmt: skip
EXACT = {
    "constant_": [((3, 4), (2.5,))], "ones_": [((3, 4), ())], "zeros_": [((3, 4), ())], "eye_": [((3, 5), ())],
    "dirac_": [((6, 4, 3), ()), ((6, 3, 3, 4), (2,)), ((4, 6, 3, 2, 3), ())],
}  # fmt: skip


@pytest.mark.parametrize("name", INIT)
def test_initialisers_draw_as_pytorch_does(judge, name):
    args, options = INIT[name]
    torch.manual_seed(1)
    want = getattr(torch.nn.init, name)(torch.empty(120, 80), *args, **options).numpy()
    tensor = tensord.zeros(120, 80).clone()
    made = getattr(nn.init, name)(tensor, *args, **options)
    assert made is tensor
    have = made.numpy()
    np.testing.assert_allclose(have.std(), want.std(), rtol=0.04)
    np.testing.assert_allclose(have.mean(), want.mean(), atol=0.04)
    assert (have == 0).sum() == (want == 0).sum()
    if name == "orthogonal_":
        np.testing.assert_allclose(have.T @ have, want.T @ want, atol=1e-4)


@pytest.mark.parametrize("name", EXACT)
def test_initialisers_that_draw_nothing(judge, name):
    for shape, args in EXACT[name]:
        want = getattr(torch.nn.init, name)(torch.empty(shape), *args).numpy()
        np.testing.assert_array_equal(getattr(nn.init, name)(tensord.zeros(shape).clone(), *args).numpy(), want)


@pytest.mark.parametrize("function", ["linear", "conv2d", "sigmoid", "tanh", "relu", "selu", "leaky_relu"])
def test_gains(function):
    assert nn.init.calculate_gain(function) == pytest.approx(torch.nn.init.calculate_gain(function))


def networks(lib):
    return [
        lib.Sequential(lib.Linear(4, 8), lib.ReLU(), lib.Sequential(lib.Conv2d(1, 2, 3, bias=False), lib.BatchNorm2d(2))),
        lib.ModuleList([lib.Linear(2, 2), lib.Linear(2, 2), lib.ReLU()]),
        lib.ModuleDict({"a": lib.Linear(2, 3), "b": lib.Dropout(0.1)}),
    ]


def test_text_of_networks(judge):
    for ours, theirs in zip(networks(nn), networks(torch.nn)):
        assert repr(ours) == repr(theirs)
        assert [name for name, _ in ours.named_modules()] == [name for name, _ in theirs.named_modules()]
        assert list(ours.state_dict()) == list(theirs.state_dict())


def test_clipping(judge):
    for norm, limit in ((2.0, 1.0), (1.0, 5.0), (float("inf"), 0.3), (2.0, 100.0)):
        grads = [x(3, 4), x(5)]
        theirs = [torch.nn.Parameter(torch.zeros(g.shape)) for g in grads]
        ours = [nn.Parameter(tensord.zeros(*g.shape)) for g in grads]
        for p, q, g in zip(theirs, ours, grads):
            p.grad, q.grad = torch.tensor(g), Tensor(g)
        want = torch.nn.utils.clip_grad_norm_(theirs, limit, norm)
        have = nn.utils.clip_grad_norm_(ours, limit, norm)
        np.testing.assert_allclose(have.item(), want.item(), rtol=1e-5)
        nn.utils.clip_grad_value_(ours, 0.2)
        torch.nn.utils.clip_grad_value_(theirs, 0.2)
        for p, q in zip(theirs, ours):
            np.testing.assert_allclose(q.grad.numpy(), p.grad.numpy(), rtol=1e-5)


NORMS = [
    ("Linear", (4, 3), (2, 4), "weight_norm", {}), ("Linear", (4, 3), (2, 4), "weight_norm", {"dim": None}),
    ("Conv2d", (2, 3, 3), (1, 2, 5, 5), "weight_norm", {"dim": 1}), ("Linear", (4, 3), (2, 4), "spectral_norm", {}),
    ("Conv2d", (2, 3, 3), (1, 2, 5, 5), "spectral_norm", {"n_power_iterations": 3}),
    ("ConvTranspose2d", (2, 3, 3), (1, 2, 5, 5), "spectral_norm", {}),
    ("Linear", (4, 3), (2, 4), "spectral_norm", {"name": "bias"}),
]  # fmt: skip


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("norm", NORMS, ids=[f"{row[3]} of {row[0]} {row[4]}" for row in NORMS])
def test_parametrised_weights(judge, norm, training):
    name, args, shape, function, options = norm
    theirs = getattr(torch.nn.utils.parametrizations, function)(getattr(torch.nn, name)(*args), **options).train(training)
    ours = getattr(nn.utils.parametrizations, function)(getattr(nn, name)(*args), **options).train(training)
    assert ours.load_state_dict(theirs.state_dict()) == ([], [])
    value = x(*shape)
    for _ in range(2):
        theirs.zero_grad()
        ours.zero_grad()
        want, have = theirs(torch.tensor(value)), ours(Tensor(value))
        want.square().sum().backward()
        have.square().sum().backward()
        tensord.realize(have, [p.grad for p in ours.parameters()], list(ours.state_dict().values()))
        np.testing.assert_allclose(have.numpy(), want.detach().numpy(), rtol=1e-4, atol=1e-5)
        theirs_grads = {key: p.grad for key, p in theirs.named_parameters()}
        for key, p in ours.named_parameters():
            np.testing.assert_allclose(p.grad.numpy(), theirs_grads[key].numpy(), rtol=1e-3, atol=1e-4, err_msg=key)
        for key, tensor in theirs.state_dict().items():
            np.testing.assert_allclose(ours.state_dict()[key].numpy(), tensor.numpy(), rtol=1e-4, atol=1e-5, err_msg=key)


LAZY = {
    "LazyLinear": ((5,), {"bias": False}, (2, 3, 4)), "LazyConv1d": ((6, 3), {"padding": 1}, (2, 4, 9)),
    "LazyConv2d": ((6, 3), {"groups": 2}, (4, 7, 8)), "LazyConv3d": ((4, 2), {}, (1, 2, 4, 5, 5)),
    "LazyConvTranspose1d": ((6, 3), {}, (2, 4, 9)), "LazyConvTranspose2d": ((6, 3), {"stride": 2}, (2, 4, 5, 5)),
    "LazyConvTranspose3d": ((2, 2), {}, (2, 3, 4, 4, 4)), "LazyBatchNorm1d": ((), {"eps": 1e-3}, (4, 3, 5)),
    "LazyBatchNorm2d": ((), {"affine": False}, (4, 3, 5, 5)), "LazyBatchNorm3d": ((), {}, (2, 3, 4, 4, 4)),
    "LazyInstanceNorm1d": ((), {"affine": False}, (2, 3, 9)), "LazyInstanceNorm2d": ((), {}, (2, 3, 5, 5)),
    "LazyInstanceNorm3d": ((), {"track_running_stats": False}, (2, 3, 4, 4, 4)),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:Lazy modules")
@pytest.mark.parametrize("name, lazy", [*LAZY.items(), ("LazyBatchNorm1d", ((), {}, (4, 3)))], ids=str)
def test_lazy_layers_become_what_pytorch_makes_of_them(judge, name, lazy):
    args, options, shape = lazy
    theirs, ours = getattr(torch.nn, name)(*args, **options), getattr(nn, name)(*args, **options).train()
    value = x(*shape)
    want = theirs(torch.tensor(value))
    model = nn.Sequential(ours)
    assert not list(model.parameters())
    ours(Tensor(value))
    assert ours.training and type(ours) is getattr(nn, name.removeprefix("Lazy"))
    assert repr(ours) == repr(theirs)
    assert [(key, tuple(p.shape)) for key, p in model[0].named_parameters()] == [(key, tuple(p.shape)) for key, p in theirs.named_parameters()]
    if any(True for _ in theirs.parameters()):
        ours.load_state_dict(theirs.state_dict())
    theirs.train(), ours.train()
    np.testing.assert_allclose(ours(Tensor(value)).numpy(), theirs(torch.tensor(value)).detach().numpy(), rtol=1e-4, atol=1e-5)
    assert want.shape == tuple(ours(Tensor(value)).shape)
    for lib in (torch.nn, nn):
        with pytest.raises(TypeError):
            getattr(lib, name)(*args, nothing=3)


def test_buffers_by_assignment(judge):
    for lib, tensor in ((torch, torch.ones(2)), (tensord, tensord.ones(2))):
        modules = torch.nn if lib is torch else nn

        class Kept(modules.Module):
            def __init__(self, value, modules=modules):
                super().__init__()
                self.kept, self.lost = modules.Buffer(value), modules.Buffer(value, persistent=False)

        module = Kept(tensor)
        assert [name for name, _ in module.named_buffers()] == ["kept", "lost"]
        assert list(module.state_dict()) == ["kept"]
        module.kept = tensor * 2
        assert module.state_dict()["kept"].numpy().tolist() == [2.0, 2.0]


def test_cached_parametrisations(judge):
    for modules in (torch.nn, nn):
        calls = []

        class Counted(modules.Module):
            def forward(self, value, calls=calls):
                calls.append(1)
                return value * 2

        parametrize = modules.utils.parametrize
        layer = modules.Linear(2, 2)
        assert parametrize.type_before_parametrizations(layer) is modules.Linear
        parametrize.register_parametrization(layer, "weight", Counted())
        assert parametrize.type_before_parametrizations(layer) is modules.Linear
        calls.clear()
        with parametrize.cached():
            assert layer.weight is layer.weight
            assert len(calls) == 1
        assert layer.weight is not layer.weight
        assert len(calls) == 3


POOLED = {
    "max_pool1d_with_indices": ((2, 3, 9), (3, 2, 1)), "max_pool2d_with_indices": ((2, 3, 8, 9), (3,)),
    "max_pool3d_with_indices": ((1, 2, 5, 6, 7), (2,)), "adaptive_max_pool1d_with_indices": ((2, 3, 9), (4,)),
    "adaptive_max_pool2d_with_indices": ((2, 3, 8, 9), ((3, 2),)), "adaptive_max_pool3d_with_indices": ((1, 2, 5, 6, 7), (2,)),
}  # fmt: skip


@pytest.mark.parametrize("name", POOLED)
def test_pooling_with_indices(judge, name):
    shape, args = POOLED[name]
    value = x(*shape)
    want, have = getattr(torch.nn.functional, name)(torch.tensor(value), *args), getattr(nn.functional, name)(Tensor(value), *args)
    for mine, other in zip(have, want):
        np.testing.assert_array_equal(mine.numpy(), other.numpy())


@pytest.mark.parametrize("name, shape", [("fractional_max_pool2d", (1, 2, 9, 9)), ("fractional_max_pool3d", (1, 2, 9, 9, 9))])
def test_fractional_pooling_with_indices(judge, name, shape):
    value, samples = x(*shape), positive(1, 2, len(shape) - 2)
    want = getattr(torch.nn.functional, f"{name}_with_indices")(torch.tensor(value), 2, 4, _random_samples=torch.tensor(samples))
    have = getattr(nn.functional, f"{name}_with_indices")(Tensor(value), 2, 4, _random_samples=Tensor(samples))
    for mine, other in zip(have, want):
        np.testing.assert_array_equal(mine.numpy(), other.numpy())


@pytest.mark.parametrize("pad", [0, 2])
def test_convolution_with_time_first(judge, pad):
    arrays = x(7, 2, 3), x(3, 3, 4), x(4)
    want, have = (
        lib.conv_tbc(*map(make, arrays), pad) for lib, make in ((torch.nn.functional, torch.tensor), (nn.functional, Tensor))
    )
    np.testing.assert_allclose(have.numpy(), want.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"s": (6, 5)}, {"dim": (0, 2), "norm": "ortho"}, {"dim": (1,), "norm": "forward"}], ids=str)
def test_hermitian_transforms_over_several_axes(judge, options):
    real, complex_ = x(3, 4, 6), x(3, 4, 6, 2)
    for name in ("hfftn", "hfft2"):
        want = getattr(torch.fft, name)(torch.view_as_complex(torch.tensor(complex_)), **options)
        np.testing.assert_allclose(getattr(tensord.fft, name)(Tensor(complex_), **options).numpy(), want.numpy(), rtol=1e-3, atol=1e-3)
    for name in ("ihfftn", "ihfft2"):
        want = torch.view_as_real(getattr(torch.fft, name)(torch.tensor(real), **options).resolve_conj())
        np.testing.assert_allclose(getattr(tensord.fft, name)(Tensor(real), **options).numpy(), want.numpy(), rtol=1e-3, atol=1e-4)
