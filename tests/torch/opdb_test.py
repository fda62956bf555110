"""A part of the sweep: every operation that exists, by few of its samples. sweep.py runs them all."""

import warnings

import opdb
import pytest
import report
import sweep

MOST = 6  # samples of each


@pytest.mark.parametrize("dtype", opdb.DTYPES)
def test_samples_that_agreed_agree(judge, dtype):
    """The list is of the full sweep, so that a sample here has the same number there."""
    known, worse, agree = report.read_list(), [], 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, op in opdb.names().items():
            if opdb.supports(op, dtype) and opdb.find(name) is not None:
                outcome = sweep.judge(judge, op, dtype, MOST)
                worse += [
                    f"{name}, {kind} of sample {number}: {reason}"
                    for kind, number, reason in report.changes(known, name, dtype, outcome)[0]
                ]
                agree += sum(reason is None for results in outcome for reason in results.values())
    assert not worse, "\n".join(worse)
    assert agree > 100


def test_a_smaller_selection_is_part_of_a_larger_one():
    for count in (0, 1, 5, 40, 1000):
        assert set(opdb.spread(count, MOST)) <= set(opdb.spread(count, sweep.MOST)) <= set(range(count))
