"""Elementwise functions against NumPy and math: every row of the tables that the extension binds has one here."""

import decimal
import math

import _tensord
import numpy as np
import pytest
import tensord
from tensord import Tensor

INF, NAN = math.inf, math.nan
USUAL = [-3.0, -1.5, -1.0, -0.5, -1e-3, 0.0, 1e-3, 0.25, 1.0, 2.0, 7.5]
UNIT = [-1.0, -0.9, -0.3, 0.0, 1e-3, 0.5, 0.999, 1.0]
POSITIVE = [1e-3, 0.3, 1.0, 1.5, 2.0, 10.0, 300.0]
ENDS = [0.0, -0.0, 1.5, -2.5, INF, -INF, NAN]


def each(function):
    return lambda x: np.array([function(float(v)) for v in x])


def bessel(order, scaled):
    def value(x):
        # The mean of exp(x cos t) cos(order t), by the trapezoidal rule, which is exact for periods.
        t = np.arange(400) * (2 * math.pi / 400)
        return float(np.mean(np.exp(x * np.cos(t) - (abs(x) if scaled else 0)) * np.cos(order * t)))
    return each(value)


def erfinv(y):
    if abs(y) >= 1:
        return math.copysign(INF, y) if abs(y) == 1 else NAN
    low, high = -6.0, 6.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if math.erf(middle) < y else (low, middle)
    return (low + high) / 2


def digamma(x):
    if x == 0 or (x < 0 and x == int(x)):
        return -INF if x == 0 else NAN
    if x < 0:
        return digamma(1 - x) - math.pi / math.tan(math.pi * x)
    total = 0.0
    while x < 20:
        total -= 1 / x
        x += 1
    return total + math.log(x) - 1 / (2 * x) - 1 / (12 * x**2) + 1 / (120 * x**4) - 1 / (252 * x**6) + 1 / (240 * x**8)


def lgamma(x):
    return INF if x <= 0 and x == int(x) else math.lgamma(x)


def sign(x):
    return np.where(np.isnan(x), 0, np.sign(x))


def ndtr(x):
    return 0.5 * math.erfc(-x / math.sqrt(2))


NODES, WEIGHTS = np.polynomial.legendre.leggauss(400)


def integral(function, end):
    """From 0 to the end, by Gauss."""
    return float(end / 2 * (WEIGHTS @ function(end / 2 * (NODES + 1))))


def bessel_j(order):
    t = np.arange(400) * (2 * math.pi / 400)
    return each(lambda x: float(np.mean(np.cos(order * t - x * np.sin(t)))))


def bessel_y(order):
    def value(x):
        if x <= 0:
            return -INF if x == 0 else NAN
        wave = integral(lambda t: np.sin(x * np.sin(t) - order * t), math.pi)
        both = integral(lambda t: (np.exp(order * t) + np.exp(-order * t) * (-1) ** order) * np.exp(-x * np.sinh(t)),
                        math.asinh(45 / x))
        return (wave - both) / math.pi
    return each(value)


def bessel_k(order, scaled):
    def value(x):
        if x <= 0:
            return INF if x == 0 else NAN
        scale = 1 if scaled else math.exp(-x)
        return scale * integral(lambda t: np.exp(-x * (np.cosh(t) - 1)) * np.cosh(order * t), math.acosh(1 + 45 / x))
    return each(value)


def airy(x):
    """By its series, in decimal numbers of 60 digits."""
    with decimal.localcontext() as context:
        context.prec = 60
        at = decimal.Decimal(x)
        even = decimal.Decimal("0.355028053887817239260063186004183176398")
        odd = decimal.Decimal("0.258819403792806798405183560189203963479") * at
        total = decimal.Decimal(0)
        for k in range(1, 120):
            total += even - odd
            even *= at**3 / (3 * k * (3 * k - 1))
            odd *= at**3 / (3 * k * (3 * k + 1))
        return float(total)


