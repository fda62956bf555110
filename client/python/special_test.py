"""The namespaces special and signal.windows: derivatives by differences, the names, windows by their formulas."""

import math

import numpy as np
import pytest
import tensord
from tensord import Tensor, signal, special

INF, NAN = math.inf, math.nan
AROUND = [-6.5, -1.3, -0.02, 0.0, 0.7, 1.9, 2.1, 7.9, 8.1, 30.0]
ABOVE = [0.01, 0.7, 1.9, 2.1, 7.9, 8.1, 30.0]
DERIVATIVES = {
    "airy_ai": AROUND, "bessel_j0": AROUND, "bessel_j1": AROUND, "bessel_y0": ABOVE, "bessel_y1": ABOVE,
    "modified_bessel_i0": AROUND[:-1], "modified_bessel_i1": AROUND[:-1], "modified_bessel_k0": ABOVE,
    "modified_bessel_k1": ABOVE, "scaled_modified_bessel_k0": ABOVE, "scaled_modified_bessel_k1": ABOVE,
    "spherical_bessel_j0": AROUND, "erfcx": [-2.0, *AROUND[1:]], "log_ndtr": [-30.0, *AROUND], "entr": ABOVE,
}  # fmt: skip
POLYNOMIALS = [name for name in special.__all__ if "polynomial" in name]


def difference(function, x, step):
    return (function(Tensor(x + step)).numpy() - function(Tensor(x - step)).numpy()) / (2 * step)


@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivative(name):
    function, points = getattr(special, name), np.array(DERIVATIVES[name])
    x = Tensor(points)
    got = function(x).sum().gradient(x)[0].numpy()
    step = 1e-4 * np.maximum(np.abs(points), 1e-2)
    np.testing.assert_allclose(got, difference(function, points, step), rtol=2e-6, atol=2e-8)


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_derivative_of_a_polynomial(name):
    points, degrees = np.array([-1.2, -0.4, 0.3, 1.1])[:, None], np.array([0.0, 1.0, 4.0, 7.0])
    x, n = Tensor(points), Tensor(degrees)
    got = getattr(special, name)(x, n)
    gradient = got.sum().gradient(x)[0].numpy()
    expected = difference(lambda x: getattr(special, name)(x, n), points, 1e-5).sum(1, keepdims=True)
    np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-6)
    with pytest.raises(NotImplementedError, match=f"{name} has no second derivative"):
        (gradient_again,) = got.sum().gradient(x)
        gradient_again.sum().gradient(x)


def test_polynomials_at_the_ends():
    t = special.chebyshev_polynomial_t
    assert t(Tensor([2.0, -2.0, 1.0, -1.0]), 3000).tolist() == [INF, INF, 1.0, 1.0]
    assert t(Tensor([INF, -INF]), Tensor([3, 3])).tolist() == [INF, -INF]
    assert t(Tensor([0.5]), Tensor([2.9])).tolist() == [-0.5]  # a fraction of the degree is dropped
    assert t(Tensor([0.5]), Tensor([-0.9])).tolist() == [1.0]
    assert t(3.0, Tensor([0, 1, 2])).tolist() == [1.0, 3.0, 17.0]
    assert math.isnan(t(Tensor(0.5), 2.0**21).item()) and math.isnan(t(Tensor(0.5), NAN).item())
    assert t(tensord.zeros(0, 3), 4).shape == (0, 3)
    assert special.legendre_polynomial_p(Tensor([1, 2, 3]), 2).dtype == "float32"
    np.testing.assert_allclose(t(Tensor([0.3], dtype="float64"), 5000).item(), math.cos(5000 * math.acos(0.3)), atol=1e-10)
    with pytest.raises(ValueError, match="hermite_polynomial_h: shapes"):
        special.hermite_polynomial_h(tensord.zeros(2), tensord.zeros(3))


def test_ends():
    ends = Tensor([INF, -INF, NAN])
    expected = {
        "airy_ai": [0, 0, NAN], "bessel_j0": [0, 0, NAN], "bessel_j1": [0, 0, NAN], "bessel_y0": [0, NAN, NAN],
        "bessel_y1": [0, NAN, NAN], "modified_bessel_k0": [0, NAN, NAN], "modified_bessel_k1": [0, NAN, NAN],
        "spherical_bessel_j0": [0, 0, NAN], "erfcx": [0, INF, NAN], "log_ndtr": [0, -INF, NAN],
    }  # fmt: skip
    for name, values in expected.items():
        np.testing.assert_array_equal(getattr(special, name)(ends).numpy(), values, err_msg=name)


