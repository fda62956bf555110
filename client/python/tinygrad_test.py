"""tinygrad's names: each by what it is in words that are tested elsewhere."""

import types

import math
from fractions import Fraction

import numpy as np
import pytest
import tensord
from tensord import Tensor, TinyJit, Variable

X = np.array([[3, 1, 2], [0, -4, 5]], "float32")


def double(out, x):
    i, j = tensord.kernel.ranges(*out.shape)
    out[i, j] = x[i, j] * 2


SAME = {
    "const": (lambda x: Tensor.const(3, "int8"), lambda x: Tensor(3, "int8")),
    "const, a vector": (lambda x: Tensor.const((1.5, 2)), lambda x: Tensor([1.5, 2.0])),
    "const_like": (lambda x: x.const_like(2), lambda x: x.full_like(2)),
    "const_like, a dtype": (lambda x: x.const_like(2, "int8"), lambda x: Tensor.full((2, 3), 2, dtype="int8")),
    "const_like, a row": (lambda x: x.const_like((1, 2, 3)), lambda x: Tensor([[1.0, 2, 3]] * 2)),
    "ufix of a number": (lambda x: x.ufix(2), lambda x: x.full_like(2)),
    "ufix of a float beside ints": (lambda x: x.int().ufix(0.5) + 0, lambda x: x.full_like(0.5)),
    "ufix of a tensor": (lambda x: x.ufix(x + 1), lambda x: x + 1),
    "usum": (lambda x: x.usum(1, x), lambda x: x + 1 + x),
    "usum of bool": (lambda x: (x > 2).usum(x < 0, x == 0), lambda x: (x > 2) | (x < 0) | (x == 0)),
    "uprod": (lambda x: x.uprod(2, x), lambda x: x * 2 * x),
    "uprod of bool": (lambda x: (x > 0).uprod(x < 3), lambda x: (x > 0) & (x < 3)),
    "nothing to add": (lambda x: x.usum(), lambda x: x),
    "sequential": (lambda x: x.sequential([Tensor.relu, lambda y: y + 1]), lambda x: x.relu() + 1),
    "alu, a name of the IR": (lambda x: x.alu("Max", x * 0), lambda x: x.maximum(0)),
    "alu, a name of tinygrad": (lambda x: x.alu(types.SimpleNamespace(name="CMPLT"), 2), lambda x: x < 2),
    "alu of three": (lambda x: x.alu("MULACC", x, 1), lambda x: x * x + 1),
    "alu, whole division": (lambda x: x.int().alu("IDIV", 2), lambda x: x.int().div(2, rounding_mode="trunc")),
    "image_dot": (lambda x: x.image_dot(x.T), lambda x: x @ x.T),
    "image_conv2d": (lambda x: x.reshape(1, 1, 2, 3).image_conv2d(Tensor.ones(1, 1, 2, 2), padding=1),
                     lambda x: x.reshape(1, 1, 2, 3).conv2d(Tensor.ones(1, 1, 2, 2), padding=1)),
    "call": (lambda x: Tensor.call(x, x + 1, fxn=lambda a, b: a * b), lambda x: x * (x + 1)),
    "callify": (lambda x: (x + 1).callify(), lambda x: x + 1),
    "custom_kernel": (lambda x: Tensor.empty(2, 3).custom_kernel(x, fxn=double)[0], lambda x: x * 2),
    "randperm": (lambda x: Tensor.randperm(5).sort().values, lambda x: Tensor.arange(5)),
    "invalids": (lambda x: Tensor.invalids(2, 3, dtype="int8") * 0, lambda x: Tensor.zeros(2, 3, dtype="int8")),
}  # fmt: skip


@pytest.mark.parametrize("case", SAME)
def test_name(case):
    call, other = SAME[case]
    got, expected = call(Tensor(X)), other(Tensor(X))
    assert got.shape == expected.shape and got.dtype == expected.dtype
    np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-6)


ERRORS = {
    "alu": (lambda x: x.alu("warp", 1), ValueError, "no operation 'warp'; there are .*cmplt"),
    "const_like": (lambda x: x.const_like((1, 2)), ValueError, ""),
    "as_param": (lambda x: x.as_param(0), NotImplementedError, "fxn=lambda"),
    "call of an expression": (lambda x: x.call(x, fxn=x + 1), TypeError, "Python function"),
    "is_param_ of ints": (lambda x: x.int().is_param_(), ValueError, ""),
    "prune": (lambda x: TinyJit(lambda y: y, prune=True), NotImplementedError, "outside"),
}  # fmt: skip


@pytest.mark.parametrize("case", ERRORS)
def test_errors_name_the_rule(case):
    call, error, message = ERRORS[case]
    with pytest.raises(error, match=message):
        call(Tensor(X))


def test_is_param_is_requires_grad():
    w = Tensor(X)
    assert not w.is_param and w.is_param_() is w and w.is_param and w.requires_grad
    assert not w.is_param_(False).is_param


def test_shapes_at_most():
    n = Variable("n", 1, 8).bind(3)
    part = Tensor.arange(10)[:n].unsqueeze(0)
    assert part.max_shape == (1, 8) and part.max_numel() == 8
    assert Tensor(X).max_shape == (2, 3) and Tensor(1).max_numel() == 1


