"""Reads pickles without running them.

A pickle is a program for a small stack machine that may call whatever Python can import. This machine knows the opcodes
that data needs, and calls functions of a table only, which the caller gives. A class that the table lacks becomes an
inert Dummy if an object is made of it without calling it; all else is an error. Python's own modules are never looked
up: `os.system` is refused where it is named.

Work and memory are in proportion to the pickle's bytes: there is no recursion, the memo is a dict, and keys of dicts
are plain values, so that hashing one takes no longer than reading it did.
"""

from __future__ import annotations

import pickletools
import sys
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, Optional, cast

from tensord.errors import UnimplementedError
from tensord.io.checked import invalid, parsing, short

#: A single string, number or the like.
MAX_ARGUMENT_BYTES = 1 << 28

# Classes of Python's own library of which objects may be inert dummies.
_HARMLESS = {"argparse.Namespace"}


class Dummy:
    """An object of a class that is not there: its arguments and its state, as they were in the file."""

    def __init__(self, name: str, arguments: tuple[Any, ...] = ()) -> None:
        self.class_name = name
        self.arguments = arguments
        self.state: Any = None

    def __repr__(self) -> str:
        return f"Dummy({self.class_name})"


class Global:
    """A name that the pickle imports: a function of the table, or of a class that is not there."""

    def __init__(self, name: str, function: Optional[Callable[..., Any]]) -> None:
        self.name, self.function = name, function

    def __repr__(self) -> str:
        return self.name


class BoundedReader:
    """Of a file, from where it stands: no read is larger than what is left or than an argument may be."""

    def __init__(self, file: BinaryIO, path: str) -> None:
        self._file, self._path = file, path

    def read(self, count: int) -> bytes:
        if count > MAX_ARGUMENT_BYTES:
            raise invalid(self._path, f"its pickle has a value of {count} bytes; {MAX_ARGUMENT_BYTES} are allowed")
        return self._file.read(count)

    def readline(self) -> bytes:
        return self._file.readline(MAX_ARGUMENT_BYTES)

    def tell(self) -> int:
        return self._file.tell()


_MARK = object()
_Persistent = Callable[[Any], Any]


def unpickle(file: BinaryIO, path: str, table: Mapping[str, Any], persistent: _Persistent) -> Any:
    """The next pickle of the file. `table`: "module.name" to a function that REDUCE may call, or to a value that is no
    function. `persistent`: from persistent ids to objects."""
    machine = _Machine(path, table, persistent)
    with parsing(path):  # of genops, and of steps that find on the stack what they cannot use
        for opcode, argument, _ in pickletools.genops(cast(BinaryIO, BoundedReader(file, path))):
            step = _STEPS.get(opcode.name)
            if step is None:
                raise invalid(path, f"its pickle has the opcode {opcode.name}, which data does not need")
            step(machine, argument)
        if len(machine.stack) != 1:
            raise invalid(path, f"its pickle leaves {len(machine.stack)} values instead of one")
        return machine.pop()


