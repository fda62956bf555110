"""Activations, normalisation, dropout, tables and losses against NumPy."""

import math

import numpy as np
import pytest
import tensord
from tensord import Tensor, dtypes
from tensord.nn import functional as F

rng = np.random.default_rng(5)
X = rng.standard_normal((4, 6)).astype(np.float32)
Y = rng.standard_normal((4, 6)).astype(np.float32)
P = rng.uniform(0.1, 0.9, (4, 6)).astype(np.float32)
Q = rng.uniform(0.1, 0.9, (4, 6)).astype(np.float32)
IMAGE = rng.standard_normal((2, 6, 3, 4)).astype(np.float32)
LABELS = np.array([0, 5, 2, 2], np.int32)
SIGNS = np.array([1, -1, -1, 1], np.float32)


def close(tensor, expected, rtol=2e-5, atol=2e-6):
    expected = np.asarray(expected, np.float64)
    assert tensor.shape == expected.shape
    np.testing.assert_allclose(tensor.numpy(), expected, rtol=rtol, atol=atol)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0)


def log_softmax(x, axis=1):
    x = x - x.max(axis, keepdims=True)
    return x - np.log(np.exp(x).sum(axis, keepdims=True))


erf = np.vectorize(math.erf)
ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0), "relu6": lambda x: np.clip(x, 0, 6), "sigmoid": sigmoid,
    "logsigmoid": lambda x: -softplus(-x), "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "silu": lambda x: x * sigmoid(x), "swish": lambda x: x * sigmoid(x), "quick_gelu": lambda x: x * sigmoid(1.702 * x),
    "mish": lambda x: x * np.tanh(softplus(x)), "softsign": lambda x: x / (1 + np.abs(x)),
    "tanhshrink": lambda x: x - np.tanh(x), "leaky_relu": lambda x: np.where(x < 0, 0.01 * x, x),
    "elu": lambda x: np.where(x < 0, np.expm1(x), x), "celu": lambda x: np.where(x < 0, np.expm1(x), x),
    "hardshrink": lambda x: np.where(np.abs(x) <= 0.5, 0, x),
    "softshrink": lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.5, 0),
    "hardsigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1), "hardtanh": lambda x: np.clip(x, -1, 1),
    "selu": lambda x: 1.0507009873554805 * np.where(x < 0, 1.6732632423543772 * np.expm1(x), x),
    "softplus": softplus, "gelu": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
}  # fmt: skip


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name):
    x = np.array([-350, -9, -2, -1, -0.5, -1e-3, 0, 1e-3, 0.5, 1, 2, 9, 350], np.float32)
    with np.errstate(over="ignore"):
        expected = ACTIVATIONS[name](x.astype(np.float64))
    close(getattr(Tensor(x), name)(), expected)
    assert getattr(Tensor(2.0), name)().shape == ()
    assert getattr(Tensor([1, 2]), name)().dtype in (tensord.float32, tensord.int32, "weakfloat")


def test_activations_with_arguments():
    x = Tensor(X)
    close(x.elu(0.1), np.where(X < 0, 0.1 * np.expm1(X), X))
    close(x.celu(alpha=2), np.where(X < 0, 2 * np.expm1(X / 2), X))
    close(x.hardtanh(-0.2, 0.3), np.clip(X, -0.2, 0.3))
    close(x.threshold(0.1, 7), np.where(X > 0.1, X, 7))
    close(x.softplus(3), softplus(3 * X) / 3)
    close(x.gelu("none"), 0.5 * X * (1 + erf(X / math.sqrt(2))))
    close(F.gelu(x), 0.5 * X * (1 + erf(X / math.sqrt(2))))
    close(x.glu(), X[:, :3] * sigmoid(X[:, 3:]))
    close(x.prelu(Tensor([0.25])), np.where(X > 0, X, 0.25 * X))
    close(x.prelu(Tensor(P[0])), np.where(X > 0, X, P[0] * X))
    close(x.rrelu(), np.where(X > 0, X, X * (1 / 8 + 1 / 3) / 2))
    slopes = x.rrelu(training=True).numpy() / X
    assert (slopes[X > 0] == 1).all() and (slopes[X < 0] >= 0.124).all() and (slopes[X < 0] <= 0.334).all()
    close(F.softmax2d(Tensor(IMAGE)), np.exp(log_softmax(IMAGE)))
    with pytest.raises(RuntimeError, match="approximate is 'none' or 'tanh'"):
        x.gelu("erf")
    with pytest.raises(ValueError, match="size 3, which is odd"):
        x[:, :3].glu()