# name: (NumPy's function, arguments[, relative error in float32, default 1e-6])
UNARY = {
    "neg": (np.negative, ENDS), "positive": (np.positive, ENDS), "abs": (np.abs, ENDS), "sign": (sign, ENDS),
    "sgn": (sign, ENDS), "square": (np.square, USUAL), "reciprocal": (np.reciprocal, ENDS), "sqrt": (np.sqrt, ENDS),
    "rsqrt": (lambda x: 1 / np.sqrt(x), POSITIVE + [0, INF]), "exp": (np.exp, USUAL + [INF, -INF, NAN, 88]),
    "exp2": (np.exp2, USUAL + [INF, -INF, NAN, 127, -140, 10]), "expm1": (np.expm1, USUAL + [INF, -INF, NAN]),
    "log": (np.log, POSITIVE + ENDS), "log2": (np.log2, POSITIVE + ENDS + [8, 1024]),
    "log10": (np.log10, POSITIVE + ENDS), "log1p": (np.log1p, [-2, -1, -0.5, 1e-7, 0, 3, INF, NAN]),
    "sin": (np.sin, USUAL + [1e4, 1e6]), "cos": (np.cos, USUAL + [1e4, 1e6, 1.5707964]), "tan": (np.tan, USUAL + [1e4]),
    "asin": (np.arcsin, UNIT + [2]), "acos": (np.arccos, UNIT + [2]), "atan": (np.arctan, USUAL + [INF, -INF]),
    "sinh": (np.sinh, USUAL), "cosh": (np.cosh, USUAL), "tanh": (np.tanh, USUAL + [INF, 300, -300]),
    "asinh": (np.arcsinh, USUAL + [-300, 1e6, INF]), "acosh": (np.arccosh, [1, 1.001, 2, 1e6, INF, 0.5]),
    "atanh": (np.arctanh, UNIT + [2]), "erf": (each(math.erf), USUAL), "erfc": (each(math.erfc), USUAL + [9]),
    "erfinv": (each(erfinv), UNIT + [2, -0.99999]), "lgamma": (each(lgamma), USUAL + [2, 0.01, 30, -20.5, 1e4]),
    "digamma": (each(digamma), USUAL + [0.01, 30, -20.5, -2]), "i0": (bessel(0, False), USUAL + [20]),
    "i0e": (bessel(0, True), USUAL + [30]), "i1": (bessel(1, False), USUAL + [20]), "i1e": (bessel(1, True), USUAL + [30]),
    "modified_bessel_k0": (bessel_k(0, False), POSITIVE + [0, -1]),
    "modified_bessel_k1": (bessel_k(1, False), POSITIVE + [0, -1]),
    "scaled_modified_bessel_k0": (bessel_k(0, True), POSITIVE + [0, -1]),
    "scaled_modified_bessel_k1": (bessel_k(1, True), POSITIVE + [0, -1]),
    "bessel_j0": (bessel_j(0), USUAL + [8.5, -20, 99]), "bessel_j1": (bessel_j(1), USUAL + [8.5, -20, 99]),
    "bessel_y0": (bessel_y(0), POSITIVE[1:-1] + [8.5, 20, 99, 0, -1]),
    "bessel_y1": (bessel_y(1), POSITIVE[1:-1] + [8.5, 20, 99, 0, -1]),
    "spherical_bessel_j0": (each(lambda x: math.sin(x) / x if x else 1), USUAL + [100.25]),
    "airy_ai": (each(airy), USUAL + [4, 10, -4.75, -5.25, -12]),
    "erfcx": (each(lambda x: math.exp(x * x) * math.erfc(x)), USUAL + [20]),
    "sinc": (np.sinc, USUAL + [100.25]), "entr": (each(lambda x: -x * math.log(x) if x > 0 else 0 if x == 0 else -INF), USUAL),
    "ndtr": (each(ndtr), USUAL + [-9]), "ndtri": (each(lambda p: math.sqrt(2) * erfinv(2 * p - 1)), [0, 0.1, 0.5, 0.9, 1]),
    "log_ndtr": (each(lambda x: math.log(ndtr(x))), USUAL + [-9, -19]),
    "deg2rad": (np.deg2rad, USUAL), "rad2deg": (np.rad2deg, USUAL), "trunc": (np.trunc, USUAL + ENDS),
    "floor": (np.floor, USUAL + ENDS), "ceil": (np.ceil, USUAL + ENDS), "frac": (lambda x: x - np.trunc(x), USUAL),
    "isnan": (np.isnan, ENDS), "isfinite": (np.isfinite, ENDS), "isposinf": (np.isposinf, ENDS), "isneginf": (np.isneginf, ENDS),
    "isreal": (np.isreal, ENDS), "signbit": (np.signbit, ENDS[:-1]), "logical_not": (np.logical_not, ENDS),
    "bitwise_not": (None, []),
    "angle": (lambda x: np.where(np.isnan(x), x, np.where(x < 0, math.pi, 0.0)), ENDS),
}  # fmt: skip