class _Machine:
    def __init__(self, path: str, table: Mapping[str, Any], persistent: _Persistent) -> None:
        self.path, self.table, self.persistent = path, table, persistent
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def at_top(self) -> Any:
        if not self.stack or self.stack[-1] is _MARK:
            raise invalid(self.path, "its pickle takes a value where there is none")
        return self.stack[-1]

    def pop(self) -> Any:
        self.at_top()
        return self.stack.pop()

    def pop_to_mark(self) -> list[Any]:
        at = len(self.stack)
        while at and self.stack[at - 1] is not _MARK:
            at -= 1
        if not at:
            raise invalid(self.path, "its pickle needs a mark where there is none")
        values = self.stack[at:]
        del self.stack[at - 1 :]
        return values

    def top(self, kind: Any) -> Any:
        if not self.stack or not isinstance(self.stack[-1], kind):
            raise invalid(self.path, "its pickle fills something that is no list, set or dict")
        return self.stack[-1]

    def load_global(self, module: Any, name: Any) -> None:
        full = f"{module}.{name}"
        if full in self.table:
            value = self.table[full]
            self.push(Global(full, value) if callable(value) else value)
            return
        root = str(module).partition(".")[0]
        if (root in sys.stdlib_module_names or root == "__builtin__") and full not in _HARMLESS:
            raise invalid(
                self.path, f"its pickle names {short(full)}, which no file of tensors needs; it was not looked up"
            )
        self.push(Global(full, None))

    def call(self, function: Any, arguments: Any) -> None:
        """REDUCE."""
        if not isinstance(function, Global) or not isinstance(arguments, tuple):
            raise invalid(self.path, "its pickle calls something that is no function")
        if function.function is None:
            raise invalid(self.path, f"its pickle calls {short(function.name)}, which is not among the "
                                     "functions that files of tensors need; save a state_dict")  # fmt: skip
        self.push(function.function(*arguments))

    def instance(self, cls: Any, arguments: tuple[Any, ...]) -> None:
        """NEWOBJ and its relatives: nothing is called unless the table has it."""
        if not isinstance(cls, Global):
            raise invalid(self.path, "its pickle makes an object of something that is no class")
        self.push(cls.function(*arguments) if cls.function else Dummy(cls.name, arguments))

    def build(self, state: Any) -> None:
        target: Any = self.at_top()
        if isinstance(target, Dummy):
            target.state = state
        elif hasattr(target, "pickled_state"):  # an object of the caller's table
            target.pickled_state(state)
        elif not isinstance(target, (dict, list, set)):  # attributes of containers are of no interest
            raise invalid(self.path, f"its pickle sets the state of {short(type(target).__name__)}")

    def set_items(self, pairs: list[Any]) -> None:
        target = self.top(dict)
        if len(pairs) % 2:
            raise invalid(self.path, "its pickle has a key without a value")
        for key, value in zip(pairs[::2], pairs[1::2]):
            target[self.key(key)] = value

    def key(self, key: Any) -> Any:
        parts = key if type(key) is tuple else (key,)
        if not all(part is None or type(part) in (str, int, float, bool, bytes) for part in parts):
            raise invalid(
                self.path, f"its pickle has a key of type {type(key).__name__}; strings and numbers are expected"
            )
        return key

    def get(self, index: int) -> None:
        if index not in self.memo:
            raise invalid(self.path, f"its pickle reads memo {index}, which was not written")
        self.push(self.memo[index])

    def put(self, index: int) -> None:
        self.memo[index] = self.at_top()


def ordered_dict(pairs: Any = ()) -> OrderedDict[Any, Any]:
    """For tables: the only call of it that pickles make. Its items follow by SETITEMS."""
    if pairs:
        raise UnimplementedError("a pickle of an OrderedDict by its items, as Python 2 wrote it")
    return OrderedDict()


def _nothing(machine: _Machine, argument: Any) -> None:
    pass


def _value(machine: _Machine, argument: Any) -> None:
    machine.push(argument)


def _constant(value: Any) -> Callable[[_Machine, Any], None]:
    return lambda machine, _: machine.push(value)


def _tuple(count: int) -> Callable[[_Machine, Any], None]:
    def step(machine: _Machine, _: Any) -> None:
        machine.push(tuple([machine.pop() for _ in range(count)][::-1]))

    return step


def _append(machine: _Machine, _: Any) -> None:
    value = machine.pop()
    machine.top(list).append(value)


def _appends(machine: _Machine, _: Any) -> None:
    values = machine.pop_to_mark()
    machine.top(list).extend(values)


def _dict(machine: _Machine, _: Any) -> None:
    pairs = machine.pop_to_mark()
    machine.push({})
    machine.set_items(pairs)


def _set_item(machine: _Machine, _: Any) -> None:
    value, key = machine.pop(), machine.pop()
    machine.set_items([key, value])


def _add_items(machine: _Machine, _: Any) -> None:
    values = machine.pop_to_mark()
    machine.top(set).update(machine.key(value) for value in values)


