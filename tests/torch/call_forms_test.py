"""PyTorch's forms of calls that tensord has in other words too: keywords, in place, named results."""

import pytest
import torch
from oracle import to_ours
from table import Data, error, lib, row, test_row  # noqa: F401

TIES = Data([[1.0, 3.0, 3.0], [2.0, -1.0, 2.0]])


def condition(x):
    return lib(x).where(x > 0)


ROWS = [
    row("max by dim", lambda x: x.max(dim=1), (3, 4)),
    row("min by dim, kept", lambda x: x.min(dim=0, keepdim=True), (3, 4)),
    row("max by dim, ties", lambda x: x.max(dim=1), TIES),
    row("min by dim, ties, a function", lambda x: lib(x).min(x, dim=1), TIES),
    row("max of two", lambda x, y: lib(x).max(x, y), (3, 4), (4,)),
    row("max by dim of a number", lambda x: x.max(dim=0), ()),
    row("max by dim of bool", lambda x: (x > 0).max(dim=1), (3, 4)),
    row("gradient", lambda x: lib(x).gradient(x), (4, 5)),
    row("gradient, spacing", lambda x: lib(x).gradient(x, spacing=2.0), (4, 5)),
    row("gradient, no spacing", lambda x: lib(x).gradient(x, spacing=None, dim=None), (4, 5)),
    row("gradient, spacings", lambda x: lib(x).gradient(x, spacing=[0.5, 3.0]), (4, 5)),
    row("gradient, one axis", lambda x: lib(x).gradient(x, spacing=2.0, dim=1), (4, 5)),
    row("gradient, edges of order 2", lambda x: lib(x).gradient(x, edge_order=2), (4, 5)),
    row(
        "gradient, coordinates, edges of order 2",
        lambda x, t: lib(x).gradient(x, spacing=[t], dim=1, edge_order=2),
        (3, 5),
        Data([0.0, 1.0, 1.5, 4.0, 4.5]),
        gradient=(0,),
    ),
    row("gradient, two points", lambda x: lib(x).gradient(x), (2,)),
    row("gradient of integers", lambda x: lib(x).gradient(x), Data([1, 4, 9, 16])),
    row("sum_to_size", lambda x: x.sum_to_size(1, 3), (2, 4, 3)),
    row("sum_to_size, a tuple", lambda x: x.sum_to_size((4, 1)), (2, 4, 3)),
    row("sum_to_size, the same", lambda x: x.sum_to_size(2, 3), (2, 3)),
    row("where of a condition", condition, (3, 4)),
    row("where of a condition without axes", condition, Data(1.0)),
    row("isin of a number", lambda x: lib(x).isin(1, x), Data([1, 2])),
    row("isin, not", lambda x: lib(x).isin(x, 1, invert=True), Data([1, 2])),
    row("bucketize of a number", lambda x: lib(x).bucketize(4, x), Data([1, 3, 5])),
    row("add, out", lambda x, y: lib(x).add(x, y, out=lib(x).zeros(3)), (3,), (3,), gradient=False),
    row("out of a wider dtype", lambda x: lib(x).exp(x, out=lib(x).zeros(3, dtype=lib(x).float64)), (3,), gradient=False),
    row(
        "sort, out",
        lambda x: lib(x).sort(x, out=(lib(x).zeros(3), lib(x).zeros(3, dtype=lib(x).int64))),
        (3,),
        gradient=False,
    ),
    row("inv, out", lambda x: lib(x).linalg.inv(x, out=lib(x).zeros(2, 2)), Data([[2.0, 1.0], [1.0, 3.0]]), gradient=False),
    row("eq_", lambda x: x.clone().eq_(3), Data([1.0, 3.0])),
    row("ne_ of integers", lambda x: x.clone().ne_(3), Data([1, 3])),
    row("lt_", lambda x: x.clone().lt_(2), Data([1.0, 3.0])),
    row("le_", lambda x: x.clone().less_equal_(x), Data([1.0, 3.0])),
    row("gt_", lambda x: x.clone().gt_(2), Data([1.0, 3.0])),
    row("ge_", lambda x: x.clone().greater_equal_(3), Data([1.0, 3.0])),
    row("logical_and_", lambda x: x.clone().logical_and_(x), Data([0.0, 3.0]), gradient=False),
    row("logical_not_", lambda x: x.clone().logical_not_(), Data([0.0, 3.0]), gradient=False),
    row("copy_ of a tensor", lambda x, y: (x * 1).copy_(y), (2, 3), (3,)),
    row("squeeze_", lambda x: x.clone().squeeze_(), (1, 3, 1)),
    row("squeeze_ of an axis", lambda x: x.clone().squeeze_(0), (1, 3, 1)),
    row("unsqueeze_", lambda x: x.clone().unsqueeze_(-1), (2, 3)),
    row("t_", lambda x: x.clone().t_(), (2, 3)),
    row("transpose_", lambda x: x.clone().transpose_(0, 2), (2, 3, 4)),
    row("swapaxes_", lambda x: x.clone().swapaxes_(0, 1), (2, 3)),
    row("swapdims_", lambda x: x.clone().swapdims_(0, 1), (2, 3)),
    row("detach_", lambda x: x.clone().detach_(), (2, 3), gradient=False),
    row("index_put of a number", lambda x, i: x.index_put((i,), lib(x).tensor(2.0)), (3, 2), Data([1])),
    row("bernoulli, all", lambda x: lib(x).bernoulli(x, 1.0), (2, 3), gradient=False),
    row("expand_as", lambda x, y: x.expand_as(y), (1, 3), (2, 3)),
    row("logdet", lambda x: x.logdet(), Data([[2.0, 1.0], [1.0, 3.0]])),
    row("triangular_solve", lambda b, a: b.triangular_solve(a), (2, 3), Data([[2.0, 1.0], [0.0, 3.0]])),
    error("max by an axis that is not there", IndexError, "axis", lambda x: x.max(dim=2), (2, 3)),
    error("gradient, edge_order", RuntimeError, "edge_order", lambda x: lib(x).gradient(x, edge_order=3), (4,)),
    error("gradient of one element", RuntimeError, "elements", lambda x: lib(x).gradient(x), (1,)),
    error("sum_to_size that does not fit", RuntimeError, "broadcast", lambda x: x.sum_to_size(2, 2), (2, 3)),
    error("out of integers", RuntimeError, "out", lambda x: lib(x).exp(x, out=lib(x).zeros(3, dtype=lib(x).int32)), (3,)),
]

