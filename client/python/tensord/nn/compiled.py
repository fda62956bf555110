"""Modules whose forward is captured, which tensord.compile makes."""

from __future__ import annotations

from typing import Any

from tensord.jit import jit
from tensord.nn.module import Module


class CompiledModule(Module):
    """A module that has the parameters of another one and captures its call, see tensord.compile. `_orig_mod` is that, as in
    PyTorch, and its attributes are there too. Copies and pickles capture anew."""

    def __init__(self, module: Module) -> None:
        super().__init__()
        self._orig_mod = module
        object.__setattr__(self, "_call", jit(module.__call__))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.__dict__["_call"](*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_orig_mod" not in self.__dict__:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return getattr(self.__dict__["_orig_mod"], name)

    def __reduce__(self) -> tuple[Any, ...]:
        return CompiledModule, (self._orig_mod,)


__all__ = ["CompiledModule"]
