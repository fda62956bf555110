"""Kernels written by hand, against NumPy, on the CPU and on the interpreter, which checks each access."""

import pathlib
import re

import numpy as np
import pytest

import tensord
from tensord import Tensor, kernel
from tensord.testing import Daemon

RNG = np.random.default_rng(5)


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def ints(*shape, dtype=np.int32, low=-9, high=9):
    return RNG.integers(low, high, shape).astype(dtype)


@kernel
def add_one(out, x):
    i, j = kernel.ranges(*out.shape)
    out[i, j] = x[i, j] + 1


@kernel
def transpose(out, x):
    i, j = kernel.ranges(*x.shape)
    out[j, i] = x[i, j]


@kernel
def stencil(out, x):
    n, m = x.shape
    i, j = kernel.ranges(n, m)
    up, down = x.at(i - 1, j, where=i > 0), x.at(i + 1, j, where=i < n - 1)
    left, right = x.at(i, j - 1, where=j >= 1), x.at(i, j + 1, where=j + 1 < m)
    out[i, j] = up + down + left + right - 4 * x[i, j]


@kernel
def matmul(out, a, b):
    i, j = kernel.ranges(*out.shape)
    k = kernel.reduce_range(a.shape[1])
    out[i, j] = kernel.sum(a[i, k] * b[k, j], k)


@kernel
def softmax(out, x):
    i, j = kernel.ranges(*x.shape)
    k = kernel.reduce_range(x.shape[1])
    most = kernel.max(x[i, k], k)
    out[i, j] = (x[i, j] - most).exp() / kernel.sum((x[i, k] - most).exp(), k)


@kernel
def moments(mean, spread, centred, x):
    n = x.shape[1]
    i, j = kernel.ranges(*x.shape)
    k = kernel.reduce_range(n)
    average = kernel.sum(x[i, k], k) / n
    mean[i] = average
    spread[i] = kernel.max(x[i, k], k) - kernel.min(x[i, k], k)
    centred[i, j] = x[i, j] - average


@kernel
def lookup(out, table, index):
    i, j = kernel.ranges(*out.shape)
    row = index[i]
    out[i, j] = table.at(row, j, where=(row >= 0) & (row < table.shape[0]), other=-1)


@kernel
def clamped(out, table, index):
    i = kernel.range(out.shape[0])
    out[i] = table[index[i].clamp(0, table.shape[0] - 1)]


