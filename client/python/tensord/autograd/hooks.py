"""What users want to be told of derivatives: hooks on tensors, and the way back with them.

A hook belongs to a version of a tensor: what is assigned in place later has none, except that those of a leaf stay with
it. Hooks are called where the derivative is made, which is in backward() or gradient(); the gradients that they get are
tensors like others, computed when they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Optional

import _tensord
from _tensord import Tensor

from tensord.errors import FailedPreconditionError, InvalidArgumentError

Hook = Callable[[Tensor], Optional[Tensor]]


class RemovableHandle:
    """Of a hook: remove() takes it away. As a context manager it does so at the end."""

    def __init__(self, *places: tuple[list[Any], Any]) -> None:
        self._places = places  # lists, and what stands in each

    def remove(self) -> None:
        for hooks, hook in self._places:
            if hook in hooks:
                hooks.remove(hook)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


class GradFn:
    """What a tensor that is no leaf was made by, for people to read."""

    def __init__(self, name: str) -> None:
        self._name = name

    def name(self) -> str:
        return self._name

    def __repr__(self) -> str:
        return f"<{self._name}>"


class _OnGradient:
    """Of one tensor."""

    def __init__(self, call: Hook) -> None:
        self.call = call


class _AfterAccumulation:
    def __init__(self, call: Callable[[Tensor], None]) -> None:
        self.call = call


class GroupHook:
    """Of several tensors, none of which is made of another: called once with the gradients of all, None for those that
    have none; it may return as many, which are taken instead.
    """

    def __init__(self, tensors: Sequence[Tensor],
                 call: Callable[[list[Optional[Tensor]]], Optional[Sequence[Optional[Tensor]]]]) -> None:
        self.call, self.count = call, len(tensors)
        self._members = [(_hooks_of(tensor), _Member(self, place)) for place, tensor in enumerate(tensors)]
        for hooks, member in self._members:
            hooks.append(member)

    def handle(self) -> RemovableHandle:
        return RemovableHandle(*self._members)


class _Member:
    def __init__(self, group: GroupHook, place: int) -> None:
        self.group, self.place = group, place


def _hooks_of(tensor: Tensor) -> list[Any]:
    hooks = _tensord._hooks(tensor)
    if hooks is None:
        hooks = []
        _tensord._set_hooks(tensor, hooks)
    found: list[Any] = hooks
    return found


def _registered(tensor: Tensor, hook: Any) -> RemovableHandle:
    hooks = _hooks_of(tensor)
    hooks.append(hook)
    return RemovableHandle((hooks, hook))


def register_hook(tensor: Tensor, hook: Hook) -> RemovableHandle:
    """See Tensor.register_hook."""
    if not tensor.requires_grad:
        raise FailedPreconditionError("register_hook: the tensor does not require a gradient")
    return _registered(tensor, _OnGradient(hook))


def register_post_accumulate_grad_hook(tensor: Tensor, hook: Callable[[Tensor], None]) -> RemovableHandle:
    """See Tensor.register_post_accumulate_grad_hook."""
    if not tensor.requires_grad or not tensor.is_leaf:
        raise FailedPreconditionError("register_post_accumulate_grad_hook: only a leaf that requires a gradient has "
                                      "one that is accumulated")
    return _registered(tensor, _AfterAccumulation(hook))


class _Way:
    """From a loss down to some tensors, past the hooks on the way, those nearest to the loss first."""

    def __init__(self, loss: Tensor, targets: Sequence[Tensor], seed: Optional[Tensor]) -> None:
        self.loss, self.seed = loss, seed
        self.given: list[tuple[Tensor, Tensor]] = []  # where a hook said another gradient
        self.hooked = _tensord._on_the_way(loss, True)
        self.done: set[int] = set()
        wanted = {_tensord._version(target) for target in targets}
        for value in self.hooked:
            if wanted & self._below(value):
                self._pass(value)

    def gradients(self, targets: Sequence[Tensor]) -> list[Tensor]:
        return _tensord._gradients(self.loss, list(targets), self.seed, self.given)

    @staticmethod
    def _below(value: Tensor) -> set[int]:
        return {_tensord._version(below) for below in _tensord._on_the_way(value, False)}

    def _pass(self, value: Tensor) -> None:
        version = _tensord._version(value)
        if version in self.done:
            return
        self.done.add(version)
        hooks = list(_tensord._hooks(value))
        for hook in hooks:
            if isinstance(hook, _Member):
                self._pass_group(hook.group)
        mine = [hook for hook in hooks if isinstance(hook, _OnGradient)]
        if not mine:
            return
        gradient = first = self.gradients([value])[0]
        for hook in mine:
            changed = hook.call(gradient)
            if changed is not None:
                gradient = _fitting(changed, value)
        if gradient is not first:
            self.given = [entry for entry in self.given if _tensord._version(entry[0]) != version]
            self.given.append((value, gradient))

    def _pass_group(self, group: GroupHook) -> None:
        members: list[Optional[Tensor]] = [None] * group.count
        for value in self.hooked:
            for hook in _tensord._hooks(value):
                if isinstance(hook, _Member) and hook.group is group:
                    members[hook.place] = value
        found = [member for member in members if member is not None]
        if id(group) in self.done:
            return
        self.done.add(id(group))
        versions = {_tensord._version(member) for member in found}
        # What is above any of them comes first.
        for value in self.hooked:
            version = _tensord._version(value)
            if version not in self.done and version not in versions and versions & self._below(value):
                self._pass(value)
        made = iter(self.gradients(found))
        gradients = [None if member is None else next(made) for member in members]
        changed = group.call(gradients)
        if changed is None:
            return
        for member, before, after in zip(members, gradients, changed):
            if member is not None and after is not None and after is not before:
                self.given.append((member, _fitting(after, member)))


def _fitting(gradient: Any, value: Tensor) -> Tensor:
    if not isinstance(gradient, Tensor):
        raise TypeError(f"a hook returns a tensor or None, not a {type(gradient).__name__}")
    if gradient.shape != value.shape or gradient.dtype != value.dtype:
        raise InvalidArgumentError(f"a hook returned a gradient {gradient.dtype} {list(gradient.shape)} for a tensor "
                                   f"{value.dtype} {list(value.shape)}")
    return gradient


def gradients(loss: Tensor, targets: Sequence[Tensor], seed: Optional[Tensor]) -> list[Tensor]:
    """Tensor.gradient where there are hooks, or NaN is looked for."""
    way = _Way(loss, targets, seed)
    made = way.gradients(targets)
    _look_for_nan(way)
    return made


def backward(loss: Tensor, seed: Optional[Tensor], create_graph: bool, inputs: Optional[Sequence[Tensor]]) -> None:
    """Tensor.backward where there are hooks, or NaN is looked for."""
    found = _tensord._gradient_targets(loss) if inputs is None else [(x, x) for x in inputs]
    if not found and (inputs is not None or not loss.requires_grad):
        raise FailedPreconditionError("backward: the tensor does not require a gradient: it is made of no tensor with "
                                      "requires_grad, or only of detached ones")
    # Of a leaf that nobody holds any more only hooks want to know; those on the way there are called, too.
    targets = [(at if tensor is None and _tensord._hooks(at) else tensor, at) for tensor, at in found]
    for (tensor, _), gradient in zip(targets, gradients(loss, [at for _, at in targets], seed)):
        if tensor is not None:
            added = gradient if create_graph else gradient.detach()
            tensor.grad = added if tensor.grad is None else tensor.grad + added
    for tensor in {_tensord._version(tensor): tensor for tensor, _ in targets if tensor is not None}.values():
        for hook in list(_tensord._hooks(tensor) or ()):
            if isinstance(hook, _AfterAccumulation):
                hook.call(tensor)


def _look_for_nan(way: _Way) -> None:
    from tensord.autograd.anomaly import check

    check(way.loss, way.gradients)