def test_gumbel_softmax():
    x = Tensor(np.zeros((500, 3), np.float32) + np.log([0.2, 0.3, 0.5]).astype(np.float32), requires_grad=True)
    soft = x.gumbel_softmax(tau=0.5)
    np.testing.assert_allclose(soft.sum(-1).numpy(), np.ones(500), rtol=1e-5)
    hard = F.gumbel_softmax(x, hard=True)
    (hard * Tensor([1.0, 2.0, 3.0])).sum().backward()
    slopes = x.grad.numpy()
    assert set(np.unique(hard.numpy())) == {0.0, 1.0} and (hard.numpy().sum(-1) == 1).all()
    np.testing.assert_allclose(hard.numpy().mean(0), [0.2, 0.3, 0.5], atol=0.09)
    assert np.abs(slopes).max() > 0 and np.abs(slopes.sum(-1)).max() < 1e-4


# ---- normalisation


def standard(x, axes, eps=1e-5):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def test_norms():
    x, w, b = Tensor(IMAGE), rng.standard_normal(6).astype(np.float32), rng.standard_normal(6).astype(np.float32)
    wide, shift = w[:, None, None], b[:, None, None]
    close(x.layer_norm((3, 4)), standard(IMAGE, (2, 3)))
    close(Tensor(X).layer_norm(6, Tensor(w), Tensor(b)), standard(X, 1) * w + b)
    close(x.layernorm((0, 2)), standard(IMAGE, (0, 2)))
    close(x.instance_norm(Tensor(w), Tensor(b)), standard(IMAGE, (2, 3)) * wide + shift)
    groups = standard(IMAGE.reshape(2, 3, 2, 3, 4), (2, 3, 4)).reshape(IMAGE.shape)
    close(x.group_norm(3, Tensor(w), Tensor(b)), groups * wide + shift)
    close(Tensor(X).rms_norm(Tensor(w)), X / np.sqrt((X**2).mean(1, keepdims=True) + 1e-6) * w)
    close(F.rms_norm(x, (3, 4)), IMAGE / np.sqrt((IMAGE**2).mean((2, 3), keepdims=True) + 1.2e-7))
    mean, var = IMAGE.mean((0, 2, 3)), IMAGE.var((0, 2, 3))
    invstd = 1 / np.sqrt(var + 1e-5)
    expected = standard(IMAGE, (0, 2, 3)) * wide + shift
    close(x.batchnorm(Tensor(w), Tensor(b), Tensor(mean), Tensor(invstd)), expected)
    close(x.batch_norm(Tensor(mean), Tensor(var), Tensor(w), Tensor(b)), expected)
    running_mean, running_var = tensord.zeros(6), tensord.ones(6)
    close(F.batch_norm(x, running_mean, running_var, Tensor(w), Tensor(b), training=True), expected)
    close(running_mean, 0.1 * mean)
    close(running_var, 0.9 + 0.1 * IMAGE.var((0, 2, 3), ddof=1))
    padded = np.pad(IMAGE**2, ((0, 0), (1, 1), (0, 0), (0, 0)))
    window = (padded[:, :-2] + padded[:, 1:-1] + padded[:, 2:]) / 3
    close(x.local_response_norm(3, alpha=0.5), IMAGE / (1 + 0.5 * window) ** 0.75)


