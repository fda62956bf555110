#!/usr/bin/env python3
"""Writes _tensord.pyi, the types of the extension module, from the signatures that pybind11 puts in docstrings.

    .venv/bin/python client/python/make_stub.py          writes it beside this file
    .venv/bin/python client/python/make_stub.py --check  fails if it is not what it would write
"""

import pathlib
import re
import sys

import _tensord

PATH = pathlib.Path(__file__).with_name("_tensord.pyi")

# Types of arguments that the extension examines itself, by name.
ARGUMENTS = {
    "dim": "int | Sequence[int] | None", "dtype": "Any", "shape": "int | Sequence[int]",
    "kernel_size": "int | Sequence[int]", "stride": "int | Sequence[int] | None",
    "padding": "int | Sequence[int]", "dilation": "int | Sequence[int]",
    "normalized_shape": "int | Sequence[int]", "sizes": "int | Sequence[int]",
}  # fmt: skip
# Where one cannot know from C++ what is returned.
RETURNS = {
    "numpy": "np.ndarray[Any, Any]", "__array__": "np.ndarray[Any, Any]", "shape": "tuple[int, ...]",
    "device": "str", "nbytes": "int", "realize": "Tensor", "wait": "Tensor", "assign": "Tensor",
    "requires_grad_": "Tensor", "gradient": "list[Tensor]", "size": "Any", "__iter__": "Iterator[Tensor]",
    "T": "Tensor", "mT": "Tensor", "dtype": "DType", "ndim": "int", "is_realized": "bool", "requires_grad": "bool",
    "grad": "Tensor | None", "address": "str", "devices": "list[str]", "closed": "bool", "captures": "int",
    "counters": "dict[str, Any]", "itemsize": "int", "is_floating_point": "bool", "is_signed": "bool", "name": "str",
    "__bool__": "bool", "tolist": "Any", "item": "Any", "__eq__": "Any", "__ne__": "Any", "__reduce__": "tuple[Any, ...]",
}  # fmt: skip
# The forms of an operator: Tensor for operands that are one.
OPERATOR = re.compile(r"__[ri]?(add|sub|mul|truediv|floordiv|mod|pow|and|or|xor|lshift|rshift|lt|le|gt|ge)__")

HEADER = '''"""The C++ half of the package tensord. Written by make_stub.py."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

# Tensor has methods of these names.
_bool = bool
_float = float
_int = int

'''


def type_of(text, name):
    if text in ("handle", "object"):
        return ARGUMENTS.get(name, "Any")
    text = re.sub(r"_tensord\.", "", text)
    text = re.sub(r"Optional\[(.*)\]", r"\1 | None", text)
    text = re.sub(r"\bList\[", "Sequence[", text).replace("Tuple[", "tuple[")
    return text.replace("function", "Callable[..., Any]")


def builtin(text):
    return re.sub(r"\b(bool|float|int)\b", r"_\1", text)


def split(parameters):
    """At the commas that stand outside of brackets."""
    depth, part = 0, ""
    for character in parameters:
        depth += (character in "[(") - (character in "])")
        if character == "," and depth == 0:
            yield part.strip()
            part = ""
        else:
            part += character
    if part.strip():
        yield part.strip()


def signature(name, doc):
    match = re.match(rf"{re.escape(name)}\((.*)\) -> (.*)", doc.split("\n")[0])
    if not match:
        raise ValueError(f"{name}: no signature in {doc!r}")
    parameters = []
    for position, part in enumerate(split(match[1])):
        if part in ("*args", "*"):
            parameters.append("*args: Any" if part == "*args" else part)
            continue
        parameter, _, rest = part.partition(":")
        kind, _, default = rest.partition("=")
        if parameter == "self":
            parameters.append("self")
            continue
        if re.fullmatch(r"arg\d+", parameter):
            parameter = f"__{parameter}"  # has no name for callers
        parameters.append(f"{parameter}: {builtin(type_of(kind.strip(), parameter))}" + (" = ..." if default else ""))
    returned = RETURNS.get(name) or type_of(match[2], name)
    if returned.startswith("Sequence["):
        returned = "list[" + returned[len("Sequence["):]
    if OPERATOR.fullmatch(name):
        returned = "Tensor"
    if name == "__init__":
        returned = "None"
    return f"({', '.join(parameters)}) -> {builtin(returned)}"


def describe_class(cls):
    yield f"class {cls.__name__}:"
    for name, member in sorted(vars(cls).items()):
        if isinstance(member, property):
            yield f"    @property\n    def {name}(self) -> {builtin(RETURNS[name])}: ..."
            if member.fset:
                yield f"    @{name}.setter\n    def {name}(self, value: {builtin(RETURNS[name])}) -> None: ..."
        elif isinstance(member, staticmethod):
            yield f"    @staticmethod\n    def {name}{signature(name, member.__func__.__doc__)}: ..."
        elif callable(member) and (getattr(member, "__doc__", None) or "").startswith(f"{name}("):
            yield f"    def {name}{signature(name, member.__doc__)}: ..."
    if cls.__name__ == "Client":
        yield "    def __enter__(self) -> Client: ..."
        yield "    def __exit__(self, *exception: object) -> None: ..."


def describe():
    parts = []
    for name, member in sorted(vars(_tensord).items()):
        if isinstance(member, type):
            parts.append("\n".join(describe_class(member)))
    for name, member in sorted(vars(_tensord).items()):
        if callable(member) and not isinstance(member, type):
            parts.append(f"def {name}{signature(name, member.__doc__)}: ...")
    return HEADER + "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        if not PATH.exists() or PATH.read_text() != describe():
            sys.exit(f"{PATH} is old: run {__file__}")
    else:
        PATH.write_text(describe())
