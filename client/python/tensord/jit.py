"""Functions that run once and serve many calls: jit captures one as a program, function makes one an operation.

docs/jit.md has all rules, as a user would ask for them.
"""

from __future__ import annotations

import inspect
import threading
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import update_wrapper
from types import CodeType
from typing import Any, Generic, Optional, TypeVar, Union, cast, overload

import _tensord
from _tensord import Tensor

from tensord.autograd import custom_gradient
from tensord.autograd.anomaly import is_anomaly_check_nan_enabled
from tensord.errors import UnimplementedError
from tensord.given import Givens, constant, noting, still_hold
from tensord.structure import Leaf as _Leaf, flatten as _flatten, numpy_class, unflatten as _unflatten
from tensord.training import is_training

F = TypeVar("F", bound=Callable[..., Any])

#: From this many captures on, and at each doubling, a warning says that there are so many.
_MANY = 16
#: So many runs are kept of each kind: constants of arguments, and names.
_KEPT = 64




def _key(structure: Any) -> Any:
    """What decides, beside shapes and dtypes, whether a captured program serves these arguments."""
    if isinstance(structure, _Leaf):
        return _Leaf
    if isinstance(structure, (tuple, list)):
        return type(structure), tuple(_key(item) for item in structure)
    if isinstance(structure, dict):
        return dict, tuple((constant(key), _key(item)) for key, item in structure.items())
    return constant(structure)


def _check_results(structure: Any, name: str) -> None:
    if isinstance(structure, (tuple, list)):
        for item in structure:
            _check_results(item, name)
    elif isinstance(structure, dict):
        _check_results(list(structure.values()), name)
    elif isinstance(structure, Iterator):
        raise TypeError(f"{name}: it returned a {type(structure).__name__}, which would be used up by the first call; "
                        "return a list")


# ---- what a function's own code names from outside


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


class _Outside:
    """The numbers, strings and tensors that the code of a function names: variables of the functions around it, and
    of its module. Not what it reaches through objects, or what other functions name."""

    def __init__(self, function: Any) -> None:
        function = getattr(function, "__func__", function)
        code = getattr(function, "__code__", None)
        self._cells = list(zip(code.co_freevars, function.__closure__ or ())) if code else []
        self._globals = getattr(function, "__globals__", {})
        self._names = sorted({name for each in _codes(code) for name in each.co_names}) if code else []

    def _named(self) -> Iterator[tuple[str, Any]]:
        for name, cell in self._cells:
            try:
                yield name, cell.cell_contents
            except ValueError:  # has no value yet
                continue
        for name in self._names:
            if name in self._globals:
                yield name, self._globals[name]

    def constants(self) -> tuple[Any, ...]:
        return tuple((name, constant(value)) for name, value in self._named()
                     if value is None or type(value) in (bool, int, float, complex, str, bytes)
                     or isinstance(value, numpy_class("generic")))

    def tensors(self) -> list[Tensor]:
        return [value for _, value in self._named() if isinstance(value, Tensor)]


def _same(a: list[Tensor], b: list[Tensor]) -> bool:
    return len(a) == len(b) and all(x is y for x, y in zip(a, b))


class _Capturing(threading.local):
    """What the functions that this thread is capturing have met: others that they called."""

    def __init__(self) -> None:
        self.met: list[list[_Outside]] = []


_capturing = _Capturing()


class _Structures:
    """Of results, by the number of the run; and how many runs are about to leave theirs."""

    def __init__(self) -> None:
        self.of: dict[int, Any] = {}
        self.givens: Givens = {}  # what the runs took as given
        self.coming = 0
        self.changed = threading.Condition()

    def get(self, number: int, name: str) -> Any:
        with self.changed:
            self.changed.wait_for(lambda: number in self.of or self.coming == 0)
            if number not in self.of:
                raise RuntimeError(f"{name}: the call of another thread that was the first failed; call it again")
            return self.of[number]


class _Variant:
    """One run of a function for arguments of one structure and, in `program`, of each signature."""

    def __init__(self, program: Any, client: Any, outside: _Outside, results: _Structures) -> None:
        self.program = program
        self.client = client  # so that its identity stays that of the key
        # Of the function, and of captured functions that it called.
        self.guards = [(outside, outside.constants(), outside.tensors())]
        self.results = results

    def serves(self) -> bool:
        return (all(outside.constants() == constants for outside, constants, _ in self.guards)
                and still_hold(self.results.givens))

    def is_stale(self) -> bool:
        return not all(_same(outside.tensors(), tensors) for outside, _, tensors in self.guards)