def test_calls_have_derivatives():
    x = Tensor(X, requires_grad=True)
    assert x.call(fxn=lambda a: a * a).sum().gradient(x)[0].tolist() == (2 * X).tolist()
    seven = x.call(fxn=lambda a: a * a, grad_fxn=lambda g, inputs, outputs: g * 7)
    assert seven.sum().gradient(x)[0].tolist() == np.full((2, 3), 7.0).tolist()
    assert (x * 2).callify().sum().gradient(x)[0].tolist() == np.full((2, 3), 2.0).tolist()
    out, same = Tensor.empty(2, 3).custom_kernel(x, fxn=double, grad_fxn=lambda g, x: g * 2)
    assert same is x and out.sum().gradient(x)[0].tolist() == np.full((2, 3), 2.0).tolist()


def test_tinyjit_is_jit():
    @TinyJit
    def f(x):
        return x + 1

    @TinyJit(prune=False)
    def g(x):
        return {"twice": x * 2}

    for _ in range(3):
        assert f(Tensor(X)).tolist() == (X + 1).tolist() and g(Tensor(X))["twice"].tolist() == (X * 2).tolist()
    assert f.captures == g.captures == 1
    f.reset()
    assert f(Tensor(X)).tolist() == (X + 1).tolist()


def test_kernels_are_named_before_they_run():
    x = Tensor(X)
    x.realize()
    y, z = (x + 1).softmax(-1), x.sum()
    before = tensord.counters()
    kernels = y.schedule_linear(z)
    after = tensord.counters()
    assert kernels and all(kernels) and not y.is_realized and after["kernels_launched"] == before["kernels_launched"]
    tensord.realize(y, z)
    ran = tensord.counters()
    assert ran["kernels_launched"] - after["kernels_launched"] == len(kernels)
    assert ran["kernels_compiled"] == after["kernels_compiled"]  # what was scheduled is what runs
    assert y.schedule_linear() == []
    np.testing.assert_allclose(y.numpy().sum(-1), 1, rtol=1e-6)


def test_variables_are_named_with_their_values():
    n = Variable("n", 1, 8).bind(3)
    part = Tensor.arange(10)[:n].sum() + 1
    kernels, variables = part.linear_with_vars()
    assert kernels and variables == {"n": 3}


def test_kernels_are_not_named_in_a_captured_function():
    with pytest.raises(RuntimeError, match="captured"):
        tensord.jit(lambda x: x.schedule_linear())(Tensor(X))


def test_matmul_in_place():
    x = before = Tensor(X)
    x @= Tensor.eye(3) * 2
    assert x is before and x.tolist() == (X * 2).tolist()


def nearest(value, bits, least):
    """A Fraction rounded to a float of so many bits, whose numbers are multiples of 2^least."""
    size, exponent = abs(value), least
    while size >= Fraction(2) ** (exponent + bits):
        exponent += 1
    return math.copysign(float(round(size / Fraction(2) ** exponent) * Fraction(2) ** exponent), value)


# dtype: bits of the mantissa, exponent of the least number
ONE_ROUNDING = {"float32": (24, -149), "float16": (11, -24), "bfloat16": (8, -133), "float8_e4m3fn": (4, -9)}


@pytest.mark.parametrize("dtype", ONE_ROUNDING)
def test_fma_rounds_once(dtype):
    bits, least = ONE_ROUNDING[dtype]
    half = 2.0**-bits  # of what is between 1 and its neighbour
    up = 1 + 4 * half
    # Just below and above the middle of two numbers, by less than any wider format has room for.
    a = [1 + 2 * half, 1 - half, 1 + 2 * half, up, -up, 3 * half]
    b = [half * (1 - 2 * half), half * (1 + 2 * half), half, half * half, half * half, 0.75]
    c = [1 + 2 * half, 1 + 2 * half, 1.0, 1.0, -1.0, -2.25 * half]
    rng = np.random.default_rng(7)
    drawn = [rng.uniform(-2, 2, 500) * scale for scale in (1, 2.0**-3, 1)]
    operands = [Tensor(np.concatenate([fixed, more]).astype(np.float32)).cast(dtype) for fixed, more in zip((a, b, c), drawn)]
    x, y, z = (operand.float().tolist() for operand in operands)
    exact = [nearest(Fraction(p) * Fraction(q) + Fraction(r), bits, least) for p, q, r in zip(x, y, z)]
    assert operands[0].alu("fma", *operands[1:]).float().tolist() == exact
    assert operands[0].alu("mulacc", *operands[1:]).float().tolist() != exact


def test_fma_of_other_numbers():
    x = Tensor([2.0, 3.0], requires_grad=True)
    x.alu("FMA", Tensor([5.0, 7.0]), 1).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [5, 7]
    assert Tensor([3, 2**31 - 1]).alu("fma", 2, 1).tolist() == [7, -1]
    special = Tensor([math.inf, -math.inf, math.nan, 3e38]).alu("fma", 2.0, 1.0).tolist()
    assert special[:2] == [math.inf, -math.inf] and math.isnan(special[2]) and special[3] == math.inf
    with pytest.raises(ValueError, match="float64"):
        Tensor(np.ones(2)).alu("fma", 1.0, 1.0)


def test_update_stats_are_the_daemons():
    assert Tensor([1, 2]).realize(Tensor([3]), do_update_stats=False).tolist() == [1, 2]