@kernel
def upsample(out, x):
    i, j = kernel.ranges(*out.shape)
    out[i, j] = x[i // 2, j // 2] * tensord.where(j % 2 == 0, 1, 10)


@kernel
def iota(out):
    i, j = kernel.ranges(*out.shape)
    out[i, j] = i * 10 + j


@kernel
def flat_sum(out, x):
    k, m = kernel.reduce_range(x.shape[0]), kernel.reduce_range(x.shape[1])
    out[()] = kernel.sum(x[k, m], k, m)


@kernel
def scaled(out, x, scale, factor):
    i = kernel.range(x.shape[0])
    out[i] = x[-1 - 0] * factor + x[x.shape[0] - 1 - i] * scale[()]


@kernel
def interleave(out, a, b):
    i, half = kernel.ranges(a.shape[0], 2)
    out[2 * i + half] = tensord.where(half == 0, a[i], b[i])


def neighbours(x):
    p = np.pad(x, 1)
    return p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * x


def softmax_of(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def looked_up(table, index):
    return np.where(((index >= 0) & (index < len(table)))[:, None], table[index.clip(0, len(table) - 1)], -1)


CASES = [
    ("elementwise", add_one, [floats(5, 7)], None, lambda x: x + 1),
    ("elementwise, one element", add_one, [floats(1, 1)], None, lambda x: x + 1),
    ("elementwise, larger", add_one, [floats(64, 130)], None, lambda x: x + 1),
    ("integers", add_one, [ints(3, 9, dtype=np.int8)], None, lambda x: x + 1),
    ("unsigned integers wrap", add_one, [np.full((2, 3), 255, np.uint8)], None, lambda x: x + np.uint8(1)),
    ("int64", add_one, [ints(4, 4, dtype=np.int64)], None, lambda x: x + 1),
    ("float64", add_one, [floats(4, 5).astype(np.float64)], None, lambda x: x + 1),
    ("to another dtype", add_one, [floats(4, 5)], ((4, 5), "int32"), lambda x: (x + 1).astype(np.int32)),
    ("transposed copy", transpose, [floats(33, 18)], ((18, 33), "float32"), lambda x: x.T),
    ("stencil", stencil, [floats(9, 34)], None, neighbours),
    ("stencil of one row", stencil, [floats(1, 5)], None, neighbours),
    ("matmul", matmul, [floats(17, 9), floats(9, 33)], ((17, 33), "float32"), np.matmul),
    ("matmul, larger", matmul, [floats(64, 96), floats(96, 128)], ((64, 128), "float32"), np.matmul),
    ("matmul of one", matmul, [floats(1, 1), floats(1, 1)], ((1, 1), "float32"), np.matmul),
    ("matmul over nothing", matmul, [floats(3, 0), floats(0, 4)], ((3, 4), "float32"), np.matmul),
    ("matmul of integers", matmul, [ints(4, 5), ints(5, 6)], ((4, 6), "int32"), np.matmul),
    ("empty output", matmul, [floats(0, 5), floats(5, 4)], ((0, 4), "float32"), np.matmul),
    ("softmax of rows", softmax, [floats(6, 50)], None, softmax_of),
    ("several outputs", moments, [floats(8, 21)], [((8,), "float32"), ((8,), "float32"), ((8, 21), "float32")],
     lambda x: (x.mean(1), np.ptp(x, 1), x - x.mean(1, keepdims=True))),
    ("gather behind a gate", lookup, [floats(5, 3), ints(20)], ((20, 3), "float32"), looked_up),
    ("gather of clamped indices", clamped, [floats(5), ints(11, dtype=np.int64)], ((11,), "float32"),
     lambda t, i: t[i.clip(0, 4)]),
    ("divided indices", upsample, [floats(3, 4)], ((6, 8), "float32"),
     lambda x: x.repeat(2, 0).repeat(2, 1) * np.where(np.arange(8) % 2 == 0, 1, 10)),
    ("no input", iota, [], ((3, 4), "int32"), lambda: np.arange(3)[:, None] * 10 + np.arange(4)),
    ("all of it", flat_sum, [floats(7, 40)], ((), "float32"), lambda x: x.sum()),
    ("strided stores", interleave, [floats(6), floats(6)], ((12,), "float32"),
     lambda a, b: np.stack([a, b], 1).reshape(-1)),
]  # fmt: skip


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    with Daemon(tmp_path_factory.mktemp("both"), "--devices", "cpu,interp,null") as daemon:
        yield daemon


@pytest.fixture(params=["CPU:0", "INTERP:0"])
def device(request, both, client):
    with tensord.connect(both.address, device=request.param) as connected:
        yield connected


def close(actual, expected):
    actual = actual.numpy()
    assert actual.shape == np.shape(expected)
    np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(("function", "arrays", "out", "numpy"), [case[1:] for case in CASES],
                         ids=[case[0] for case in CASES])  # fmt: skip
def test_computes_what_numpy_computes(device, function, arrays, out, numpy):
    tensors = [Tensor(array) for array in arrays]
    results = function(*tensors, out=out) if out is not None else function(*tensors, out_like=tensors[0])
    expected = numpy(*arrays)
    for result, one in zip(results if isinstance(results, tuple) else [results],
                           expected if isinstance(expected, tuple) else [expected]):  # fmt: skip
        close(result, one)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_sums_of_small_floats_add_up_in_float32(device, dtype):
    x = Tensor(np.ones((4, 1000), np.float32)).cast(dtype)
    ones = matmul(x, x.transpose(0, 1), out=((4, 4), dtype))
    assert ones.dtype == x.dtype
    assert ones.float().tolist() == [[1000.0] * 4] * 4


def test_each_device_takes_them(both, client):
    with tensord.connect(both.address, device="NULL:0"):
        x = Tensor(floats(4, 5))
        assert softmax(x, out_like=x).numpy().shape == (4, 5)


def test_numbers_are_constants(device):
    x = floats(6)
    close(scaled(Tensor(x), Tensor(2.0), 3, out_like=Tensor(x)), x[-1] * 3 + x[::-1] * 2)


def test_is_part_of_programs():
    """Inputs are computed by other kernels, results are read by such, views and several calls."""
    x, w = floats(12, 20), floats(20, 20)
    y = (Tensor(x) @ Tensor(w)).relu()
    z = softmax(y[2:].transpose(0, 1), out=((20, 10), "float32")) @ Tensor(x[2:])
    total = (add_one(z, out_like=z) * 2 + add_one(z, out_like=z)).sum(0)
    expected = softmax_of(np.maximum(x @ w, 0)[2:].T) @ x[2:]
    close(total, ((expected + 1) * 3).sum(0))


def test_only_some_results_are_used():
    x = floats(4, 5)
    mean, spread, centred = moments(Tensor(x), out=[((4,), "float32"), ((4,), "float32"), ((4, 5), "float32")])
    close(spread * 2, np.ptp(x, 1) * 2)
    close(mean, x.mean(1))
    close(centred, x - x.mean(1, keepdims=True))


def test_in_jit_and_in_place():
    state = Tensor(np.zeros((3, 4), np.float32))

    @tensord.jit
    def step(x):
        state.assign(add_one(state, out_like=state))
        return matmul(x, state, out=((2, 4), "float32"))

    x = floats(2, 3)
    for n in range(1, 4):
        close(step(Tensor(x)), x @ np.full((3, 4), n, np.float32))
    assert step.captures == 1
    close(state, np.full((3, 4), 3.0))


def test_overwrites_what_it_reads_elsewhere():
    x = Tensor(np.arange(8, dtype=np.float32))

    @kernel
    def turned(out, x):
        i = kernel.range(8)
        out[i] = x[7 - i]

    x.assign(turned(x, out_like=x))
    assert x.tolist() == [7, 6, 5, 4, 3, 2, 1, 0]


def test_in_loops_on_the_device():
    x = floats(3, 3)
    powers = tensord.fori_loop(0, 4, lambda i, y: matmul(y, Tensor(x), out=((3, 3), "float32")) * 0.5, Tensor(x))
    close(powers, np.linalg.matrix_power(x.astype(np.float64), 5) / 16)


def test_equal_kernels_are_compiled_once(both, client):
    def own(out, x):
        i = kernel.range(x.shape[0])
        out[i] = x[i] * 3 + 11

    with tensord.connect(both.address) as connected:
        compiled = []
        for n in (37, 37, 38):
            x = Tensor(np.ones(n, np.float32))
            assert kernel(own)(x, out_like=x).tolist() == [14.0] * n
            compiled.append(connected.counters()["kernels_compiled"])
    assert compiled[1] == compiled[0]
    assert compiled[2] == compiled[1] + 1


# ---- gradients


@kernel
def cube(out, x):
    i = kernel.range(x.shape[0])
    out[i] = x[i] ** 3


@cube.gradient
def _(grad, x):
    return grad * 3 * square(x, out_like=x)


@kernel
def square(out, x):
    i = kernel.range(x.shape[0])
    out[i] = x[i] * x[i]


@square.gradient
def _(grad, x):
    return grad * 2 * x


@kernel
def smooth(out, x):
    i, j = kernel.ranges(*x.shape)
    k = kernel.reduce_range(x.shape[1])
    out[i, j] = x[i, j].exp() / kernel.sum(x[i, k].exp(), k)


@smooth.gradient
def _(grad, x, outputs):
    (y,) = outputs
    return y * (grad - (grad * y).sum(1, keepdim=True))


@kernel
def polar(product, quotient, a, b):
    i = kernel.range(a.shape[0])
    product[i] = a[i] * b[i]
    quotient[i] = a[i] / b[i]


@polar.gradient
def _(to_product, to_quotient, a, b):
    return to_product * b + to_quotient / b, to_product * a - to_quotient * a / (b * b)


def finite_differences(function, arrays, step=1e-2):
    grads = []
    for k, array in enumerate(arrays):
        grad = np.zeros_like(array, dtype=np.float64)
        for at in np.ndindex(array.shape):
            moved = []
            for sign in (1, -1):
                copies = [a.astype(np.float64) for a in arrays]
                copies[k][at] += sign * step
                moved.append(function(*(Tensor(c) for c in copies)).item())
            grad[at] = (moved[0] - moved[1]) / (2 * step)
        grads.append(grad)
    return grads


@pytest.mark.parametrize(("function", "arrays"), [
    (lambda x: (cube(x, out_like=x) * Tensor([1.0, -2.0, 0.5, 3.0])).sum(), [floats(4)]),
    (lambda x: (smooth(x, out_like=x) * x).sum(), [floats(2, 3)]),
    (lambda a, b: sum(r.sum() for r in polar(a, b, out_like=[a, a])), [floats(3), floats(3) + 4]),
], ids=["cube", "softmax", "two outputs"])  # fmt: skip
def test_gradients_are_those_of_finite_differences(function, arrays):
    tensors = [Tensor(array.astype(np.float64)) for array in arrays]
    for grad, expected in zip(function(*tensors).gradient(*tensors), finite_differences(function, arrays)):
        np.testing.assert_allclose(grad.numpy(), expected, rtol=1e-3, atol=1e-3)


def test_second_derivatives_come_from_the_rule_of_the_rule():
    x = Tensor(floats(5))
    (first,) = cube(x, out_like=x).sum().gradient(x)
    (second,) = first.sum().gradient(x)
    (third,) = second.sum().gradient(x)
    close(second, 6 * x.numpy())
    close(third, np.full(5, 6.0))


def test_a_kernel_without_a_rule_has_no_gradient():
    x = Tensor(floats(2, 3))
    with pytest.raises(ValueError, match="kernel 'add_one' has no gradient; give it one, or detach"):
        add_one(x * 2, out_like=x).sum().gradient(x)
    (grad,) = (add_one(x.detach(), out_like=x) * x).sum().gradient(x)
    close(grad, x.numpy() + 1)


# ---- errors


def call(function, *inputs, out=None):
    """The function as a kernel over these inputs, or over one of shape [2, 3]."""
    inputs = inputs or (Tensor(floats(2, 3)),)
    return kernel(function)(*inputs, out=out or ((2, 3), "float32"))


def wrong_row(out, x):
    i, j = kernel.ranges(2, 3)
    out[i, j] = x[i, j + 1]


def wrong_gate(out, x):
    i, j = kernel.ranges(2, 3)
    out[i, j] = x.at(i, j - 1, where=i > 0)


def condition_outside(out, x):
    i, j = kernel.ranges(2, 3)
    out[i, j] = tensord.where(j > 0, x[i, j - 1], 0)


def race(out, x):
    i, j = kernel.ranges(2, 3)
    out[i, j * 0] = x[i, j]


def partly(out, x):
    i = kernel.range(2)
    out[i, i] = x[i, i]


def twice(out, x):
    i, j = kernel.ranges(2, 3)
    out[i, j] = x[i, j]
    out[i, j] = x[i, j]


def never(out, x):
    kernel.ranges(2, 3)


def open_sum(out, x):
    i, j = kernel.ranges(2, 3)
    k = kernel.reduce_range(3)
    out[i, j] = x[i, k]


def sum_over_loop(out, x):
    i, j = kernel.ranges(2, 3)
    out[i, j] = kernel.sum(x[i, j], j)


def captured(out, x):
    i, j = kernel.ranges(2, 3)
    out[i, j] = x[i, j] * Tensor([2.0]).sum()


def whole_tensor(out, x):
    i, j = kernel.ranges(2, 3)
    out[i, j] = x[i, j].reshape(1).expand(4)


def float_index(out, x):
    i, j = kernel.ranges(2, 3)
    out[i, j] = x[i, x[i, j]]


def reads_output(out, x):
    i, j = kernel.ranges(2, 3)
    out[i, j] = out[i, j] + 1


def too_few(out, x):
    i, j = kernel.ranges(2, 3)
    out[i, j] = x[i]


def a_slice(out, x):
    i, j = kernel.ranges(2, 3)
    out[i, j] = x[i, :]


def unrolled(out, x):
    i, j = kernel.ranges(2, 3)
    value = x[i, j]
    for _ in range(300):
        value = value * 2 + 1
    out[i, j] = value


@pytest.mark.parametrize(("function", "error", "message"), [
    (wrong_row, ValueError, r"kernel 'wrong_row': x\[r0, r1 \+ 1\] may be outside: axis 1 has size 3, and r1 \+ 1 is "
                            r"in \[1, 3\]; give the read a gate"),
    (wrong_gate, ValueError, r"x\[r0, r1 - 1\] may be outside: axis 1 has size 3.*the gate does not prove"),
    (condition_outside, ValueError, r"x\[r0, r1 - 1\] may be outside"),
    (race, ValueError, "the value depends on r1, so each place would be stored 3 times"),
    (partly, ValueError, "2 of its 6 elements are stored, all must be"),
    (twice, ValueError, "out is stored 2 times, it must be once: choose between values with where"),
    (never, ValueError, "out is stored 0 times, it must be once: assign to its elements"),
    (open_sum, ValueError, "reduce-ranges-close"),
    (sum_over_loop, ValueError, "reduces over what is no reduce_range"),
    (captured, ValueError, "uses a tensor that is none of its inputs"),
    (whole_tensor, ValueError, r"a value of shape \[4\] is stored to out"),
    (float_index, ValueError, "an index of x is float32"),
    (reads_output, TypeError, "out is an output and can't be read"),
    (too_few, IndexError, "x has 2 axes, 1 indices are given"),
    (a_slice, TypeError, "an index is an integer or a value of the kernel, not a slice"),
    (unrolled, Exception, "more than 256 ops deep"),
], ids=lambda case: case.__name__ if callable(case) else "")  # fmt: skip
def test_errors_name_the_kernel_and_the_rule(function, error, message):
    with pytest.raises(error, match=message):
        call(function)


def test_values_of_a_kernel_have_no_data():
    kept = []

    def keeps(out, x):
        i, j = kernel.ranges(2, 3)
        kept.append(x[i, j])
        out[i, j] = kept[0]

    call(keeps)
    with pytest.raises(Exception, match="made in the function of a kernel"):
        kept[0].numpy()
    with pytest.raises(RuntimeError, match="kernel.ranges works in the function of a kernel only"):
        kernel.ranges(3)
    x = Tensor(floats(2, 3))
    with pytest.raises(TypeError, match="either out="):
        add_one(x)


def test_sizes_that_vary_are_refused():
    n = tensord.Variable("n", 1, 8)
    with pytest.raises(Exception, match="kernel|size"):
        kernel(lambda out, x: None)(tensord.zeros(n, 3), out=((2, 3), "float32"))


def test_the_examples_of_the_documentation_run():
    page = pathlib.Path(__file__).parents[2] / "docs" / "kernels.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.S)
    assert len(blocks) == 3
    exec(compile("".join(blocks), str(page), "exec"), {})
