"""Values that are computed again for derivatives instead of being kept, as torch.utils.checkpoint: autograd.checkpoint
under PyTorch's names. Random numbers are the same when they are computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Optional, Union

from tensord import autograd
from tensord.errors import InvalidArgumentError
from tensord.nn.container import Sequential


def checkpoint(function: Callable[..., Any], *args: Any, use_reentrant: Optional[bool] = None,
               context_fn: Optional[Callable[[], Any]] = None, determinism_check: str = "default", debug: bool = False,
               early_stop: bool = True, preserve_rng_state: bool = True, **kwargs: Any) -> Any:
    """function(*args, **kwargs), of which only the tensors among `args` are kept for the derivative.

    It is called once: what is computed again is its expression, so use_reentrant, determinism_check, debug, early_stop and
    preserve_rng_state change nothing. ValueError for a context_fn, since there is no second call to be in a context.
    """
    if context_fn is not None:
        raise InvalidArgumentError("checkpoint: the function is called once, so there is no context for a second call; "
                                   "leave context_fn out")
    return autograd.checkpoint(function, *args, **kwargs)


def checkpoint_sequential(functions: Union[Sequential, Sequence[Callable[..., Any]]], segments: int, input: Any,
                          use_reentrant: Optional[bool] = None, preserve_rng_state: bool = True) -> Any:
    """Functions one after the other, in so many segments: all but the last are a checkpoint each, of which the input is
    kept.
    """
    steps: list[Callable[..., Any]] = list(functions)
    if not 1 <= segments <= len(steps):
        raise InvalidArgumentError(f"checkpoint_sequential: {segments} segments of {len(steps)} functions")

    def run(some: list[Callable[..., Any]]) -> Callable[[Any], Any]:
        def call(x: Any) -> Any:
            for step in some:
                x = step(x)
            return x

        return call

    size = len(steps) // segments
    for begin in range(0, size * (segments - 1), size):
        input = checkpoint(run(steps[begin:begin + size]), input)
    return run(steps[size * (segments - 1):])(input)


__all__ = ["checkpoint", "checkpoint_sequential"]
