"""Finding what makes a gradient NaN: each derivative on the way is computed and looked at, and the line of Python that
made the operation is remembered. Slow: for looking, not for training.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import ContextDecorator

import _tensord
from _tensord import Tensor

from tensord.errors import FailedPreconditionError, TensordError

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_FRAMES = 12  # of a traceback, the innermost


class AnomalyError(TensordError, RuntimeError):
    """A gradient is NaN."""


class _State:
    enabled = False
    check_nan = True


def is_anomaly_enabled() -> bool:
    return _State.enabled


def is_anomaly_check_nan_enabled() -> bool:
    return _State.enabled and _State.check_nan


def _here() -> str:
    """The caller's lines, without those of this package."""
    frame = sys._getframe()
    stack = [entry for entry in traceback.extract_stack(frame) if not entry.filename.startswith(_OURS)]
    return "".join(traceback.format_list(stack[-_FRAMES:]))


def _set(enabled: bool, check_nan: bool) -> tuple[bool, bool]:
    before = _State.enabled, _State.check_nan
    _State.enabled, _State.check_nan = enabled, check_nan
    _tensord._set_recorder(_here if enabled else None)
    return before


class set_detect_anomaly(ContextDecorator):
    """From now on, or inside `with`: backward() raises RuntimeError where a gradient becomes NaN."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._mode = mode, check_nan
        self._before = _set(mode, check_nan)

    def __enter__(self) -> None:
        _set(*self._mode)

    def __exit__(self, *exception: object) -> None:
        _set(*self._before)


class detect_anomaly(ContextDecorator):
    """with detect_anomaly(): backward() computes each derivative on its way and raises RuntimeError at the first that is
    NaN, with the operation and the line that made it. Captured functions that are called run as plain Python;
    FailedPreconditionError for a backward() in one that is being captured.
    """

    def __init__(self, check_nan: bool = True) -> None:
        self._check_nan = check_nan
        self._before: list[tuple[bool, bool]] = []

    def __enter__(self) -> None:
        self._before.append(_set(True, self._check_nan))

    def __exit__(self, *exception: object) -> None:
        _set(*self._before.pop())


def check(loss: Tensor, gradients: Callable[[Sequence[Tensor]], list[Tensor]]) -> None:
    """RuntimeError if a derivative on the way down from the loss is NaN; nothing if it is not to be looked for."""
    if not is_anomaly_check_nan_enabled():
        return
    if _tensord.is_capturing():
        raise FailedPreconditionError(
            "detect_anomaly: a function that is being captured has no data to look at; put detect_anomaly around the "
            "call of the function, which then runs as plain Python")
    values = _tensord._on_the_way(loss, False)
    made = gradients(values)
    nan = Tensor.stack([gradient.isnan().any() for gradient in made]).tolist() if made else []
    first = next((i for i, is_nan in enumerate(nan) if is_nan), None)
    if first is None:
        return
    # What is above it has no NaN: the nearest that hands one down.
    below = values[first]
    for value, gradient in reversed(list(zip(values[:first], made))):
        handed = _tensord._gradients(value, [below], gradient, [])[0]
        if handed.isnan().any().item():
            raise AnomalyError(f"Function '{_tensord._op_name(value)}Backward' returned nan values.\n"
                               f"The operation was made here:\n{_tensord._made_at(value) or '  (not recorded)'}")
    raise AnomalyError("the gradient that backward() begins with has nan values")
