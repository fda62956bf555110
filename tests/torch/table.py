"""Rows of the tables in *_test.py: one case each, computed by tensord and by PyTorch or NumPy.

    ROWS = [
        row("sum over two axes", lambda x: x.sum((0, 2)), (3, 4, 5)),              # the same call for both
        row("conv, groups", lambda x, w: x.conv2d(w, groups=2), (1, 4, 5, 5), (6, 2, 3, 3),
            theirs=lambda x, w: F.conv2d(x, w, groups=2)),                         # another call in PyTorch
        row("softmax of 0-d", lambda x: x.softmax(0), (), numpy=np.ones_like),    # NumPy's word instead of PyTorch's
        error("axis 3 of two", IndexError, "axis", lambda x: x.sum(3), (2, 3)),    # both must raise
    ]

A row's inputs are shapes (random numbers in [-2, 2), the same on every run), Data or Ints. A row with float inputs is
compared with its gradient, that of the sum of the results by each float input.
"""

import re
import zlib
from pathlib import Path

import numpy as np
import tensord
import torch
from judge import Comparison, first_line
from oracle import Disagreement, NotApplicable, dtype_name, leaves, to_ours

EXPECTED_FAILURES = Path(__file__).with_name("expected_failures.txt")
FORWARD, GRADIENT = (1e-4, 1e-6), (1e-3, 1e-4)  # rtol, atol


class Row:
    """A name, and the comparisons that it stands for."""

    def __init__(self, name, comparisons):
        self.name, self.comparisons = name, comparisons

    def __repr__(self):
        return self.name

    @property
    def reason(self):
        return next((c.reason for c in self.comparisons if c.counted and c.reason is not None), None)


def row(
    name,
    ours,
    *inputs,
    theirs=None,
    numpy=None,
    gradient=True,
    low=-2.0,
    high=2.0,
    dtype="float32",
    forward=FORWARD,
    backward=GRADIENT,
    form=True,
):
    """A case. `gradient`: whether it has one, or the numbers of the inputs by which. `form=False`: the dtype is ours
    alone, PyTorch has another."""
    theirs = theirs or ours

    def tensors():
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        return [made(spec, rng, low, high, dtype) for spec in inputs]

    def results():
        given = tensors()
        if numpy is not None:
            with np.errstate(all="ignore"):
                expected = numpy(*(x.numpy() if isinstance(x, torch.Tensor) else x for x in given))
            expected = [torch.tensor(np.ascontiguousarray(leaf).reshape(np.shape(leaf))) for leaf in leaves(expected)]
        else:
            expected = leaves(theirs(*(x.clone() if isinstance(x, torch.Tensor) else x for x in given)))
        got = leaves(ours(*(to_ours(x) for x in given)))
        if not form:
            expected = [want.to(getattr(torch, dtype_name(have))) for want, have in zip(expected, got)]
        return expected, got

    def gradients():
        given = tensors()
        targets = [i for i, x in enumerate(given) if isinstance(x, torch.Tensor) and x.is_floating_point()]
        targets = targets if gradient is True else [i for i in targets if i in gradient]
        for i in targets:
            given[i].requires_grad_()
        own = [to_ours(x) for x in given]
        loss = total(theirs(*given))
        if loss is None or not loss.requires_grad:
            raise NotApplicable("no gradient")
        expected = torch.autograd.grad(loss, [given[i] for i in targets], allow_unused=True)
        got = total(ours(*own)).gradient(*(own[i] for i in targets))
        return [torch.zeros_like(given[i]) if g is None else g for i, g in zip(targets, expected)], got

    comparisons = [Comparison(results, *forward)]
    if gradient and numpy is None and any(isinstance(x, torch.Tensor) and x.is_floating_point() for x in tensors()):
        comparisons.append(Comparison(gradients, *backward))
    return Row(name, comparisons)


def create(name, call, theirs=None, form=True, form_only=False):
    """A call without tensors: `call(tensord)`, and the same of torch unless `theirs` (or NumPy) says it otherwise."""

    def results():
        expected = [
            torch.as_tensor(leaf) if isinstance(leaf, np.ndarray) else leaf for leaf in leaves((theirs or call)(torch))
        ]
        got = leaves(call(tensord))
        if not form:
            expected = [want.to(getattr(torch, dtype_name(have))) for want, have in zip(expected, got)]
        return expected, got

    return Row(name, [Comparison(results, *FORWARD, form_only)])