# What gives named results, but for svd, which is linalg.svd.
NAMED = {
    "sort": lambda x: x.sort(),
    "topk": lambda x: x.topk(1),
    "kthvalue": lambda x: x.kthvalue(1),
    "mode": lambda x: x.mode(),
    "median": lambda x: x.median(dim=0),
    "nanmedian": lambda x: x.nanmedian(dim=0),
    "cummax": lambda x: x.cummax(0),
    "cummin": lambda x: x.cummin(0),
    "max": lambda x: x.max(dim=0),
    "min": lambda x: x.min(dim=0),
    "aminmax": lambda x: x.aminmax(dim=0),
    "frexp": lambda x: x.frexp(),
    "slogdet": lambda x: x.slogdet(),
    "geqrf": lambda x: x.geqrf(),
    "histogram": lambda x: x.histogram(2),
    "histogramdd": lambda x: lib(x).histogramdd(x, [2, 2]),
    "triangular_solve": lambda x: x.triangular_solve(x),
    "lu_unpack": lambda x: lib(x).lu_unpack(*lib(x).linalg.lu_factor(x)),
    "linalg.qr": lambda x: lib(x).linalg.qr(x),
    "linalg.svd": lambda x: lib(x).linalg.svd(x),
    "linalg.eigh": lambda x: lib(x).linalg.eigh(x),
    "linalg.slogdet": lambda x: lib(x).linalg.slogdet(x),
    "linalg.lu": lambda x: lib(x).linalg.lu(x),
    "linalg.lu_factor": lambda x: lib(x).linalg.lu_factor(x),
    "linalg.lu_factor_ex": lambda x: lib(x).linalg.lu_factor_ex(x),
    "linalg.cholesky_ex": lambda x: lib(x).linalg.cholesky_ex(x),
    "linalg.inv_ex": lambda x: lib(x).linalg.inv_ex(x),
    "linalg.solve_ex": lambda x: lib(x).linalg.solve_ex(x, x),
    "linalg.lstsq": lambda x: lib(x).linalg.lstsq(x, x),
}


# What PyTorch's named results have besides fields.
OF_SEQUENCES = {"count", "index", "n_fields", "n_sequence_fields", "n_unnamed_fields"}


@pytest.mark.parametrize("name", NAMED)
def test_results_have_pytorchs_names(name):
    x = torch.tensor([[2.0, 1.0], [1.0, 3.0]])
    expected, got = NAMED[name](x), NAMED[name](to_ours(x))
    theirs = {field for field in dir(expected) if not field.startswith("_")} - OF_SEQUENCES
    assert set(got._fields) == theirs and type(got).__name__ == name.replace(".", "_")
    for field in theirs:
        position = next(i for i, each in enumerate(expected) if each is getattr(expected, field))
        assert getattr(got, field) is got[position]