class _Traced(Generic[F]):
    """What jit and function have in common: the function's runs, by what decides about them."""

    #: Of a run: what it makes, and how many of them are kept.
    _verb = "captured"

    def __init__(self, function: F) -> None:
        if not callable(function):
            raise TypeError(f"{type(self).__name__.lower()}: {function!r} is not a function")
        if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
            raise TypeError(f"{function.__name__}: generators and coroutines cannot be {self._verb}, because they run "
                            "again after they returned; return a list")
        self.function = function
        self._outside = _Outside(function)
        self._variants: OrderedDict[Any, list[_Variant]] = OrderedDict()
        self._runs = 0
        self._running = threading.local()
        self._of_instances: dict[int, tuple[weakref.ref[Any], Any]] = {}
        update_wrapper(self, function)

    def _program(self, run: Callable[[list[Tensor]], list[Tensor]]) -> Any:
        raise NotImplementedError

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tensors: list[Tensor] = []
        structure = _flatten((args, kwargs), tensors)
        if is_anomaly_check_nan_enabled() and not _tensord.is_capturing():
            # Derivatives are looked at one by one, which takes data.
            plain, named = _unflatten(structure, tensors)
            return self.function(*plain, **named)
        client = _tensord._current()
        key = (_key(structure), is_training(), id(client))
        try:
            variants = self._variants.setdefault(key, [])
        except TypeError as error:
            raise TypeError(
                f"{self._name}: arguments of a {self._verb} function are tensors, arrays, structures of "
                f"them, and values that can be hashed ({error})") from None
        for met in _capturing.met:
            met.append(self._outside)
        variant = next((each for each in variants if each.serves()), None)
        if variant is not None and variant.is_stale():
            variants.remove(variant)
            variant = None
        if variant is None:
            structures = _Structures()
            variant = _Variant(self._program(self._runner(structure, structures)), client, self._outside, structures)
            variants.insert(0, variant)
            del variants[_KEPT:]
        self._variants.move_to_end(key)
        if len(self._variants) > _KEPT:
            self._variants.popitem(last=False)

        # The function may run in this call, on this thread: then it leaves the structure of its results here.
        made = self._running.__dict__.setdefault("made", [])
        depth = len(made)
        number = -1
        try:
            out, number = variant.program(tensors)
            if len(made) > depth:
                results, met_inside = made[-1]
                variant.guards += [(each, each.constants(), each.tensors()) for each in met_inside
                                   if all(each is not known for known, _, _ in variant.guards)]
        finally:
            if len(made) > depth:
                with variant.results.changed:
                    variant.results.coming -= 1
                    if number > 0:
                        variant.results.of[number] = made[-1][0]
                    elif number < 0 and variant in variants:  # it may have been kept without being known here
                        variants.remove(variant)
                    variant.results.changed.notify_all()
                del made[depth:]
                if number > 0:
                    self._count()
        if number == 0:  # called by a captured function, and part of that
            return _unflatten(results, out)
        return _unflatten(variant.results.get(number, self._name), out)

    def _runner(self, structure: Any, structures: _Structures) -> Callable[[list[Tensor]], list[Tensor]]:
        # Does not refer to self, which would keep it alive by way of its programs.
        function, name, running = self.function, self._name, self._running

        def run(tensors: list[Tensor]) -> list[Tensor]:
            args, kwargs = _unflatten(structure, tensors)
            out: list[Tensor] = []
            _capturing.met.append([])
            try:
                with noting(structures.givens):
                    results = _flatten(function(*args, **kwargs), out, arrays=False)
            finally:
                met = _capturing.met.pop()
            _check_results(results, name)
            left: list[Tensor] = []
            if _key(_flatten((args, kwargs), left)) != _key(structure) or not _same(left, tensors):
                raise TypeError(f"{name}: it changes a list or dict among its arguments, which a later call would not; "
                                "return what is new")
            with structures.changed:
                structures.coming += 1
            running.made.append((results, met))
            return out

        return run

    def _count(self) -> None:
        self._runs += 1
        if self._runs >= _MANY and self._runs & (self._runs - 1) == 0:
            warnings.warn(
                f"{self._name} was {self._verb} {self._runs} times: each new shape, dtype or other argument, and each new "
                "value of a number that it names, is a program of its own. Pass numbers that change as tensors, and sizes "
                "that change as tensord.Variable", RuntimeWarning, stacklevel=3)

    @property
    def _name(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)

    def reset(self) -> None:
        """Forgets its runs, and frees the programs and what they keep."""
        self._variants.clear()
        self._of_instances.clear()

    def _of(self, function: Any) -> _Traced[Any]:
        """The same of another function."""
        return type(self)(function)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        # A decorated method: runs of its own for each object, which they do not keep alive.
        if instance is None:
            return self
        found = self._of_instances.get(id(instance))
        if found is not None and found[0]() is instance:
            return found[1]
        of_instances, number = self._of_instances, id(instance)
        try:
            weak = weakref.ref(instance, lambda _: of_instances.pop(number, None))
        except TypeError:
            raise TypeError(f"{self._name}: objects of {type(instance).__name__} cannot be referred to weakly; add "
                            "'__weakref__' to its __slots__") from None
        function = cast(Any, self.function)

        def method(*args: Any, **kwargs: Any) -> Any:
            return function.__get__(weak(), owner)(*args, **kwargs)

        bound = self._of(update_wrapper(method, function))
        bound._outside = self._outside
        self._of_instances[number] = (weak, bound)
        return bound

    def __reduce__(self) -> Any:
        # Programs belong to a connection, so only the function goes along. One that is known by its name is found by it.
        module = inspect.getmodule(self.function)
        if getattr(module, self._name, None) is self:
            return self._name
        return self._of, (self.function,)


