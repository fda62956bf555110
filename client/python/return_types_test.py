"""Results that come together are named tuples, wherever they come from."""

import pickle

import numpy as np
import pytest
import tensord
from tensord import Tensor, linalg, return_types

X = np.array([[3, 1, 2], [1, 1, 5], [0, 4, 4]], "float32")
SPD = X @ X.T + 3 * np.eye(3, dtype="float32")

# name: (call, its type in return_types, field names)
PAIR = ("values", "indices")
CASES = {
    "sort": (lambda x: x.sort(), "sort", PAIR),
    "sort, a function": (lambda x: tensord.sort(x, 0, descending=True), "sort", PAIR),
    "topk": (lambda x: x.topk(2), "topk", PAIR),
    "kthvalue": (lambda x: x.kthvalue(2), "kthvalue", PAIR),
    "mode": (lambda x: x.mode(), "mode", PAIR),
    "cummax": (lambda x: x.cummax(1), "cummax", PAIR),
    "cummin": (lambda x: x.cummin(1), "cummin", PAIR),
    "median of an axis": (lambda x: x.median(1), "median", PAIR),
    "nanmedian of an axis": (lambda x: x.nanmedian(dim=1), "nanmedian", PAIR),
    "max by dim": (lambda x: x.max(dim=1), "max", PAIR),
    "min by dim": (lambda x: x.min(dim=-1, keepdim=True), "min", PAIR),
    "aminmax": (lambda x: x.aminmax(dim=0), "aminmax", ("min", "max")),
    "frexp": (lambda x: x.frexp(), "frexp", ("mantissa", "exponent")),
    "qr": (lambda x: x.qr(), "qr", ("Q", "R")),
    "svd": (lambda x: x.svd(), "svd", ("U", "S", "Vh")),
    "slogdet": (lambda x: x.slogdet(), "slogdet", ("sign", "logabsdet")),
    "geqrf": (lambda x: x.geqrf(), "geqrf", ("a", "tau")),
    "histogram": (lambda x: x.histogram(3), "histogram", ("hist", "bin_edges")),
    "histogramdd": (lambda x: x.histogramdd(2), "histogramdd", ("hist", "bin_edges")),
    "unique, all": (lambda x: x.unique(return_inverse=True, return_counts=True), "unique_all",
                    ("output", "inverse_indices", "counts")),
    "unique, counts": (lambda x: x.unique(return_counts=True), "unique_counts", ("output", "counts")),
    "unique, inverse": (lambda x: x.unique_consecutive(return_inverse=True), "unique_inverse",
                        ("output", "inverse_indices")),
    "lu_unpack": (lambda x: tensord.lu_unpack(*tensord.lu(x)), "lu_unpack", ("P", "L", "U")),
    "triangular_solve": (lambda x: x.triangular_solve(x), "triangular_solve", ("solution", "cloned_coefficient")),
    "linalg.qr": (lambda x: linalg.qr(x), "linalg_qr", ("Q", "R")),
    "linalg.svd": (lambda x: linalg.svd(x), "linalg_svd", ("U", "S", "Vh")),
    "linalg.eigh": (lambda x: linalg.eigh(x), "linalg_eigh", ("eigenvalues", "eigenvectors")),
    "linalg.slogdet": (lambda x: linalg.slogdet(x), "linalg_slogdet", ("sign", "logabsdet")),
    "linalg.lu": (lambda x: linalg.lu(x), "linalg_lu", ("P", "L", "U")),
    "linalg.lu_factor": (lambda x: linalg.lu_factor(x), "linalg_lu_factor", ("LU", "pivots")),
    "linalg.lu_factor_ex": (lambda x: linalg.lu_factor_ex(x), "linalg_lu_factor_ex", ("LU", "pivots", "info")),
    "linalg.ldl_factor": (lambda x: linalg.ldl_factor(x), "linalg_ldl_factor", ("LD", "pivots")),
    "linalg.ldl_factor_ex": (lambda x: linalg.ldl_factor_ex(x), "linalg_ldl_factor_ex", ("LD", "pivots", "info")),
    "linalg.polar": (lambda x: linalg.polar(x), "linalg_polar", ("U", "H")),
    "linalg.cholesky_ex": (lambda x: linalg.cholesky_ex(x), "linalg_cholesky_ex", ("L", "info")),
    "linalg.inv_ex": (lambda x: linalg.inv_ex(x), "linalg_inv_ex", ("inverse", "info")),
    "linalg.solve_ex": (lambda x: linalg.solve_ex(x, x), "linalg_solve_ex", ("result", "info")),
    "linalg.lstsq": (lambda x: linalg.lstsq(x, x), "linalg_lstsq", ("solution", "residuals", "rank", "singular_values")),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_results_have_names(case):
    call, name, fields = CASES[case]
    results = call(Tensor(SPD))
    assert type(results) is getattr(return_types, name) and results._fields == fields
    for position, field in enumerate(fields):
        assert getattr(results, field) is results[position]


def test_every_type_is_a_result():
    named = {name for name, member in vars(return_types).items() if hasattr(member, "_fields")}
    assert named == {name for _, name, _ in CASES.values()}


@pytest.mark.parametrize("case", ["sort", "max by dim", "svd", "linalg.lu", "histogramdd"])
def test_captured_and_traced_functions_give_them_back(case):
    call, name, _ = CASES[case]
    expected = call(Tensor(SPD))
    for wrap in (tensord.jit, tensord.function):
        wrapped = wrap(call)
        for _ in range(2):
            results = wrapped(Tensor(SPD))
            assert type(results) is getattr(return_types, name)
            np.testing.assert_allclose(results[0].numpy(), expected[0].numpy(), rtol=1e-5)


def test_they_are_arguments_and_are_pickled():
    pair = Tensor(X).sort()
    assert tensord.jit(lambda p: p.values + p.indices)(pair).tolist() == (pair.values + pair.indices).tolist()
    back = pickle.loads(pickle.dumps(pair))
    assert type(back) is return_types.sort and back.values.tolist() == pair.values.tolist()


EXTREMES = {
    # call: values alone, or values and places
    "over all": (lambda x: x.max(), 5.0),
    "an axis": (lambda x: x.max(1), [3.0, 5.0, 4.0]),
    "axes": (lambda x: x.min((0, 1)), 0.0),
    "axis, NumPy's keyword": (lambda x: x.max(axis=1), [3.0, 5.0, 4.0]),
    "kept, NumPy's keyword": (lambda x: x.min(axis=0, keepdims=True), [[0.0, 1.0, 2.0]]),
    "dim of several axes": (lambda x: x.max(dim=(0, 1)), 5.0),
    "dim None": (lambda x: x.max(dim=None), 5.0),
    "dim": (lambda x: x.max(dim=1), ([3.0, 5.0, 4.0], [0, 2, 1])),
    "dim, a function": (lambda x: tensord.min(x, dim=0), ([0.0, 1.0, 2.0], [2, 0, 0])),
    "dim, kept": (lambda x: x.max(dim=-1, keepdim=True), ([[3.0], [5.0], [4.0]], [[0], [2], [1]])),
    "dim of a number": (lambda x: x[0, 0].max(dim=0), (3.0, 0)),
    "another tensor": (lambda x: tensord.max(x, Tensor([2.0, 2.0, 2.0])), np.maximum(X, 2).tolist()),
    "another tensor, by keyword": (lambda x: x.min(other=Tensor([2.0])), np.minimum(X, 2).tolist()),
}


@pytest.mark.parametrize("case", EXTREMES)
def test_max_and_min_give_places_by_the_keyword_dim_only(case):
    call, expected = EXTREMES[case]
    result = call(Tensor(X))
    if isinstance(expected, tuple):
        assert [each.tolist() for each in result] == list(expected) and result.indices.dtype == "int32"
    else:
        assert isinstance(result, Tensor) and result.tolist() == expected


def test_the_place_alone_has_the_derivative():
    x = Tensor([1.0, 3.0, 3.0], requires_grad=True)
    assert x.max(dim=0).values.gradient(x)[0].tolist() == [0, 1, 0]
    assert x.max(0).gradient(x)[0].tolist() == [0, 0.5, 0.5]  # shared


def test_max_by_dim_has_errors():
    for wrong, error in ((lambda x: x.max(dim=2), IndexError), (lambda x: x[:0].max(dim=0), ValueError),
                         (lambda x: x.max(dim="a"), TypeError), (lambda x: x.max(0, dim=0), TypeError)):  # fmt: skip
        with pytest.raises(error):
            wrong(Tensor(X))


def test_nan_is_an_extreme_by_dim():
    values, indices = Tensor([1.0, np.nan, 7.0]).max(dim=0)
    assert np.isnan(values.item()) and indices.item() == 1


def test_topk_takes_sorted_either_way():
    for keywords in ({"sorted": True}, {"sorted": False}, {"sorted_": False}):
        assert Tensor([1, 3, 2]).topk(2, **keywords).values.tolist() == [3, 2]
