"""Windows under PyTorch's names (torch.signal.windows): tensors [M] of the default float or `dtype`.

With `sym` a window is symmetric, as for filters; without, it is the first M elements of the symmetric one of M + 1, as
for transforms. Below, i counts the elements and n is the number of the last one of the symmetric window. ValueError for
a negative M or a dtype that is no float.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Optional

import _tensord
from _tensord import Tensor

from tensord.dtypes import DTypeLike
from tensord.errors import InvalidArgumentError


def _window(name: str, M: int, sym: bool, dtype: Optional[DTypeLike], requires_grad: bool,
            parameters: Sequence[float] = (), center: Optional[float] = None) -> Tensor:
    made = _tensord._window(name, M, not sym, parameters, center, dtype)
    return made.requires_grad_() if requires_grad else made


def _positive(what: str, name: str, value: float) -> list[float]:
    if value <= 0:
        raise InvalidArgumentError(f"{what}: {name} is {value}, it must be positive")
    return [value]


def bartlett(M: int, *, sym: bool = True, dtype: Optional[DTypeLike] = None, requires_grad: bool = False) -> Tensor:
    """1 - |2 i / n - 1|: a triangle from 0 over 1 to 0."""
    return _window("bartlett", M, sym, dtype, requires_grad)


def blackman(M: int, *, sym: bool = True, dtype: Optional[DTypeLike] = None, requires_grad: bool = False) -> Tensor:
    """0.42 - 0.5 cos(2 pi i / n) + 0.08 cos(4 pi i / n)."""
    return general_cosine(M, a=(0.42, 0.5, 0.08), sym=sym, dtype=dtype, requires_grad=requires_grad)


def cosine(M: int, *, sym: bool = True, dtype: Optional[DTypeLike] = None, requires_grad: bool = False) -> Tensor:
    """sin(pi (i + 1/2) / (n + 1))."""
    return _window("cosine", M, sym, dtype, requires_grad)


def exponential(M: int, *, center: Optional[float] = None, tau: float = 1.0, sym: bool = True,
                dtype: Optional[DTypeLike] = None, requires_grad: bool = False) -> Tensor:
    """exp(-|i - center| / tau), with n / 2 as the center unless one is given, which needs sym=False."""
    if sym and center is not None:
        raise InvalidArgumentError("exponential: a symmetric window has its center in the middle; use sym=False")
    return _window("exponential", M, sym, dtype, requires_grad, _positive("exponential", "tau", tau), center)


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, dtype: Optional[DTypeLike] = None,
             requires_grad: bool = False) -> Tensor:
    """exp(-((i - n / 2) / std)^2 / 2)."""
    return _window("gaussian", M, sym, dtype, requires_grad, _positive("gaussian", "std", std))


def general_cosine(M: int, *, a: Iterable[float], sym: bool = True, dtype: Optional[DTypeLike] = None,
                   requires_grad: bool = False) -> Tensor:
    """a[0] - a[1] cos(2 pi i / n) + a[2] cos(4 pi i / n) - ..."""
    weights = [float(each) for each in a]
    if not weights:
        raise InvalidArgumentError("general_cosine: there are no coefficients")
    return _window("general_cosine", M, sym, dtype, requires_grad, weights)


def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, dtype: Optional[DTypeLike] = None,
                    requires_grad: bool = False) -> Tensor:
    """alpha - (1 - alpha) cos(2 pi i / n)."""
    return general_cosine(M, a=(alpha, 1 - alpha), sym=sym, dtype=dtype, requires_grad=requires_grad)


def hamming(M: int, *, sym: bool = True, dtype: Optional[DTypeLike] = None, requires_grad: bool = False) -> Tensor:
    """0.54 - 0.46 cos(2 pi i / n)."""
    return general_hamming(M, sym=sym, dtype=dtype, requires_grad=requires_grad)


def hann(M: int, *, sym: bool = True, dtype: Optional[DTypeLike] = None, requires_grad: bool = False) -> Tensor:
    """0.5 - 0.5 cos(2 pi i / n)."""
    return general_hamming(M, alpha=0.5, sym=sym, dtype=dtype, requires_grad=requires_grad)


def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, dtype: Optional[DTypeLike] = None,
           requires_grad: bool = False) -> Tensor:
    """I0(beta sqrt(1 - (2 i / n - 1)^2)) / I0(beta)."""
    if beta < 0:
        raise InvalidArgumentError(f"kaiser: beta is {beta}, it cannot be negative")
    return _window("kaiser", M, sym, dtype, requires_grad, [beta])


def nuttall(M: int, *, sym: bool = True, dtype: Optional[DTypeLike] = None, requires_grad: bool = False) -> Tensor:
    """general_cosine of four terms, whose side lobes are low."""
    return general_cosine(M, a=(0.3635819, 0.4891775, 0.1365995, 0.0106411), sym=sym, dtype=dtype,
                          requires_grad=requires_grad)
