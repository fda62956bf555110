"""Reading and writing by index against NumPy, and what is seen through views."""

import numpy as np
import pytest
import tensord
from tensord import Tensor

A = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
I = np.array([2, 0, -1])
J = np.array([[1], [3]])
MASK = A[:, :, 0] % 2 == 0

INDICES = {
    "int": 1, "negative": -1, "ints": (1, -2), "all": (2, 3, 4), "nothing": (), "ellipsis": ...,
    "slice": slice(1, 3), "beyond": slice(1, 100), "before": slice(-100, 2), "empty": slice(2, 1), "step": slice(None, None, 2),
    "backwards": slice(None, None, -1), "backwards by two": (slice(None), slice(3, None, -2)), "ends": slice(2, 0, -1),
    "none": (None, 0), "nones": (slice(None), None, 1, None), "ellipsis between": (0, ..., 2), "ellipsis of nothing": (0, 1, ..., 2),
    "mixed": (slice(1, None), None, 2, slice(None, None, -1)),
    "array": I, "list": [2, 0, -1], "nested list": [[1], [0]], "in the middle": (slice(None), I), "at the end": (..., I),
    "two": (I, I), "broadcast": (I, J), "in place": (slice(None), I, J), "apart": (I, slice(None), J), "with new axis": (I, None, J),
    "slices too": (slice(1, None), I, slice(None, None, -2)), "empty list": ([],), "range": (slice(None), range(3)),
    "mask": MASK, "mask of all": A > 30, "mask and slice": (MASK, slice(1, 3)), "mask of one axis": (slice(None), np.array([True, False, True, True])),
}  # fmt: skip


@pytest.mark.parametrize("name", INDICES)
def test_reading(name):
    index = INDICES[name]
    plain = [] if name == "empty list" else index
    expected = A[np.array([], np.int32)] if name == "empty list" else A[list(index[1]) if name == "range" else plain]
    if name == "range":
        expected = A[:, [0, 1, 2]]
    got = Tensor(A)[index]
    assert got.shape == expected.shape
    np.testing.assert_array_equal(got.numpy(), expected)


@pytest.mark.parametrize("name", [name for name in INDICES if name not in ("empty list", "range")])
def test_writing(name):
    index = INDICES[name]
    for value in (7, np.arange(A[index].size, dtype=np.float32).reshape(A[index].shape)):
        expected, tensor = A.copy(), Tensor(A)
        expected[index] = value
        tensor[index] = value
        np.testing.assert_array_equal(tensor.numpy(), expected)
        expected[index] += 1
        tensor[index] += 1
        np.testing.assert_array_equal(tensor.numpy(), expected)


def test_tensors_as_indices():
    tensor = Tensor(A)
    np.testing.assert_array_equal(tensor[Tensor(1)].numpy(), A[1])
    np.testing.assert_array_equal(tensor[Tensor(1), :, Tensor(I)].numpy(), A[1][:, I])
    np.testing.assert_array_equal(tensor[Tensor(MASK)].numpy(), A[MASK])
    np.testing.assert_array_equal(tensor[Tensor([[5, 1]]), 0, 0].numpy(), [[0, A[1, 0, 0]]])  # outside reads as 0
    tensor[Tensor([5, 1]), 0, 0] = -1  # and writes nothing
    assert tensor[:, 0, 0].tolist() == [0, -1, 40]
    tensor[Tensor([1, 1]), 0, 0] = Tensor([3.0, 4.0])  # the last one stays
    assert tensor[:, 0, 0].tolist() == [0, 4, 40]


@pytest.mark.parametrize("index", [
    [True, False, True], [[False, True, True, True], [True, True, False, False], [True, False, True, True]],
    ([False, False, True], 1), (..., [True, True, False, True, False]), (0, [True, False, True, True]),
    (None, [True, False, True]), [True, False, 2], ([True, 2], [False, 3]), [np.True_, np.False_, np.True_],
])  # fmt: skip
def test_a_list_of_bools_is_a_mask_and_bools_among_ints_are_ints(index):
    a = A.copy() if isinstance(A, np.ndarray) else np.asarray(A)
    expected = a[index]
    tensor = Tensor(a)
    np.testing.assert_array_equal(tensor[index].numpy(), expected)
    tensor[index] = -7
    a[index] = -7
    np.testing.assert_array_equal(tensor.numpy(), a)


@pytest.mark.parametrize("index, error", [
    ([True, False], IndexError), ([True, False, True, True], IndexError), (3, IndexError), (-4, IndexError), ((0, 0, 0, 0), IndexError), ((..., 0, ...), IndexError), (slice(None, None, 0), ValueError),
    (slice(0, 1.5), TypeError), (1.5, IndexError), ([0.5], IndexError), (True, IndexError), ("a", IndexError),
    (([0, 1], [0, 1, 2]), IndexError), (np.ones((2, 2), bool), IndexError),
])  # fmt: skip
def test_what_is_no_index(index, error):
    for use in (lambda t: t[index], lambda t: t.__setitem__(index, 0)):
        with pytest.raises(error):
            use(Tensor(A))


