"""Movement against NumPy, by the names of PyTorch and of list one; and what is refused, by type."""

import numpy as np
import pytest
import tensord
from tensord import Tensor

A = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def same(got, expected):
    if isinstance(expected, (list, tuple)):
        assert len(got) == len(expected)
        for a, b in zip(got, expected):
            same(a, b)
        return
    expected = np.asarray(expected)
    assert got.shape == expected.shape
    np.testing.assert_array_equal(got.numpy(), expected)


MOVES = {
    "reshape keeps by None": (lambda t: t.reshape(None, -1), A.reshape(2, 12)),
    "reshape to one": (lambda t: t[0, 0, :1].reshape(()), A[0, 0, 0]),
    "reshape from one": (lambda t: t[0, 0, 0].reshape(1, 1), A[:1, :1, 0]),
    "view_as": (lambda t: t.view_as(tensord.zeros(4, 6)), A.reshape(4, 6)),
    "expand keeps by None": (lambda t: t[:, :1].expand(5, None, 3, -1), np.broadcast_to(A[:, :1], (5, 2, 3, 4))),
    "expand to nothing": (lambda t: t[:, :1].expand(2, 0, 4), np.zeros((2, 0, 4))),
    "expand_as": (lambda t: t[0, 0].expand_as(t), np.broadcast_to(A[0, 0], A.shape)),
    "broadcast_to": (lambda t: t[0].broadcast_to((2, 3, 4)), np.broadcast_to(A[0], A.shape)),
    "permute negative": (lambda t: t.permute(-1, 0, -2), A.transpose(2, 0, 1)),
    "transpose has defaults": (lambda t: t.transpose(), A.swapaxes(0, 1)),
    "T swaps the first two": (lambda t: t.T, A.swapaxes(0, 1)),
    "mT": (lambda t: t.mT, A.swapaxes(1, 2)),
    "adjoint": (lambda t: t.adjoint(), A.swapaxes(1, 2)),
    "H": (lambda t: t[0].H, A[0].T),
    "t": (lambda t: t[0].t(), A[0].T),
    "t of a vector": (lambda t: t[0, 0].t(), A[0, 0]),
    "movedim": (lambda t: t.movedim(0, -1), np.moveaxis(A, 0, -1)),
    "movedim of several": (lambda t: t.movedim((0, 1), (2, 0)), np.moveaxis(A, (0, 1), (2, 0))),
    "swapaxes": (lambda t: t.swapaxes(0, -1), A.swapaxes(0, -1)),
    "flip": (lambda t: t.flip((0, -1)), np.flip(A, (0, 2))),
    "flip nothing": (lambda t: t.flip(()), A),
    "fliplr": (lambda t: t.fliplr(), np.fliplr(A)),
    "flipud": (lambda t: t.flipud(), np.flipud(A)),
    "rot90": (lambda t: t.rot90(1, (1, 2)), np.rot90(A, 1, (1, 2))),
    "rot90 back": (lambda t: t.rot90(-3, (0, 2)), np.rot90(A, -3, (0, 2))),
    "squeeze one": (lambda t: t[:1].squeeze(0), A[0]),
    "squeeze none": (lambda t: t.squeeze(1), A),
    "squeeze some": (lambda t: t[:1, :1].squeeze((0, 1, 2)), A[0, 0]),
    "unsqueeze last": (lambda t: t.unsqueeze(-1), A[..., None]),
    "flatten some": (lambda t: t.flatten(0, 1), A.reshape(6, 4)),
    "ravel": (lambda t: t.ravel(), A.ravel()),
    "unflatten": (lambda t: t.unflatten(2, (2, -1)), A.reshape(2, 3, 2, 2)),
    "rearrange": (lambda t: t.rearrange("a b (c d) -> (a c) d b", c=2), A.reshape(2, 3, 2, 2).transpose(0, 2, 3, 1).reshape(4, 2, 3)),
    "pad flat": (lambda t: t.pad((1, 2, 0, 1), value=3.5), np.pad(A, ((0, 0), (0, 1), (1, 2)), constant_values=3.5)),
    "pad pairs": (lambda t: t.pad((None, (1, 0), (0, 2))), np.pad(A, ((0, 0), (1, 0), (0, 2)))),
    "pad infinity": (lambda t: t.pad((0, 1), value=-np.inf), np.pad(A, ((0, 0), (0, 0), (0, 1)), constant_values=-np.inf)),
    "pad crops": (lambda t: t.pad((-1, 1)), np.pad(A[..., 1:], ((0, 0), (0, 0), (0, 1)))),
    "pad reflect": (lambda t: t.pad((2, 3), mode="reflect"), np.pad(A, ((0, 0), (0, 0), (2, 3)), "reflect")),
    "pad replicate": (lambda t: t.pad(((1, 0), (0, 5), None), "replicate"), np.pad(A, ((1, 0), (0, 5), (0, 0)), "edge")),
    "pad circular": (lambda t: t.pad((4, 1, 2, 0), "circular"), np.pad(A, ((0, 0), (2, 0), (4, 1)), "wrap")),
    "pad reflect crops": (lambda t: t.pad((-1, 2), "reflect"), np.pad(A, ((0, 0), (0, 0), (0, 2)), "reflect")[..., 1:]),
    "pad_to": (lambda t: t.pad_to(None, 5, 4, value=1), np.pad(A, ((0, 0), (0, 2), (0, 0)), constant_values=1)),
    "shrink": (lambda t: t.shrink((None, (1, 3), (0, 2))), A[:, 1:3, :2]),
    "shrink_to": (lambda t: t.shrink_to(1, None, 3), A[:1, :, :3]),
    "narrow": (lambda t: t.narrow(-1, -3, 2), A[..., 1:3]),
    "select": (lambda t: t.select(1, -1), A[:, -1]),
    "cat method": (lambda t: t.cat(t, t + 1, dim=-1), np.concatenate([A, A, A + 1], -1)),
    "cat function": (lambda t: tensord.cat([t, t], 1), np.concatenate([A, A], 1)),
    "cat promotes": (lambda t: Tensor([1, 2]).cat(Tensor([0.5])), np.array([1, 2, 0.5], np.float32)),
    "cat with nothing": (lambda t: t.cat(Tensor([]), t[:0]), A),
    "concat": (lambda t: tensord.concat((t, t)), np.concatenate([A, A])),
    "stack method": (lambda t: t.stack(t, dim=-1), np.stack([A, A], -1)),
    "stack function": (lambda t: Tensor.stack((t, t), dim=1), np.stack([A, A], 1)),
    "hstack": (lambda t: tensord.hstack([t, t]), np.hstack([A, A])),
    "hstack of vectors": (lambda t: tensord.hstack([t[0, 0], t[0, 1]]), np.hstack([A[0, 0], A[0, 1]])),
    "vstack": (lambda t: tensord.vstack([t[0, 0], t[0, 1]]), np.vstack([A[0, 0], A[0, 1]])),
    "dstack": (lambda t: tensord.dstack([t[0], t[1]]), np.dstack([A[0], A[1]])),
    "column_stack": (lambda t: tensord.column_stack([t[0, :, 0], t[1]]), np.column_stack([A[0, :, 0], A[1]])),
    "atleast_2d": (lambda t: t[0, 0].atleast_2d(), np.atleast_2d(A[0, 0])),
    "atleast_3d": (lambda t: tensord.atleast_3d([t[0], t[0, 0]]), [np.atleast_3d(A[0]), np.atleast_3d(A[0, 0])]),
    "split": (lambda t: t.split(3, -1), [A[..., :3], A[..., 3:]]),
    "split by sizes": (lambda t: t.split([1, 0, 2], 1), [A[:, :1], A[:, :0], A[:, 1:]]),
    "chunk gives fewer": (lambda t: Tensor(np.arange(13)).chunk(6), np.split(np.arange(13), [3, 6, 9, 12])),
    "tensor_split": (lambda t: t.tensor_split(3, 2), np.array_split(A, 3, 2)),
    "tensor_split at": (lambda t: t.tensor_split((1, 3), 2), np.split(A, [1, 3], 2)),
    "hsplit": (lambda t: t.hsplit(3), np.hsplit(A, 3)),
    "vsplit": (lambda t: t.vsplit([1]), np.vsplit(A, [1])),
    "dsplit": (lambda t: t.dsplit(2), np.dsplit(A, 2)),
    "unbind": (lambda t: t.unbind(1), [A[:, 0], A[:, 1], A[:, 2]]),
    "meshgrid": (lambda t: t[0, 0].meshgrid(Tensor([1.0, 2.0]), Tensor(3.0)), np.meshgrid(A[0, 0], [1.0, 2.0], [3.0], indexing="ij")),
    "meshgrid xy": (lambda t: tensord.meshgrid([t[0, 0], t[0, 1]], indexing="xy"), np.meshgrid(A[0, 0], A[0, 1])),
    "broadcast_tensors": (lambda t: tensord.broadcast_tensors(t, t[0, :, :1]), np.broadcast_arrays(A, A[0, :, :1])),
    "repeat": (lambda t: t.repeat(2, 1, 1, 0), np.tile(A, (2, 1, 1, 0))),
    "tile": (lambda t: t.tile(2, 3), np.tile(A, (2, 3))),
    "repeat_interleave": (lambda t: t.repeat_interleave(2, 1), A.repeat(2, 1)),
    "repeat_interleave flat": (lambda t: t.repeat_interleave(3), A.repeat(3)),
    "roll": (lambda t: t.roll((5, -1), (1, 2)), np.roll(A, (5, -1), (1, 2))),
    "roll flat": (lambda t: t.roll(7), np.roll(A, 7)),
    "roll nothing": (lambda t: t[:, :0].roll(1, 1), A[:, :0]),
    "unfold": (lambda t: t.unfold(-1, 2, 2), np.stack([A[..., :2], A[..., 2:]], 2)),
    "unfold overlapping": (lambda t: t.unfold(2, 3, 1), np.lib.stride_tricks.sliding_window_view(A, 3, 2)),
    "diagonal": (lambda t: t.diagonal(1, 1, 2), A.diagonal(1, 1, 2)),
    "diagonal first axes": (lambda t: t.diagonal(-1), A.diagonal(-1)),
    "diag of a vector": (lambda t: t[0, 0].diag(), np.diag(A[0, 0])),
    "diag of a matrix": (lambda t: t[0].diag(1), np.diag(A[0], 1)),
    "diagflat": (lambda t: t[0, :2, :2].diagflat(-1), np.diagflat(A[0, :2, :2], -1)),
    "diag_embed": (lambda t: t[0].diag_embed(), np.stack([np.diag(row) for row in A[0]])),
    "tril": (lambda t: t.tril(-1), np.tril(A, -1)),
    "triu": (lambda t: (t > 3).triu(1), np.triu(A > 3, 1)),
    "as_strided": (lambda t: t.as_strided((2, 2), (5, 2), 3), np.array([[3, 5], [8, 10]])),
    "pixel_shuffle": (lambda t: t.reshape(4, 2, 3).pixel_shuffle(2), A.reshape(1, 2, 2, 2, 3).transpose(0, 3, 1, 4, 2).reshape(1, 4, 6)),
    "pixel_unshuffle": (lambda t: t[:, :2].pixel_unshuffle(2), A[:, :2].reshape(2, 1, 2, 2, 2).transpose(0, 2, 4, 1, 3).reshape(8, 1, 2)),
    "channel_shuffle": (lambda t: t.reshape(1, 4, 6).channel_shuffle(2), A.reshape(1, 2, 2, 6).swapaxes(1, 2).reshape(1, 4, 6)),
    "im2col": (lambda t: t[:, None].im2col((3, 2), stride=(1, 2)), np.stack([A[..., :2].reshape(2, 6), A[..., 2:].reshape(2, 6)], 2)),
    "col2im": (lambda t: t[:, None].im2col(1).col2im((3, 4), 1), A[:, None]),
    "take": (lambda t: t.take(Tensor([[0, -1], [5, 7]])), A.take([[0, -1], [5, 7]])),
    "take_along_dim": (lambda t: t.take_along_dim(Tensor([[[3], [0], [-1]]]), 2), np.take_along_axis(A, np.array([[[3], [0], [-1]]]), 2)),
    "index_select": (lambda t: t.index_select(1, Tensor([2, 0])), A[:, [2, 0]]),
    "gather": (lambda t: t.gather(2, Tensor([[[3, 0]]])), A[:1, :1, [3, 0]]),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVES)
