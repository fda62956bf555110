"""Tensor against NumPy: data in and out, operators, movement, reductions, errors."""

import traceback

import numpy as np
import pytest
import tensord
from tensord import Tensor

rng = np.random.default_rng(0)


def close(tensor, expected, rtol=1e-5, atol=1e-6):
    got = tensor.numpy()
    expected = np.asarray(expected)
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=atol)


# ---- data in and out


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64",
                                   "uint64", "float16", "float32", "float64"])
def test_arrays_come_back_as_they_went(dtype):
    array = rng.integers(0, 2 if dtype == "bool" else 100, (3, 5)).astype(dtype)
    tensor = Tensor(array)
    assert tensor.dtype == dtype and tensor.shape == (3, 5)
    back = tensor.numpy()
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)


@pytest.mark.parametrize("data, dtype, shape", [
    (3, "weakint", ()), (2.5, "weakfloat", ()), (True, "bool", ()), (np.float64(1), "float64", ()),
    ([1, 2], "int32", (2,)), ([1, 2.0], "float32", (2,)), ([True, False], "bool", (2,)),
    ([[1], [2]], "int32", (2, 1)), ([], "float32", (0,)), (b"ab", "uint8", (2,)),
    (np.zeros((2, 0)), "float64", (2, 0)), (range(3), "int32", (3,)),
])  # fmt: skip
def test_what_data_becomes(data, dtype, shape):
    tensor = Tensor(list(data) if isinstance(data, range) else data)
    assert (tensor.dtype, tensor.shape) == (tensord.dtype(dtype), shape)
    assert tensor.numpy().shape == shape


def test_large_arrays_go_in_chunks():
    array = rng.standard_normal((600, 1000)).astype(np.float32)  # more than two chunks
    np.testing.assert_array_equal(Tensor(array).numpy(), array)


def test_views_and_foreign_byte_order():
    array = np.arange(12, dtype=">i4").reshape(3, 4).T[::2]
    np.testing.assert_array_equal(Tensor(array).numpy(), array)


def test_bfloat16_comes_back_as_float32():
    tensor = Tensor([1.0, 1.00390625], dtype=tensord.bfloat16)
    assert tensor.dtype == tensord.bfloat16
    assert tensor.numpy().dtype == np.float32 and tensor.tolist() == [1.0, 1.0]


def test_items_and_lists():
    assert Tensor(3).item() == 3 and isinstance(Tensor([3]).item(), int)
    assert Tensor([[1.5, 2.0]]).tolist() == [[1.5, 2.0]]
    assert float(Tensor(2.5)) == 2.5 and int(Tensor(7)) == 7 and [10, 20][Tensor(1)] == 20
    with pytest.raises(tensord.errors.InvalidArgumentError, match=r"\(2,\)"):
        Tensor([1, 2]).item()
    np.testing.assert_array_equal(np.asarray(Tensor([1, 2])), [1, 2])
    assert np.asarray(Tensor([1, 2]), dtype=np.float64).dtype == np.float64


def test_repr_computes_nothing():
    tensor = Tensor([1.0, 2.0]) + 1
    assert repr(tensor) == f"Tensor(shape=(2,), dtype=float32, device={tensor.device}, lazy)"
    assert not tensor.is_realized
    tensor.realize()
    assert "realized" in repr(tensor)


def test_properties():
    tensor = Tensor(np.zeros((2, 3), np.float16))
    assert (tensor.ndim, len(tensor), tensor.numel(), tensor.nbytes()) == (2, 2, 6, 12)
    assert tensor.size() == (2, 3) and tensor.size(-1) == 3 and tensor.T.shape == (3, 2)
    assert tensor.dtype.itemsize == 2 and str(tensor.dtype) == "float16"


# ---- operators

BINARY = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
    "/": lambda a, b: a / b, "//": lambda a, b: a // b, "%": lambda a, b: a % b,
    "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b, "==": lambda a, b: a == b, "!=": lambda a, b: a != b,
}  # fmt: skip