def test_names():
    x = Tensor([0.3, 1.5])
    for ours, same in [("expit", "sigmoid"), ("gammaln", "lgamma"), ("psi", "digamma"), ("modified_bessel_i0", "i0")]:
        np.testing.assert_array_equal(getattr(special, ours)(x).numpy(), getattr(tensord, same)(x).numpy())
    assert all(callable(getattr(special, name)) for name in special.__all__)
    assert special.multigammaln(Tensor([3.0]), 2).shape == (1,) and special.polygamma(1, x).shape == (2,)


def sizes(M, sym):
    """The elements, and the number of the last one of the symmetric window."""
    return np.arange(M), M - 1 if sym else M


WINDOWS = {
    "bartlett": ({}, lambda i, n: 1 - np.abs(2 * i / n - 1)),
    "blackman": ({}, lambda i, n: 0.42 - 0.5 * np.cos(2 * np.pi * i / n) + 0.08 * np.cos(4 * np.pi * i / n)),
    "cosine": ({}, lambda i, n: np.sin(np.pi * (i + 0.5) / (n + 1))),
    "exponential": ({"tau": 2.5}, lambda i, n: np.exp(-np.abs(i - n / 2) / 2.5)),
    "gaussian": ({"std": 1.7}, lambda i, n: np.exp(-(((i - n / 2) / 1.7) ** 2) / 2)),
    "general_cosine": ({"a": (0.3, 0.2, 0.1)}, lambda i, n: 0.3 - 0.2 * np.cos(2 * np.pi * i / n) + 0.1 * np.cos(4 * np.pi * i / n)),
    "general_hamming": ({"alpha": 0.6}, lambda i, n: 0.6 - 0.4 * np.cos(2 * np.pi * i / n)),
    "hamming": ({}, lambda i, n: 0.54 - 0.46 * np.cos(2 * np.pi * i / n)),
    "hann": ({}, lambda i, n: 0.5 - 0.5 * np.cos(2 * np.pi * i / n)),
    "kaiser": ({"beta": 5.0}, lambda i, n: np.i0(5 * np.sqrt(1 - (2 * i / n - 1) ** 2)) / np.i0(5.0)),
    "nuttall": ({}, lambda i, n: sum((-1) ** k * a * np.cos(2 * np.pi * k * i / n)
                                     for k, a in enumerate([0.3635819, 0.4891775, 0.1365995, 0.0106411]))),
}  # fmt: skip


@pytest.mark.parametrize("sym", [True, False])
@pytest.mark.parametrize("name", WINDOWS)
def test_window(name, sym):
    options, formula = WINDOWS[name]
    window = getattr(signal.windows, name)
    for M in (2, 7, 8):
        got = window(M, sym=sym, **options)
        np.testing.assert_allclose(got.numpy(), formula(*sizes(M, sym)), atol=1e-7)
    assert window(0, **options).shape == (0,) and window(1, **options).tolist() == [1.0]
    made = window(3, dtype="float64", requires_grad=True, **options)
    assert made.dtype == "float64" and made.requires_grad
    with pytest.raises(ValueError, match="negative"):
        window(-1, **options)
    with pytest.raises(ValueError, match="no float"):
        window(3, dtype="int32", **options)


def test_windows_refuse():
    off = signal.windows.exponential(4, center=0, tau=1.0, sym=False).numpy()
    np.testing.assert_allclose(off, np.exp(-np.arange(4.0)), rtol=1e-6)
    for call, message in [
        (lambda: signal.windows.exponential(4, center=1.0), "sym=False"),
        (lambda: signal.windows.exponential(4, tau=0), "tau is 0"),
        (lambda: signal.windows.gaussian(4, std=-1.0), "std is -1.0"),
        (lambda: signal.windows.kaiser(4, beta=-1.0), "beta is -1.0"),
        (lambda: signal.windows.general_cosine(4, a=[]), "no coefficients"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
