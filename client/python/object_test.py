"""What a Tensor is to Python: properties, conversions, copies, pickles, and the generator's state."""

import contextlib
import copy
import math
import pickle

import numpy as np
import pytest
import tensord
from tensord import Tensor, dtypes

A = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_properties():
    tensor = Tensor(A)
    assert (tensor.shape, tensor.ndim, tensor.dim(), tensor.numel(), tensor.nelement()) == ((2, 3), 2, 2, 6, 6)
    assert (tensor.size(), tensor.size(-1), tensor.nbytes(), tensor.element_size()) == ((2, 3), 3, 24, 4)
    assert (tensor.stride(), tensor.stride(0), tensor.storage_offset(), tensor.is_contiguous()) == ((3, 1), 3, 0, True)
    with pytest.raises(IndexError):
        tensor.size(2)
    with pytest.raises(IndexError):
        tensor.stride(-3)


@pytest.mark.parametrize("use", [bool, lambda t: 3 in t, lambda t: 1 if t else 2, lambda t: not t])
def test_a_tensor_is_neither_true_nor_false(use):
    with pytest.raises(TypeError, match="item"):
        use(Tensor([3]))


def test_hash_is_identity():
    a, b = Tensor([1, 2]), Tensor([1, 2])
    assert len({a, b, a}) == 2 and hash(a) == hash(copy.copy(a))


def test_data_leaves_in_every_form():
    tensor = Tensor(A)
    assert tensor.tolist() == A.tolist() and Tensor(2.5).tolist() == 2.5
    assert tensor.data().shape == (2, 3) and tensor.data()[1, 2] == 5
    np.testing.assert_array_equal(np.asarray(tensor), A)
    np.testing.assert_array_equal(np.from_dlpack(tensor), A)
    assert tensor.__dlpack_device__() == (1, 0)
    np.testing.assert_array_equal(tensord.from_dlpack(A).numpy(), A)
    with pytest.raises(ValueError, match="bfloat16"):
        tensor.cast("bfloat16").__dlpack__()
    for error in (ValueError, RuntimeError):
        with pytest.raises(error):
            tensor.item()


def test_arrays_on_the_left_leave_it_to_us():
    tensor = Tensor(A)
    for result in (A + tensor, A * tensor, A @ tensor.T, A - tensor):
        assert isinstance(result, Tensor)
    np.testing.assert_array_equal((A - tensor).numpy(), A - A)


def test_text():
    tensor = Tensor(A) + 1
    assert "lazy" in repr(tensor) and not tensor.is_realized
    assert str(tensor) == "Tensor([[1., 2., 3.],\n        [4., 5., 6.]], dtype=float32)"
    assert f"{Tensor(2.5):.2f}" == "2.50" and f"{Tensor([1, 2])}" == "Tensor([1, 2], dtype=int32)"

    @tensord.jit
    def step(x):
        assert str(x).startswith("Tensor(shape=")
        return x * 1

    step(tensor)


@pytest.mark.parametrize("dtype", [str(dtype) for dtype in dtypes.all])
def test_pickles(dtype):
    whole = Tensor([[0, 1, 1], [1, 0, 0]], dtype=dtype)
    cases = [whole, Tensor(1, dtype=dtype), whole[:, 1:], whole.transpose(0, 1), whole[:0], whole[1].expand(2, 3),
             Tensor(1, dtype=dtype) + whole]
    for tensor in cases:
        back = pickle.loads(pickle.dumps({"t": tensor, "n": 1}))["t"]
        assert (back.dtype, back.shape) == (dtype, tensor.shape) and back.tolist() == tensor.tolist()
        assert not back.requires_grad
    if dtypes.is_float(dtype):
        special = Tensor([-0.0, math.inf, -math.inf, math.nan, 1.5], dtype=dtype)
        back = pickle.loads(pickle.dumps(special.requires_grad_()))
        assert back.requires_grad and back.dtype == dtype and str(back) == str(special)
        (back * 2).sum().backward()
        assert back.grad.tolist() == [2.0] * 5


@pytest.mark.parametrize("number, dtype", [
    (3, "weakint"), (2**40, "weakint"), (-1, "weakint"), (0.1, "weakfloat"), (-0.0, "weakfloat"), (math.inf, "weakfloat"),
    (True, "bool"), (False, "bool"), (2**63, "uint64"),
])  # fmt: skip
def test_pickled_numbers_are_numbers_again(number, dtype):
    tensor = Tensor(number)
    back = pickle.loads(pickle.dumps(tensor))
    assert back.dtype == tensor.dtype == dtype and back.shape == ()
    assert repr(back.item()) == repr(tensor.item())
    if dtype.startswith("weak"):  # with all its digits, and without a say in the dtype
        assert (Tensor([0], dtype="float64") + back).tolist() == [0.0 + number]
        assert (Tensor([1.0], dtype="float16") * back).dtype == "float16"


def test_a_pickled_weak_tensor_has_the_dtype_of_its_data():
    weak = Tensor([1, 2]) * 2.5
    back = pickle.loads(pickle.dumps(weak))
    assert weak.dtype == "weakfloat" and back.dtype == "float32" and back.tolist() == [2.5, 5.0]