@pytest.mark.parametrize("symbol", BINARY)
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_operators(symbol, dtype):
    function = BINARY[symbol]
    a = rng.integers(-7, 7, (3, 1, 4)).astype(dtype)
    b = np.where(rng.integers(0, 2, (5, 1)) > 0, 3, -2).astype(dtype)
    close(function(Tensor(a), Tensor(b)), function(a, b))
    close(function(Tensor(a), b), function(a, b))
    close(function(Tensor(a), 3), function(a, 3))
    close(function(3, Tensor(b)), function(3, b))


def test_bit_operators():
    a = rng.integers(-100, 100, 20).astype(np.int32)
    b = rng.integers(-100, 100, 20).astype(np.int32)
    for function in (lambda x, y: x & y, lambda x, y: x | y, lambda x, y: x ^ y):
        close(function(Tensor(a), Tensor(b)), function(a, b))
        close(function(5, Tensor(b)), function(5, b))
    close(~Tensor(a), ~a)
    close(Tensor(a) << 2, a << 2)
    close(Tensor(a) >> 2, a >> 2)
    close(-Tensor(a), -a)
    close(abs(Tensor(a)), abs(a))


def test_powers():
    a = rng.uniform(0.5, 2, 6).astype(np.float32)
    close(Tensor(a) ** 2, a**2)
    close(Tensor(a) ** Tensor(a), a**a, rtol=1e-4)
    close(2 ** Tensor(a), 2**a, rtol=1e-4)


def test_matrix_products():
    a, b = rng.standard_normal((2, 3, 4)), rng.standard_normal((4, 5))
    close(Tensor(a) @ Tensor(b), a @ b)
    close(Tensor(a) @ b, a @ b)
    close(a.tolist() @ Tensor(b), a @ b)


@pytest.mark.parametrize("tensor, other, dtype", [
    (Tensor, 2, "int32"), (Tensor, 2.5, "weakfloat"), (Tensor, True, "int32"),
])  # fmt: skip
def test_scalars_are_weak(tensor, other, dtype):
    assert (tensor([1, 2]) + other).dtype == dtype
    assert (tensor(np.array([1], np.int8)) + 2).dtype == "int8"
    assert (tensor(np.array([1], np.float16)) * 2.5).dtype == "float16"
    assert (tensor(np.array([1], np.float64)) * 2.5).dtype == "float64"


def test_operators_in_place_keep_the_tensor():
    tensor = Tensor([1.0, 2.0]).realize()
    same = tensor
    tensor += 1
    tensor *= Tensor([2.0, 3.0])
    assert same is tensor and tensor.tolist() == [4.0, 9.0]
    with pytest.raises(tensord.errors.InvalidArgumentError, match="int32"):
        integers = Tensor([1, 2])
        integers /= 2


def test_foreign_operands_are_left_to_python():
    with pytest.raises(TypeError):
        Tensor([1]) + object()
    assert (Tensor([1]) == None) is False  # noqa: E711


UNARY = ["exp", "log", "sqrt", "sin", "cos", "tanh", "floor", "ceil", "trunc", "round", "abs", "square",
         "exp2", "log2", "sign", "reciprocal"]  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_functions(name):
    a = rng.uniform(0.1, 3, (4, 5)).astype(np.float32)
    close(getattr(Tensor(a), name)(), getattr(np, name)(a), rtol=1e-4)
    if hasattr(tensord, name):
        close(getattr(tensord, name)(Tensor(a)), getattr(np, name)(a), rtol=1e-4)


def test_choices():
    a, b = rng.standard_normal((3, 4)).astype(np.float32), np.float32(0.5)
    close(tensord.where(Tensor(a) > 0, Tensor(a), 0), np.where(a > 0, a, 0))
    close((Tensor(a) > 0).where(1, 0), np.where(a > 0, 1, 0))
    close(Tensor(a).clamp(-0.5, b), a.clip(-0.5, 0.5))
    close(Tensor(a).maximum(0.1), np.maximum(a, np.float32(0.1)))
    close(Tensor(a).masked_fill(Tensor(a) < 0, -1), np.where(a < 0, -1, a))
    close(Tensor(a).cast("int32"), a.astype(np.int32))
    close(Tensor(a).int(), a.astype(np.int32))


# ---- movement