def test_each_unary_method_has_a_row():
    assert set(UNARY) == set(_tensord._unary_methods)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", [name for name, row in UNARY.items() if row[0]])
def test_unary(name, dtype):
    function, arguments, *rtol = UNARY[name]
    x = np.array(arguments, dtype)
    with np.errstate(all="ignore"):
        expected = np.asarray(function(x.astype(np.float64)))
    got = getattr(tensord, name)(Tensor(x)).numpy()
    assert got.dtype == (bool if expected.dtype == bool else dtype)
    tolerance = 1e-6 if dtype == np.float32 else 2e-12
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(got, expected.astype(got.dtype), rtol=tolerance, atol=tolerance * 1e-2)


@pytest.mark.parametrize("name", [name for name, row in UNARY.items() if row[0]])
@pytest.mark.parametrize("dtype", ["int32", "uint8", "bool", "float16", "bfloat16"])
def test_unary_of_other_dtypes(name, dtype):
    if name == "neg" and dtype in ("bool", "uint8"):
        return  # refused, and wraps
    x = Tensor([0, 1, 1], dtype=dtype)
    got = getattr(x, name)()
    assert got.shape == (3,)
    wide = getattr(x.cast("float64"), name)().numpy()
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(got.cast("float64").numpy(), wide, rtol=1e-2, atol=1e-2)


def test_bits_are_flipped():
    assert Tensor([0, 1, -8]).bitwise_not().tolist() == [-1, -2, 7]
    assert (~Tensor([True, False])).tolist() == [False, True]
    with pytest.raises(ValueError, match="bitwise_xor: operands are float32"):
        Tensor([1.0]).bitwise_not()


A = [-7.0, -5.0, -1.0, 0.0, 2.0, 5.0, 7.5]
B = [-3.0, -0.5, 1.0, 2.0, 4.0]
INTS = [-12, -7, -1, 0, 2, 5, 18]
DIVISORS = [-5, -3, 1, 2, 10]


def gamma_share(a, x):
    """P(a, x), by its series."""
    term = total = 1.0
    for n in range(1, 400):
        term *= x / (a + n)
        total += term
    return total * math.exp(a * math.log(x) - x - math.lgamma(a + 1)) if x > 0 else 0.0


def zeta(s, q):
    n = 2000 + q  # Euler and Maclaurin, from there
    return sum((k + q) ** -s for k in range(2000)) + n ** (1 - s) / (s - 1) + 0.5 * n**-s + s / 12 * n ** (-s - 1)


def pairs(function):
    return np.vectorize(function, otypes=[float])


def heaviside(x, y):
    return np.heaviside(x, y)


def polynomial(basis):
    """Of degree n in a basis of numpy.polynomial; 0 for n < 0."""
    return np.vectorize(lambda x, n: basis(x, [0] * int(n) + [1]) if n >= 0 else 0.0, otypes=[float])


def chebyshev_u(x, n):
    C = np.polynomial.chebyshev
    return C.chebval(x, C.chebder([0] * (int(n) + 1) + [1])) / (n + 1) if n >= 0 else 0.0