def test_what_cannot_be_written():
    tensor = Tensor(A)
    with pytest.raises(RuntimeError, match="int32"):
        tensor[0] = Tensor([1, 2, 3, 4, 5])
    with pytest.raises(ValueError, match="expand"):
        tensor[0] = Tensor([1.0, 2.0])
    with pytest.raises(TypeError):
        del tensor[0]
    with pytest.raises(TypeError):
        tensor[Tensor(0) : 2]
    ints = Tensor([1, 2, 3])
    ints[0] = 2.9
    assert ints.tolist() == [2, 2, 3] and ints.dtype == "int32"


def test_masks_are_written_without_being_read():
    tensor, mask = Tensor(A), Tensor(MASK)

    @tensord.jit
    def step(x):
        tensor[x > 30] = 0
        return tensor.sum()

    assert step(tensor).item() == A[A <= 30].sum()
    tensor[mask] = Tensor(5.0)
    expected = np.where(A > 30, 0, A)
    expected[MASK] = 5
    np.testing.assert_array_equal(tensor.numpy(), expected)


# ---- views

VIEWS = {
    "slice": lambda t: t[1:3], "element": lambda t: t[1, 2, 3], "step": lambda t: t[:, ::2], "backwards": lambda t: t[::-1],
    "reshape": lambda t: t.reshape(12, 5), "flatten": lambda t: t.flatten(), "permute": lambda t: t.permute(2, 0, 1),
    "T": lambda t: t.T, "squeeze": lambda t: t[:1].squeeze(0), "unsqueeze": lambda t: t.unsqueeze(1), "flip": lambda t: t.flip(0),
    "diagonal": lambda t: t.diagonal(), "split": lambda t: t.split(2)[1], "unbind": lambda t: t.unbind(1)[3], "detach": lambda t: t.detach(),
    "narrow": lambda t: t.narrow(2, 1, 3), "windows": lambda t: t.unfold(1, 2, 2), "of a view": lambda t: t[1:].reshape(8, 5).T[2:],
}  # fmt: skip


@pytest.mark.parametrize("name", VIEWS)
def test_writing_to_a_view_writes_to_its_base(name):
    def as_numpy(array):
        class Wrapped(np.ndarray):
            permute, flip = np.ndarray.transpose, lambda self, axis: np.flip(self, axis)
            unsqueeze = lambda self, axis: self[:, None]  # noqa: E731
            detach, narrow = lambda self: self, lambda self, *_: self[..., 1:4]
            split, unbind = lambda self, n: (self[:n], self[n:]), lambda self, axis: [self[:, i] for i in range(4)]
            flatten, T = lambda self: self.reshape(-1), property(lambda self: self.swapaxes(0, 1))
            unfold = lambda self, *_: np.stack([self[:, ::2], self[:, 1::2]], 3)  # noqa: E731

        return array.view(Wrapped)

    tensor, places = Tensor(A), np.arange(60).reshape(A.shape)
    view = VIEWS[name](tensor)
    picked = np.asarray(VIEWS[name](as_numpy(places)))
    view *= 10
    expected = A.ravel().copy()
    expected[picked.ravel()] *= 10
    np.testing.assert_array_equal(tensor.numpy().ravel(), expected)
    tensor += 1
    np.testing.assert_array_equal(view.numpy(), (expected + 1)[picked])


def test_what_is_computed_keeps_its_data():
    tensor = Tensor(A)
    lazy, read = tensor * 2, tensor[1:] + 0
    copy, cloned = tensor.clone(), tensor[0].clone()
    tensor[0] = 0
    tensor.assign(tensor * 3)
    np.testing.assert_array_equal(lazy.numpy(), A * 2)
    np.testing.assert_array_equal(read.numpy(), A[1:])
    np.testing.assert_array_equal(copy.numpy(), A)
    np.testing.assert_array_equal(cloned.numpy(), A[0])


def test_overlapping_and_shifting():
    tensor = Tensor([0, 1, 2, 3, 4])
    tensor[1:] = tensor[:-1]
    assert tensor.tolist() == [0, 0, 1, 2, 3]
    tensor[:-1] += tensor[1:]
    assert tensor.tolist() == [0, 1, 3, 5, 3]
    left, right = tensor[:3], tensor[2:]
    left += 10
    assert right.tolist() == [13, 5, 3]
    first, second = tensor[0].clone(), tensor[1].clone()
    tensor[0], tensor[1] = second, first
    assert tensor.tolist() == [11, 10, 13, 5, 3]


def test_gradients_of_what_was_written():
    x = Tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * x
    y[1] = 5.0
    y[Tensor([2, 0])] *= Tensor([10.0, 100.0])
    y.sum().backward()
    assert x.grad.tolist() == [200, 0, 60]


def test_views_in_captured_functions():
    cache, count = tensord.zeros(4, 2).clone(), Tensor([0.0]).clone()
    last = cache[3]

    @tensord.jit
    def step(x):
        cache[1:] = cache[:-1]
        cache[0] = x
        count.assign(count + last.sum())
        return last * 1

    for i in range(6):
        step(Tensor([float(i), 1.0]))
    assert cache.tolist() == [[5, 1], [4, 1], [3, 1], [2, 1]] and last.tolist() == [2, 1]
    assert count.item() == (0 + 1) + (1 + 1) + (2 + 1)
