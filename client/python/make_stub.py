#!/usr/bin/env python3
"""Writes _tensord.pyi, the types of the extension module, from the signatures that pybind11 puts in docstrings, and
tensord/functional.pyi, those of the methods that are functions too.

    .venv/bin/python client/python/make_stub.py          writes it beside this file
    .venv/bin/python client/python/make_stub.py --check  fails if it is not what it would write
"""

import inspect
import pathlib
import re
import sys
import types
from typing import Any, Union, get_args, get_origin, get_type_hints

import _tensord
from tensord import creation, functional, random, return_types

FOLDER = pathlib.Path(__file__).parent

# Types of arguments that the extension examines itself, by name.
ARGUMENTS = {
    "dim": "int | Sequence[int] | None", "dtype": "Any", "shape": "int | Sequence[int]",
    "kernel_size": "int | Sequence[int]", "stride": "int | Sequence[int] | None",
    "padding": "Any", "dilation": "int | Sequence[int]", "output_padding": "int | Sequence[int]",
    "output_size": "int | Sequence[int] | None", "size": "Any", "dims": "Any", "shifts": "int | Sequence[int]",
    "source": "int | Sequence[int]", "destination": "int | Sequence[int]",
    "normalized_shape": "int | Sequence[int]", "sizes": "int | Sequence[int]",
}  # fmt: skip
# Where one cannot know from C++ what is returned.
RETURNS = {
    "is_empty": "bool", "numpy": "np.ndarray[Any, Any]", "__array__": "np.ndarray[Any, Any]", "shape": "tuple[Any, ...]",
    "low": "int", "high": "int",
    "device": "str", "path": "str", "nbytes": "int", "realize": "Tensor", "wait": "Tensor", "assign": "Tensor",
    "requires_grad_": "Tensor", "gradient": "list[Tensor]", "size": "Any", "__iter__": "Iterator[Tensor]",
    "T": "Tensor", "mT": "Tensor", "H": "Tensor", "mH": "Tensor", "split": "tuple[Tensor, ...]",
    "chunk": "list[Tensor]", "tensor_split": "tuple[Tensor, ...]", "hsplit": "tuple[Tensor, ...]", "vsplit": "tuple[Tensor, ...]",
    "dsplit": "tuple[Tensor, ...]", "unbind": "tuple[Tensor, ...]", "meshgrid": "tuple[Tensor, ...]",
    "broadcast_tensors": "tuple[Tensor, ...]", "to": "Tensor", "cpu": "Tensor", "pin_memory": "Tensor", "replace": "Tensor",
    "stride": "Any", "data": "Any", "_memoryview": "memoryview", "__dlpack__": "Any", "__deepcopy__": "Tensor", "__dlpack_device__": "tuple[int, int]",
    "atleast_1d": "Any", "atleast_2d": "Any", "atleast_3d": "Any", "__format__": "str", "__str__": "str", "dtype": "DType", "ndim": "int", "is_realized": "bool", "requires_grad": "bool",
    "grad": "Tensor | None", "address": "str", "devices": "list[str]", "closed": "bool", "captures": "int", "traces": "int", "graph_nodes": "int",
    "counters": "dict[str, Any]", "max_pool2d": "Any", "uniform_": "Tensor", "normal_": "Tensor", "random_": "Tensor",
    "bernoulli_": "Tensor", "exponential_": "Tensor", "geometric_": "Tensor", "cauchy_": "Tensor", "log_normal_": "Tensor",
    "_finfo": "dict[str, Any]", "explain": "dict[str, Any]", "itemsize": "int", "is_floating_point": "bool", "is_signed": "bool", "name": "str",
    "cuda": "Tensor", "is_param": "bool", "max_shape": "tuple[int, ...]", "median": "Any", "nanmedian": "Any",
    **{name: f"return_types.{name}" for name, member in vars(return_types).items()
       if hasattr(member, "_fields") and name not in ("max", "min", "median", "nanmedian")},
    **{f"{name}_": "Tensor" for name in ("detach", "squeeze", "swapaxes", "swapdims", "t", "transpose", "unsqueeze")},
    "_become": "Tensor", "copy_": "Tensor", "__bool__": "bool", "tolist": "Any", "item": "Any", "__eq__": "Any", "__ne__": "Any", "__reduce__": "tuple[Any, ...]",
}  # fmt: skip
# What each form gives, of methods whose forms differ in that.
FORMS = {
    **{name: ("Tensor", "Tensor", f"return_types.{name}", "Tensor") for name in ("max", "min")},
    "where": ("Tensor", "tuple[Tensor, ...]"),
}  # fmt: skip
# Likewise of properties, where a method of another class has the name.
PROPERTIES = {"bitsize": "int", "device": "Any", "shard_axis": "int | None", "min": "Any", "max": "Any", "fast_math": "bool",
              "grad_fn": "Any", "is_leaf": "bool", "retains_grad": "bool"}
