#!/usr/bin/env python3
"""Runs the samples of PyTorch's database of operations by tensord, and compares results and gradients.

  $(tools/torch_venv) tests/torch/sweep.py                  the table of all, and what changed against the list
  $(tools/torch_venv) tests/torch/sweep.py --update         writes the list, disagreements.tsv, and docs/operations.md
  $(tools/torch_venv) tests/torch/sweep.py --only 'max|nn.functional.conv.*' --verbose

The list has a line for each operation and dtype of which a sample disagrees; what is not listed agrees.
"""

import argparse
import collections
import functools
import math
import operator
import re
import sys
import tempfile
import time
import warnings
from pathlib import Path

import clone  # noqa: F401  before tensord
import opdb
import report
import tensord
import torch
from judge import Comparison, Judge
from oracle import Disagreement, NotApplicable, leaves
from tensord.testing import Daemon

MOST = 24  # samples of an operation and dtype in a full sweep
Outcome = collections.namedtuple(
    "Outcome", "forward gradient"
)  # {number of sample: None if it agrees, else the reason}


def judge(client, op, dtype, most):
    """The Outcome of an operation."""
    outcome = Outcome({}, {})
    function = opdb.find(op.full_name)
    pending = []
    for number, sample in opdb.samples(op, dtype, most).items():
        if function is None:
            outcome.forward[number] = "missing"
            continue
        form_only = opdb.is_random(op, sample)
        pending.append(
            (
                outcome.forward,
                number,
                Comparison(
                    functools.partial(results, op, function, sample),
                    *opdb.tolerance(op.full_name, "forward"),
                    form_only,
                ),
            )
        )
        if dtype == "float32" and op.supports_autograd and not form_only:
            pending.append(
                (
                    outcome.gradient,
                    number,
                    Comparison(
                        functools.partial(gradients, op, function, sample), *opdb.tolerance(op.full_name, "gradient")
                    ),
                )
            )
    client.run([comparison for _, _, comparison in pending])
    for reasons, number, comparison in pending:
        if comparison.counted:
            reasons[number] = comparison.reason
    return outcome


def results(op, function, sample):
    expected = leaves(opdb.theirs(op, sample))
    if any(isinstance(leaf, torch.Tensor) and leaf.is_complex() for leaf in expected):
        raise NotApplicable("complex numbers")
    return expected, leaves(opdb.ours(op, function, sample, None))


def gradients(op, function, sample):
    """Of a weighted sum of the float results, by all float tensors of the sample."""
    inputs = [leaf for leaf in tensors_of((sample.input, sample.args, sample.kwargs)) if leaf.is_floating_point()]
    try:
        for leaf in inputs:
            leaf.requires_grad_(True)
        found = [leaf for leaf in leaves(opdb.theirs(op, sample)) if isinstance(leaf, torch.Tensor)]
        chosen = [i for i, leaf in enumerate(found) if leaf.requires_grad and leaf.dtype == torch.float32]
        if not chosen:
            raise NotApplicable("no gradient")
        loss = sum((found[i] * weights(found[i].shape)).sum() for i in chosen)
        expected = torch.autograd.grad(loss, inputs, allow_unused=True)
    except RuntimeError as error:  # PyTorch has no gradient here
        raise NotApplicable(str(error)) from error
    finally:
        for leaf in inputs:
            leaf.requires_grad_(False)
    pairs = []
    found = [leaf for leaf in leaves(opdb.ours(op, function, sample, pairs)) if isinstance(leaf, tensord.Tensor)]
    if len(found) <= max(chosen):
        raise Disagreement(f"number of results: {len(found)} for more")
    loss = sum((found[i] * tensord.Tensor(weights(found[i].shape).numpy())).sum() for i in chosen)
    # A tensor that the sample has twice is two of ours.
    wanted = [
        (grad, [ours for theirs, ours in pairs if theirs is leaf])
        for leaf, grad in zip(inputs, expected)
        if grad is not None
    ]
    got = iter(loss.gradient(*(ours for _, several in wanted for ours in several)))
    return [grad.to_dense() for grad, _ in wanted], [
        functools.reduce(operator.add, [next(got) for _ in several]) for _, several in wanted
    ]


def weights(shape):
    count = math.prod(shape)
    return (1 + torch.arange(count, dtype=torch.float32) % 7 / 4).reshape(tuple(shape))


def tensors_of(value):
    """The distinct tensors in a structure."""
    if isinstance(value, torch.Tensor):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else ()
    found = {}
    for part in parts:
        found.update((id(tensor), tensor) for tensor in tensors_of(part))
    return list(found.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--update", action="store_true", help="write the list, and docs/operations.md unless with --only"
    )
    parser.add_argument("--only", metavar="REGEX", help="operations whose full name matches")
    parser.add_argument("--verbose", action="store_true", help="each sample that disagrees, with its arguments")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    known = report.read_list() if report.LIST.exists() else {}

    start, outcomes, worse, better = time.monotonic(), {}, 0, 0
    with tempfile.TemporaryDirectory() as folder, Daemon(Path(folder)) as daemon:
        client = Judge(daemon)
        for name, op in opdb.names().items():
            if options.only and not re.fullmatch(options.only, name):
                continue
            for dtype in filter(functools.partial(opdb.supports, op), opdb.DTYPES):
                outcome = outcomes[name, dtype] = judge(client, op, dtype, MOST)
                if opdb.find(name) is not None:
                    tell(op, dtype, outcome, options.verbose)
                new, gone = report.changes(known, name, dtype, outcome)
                worse, better = worse + len(new), better + len(gone)
                for kind, number, reason in new:
                    print(f"  not listed: {name} {dtype}, {kind} of sample {number}: {reason}", flush=True)
    counts = report.Counts(outcomes)
    print()
    for what, agree, of in counts.totals():
        print(f"{what:40} {agree:6} of {of}")
    for reason, names in opdb.not_counted().items():
        print(f"not counted, {reason}: {len(names)}")
    print(f"{worse} disagree that the list does not have, {better} agree that it has; {time.monotonic() - start:.0f} s")
    if options.update:
        report.write_list(outcomes)
        if not options.only:
            report.write_doc(counts, MOST)
    return 1 if worse and not options.update else 0


def tell(op, dtype, outcome, verbose):
    """A line for an operation that disagrees; if verbose, each sample."""
    if line := report.line_of(op.full_name, dtype, outcome):
        print(line, flush=True)
    if not verbose:
        return
    samples = opdb.samples(op, dtype, MOST)
    for kind, results in zip(outcome._fields, outcome):
        for number, reason in results.items():
            if reason is not None:
                print(f"  {kind} {number}: {reason}\n    {brief(samples[number])}")


def brief(sample):
    def show(value):
        if isinstance(value, torch.Tensor):
            return f"{str(value.dtype)[6:]}{list(value.shape)}"
        if isinstance(value, (list, tuple)):
            return f"({', '.join(map(show, value))})"
        if isinstance(value, dict):
            return ", ".join(f"{key}={show(item)}" for key, item in value.items())
        return repr(value)

    return ", ".join(filter(None, (show(sample.input), *map(show, sample.args), show(sample.kwargs))))


if __name__ == "__main__":
    sys.exit(main())
