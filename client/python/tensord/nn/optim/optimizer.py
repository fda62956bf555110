"""What optimisers share: groups of parameters with options, state, steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, Optional, Union

from _tensord import Tensor, is_capturing, realize

from tensord.autograd import enable_grad, no_grad
from tensord.autograd.hooks import RemovableHandle
from tensord.creation import zeros, zeros_like
from tensord.errors import FailedPreconditionError, InvalidArgumentError
from tensord.nn.optim.group import ParamGroup

Params = Union[Iterable[Tensor], Iterable[Mapping[str, Any]], Iterable[tuple[str, Tensor]]]
State = dict[str, Tensor]

# What an option may be.
_RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(
        ("lr", "momentum", "weight_decay", "eps", "lr_decay", "alpha", "lambd", "t0", "momentum_decay",
         "initial_accumulator_value"),
        (lambda x: isinstance(x, Tensor) or x >= 0, "not negative")),
    "betas": (lambda x: isinstance(x, Tensor) or (len(x) == 2 and all(0 <= beta < 1 for beta in x)),
              "two numbers in [0, 1)"),
    "rho": (lambda x: 0 <= x <= 1, "in [0, 1]"),
    "etas": (lambda x: len(x) == 2 and 0 < x[0] < 1 < x[1], "two numbers, in (0, 1) and above 1"),
    "step_sizes": (lambda x: len(x) == 2 and 0 < x[0] <= x[1], "two positive numbers, the smaller first"),
    "beta2_decay": (lambda x: x <= 0, "not positive"),
    "d": (lambda x: x >= 1, "at least 1"),
    "ns_steps": (lambda x: isinstance(x, int) and 0 <= x < 100, "an int in [0, 100)"),
}  # fmt: skip
# How PyTorch computes, not what.
_HOW = ("foreach", "fused", "capturable", "differentiable")


def _with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """A class's step() with the hooks of an optimiser around it, once if it calls that of its base."""
    if hasattr(step, "_has_hooks"):
        return step

    @wraps(step)
    def call(*args: Any, **kwargs: Any) -> Any:
        self: Optimizer = args[0]
        if self._is_stepping:
            return step(*args, **kwargs)
        for hook in tuple(self._before_step):
            both = hook(self, args, kwargs)
            if both is None:
                continue
            if not isinstance(both, tuple) or len(both) != 2:
                raise TypeError(f"{type(self).__name__}: a hook before a step returns args and kwargs, or None, not {both!r}")
            args, kwargs = both
        self._is_stepping = True
        try:
            result = step(*args, **kwargs)
        finally:
            self._is_stepping = False
        for hook in tuple(self._after_step):
            hook(self, args, kwargs)
        return result

    call._has_hooks = True  # type: ignore[attr-defined]
    return call


