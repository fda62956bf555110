"""Sequences of different lengths as one tensor, as torch.nn.utils.rnn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Optional, Union

import numpy as np
from _tensord import Tensor

from tensord.errors import InvalidArgumentError

Lengths = Union[Tensor, Sequence[int]]


class _Packed(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Optional[Tensor]
    unsorted_indices: Optional[Tensor]


class PackedSequence(_Packed):
    """Sequences one step after the other: `data` [all steps, ..] has the first step of each, then the second of those
    that have one, and so on; they are in order of falling length, which sorted_indices brings about and unsorted_indices
    undoes (None: they were so). `batch_sizes` int64 [steps]: how many have each step.

    Which step an element is of decides over shapes, so batch_sizes is read once, and kept by `sizes`.
    """

    sizes: np.ndarray[Any, Any]

    def __new__(cls, data: Tensor, batch_sizes: Optional[Tensor] = None, sorted_indices: Optional[Tensor] = None,
                unsorted_indices: Optional[Tensor] = None) -> PackedSequence:
        if batch_sizes is None:
            raise InvalidArgumentError("PackedSequence: it needs batch_sizes; see pack_padded_sequence")
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        made = super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)
        made.sizes = np.array(batch_sizes.numpy(), np.int64)
        if made.sizes.ndim != 1 or (np.diff(made.sizes) > 0).any() or made.sizes.sum() != data.shape[0]:
            raise InvalidArgumentError(f"PackedSequence: batch_sizes {made.sizes.tolist()} fall, and sum up to the "
                                       f"{data.shape[0]} steps of data")
        return made

    def _with(self, data: Tensor) -> PackedSequence:
        """Other data of the same steps."""
        return PackedSequence(data, *self[1:])

    @property
    def lengths(self) -> np.ndarray[Any, Any]:
        """Of the sequences, as they lie here."""
        return np.asarray((self.sizes[:, None] > np.arange(self.sizes[0])).sum(0))

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        return self._with(self.data.to(*args, **kwargs))


def invert_permutation(permutation: Optional[Tensor]) -> Optional[Tensor]:
    """permutation [n] the other way round."""
    return None if permutation is None else permutation.argsort(0).cast(permutation.dtype)


def _places(sizes: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The step and the sequence of each element of packed data."""
    steps = np.repeat(np.arange(len(sizes)), sizes)
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    return steps, np.arange(int(sizes.sum())) - np.repeat(starts, sizes)


def pack_padded_sequence(input: Tensor, lengths: Lengths, batch_first: bool = False,
                         enforce_sorted: bool = True) -> PackedSequence:
    """Of sequences [steps, batch, ..], or with batch_first [batch, steps, ..], of those lengths, which are read.
    RuntimeError if lengths don't fit, or with enforce_sorted if they rise."""
    x = input.transpose(0, 1) if batch_first else input
    steps, batch = x.shape[:2]
    each = np.asarray(lengths.numpy() if isinstance(lengths, Tensor) else lengths, np.int64)
    if each.shape != (batch,) or (each <= 0).any() or (each > steps).any():
        raise InvalidArgumentError(f"pack_padded_sequence: lengths {each.tolist()} of {batch} sequences of up to {steps} "
                                   "steps; each is at least 1")
    order = np.argsort(-each, kind="stable")
    if enforce_sorted and (np.diff(each) > 0).any():
        raise InvalidArgumentError(f"pack_padded_sequence: lengths {each.tolist()} rise; sort the sequences, or give "
                                   "enforce_sorted=False")
    sizes = (each[order] > np.arange(each.max())[:, None]).sum(1)
    step, number = _places(sizes)
    data = x.flatten(0, 1).index_select(0, Tensor(step * batch + (number if enforce_sorted else order[number])))
    return PackedSequence(data, Tensor(sizes), None if enforce_sorted else Tensor(order))


def _padded(sequence: PackedSequence, padding_value: float = 0.0, steps: Optional[int] = None) -> Tensor:
    """[steps, batch, ..], in the order that sequences have in it."""
    sizes = sequence.sizes
    total = len(sequence.data)
    index = np.full((len(sizes) if steps is None else steps, int(sizes[0])), total, np.int64)
    index[_places(sizes)] = np.arange(total)
    padding = sequence.data.new_full((1, *sequence.data.shape[1:]), padding_value)
    rows = Tensor.cat([sequence.data, padding]).index_select(0, Tensor(index.reshape(-1)))
    return rows.unflatten(0, index.shape)


def pad_packed_sequence(sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0,
                        total_length: Optional[int] = None) -> tuple[Tensor, Tensor]:
    """The sequences [steps, batch, ..], or with batch_first [batch, steps, ..], in the order before packing, and their
    lengths, int64 [batch]."""
    steps = len(sequence.sizes)
    if total_length is not None and total_length < steps:
        raise InvalidArgumentError(f"pad_packed_sequence: total_length {total_length} of sequences of {steps} steps")
    x, lengths = _padded(sequence, padding_value, total_length), Tensor(sequence.lengths)
    if sequence.unsorted_indices is not None:
        x, lengths = x.index_select(1, sequence.unsorted_indices), lengths.index_select(0, sequence.unsorted_indices)
    return x.transpose(0, 1) if batch_first else x, lengths


def pad_sequence(sequences: Union[Tensor, Iterable[Tensor]], batch_first: bool = False, padding_value: float = 0.0,
                 padding_side: str = "right") -> Tensor:
    """Sequences [steps, ..] side by side, [most steps, batch, ..], or with batch_first [batch, most steps, ..]; shorter
    ones are filled at the "right" or "left" side."""
    if padding_side not in ("right", "left"):
        raise InvalidArgumentError(f"pad_sequence: the padding_side is 'right' or 'left', not '{padding_side}'")
    each = list(sequences)
    if not each:
        raise InvalidArgumentError("pad_sequence: there are no sequences")
    most = max(len(sequence) for sequence in each)

    def filled(x: Tensor) -> Tensor:
        missing = most - len(x)
        ends = [0, missing] if padding_side == "right" else [missing, 0]
        return x.pad([0, 0] * (x.ndim - 1) + ends, value=padding_value)

    return Tensor.stack([filled(sequence) for sequence in each], dim=0 if batch_first else 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Lengths, batch_first: bool = False) -> list[Tensor]:
    """The sequences [length, ..] of what pad_sequence made; lengths are read."""
    x = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    each = lengths.numpy() if isinstance(lengths, Tensor) else lengths
    return [sequence[:int(length)] for sequence, length in zip(x.unbind(0), each)]


def pack_sequence(sequences: Iterable[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """pack_padded_sequence of sequences [steps, ..]."""
    each = list(sequences)
    return pack_padded_sequence(pad_sequence(each), [len(sequence) for sequence in each], enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences [steps, ..] of what pack_sequence made."""
    return unpad_sequence(*pad_packed_sequence(packed_sequences, batch_first=True), batch_first=True)
