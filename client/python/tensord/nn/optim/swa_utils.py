"""Averages of a model's parameters over training, as torch.optim.swa_utils."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Optional

from _tensord import Tensor, is_capturing, realize

from tensord.autograd import no_grad
from tensord.creation import zeros
from tensord.errors import InvalidArgumentError
from tensord.nn.module import Module
from tensord.nn.norm import BatchNorm
from tensord.nn.optim.lr_scheduler import LRScheduler, Optimisers

#: (average, newest, how many are in the average) to the next average.
AverageOf = Callable[[Tensor, Tensor, Tensor], Tensor]
#: The same for all tensors at once; it assigns to the averages.
AverageAll = Callable[[Sequence[Tensor], Sequence[Tensor], Tensor], None]


def _checked_decay(decay: float) -> float:
    if not 0 <= decay <= 1:
        raise InvalidArgumentError(f"the decay {decay} of an average is not in [0, 1]")
    return decay


def get_ema_avg_fn(decay: float = 0.999) -> AverageOf:
    """decay * average + (1 - decay) * newest."""
    decay = _checked_decay(decay)

    def average(averaged: Tensor, newest: Tensor, count: Tensor) -> Tensor:
        return averaged * decay + newest * (1 - decay)

    return average


def get_swa_avg_fn() -> AverageOf:
    """The mean of all."""

    def average(averaged: Tensor, newest: Tensor, count: Tensor) -> Tensor:
        return averaged + (newest - averaged) / (count + 1).cast(averaged.dtype)

    return average


def _all(average: AverageOf) -> AverageAll:
    def averages(averaged: Sequence[Tensor], newest: Sequence[Tensor], count: Tensor) -> None:
        for old, new in zip(averaged, newest):
            old.assign(average(old.detach(), new, count).cast(old.dtype))

    return averages


def get_ema_multi_avg_fn(decay: float = 0.999) -> AverageAll:
    """get_ema_avg_fn for all tensors at once."""
    return _all(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn() -> AverageAll:
    """get_swa_avg_fn for all tensors at once."""
    return _all(get_swa_avg_fn())


class AveragedModel(Module):
    """A copy of a model whose parameters become averages of the model's, by update_parameters(model) after each step: its
    mean, or what avg_fn(average, newest, count) or multi_avg_fn(averages, newest ones, count) say. Buffers are copied, or
    averaged too with use_buffers. The first update copies. `n_averaged` counts, int64."""

    n_averaged: Tensor

    def __init__(self, model: Module, device: Optional[str] = None, avg_fn: Optional[AverageOf] = None,
                 multi_avg_fn: Optional[AverageAll] = None, use_buffers: bool = False) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise InvalidArgumentError("AveragedModel: give avg_fn or multi_avg_fn, not both")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module.to(device)
        self.register_buffer("n_averaged", zeros((), dtype="int64").clone())
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def _tensors(self, model: Module) -> list[Tensor]:
        averaged: list[Tensor] = list(model.parameters())
        return averaged + [buffer for buffer in model.buffers() if self.use_buffers]

    def update_parameters(self, model: Module) -> None:
        """Takes the model as it is into the average."""
        averages = self.multi_avg_fn or _all(self.avg_fn or get_swa_avg_fn())
        mine, theirs = self._tensors(self.module), [tensor.detach() for tensor in self._tensors(model)]
        count = self.n_averaged
        with no_grad():
            averages(mine, theirs, count)
            for old, new in zip(mine, theirs):
                old.assign((count == 0).where(new, old.detach()).cast(old.dtype))
            if not self.use_buffers:
                for old, new in zip(self.module.buffers(), model.buffers()):
                    old.assign(new.detach().cast(old.dtype).clone())
            count.assign(count + 1)
        if not is_capturing():
            realize(mine, list(self.module.buffers()), [count])


def update_bn(loader: Iterable[Any], model: Module, device: Optional[str] = None) -> None:
    """Runs the model in training over batches, or over the first item of each, so that its BatchNorms have the
    statistics of all of them, each batch with the same weight."""
    norms = [module for module in model.modules() if isinstance(module, BatchNorm)]
    if not norms:
        return
    before = [norm.momentum for norm in norms]
    modes = [(module, module._mode) for module in model.modules()]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None
    model.train()
    try:
        with no_grad():
            for batch in loader:
                input = batch[0] if isinstance(batch, (list, tuple)) else batch
                model(input if device is None else input.to(device))
                realize([buffer for norm in norms for buffer in norm.buffers()])
    finally:
        for norm, momentum in zip(norms, before):
            norm.momentum = momentum
        for module, mode in modes:
            module._mode = mode


_ANNEAL: dict[str, Callable[[float], float]] = {
    "cos": lambda t: (1 - math.cos(math.pi * t)) / 2,
    "linear": lambda t: t,
}


class SWALR(LRScheduler):
    """From the rate that is set to swa_lr, in anneal_epochs steps along a half wave ("cos") or a line ("linear")."""

    def __init__(self, optimizer: Optimisers, swa_lr: Any, anneal_epochs: int = 10, anneal_strategy: str = "cos",
                 last_epoch: int = -1) -> None:
        if anneal_strategy not in _ANNEAL:
            raise InvalidArgumentError(f"SWALR: the anneal_strategy is 'cos' or 'linear', not '{anneal_strategy}'")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise InvalidArgumentError(f"SWALR: anneal_epochs is {anneal_epochs!r}; it is an integer, not negative")
        self.optimizer, self.anneal_epochs, self.anneal_strategy = optimizer, anneal_epochs, anneal_strategy
        for group, rate in zip(optimizer.param_groups, self._each(swa_lr, "swa_lr")):
            group["swa_lr"] = rate
        super().__init__(optimizer, last_epoch)

    def _share(self, step: int) -> float:
        """How far on the way to swa_lr."""
        return _ANNEAL[self.anneal_strategy](max(0.0, min(1.0, step / max(1, self.anneal_epochs))))

    def get_lr(self) -> list[float]:
        step = max(1, self.last_epoch) if self.anneal_epochs == 0 else self.last_epoch
        before, now = self._share(step - 1), self._share(step)
        rates = []
        for group in self._groups:
            last = group["swa_lr"]
            first = last if before == 1 else (group["lr"] - before * last) / (1 - before)
            rates.append(last * now + first * (1 - now))
        return rates


__all__ = [
    "AveragedModel", "SWALR", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn", "get_swa_multi_avg_fn",
    "update_bn",
]  # fmt: skip