class Optimizer:
    """Parameters in groups with options: `params` are tensors, (name, tensor) pairs, or dicts of "params" and options,
    as in PyTorch. step() inside a captured function becomes part of its program; elsewhere it runs.

    `param_groups` are dicts, of which "lr", "momentum" and "betas" may change without another program; `state` has the
    tensors of each parameter by its number. PyTorch's options foreach, fused and capturable are taken and change nothing.
    InvalidArgumentError names an option that is out of range.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.step = _with_hooks(cls.step)  # type: ignore[method-assign]

    _decoupled = False  # whether weight decay is a part of the update, not of the gradient

    def __init__(self, params: Params, defaults: Mapping[str, Any], how: Optional[Mapping[str, Any]] = None) -> None:
        for name in how or {}:
            if name not in _HOW:
                raise TypeError(f"{type(self).__name__} has no option '{name}'")
            if name == "differentiable" and how and how[name]:
                raise InvalidArgumentError(f"{type(self).__name__}: steps have no derivative; differentiable is False")
        self._before_step: list[Callable[..., Any]] = []
        self._after_step: list[Callable[..., None]] = []
        self._is_stepping = False
        self.defaults: dict[str, Any] = dict(defaults)
        self.param_groups: list[ParamGroup] = []
        self.state: dict[int, State] = {}
        self.params: list[Tensor] = []
        if isinstance(params, Tensor):
            raise TypeError(f"{type(self).__name__}: parameters are a list, or something else to iterate over, of tensors; "
                            "this is one")
        entries: list[Any] = list(params)
        if not entries:
            raise InvalidArgumentError("an optimiser needs parameters; see Module.parameters, nn.state.get_parameters")
        for group in entries if isinstance(entries[0], Mapping) else [{"params": entries}]:
            self.add_param_group(group)
        if not any(param.requires_grad for param in self.params):
            raise InvalidArgumentError(f"{type(self).__name__}: no parameter has requires_grad, "
                                       f"{self.params[0]!r} for one")

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """Further parameters: "params", and the options that are not the defaults."""
        if not isinstance(param_group, Mapping) or "params" not in param_group:
            raise TypeError(f"{type(self).__name__}: a group is a dict with 'params', not {param_group!r}")
        given_params = param_group["params"]
        entries: list[Any] = [given_params] if isinstance(given_params, Tensor) else list(given_params)
        named = bool(entries) and isinstance(entries[0], tuple)
        params: list[Tensor] = [entry[1] for entry in entries] if named else entries
        options = {**self.defaults, **param_group, "params": params}
        if named:
            options["param_names"] = [entry[0] for entry in entries]
        self._check(options)
        seen = {hash(param) for param in self.params}
        for i, param in enumerate(params, len(self.params)):
            if not isinstance(param, Tensor):
                raise TypeError(f"{type(self).__name__}: parameter {i} is a {type(param).__name__}, not a tensor")
            if not param.is_leaf:
                raise InvalidArgumentError(f"{type(self).__name__}: parameter {i} is made of others that require a gradient; "
                                           "an optimiser changes the leaves")
            if hash(param) in seen:
                raise InvalidArgumentError(f"{type(self).__name__}: parameter {i} is there twice")
            seen.add(hash(param))
        group = ParamGroup(options)
        self.param_groups.append(group)
        step = zeros(()).clone() if self._counts(group) else None  # shared until one of them misses a step
        for i, param in enumerate(params, len(self.params)):
            # A frozen parameter takes no memory, and gets its state if it is set free and steps.
            self.state[i] = self._first_state(param, group, step) if param.requires_grad else {}
        self.params.extend(params)

    def _first_state(self, param: Tensor, group: ParamGroup, step: Optional[Tensor]) -> State:
        return {**({} if step is None else {"step": step}), **self._new_state(param, group)}

    def _set_free(self, active: list[int]) -> None:
        """State for parameters that were frozen when they were added."""
        for i, group in self._numbered():
            if i not in active or self.state[i]:
                continue
            state = self._first_state(self.params[i], group, zeros(()).clone() if self._counts(group) else None)
            if state and is_capturing():
                raise FailedPreconditionError(
                    f"parameter {i} was frozen when the optimiser was made: run one step outside of the captured "
                    "function first, so that it has its state")
            self.state[i] = state

    def _check(self, options: Mapping[str, Any]) -> None:
        for name, value in options.items():
            if name in _RULES and not _RULES[name][0](value):
                raise InvalidArgumentError(f"{type(self).__name__}: {name} is {value}; it must be {_RULES[name][1]}")

    # ---- what a subclass defines

    def _counts(self, group: ParamGroup) -> bool:
        """Whether its state has a step."""
        return True

    def _new_state(self, param: Tensor, group: ParamGroup) -> State:
        """Tensors for one parameter, each with memory of its own."""
        return {}

    def _update(self, param: Tensor, grad: Tensor, state: State, group: ParamGroup) -> Tensor:
        """The new value of a parameter, after assigning the new state."""
        raise NotImplementedError

    # ---- steps

    @property
    def lr(self) -> Tensor:
        """One element, that of the first group; assign a number or a tensor to change that of all groups."""
        return self.param_groups[0].data("lr")

    @lr.setter
    def lr(self, value: Union[float, Tensor]) -> None:
        for group in self.param_groups:
            group["lr"] = value

    def zero_grad(self, set_to_none: bool = True) -> None:
        for param in self.params:
            param.grad = None if set_to_none or param.grad is None else param.grad * 0

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Updates the parameters that have gradients, which may be none. `closure`, if given, computes them first and
        returns the loss, which is returned."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        changed = self.schedule_step()
        if not is_capturing():
            realize(changed)
        return loss

    def schedule_step(self) -> list[Tensor]:
        """step() that computes nothing yet: what is to be realized, so that one program computes it together with the loss:
        realize(loss, *optimizer.schedule_step())."""
        active = [i for i, param in enumerate(self.params) if param.grad is not None]
        if not active:
            return []
        with no_grad():
            self._set_free(active)
            self._advance(active)
            for i, group in self._numbered():
                if i in active:
                    self._update_one(i, group)
        # With the gradients, which would otherwise keep the old parameters alive.
        return [*self.params, *self._tensors(), *(p.grad for p in self.params if p.grad is not None)]

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """hook(optimizer, args, kwargs) before each step, of which the first of args is the optimiser; a pair that it
        returns is taken for args and kwargs.
        """
        self._before_step.append(hook)
        return RemovableHandle((self._before_step, hook))

    def register_step_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """hook(optimizer, args, kwargs) after each step()."""
        self._after_step.append(hook)
        return RemovableHandle((self._after_step, hook))

    def _numbered(self) -> list[tuple[int, ParamGroup]]:
        groups = [group for group in self.param_groups for _ in group["params"]]
        return list(enumerate(groups))

    def _update_one(self, i: int, group: ParamGroup) -> None:
        tensor = self.params[i]
        param, grad = tensor.detach(), tensor.grad
        assert grad is not None
        grad = grad.detach().cast(param.dtype)
        if group.option("maximize"):
            grad = -grad
        decay = group.option("weight_decay") if "weight_decay" in group and not self._decoupled else 0
        if decay and not ("decoupled_weight_decay" in group and group.option("decoupled_weight_decay")):
            grad = grad + param * decay
        tensor.assign(self._update(param, grad, self.state[i], group).cast(param.dtype))

    def _advance(self, active: list[int]) -> None:
        """Counts the step of those that have gradients."""
        holders: dict[int, list[int]] = {}
        for i, state in self.state.items():
            if "step" in state:
                holders.setdefault(id(state["step"]), []).append(i)
        for members in holders.values():
            stepping = [i for i in members if i in active]
            if not stepping:
                continue
            step = self.state[stepping[0]]["step"]
            if len(stepping) < len(members):
                if is_capturing():
                    raise FailedPreconditionError(
                        f"parameters {sorted(set(members) - set(stepping))} have no gradient and share their count of "
                        "steps with others that have: give them a group of their own, or run one step outside of the "
                        "captured function first")
                step = step.clone()
                for i in stepping:
                    self.state[i]["step"] = step
            step.assign(step + 1)

    def _tensors(self) -> list[Tensor]:
        """All that steps change, besides parameters."""
        live = [tensor for group in self.param_groups for tensor in group.tensors()]
        return [tensor for state in self.state.values() for tensor in state.values()] + live

    # ---- state

    def state_dict(self) -> dict[str, Any]:
        """{"state": by number of parameter, "param_groups": options, with numbers for parameters}, as in PyTorch. The
        tensors are the optimiser's own."""
        groups, start = [], 0
        for group in self.param_groups:
            count = len(group["params"])
            groups.append({**{name: group[name] for name in group}, "params": list(range(start, start + count))})
            start += count
        return {"state": {i: dict(state) for i, state in self.state.items()}, "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Goes on from a state_dict() of this class, ours or PyTorch's; of parameters in the same order."""
        groups = state_dict["param_groups"]
        have, want = ([len(group["params"]) for group in each] for each in (groups, self.param_groups))
        if have != want:
            raise InvalidArgumentError(f"load_state_dict: groups of {have} parameters for groups of {want}")
        for group, loaded in zip(self.param_groups, groups):
            options = {name: _as_number(loaded[name]) for name in loaded if name in group and name != "params"}
            self._check(options)
            group.update(options)
        numbers = [i for group in groups for i in group["params"]]
        steps: dict[tuple[int, float], Tensor] = {}
        owner = {i: g for g, group in enumerate(self.param_groups) for i in self._members(g)}
        for i, number in enumerate(numbers):
            loaded_state = state_dict["state"].get(number, {})
            if "step" in self.state[i]:
                count = float(loaded_state.get("step", 1 if loaded_state else 0))
                key = owner[i], count
                steps.setdefault(key, Tensor([count]).reshape(()).clone())
                self.state[i]["step"] = steps[key]
            for name, tensor in self.state[i].items():
                if name != "step" and loaded_state.get(name) is not None:
                    value = _as_tensor(loaded_state[name])
                    if value.numel() != tensor.numel():
                        raise InvalidArgumentError(f"load_state_dict: '{name}' of parameter {i} has shape "
                                                   f"{list(value.shape)}, not {list(tensor.shape)}")
                    tensor.assign(value.detach().reshape(*tensor.shape).cast(tensor.dtype))
        realize(self._tensors())

    def _members(self, group: int) -> range:
        start = sum(len(each["params"]) for each in self.param_groups[:group])
        return range(start, start + len(self.param_groups[group]["params"]))

    def __repr__(self) -> str:
        lines = [f"Parameter Group {i}\n" + "".join(f"    {name}: {group[name]}\n" for name in sorted(group)
                                                    if name != "params")
                 for i, group in enumerate(self.param_groups)]
        return f"{type(self).__name__} (\n" + "\n".join(lines) + ")"


class OptimizerGroup:
    """Several optimisers as one: zero_grad() and step() of each."""

    def __init__(self, *optimizers: Optimizer) -> None:
        if not optimizers:
            raise InvalidArgumentError("OptimizerGroup: there are no optimisers")
        self.optimizers = optimizers

    @property
    def params(self) -> list[Tensor]:
        return [param for optimizer in self.optimizers for param in optimizer.params]

    @property
    def param_groups(self) -> list[ParamGroup]:
        return [group for optimizer in self.optimizers for group in optimizer.param_groups]

    def __getitem__(self, index: int) -> Optimizer:
        return self.optimizers[index]

    def zero_grad(self, set_to_none: bool = True) -> None:
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none)

    def step(self) -> None:
        for optimizer in self.optimizers:
            optimizer.step()

    def schedule_step(self) -> list[Tensor]:
        """See Optimizer.schedule_step."""
        return [tensor for optimizer in self.optimizers for tensor in optimizer.schedule_step()]

    def state_dict(self) -> list[dict[str, Any]]:
        return [optimizer.state_dict() for optimizer in self.optimizers]

    def load_state_dict(self, state_dicts: Iterable[Mapping[str, Any]]) -> None:
        for optimizer, state in zip(self.optimizers, state_dicts):
            optimizer.load_state_dict(state)


