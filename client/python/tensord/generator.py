"""Generators of random numbers: a seed, and a counter of what was drawn."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Optional

import _tensord
from _tensord import Tensor

from tensord.connection import current
from tensord.errors import FailedPreconditionError, InvalidArgumentError

if TYPE_CHECKING:
    import numpy as np

# PyTorch's seed of a generator that nobody seeded.
_SEED = 67280421310721


class Generator(_tensord._Generator):
    """A source of random numbers of its own, which the functions that draw take as `generator`.

        g = tensord.Generator().manual_seed(3)
        x = tensord.randn(4, generator=g)

    It belongs to the session it was made in. Its state lies on the device, so a captured function that draws from it
    draws on at each call. The numbers are the same on every device; `device` is only noted.
    """

    def __init__(self, device: Optional[str] = None) -> None:
        super().__init__()
        self._device = device
        self._start(_SEED, True)

    @property
    def device(self) -> str:
        return self._device or current().device

    def manual_seed(self, seed: int) -> Generator:
        """Starts it anew: a number below 2 ** 64, or a negative one that stands for 2 ** 64 more, above -2 ** 63."""
        if _tensord.is_capturing():
            raise FailedPreconditionError("manual_seed: a captured function runs again with data only; seed outside of it")
        if not -(2**63) <= seed < 2**64:
            raise InvalidArgumentError(f"manual_seed: {seed} is no number of 64 bits")
        self._start(seed % 2**64, not isinstance(self, _DefaultGenerator))
        return self

    def seed(self) -> int:
        """Starts it anew by a seed that nobody can foretell, and returns that."""
        fresh = int.from_bytes(os.urandom(8), "little") >> 1
        self.manual_seed(fresh)
        return fresh

    def initial_seed(self) -> int:
        """The seed that it was started with."""
        return _number(self._words().numpy(), 0)

    def get_state(self) -> Tensor:
        """uint32 [4]: the key, which is the seed, and a counter, each as low and high word."""
        return Tensor(self._words().numpy())  # as it is now, whatever is drawn before it is read

    def set_state(self, new_state: Tensor) -> None:
        """Goes on drawing from a state that get_state gave. ValueError for anything else."""
        words = new_state.numpy()
        if words.dtype != "uint32" or words.shape != (4,):
            raise InvalidArgumentError(f"set_state: a state is uint32 [4], not {words.dtype} {list(words.shape)}")
        self.manual_seed(_number(words, 0))
        self._skip(_number(words, 2))

    def clone_state(self) -> Generator:
        """Another one that goes on from the same state."""
        return _going_on(self._device, self.get_state())

    def __reduce__(self) -> tuple[Any, ...]:
        return _going_on, (self._device, self.get_state())


class _DefaultGenerator(Generator):
    """Where random numbers come from without a `generator`: the current client's own."""

    def __init__(self) -> None:
        _tensord._Generator.__init__(self)
        self._device = None


def _going_on(device: Optional[str], state: Tensor) -> Generator:
    made = Generator(device)
    made.set_state(state)
    return made


def _number(words: np.ndarray[tuple[int, ...], np.dtype[np.uint32]], at: int) -> int:
    return int(words[at]) | int(words[at + 1]) << 32


default_generator: Generator = _DefaultGenerator()

__all__ = ["Generator", "default_generator"]
