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