# Methods of a tensor that are also functions of a sequence of them.
EITHER = {
    "cat", "concat", "concatenate", "stack", "hstack", "vstack", "row_stack", "dstack", "column_stack", "atleast_1d",
    "atleast_2d", "atleast_3d", "meshgrid", "broadcast_tensors",
}  # fmt: skip
# The forms of an operator: Tensor for operands that are one.
OPERATOR = re.compile(r"__[ri]?(add|sub|mul|truediv|floordiv|mod|pow|and|or|xor|lshift|rshift|lt|le|gt|ge)__")

HEADER = '''"""The C++ half of the package tensord. Written by make_stub.py."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn, overload

import numpy as np
from tensord.generator import Generator

from tensord import return_types

# Tensor has methods of these names.
_bool = bool
_float = float
_int = int
_type = type

'''


def type_of(text, name):
    if text in ("handle", "object"):
        return ARGUMENTS.get(name, "Any")
    text = re.sub(r"_tensord\.", "", text)
    text = text.replace("numpy.ndarray", "np.ndarray[Any, Any]")
    if text == "tuple":
        return "tuple[Tensor, ...]"
    text = re.sub(r"Optional\[(\w+)\]", r"\1 | None", text)
    text = re.sub(r"Optional\[(.*)\]", r"\1 | None", text)
    text = re.sub(r"\bList\[", "Sequence[", text).replace("Tuple[", "tuple[").replace("Dict[", "dict[")
    text = re.sub(r"\bsequence\b", "Sequence[Any]", text)
    text = text.replace("numpy.ndarray", "np.ndarray[Any, Any]")
    return text.replace("function", "Callable[..., Any]")


def builtin(text):
    return re.sub(r"\b(bool|float|int|type)\b", r"_\1", text)


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


def forms_of(name, doc):
    """The signatures of an overloaded function."""
    return re.findall(rf"^\d+\. ({re.escape(name)}\(.*)", doc, re.MULTILINE)


def overloads(name, doc):
    for form, returned in zip(forms_of(name, doc), FORMS[name], strict=True):
        # What an earlier form takes, a later one does not.
        text = signature(name, form, returned).replace("*, dim: _int | Sequence[_int] | None", "*, dim: Sequence[_int] | None")
        yield f"    @overload\n    def {name}{text}: ..."


def signature(name, doc, given=None):
    line = doc.split("\n")[0]
    forms = forms_of(name, doc)
    if forms:  # of an overloaded function the first, with what another one adds
        line = forms[0]
        if "dtype: " not in line and any("dtype: handle" in form for form in forms[1:]):
            line = re.sub(r"\) ->", ", dtype: object = None) ->" if "*, " in line else ", *, dtype: object = None) ->", line)
    if name.endswith("_") and line == f"{name}(*args, **kwargs)":  # in place, of an overloaded function
        return "(self, *args: Any, **kwargs: Any) -> Tensor"
    match = re.match(rf"{re.escape(name)}\((.*)\) -> (.*)", line)
    if not match:
        raise ValueError(f"{name}: no signature in {doc!r}")
    parameters = []
    for position, part in enumerate(split(match[1])):
        if part in ("*args", "**kwargs", "*"):
            parameters.append(part if part == "*" else f"{part}: Any")
            continue
        parameter, _, rest = part.partition(":")
        kind, _, default = rest.partition("=")
        if parameter == "self":
            # An object where a sequence of tensors does as well.
            parameters.append("self: Any" if kind.strip() == "object" and name in EITHER else "self")
            continue
        if re.fullmatch(r"arg\d+", parameter):
            parameter = f"__{parameter}"  # has no name for callers
        parameters.append(f"{parameter}: {builtin(type_of(kind.strip(), parameter))}" + (" = ..." if default else ""))
    returned = given or RETURNS.get(name) or type_of(match[2], name)
    if returned.startswith("Sequence["):
        returned = "list[" + returned[len("Sequence["):]
    if OPERATOR.fullmatch(name):
        # Arithmetic of sizes that vary gives an int or another one.
        returned = returned.replace("object", "Any") if "self: _tensord.SymInt" in match[1] else "Tensor"
    if name == "__init__":
        returned = "None"
    return f"({', '.join(parameters)}) -> {builtin(returned)}"


def type_text(hint):
    """A type as the stub spells it."""
    if hint in (None, types.NoneType):
        return "None"
    if hint in (Any, ...) or isinstance(hint, list):
        return "Any" if hint is Any else "..." if hint is ... else f"[{', '.join(map(type_text, hint))}]"
    if getattr(hint, "__module__", None) == return_types.__name__:
        return f"return_types.{hint.__name__}"
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " | ".join(map(type_text, arguments))
    if arguments:
        return f"{origin.__name__}[{', '.join(map(type_text, arguments))}]"
    return builtin(hint.__name__)