MOVES = {
    "reshape": (lambda t: t.reshape(4, -1), lambda a: a.reshape(4, -1)),
    "reshape tuple": (lambda t: t.reshape((6, 4)), lambda a: a.reshape(6, 4)),
    "permute": (lambda t: t.permute(2, 0, 1), lambda a: a.transpose(2, 0, 1)),
    "transpose": (lambda t: t.transpose(0, 2), lambda a: a.swapaxes(0, 2)),
    "T": (lambda t: t.T, lambda a: a.swapaxes(0, 1)),
    "flip": (lambda t: t.flip(0, 2), lambda a: np.flip(a, (0, 2))),
    "pad": (lambda t: t.pad((1, 2, 0, 1), value=3), lambda a: np.pad(a, ((0, 0), (0, 1), (1, 2)), constant_values=3)),
    "expand": (lambda t: t.unsqueeze(1).expand(2, 5, 3, 4), lambda a: np.broadcast_to(a[:, None], (2, 5, 3, 4))),
    "squeeze": (lambda t: t.unsqueeze(0).squeeze(0), lambda a: a),
    "flatten": (lambda t: t.flatten(1), lambda a: a.reshape(2, 12)),
    "roll": (lambda t: t.roll(1, 2), lambda a: np.roll(a, 1, 2)),
    "repeat": (lambda t: t.repeat(2, 1, 3), lambda a: np.tile(a, (2, 1, 3))),
    "tril": (lambda t: t.tril(), lambda a: np.tril(a)),
    "cat": (lambda t: tensord.cat([t, t + 1], dim=1), lambda a: np.concatenate([a, a + 1], 1)),
    "stack": (lambda t: tensord.stack([t, t], dim=-1), lambda a: np.stack([a, a], -1)),
    "int": (lambda t: t[1], lambda a: a[1]),
    "negative int": (lambda t: t[..., -1], lambda a: a[..., -1]),
    "slices": (lambda t: t[:, 1:, ::2], lambda a: a[:, 1:, ::2]),
    "backwards": (lambda t: t[:, ::-1], lambda a: a[:, ::-1]),
    "new axis": (lambda t: t[:, None, 0], lambda a: a[:, None, 0]),
    "beyond": (lambda t: t[5:], lambda a: a[5:]),
    "list": (lambda t: t[[1, 0, 1]], lambda a: a[[1, 0, 1]]),
    "tensor": (lambda t: t[Tensor([[1], [0]])], lambda a: a[[[1], [0]]]),
    "tensors": (lambda t: t[Tensor([1, 0]), :, Tensor([3, 2])], lambda a: a[[1, 0], :, [3, 2]]),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVES)
def test_movement(name):
    move, expected = MOVES[name]
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    close(move(Tensor(array)), expected(array))


def test_splitting():
    array = np.arange(10)
    for got, expected in [(Tensor(array).split(4), np.split(array, [4, 8])),
                          (Tensor(array).split([3, 7]), np.split(array, [3])),
                          (Tensor(array).chunk(3), np.split(array, [4, 8]))]:  # fmt: skip
        assert [part.tolist() for part in got] == [part.tolist() for part in expected]


def test_iteration_and_unpacking():
    a, b = Tensor([[1, 2], [3, 4]])
    assert a.tolist() == [1, 2] and b.tolist() == [3, 4]
    assert [row.item() for row in Tensor([1, 2, 3])] == [1, 2, 3]


# ---- reductions

REDUCTIONS = ["sum", "mean", "max", "min", "prod", "any", "all", "argmax", "argmin"]


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dim", [None, 0, -1])
def test_reductions(name, dim):
    array = rng.integers(-3, 4, (4, 5)).astype(np.float32)
    close(getattr(Tensor(array), name)(dim), getattr(array, name)(axis=dim))


def test_more_reductions():
    array = rng.standard_normal((3, 4, 5)).astype(np.float32)
    tensor = Tensor(array)
    close(tensor.sum((0, 2), keepdim=True), array.sum((0, 2), keepdims=True))
    close(tensor.var(), array.var(ddof=1))
    close(tensor.std(1, correction=0), array.std(1))
    close(tensor.cumsum(1), array.cumsum(1))
    exp = np.exp(array - array.max(-1, keepdims=True))
    close(tensor.softmax(), exp / exp.sum(-1, keepdims=True))
    close(tensor.log_softmax(-1), np.log(exp / exp.sum(-1, keepdims=True)), atol=1e-5)
    close(tensor.logsumexp(-1), np.log(np.exp(array).sum(-1)))
    assert Tensor(np.ones(3, np.int8)).sum().dtype == "int32"