def chebyshev(sign):
    """Of the third kind for -1, of the fourth for 1; of the second for 0."""
    return np.vectorize(lambda x, n: chebyshev_u(x, n) + sign * chebyshev_u(x, n - 1), otypes=[float])


def shifted(function):
    return lambda x, n: function(2 * x - 1, n)


PLACES, DEGREES = [-1.25, -1, -0.3, 0, 0.5, 1, 2.5], [-1, 0, 1, 2, 5, 9]
CHEBYSHEV = {"t": polynomial(np.polynomial.chebyshev.chebval), "u": chebyshev(0), "v": chebyshev(-1), "w": chebyshev(1)}

# name: (NumPy's function, left, right, integers too)
BINARY = {
    "add": (np.add, A, B, True), "sub": (np.subtract, A, B, True), "mul": (np.multiply, A, B, True),
    "div": (np.true_divide, A, B, True), "true_divide": (np.true_divide, A, B, True),
    "floor_divide": (np.floor_divide, A, B, True), "remainder": (np.remainder, A, B, True), "fmod": (np.fmod, A, B, True),
    "pow": (np.power, [0.5, 1, 2, 5.5], B, False), "float_power": (np.float_power, [0.5, 1, 2, 5.5], B, False),
    "maximum": (np.maximum, A + [NAN], B + [NAN], True), "minimum": (np.minimum, A + [NAN], B + [NAN], True),
    "fmax": (np.fmax, A + [NAN], B + [NAN], True), "fmin": (np.fmin, A + [NAN], B + [NAN], True),
    "hypot": (np.hypot, A + [INF], B + [1e30], True), "atan2": (np.arctan2, A + [INF], B + [INF, -0.0], True),
    "logaddexp": (np.logaddexp, A + [-INF, 300], B + [-INF], True),
    "logaddexp2": (np.logaddexp2, A + [-INF, 300], B + [-INF], True), "copysign": (np.copysign, A, B + [-0.0, -INF], True),
    "nextafter": (np.nextafter, A, B, False), "ldexp": (lambda x, n: x * 2.0**n, A, [-3, 0, 5], False),
    "heaviside": (heaviside, A, B, False),
    "xlogy": (lambda x, y: np.where(x == 0, 0, x * np.log(np.where(x == 0, 1, y))), A, [0.5, 1, 4], False),
    "xlog1py": (lambda x, y: x * np.log1p(y), A, [-0.5, 1, 4], False),
    "igamma": (pairs(gamma_share), [0.5, 1, 3, 20, 100], [0.0, 0.3, 2, 25, 110], False),
    "igammac": (pairs(lambda a, x: 1 - gamma_share(a, x)), [0.5, 1, 3, 20], [0.0, 0.3, 2, 10], False),
    "zeta": (pairs(zeta), [1.5, 2, 4], [0.5, 1, 7], False),
    **{f"chebyshev_polynomial_{kind}": (f, PLACES, DEGREES, False) for kind, f in CHEBYSHEV.items()},
    **{f"shifted_chebyshev_polynomial_{kind}": (shifted(f), PLACES, DEGREES, False) for kind, f in CHEBYSHEV.items()},
    "hermite_polynomial_h": (polynomial(np.polynomial.hermite.hermval), PLACES, DEGREES, False),
    "hermite_polynomial_he": (polynomial(np.polynomial.hermite_e.hermeval), PLACES, DEGREES, False),
    "laguerre_polynomial_l": (polynomial(np.polynomial.laguerre.lagval), PLACES, DEGREES, False),
    "legendre_polynomial_p": (polynomial(np.polynomial.legendre.legval), PLACES, DEGREES, False),
    "gcd": (np.gcd, [], [], True), "lcm": (np.lcm, [], [], True),
    "bitwise_and": (np.bitwise_and, [], [], True), "bitwise_or": (np.bitwise_or, [], [], True),
    "bitwise_xor": (np.bitwise_xor, [], [], True), "bitwise_left_shift": (None, [], [], False),
    "bitwise_right_shift": (None, [], [], False),
    "logical_and": (np.logical_and, A, [0, 1, NAN], True), "logical_or": (np.logical_or, A, [0, 1, NAN], True),
    "logical_xor": (np.logical_xor, A, [0, 1, NAN], True), "eq": (np.equal, A, B + A, True),
    "ne": (np.not_equal, A, B + A + [NAN], True), "lt": (np.less, A, B + A + [NAN], True),
    "le": (np.less_equal, A, B + A + [NAN], True), "gt": (np.greater, A, B + A + [NAN], True),
    "ge": (np.greater_equal, A, B + A + [NAN], True),
}  # fmt: skip