def python_signature(function, method=False):
    """The signature of a function of the package, with the receiver of a method as self."""
    hints = get_type_hints(function)
    parameters, kind = [], None
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY and kind not in (parameter.VAR_POSITIONAL, parameter.KEYWORD_ONLY):
            parameters.append("*")
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        default = "" if parameter.default is parameter.empty else " = ..."
        receiver = method and not parameters
        parameters.append("self" if receiver else f"{stars}{name}: {type_text(hints[name])}{default}")
        kind = parameter.kind
    return f"({', '.join(parameters)}) -> {type_text(hints['return'])}"


def returned_by(function):
    """What a function of the package gives."""
    return type_text(get_type_hints(function)["return"])


def elsewhere(name, doc, method=False):
    """The signature of the package's function that the extension calls, if its docstring says so."""
    if f"See tensord.{name}." not in doc:
        return None
    return python_signature(getattr(creation, name), method)


def describe_class(cls):
    yield f"class {cls.__name__}:"
    for name, member in sorted(vars(cls).items()):
        if isinstance(member, property):
            kind = builtin(PROPERTIES.get(name) or RETURNS.get(name) or returned_by(member.fget))
            yield f"    @property\n    def {name}(self) -> {kind}: ..."
            if member.fset:
                yield f"    @{name}.setter\n    def {name}(self, value: {kind}) -> None: ..."
        elif isinstance(member, types.FunctionType) and (cls.__name__ == "Tensor" or not name.startswith("__")):
            yield f"    def {name}{python_signature(member, method=True)}: ..."
        elif isinstance(member, staticmethod) and isinstance(member.__func__, types.FunctionType):
            yield f"    @staticmethod\n    def {name}{python_signature(member.__func__)}: ..."
        elif isinstance(member, staticmethod):
            form = elsewhere(name, member.__func__.__doc__) or signature(name, member.__func__.__doc__)
            yield f"    @staticmethod\n    def {name}{form}: ..."
        elif cls.__name__ == "Tensor" and name in FORMS:
            yield from overloads(name, member.__doc__)
        elif callable(member) and (getattr(member, "__doc__", None) or "").startswith(f"{name}("):
            form = elsewhere(name, member.__doc__, method=True) or signature(name, member.__doc__)
            yield f"    def {name}{form}: ..."
    for name, member in sorted(vars(cls).items()):
        if (other := alias_of(cls, name, member)) is not None:
            yield f"    {name} = {other}"
    if cls.__name__ == "Client":
        yield "    def __enter__(self) -> Client: ..."
        yield "    def __exit__(self, *exception: object) -> None: ..."


def alias_of(cls, name, member):
    """The name that the method was bound by, if that is another one."""
    other = (getattr(member, "__doc__", None) or "").partition("(")[0]
    return other if other != name and callable(member) and vars(cls).get(other) is member else None


def describe_functional():
    yield '"""Methods of Tensor as functions. Written by make_stub.py."""\n'
    yield "from typing import Any\n"
    yield "from _tensord import Tensor\n"
    yield "from tensord import return_types\n"
    # A type checker takes what `import *` brings from here. What else makes tensors, tensord has from those modules.
    names = sorted({*functional.__all__, *functional._IN_TORCH_ORDER} - {*vars(creation), *vars(random)})
    yield "__all__ = [\n" + "".join(f"    {name!r},\n" for name in names) + "]\n\n"
    for name in functional._IN_TORCH_ORDER:
        yield f"from tensord.nn.functional import {name} as {name}"
    yield "def mirrored() -> list[str]: ..."
    for name in functional.__all__:
        function = getattr(functional, name)
        module = getattr(function, "__module__", None) or ""
        if module == "tensord.linalg":
            yield f"from {module} import {function.__name__} as {name}"
        elif module == functional.__name__ and name not in _tensord._binary_methods:
            yield f"def {name}{inspect.signature(function)}: ..."
        elif name in _tensord._binary_methods:
            yield f"def {name}(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ..."
        else:
            yield f"{name} = Tensor.{name}"


def describe():
    parts = []
    for name, member in sorted(vars(_tensord).items()):
        if isinstance(member, type):
            parts.append("\n".join(describe_class(member)))
    parts.append("__version__: str")
    parts.append("_unary_methods: tuple[str, ...]\n_binary_methods: tuple[str, ...]")
    for name, member in sorted(vars(_tensord).items()):
        if callable(member) and not isinstance(member, type):
            parts.append(f"def {name}{signature(name, member.__doc__)}: ...")
    return HEADER + "\n\n".join(parts) + "\n"


FILES = {"_tensord.pyi": describe, "tensord/functional.pyi": lambda: "\n".join(describe_functional()) + "\n"}

if __name__ == "__main__":
    for path, text in FILES.items():
        file = FOLDER / path
        if sys.argv[1:] != ["--check"]:
            file.write_text(text())
        elif not file.exists() or file.read_text() != text():
            sys.exit(f"{file} is old: run {__file__}")
