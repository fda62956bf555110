"""Tables of vectors."""

from __future__ import annotations

from typing import Optional

from _tensord import Tensor

from tensord.creation import zeros
from tensord.dtypes import DTypeLike
from tensord.errors import InvalidArgumentError
from tensord.nn import functional as F, init
from tensord.nn.module import Module
from tensord.nn.parameter import Parameter, empty_parameter


class _Table(Module):
    """Rows from a normal distribution; a row for padding is zero at first and never learned."""

    def __init__(self, num_embeddings: int, embedding_dim: int, padding_idx: Optional[int], max_norm: Optional[float],
                 norm_type: float, scale_grad_by_freq: bool, weight: Optional[Tensor], freeze: bool,
                 device: Optional[str], dtype: Optional[DTypeLike]) -> None:
        super().__init__()
        name = type(self).__name__
        if scale_grad_by_freq:
            raise InvalidArgumentError(f"{name}: scale_grad_by_freq is not supported")
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise InvalidArgumentError(f"{name}: padding_idx {padding_idx} of {num_embeddings} rows")
            padding_idx %= num_embeddings
        self.num_embeddings, self.embedding_dim, self.padding_idx = num_embeddings, embedding_dim, padding_idx
        self.max_norm, self.norm_type, self.scale_grad_by_freq = max_norm, norm_type, scale_grad_by_freq
        if weight is not None:
            if tuple(weight.shape) != (num_embeddings, embedding_dim):
                raise InvalidArgumentError(f"{name}: a table of shape {list(weight.shape)} for {num_embeddings} rows of "
                                           f"{embedding_dim}")
            self.weight = Parameter(weight, not freeze)
        else:
            self.weight = empty_parameter(num_embeddings, embedding_dim, dtype=dtype, device=device)
            self.reset_parameters()

    def reset_parameters(self) -> None:
        init.normal_(self.weight)
        if self.padding_idx is not None:
            row = zeros(1, self.embedding_dim, dtype=self.weight.dtype)
            self.weight.assign(self.weight.detach().slice_scatter(row, 0, self.padding_idx, self.padding_idx + 1))

    def _limit_norms(self, index: Tensor) -> None:
        """Shrinks the rows that are asked for, in the table itself, to max_norm."""
        if self.max_norm is None:
            return
        flat = index.reshape(-1).cast("int32")
        asked = zeros(self.num_embeddings, 1, dtype="bool").index_fill(0, flat, True)
        table = self.weight.detach()
        norms = table.norm(self.norm_type, 1, True)
        scale = (asked & (norms > self.max_norm)).where(self.max_norm / (norms + 1e-7), 1.0)
        self.weight.assign((table * scale).cast(table.dtype))

    def _text(self, *names: str) -> str:
        defaults = {"norm_type": 2.0, "mode": None}
        return f"{self.num_embeddings}, {self.embedding_dim}" + "".join(
            f", {name}={getattr(self, name)!r}" for name in names if getattr(self, name) != defaults.get(name))


class Embedding(_Table):
    """index [..] of integers to [.., embedding_dim]: rows of weight [num_embeddings, embedding_dim]. An index outside
    gives a zero row. Gradients are dense, also with `sparse`."""

    def __init__(self, num_embeddings: int, embedding_dim: int, padding_idx: Optional[int] = None,
                 max_norm: Optional[float] = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
                 sparse: bool = False, _weight: Optional[Tensor] = None, _freeze: bool = False,
                 device: Optional[str] = None, dtype: Optional[DTypeLike] = None) -> None:
        super().__init__(num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, _weight,
                         _freeze, device, dtype)
        self.sparse = sparse

    @classmethod
    def from_pretrained(cls, embeddings: Tensor, freeze: bool = True, padding_idx: Optional[int] = None,
                        max_norm: Optional[float] = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
                        sparse: bool = False) -> Embedding:
        """Of a table [rows, size], which is not learned if `freeze`."""
        rows, size = embeddings.shape
        return cls(rows, size, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, embeddings, freeze)

    def forward(self, input: Tensor) -> Tensor:
        self._limit_norms(input)
        return input.embedding(self.weight, self.padding_idx)

    def extra_repr(self) -> str:
        return self._text("padding_idx", "max_norm", "norm_type")


class EmbeddingBag(_Table):
    """Sums, means or maxima of rows over bags of indices: [bags, size] or, with offsets [bags] of where each begins,
    [all indices], to [bags, embedding_dim]. Gradients are dense, also with `sparse`."""

    def __init__(self, num_embeddings: int, embedding_dim: int, max_norm: Optional[float] = None,
                 norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False,
                 _weight: Optional[Tensor] = None, include_last_offset: bool = False,
                 padding_idx: Optional[int] = None, device: Optional[str] = None,
                 dtype: Optional[DTypeLike] = None) -> None:
        super().__init__(num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, _weight,
                         False, device, dtype)
        self.mode, self.sparse, self.include_last_offset = mode, sparse, include_last_offset

    def forward(self, input: Tensor, offsets: Optional[Tensor] = None,
                per_sample_weights: Optional[Tensor] = None) -> Tensor:
        self._limit_norms(input)
        return F.embedding_bag(input, self.weight, offsets, None, self.norm_type, False, self.mode, self.sparse,
                               per_sample_weights, self.include_last_offset, self.padding_idx)

    def extra_repr(self) -> str:
        return self._text("max_norm", "norm_type", "mode", "padding_idx")
