"""Parameters that are computed from others, as torch.nn.utils.parametrize.

    class Symmetric(nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).transpose(0, 1)

    register_parametrization(layer, "weight", Symmetric())

Then layer.weight is what the module makes of layer.parametrizations.weight.original, which is what is learned.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Optional

from _tensord import Tensor, is_capturing

from tensord.errors import InvalidArgumentError, UnimplementedError
from tensord.nn.container import ModuleDict, ModuleList
from tensord.nn.module import Module
from tensord.nn.parameter import Parameter


class ParametrizationList(ModuleList):
    """Modules one after the other, of which the first takes `original`, or `original0`, `original1`, .. if its
    right_inverse gave several tensors."""

    def __init__(self, modules: list[Module], original: Tensor) -> None:
        super().__init__(modules)
        self._count = 0  # of originals, 0 for a single one
        try:
            values = self._inverted(original)
        except UnimplementedError:
            values = original  # no value can be assigned later either
        self._count = len(values) if isinstance(values, tuple) else 0
        for name, value in zip(self._originals(), values if isinstance(values, tuple) else (values,)):
            setattr(self, name, Parameter(value.detach().clone(), original.requires_grad))

    def _originals(self) -> list[str]:
        return [f"original{i}" for i in range(self._count)] or ["original"]

    def _inverted(self, value: Any) -> Any:
        for module in reversed(list(self)):
            if hasattr(module, "right_inverse"):
                value = module.right_inverse(value)
        return value

    def set(self, value: Tensor) -> None:
        """Gives the originals the data of which `value` is made."""
        values = self._inverted(value)
        for name, each in zip(self._originals(), values if isinstance(values, tuple) else (values,)):
            original: Tensor = getattr(self, name)
            original.assign(each.detach().clone().cast(original.dtype))
            if not is_capturing():
                original.realize()

    def __call__(self) -> Tensor:
        made: Tensor = super().__call__()
        return made

    def forward(self) -> Tensor:
        first, *others = self
        x: Tensor = first(*(getattr(self, name) for name in self._originals()))
        for module in others:
            x = module(x)
        return x


_cache: ContextVar[Optional[dict[int, Tensor]]] = ContextVar("tensord_parametrized", default=None)


@contextmanager
def cached() -> Iterator[None]:
    """Inside, each computed parameter is computed when it is first asked for, and then kept."""
    token = _cache.set({}) if _cache.get() is None else None
    try:
        yield
    finally:
        if token is not None:
            _cache.reset(token)


def _value(part: ParametrizationList) -> Tensor:
    kept = _cache.get()
    if kept is None:
        return part()
    if id(part) not in kept:
        kept[id(part)] = part()
    return kept[id(part)]


def _set_value(part: ParametrizationList, value: Tensor) -> None:
    (_cache.get() or {}).pop(id(part), None)
    part.set(value)


def type_before_parametrizations(module: Module) -> type[Module]:
    """The class that it had."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def is_parametrized(module: Module, tensor_name: Optional[str] = None) -> bool:
    parts = vars(module).get("parametrizations")
    return isinstance(parts, ModuleDict) and (tensor_name is None or tensor_name in parts)


def register_parametrization(module: Module, tensor_name: str, parametrization: Module) -> Module:
    """Computes a parameter by a module from now on. A parametrization with right_inverse(value) says which originals
    give a value. A second one takes the result of the first."""
    if is_parametrized(module, tensor_name):
        part = module.get_submodule(f"parametrizations.{tensor_name}")
        assert isinstance(part, ParametrizationList)
        value = getattr(module, tensor_name).detach()
        setattr(module.get_submodule("parametrizations"), tensor_name, ParametrizationList([*part, parametrization], value))
        return module
    original = vars(module).get(tensor_name)
    if not isinstance(original, Parameter):
        raise InvalidArgumentError(f"register_parametrization: {type(module).__name__} has no parameter '{tensor_name}'")
    part = ParametrizationList([parametrization], original)
    shape = tuple(part().shape)
    if shape != tuple(original.shape):
        raise InvalidArgumentError(f"register_parametrization: {type(parametrization).__name__} makes a tensor of shape "
                                   f"{list(shape)} of '{tensor_name}', which has shape {list(original.shape)}")
    if not is_parametrized(module):
        module.add_module("parametrizations", ModuleDict())
        _set_class(module, type(f"Parametrized{type(module).__name__}", (type(module),), {}))
    setattr(module.get_submodule("parametrizations"), tensor_name, part)
    delattr(module, tensor_name)
    setattr(type(module), tensor_name, property(
        lambda self: _value(self.parametrizations[tensor_name]),
        lambda self, value: _set_value(self.parametrizations[tensor_name], value)))
    return module


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Makes it a parameter again: with the value that it has, or with leave_parametrized=False with the original's."""
    if not is_parametrized(module, tensor_name):
        raise InvalidArgumentError(f"remove_parametrizations: '{tensor_name}' of {type(module).__name__} has none")
    part = module.get_submodule(f"parametrizations.{tensor_name}")
    originals = list(part.parameters(recurse=False))
    if len(originals) > 1 and not leave_parametrized:
        raise InvalidArgumentError(f"remove_parametrizations: '{tensor_name}' is made of {len(originals)} originals, so "
                                   "only its value can stay")
    value = getattr(module, tensor_name).detach().clone().realize() if leave_parametrized else originals[0].detach()
    parts = module.get_submodule("parametrizations")
    delattr(type(module), tensor_name)
    delattr(parts, tensor_name)
    if not list(parts.children()):
        delattr(module, "parametrizations")
        _set_class(module, type(module).__bases__[0])
    setattr(module, tensor_name, Parameter(value, originals[0].requires_grad))
    return module


def _set_class(module: Module, cls: Any) -> None:
    object.__setattr__(module, "__class__", cls)
