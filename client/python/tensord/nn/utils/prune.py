"""Parameters of which some elements are held at zero, as torch.nn.utils.prune.

    prune.l1_unstructured(layer, "weight", amount=0.3)

Then layer.weight is layer.weight_orig, which is what is learned, times layer.weight_mask, anew before each call. What is
pruned once more loses a share of what is left. Masks are computed by data, so not inside of a captured function.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Optional, TypeVar, Union

from _tensord import Tensor

from tensord.autograd import no_grad
from tensord.creation import ones_like
from tensord.errors import InvalidArgumentError, OutOfRangeError
from tensord.nn.module import Module
from tensord.nn.utils.hooks import _Computed, _hooks
from tensord.random import rand_like

M = TypeVar("M", bound=Module)
Amount = Union[int, float]


class _Pruned(_Computed):
    def parts(self) -> list[str]:
        return [f"{self.name}_orig", f"{self.name}_mask"]

    def compute(self, module: Module) -> Tensor:
        original, mask = (getattr(module, part) for part in self.parts())
        made: Tensor = original * mask.cast(original.dtype)
        return made

    def remove(self, module: Module) -> None:
        """The parameter is the same object as before, with zeros where it was pruned."""
        original, mask = self.parts()
        parameter = getattr(module, original)
        with no_grad():
            parameter.assign(self.compute(module).detach().clone().realize())
        for name in self.name, original, mask:
            delattr(module, name)
        setattr(module, self.name, parameter)


def _hook_of(module: Module, name: str) -> Optional[_Pruned]:
    return next((hook for hook in _hooks(module, _Pruned) if hook.name == name), None)


class BasePruningMethod:
    """A way to choose what is pruned: a subclass defines compute_mask, and PRUNING_TYPE if it prunes "structured", whole
    slices along the axis `dim`, instead of "unstructured" or "global" single elements.
    """

    PRUNING_TYPE = "unstructured"
    dim = 0

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """0 where `t`, the importance of what is left, is to be pruned; else what default_mask, which is of ones, says."""
        raise NotImplementedError(f"{type(self).__name__} defines no compute_mask")

    def _mask(self, t: Tensor, before: Optional[Tensor]) -> Tensor:
        """For all of a tensor, of which what `before` is 0 for is pruned already."""
        if before is None:
            return self.compute_mask(t, ones_like(t))
        if self.PRUNING_TYPE == "structured":
            dim = _axis(t, self.dim)
            left = before.movedim(dim, 0).flatten(1).sum(1).ne(0).nonzero().reshape(-1)
            part = t.index_select(dim, left)
            return before.index_copy(dim, left, self.compute_mask(part, before.index_select(dim, left)).cast(before.dtype))
        rows = before.reshape(-1).ne(0).nonzero().reshape(-1)
        part = t.reshape(-1).index_select(0, rows)
        made = self.compute_mask(part, ones_like(part)).cast(before.dtype)
        return before.reshape(-1).index_copy(0, rows, made).reshape(before.shape)

    @classmethod
    def apply(cls, module: Module, name: str, *args: Any, importance_scores: Optional[Tensor] = None,
              **kwargs: Any) -> BasePruningMethod:
        """Prunes the parameter by a new method of this class, by importance_scores or its own values."""
        method, hook = cls(*args, **kwargs), _hook_of(module, name)
        parameter: Tensor = getattr(module, name)
        scores = parameter if importance_scores is None else importance_scores
        _same_shape(scores, parameter)
        with no_grad():
            before = None if hook is None else getattr(module, f"{name}_mask")
            mask = method._mask(scores.detach(), before).cast(parameter.dtype).clone().realize()
        if hook is None:
            original = module.get_parameter(name)
            hook = _Pruned(name)
            delattr(module, name)
            setattr(module, f"{name}_orig", original)
            module.register_forward_pre_hook(hook)
        module.register_buffer(f"{name}_mask", mask)
        hook(module, ())
        return method

    def prune(self, t: Tensor, default_mask: Optional[Tensor] = None, importance_scores: Optional[Tensor] = None) -> Tensor:
        """`t` with zeros; nothing is remembered."""
        scores = t if importance_scores is None else importance_scores
        _same_shape(scores, t)
        made: Tensor = t * self.compute_mask(scores, ones_like(t) if default_mask is None else default_mask).cast(t.dtype)
        return made


def _same_shape(scores: Tensor, tensor: Tensor) -> None:
    if scores.shape != tensor.shape:
        raise InvalidArgumentError(f"prune: importance_scores {list(scores.shape)} for a tensor {list(tensor.shape)}; they "
                                   "have one shape")


def _axis(t: Tensor, dim: int) -> int:
    if t.ndim < 2:
        raise InvalidArgumentError(f"prune: whole slices of a tensor of shape {list(t.shape)}; it needs two axes or more")
    if not -t.ndim <= dim < t.ndim:
        raise OutOfRangeError(f"prune: dim is {dim}, and the tensor has {t.ndim} axes")
    return dim % t.ndim


class _ByAmount(BasePruningMethod):
    """amount: how many, or which share (a float in [0, 1]) of what is left."""

    def __init__(self, amount: Amount) -> None:
        is_count = isinstance(amount, int) and not isinstance(amount, bool)
        if not is_count and not isinstance(amount, float):
            raise TypeError(f"prune: the amount is {amount!r}; it is a count or a share")
        if amount < 0 or (not is_count and amount > 1):
            raise InvalidArgumentError(f"prune: the amount is {amount}; a count is at least 0, and a share is in [0, 1]")
        self.amount = amount

    def _count(self, size: int) -> int:
        count = self.amount if isinstance(self.amount, int) else round(self.amount * size)
        if count > size:
            raise InvalidArgumentError(f"prune: {count} of {size} that are left")
        return count

    def _without_lowest(self, scores: Tensor, default_mask: Tensor) -> Tensor:
        """The mask with zeros at the lowest scores."""
        count = self._count(scores.numel())
        if count == 0:
            return default_mask
        lowest = scores.reshape(-1).topk(count, largest=False)[1]
        return default_mask.reshape(-1).index_fill(0, lowest, 0).reshape(default_mask.shape)

    def _without_weak(self, t: Tensor, strength: Tensor, default_mask: Tensor) -> Tensor:
        """The mask with zeros in all slices but those of the greatest strength."""
        size = t.shape[self.dim]
        strong = strength.topk(size - self._count(size))[1]
        keeps = (strength * 0).index_fill(0, strong, 1).reshape([-1 if i == _axis(t, self.dim) else 1 for i in range(t.ndim)])
        made: Tensor = default_mask * keeps.cast(default_mask.dtype)
        return made


class Identity(BasePruningMethod):
    """Prunes nothing."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask


class RandomUnstructured(_ByAmount):
    """Elements at random."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return self._without_lowest(rand_like(t), default_mask)


class L1Unstructured(_ByAmount):
    """The elements of the least magnitude."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return self._without_lowest(t.abs(), default_mask)


class RandomStructured(_ByAmount):
    """Slices along an axis at random."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Amount, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return self._without_weak(t, rand_like(t.movedim(_axis(t, self.dim), 0).flatten(1)[:, 0]), default_mask)


class LnStructured(_ByAmount):
    """The slices along an axis of the least norm: n is a number, or "fro" for 2."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Amount, n: Union[float, str], dim: int = -1) -> None:
        super().__init__(amount)
        if isinstance(n, str) and n != "fro":
            raise InvalidArgumentError(f"prune: the norm is {n!r}; it is a number or 'fro'")
        self.n, self.dim = 2.0 if isinstance(n, str) else n, dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        slices = t.movedim(_axis(t, self.dim), 0).flatten(1)
        return self._without_weak(t, slices.norm(self.n, 1), default_mask)


class CustomFromMask(BasePruningMethod):
    """What a mask has 0 for."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def _mask(self, t: Tensor, before: Optional[Tensor]) -> Tensor:
        _same_shape(self.mask, t)
        mask: Tensor = self.mask.cast(t.dtype)
        return mask if before is None else before * mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return self._mask(t, default_mask)


def identity(module: M, name: str) -> M:
    """Makes the mask, and prunes nothing yet."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: M, name: str, amount: Amount) -> M:
    """Prunes elements at random: so many, or which share of those left."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: M, name: str, amount: Amount, importance_scores: Optional[Tensor] = None) -> M:
    """Prunes the elements of the least magnitude, of their own or of importance_scores."""
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: M, name: str, amount: Amount, dim: int) -> M:
    """Prunes slices along an axis at random: so many, or which share of those left."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module: M, name: str, amount: Amount, n: Union[float, str], dim: int,
                  importance_scores: Optional[Tensor] = None) -> M:
    """Prunes the slices along an axis of the least n-norm, of their own or of importance_scores."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: M, name: str, mask: Tensor) -> M:
    """Prunes what the mask, of the parameter's shape, has 0 for."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(parameters: Iterable[tuple[Module, str]], pruning_method: type[BasePruningMethod],
                        importance_scores: Optional[Mapping[tuple[Module, str], Tensor]] = None, **kwargs: Any) -> None:
    """Prunes several parameters, (module, name) each, as if they were one."""
    if pruning_method.PRUNING_TYPE != "unstructured":
        raise TypeError(f"global_unstructured: {pruning_method.__name__} prunes '{pruning_method.PRUNING_TYPE}', not single "
                        "elements")
    places, scores = list(parameters), dict(importance_scores or {})
    tensors: list[Tensor] = [getattr(module, name) for module, name in places]
    given = [scores.get(place, tensor) for place, tensor in zip(places, tensors)]
    for score, tensor in zip(given, tensors):
        _same_shape(score, tensor)
    with no_grad():
        before = Tensor.cat([getattr(module, f"{name}_mask", ones_like(tensor)).reshape(-1)
                             for (module, name), tensor in zip(places, tensors)])  # fmt: skip
        flat = Tensor.cat([score.detach().reshape(-1) for score in given])
        masks = pruning_method(**kwargs)._mask(flat, before).split([tensor.numel() for tensor in tensors])
    for (module, name), tensor, mask in zip(places, tensors, masks):
        custom_from_mask(module, name, mask.reshape(tensor.shape))


def remove(module: M, name: str) -> M:
    """Leaves the parameter as one with zeros, which is learned as a whole again."""
    hook = _hook_of(module, name)
    if hook is None:
        raise InvalidArgumentError(f"prune.remove: '{name}' of {type(module).__name__} is not pruned")
    hook.remove(module)
    hooks = module.__dict__["_pre_hooks"]
    hooks[:] = [entry for entry in hooks if entry[0] is not hook]
    return module


def is_pruned(module: Module) -> bool:
    """Whether anything in it is."""
    return any(_hooks(part, _Pruned) for part in module.modules())


__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured", "RandomStructured",
    "RandomUnstructured", "custom_from_mask", "global_unstructured", "identity", "is_pruned", "l1_unstructured",
    "ln_structured", "random_structured", "random_unstructured", "remove",
]  # fmt: skip
