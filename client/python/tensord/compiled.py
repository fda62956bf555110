"""compile: jit by PyTorch's name and call, of functions and modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Optional, Union

from tensord.errors import UnimplementedError
from tensord.jit import jit


def compile(model: Optional[Callable[..., Any]] = None, *, fullgraph: bool = False, dynamic: Optional[bool] = None,
            backend: Union[str, Callable[..., Any]] = "tensord", mode: Optional[str] = None,
            options: Optional[Mapping[str, Any]] = None, disable: bool = False) -> Any:
    """jit(model), as a function or a decorator; of a Module another one, with the same parameters, whose forward is
    captured. docs/jit.md has what may be in it: derivatives go through what is captured unless it draws random
    numbers, as dropout does; then capture the whole step, backward() included. What PyTorch's other arguments ask for is
    so: the graph is always whole, each kind of arguments is a program, and the daemon is the compiler; they change
    nothing. With `disable` it is the model itself. TypeError for a function as the backend: programs are not given to
    Python."""
    if callable(backend):
        raise TypeError("compile: the backend is the daemon; a Python function cannot be one")

    def made(function: Callable[..., Any]) -> Any:
        if disable:
            return function
        from tensord.nn.compiled import CompiledModule
        from tensord.nn.module import Module

        return CompiledModule(function) if isinstance(function, Module) else jit(function)

    return made if model is None else made(model)


class autocast:
    """PyTorch's automatic choice of narrower dtypes for some operations, which there is not: NotImplementedError unless
    `enabled` is False, which does nothing."""

    def __init__(self, device_type: str = "cpu", dtype: Any = None, enabled: bool = True,
                 cache_enabled: Optional[bool] = None) -> None:
        if enabled:
            raise UnimplementedError(
                "autocast: operations compute in the dtypes of their operands; cast the model and its inputs, by "
                "model.bfloat16() and x.bfloat16(), and what needs more digits back by float(): sums and products of "
                "narrow floats are accumulated in float32 anyway")

    def __enter__(self) -> autocast:
        return self

    def __exit__(self, *exception: object) -> None:
        return None

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return function


__all__ = ["autocast", "compile"]
