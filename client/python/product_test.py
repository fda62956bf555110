"""Products against NumPy."""

import numpy as np
import pytest
import tensord
from tensord import Tensor
from tensord.nn import functional as F

rng = np.random.default_rng(2)


def close(tensor, expected, rtol=1e-4, atol=1e-5):
    assert tensor.shape == np.shape(expected)
    np.testing.assert_allclose(tensor.numpy(), expected, rtol=rtol, atol=atol)


def array(*shape):
    return rng.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("formula, shapes", [
    ("->", [()]), ("i->", [(4,)]), ("ij->ji", [(2, 3)]), ("ba", [(2, 3)]), ("ij->j", [(2, 3)]),
    (" i j , j k -> i k ", [(2, 3), (3, 4)]), ("ij,jk", [(2, 3), (3, 4)]), ("i,j->ij", [(2,), (3,)]),
    ("ij,ij->", [(2, 3), (2, 3)]), ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]), ("ij,kj,k->i", [(2, 3), (4, 3), (4,)]),
    ("ii->i", [(3, 3)]), ("ii", [(3, 3)]), ("bii->bi", [(2, 3, 3)]), ("iij,j->i", [(3, 3, 2), (2,)]),
    ("...ij,...jk->...ik", [(2, 1, 3, 4), (5, 4, 2)]), ("i...->...", [(2, 3, 4)]), ("...i,i", [(2, 3), (3,)]),
    ("i...j->...", [(2, 3, 4)]), ("a...b,b...c->a...c", [(2, 5, 3), (3, 5, 4)]), ("pqrs,tuqvr->pstuv", [
        (2, 3, 4, 5), (2, 3, 3, 2, 4)]),
])  # fmt: skip
def test_einsum(formula, shapes):
    operands = [array(*shape) for shape in shapes]
    close(tensord.einsum(formula, *map(Tensor, operands)), np.einsum(formula, *operands))


@pytest.mark.parametrize("formula, shapes, message", [
    ("ij,jk->ik", [(2, 3), (4, 5)], "label 'j' has sizes 3 and 4"),
    ("ij->ij", [(2, 3), (2, 3)], "has 1 operands, 2 are given"),
    ("ij,jk->ik", [(2, 3)], "has 2 operands, 1 are given"),
    ("ijk->i", [(2, 3)], "which its labels do not fit"), ("ij->k", [(2, 3)], "label 'k' of the result"),
    ("ij->ii", [(2, 3)], "label 'i' of the result"), ("i..->i", [(2, 3)], "is not letters"),
    ("......i->i", [(2, 3)], "is not letters"), ("ii->i", [(2, 3)], "label 'i' has sizes 2 and 3"),
    ("...i,...i->i", [(2, 3), (4, 3)], "label '...' has sizes 2 and 4"),
])  # fmt: skip
def test_einsum_refuses(formula, shapes, message):
    with pytest.raises(RuntimeError) as raised:
        tensord.einsum(formula, *(Tensor(array(*shape)) for shape in shapes))
    assert message in str(raised.value)


def test_named_products():
    a, b, v, w = array(3, 4), array(4, 5), array(4), array(3)
    c, d, m = array(2, 3, 4), array(2, 4, 5), array(3, 5)
    ta, tb, tv, tw, tc, td, tm = map(Tensor, (a, b, v, w, c, d, m))
    close(tensord.mm(ta, tb), a @ b)
    close(tensord.bmm(tc, td), c @ d)
    close(tensord.mv(ta, tv), a @ v)
    close(tensord.addmm(tm, ta, tb, beta=0.5, alpha=2), 0.5 * m + 2 * a @ b)
    close(tensord.baddbmm(tm, tc, td), m + c @ d)
    close(tensord.addbmm(tm, tc, td, beta=2), 2 * m + (c @ d).sum(0))
    close(tensord.addmv(tw, ta, tv, alpha=3), w + 3 * (a @ v))
    close(tensord.addr(Tensor(array(3, 4)) * 0, tw, tv), np.outer(w, v))
    close(tensord.inner(ta, tc), np.inner(a, c))
    close(tensord.outer(tv, tw), np.outer(v, w))
    close(tensord.vdot(tv, tv), v @ v)
    close(tensord.vecdot(ta, tv), (a * v).sum(-1))
    close(tensord.tensordot(tc, td, dims=([0, 2], [0, 1])), np.tensordot(c, d, ([0, 2], [0, 1])))
    close(tensord.tensordot(ta, tb, 1), np.tensordot(a, b, 1))
    close(tensord.tensordot(ta, tv, 0), np.tensordot(a, v, 0))
    close(tensord.kron(ta, tc), np.kron(a, c))
    x, y = array(2, 3), array(1, 3)
    close(tensord.cross(Tensor(x), Tensor(y)), np.cross(x, y))
    close(tensord.linalg.multi_dot([tv, Tensor(array(4, 3)) * 0 + Tensor(a.T), Tensor(w)]), v @ a.T @ w)
    nan = Tensor(np.full((3, 5), np.nan, np.float32))
    close(tensord.addmm(nan, ta, tb, beta=0), a @ b)


@pytest.mark.parametrize("p", [0, 1, 2, 3, np.inf])
def test_cdist(p):
    a, b = array(2, 3, 4), array(5, 4)
    d = np.abs(a[:, :, None] - b)
    expected = {0: (d != 0).sum(-1), np.inf: d.max(-1)}.get(p, (d**max(p, 1)).sum(-1) ** (1 / max(p, 1)))
    close(tensord.cdist(Tensor(a), Tensor(b), p), expected)


def test_cdist_of_a_point_and_itself_has_no_infinite_slope():
    a = Tensor(array(2, 3), requires_grad=True)
    assert np.isfinite(tensord.cdist(a, a).sum().gradient(a)[0].numpy()).all()


def test_linear_in_both_forms():
    x, w, b = array(2, 4), array(3, 4), array(3)
    close(F.linear(Tensor(x), Tensor(w), Tensor(b)), x @ w.T + b)
    close(Tensor(x).linear(Tensor(w.T.copy()), Tensor(b)), x @ w.T + b)
    close(Tensor(x).linear(Tensor(w[0]), Tensor(w[1])), x * w[0] + w[1])
    close(F.linear(Tensor(x), Tensor(w[0])), x @ w[0])
    w3 = array(5, 4, 3)
    close(F.bilinear(Tensor(x), Tensor(array(2, 3)) * 0 + 1, Tensor(w3)), np.einsum("bi,oij->bo", x, w3))


def test_matmul_options():
    a, b = array(2, 3), array(3, 2)
    close(Tensor(a).matmul(Tensor(b), reverse=True), b @ a)
    ints = Tensor(np.full((1, 2), 100, np.int8))
    assert ints.matmul(ints.T, dtype="int32").numpy().tolist() == [[20000]]
    assert ints.matmul(ints.T).dtype == tensord.int8
    for x, y in [((), (2,)), ((2, 3), (2, 3)), ((3,), (4,)), ((2, 2, 3), (3, 3, 4))]:
        with pytest.raises(RuntimeError):
            Tensor(array(*x)) @ Tensor(array(*y))
    for name, x, y in [("mm", (3,), (3, 2)), ("bmm", (2, 3), (3, 2)), ("mv", (2, 3), (3, 1)), ("outer", (2, 2), (2,))]:
        with pytest.raises(RuntimeError, match=name):
            getattr(Tensor(array(*x)), name)(Tensor(array(*y)))
