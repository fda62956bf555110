"""Linear algebra against NumPy."""

import numpy as np
import pytest
import tensord
from tensord import Tensor, linalg

rng = np.random.default_rng(4)


def close(tensor, expected, rtol=1e-4, atol=1e-5):
    assert tensor.shape == np.shape(expected)
    np.testing.assert_allclose(tensor.numpy(), expected, rtol=rtol, atol=atol)


def array(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def positive(*shape):
    x = array(*shape)
    return x @ x.swapaxes(-1, -2) + np.eye(shape[-1], dtype=np.float32)


def test_systems():
    a, b = positive(2, 4, 4), array(2, 4, 3)
    ta, tb = Tensor(a), Tensor(b)
    close(linalg.solve(ta, tb), np.linalg.solve(a, b), 1e-3)
    close(linalg.inv(ta), np.linalg.inv(a), 1e-3)
    close(linalg.det(ta), np.linalg.det(a), 1e-3)
    sign, log = linalg.slogdet(-ta)
    close(sign, np.linalg.slogdet(-a)[0])
    close(log, np.linalg.slogdet(-a)[1])
    factor = linalg.cholesky(ta)
    close(factor, np.linalg.cholesky(a), 1e-3)
    close(tb.cholesky_solve(factor), np.linalg.solve(a, b), 1e-3)
    close(factor.cholesky_inverse(), np.linalg.inv(a), 1e-3)
    lower = np.tril(a)
    close(linalg.solve_triangular(ta, tb, upper=False), np.linalg.solve(lower, b), 1e-3)
    p, l, u = linalg.lu(ta)  # noqa: E741
    close(p @ l @ u, a, 1e-3)
    packed = linalg.lu_factor(ta)
    assert packed.pivots.dtype == tensord.int32 and packed.pivots.shape == (2, 4)
    close(linalg.lu_solve(*packed, tb), np.linalg.solve(a, b), 1e-3)


@pytest.mark.parametrize("shape", [(5, 3), (2, 3, 4)])
def test_orthogonal_factors(shape):
    a = array(*shape)
    m, n = shape[-2:]
    q, r = linalg.qr(Tensor(a))
    close(q @ r, a)
    assert q.shape[-2:] == (m, min(m, n))
    q, r = Tensor(a).qr()
    close(q @ r, a)
    assert q.shape[-2:] == (m, m) and r.shape == shape
    u, s, vh = linalg.svd(Tensor(a), full_matrices=False)
    close(u @ (s.unsqueeze(-1) * vh), a)
    close(s, np.linalg.svd(a, compute_uv=False))
    close(linalg.svdvals(Tensor(a)), np.linalg.svd(a, compute_uv=False))
    u, s, vh = Tensor(a).svd()
    close(u @ u.transpose(-1, -2), np.broadcast_to(np.eye(m), (*shape[:-2], m, m)))
    close(vh @ vh.transpose(-1, -2), np.broadcast_to(np.eye(n), (*shape[:-2], n, n)))
    close(linalg.pinv(Tensor(a)), np.linalg.pinv(a), 1e-3, 1e-4)
    close(linalg.cond(Tensor(a)), np.linalg.cond(a), 1e-3)
    for order in ("fro", "nuc", np.inf, -np.inf, 1, -1, 2, -2):
        close(linalg.matrix_norm(Tensor(a), order), np.linalg.norm(a, order, (-2, -1)))


def test_symmetric_eigenvalues():
    a = positive(2, 5, 5)
    values, vectors = linalg.eigh(Tensor(a))
    close(values, np.linalg.eigvalsh(a), 1e-3)
    close(vectors * values.unsqueeze(-2) @ vectors.transpose(-1, -2), a, 1e-3, 1e-4)
    close(linalg.eigvalsh(Tensor(np.triu(a)), "U"), np.linalg.eigvalsh(a), 1e-3)
    with pytest.raises(RuntimeError, match="complex"):
        linalg.eig(Tensor(a))


def test_a_larger_matrix():
    a = array(90, 90)
    close(linalg.inv(Tensor(a)) @ Tensor(a), np.eye(90), atol=1e-3)
    close(linalg.svdvals(Tensor(a)), np.linalg.svd(a, compute_uv=False), 1e-3, 1e-4)
    close(linalg.eigvalsh(Tensor(a + a.T)), np.linalg.eigvalsh(a + a.T), 1e-3, 1e-4)


def test_least_squares():
    a, b = array(6, 3), array(6, 2)
    expected = np.linalg.lstsq(a, b, rcond=None)
    solution, residuals, rank, s = linalg.lstsq(Tensor(a), Tensor(b))
    close(solution, expected[0], 1e-3)
    close(residuals, expected[1], 1e-3)
    assert rank.item() == 3
    close(s, expected[3])
    a[:, 2] = a[:, 0]
    assert linalg.matrix_rank(Tensor(a)).item() == 2


def test_functions_of_matrices():
    a = array(3, 3)
    close(linalg.matrix_power(Tensor(a), 5), np.linalg.matrix_power(a, 5), 1e-3)
    values, vectors = np.linalg.eigh(a + a.T)
    close(linalg.matrix_exp(Tensor(a + a.T)), vectors * np.exp(values) @ vectors.T, 1e-3)
    close(Tensor(a).trace(), np.trace(a))
    x = Tensor(array(4, 3)).newton_schulz(20, (2.0, -1.5, 0.5))
    close(x.transpose(0, 1) @ x, np.eye(3), atol=1e-3)


def test_compositions():
    a, b = positive(4, 4), array(4, 2)
    close(tensord.logdet(Tensor(a)), np.linalg.slogdet(a)[1])
    close(tensord.chain_matmul(Tensor(a), Tensor(a), Tensor(b)), a @ a @ b, 1e-3)
    for transpose in (False, True):
        upper = np.triu(a).T if transpose else np.triu(a)
        close(tensord.triangular_solve(Tensor(b), Tensor(a), transpose=transpose)[0], np.linalg.solve(upper, b), 1e-3)
    t = a.reshape(2, 2, 4)
    close(linalg.tensorinv(Tensor(t)), np.linalg.tensorinv(t), 1e-3)
    close(linalg.tensorsolve(Tensor(t), Tensor(b.reshape(-1)[:4].reshape(2, 2))),
          np.linalg.tensorsolve(t, b.reshape(-1)[:4].reshape(2, 2)), 1e-3)  # fmt: skip


def test_gradient_through_the_compiler():
    a = Tensor(positive(3, 3), requires_grad=True)
    slope = linalg.slogdet(a)[1].gradient(a)[0]
    close(slope, np.linalg.inv(a.numpy()).T, 1e-3)
    close(linalg.svdvals(a).sum().gradient(a)[0], np.eye(3), atol=1e-3)


def test_info_of_what_failed():
    good, bad = positive(4, 4), np.diag(np.array([1, 2, -1, 3], "float32"))
    singular = np.array([[1, 2, 3], [2, 4, 6], [0, 0, 1]], "float32")
    factor, info = linalg.cholesky_ex(Tensor(np.stack([good, bad])))
    close(factor[0], np.linalg.cholesky(good))
    assert info.tolist() == [0, 3] and info.dtype == tensord.int32
    assert linalg.lu_factor_ex(Tensor(singular)).info.item() > 0
    for function in (linalg.inv_ex, lambda a, **k: linalg.solve_ex(a, Tensor(np.ones(3, "float32")), **k)):
        assert function(Tensor(singular)).info.item() == linalg.lu_factor_ex(Tensor(singular)).info.item()
        with pytest.raises(RuntimeError, match="pivot"):
            function(Tensor(singular), check_errors=True)
    result, info = linalg.solve_ex(Tensor(good), Tensor(good[:, 0].copy()))
    close(result, np.eye(4)[0], 1e-3, 1e-3)
    assert info.item() == 0 and linalg.cholesky_ex(tensord.zeros(0, 0)).info.item() == 0


def test_reflections():
    for shape in [(5, 3), (3, 5), (4, 4), (2, 4, 2)]:
        a = array(*shape)
        packed, tau = tensord.geqrf(Tensor(a))
        m, n = shape[-2:]
        k = min(m, n)
        r = np.triu(packed.numpy())
        whole = np.broadcast_to(np.eye(m, dtype="float32"), (*shape[:-2], m, m)).copy()
        q = tensord.ormqr(packed, tau, Tensor(whole))
        close(q @ Tensor(r), a, 1e-4, 1e-5)
        close(q.mT @ q, whole, atol=1e-5)
        other = array(*shape[:-2], m, 2)
        turned = tensord.ormqr(packed, tau, Tensor(other), transpose=True)
        close(turned, np.swapaxes(q.numpy(), -1, -2) @ other, 1e-4, 1e-5)
        close(tensord.ormqr(packed, tau, Tensor(np.swapaxes(other, -1, -2).copy()), left=False),
              np.swapaxes(other, -1, -2) @ q.numpy(), 1e-4, 1e-5)  # fmt: skip
        if m >= n:
            close(linalg.householder_product(packed, tau), q.numpy()[..., :k], 1e-4, 1e-5)
    with pytest.raises(ValueError, match="wider"):
        linalg.householder_product(Tensor(array(2, 3)), Tensor(array(2)))
    with pytest.raises(ValueError, match="tau"):
        linalg.householder_product(Tensor(array(3, 2)), Tensor(array(3)))
    with pytest.raises(ValueError, match="rows"):
        tensord.ormqr(Tensor(array(3, 2)), Tensor(array(2)), Tensor(array(2, 2)))


def test_which_singular_values_count():
    a = positive(2, 4, 4)
    a[1] = np.diag(np.array([3, 1, 0.1, 0], "float32"))
    close(linalg.pinv(Tensor(a[1]), hermitian=True), np.linalg.pinv(a[1], hermitian=True), 1e-3, 1e-3)
    close(linalg.pinv(Tensor(np.tril(a[0])), hermitian=True), np.linalg.inv(a[0]), 1e-2, 1e-2)
    assert linalg.matrix_rank(Tensor(a), hermitian=True).tolist() == [4, 3]
    assert linalg.matrix_rank(Tensor(a), atol=Tensor([0.0, 0.5])).tolist() == [4, 2]
    assert linalg.matrix_rank(Tensor(a), rtol=Tensor([2.0, 0.2])).tolist() == [0, 2]
    assert linalg.matrix_rank(Tensor(a[1]), atol=0.5, rtol=0.0).item() == 2
    assert linalg.matrix_rank(tensord.zeros(2, 0, 3)).tolist() == [0, 0]


def test_norms_by_their_axes():
    a = array(3, 4)
    for order in (None, "fro", "nuc", np.inf, 1, -1, 2, -2):
        close(linalg.norm(Tensor(a), order), np.linalg.norm(a, order))
        close(linalg.norm(Tensor(a), order, (1, 0), keepdim=True), np.linalg.norm(a, order, (1, 0), keepdims=True))
    close(linalg.norm(Tensor(a), 1, 1), np.abs(a).sum(1))
    solid = array(2, 3, 4)
    close(linalg.norm(Tensor(solid)), np.linalg.norm(solid))
    close(Tensor(a).norm("nuc"), np.linalg.norm(a, "nuc"))
    close(Tensor(solid).norm("nuc", (1, 2)), np.linalg.norm(solid, "nuc", (1, 2)))
    assert linalg.matrix_norm(tensord.zeros(0, 3)).item() == 0
    with pytest.raises(ValueError, match="axes"):
        linalg.norm(Tensor(array(2, 3, 4)), 2)
    with pytest.raises(ValueError, match="two"):
        linalg.matrix_norm(Tensor(a), dim=(0, 0))


def test_more_compositions():
    a, b = positive(4, 4), array(4, 2)
    factors = tensord.lu(Tensor(a))
    close(tensord.lu_solve(Tensor(b), *factors), np.linalg.solve(a, b), 1e-3, 1e-4)
    p, l, u = tensord.lu_unpack(*factors)
    close(p @ l @ u, a, 1e-4, 1e-5)
    assert tensord.lu_unpack(*factors, unpack_pivots=False)[0].shape == (0,)
    assert len(tensord.lu(Tensor(a), get_infos=True)) == 3
    close(linalg.vander(Tensor([[1.0, 2, 3]]), N=4), np.vander([1.0, 2, 3], 4, increasing=True)[None])
    with pytest.raises(ValueError, match="columns"):
        linalg.vander(Tensor([1.0]), N=1)
    solution, residuals, rank, s = linalg.lstsq(Tensor(a), Tensor(b), driver="gels")
    close(solution, np.linalg.solve(a, b), 1e-2, 1e-2)
    assert rank.shape == (0,) and s.shape == (0,) and residuals.shape == (0,)
    with pytest.raises(ValueError, match="driver"):
        linalg.lstsq(Tensor(a), Tensor(b), driver="best")
    t, right = array(2, 6, 3), array(2, 3)
    close(linalg.tensorsolve(Tensor(t), Tensor(right), dims=(1,)), np.linalg.tensorsolve(t, right, (1,)), 1e-2, 1e-2)


def test_low_rank():
    tensord.manual_seed(3)
    a = array(12, 3) @ array(3, 7)
    u, s, v = tensord.svd_lowrank(Tensor(a), q=3)
    close(u * s @ v.mT, a, 1e-3, 1e-3)
    close(s, np.linalg.svd(a, compute_uv=False)[:3], 1e-3)
    u, s, v = tensord.pca_lowrank(Tensor(a), q=3)
    close(u * s @ v.mT, a - a.mean(0), 1e-3, 1e-3)
    with pytest.raises(ValueError, match="rank"):
        tensord.svd_lowrank(Tensor(a), q=8)
