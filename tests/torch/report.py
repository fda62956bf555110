"""What a sweep says: the list of disagreements, and docs/operations.md."""

import collections
import re
from pathlib import Path

import opdb
from left_out import LEFT_OUT

LIST = Path(__file__).with_name("disagreements.tsv")
DOC = Path(__file__).resolve().parents[2] / "docs/operations.md"


def numbers_text(numbers):
    """[0, 1, 2, 5] as "0-2 5"."""
    runs = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return " ".join(f"{a}-{b}" if b > a else f"{a}" for a, b in runs) or "-"


def numbers_of(text):
    return {
        number
        for run in text.split()
        if run != "-"
        for number in range(int(run.split("-")[0]), int(run.split("-")[-1]) + 1)
    }


def main_reason(reasons):
    """The most frequent; numbers in it are an example."""
    kinds = collections.Counter(re.sub(r"-?[\d.]+(e[-+]\d+)?|nan|inf", "#", reason) for reason in reasons)
    kind = kinds.most_common(1)[0][0]
    example = next(reason for reason in reasons if re.sub(r"-?[\d.]+(e[-+]\d+)?|nan|inf", "#", reason) == kind)
    return example.replace("\t", " ")[:140]


def line_of(name, dtype, outcome):
    """A line of the list; None if all samples agree."""
    cells, reasons = [], []
    for results in outcome:
        wrong = [number for number, reason in results.items() if reason is not None]
        reasons += [results[number] for number in wrong]
        cells += [f"{len(results) - len(wrong)}/{len(results)}", numbers_text(wrong)]
    if not reasons:
        return None
    if all(reason == "missing" for reason in reasons):
        cells[1] = "all"
    purpose = opdb.ON_PURPOSE.get((name, dtype))
    return "\t".join([name, dtype, *cells, f"on purpose: {purpose}" if purpose else main_reason(reasons)])


def read_list():
    """{(name, dtype): (samples whose result is known to disagree, samples whose gradient is)}; None means all."""
    known = {}
    for line in LIST.read_text().splitlines():
        if line and not line.startswith("#"):
            name, dtype, _, forward, _, gradient, _ = line.split("\t")
            known[name, dtype] = tuple(None if text == "all" else numbers_of(text) for text in (forward, gradient))
    return known


def changes(known, name, dtype, outcome):
    """(samples that disagree and are not listed, listed ones that agree), each [(kind, number, reason)]."""
    worse, better = [], []
    for kind, results, listed in zip(outcome._fields, outcome, known.get((name, dtype), (set(), set()))):
        for number, reason in results.items():
            expected = listed is None or number in listed
            if reason is not None and not expected:
                worse.append((kind, number, reason))
            elif reason is None and expected:
                better.append((kind, number, reason))
    return worse, better


HEADER = """\
# Samples of PyTorch's database of operations of which tensord's result (or gradient) is another; see sweep.py.
# Written by: $(tools/torch_venv) tests/torch/sweep.py --update
# Columns: operation, dtype; results that agree, samples whose result doesn't; the same of gradients; reason
"""


def write_list(outcomes):
    """What was not run now stays as it was. `outcomes` is {(name, dtype): Outcome}."""
    lines = {key: line_of(*key, outcome) for key, outcome in outcomes.items()}
    for line in LIST.read_text().splitlines() if LIST.exists() else ():
        if not line.startswith("#"):
            lines.setdefault(tuple(line.split("\t")[:2]), line)
    LIST.write_text(HEADER + "".join(f"{line}\n" for _, line in sorted(lines.items()) if line))


