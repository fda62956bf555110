"""Fourier transforms under PyTorch's names (torch.fft).

There is no complex dtype: a complex tensor is a real one whose last axis holds (real, imaginary), as
torch.view_as_real gives it; complex_of(real, imaginary) makes one. `dim` counts the axes before that one, so -1 is
the last axis of numbers. norm is "backward" (the inverse divides by n), "ortho" or "forward". The work is n log n for
any n. ValueError if a size is less than 1 or an operand is no complex tensor, IndexError if an axis does not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Optional, Union

import _tensord
from _tensord import Tensor

from tensord.errors import InvalidArgumentError
from tensord.out import all_take_out

Axes = Union[int, Sequence[int], None]


def complex_of(real: Tensor, imag: Optional[Tensor] = None) -> Tensor:
    """real + i imag as a complex tensor, [..] to [.., 2]."""
    return Tensor.stack([real, real * 0 if imag is None else imag], dim=-1)


def fft(input: Tensor, n: Optional[int] = None, dim: int = -1, norm: Optional[str] = None) -> Tensor:
    """Complex to complex, [.., n, 2]. n appends zeros or cuts off."""
    return _tensord._fft(input, n, dim, norm or "backward")


def ifft(input: Tensor, n: Optional[int] = None, dim: int = -1, norm: Optional[str] = None) -> Tensor:
    """The inverse of fft."""
    return _tensord._ifft(input, n, dim, norm or "backward")


def rfft(input: Tensor, n: Optional[int] = None, dim: int = -1, norm: Optional[str] = None) -> Tensor:
    """Real [.., n] to the first half of the spectrum, [.., n // 2 + 1, 2]."""
    return _tensord._rfft(input, n, dim, norm or "backward")


def irfft(input: Tensor, n: Optional[int] = None, dim: int = -1, norm: Optional[str] = None) -> Tensor:
    """The inverse of rfft: the first half of a spectrum to n real numbers, 2 (m - 1) unless given."""
    return _tensord._irfft(input, n, dim, norm or "backward")


def hfft(input: Tensor, n: Optional[int] = None, dim: int = -1, norm: Optional[str] = None) -> Tensor:
    """The first half of a Hermitian signal to its real spectrum."""
    return _tensord._hfft(input, n, dim, norm or "backward")


def ihfft(input: Tensor, n: Optional[int] = None, dim: int = -1, norm: Optional[str] = None) -> Tensor:
    """The inverse of hfft."""
    return _tensord._ihfft(input, n, dim, norm or "backward")


def _axes(what: str, rank: int, s: Optional[Sequence[int]], dim: Axes) -> list[tuple[Optional[int], int]]:
    """(size, axis) of each transform, in the order of the axes given."""
    if dim is None:
        dims = list(range(rank)) if s is None else list(range(rank - len(s), rank))
    else:
        dims = [dim] if isinstance(dim, int) else list(dim)
    sizes: list[Optional[int]] = [None] * len(dims) if s is None else [None if n == -1 else n for n in s]
    if len(sizes) != len(dims) or not dims or len({d % max(rank, 1) for d in dims}) != len(dims):
        raise InvalidArgumentError(f"{what}: sizes {s} for axes {dims}: one each, and no axis twice")
    return list(zip(sizes, dims))


def _each(what: str, transform: Callable[..., Tensor], x: Tensor, s: Optional[Sequence[int]], dim: Axes,
          norm: Optional[str]) -> Tensor:
    for size, axis in reversed(_axes(what, x.ndim - 1, s, dim)):
        x = transform(x, size, axis, norm)
    return x


def fftn(input: Tensor, s: Optional[Sequence[int]] = None, dim: Axes = None, norm: Optional[str] = None) -> Tensor:
    """Over several axes, all unless given."""
    return _each("fftn", fft, input, s, dim, norm)


def ifftn(input: Tensor, s: Optional[Sequence[int]] = None, dim: Axes = None, norm: Optional[str] = None) -> Tensor:
    """The inverse of fftn."""
    return _each("ifftn", ifft, input, s, dim, norm)


def rfftn(input: Tensor, s: Optional[Sequence[int]] = None, dim: Axes = None, norm: Optional[str] = None) -> Tensor:
    """Real to complex over several axes; the last of them has the first half of the spectrum."""
    *others, (size, axis) = _axes("rfftn", input.ndim, s, dim)
    y = rfft(input, size, axis, norm)
    for size, other in reversed(others):
        y = fft(y, size, other, norm)
    return y


def irfftn(input: Tensor, s: Optional[Sequence[int]] = None, dim: Axes = None, norm: Optional[str] = None) -> Tensor:
    """The inverse of rfftn."""
    *others, (size, axis) = _axes("irfftn", input.ndim - 1, s, dim)
    for other_size, other in others:
        input = ifft(input, other_size, other, norm)
    return irfft(input, size, axis, norm)


def fft2(input: Tensor, s: Optional[Sequence[int]] = None, dim: Axes = (-2, -1), norm: Optional[str] = None) -> Tensor:
    """fftn over two axes."""
    return fftn(input, s, dim, norm)


def ifft2(input: Tensor, s: Optional[Sequence[int]] = None, dim: Axes = (-2, -1), norm: Optional[str] = None) -> Tensor:
    """ifftn over two axes."""
    return ifftn(input, s, dim, norm)


def rfft2(input: Tensor, s: Optional[Sequence[int]] = None, dim: Axes = (-2, -1), norm: Optional[str] = None) -> Tensor:
    """rfftn over two axes."""
    return rfftn(input, s, dim, norm)


def irfft2(input: Tensor, s: Optional[Sequence[int]] = None, dim: Axes = (-2, -1), norm: Optional[str] = None) -> Tensor:
    """irfftn over two axes."""
    return irfftn(input, s, dim, norm)


def hfftn(input: Tensor, s: Optional[Sequence[int]] = None, dim: Axes = None, norm: Optional[str] = None) -> Tensor:
    """A signal that is Hermitian along the last of several axes, of which it has the first half, to its real spectrum."""
    *others, (size, axis) = _axes("hfftn", input.ndim - 1, s, dim)
    for other_size, other in others:
        input = fft(input, other_size, other, norm)
    return hfft(input, size, axis, norm)


def ihfftn(input: Tensor, s: Optional[Sequence[int]] = None, dim: Axes = None, norm: Optional[str] = None) -> Tensor:
    """The inverse of hfftn."""
    *others, (size, axis) = _axes("ihfftn", input.ndim, s, dim)
    y = ihfft(input, size, axis, norm)
    for size, other in reversed(others):
        y = ifft(y, size, other, norm)
    return y


def hfft2(input: Tensor, s: Optional[Sequence[int]] = None, dim: Axes = (-2, -1), norm: Optional[str] = None) -> Tensor:
    """hfftn over two axes."""
    return hfftn(input, s, dim, norm)


def ihfft2(input: Tensor, s: Optional[Sequence[int]] = None, dim: Axes = (-2, -1), norm: Optional[str] = None) -> Tensor:
    """ihfftn over two axes."""
    return ihfftn(input, s, dim, norm)


def fftfreq(n: int, d: float = 1.0, *, dtype: Any = None) -> Tensor:
    """The frequencies of the n elements of a spectrum: 0, 1, .., -2, -1 over n d."""
    return _tensord._fftfreq(n, d, False, dtype)


def rfftfreq(n: int, d: float = 1.0, *, dtype: Any = None) -> Tensor:
    """Those of the n // 2 + 1 elements that rfft gives."""
    return _tensord._fftfreq(n, d, True, dtype)


def _shift(x: Tensor, dim: Axes, inverse: bool) -> Tensor:
    for axis in range(x.ndim) if dim is None else [dim] if isinstance(dim, int) else dim:
        half = x.shape[axis] // 2
        x = x.roll(-half if inverse else half, axis)
    return x


def fftshift(input: Tensor, dim: Axes = None) -> Tensor:
    """Moves frequency zero to the middle of axes, all unless given: name them for a complex tensor, whose last axis
    is the pair."""
    return _shift(input, dim, False)


def ifftshift(input: Tensor, dim: Axes = None) -> Tensor:
    """The inverse of fftshift."""
    return _shift(input, dim, True)


__all__ = [
    "complex_of", "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "ifft", "ifft2", "ifftn",
    "ifftshift", "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip


def stft(input: Tensor, n_fft: int, hop_length: Optional[int] = None, win_length: Optional[int] = None,
         window: Optional[Tensor] = None, center: bool = True, pad_mode: str = "reflect", normalized: bool = False,
         onesided: bool = True) -> Tensor:
    """Spectra of overlapping frames of real signals: [.., n] to [.., frequencies, frames, 2]. With center the signal
    is padded by n_fft / 2 on both sides."""
    return _tensord._stft(input, n_fft, hop_length or n_fft // 4, _window(n_fft, win_length, window), normalized,
                          onesided, n_fft // 2 if center else 0, pad_mode)


def istft(input: Tensor, n_fft: int, hop_length: Optional[int] = None, win_length: Optional[int] = None,
          window: Optional[Tensor] = None, center: bool = True, normalized: bool = False, onesided: bool = True,
          length: Optional[int] = None) -> Tensor:
    """The signals whose stft comes nearest to input [.., frequencies, frames, 2]."""
    hop = hop_length or n_fft // 4
    begin = n_fft // 2 if center else 0
    end = None if length is None else begin + length
    if end is None and center:
        end = n_fft + hop * (input.shape[-2] - 1) - n_fft // 2
    return _tensord._istft(input, n_fft, hop, _window(n_fft, win_length, window), normalized, onesided, begin, end)


def _window(n_fft: int, win_length: Optional[int], window: Optional[Tensor]) -> Optional[Tensor]:
    """The window with zeros on both sides up to n_fft."""
    length = win_length or (n_fft if window is None else window.shape[0])
    if length == n_fft:
        return window
    if length > n_fft:
        raise InvalidArgumentError(f"stft: a window of {length} elements for frames of {n_fft}")
    if window is None:
        window = _tensord._full([length], 1.0, None)
    left = (n_fft - length) // 2
    return window.pad((left, n_fft - length - left))


for _method in (istft, stft):
    setattr(Tensor, _method.__name__, _method)
all_take_out(globals())
