"""Weights of a given norm that are computed before each call, under the older names of torch.nn.utils; the newer ones
are in parametrizations."""

from __future__ import annotations

from typing import Any, Optional, TypeVar

from _tensord import Tensor

from tensord.autograd import no_grad
from tensord.creation import randn
from tensord.errors import InvalidArgumentError
from tensord.nn.module import Module
from tensord.nn.parameter import Parameter
from tensord.nn.utils.parametrizations import _output_axis, _WeightNorm

M = TypeVar("M", bound=Module)


class _Computed:
    """A hook before each call that makes a weight of other parameters."""

    def __init__(self, name: str) -> None:
        self.name = name

    def compute(self, module: Module) -> Tensor:
        raise NotImplementedError

    def parts(self) -> list[str]:
        """What the weight is made of, by attribute; the first is a parameter."""
        raise NotImplementedError

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute(module))

    def remove(self, module: Module) -> None:
        """Leaves the weight as a parameter, with the value that it has."""
        with no_grad():
            value = self.compute(module).detach().clone().realize()
        learned = getattr(module, self.parts()[0]).requires_grad
        delattr(module, self.name)
        for part in self.parts():
            delattr(module, part)
        setattr(module, self.name, Parameter(value, learned))


def _hooks(module: Module, kind: type[_Computed]) -> list[Any]:
    return [hook for hook, _ in module.__dict__.get("_pre_hooks", ()) if isinstance(hook, kind)]


def _original(what: str, module: Module, name: str, kind: type[_Computed]) -> Parameter:
    """Takes the weight away."""
    if any(hook.name == name for hook in _hooks(module, kind)):
        raise InvalidArgumentError(f"{what}: '{name}' of {type(module).__name__} has one already")
    weight = module.get_parameter(name)
    delattr(module, name)
    return weight


def _removed(what: str, module: M, name: str, kind: type[_Computed]) -> M:
    for hook in _hooks(module, kind):
        if hook.name == name:
            hook.remove(module)
            hooks = module.__dict__["_pre_hooks"]
            hooks[:] = [entry for entry in hooks if entry[0] is not hook]
            return module
    raise InvalidArgumentError(f"{what}: '{name}' of {type(module).__name__} has none")


class _HookedWeightNorm(_Computed):
    def __init__(self, name: str, dim: int) -> None:
        super().__init__(name)
        self.norm = _WeightNorm(dim)

    def parts(self) -> list[str]:
        return [f"{self.name}_g", f"{self.name}_v"]

    def compute(self, module: Module) -> Tensor:
        return self.norm.forward(*(getattr(module, part) for part in self.parts()))


def weight_norm(module: M, name: str = "weight", dim: Optional[int] = 0) -> M:
    """Learns a weight as its norms over all axes but `dim` (None: over all), the parameter weight_g, and its direction,
    weight_v."""
    weight = _original("weight_norm", module, name, _HookedWeightNorm)
    hook = _HookedWeightNorm(name, -1 if dim is None else dim)
    for part, value in zip(hook.parts(), hook.norm.right_inverse(weight.detach())):
        setattr(module, part, Parameter(value.clone().realize(), weight.requires_grad))
    hook(module, ())
    module.register_forward_pre_hook(hook)
    return module


def remove_weight_norm(module: M, name: str = "weight") -> M:
    """Makes the weight a parameter again, with the value that it has."""
    return _removed("remove_weight_norm", module, name, _HookedWeightNorm)


class _HookedSpectralNorm(_Computed):
    def __init__(self, name: str, n_power_iterations: int, eps: float, dim: int) -> None:
        super().__init__(name)
        self.n_power_iterations, self.eps, self.dim = n_power_iterations, eps, dim

    def parts(self) -> list[str]:
        return [f"{self.name}_{part}" for part in ("orig", "u", "v")]

    def matrix(self, weight: Tensor) -> Tensor:
        return weight.movedim(self.dim, 0).flatten(1)

    def compute(self, module: Module, iterate: bool = False) -> Tensor:
        weight, u, v = (getattr(module, part) for part in self.parts())
        matrix = self.matrix(weight)
        if iterate:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v.assign(matrix.detach().transpose(0, 1).matmul(u).normalize(dim=0, eps=self.eps))
                    u.assign(matrix.detach().matmul(v).normalize(dim=0, eps=self.eps))
        largest: Tensor = (u.detach() * matrix.matmul(v.detach())).sum()
        made: Tensor = weight / largest
        return made

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute(module, module.training))


def spectral_norm(module: M, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12,
                  dim: Optional[int] = None) -> M:
    """Divides a weight, the parameter weight_orig, by its largest singular value as a matrix [`dim`, rest], as it is
    nearly found by n_power_iterations at each call in training; weight_u and weight_v are its vectors."""
    if n_power_iterations < 1:
        raise InvalidArgumentError(f"spectral_norm: {n_power_iterations} power iterations; at least 1")
    weight = _original("spectral_norm", module, name, _HookedSpectralNorm)
    hook = _HookedSpectralNorm(name, n_power_iterations, eps, _output_axis(module) if dim is None else dim)
    setattr(module, f"{name}_orig", weight)
    object.__setattr__(module, name, weight.detach())
    for part, size in zip(hook.parts()[1:], hook.matrix(weight).shape):
        module.register_buffer(part, randn(size, dtype=weight.dtype).normalize(dim=0, eps=eps).realize())
    module.register_forward_pre_hook(hook)
    return module


def remove_spectral_norm(module: M, name: str = "weight") -> M:
    """Makes the weight a parameter again, with the value that it has."""
    return _removed("remove_spectral_norm", module, name, _HookedSpectralNorm)