def test_each_binary_method_has_a_row():
    assert set(BINARY) == set(_tensord._binary_methods)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", [name for name, row in BINARY.items() if row[1]])
def test_binary(name, dtype):
    function, left, right, _ = BINARY[name]
    a, b = np.array(left, dtype)[:, None], np.array(right, dtype)
    with np.errstate(all="ignore"):
        # What comes next to a number depends on the dtype.
        expected = function(a, b) if name == "nextafter" else function(a.astype(np.float64), b.astype(np.float64))
    got = getattr(Tensor(a), name)(Tensor(b)).numpy()
    tolerance = 2e-6 if dtype == np.float32 and name != "float_power" else 1e-11
    np.testing.assert_allclose(got, expected.astype(got.dtype), rtol=tolerance, atol=tolerance * 1e-2)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
@pytest.mark.parametrize("name", [name for name, row in BINARY.items() if row[3]])
def test_binary_of_integers(name, dtype):
    a, b = np.array(INTS, dtype)[:, None], np.array(DIVISORS, dtype)
    expected = BINARY[name][0](a, b)
    if expected.dtype.kind == "f":  # NumPy's floats of small integers are small too
        expected = BINARY[name][0](a.astype(np.float64), b.astype(np.float64))
    got = getattr(Tensor(a), name)(Tensor(b)).numpy()
    assert (got.dtype.kind == "f") == (expected.dtype.kind == "f")
    np.testing.assert_allclose(got, expected, rtol=1e-6)


@pytest.mark.parametrize("name", sorted(BINARY))
def test_numbers_on_either_side(name):
    integers = name.startswith("bitwise") or name in ("gcd", "lcm")
    x = Tensor([1, 2, 3]) if integers else Tensor([1.5, 2.0, 3.0])
    two = 2 if integers else 2.0
    whole = tensord.full((3,), two, dtype=x.dtype)
    for got, expected in [
        (getattr(x, name)(two), getattr(x, name)(whole)),
        (getattr(x, name)(two, reverse=True), getattr(whole, name)(x)),
        (getattr(tensord, name)(two, x), getattr(whole, name)(x)),
    ]:  # fmt: skip
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-6)


OPERATORS = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "truediv": lambda a, b: a / b,
    "floordiv": lambda a, b: a // b, "mod": lambda a, b: a % b, "pow": lambda a, b: a**b, "and": lambda a, b: a & b,
    "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "lshift": lambda a, b: a << b, "rshift": lambda a, b: a >> b,
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name):
    function = OPERATORS[name]
    a, b = np.array([9, 4, 7], np.int32), np.array([2, 4, 1], np.int32)
    np.testing.assert_allclose(function(Tensor(a), Tensor(b)).numpy(), function(a, b), rtol=1e-6)
    np.testing.assert_allclose(function(Tensor(a), 2).numpy(), function(a, 2), rtol=1e-6)
    np.testing.assert_allclose(function(3, Tensor(b)).numpy(), function(3, b), rtol=1e-6)
    with pytest.raises(TypeError):
        if name in ("eq", "ne"):
            raise TypeError  # Python falls back to identity
        function(Tensor(a), object())