def lib(tensor):
    """The library that a tensor belongs to: lib(x).cat([x, y])."""
    return torch if isinstance(tensor, torch.Tensor) else tensord


def total(result):
    floats = [leaf for leaf in leaves(result) if isinstance(leaf, (torch.Tensor, tensord.Tensor)) and is_float(leaf)]
    sums = [leaf.sum() for leaf in floats]
    return sum(sums[1:], sums[0]) if sums else None


def is_float(tensor):
    return tensor.is_floating_point() if isinstance(tensor, torch.Tensor) else tensor.dtype.is_floating_point


def made(spec, rng, low, high, dtype):
    """The tensor of a row's input, or what is no tensor as it is."""
    if isinstance(spec, Data):
        with np.errstate(invalid="ignore"):
            return torch.tensor(spec.values.astype(spec.dtype))
    if isinstance(spec, (tuple, Ints)):
        shape = tuple(spec) if isinstance(spec, tuple) else spec.shape
        if isinstance(spec, Ints):
            return torch.tensor(np.asarray(rng.integers(spec.low, spec.high, shape), spec.dtype))
        if dtype == "bool":
            return torch.tensor(rng.integers(0, 2, shape).astype(bool))
        if "int" in dtype:
            return torch.tensor(np.asarray(rng.integers(int(low), int(high), shape), dtype))
        return torch.tensor(np.asarray(rng.uniform(low, high, shape), np.float64)).to(getattr(torch, dtype))
    return spec


class Ints:
    """Random integers in [low, high)."""

    def __init__(self, low, high, *shape, dtype="int32"):
        self.low, self.high, self.shape, self.dtype = low, high, shape, dtype


class Data:
    """These values."""

    def __init__(self, values, dtype=None):
        self.values = values = np.asarray(values)
        self.dtype = dtype or {"f": "float32", "i": "int32"}.get(values.dtype.kind, values.dtype)


def error(name, kinds, message, ours, *inputs, theirs=None, both=True):
    """A call that must raise, at the call, one of these types with a message that has this (a regular expression).
    `both`: PyTorch raises too."""

    def results():
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        given = [made(spec, rng, -2, 2, "float32") for spec in inputs]
        if both:
            try:
                (theirs or ours)(*given)
            except Exception:
                pass
            else:
                raise Disagreement("PyTorch raises nothing")
        try:
            ours(*(to_ours(x) for x in given))
        except kinds as raised:
            if not re.search(message, str(raised)):
                raise Disagreement(f"message: {first_line(raised)}") from raised
            return [], []
        except Exception as raised:
            raise Disagreement(f"{type(raised).__name__} raised: {first_line(raised)}") from raised
        raise Disagreement("nothing raised")

    return Row(name, [Comparison(results, 0, 0)])


def expected_failures():
    """{"file: row": reason}"""
    found = {}
    for line in EXPECTED_FAILURES.read_text().splitlines():
        if line and not line.startswith("#"):
            key, reason = line.split("\t")
            assert key not in found, f"{key} is listed twice"
            found[key] = reason
    return found


HEADER = """\
# Rows of the tables that do not agree yet, with the reason; a row that begins to agree must be taken out. Written by
#   $(tools/torch_venv) -m pytest tests/torch --update-expected
"""
seen = {}  # {key: reason} of this run


def write_expected_failures():
    """What was not run keeps its line."""
    kept = {key: reason for key, reason in expected_failures().items() if key not in seen}
    failing = {
        key: "missing" if reason.startswith("AttributeError") else reason.replace("\t", " ")[:150]
        for key, reason in seen.items()
        if reason is not None
    }
    EXPECTED_FAILURES.write_text(
        HEADER + "".join(f"{key}\t{reason}\n" for key, reason in sorted((kept | failing).items()))
    )


def test_row(row, judged, request):
    """Fails for a row that disagrees, and for one that is listed in expected_failures.txt and agrees."""
    judged(row)
    key = f"{Path(request.node.fspath).stem.removesuffix('_test')}: {row.name}"
    seen[key] = row.reason
    if request.config.getoption("--update-expected"):
        return
    expected = expected_failures().get(key)
    if expected is None:
        assert row.reason is None, row.reason
    else:
        assert row.reason is not None, f"agrees now: take it out of {EXPECTED_FAILURES.name}"