def test_movement(name):
    move, expected = MOVES[name]
    same(move(Tensor(A)), expected)


REFUSED = {
    "two -1": (lambda t: t.reshape(-1, -1), RuntimeError),
    "reshape to nothing": (lambda t: t.reshape(()), ValueError),
    "expand a size": (lambda t: t.expand(2, 3, 5), ValueError),
    "expand to less": (lambda t: t.expand(3, 4), ValueError),
    "permute twice": (lambda t: t.permute(0, 0, 1), RuntimeError),
    "permute too few": (lambda t: t.permute(0, 1), RuntimeError),
    "flip twice": (lambda t: t.flip(1, -2), RuntimeError),
    "T of a vector": (lambda t: t[0, 0].T, IndexError),
    "t of three axes": (lambda t: t.t(), RuntimeError),
    "squeeze an axis that is not": (lambda t: t.squeeze(50), IndexError),
    "unsqueeze far": (lambda t: t.unsqueeze(4), IndexError),
    "unflatten": (lambda t: t.unflatten(1, (2, 2)), ValueError),
    "rearrange": (lambda t: t.rearrange("a b -> b a"), ValueError),
    "pad of an odd count": (lambda t: t.pad((1, 2, 3)), ValueError),
    "pad of too many": (lambda t: t.pad((1,) * 8), ValueError),
    "pad of two pairs": (lambda t: t.pad(((1, 1), (1, 1))), ValueError),
    "pad of another mode": (lambda t: t.pad((1, 1), "mirror"), NotImplementedError),
    "reflect too far": (lambda t: t.pad((4, 0), "reflect"), ValueError),
    "circular too far": (lambda t: t.pad((5, 0), "circular"), ValueError),
    "pad_to less": (lambda t: t.pad_to(2, 2, 4), ValueError),
    "shrink outside": (lambda t: t.shrink(((0, 3), None, None)), ValueError),
    "narrow outside": (lambda t: t.narrow(0, 1, 2), ValueError),
    "cat of different axes": (lambda t: t.cat(t[:, :2], dim=2), ValueError),
    "cat without axes": (lambda t: Tensor(1.0).cat(Tensor(2.0)), IndexError),
    "cat of nothing": (lambda t: tensord.cat([]), ValueError),
    "stack far": (lambda t: t.stack(t, dim=77), IndexError),
    "stack of a tuple and more": (lambda t: Tensor.stack((t, t), t), ValueError),
    "split that does not add up": (lambda t: t.split([1, 1], 1), ValueError),
    "chunk into none": (lambda t: t.chunk(0), ValueError),
    "hsplit unequal": (lambda t: t.hsplit(2), ValueError),
    "meshgrid indexing": (lambda t: t[0, 0].meshgrid(indexing="bad"), RuntimeError),
    "repeat too few": (lambda t: t.repeat(2, 2), ValueError),
    "roll lengths": (lambda t: t.roll((1, 2), 0), RuntimeError),
    "unfold too large": (lambda t: t.unfold(0, 3, 1), RuntimeError),
    "unfold step": (lambda t: t.unfold(0, 1, -1), RuntimeError),
    "unfold axis": (lambda t: t.unfold(3, 1, 1), IndexError),
    "diagonal of one axis": (lambda t: t.diagonal(0, 1, -2), RuntimeError),
    "diag of three axes": (lambda t: t.diag(), ValueError),
    "as_strided outside": (lambda t: t.as_strided((2, 13), (12, 1)), ValueError),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    wrong, error = REFUSED[name]
    with pytest.raises(error) as raised:
        wrong(Tensor(A))
    assert isinstance(raised.value, tensord.TensordError)


def test_gradients_of_movement_go_back():
    x = Tensor(A, requires_grad=True)
    parts = x.pad((1, 2), "reflect").roll(1, 1).cat(x.flip(0), dim=2).split(3, 2)
    (parts[0] * 2).sum().backward()
    rows = np.zeros((2, 3, 11), np.float32)
    rows[..., :3] = 2
    places = np.concatenate([np.roll(np.pad(np.arange(24).reshape(2, 3, 4), ((0, 0), (0, 0), (1, 2)), "reflect"), 1, 1),
                             np.arange(24).reshape(2, 3, 4)[::-1]], 2)  # fmt: skip
    expected = np.zeros(24, np.float32)
    np.add.at(expected, places, rows)
    np.testing.assert_array_equal(x.grad.numpy(), expected.reshape(2, 3, 4))


def test_repeats_of_each_slice():
    x, times = np.arange(12, dtype="float32").reshape(3, 4), np.array([2, 0, 3], "int32")
    np.testing.assert_array_equal(Tensor(x).repeat_interleave(Tensor(times), 0).numpy(), np.repeat(x, times, 0))
    np.testing.assert_array_equal(Tensor(x).repeat_interleave([1, 0, 0, 2], 1).numpy(), np.repeat(x, [1, 0, 0, 2], 1))
    np.testing.assert_array_equal(Tensor(x).repeat_interleave(Tensor([2])).numpy(), np.repeat(x, 2))
    known = Tensor(x).repeat_interleave(Tensor(times), dim=0, output_size=5)
    np.testing.assert_array_equal(known.numpy(), np.repeat(x, times, 0))
    assert Tensor([2, 0, 1]).repeat_interleave().tolist() == [0, 0, 2]
    t = Tensor(x)
    slope = t.repeat_interleave(Tensor(times), 0).sum().gradient(t)[0]
    np.testing.assert_array_equal(slope.numpy(), np.broadcast_to(times[:, None], x.shape))
    for repeats, message in [([1, 2], "3 slices"), ([1, -1, 1], "negative"), ([1.0, 1.0, 1.0], "integers")]:
        with pytest.raises(ValueError, match=message):
            t.repeat_interleave(Tensor(repeats), 0)


def test_cutting_where_a_tensor_says():
    x = Tensor(np.arange(10))
    assert [part.tolist() for part in x.tensor_split(Tensor([1, 4]))] == [[0], [1, 2, 3], [4, 5, 6, 7, 8, 9]]
    assert [part.shape for part in x.tensor_split(Tensor(3))] == [(4,), (3,), (3,)]
    with pytest.raises(ValueError, match="integers"):
        x.tensor_split(Tensor([1.0]))


def test_transposing_a_number():
    assert Tensor(3).transpose(0, -1).tolist() == 3
    with pytest.raises(IndexError):
        Tensor(3).transpose(0, 1)
    assert tensord.broadcast_shapes((2, 1), 3, (1, 1, 3)) == (1, 2, 3)
    with pytest.raises(ValueError, match="do not broadcast"):
        tensord.broadcast_shapes((2,), (3,))