def _pop(machine: _Machine, _: Any) -> None:
    if not machine.stack:
        raise invalid(machine.path, "its pickle takes a value where there is none")
    machine.stack.pop()


def _pop_mark(machine: _Machine, _: Any) -> None:
    machine.pop_to_mark()


def _stack_global(machine: _Machine, _: Any) -> None:
    name, module = machine.pop(), machine.pop()
    machine.load_global(module, name)


def _reduce(machine: _Machine, _: Any) -> None:
    arguments, function = machine.pop(), machine.pop()
    machine.call(function, arguments)


def _new_object(machine: _Machine, _: Any) -> None:
    arguments, cls = machine.pop(), machine.pop()
    if not isinstance(arguments, tuple):
        raise invalid(machine.path, "its pickle makes an object without a tuple of arguments")
    machine.instance(cls, arguments)


def _new_object_ex(machine: _Machine, _: Any) -> None:
    keywords, arguments, cls = machine.pop(), machine.pop(), machine.pop()
    machine.instance(cls, (*arguments, keywords) if keywords else tuple(arguments))


def _inst(machine: _Machine, name: str) -> None:
    arguments = tuple(machine.pop_to_mark())
    machine.load_global(*name.split(" ", 1))
    machine.instance(machine.pop(), arguments)


def _obj(machine: _Machine, _: Any) -> None:
    cls, *arguments = machine.pop_to_mark()
    machine.instance(cls, tuple(arguments))


def _build(machine: _Machine, _: Any) -> None:
    machine.build(machine.pop())


_STEPS: dict[str, Callable[[_Machine, Any], None]] = {
    **dict.fromkeys(("PROTO", "FRAME", "STOP"), _nothing),
    **dict.fromkeys((
        "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "STRING", "BINSTRING",
        "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8", "UNICODE", "SHORT_BINUNICODE",
        "BINUNICODE", "BINUNICODE8",
    ), _value),
    "NONE": _constant(None), "NEWTRUE": _constant(True), "NEWFALSE": _constant(False), "MARK": _constant(_MARK),
    "EMPTY_TUPLE": _constant(()), "TUPLE1": _tuple(1), "TUPLE2": _tuple(2), "TUPLE3": _tuple(3),
    "TUPLE": lambda machine, _: machine.push(tuple(machine.pop_to_mark())),
    "EMPTY_LIST": lambda machine, _: machine.push([]),
    "LIST": lambda machine, _: machine.push(machine.pop_to_mark()),
    "APPEND": _append, "APPENDS": _appends,
    "EMPTY_DICT": lambda machine, _: machine.push({}), "DICT": _dict, "SETITEM": _set_item,
    "SETITEMS": lambda machine, _: machine.set_items(machine.pop_to_mark()),
    "EMPTY_SET": lambda machine, _: machine.push(set()), "ADDITEMS": _add_items,
    "FROZENSET": lambda machine, _: machine.push(frozenset(map(machine.key, machine.pop_to_mark()))),
    "POP": _pop, "POP_MARK": _pop_mark,
    "DUP": lambda machine, _: machine.push(machine.at_top()),
    "GET": lambda machine, index: machine.get(index), "BINGET": lambda machine, index: machine.get(index),
    "LONG_BINGET": lambda machine, index: machine.get(index),
    "PUT": lambda machine, index: machine.put(index), "BINPUT": lambda machine, index: machine.put(index),
    "LONG_BINPUT": lambda machine, index: machine.put(index),
    "MEMOIZE": lambda machine, _: machine.put(len(machine.memo)),
    "GLOBAL": lambda machine, name: machine.load_global(*name.split(" ", 1)), "STACK_GLOBAL": _stack_global,
    "REDUCE": _reduce, "NEWOBJ": _new_object, "NEWOBJ_EX": _new_object_ex, "INST": _inst, "OBJ": _obj, "BUILD": _build,
    "PERSID": lambda machine, name: machine.push(machine.persistent(name)),
    "BINPERSID": lambda machine, _: machine.push(machine.persistent(machine.pop())),
}  # fmt: skip

__all__ = ["Dummy", "Global", "unpickle"]