def test_dropout_follows_training():
    x = tensord.ones(40, 50)
    assert x.dropout(0.5).tolist() == x.tolist()
    with tensord.training():
        dropped = x.dropout(0.25).numpy()
        assert x.dropout(0.25, training=False).tolist() == x.tolist()
    values, counts = np.unique(dropped, return_counts=True)
    np.testing.assert_allclose(values, [0, 4 / 3], rtol=1e-6)
    assert 350 < counts[0] < 650
    assert not x.dropout(1.0, training=True).numpy().any()
    channels = F.dropout2d(tensord.ones(10, 30, 2, 2), 0.5, training=True).numpy()
    assert (channels == channels[:, :, :1, :1]).all() and 0 < (channels[:, :, 0, 0] == 0).mean() < 1
    alpha = tensord.randn(200, 200).alpha_dropout(0.2, training=True).numpy()
    assert abs(alpha.mean()) < 0.05 and abs(alpha.std() - 1) < 0.05
    with pytest.raises(ValueError, match="p is 2"):
        x.dropout(2)


# ---- losses


def reduce(loss, how):
    return loss.mean() if how == "mean" else loss.sum() if how == "sum" else loss


def distance(a, b, p=2, eps=1e-6):
    return (np.abs(a - b + eps) ** p).sum(-1) ** (1 / p)


cosine = (X * Y).sum(1) / np.sqrt(((X**2).sum(1) + 1e-12) * ((Y**2).sum(1) + 1e-12))
rows = np.arange(4)
own = X[rows, LABELS][:, None]
d = np.abs(X - Y)
# name: (loss of tensors, values before reduction)
LOSSES = {
    "mse_loss": (lambda r: F.mse_loss(Tensor(X), Tensor(Y), r), d**2),
    "l1_loss": (lambda r: F.l1_loss(Tensor(X), Tensor(Y), r), d),
    "smooth_l1_loss": (lambda r: F.smooth_l1_loss(Tensor(X), Tensor(Y), r, 0.5), np.where(d < 0.5, d * d, d - 0.25)),
    "huber_loss": (lambda r: F.huber_loss(Tensor(X), Tensor(Y), r, 0.5), np.where(d < 0.5, d * d / 2, 0.5 * (d - 0.25))),
    "soft_margin_loss": (lambda r: F.soft_margin_loss(Tensor(X), Tensor(np.sign(Y)), r), softplus(-X * np.sign(Y))),
    "kl_div": (lambda r: F.kl_div(Tensor(X), Tensor(P), r), P * (np.log(P) - X)),
    "kl_div log": (lambda r: F.kl_div(Tensor(X), Tensor(Y), r, log_target=True), np.exp(Y) * (Y - X)),
    "poisson_nll_loss": (lambda r: F.poisson_nll_loss(Tensor(X), Tensor(P), reduction=r), np.exp(X) - P * X),
    "poisson_nll_loss full": (
        lambda r: F.poisson_nll_loss(Tensor(P), Tensor(4 * Q), log_input=False, full=True, reduction=r),
        P - 4 * Q * np.log(P + 1e-8) + np.where(
            4 * Q > 1, 4 * Q * np.log(4 * Q) - 4 * Q + 0.5 * np.log(2 * math.pi * 4 * Q), 0)),
    "gaussian_nll_loss": (lambda r: F.gaussian_nll_loss(Tensor(X), Tensor(Y), Tensor(P), True, reduction=r),
                          0.5 * (np.log(P) + d**2 / P) + 0.5 * math.log(2 * math.pi)),
    "hinge_embedding_loss": (lambda r: F.hinge_embedding_loss(Tensor(X), Tensor(np.sign(Y)), 0.7, r),
                             np.where(Y > 0, X, np.maximum(0, 0.7 - X))),
    "margin_ranking_loss": (lambda r: F.margin_ranking_loss(Tensor(X), Tensor(Y), Tensor(np.sign(P - Q)), 0.3, r),
                            np.maximum(0, -np.sign(P - Q) * (X - Y) + 0.3)),
    "binary_cross_entropy": (lambda r: F.binary_cross_entropy(Tensor(P), Tensor(Q), reduction=r),
                             -(Q * np.log(P) + (1 - Q) * np.log(1 - P))),
    "binary_crossentropy": (lambda r: Tensor(P).binary_crossentropy(Tensor(Q), r),
                            -(Q * np.log(P) + (1 - Q) * np.log(1 - P))),
    "binary_cross_entropy weight": (lambda r: F.binary_cross_entropy(Tensor(P), Tensor(Q), Tensor(P), r),
                                    -P * (Q * np.log(P) + (1 - Q) * np.log(1 - P))),
    "with_logits": (lambda r: F.binary_cross_entropy_with_logits(Tensor(X), Tensor(Q), None, r, Tensor(P[0])),
                    P[0] * Q * softplus(-X) + (1 - Q) * softplus(X)),
    "cosine_embedding_loss": (lambda r: F.cosine_embedding_loss(Tensor(X), Tensor(Y), Tensor(SIGNS), -0.5, r),
                              np.where(SIGNS > 0, 1 - cosine, np.maximum(0, cosine + 0.5))),
    "triplet_margin_loss": (lambda r: F.triplet_margin_loss(Tensor(X), Tensor(Y), Tensor(P), reduction=r),
                            np.maximum(0, 1 + distance(X, Y) - distance(X, P))),
    "triplet with distance": (
        lambda r: F.triplet_margin_with_distance_loss(Tensor(X), Tensor(Y), Tensor(P), swap=True, reduction=r),
        np.maximum(0, 1 + distance(X, Y) - np.minimum(distance(X, P), distance(Y, P)))),
    "multi_margin_loss": (lambda r: F.multi_margin_loss(Tensor(X), Tensor(LABELS), weight=Tensor(P[0]), reduction=r),
                          P[0][LABELS] * (np.maximum(0, 1 - own + X).sum(1) - 1) / 6),
    "multilabel_soft_margin_loss": (
        lambda r: F.multilabel_soft_margin_loss(Tensor(X), Tensor(Q), reduction=r),
        (Q * softplus(-X) + (1 - Q) * softplus(X)).mean(1)),
    "cross_entropy": (lambda r: F.cross_entropy(Tensor(X), Tensor(LABELS), reduction=r), -log_softmax(X)[rows, LABELS]),
    "cross_entropy smooth": (
        lambda r: F.cross_entropy(Tensor(X), Tensor(LABELS), reduction=r, label_smoothing=0.3),
        -0.7 * log_softmax(X)[rows, LABELS] - 0.3 * log_softmax(X).mean(1)),
    "cross_entropy probabilities": (lambda r: F.cross_entropy(Tensor(X), Tensor(Q), reduction=r),
                                    -(Q * log_softmax(X)).sum(1)),
    "sparse": (lambda r: Tensor(X).sparse_categorical_crossentropy(Tensor(LABELS), reduction=r),
               -log_softmax(X)[rows, LABELS]),
    "nll_loss": (lambda r: F.nll_loss(Tensor(X), Tensor(LABELS), reduction=r), -X[rows, LABELS]),
}  # fmt: skip


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", LOSSES)
def test_losses(name, reduction):
    loss, values = LOSSES[name]
    close(loss(reduction), reduce(values, reduction))