# ---- creation


def test_creation():
    close(tensord.arange(5), np.arange(5))
    close(tensord.arange(1, 10, 3), np.arange(1, 10, 3))
    close(tensord.arange(0, 1, 0.25), np.arange(0, 1, 0.25))
    close(tensord.linspace(0, 1, 5), np.linspace(0, 1, 5))
    close(tensord.eye(3, 4), np.eye(3, 4))
    close(tensord.zeros(2, 3), np.zeros((2, 3)))
    close(tensord.ones((2, 3), dtype="int32"), np.ones((2, 3)))
    close(tensord.full((2,), 7), [7, 7])
    close(tensord.zeros_like(Tensor([1, 2])), [0, 0])
    assert tensord.arange(5).dtype == "int32" and tensord.full((1,), 7).dtype == "int32"
    with pytest.raises(ValueError):
        tensord.zeros(-1)


def test_random_numbers():
    uniform = tensord.rand(10000).numpy()
    assert 0 <= uniform.min() and uniform.max() < 1 and abs(uniform.mean() - 0.5) < 0.02
    normal = tensord.randn(10000).numpy()
    assert abs(normal.mean()) < 0.05 and abs(normal.std() - 1) < 0.05
    whole = tensord.randint(3, 7, (1000,)).numpy()
    assert set(whole.tolist()) == {3, 4, 5, 6} and whole.dtype == np.int32


def test_random_numbers_follow_the_seed():
    tensord.manual_seed(7)
    first, second = tensord.rand(4), tensord.rand(4)
    a, b = first.tolist(), second.tolist()
    assert a != b
    tensord.manual_seed(7)
    again = tensord.rand(4).tolist()
    after = tensord.rand(4).tolist()
    assert (again, after) == (a, b), "reading between draws must not change what is drawn"


# ---- errors

WRONG = {
    "add": lambda: Tensor([1, 2]) + Tensor([1, 2, 3]),
    "matmul": lambda: Tensor([[1, 2]]) @ Tensor([[1, 2]]),
    "reshape": lambda: Tensor([1, 2, 3]).reshape(2, 2),
    "axis": lambda: Tensor([1, 2]).sum(3),
    "cat": lambda: tensord.cat([Tensor([[1]]), Tensor([[1, 2], [3, 4]])], dim=1),
    "index": lambda: Tensor([1, 2])[5],
    "ragged": lambda: Tensor([[1], [2, 3]]),
    "dtype": lambda: Tensor([1], dtype="float31"),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_come_at_the_users_line_before_anything_is_sent(name):
    before = tensord.counters()["programs_run"]
    with pytest.raises((tensord.TensordError, TypeError)) as raised:
        WRONG[name]()
    frames = traceback.extract_tb(raised.tb)
    assert frames[-1].filename == __file__, "the last Python frame is the user's"
    assert str(raised.value)
    assert tensord.counters()["programs_run"] == before


def test_errors_are_also_pythons_own_kinds():
    with pytest.raises(ValueError):
        Tensor([1, 2]) + Tensor([1, 2, 3])
    with pytest.raises(IndexError):
        Tensor([1, 2])[2]
    with pytest.raises(IndexError):
        Tensor([1, 2])[0, 0]
    with pytest.raises(TypeError):
        len(Tensor(1))


def test_a_closed_client_says_so(daemon):
    with tensord.connect(daemon.address) as client:
        tensor = Tensor([1.0, 2.0]) + 1
    assert client.closed
    with pytest.raises(tensord.TensordError, match="closed"):
        tensor.numpy()


def test_tensors_of_two_clients_do_not_mix(daemon):
    ours = Tensor([1.0])
    with tensord.connect(daemon.address):
        theirs = Tensor([1.0])
        with pytest.raises(ValueError, match="different clients"):
            ours + theirs
