"""Module: a layer that knows its parameters, buffers and parts.

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden, self.out = nn.Linear(4, 8), nn.Linear(8, 2)

        def forward(self, x):
            return self.out(self.hidden(x).relu())

An attribute that is a Parameter is a parameter, one that is a Module is a part, and one that register_buffer made is a
buffer; names and order are those of PyTorch, so its state dicts load unchanged. nn.state goes further: it finds tensors
in plain objects, lists and dicts as well.

Training or not: `module.training` is what train() or eval() last said for this module. Where neither was called it
follows `with tensord.training()`, and so it is False outside of that. train(None) follows again.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Optional, TypeVar

import _tensord
from _tensord import DType, Tensor, is_grad_enabled, realize

from tensord.dtypes import DTypeLike, dtype as as_dtype
from tensord.errors import InvalidArgumentError
from tensord.given import given
from tensord.autograd.hooks import GroupHook, RemovableHandle
from tensord.nn.parameter import Buffer, Parameter
from tensord.training import is_training

# Attributes that are this class's own.
INTERNAL = frozenset(("_mode", "_buffer_names", "_pre_hooks", "_hooks", "_backward_pre_hooks", "_backward_hooks"))

M = TypeVar("M", bound="Module")
T = TypeVar("T")


class IncompatibleKeys(NamedTuple):
    """What load_state_dict found on one side only."""

    missing_keys: list[str]
    unexpected_keys: list[str]


def _converted(tensor: Tensor, device: Optional[str], dtype: Optional[DType]) -> Tensor:
    """The tensor on that device and, if it has floats, of that dtype; itself if it is so."""
    moved = source = tensor.detach()
    if device is not None and tensor.device != device:
        moved = moved.to(device=device)
    if dtype is not None and tensor.dtype.is_floating_point and tensor.dtype != dtype:
        moved = moved.cast(dtype)
    if moved is source:
        return tensor
    moved = moved.realize()
    return Parameter(moved, tensor.requires_grad) if isinstance(tensor, Parameter) else moved


class Module:
    """What layers are made of; a subclass has forward(), which a call of the module runs."""

    # Of the class, so that a module works whether or not its __init__ calls this one's.
    _mode: Optional[bool] = None  # what train() or eval() said

    def __init__(self) -> None:
        pass

    # ---- attributes

    @property
    def _buffers(self) -> dict[str, bool]:
        """The names of the buffers, and whether each is part of the state."""
        found: dict[str, bool] = self.__dict__.setdefault("_buffer_names", {})
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(self.__dict__.get(name), Parameter) and not isinstance(value, (Parameter, type(None))):
            raise TypeError(f"{self._path(name)} is a parameter: assign a Parameter or None, not a "
                            f"{type(value).__name__}; tensor.assign changes its data")
        if isinstance(value, Buffer) and name not in self._buffers:
            self.register_buffer(name, value, value.persistent)
            return
        if name in self._buffers and not isinstance(value, (Tensor, type(None))):
            raise TypeError(f"{self._path(name)} is a buffer: assign a Tensor or None, not a {type(value).__name__}")
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        self._buffers.pop(name, None)

    def _path(self, name: str) -> str:
        return f"{type(self).__name__}.{name}"

    def _checked_name(self, name: str) -> str:
        if not isinstance(name, str):
            raise TypeError(f"{type(self).__name__}: a name is a string, not {name!r}")
        if not name or "." in name:
            raise KeyError(f"{type(self).__name__}: the name '{name}' is empty or has a dot")
        replaceable = isinstance(self.__dict__.get(name, self), (Tensor, type(None))) or name in dict(self._own("module"))
        if hasattr(self, name) and not replaceable:
            raise KeyError(f"{type(self).__name__} has an attribute '{name}' already")
        return name

    def register_buffer(self, name: str, tensor: Optional[Tensor], persistent: bool = True) -> None:
        """A tensor that belongs to the module and isn't learned. Only a persistent one is part of the state."""
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"{self._path(name)}: a buffer is a Tensor or None, not a {type(tensor).__name__}")
        object.__setattr__(self, self._checked_name(name), tensor)
        self._buffers[name] = persistent

    def register_parameter(self, name: str, param: Optional[Parameter]) -> None:
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(f"{self._path(name)}: a parameter is a Parameter or None, not a {type(param).__name__}")
        setattr(self, self._checked_name(name), param)

    def add_module(self, name: str, module: Optional[Module]) -> None:
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{self._path(name)}: a part is a Module or None, not a {type(module).__name__}")
        setattr(self, self._checked_name(name), module)

    register_module = add_module

    def _own(self, kind: str) -> Iterator[tuple[str, Any]]:
        """Its own attributes of a kind."""
        buffers = self._buffers
        for name, value in list(vars(self).items()):
            is_kind = (isinstance(value, Module) if kind == "module" else
                       isinstance(value, Parameter) if kind == "parameter" else
                       isinstance(value, Tensor) and name in buffers and (kind == "buffer" or buffers[name]))
            if is_kind:
                yield name, value

    def _named(self, kind: str, prefix: str, recurse: bool, remove_duplicate: bool = True) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        for path, module in self.named_modules(prefix=prefix) if recurse else [(prefix, self)]:
            for name, value in module._own(kind):
                if not remove_duplicate or id(value) not in seen:
                    seen.add(id(value))
                    yield f"{path}.{name}" if path else name, value

    def named_parameters(self, prefix: str = "", recurse: bool = True,
                         remove_duplicate: bool = True) -> Iterator[tuple[str, Parameter]]:
        """Parameters by path; one that stands at several paths is given once."""
        return self._named("parameter", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(self, prefix: str = "", recurse: bool = True,
                      remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]:
        return self._named("buffer", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_children(self) -> Iterator[tuple[str, Module]]:
        seen: set[int] = set()
        for name, module in self._own("module"):
            if id(module) not in seen:
                seen.add(id(module))
                yield name, module

    def children(self) -> Iterator[Module]:
        for _, module in self.named_children():
            yield module

    def named_modules(self, memo: Optional[set[int]] = None, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """The module itself and all its parts, each once."""
        memo = set() if memo is None else memo
        if id(self) in memo:
            return
        memo.add(id(self))
        yield prefix, self
        for name, module in self._own("module"):
            yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name)

    def modules(self) -> Iterator[Module]:
        for _, module in self.named_modules():
            yield module

    def _get(self, target: str, kind: type[T]) -> T:
        found: Any = self
        for name in target.split(".") if target else ():
            if not hasattr(found, name):
                raise AttributeError(f"{type(found).__name__} has no '{name}' of '{target}'")
            found = getattr(found, name)
        if not isinstance(found, kind):
            raise AttributeError(f"'{target}' of {type(self).__name__} is no {kind.__name__}")
        return found

    def get_submodule(self, target: str) -> Module:
        """The part at a path such as "layers.0"."""
        return self._get(target, Module)

    def get_parameter(self, target: str) -> Parameter:
        return self._get(target, Parameter)

    def get_buffer(self, target: str) -> Tensor:
        return self._get(target, Tensor)

    # ---- state

    def state_dict(self, *, prefix: str = "") -> dict[str, Tensor]:
        """Parameters and persistent buffers by path. The tensors are the module's own, not copies."""
        return dict(self._entries(prefix))

    def _entries(self, prefix: str) -> Iterator[tuple[str, Tensor]]:
        for kind in ("parameter", "persistent"):
            for name, tensor in self._own(kind):
                yield prefix + name, tensor
        for name, module in self._own("module"):
            yield from module._entries(f"{prefix}{name}.")

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True,
                        assign: bool = False) -> IncompatibleKeys:
        """Takes the data of tensors or arrays by path, cast to the dtypes that are here; with `assign` in theirs, as
        new tensors. `strict`: the names must be the same on both sides. InvalidArgumentError says all that is wrong.
        """
        own = self.state_dict()
        missing = [name for name in own if name not in state_dict]
        unexpected = [name for name in state_dict if name not in own]
        wrong = [f"missing: {missing}"] * (strict and bool(missing))
        wrong += [f"unexpected: {unexpected}"] * (strict and bool(unexpected))
        values = {name: _as_tensor(state_dict[name]) for name in own if name in state_dict}
        wrong += [f"'{name}' has shape {list(own[name].shape)}, the new one {list(value.shape)}"
                  for name, value in values.items() if tuple(value.shape) != tuple(own[name].shape)]
        if wrong:
            raise InvalidArgumentError(f"{type(self).__name__}.load_state_dict: " + "; ".join(wrong))
        for name, value in values.items():
            if assign:
                self._replace(name, own[name], value)
            else:
                own[name].assign(value.detach().cast(own[name].dtype))
        realize(list(self.state_dict().values()))
        return IncompatibleKeys(missing, unexpected)

    def _replace(self, path: str, old: Tensor, value: Tensor) -> None:
        parent, _, name = path.rpartition(".")
        new = Parameter(value.detach(), old.requires_grad) if isinstance(old, Parameter) else value
        setattr(self.get_submodule(parent), name, new)

    # ---- all parts at once

    def apply(self: M, fn: Callable[[Module], Any]) -> M:
        """Calls fn with each part and then with the module itself."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    @property
    def training(self) -> bool:
        """Whether it behaves as in training."""
        mode: Optional[bool] = given(self, "training", lambda: self._mode)
        return is_training() if mode is None else mode

    @training.setter
    def training(self, mode: Optional[bool]) -> None:
        self._mode = mode

    def train(self: M, mode: Optional[bool] = True) -> M:
        """Training or not from now on, with all parts, whatever `with tensord.training()` says; None follows that."""
        if mode not in (True, False, None):
            raise InvalidArgumentError(f"train: the mode is True, False or None, not {mode!r}")
        for module in self.modules():
            module._mode = mode
        return self

    def eval(self: M) -> M:
        return self.train(False)

    def requires_grad_(self: M, requires_grad: bool = True) -> M:
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the gradients; with set_to_none=False makes them zeros."""
        for parameter in self.parameters():
            parameter.grad = None if set_to_none or parameter.grad is None else parameter.grad * 0

    def to(self: M, *args: Any, device: Optional[str] = None, dtype: Optional[DTypeLike] = None,
           non_blocking: bool = False) -> M:
        """Parameters and buffers on another device, those of floats in another dtype: to(device), to(dtype),
        to(device, dtype), to(tensor) for its dtype.

        What changes is another tensor then, so optimisers are made afterwards. Tied weights stay tied.
        """
        for arg in args:
            if isinstance(arg, Tensor):
                dtype = arg.dtype
            elif isinstance(arg, str) and not _is_dtype(arg):
                device = arg
            elif not isinstance(arg, bool):  # PyTorch's non_blocking
                dtype = arg
        target = None if dtype is None else as_dtype(dtype)
        if target is not None and not target.is_floating_point:
            raise TypeError(f"{type(self).__name__}.to: {target} is no floating dtype")
        converted: dict[int, Tensor] = {}  # so that tied weights stay so; == compares elements
        for module in self.modules():
            for name, tensor in [*module._own("parameter"), *module._own("buffer")]:
                made = converted.get(hash(tensor))
                if made is None:
                    made = converted[hash(tensor)] = _converted(tensor, device, target)
                if made is not tensor:
                    object.__setattr__(module, name, made)
        return self

    def float(self: M) -> M:
        return self.to("float32")

    def double(self: M) -> M:
        return self.to("float64")

    def half(self: M) -> M:
        return self.to("float16")

    def bfloat16(self: M) -> M:
        return self.to("bfloat16")

    def type(self: M, dst_type: DTypeLike) -> M:
        return self.to(dtype=dst_type)

    def cpu(self: M) -> M:
        """The module itself: data lies with the daemon, on its device."""
        return self

    # ---- calls

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no forward()")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for hook, with_kwargs in tuple(self.__dict__.get("_pre_hooks", ())):
            if with_kwargs:
                both = hook(self, args, kwargs)
                args, kwargs = (args, kwargs) if both is None else both
                continue
            changed = hook(self, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
        backward = _BackwardHooks(self) if self.__dict__.get("_backward_pre_hooks") or self.__dict__.get(
            "_backward_hooks") else None
        if backward:
            args = backward.inputs(args)
        called: list[_ForwardHook] = []
        result: Any = None
        try:
            result = self.forward(*args, **kwargs)
            for each in tuple(self.__dict__.get("_hooks", ())):
                called.append(each)
                changed = each(self, args, kwargs, result)
                result = result if changed is None else changed
        except Exception:
            for each in tuple(self.__dict__.get("_hooks", ())):
                if each.always_call and each not in called:
                    each.after_error(self, args, kwargs, result)
            raise
        return backward.outputs(result) if backward else result

    def register_forward_pre_hook(self, hook: Callable[..., Any], *, prepend: bool = False,
                                  with_kwargs: bool = False) -> RemovableHandle:
        """hook(module, args) before each forward(); what it returns, if not None, is taken for the arguments. With
        `with_kwargs` hook(module, args, kwargs), which returns both or None.
        """
        return self._hooked("_pre_hooks", (hook, with_kwargs), prepend)

    def register_forward_hook(self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False,
                              always_call: bool = False) -> RemovableHandle:
        """hook(module, args, result) after each forward(); what it returns, if not None, is taken for the result. With
        `with_kwargs` hook(module, args, kwargs, result). With `always_call` also when forward(), or a hook before it, has
        raised an error, with the result so far or None; what it returns changes nothing then, and an error of its own is
        a warning.
        """
        return self._hooked("_hooks", _ForwardHook(hook, with_kwargs, always_call), prepend)

    def register_full_backward_pre_hook(self, hook: Callable[[Any, tuple[Optional[Tensor], ...]], Any],
                                        prepend: bool = False) -> RemovableHandle:
        """hook(module, grad_output) when the derivatives by the results are made; what it returns, if not None, is taken
        instead: as many, or one tensor.
        """
        return self._hooked("_backward_pre_hooks", hook, prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """hook(module, grad_input, grad_output) when the derivatives by the positional arguments are made, None for
        those that require none; what it returns, if not None, is taken instead of grad_input.
        """
        return self._hooked("_backward_hooks", hook, prepend)

    def _hooked(self, kind: str, hook: Any, prepend: bool) -> RemovableHandle:
        hooks: list[Any] = self.__dict__.setdefault(kind, [])
        hooks.insert(0 if prepend else len(hooks), hook)
        return RemovableHandle((hooks, hook))

    # ---- text

    def extra_repr(self) -> str:
        """What stands between the brackets, besides the parts."""
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        parts = [f"({name}): {_indented(repr(part))}" for name, part in self._shown()]
        if not parts and len(lines) <= 1:
            return f"{self._get_name()}({extra})"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines + parts) + "\n)"

    def _shown(self) -> Iterator[tuple[str, Any]]:
        return self._own("module")


class _ForwardHook:
    """What is to be called after forward()."""

    def __init__(self, call: Callable[..., Any], with_kwargs: bool, always_call: bool) -> None:
        self._call, self._with_kwargs, self.always_call = call, with_kwargs, always_call

    def __call__(self, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
        return self._call(module, args, kwargs, result) if self._with_kwargs else self._call(module, args, result)

    def after_error(self, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        try:
            self(module, args, kwargs, result)
        except Exception as error:
            warnings.warn(f"a forward hook with always_call raised an error, which is ignored because {type(module).__name__} "
                          f"raised one before: {error}", stacklevel=3)


class _BackwardHooks:
    """Those of one call of a module: its arguments and results become values of their own, whose derivatives are seen."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._grad_output: tuple[Optional[Tensor], ...] = ()
        self._places: list[int] = []  # of the arguments that require a gradient
        self._arguments = 0

    def inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        self._arguments = len(args)
        changed = list(args)
        for i, arg in enumerate(args):
            if is_grad_enabled() and isinstance(arg, Tensor) and arg.requires_grad:
                changed[i] = _tensord._independent(arg)
                self._places.append(i)
        if self._places:
            GroupHook([changed[i] for i in self._places], self._before)
        return tuple(changed)

    def outputs(self, result: Any) -> Any:
        several = isinstance(result, (tuple, list))
        values = list(result) if several else [result]
        places = [i for i, value in enumerate(values) if isinstance(value, Tensor) and value.requires_grad]
        for i in places:
            values[i] = _tensord._independent(values[i])
        if places:
            GroupHook([values[i] for i in places], lambda gradients: self._after(gradients, places, len(values)))
        if not several:
            return values[0]
        if hasattr(result, "_fields"):
            return type(result)(*values)
        return type(result)(values)

    def _after(self, gradients: list[Optional[Tensor]], places: list[int], count: int) -> list[Optional[Tensor]]:
        all_of_them: list[Optional[Tensor]] = [None] * count
        for i, gradient in zip(places, gradients):
            all_of_them[i] = gradient
        self._grad_output = _replaced(tuple(all_of_them), tuple(self._module.__dict__.get("_backward_pre_hooks", ())),
                                      lambda hook, grads: hook(self._module, grads))
        if not self._places:
            self._before([])
        return [self._grad_output[i] for i in places]

    def _before(self, gradients: list[Optional[Tensor]]) -> list[Optional[Tensor]]:
        grad_input: list[Optional[Tensor]] = [None] * self._arguments
        for i, gradient in zip(self._places, gradients):
            grad_input[i] = gradient
        made = _replaced(tuple(grad_input), tuple(self._module.__dict__.get("_backward_hooks", ())),
                         lambda hook, grads: hook(self._module, grads, self._grad_output))
        return [made[i] for i in self._places]


def _replaced(gradients: tuple[Optional[Tensor], ...], hooks: tuple[Any, ...],
              call: Callable[[Any, tuple[Optional[Tensor], ...]], Any]) -> tuple[Optional[Tensor], ...]:
    for hook in hooks:
        changed = call(hook, gradients)
        if changed is None:
            continue
        changed = tuple(changed) if isinstance(changed, (tuple, list)) else (changed,)
        if len(changed) != len(gradients):
            raise InvalidArgumentError(f"a backward hook returned {len(changed)} gradients instead of {len(gradients)}")
        gradients = changed
    return gradients


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ")


def _is_dtype(name: str) -> bool:
    try:
        as_dtype(name)
    except (TypeError, ValueError):
        return False
    return True


def _as_tensor(value: Any) -> Tensor:
    if isinstance(value, Tensor):
        return value
    # PyTorch's, which may be learned, without importing it.
    return Tensor(value.detach() if hasattr(value, "detach") else value)