@pytest.mark.parametrize("name", [name for name in LOSSES if not name.startswith("kl")])
def test_a_reduction_that_is_none(name):
    with pytest.raises(ValueError, match="reduction is 'mean', 'sum' or 'none', not 'typo'"):
        LOSSES[name][0]("typo")


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32", "int64"])
def test_losses_of_integers_do_not_wrap(dtype):
    limits = np.iinfo(dtype)
    ends = [max(limits.min, -(2**20)), min(limits.max, 2**20)]
    a, b = np.array([*ends, 0, 7, 3], dtype), np.array([*ends[::-1], 1, 2, 3], dtype)
    x, y = a.astype(np.float64), b.astype(np.float64)
    d, size = x - y, np.abs(x - y)
    s, t = Tensor(a), Tensor(b)
    signs, labels = Tensor(np.array([1, -1, 1, -1, 1], "int8")), Tensor(np.array([1, 0, 1, 0, 1], dtype))
    p = np.array([0.25, 0.5, 0.75, 0.5, 0.125])
    w = np.array([1, 0, 1, 0, 1.0])
    entropy = -(w * np.log(p) + (1 - w) * np.log(1 - p))
    cases = {
        "mse": (F.mse_loss(s, t), (d * d).mean()),
        "mse, none": (F.mse_loss(s, t, reduction="none"), d * d),
        "l1": (F.l1_loss(s, t), size.mean()),
        "l1, none": (F.l1_loss(s, t, reduction="none"), size),
        "smooth l1": (F.smooth_l1_loss(s, t), np.where(size < 1, d * d / 2, size - 0.5).mean()),
        "huber": (F.huber_loss(s, t, delta=2), np.where(size <= 2, d * d / 2, 2 * (size - 1)).mean()),
        "kl_div": (F.kl_div(Tensor(np.log(p)), labels, reduction="sum"), (-w * np.log(p)).sum()),
        "margin_ranking": (F.margin_ranking_loss(s, t, signs), np.maximum(0, -np.array([1, -1, 1, -1, 1]) * d).mean()),
        "gaussian_nll": (F.gaussian_nll_loss(s, t, Tensor([2.0])), ((np.log(2) + d * d / 2) / 2).mean()),
        "binary_cross_entropy": (F.binary_cross_entropy(Tensor(p), labels), entropy.mean()),
        "with logits": (F.binary_cross_entropy_with_logits(Tensor(np.log(p / (1 - p))), labels), entropy.mean()),
        "cosine": (F.cosine_similarity(s, t, dim=0), x @ y / np.linalg.norm(x) / np.linalg.norm(y)),
        "pairwise": (F.pairwise_distance(s, t, eps=0), np.linalg.norm(d)),
        "lerp": (s.lerp(t, 0.75), x + 0.75 * (y - x)),
        "lerp, tensor": (s.lerp(t, Tensor([0.0, 1.0, 0.5, 0.25, 2.0])), x + np.array([0, 1, 0.5, 0.25, 2]) * (y - x)),
    }  # fmt: skip
    for name, (actual, expected) in cases.items():
        assert dtypes.is_float(actual.dtype), name
        np.testing.assert_allclose(actual.numpy(), expected, rtol=2e-5, err_msg=name)