# ---- for updates

def zeros_for(param: Tensor, *names: str) -> State:
    """States of the parameter's shape and dtype."""
    return {name: zeros_like(param).clone() for name in names}


def moved(state: State, name: str, value: Tensor) -> Tensor:
    """Assigns a state, and gives it back."""
    tensor = state[name]
    tensor.assign(value.cast(tensor.dtype))
    return tensor


def averaged(state: State, name: str, value: Tensor, keep: Any, take: Any) -> Tensor:
    """A running average: keep * state + take * value."""
    return moved(state, name, state[name] * keep + value * take)


def betas(group: ParamGroup, state: State) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """beta1, beta2, and 1 - beta ** step of each, which corrects averages that began at zero: float64 [1]."""
    beta1, beta2, step = group.live("betas", 0), group.live("betas", 1), state["step"].cast("float64")
    return beta1, beta2, 1 - beta1**step, 1 - beta2**step


def like(number: Tensor, param: Tensor) -> Tensor:
    """A live number, [1], to compute with beside a parameter."""
    return number.cast(param.dtype) if param.ndim else number.cast(param.dtype).reshape(())


def root_mean_square(x: Tensor) -> Tensor:
    return x.square().sum().sqrt() / math.sqrt(max(x.numel(), 1))


def _as_number(value: Any) -> Any:
    """An option as our own: PyTorch's may be a tensor."""
    return value if isinstance(value, Tensor) or not hasattr(value, "item") else value.item()


def _as_tensor(value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else Tensor(value.detach() if hasattr(value, "detach") else value)