class Jit(_Traced[F]):
    """A captured function; made by jit."""

    def _program(self, run: Callable[[list[Tensor]], list[Tensor]]) -> Any:
        return _tensord._Jit(self._name, run)

    @property
    def captures(self) -> int:
        """How often the function was captured so far."""
        return self._runs


class Function(_Traced[F]):
    """A function that is used like an operation; made by function."""

    _verb = "traced"

    def __init__(self, function: F, allow_implicit: bool = False,
                 grad_fxn: Optional[Callable[..., Any]] = None) -> None:
        super().__init__(function)
        self._allow_implicit = allow_implicit
        self._grad_fxn = grad_fxn

    def _program(self, run: Callable[[list[Tensor]], list[Tensor]]) -> Any:
        if self._grad_fxn is None:
            whole = run
        else:
            derived = custom_gradient(lambda *tensors: tuple(run(list(tensors))), self._grad_fxn)

            def whole(tensors: list[Tensor]) -> list[Tensor]:
                return list(derived(*tensors))

        return _tensord._TracedFunction(self._name, whole, self._allow_implicit)

    def _of(self, function: Any) -> Function[Any]:
        return Function(function, self._allow_implicit, self._grad_fxn)

    @property
    def traces(self) -> int:
        """How often the function was traced so far."""
        return self._runs


@overload
def jit(function: F) -> F: ...
@overload
def jit(function: None = None) -> Callable[[F], F]: ...
def jit(function: Optional[F] = None) -> Union[F, Callable[[F], F]]:
    """Captures the function at its first call as one program; later calls only name their inputs.

    A call does what the function would do. Tensors among the arguments (also in tuples, lists, dicts; arrays too) are
    inputs; other arguments are constants, and another value of one is another program, as is another shape or dtype.
    Tensors that the function uses from outside are read as they are at each call; those that it assigns, arguments too,
    are updated by each call; gradients that it leaves are left. Random numbers are drawn anew. The Python code itself
    runs only while it is captured, so it must not depend on data: reading some is an error there. docs/jit.md has the
    rules.
    """
    if function is None:
        return jit
    return cast(F, Jit(function))


@overload
def TinyJit(fxn: F, *, prune: bool = False) -> F: ...
@overload
def TinyJit(fxn: None = None, *, prune: bool = False) -> Callable[[F], F]: ...
def TinyJit(fxn: Optional[F] = None, *, prune: bool = False) -> Union[F, Callable[[F], F]]:
    """jit by tinygrad's name. As there, tensors among the arguments are inputs and reading data inside is an error.

    What differs: the first call captures already; another shape, dtype or argument is another program, and no error; the
    same tensor may be given twice; results are new at each call, and may be anything that jit returns; a captured function
    may call another one. UnimplementedError for `prune`: what does not depend on the arguments is better computed outside.
    """
    if prune:
        raise UnimplementedError("TinyJit: prune is not offered; compute what does not depend on the arguments outside of "
                                 "the function, realize() it, and let the function use it")
    return jit(fxn)


@overload
def function(fxn: F, *, precompile: bool = False, precompile_backward: bool = False, allow_implicit: bool = False,
             grad_fxn: Optional[Callable[..., Any]] = None) -> F: ...
@overload
def function(fxn: None = None, *, precompile: bool = False, precompile_backward: bool = False,
             allow_implicit: bool = False, grad_fxn: Optional[Callable[..., Any]] = None) -> Callable[[F], F]: ...
def function(fxn: Optional[F] = None, *, precompile: bool = False, precompile_backward: bool = False,
             allow_implicit: bool = False,
             grad_fxn: Optional[Callable[..., Any]] = None) -> Union[F, Callable[[F], F]]:
    """Traces the function once for each signature; calls give lazy tensors, as if it ran each time, with derivatives.

    For parts that are repeated, such as the layers of a network: they are built once in Python, wherever they are called,
    also inside of jit. The function has no effects: it assigns nothing and leaves no gradients; random numbers are drawn
    anew by each call. Tensors that are not among its arguments are an error unless `allow_implicit`; then each call reads
    them as they are. `grad_fxn(*grads, inputs, outputs)` is its derivative instead of the one that follows from the
    operations, see tensord.custom_gradient. tinygrad's `precompile` and `precompile_backward` are taken and change nothing:
    the daemon schedules and compiles what it is sent, a program at a time.
    """
    if fxn is None:
        return lambda given: function(given, allow_implicit=allow_implicit, grad_fxn=grad_fxn)
    return cast(F, Function(fxn, allow_implicit, grad_fxn))