def test_labels_that_do_not_count():
    logits, weight = log_softmax(X), P[0]
    used = np.array([True, True, False, False])  # label 2 is ignored
    losses, weights = -logits[rows, LABELS], weight[LABELS]
    x, labels = Tensor(X), Tensor(LABELS)
    close(F.cross_entropy(x, labels, ignore_index=2), losses[used].mean())
    close(F.cross_entropy(x, labels, ignore_index=2, reduction="none"), losses * used)
    close(F.cross_entropy(x, labels, Tensor(weight)), (losses * weights).sum() / weights.sum())
    close(F.nll_loss(Tensor(logits), labels, Tensor(weight), 2), (losses * weights)[used].sum() / weights[used].sum())
    close(x.sparse_categorical_crossentropy(labels, 2), losses[used].mean())
    image = Tensor(IMAGE)
    picture = rng.integers(0, 6, (2, 3, 4)).astype(np.int32)
    expected = -np.take_along_axis(log_softmax(IMAGE), picture[:, None], 1).mean()
    close(F.cross_entropy(image, Tensor(picture)), expected)
    close(image.permute(0, 2, 3, 1).sparse_categorical_crossentropy(Tensor(picture)), expected)
    close(F.kl_div(Tensor(X), Tensor(P), "batchmean"), (P * (np.log(P) - X)).sum() / 4)
    with pytest.raises(ValueError, match="needs integer labels"):
        F.nll_loss(x, Tensor(LABELS[:2]))
    certain = Tensor([1.0, 0.0])
    assert F.binary_cross_entropy(certain, Tensor([0.0, 0.0])).item() == 50
    assert certain.binary_crossentropy(Tensor([0.0, 1.0])).item() == math.inf


def test_multilabel_margin():
    x = np.array([[0.1, 0.2, 0.4, 0.8]], np.float32)
    labels = np.array([[3, 0, -1, 1]], np.int32)  # 3 and 0 apply
    expected = sum(max(0, 1 - (x[0, i] - x[0, j])) for i in (3, 0) for j in (1, 2)) / 4
    close(F.multilabel_margin_loss(Tensor(x), Tensor(labels)), expected)