def test_copies():
    weight = Tensor([1.0, 2.0], requires_grad=True)
    (weight * weight).sum().backward()
    shallow, deep = copy.copy(weight), copy.deepcopy([weight, weight])
    weight.assign(weight * 10)
    assert shallow.tolist() == [10, 20]
    assert deep[0] is deep[1] and deep[0].tolist() == [1, 2]
    assert deep[0].requires_grad and deep[0].grad.tolist() == [2, 4]
    assert pickle.loads(pickle.dumps(weight)).requires_grad


def test_clone_is_a_tensor_of_its_own_and_differentiable():
    weight = Tensor([1.0, 2.0], requires_grad=True)
    copied = weight.clone()
    copied *= 3
    copied.sum().backward()
    assert weight.tolist() == [1, 2] and weight.grad.tolist() == [3, 3]


def test_gradients_go_through_a_clone():
    x = Tensor([1.0, 2.0])
    copied = (x * x).clone()
    assert copied.sum().gradient(x)[0].tolist() == [2, 4]
    # What is assigned to it is its own, and so is what a captured function does to it.
    copied.assign(x * 3)
    assert copied.sum().gradient(x)[0].tolist() == [0, 0]
    parameter = x.clone()

    @tensord.jit
    def step(rate):
        parameter.assign(parameter - rate * parameter.square().sum().gradient(parameter)[0])
        return parameter.sum()

    assert [step(Tensor(0.25)).item() for _ in range(3)] == [1.5, 0.75, 0.375]
    assert x.tolist() == [1, 2] and parameter.tolist() == [0.125, 0.25]
    leaf = x.clone().requires_grad_()
    (leaf * 5).sum().backward()
    assert leaf.grad.tolist() == [5, 5]


def test_a_clone_keeps_what_it_was_made_of():
    x = Tensor([1.0, 2.0]).realize()
    before = x.clone()
    x += 1
    assert before.tolist() == [1, 2] and x.tolist() == [2, 3]
    for _ in range(3):
        before += 1
    assert before.tolist() == [4, 5] and x.tolist() == [2, 3]


def test_to():
    tensor = Tensor(A)
    assert tensor.to(tensor.device) is tensor and tensor.to("cpu") is tensor and tensor.cpu() is tensor
    assert tensor.to("float64").dtype == "float64" and tensor.to(tensord.float16).dtype == "float16"
    assert tensor.to("cpu", tensord.int32).dtype == "int32" and tensor.to(Tensor([1])).dtype == "int32"
    assert tensor.to(tensord.float32, copy=True) is not tensor
    with pytest.raises(ValueError, match="CPU:7"):
        tensor.to("CPU:7")


def test_replace():
    tensor, other = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
    view = tensor[1:]
    assert tensor.replace(other) is tensor and tensor.tolist() == [3, 4] and view.tolist() == [4]
    with pytest.raises(RuntimeError, match="replace"):
        tensor.replace(Tensor([1.0]))


@pytest.mark.parametrize("value, error", [([1, 2, 3], ValueError), (Tensor, RuntimeError)])
def test_assign_wants_the_dtype_and_a_shape_that_broadcasts(value, error):
    with pytest.raises(error):
        Tensor([1.0, 2.0]).assign(Tensor([1, 2]) if value is Tensor else np.array(value, np.float32))
    assert Tensor([1.0, 2.0]).assign(Tensor([7.0])).tolist() == [7, 7]


# ---- the generator


def test_the_state_comes_back():
    tensord.manual_seed(2**40 + 5)
    assert tensord.initial_seed() == 2**40 + 5
    tensord.rand(3).realize()
    pending = tensord.rand(2)
    state = tensord.get_rng_state()
    first = tensord.rand(4).tolist()
    with tensord.fork_rng():
        assert tensord.rand(4).tolist() != first
        tensord.manual_seed(1)
    second = tensord.rand(4).tolist()
    assert first != second and pending.tolist() != first[:2]
    tensord.set_rng_state(state)
    assert tensord.rand(4).tolist() == first and tensord.rand(4).tolist() == second
    tensord.set_rng_state(pickle.loads(pickle.dumps(state)))
    assert tensord.rand(4).tolist() == first
    with pytest.raises(ValueError):
        tensord.set_rng_state(Tensor([1, 2]))
    assert tensord.seed() == tensord.initial_seed()


@pytest.mark.parametrize("call", [
    lambda x, t: x.layer_norm(t), lambda x, t: x.rms_norm(normalized_shape=t), lambda x, t: x.norm(t),
    lambda x, t: x.quantile(0.5, dim=t), lambda x, t: x.take_along_dim(Tensor([[0]]), dim=t),
    lambda x, t: x.shrink((t, t), (t, t)), lambda x, t: x.index_put(t, 1.0), lambda x, t: t.embedding_bag(x, mode="max"),
])  # fmt: skip
def test_a_tensor_where_a_number_belongs_is_an_error_at_most(call):
    x, number = Tensor([[1.0, 2.0], [3.0, 4.0]]), Tensor([1, 0])
    with contextlib.suppress(ValueError, TypeError, RuntimeError, IndexError):
        call(x, number)
    assert x.tolist() == [[1.0, 2.0], [3.0, 4.0]]
