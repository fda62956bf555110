"""The keyword `out` of functions written in Python, as the methods have it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from types import FunctionType
from typing import Any, Optional, TypeVar, cast

import _tensord

F = TypeVar("F", bound=Callable[..., Any])


def takes_out(function: F) -> F:
    """Gives a function the keyword `out`: the tensors given, one for each result, become what the function gives, and are
    what is returned. They have the shapes of the results, and a dtype that holds them: no integer one for floats."""

    @wraps(function)
    def into(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        results = function(*args, **kwargs)
        if out is None:
            return results
        name = type(results).__name__ if hasattr(results, "_fields") else getattr(function, "__name__", "out")
        return _tensord._into(out, results, name)

    return cast(F, into)


def all_take_out(members: dict[str, Any], names: Optional[Iterable[str]] = None) -> None:
    """The same for a module's functions of these names, or all public ones that it defines. Methods that stand there take
    it by themselves."""
    for name in list(members) if names is None else names:
        function = members[name]
        if isinstance(function, FunctionType) and function.__module__ == members["__name__"] and name[0] != "_":
            members[name] = takes_out(function)
