"""compile: jit by PyTorch's name and call, of functions and modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Optional, Union

from tensord.errors import UnimplementedError
from tensord.jit import jit

if TYPE_CHECKING:
    from tensord.nn.module import Module


def compile(model: Optional[Callable[..., Any]] = None, *, fullgraph: bool = False, dynamic: Optional[bool] = None,
            backend: Union[str, Callable[..., Any]] = "tensord", mode: Optional[str] = None,
            options: Optional[Mapping[str, Any]] = None, disable: bool = False) -> Any:
    """jit(model), as a function or a decorator; of a Module another one, with the same parameters, whose forward is
    captured. docs/jit.md has what may be in it. What PyTorch's other arguments ask for is so: the graph is always whole,
    each kind of arguments is a program, and the daemon is the compiler; they change nothing. With `disable` it is the model
    itself. TypeError for a function as the backend: programs are not given to Python."""
    if callable(backend):
        raise TypeError("compile: the backend is the daemon; a Python function cannot be one")

    def made(function: Callable[..., Any]) -> Any:
        from tensord.nn.module import Module

        if disable:
            return function
        return _of_module(function) if isinstance(function, Module) else jit(function)

    return made if model is None else made(model)


def _of_module(module: Module) -> Module:
    from tensord.nn.module import Module

    class Compiled(Module):
        def __init__(self) -> None:
            super().__init__()
            self._orig_mod = module
            object.__setattr__(self, "_jit", jit(module.__call__))

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return self.__dict__["_jit"](*args, **kwargs)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.__dict__["_orig_mod"], name)

    return Compiled()


class autocast:
    """PyTorch's automatic choice of narrower dtypes for some operations, which there is not: NotImplementedError unless
    `enabled` is False, which does nothing."""

    def __init__(self, device_type: str = "cpu", dtype: Any = None, enabled: bool = True,
                 cache_enabled: Optional[bool] = None) -> None:
        if enabled:
            raise UnimplementedError(
                "autocast: operations compute in the dtypes of their operands; cast the model and its inputs, by "
                "model.bfloat16() and x.bfloat16(), and what needs more digits back by float(): sums and products of narrow "
                "floats are accumulated in float32 anyway")

    def __enter__(self) -> autocast:
        return self

    def __exit__(self, *exception: object) -> None:
        return None

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return function


__all__ = ["autocast", "compile"]