def ctc(logits, target, blank):
    """The sum over all paths, one by one."""
    time, classes = logits.shape
    total = -math.inf
    for path in np.ndindex(*[classes] * time):
        collapsed = [c for i, c in enumerate(path) if c != blank and (i == 0 or path[i - 1] != c)]
        if collapsed == list(target):
            total = np.logaddexp(total, sum(logits[t, c] for t, c in enumerate(path)))
    return -total


@pytest.mark.parametrize("blank", [0, 2])
def test_ctc(blank):
    logits = log_softmax(rng.standard_normal((5, 3, 3)), 2).astype(np.float32)
    a, b = [label for label in range(3) if label != blank]
    targets = [[a, a], [b, a, b], [b]]
    steps, counts = [5, 4, 3], [2, 3, 1]
    padded = np.zeros((3, 3), np.int32)
    for row, target in zip(padded, targets):
        row[:len(target)] = target
    expected = np.array([ctc(logits[:n, i].astype(np.float64), targets[i], blank) for i, n in enumerate(steps)])
    x = Tensor(logits)
    close(F.ctc_loss(x, Tensor(padded), steps, counts, blank, "none"), expected)
    close(F.ctc_loss(x, Tensor(padded), Tensor(steps), Tensor(counts), blank), (expected / counts).mean())
    joined = Tensor(np.array(sum(targets, []), np.int32))
    close(F.ctc_loss(x, joined, steps, counts, blank, "sum"), expected.sum())
    impossible = F.ctc_loss(x, Tensor(padded), [1, 4, 3], counts, blank, "none")
    assert impossible.numpy()[0] == math.inf
    assert F.ctc_loss(x, Tensor(padded), [1, 4, 3], counts, blank, "none", zero_infinity=True).numpy()[0] == 0


@pytest.mark.parametrize("zero_infinity", [True, False])
def test_gradient_of_ctc(zero_infinity):
    logits, targets = rng.standard_normal((5, 3, 3)), np.array([[1, 1], [2, 1], [2, 0]], np.int32)

    def loss(x):
        steps = [5, 4, 1 if zero_infinity else 3]
        return F.ctc_loss(x.log_softmax(2), Tensor(targets), steps, [2, 2, 1], 0, "none", zero_infinity)

    weights = Tensor(np.array([1.0, 0.5, 2.0]))
    x = Tensor(logits)
    got = (loss(x) * weights).sum().gradient(x)[0].numpy()
    expected = np.zeros_like(logits)
    for place in np.ndindex(*logits.shape):
        step = np.zeros_like(logits)
        step[place] = 1e-6
        expected[place] = ((loss(Tensor(logits + step)) - loss(Tensor(logits - step))) * weights).sum().item() / 2e-6
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-8)
    # One by the log probabilities takes them to be normalised: it is the one by the logits.
    y = x.log_softmax(2)
    by_logits = (F.ctc_loss(y, Tensor(targets), [5, 4, 1], [2, 2, 1], 0, "none", True) * weights).sum().gradient(y)[0]
    if zero_infinity:
        np.testing.assert_allclose(by_logits.numpy(), got, rtol=1e-5, atol=1e-8)


def test_ctc_without_steps_or_labels():
    x = Tensor(np.log(np.full((3, 3, 2), 0.5)))
    got = F.ctc_loss(x, Tensor(np.ones((3, 1), np.int32)), [0, 0, 2], [0, 1, 0], 0, "none")
    close(got, [0, np.inf, 2 * np.log(2)])


# ---- tables