class Counts:
    """How much of a sweep agrees."""

    def __init__(self, outcomes):
        by_name = collections.defaultdict(list)
        for (name, _), outcome in outcomes.items():
            by_name[name].append(outcome)
        self.names = sorted(by_name)
        self.missing = [name for name in self.names if opdb.find(name) is None]
        self.whole = [
            name
            for name in self.names
            if name not in self.missing
            and all(reason is None for outcome in by_name[name] for results in outcome for reason in results.values())
        ]
        self.partly = [name for name in self.names if name not in self.missing and name not in self.whole]
        self.forward, self.gradient = (
            {name: share([outcome[kind] for outcome in by_name[name]]) for name in self.names} for kind in (0, 1)
        )
        self.reasons = {
            name: main_reason(
                [reason for outcome in by_name[name] for results in outcome for reason in results.values() if reason]
            )
            for name in self.partly
        }

    def totals(self):
        """[(what, how many agree, of how many)]"""
        exist = [name for name in self.names if name not in self.missing]
        return [
            ("operations that exist", len(exist), len(self.names)),
            ("operations that agree in every sample", len(self.whole), len(self.names)),
            ("results", *total(self.forward, self.names)),
            ("results of operations that exist", *total(self.forward, exist)),
            ("gradients of operations that exist", *total(self.gradient, exist)),
        ]


def share(several):
    """(how many agree, of how many)"""
    reasons = [reason for results in several for reason in results.values()]
    return sum(reason is None for reason in reasons), len(reasons)


def total(shares, names):
    return sum(shares[name][0] for name in names), sum(shares[name][1] for name in names)


INTRODUCTION = """\
# Operations

Which operations of PyTorch exist, and how far they agree with it. This page is written by a sweep over PyTorch's own
database of operations (`torch.testing`), with its sample inputs, in float32, int32 and bool, and with gradients in
float32; at most {most} samples of each operation and dtype. tests/torch/README.md says how to run it. What agrees is
held by the tests: a sample that stops agreeing fails them.

Results agree if shape and dtype are equal (int32 stands for PyTorch's int64) and numbers are within a tolerance,
usually 1e-4 relative and 1e-5 absolute, 1e-3 and 1e-4 for gradients (tests/torch/opdb.py has the exceptions).
Operations that draw random numbers are compared by shape and dtype.

The same folder has tables of cases by hand, for what the samples do not reach: corners of each dtype, empty and
broadcast shapes, errors by type and message. What fails there is listed in tests/torch/expected_failures.txt.
"""

LEFT_OUT_INTRODUCTION = """
## Left out on purpose

Names of `torch` and of `torch.Tensor` that tensord does not have, by the reason, in shell patterns. All others are there, which
tests/torch/names_test.py holds, with the reasons for names of `nn`, `linalg` and other modules. There is no
`torch.distributions`, `torch.distributed`, `torch.sparse`, `torch.nested`, `torch.ao`, `torch.onnx`, `torch.fx`, `torch.profiler`,
and no `_version` of a tensor: what was computed from one that is then written in place keeps the old data, so derivatives stay
right. `autocast` and `data_ptr` raise, and say what to do instead.
"""


def write_doc(counts, most):
    parts = [INTRODUCTION.format(most=most), "## How much agrees\n", "| | agree | of |\n|---|---|---|"]
    parts += [f"| {what} | {agree} | {of} |" for what, agree, of in counts.totals()]
    parts += [
        "\n## In every sample\n",
        names_text(counts.whole),
        "\n## In part\n",
        "The reason is that of most samples that differ.\n",
        "| operation | results | gradients | reason |\n|---|---|---|---|",
    ]
    for name in counts.partly:
        (agree, of), (agree_too, of_too) = counts.forward[name], counts.gradient[name]
        gradients = f"{agree_too} of {of_too}" if of_too else ""
        reason = counts.reasons[name].replace("|", "\\|").replace("<", "\\<")
        parts.append(f"| {name} | {agree} of {of} | {gradients} | {reason} |")
    parts += ["\n## Missing\n", names_text(counts.missing), "\n## Not counted\n"]
    parts += [f"- {reason}: {names_text(names)}" for reason, names in opdb.not_counted().items()]
    parts += [LEFT_OUT_INTRODUCTION]
    parts += [f"- {reason}: {names_text(names.split())}" for reason, names in LEFT_OUT.items()]
    DOC.write_text("\n".join(parts) + "\n")


def names_text(names):
    return ", ".join(f"`{name}`" for name in names) or "None."