@pytest.mark.parametrize("name", ["add", "sub", "mul", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift"])
def test_operators_in_place(name):
    x = Tensor([9, 4, 7])
    y = x
    x = getattr(x, f"__i{name}__")(2)
    assert x is y
    np.testing.assert_array_equal(y.numpy(), OPERATORS[name](np.array([9, 4, 7]), 2))


def test_what_in_place_refuses():
    x = Tensor([1, 2, 3])
    with pytest.raises(RuntimeError, match="would make float32 of int32"):
        x /= 2
    with pytest.raises(RuntimeError, match="would make shape"):
        x.add_(Tensor([[1], [2]]))
    with pytest.raises(RuntimeError, match="sqrt_: would make float32 of int32"):
        x.sqrt_()
    assert x.tolist() == [1, 2, 3]


def test_alpha_and_rounding_modes():
    x = Tensor([7.0, -7.0])
    assert x.add(1, alpha=3).tolist() == [10.0, -4.0]
    assert x.sub(Tensor([1.0, 2.0]), alpha=2).tolist() == [5.0, -11.0]
    assert tensord.sub(1, x, alpha=2).tolist() == [-13.0, 15.0]
    assert x.div(2).tolist() == [3.5, -3.5]
    assert x.div(2, rounding_mode="trunc").tolist() == [3.0, -3.0]
    assert x.div(2, rounding_mode="floor").tolist() == [3.0, -4.0]
    assert Tensor([7, -7]).div(2, rounding_mode="floor").tolist() == [3, -4]
    with pytest.raises(RuntimeError, match="rounding_mode"):
        x.div(2, rounding_mode="typo")


def test_quotients_are_exact():
    assert (Tensor([110.0, 111.0]) // 55).tolist() == [2.0, 2.0]
    assert (Tensor([6.0]) // 0.1).tolist() == [59.0]  # 0.1 is above a tenth, as in Python
    big = np.array([1e6, 123456.7], np.float32)
    np.testing.assert_array_equal((Tensor(big) % 0.1).numpy(), np.fmod(big, np.float32(0.1)))
    top = np.array([2**64 - 1], np.uint64)
    assert (Tensor(top) // 1).numpy() == top


def test_power_at_the_ends():
    cases = [(0.0, 0.0, 1), (0.0, 0.3, 0), (0.0, -0.3, INF), (-INF, 0.3, INF), (-INF, 3.3, INF), (-2.0, 0.5, NAN),
             (0.0, -1.0, INF), (-8.0, 3.0, -512), (1.0, NAN, 1), (NAN, 0.0, 1), (2.0, -2.0, 0.25)]  # fmt: skip
    base, exponent, expected = (np.array(column, np.float32) for column in zip(*cases))
    np.testing.assert_allclose((Tensor(base) ** Tensor(exponent)).numpy(), expected, rtol=1e-6)
    for b, e, y in cases:
        np.testing.assert_allclose((Tensor([b]) ** e).numpy(), [y], rtol=1e-6)
    assert (Tensor([2, 3]) ** 29).tolist() == [2**29, 3**29 - 2**32 * ((3**29 + 2**31) // 2**32)]
    with pytest.raises(RuntimeError, match="integers to the power -1"):
        Tensor([2]) ** -1


@pytest.mark.parametrize("exponent, slopes", [
    (-1.0, [-INF, -1, 0]), (0.0, [0, 0, 0]), (0.3, [INF, 0.3, 0]), (1.0, [1, 1, 1]), (2.0, [0, 2, INF]),
])  # fmt: skip
def test_slope_of_a_power(exponent, slopes):
    x = Tensor([0.0, 1.0, INF])
    np.testing.assert_allclose((x**exponent).sum().gradient(x)[0].numpy(), np.array(slopes, np.float32), rtol=1e-6)


@pytest.mark.parametrize("name", ["abs", "neg", "exp", "log", "sqrt", "tanh", "sigmoid", "relu", "floor", "round", "square"])
def test_functions_in_place(name):
    values = np.array([0.5, 1.5, 2.0], np.float32)
    x = Tensor(values)
    other = x + 0
    assert getattr(x, name + "_")() is x
    np.testing.assert_array_equal(x.numpy(), getattr(Tensor(values), name)().numpy())
    np.testing.assert_array_equal(other.numpy(), values)  # made before, keeps the old data


def test_fills():
    x = Tensor([[1, 2], [3, 4]])
    assert x.add_(1).mul_(2).clamp_(5, 9).tolist() == [[5, 6], [8, 9]]
    assert x.masked_fill_(x > 5, 0).tolist() == [[5, 0], [0, 0]]
    assert x.fill_(7).tolist() == [[7, 7], [7, 7]]
    assert x.copy_(Tensor([1.9, 2.1])).tolist() == [[1, 2], [1, 2]]
    assert x.zero_().tolist() == [[0, 0], [0, 0]]
    assert x.dtype == tensord.int32


def test_spellings():
    x = Tensor([[1.0, -2.0], [3.0, 4.0]])
    for a, b in [("absolute", "abs"), ("arccos", "acos"), ("clip", "clamp"), ("mod", "remainder"), ("multiply", "mul")]:
        assert getattr(Tensor, a) is getattr(Tensor, b)
    assert Tensor.arctan_ is Tensor.atan_
    assert x.sum(axis=1).tolist() == x.sum(dim=1).tolist() == [-1.0, 7.0]
    assert x.sum(axis=1, keepdims=True).shape == (2, 1)
    assert x.leaky_relu(neg_slope=0.5).tolist() == [[1.0, -1.0], [3.0, 4.0]]
    assert x.clamp(min_=0).tolist() == [[1.0, 0.0], [3.0, 4.0]]
    assert x.add(x=1).tolist() == [[2.0, -1.0], [4.0, 5.0]]
    assert tensord.softmax(x, axis=0).shape == (2, 2)
    with pytest.raises(TypeError, match="two values for 'dim'"):
        x.sum(axis=1, dim=0)
    with pytest.raises(TypeError, match="incompatible function arguments"):
        x.sum(axes_of_evil=1)


@pytest.mark.parametrize("low, high", [(0, 1), (0.3, 0.3), (5, 9), (3, 1), (None, 0), (0, None), (-9, -5)])
def test_clamp(low, high):
    values = np.array([-1, 0, 0.5, 1, 3, NAN], np.float32)
    expected = np.clip(values, low, high) if low is None or high is None or low <= high else np.where(
        np.isnan(values), NAN, high)  # fmt: skip
    np.testing.assert_array_equal(Tensor(values).clamp(low, high).numpy(), expected.astype(np.float32))


def test_clamp_by_tensors_and_its_errors():
    x = Tensor([[0.0, 5.0], [1.0, 2.0]])
    assert x.clamp(Tensor([1.0, 1.0]), Tensor([[2.0], [9.0]])).tolist() == [[1.0, 2.0], [1.0, 2.0]]
    assert x.clamp_min(1).clamp_max(Tensor(2.0)).tolist() == [[1.0, 2.0], [1.0, 2.0]]
    with pytest.raises(RuntimeError, match="clamp: needs a minimum or a maximum"):
        x.clamp()
    y = Tensor([0.0, 1.0, 2.0, 3.0], requires_grad=True)
    y.clamp(1, 2).sum().backward()
    assert y.grad.tolist() == [0.0, 1.0, 1.0, 0.0]


def test_parts_of_floats():
    values = np.array([0.0, 1.0, -2.5, 1e-40, 3e38, INF, NAN], np.float32)
    mantissa, exponent = Tensor(values).frexp()
    expected_mantissa, expected_exponent = np.frexp(values)
    np.testing.assert_array_equal(mantissa.numpy(), expected_mantissa)
    np.testing.assert_array_equal(exponent.numpy()[:5], expected_exponent[:5])
    assert exponent.dtype == tensord.int32
    np.testing.assert_array_equal(mantissa.ldexp(exponent).numpy(), values)
    ends = np.array([0.0, -0.0, 1.0, -1.0, INF, -INF], np.float32)
    a, b = (part.ravel() for part in np.meshgrid(ends, ends))
    for name in ("copysign", "nextafter"):
        got = getattr(Tensor(a), name)(Tensor(b)).numpy()
        expected = getattr(np, name)(a, b)
        np.testing.assert_array_equal(got, expected)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(expected))
    assert (1 / Tensor([-0.0]).abs()).tolist() == [INF]


def test_others_with_arguments():
    x = Tensor([-2.5, 0.125, 1.5, 2.675])
    assert x.round().tolist() == [-2.0, 0.0, 2.0, 3.0]
    np.testing.assert_allclose(x.round(decimals=1).numpy(), [-2.5, 0.1, 1.5, 2.7], rtol=1e-6)
    assert Tensor([1234.0]).round(-2).tolist() == [1200.0]
    ends = Tensor([INF, -INF, NAN, 1.0])
    assert ends.isinf(detect_negative=False).tolist() == [True, False, False, False]
    assert ends.isinf(detect_positive=False).tolist() == [False, True, False, False]
    assert ends.nan_to_num(7, 8, 9).tolist() == [8.0, 9.0, 7.0, 1.0]
    np.testing.assert_array_equal(ends.nan_to_num().numpy(), np.nan_to_num(ends.numpy()))
    assert ends.isclose(ends).tolist() == [True, True, False, True]
    assert ends.allclose(ends, equal_nan=True).item() is True
    assert ends.equal(ends) is False and x.equal(x) is True and x.equal(x[:2]) is False
    np.testing.assert_allclose(Tensor([0.25]).logit().numpy(), [math.log(1 / 3)], rtol=1e-6)
    np.testing.assert_allclose(Tensor([2.0]).logit(eps=0.25).numpy(), [math.log(3)], rtol=1e-6)
    np.testing.assert_allclose(Tensor([0.5, 2.0, -0.5]).polygamma(1).numpy(),
                               [math.pi**2 / 2, math.pi**2 / 6 - 1, math.pi**2 / 2 + 4], rtol=1e-6)  # fmt: skip
    np.testing.assert_allclose(Tensor([3.0]).mvlgamma(2).numpy(),
                               [0.5 * math.log(math.pi) + math.lgamma(3) + math.lgamma(2.5)], rtol=1e-6)  # fmt: skip
    a, b = Tensor([1.0, 2.0]), Tensor([4.0, 8.0])
    assert a.addcmul(a, b, value=2).tolist() == [9.0, 34.0]
    assert a.addcdiv(b, a, value=0.5).tolist() == [3.0, 4.0]
    assert a.lerp(b, 0.25).tolist() == [1.75, 3.5] and a.lerp(b, Tensor([1.0, 0.0])).tolist() == [4.0, 2.0]
    assert (a > 1.5).where(a, 0).tolist() == [0.0, 2.0]
    assert tensord.where(a > 1.5, 1, 2).dtype == tensord.int32
    with pytest.raises(RuntimeError, match="where: the condition is float32"):
        a.where(a, b)
    assert a.max(b).tolist() == [4.0, 8.0]


def test_shifts_want_integers():
    x = np.array([-(2**31), -8, 1, 2**31 - 1], np.int32)
    for count in (0, 2, 8, 31):
        np.testing.assert_array_equal((Tensor(x) >> count).numpy(), x >> count)
        np.testing.assert_array_equal((Tensor(x) << count).numpy(), x << count)
    for bad in (lambda: Tensor([1]) << 1.0, lambda: Tensor([1.0]) << 1, lambda: Tensor([1.0]) & 1):
        with pytest.raises(RuntimeError, match="operands are"):
            bad()
    assert (Tensor([5]) | 0xFFFFFFFF).tolist() == [-1]
    assert (Tensor(np.array([2**63 + 5], np.uint64)) & 0xFFFFFFFF).tolist() == [5]
