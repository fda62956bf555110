"""Modules and parameters in a row or by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, Optional, TypeVar, Union

from _tensord import Tensor

from tensord.nn.module import Module
from tensord.nn.parameter import Parameter

T = TypeVar("T")
L = TypeVar("L", bound="_List[Any]")


class _Named(Module, Generic[T]):
    """Members that are attributes, named by their place or key."""

    _kind = "module"

    def _members(self) -> dict[str, T]:
        return dict(self._own(self._kind))

    def _put(self, name: str, value: T) -> None:
        if self._kind == "module":
            self.add_module(name, value)  # type: ignore[arg-type]
        else:
            self.register_parameter(name, value)  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self._members())


class _List(_Named[T]):
    def __init__(self, values: Optional[Iterable[T]] = None) -> None:
        super().__init__()
        self.extend(values or ())

    def _name(self, index: int) -> str:
        names = list(self._members())
        if not -len(names) <= index < len(names):
            raise IndexError(f"{type(self).__name__}: index {index} of {len(names)}")
        return names[index]

    def _set_all(self, values: Iterable[T]) -> None:
        values = list(values)
        for name in self._members():
            delattr(self, name)
        for i, value in enumerate(values):
            self._put(str(i), value)

    def _of(self: L, values: Iterable[Any]) -> L:
        made = type(self)()
        made._set_all(values)
        return made

    def __iter__(self) -> Iterator[T]:
        return iter(list(self._members().values()))

    def __getitem__(self, index: Any) -> Any:
        """A member, or by a slice a row of them."""
        if isinstance(index, slice):
            return self._of(list(self)[index])
        return self._members()[self._name(int(index))]

    def __setitem__(self, index: int, value: T) -> None:
        self._put(self._name(int(index)), value)

    def __delitem__(self, index: Union[int, slice]) -> None:
        values = list(self)
        del values[index]
        self._set_all(values)

    def append(self: L, value: Any) -> L:
        self._put(str(len(self)), value)
        return self

    def extend(self: L, values: Iterable[Any]) -> L:
        for value in values:
            self.append(value)
        return self

    def insert(self: L, index: int, value: Any) -> L:
        values = list(self)
        values.insert(index, value)
        self._set_all(values)
        return self

    def pop(self, index: int = -1) -> T:
        value: T = self[index]
        del self[index]
        return value

    def __add__(self: L, other: Iterable[Any]) -> L:
        return self._of([*self, *other])

    def __iadd__(self: L, other: Iterable[Any]) -> L:
        return self.extend(other)


class Sequential(_List[Module]):
    """Calls its modules one after the other: Sequential(a, b)(x) is b(a(x)). Also of a dict, by name."""

    def __init__(self, *modules: Any) -> None:
        super().__init__()
        if len(modules) == 1 and isinstance(modules[0], Mapping):
            for name, module in modules[0].items():
                self._put(name, module)
        else:
            self.extend(modules)

    def forward(self, input: Any) -> Any:
        for module in self:
            input = module(input)
        return input


class ModuleList(_List[Module]):
    """A list of modules, each a part of this one."""

    def _shown(self) -> Iterator[tuple[str, Any]]:
        """Neighbours that look the same as one line, as in PyTorch."""
        runs: list[tuple[int, int, Any, str]] = []
        for i, module in enumerate(self):
            if runs and runs[-1][3] == repr(module):
                runs[-1] = (runs[-1][0], i, *runs[-1][2:])
            else:
                runs.append((i, i, module, repr(module)))
        for first, last, module, text in runs:
            yield (str(first), module) if first == last else (f"{first}-{last}", _Times(last - first + 1, text))


class _Times:
    def __init__(self, count: int, text: str) -> None:
        self.count, self.text = count, text

    def __repr__(self) -> str:
        return f"{self.count} x {self.text}"


class ParameterList(_List[Parameter]):
    """A list of parameters; tensors become parameters."""

    _kind = "parameter"

    def _put(self, name: str, value: Any) -> None:
        super()._put(name, _parameter(value))

    def extra_repr(self) -> str:
        return _lines(self._members())


class _Dict(_Named[T]):
    def __init__(self, values: Union[Mapping[str, T], Iterable[tuple[str, T]], None] = None) -> None:
        super().__init__()
        self.update(values or {})

    def __getitem__(self, key: str) -> T:
        return self._members()[key]

    def __setitem__(self, key: str, value: T) -> None:
        self._put(key, value)

    def __delitem__(self, key: str) -> None:
        self[key]
        delattr(self, key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._members())

    def __contains__(self, key: object) -> bool:
        return key in self._members()

    def keys(self) -> Iterable[str]:
        return self._members().keys()

    def values(self) -> Iterable[T]:
        return self._members().values()

    def items(self) -> Iterable[tuple[str, T]]:
        return self._members().items()

    def update(self, values: Union[Mapping[str, T], Iterable[tuple[str, T]], _Dict[T]]) -> None:
        pairs = values.items() if isinstance(values, (Mapping, _Dict)) else values
        for key, value in pairs:
            self[key] = value

    def pop(self, key: str) -> T:
        value = self[key]
        del self[key]
        return value

    def clear(self) -> None:
        for key in self:
            del self[key]


class ModuleDict(_Dict[Module]):
    """Modules by name, each a part of this one."""


class ParameterDict(_Dict[Parameter]):
    """Parameters by name; tensors become parameters."""

    _kind = "parameter"

    def _put(self, name: str, value: Any) -> None:
        super()._put(name, _parameter(value))

    def extra_repr(self) -> str:
        return _lines(self._members())


def _parameter(value: Any) -> Any:
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


def _lines(members: Mapping[str, Parameter]) -> str:
    return "\n".join(f"({name}): Parameter containing: [{value.dtype.name} of size "
                     f"{'x'.join(str(n) for n in value.shape)}]" for name, value in members.items())