def test_embedding():
    table = rng.standard_normal((7, 3)).astype(np.float32)
    index = np.array([[1, 6, 0], [3, 3, 1]], np.int32)
    weight = Tensor(table, requires_grad=True)
    close(F.embedding(Tensor(index), weight), table[index])
    F.embedding(Tensor(index), weight, padding_idx=3).sum().backward()
    counts = np.bincount(index.ravel(), minlength=7) * (np.arange(7) != 3)
    close(weight.grad, np.repeat(counts[:, None], 3, 1))
    norms = np.linalg.norm(table, axis=1, keepdims=True)
    close(F.embedding(Tensor(index), Tensor(table), max_norm=1.0), (table * np.minimum(1, 1 / norms))[index], rtol=1e-4)
    assert not F.embedding(Tensor([9]), Tensor(table)).numpy().any()
    (scaled,) = F.embedding(Tensor(index), weight, 3, None, 2.0, True, True).sum().gradient(weight)
    close(scaled, np.repeat((counts > 0)[:, None], 3, 1))
    with pytest.raises(TypeError, match="the indices are float32"):
        F.embedding(Tensor([1.0]), Tensor(table))


@pytest.mark.parametrize("mode, reduce", [("sum", np.sum), ("mean", np.mean), ("max", np.max)])
def test_embedding_bag(mode, reduce):
    table = rng.standard_normal((7, 3)).astype(np.float32)
    index, offsets = np.array([1, 6, 0, 3, 3, 1], np.int32), np.array([0, 2, 2, 5], np.int32)
    bags = [index[0:2], index[2:2], index[2:5], index[5:]]
    expected = [reduce(table[bag], axis=0) if len(bag) else np.zeros(3) for bag in bags]
    close(F.embedding_bag(Tensor(index), Tensor(table), Tensor(offsets), mode=mode), expected)
    square = index.reshape(2, 3)
    close(F.embedding_bag(Tensor(square), Tensor(table), mode=mode), reduce(table[square], axis=1))
    without = [bag[bag != 3] for bag in bags]
    expected = [reduce(table[bag], axis=0) if len(bag) else np.zeros(3) for bag in without]
    close(F.embedding_bag(Tensor(index), Tensor(table), Tensor(offsets), mode=mode, padding_idx=3), expected)
    negative = F.embedding_bag(Tensor(index), Tensor(table), Tensor(offsets), mode=mode, padding_idx=3 - 7)
    close(negative, expected)
    weight = Tensor(table)
    if mode == "max":
        with pytest.raises(ValueError, match="are for modes 'sum' and 'mean'"):
            F.embedding_bag(Tensor(index), weight, Tensor(offsets), mode=mode, scale_grad_by_freq=True)
    else:
        for options in ({"scale_grad_by_freq": True}, {}):
            got = F.embedding_bag(Tensor(index), weight, Tensor(offsets), mode=mode, **options)
            got = got.sum().gradient(weight)[0]
            share = np.zeros((7, 3))
            for bag in bags:
                for each in bag:
                    often = (index == each).sum() if options else 1
                    share[each] += 1 / (len(bag) if mode == "mean" else 1) / often
            close(got, share)
    weights = rng.standard_normal(6).astype(np.float32)
    if mode == "sum":
        got = F.embedding_bag(Tensor(square), Tensor(table), mode=mode, per_sample_weights=Tensor(weights.reshape(2, 3)))
        close(got, (table[square] * weights.reshape(2, 3, 1)).sum(1))
    else:
        with pytest.raises(ValueError, match="need mode 'sum'"):
            F.embedding_bag(Tensor(index), Tensor(table), Tensor(offsets), mode=mode, per_sample_weights=Tensor(weights))


def test_distances():
    a, b = Tensor(X), Tensor(Y)
    close(F.cosine_similarity(a, b), (X * Y).sum(1) / np.linalg.norm(X, axis=1) / np.linalg.norm(Y, axis=1))
    close(F.cosine_similarity(a, b, dim=0), (X * Y).sum(0) / np.linalg.norm(X, axis=0) / np.linalg.norm(Y, axis=0))
    close(F.pairwise_distance(a, b, p=3, keepdim=True), distance(X, Y, 3)[:, None])
    close(F.pdist(a), [np.linalg.norm(X[i] - X[j]) for i in range(4) for j in range(i + 1, 4)])
    assert F.one_hot(Tensor([0, 2])).tolist() == [[1, 0, 0], [0, 0, 1]]
