"""Modules whose parameters will be loaded, and need no first values."""

from __future__ import annotations

import inspect
from typing import Any, TypeVar

from tensord.errors import InvalidArgumentError
from tensord.nn import init
from tensord.nn.module import Module

M = TypeVar("M", bound=Module)


def skip_init(module_cls: type[M], *args: Any, **kwargs: Any) -> M:
    """module_cls(*args, **kwargs) with parameters that hold anything: nothing of nn.init runs. RuntimeError for a class
    without the argument `device`, which as in PyTorch says that it makes its parameters by the rules of nn."""
    if not issubclass(module_cls, Module):
        raise InvalidArgumentError(f"skip_init: {module_cls.__name__} is no Module")
    if "device" not in inspect.signature(module_cls).parameters:
        raise InvalidArgumentError(f"skip_init: {module_cls.__name__} takes no device")
    with init.skipped():
        return module_cls(*args, **kwargs)
