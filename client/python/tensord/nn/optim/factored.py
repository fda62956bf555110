"""Optimisers of matrices as such."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Optional

from _tensord import Tensor

from tensord.creation import zeros
from tensord.dtypes import finfo
from tensord.errors import InvalidArgumentError
from tensord.nn.optim.group import ParamGroup
from tensord.nn.optim.optimizer import Optimizer, Params, State, like, moved, root_mean_square, zeros_for


def _towards(state: State, name: str, value: Tensor, share: Tensor) -> Tensor:
    return moved(state, name, state[name] + (value - state[name]) * share)


class Adafactor(Optimizer):
    """Adam without an average of the gradients, and with that of their squares as a product of a column and a row for
    parameters of two or more axes. The rate is relative to the size of the parameter, at least eps[1], and at most
    1 / sqrt(step); updates are limited to a root mean square of d."""

    _decoupled = True

    def __init__(self, params: Params, lr: float = 1e-2, beta2_decay: float = -0.8,
                 eps: tuple[Optional[float], float] = (None, 1e-3), d: float = 1.0, weight_decay: float = 0.0, *,
                 maximize: bool = False, **how: Any) -> None:
        super().__init__(params, dict(lr=lr, beta2_decay=beta2_decay, eps=eps, d=d, weight_decay=weight_decay,
                                      maximize=maximize), how)

    def _check(self, options: Any) -> None:
        eps = options.get("eps", (None, 0))
        if any(x is not None and x < 0 for x in eps):
            raise InvalidArgumentError(f"Adafactor: eps is {eps}; neither may be negative")
        super()._check({name: value for name, value in options.items() if name != "eps"})

    def _new_state(self, param: Tensor, group: ParamGroup) -> State:
        if param.ndim < 2:
            return zeros_for(param, "variance")
        *batch, rows, columns = param.shape
        return {"row_var": zeros(*batch, rows, 1, dtype=param.dtype).clone(),
                "col_var": zeros(*batch, 1, columns, dtype=param.dtype).clone()}

    def _update(self, param: Tensor, grad: Tensor, state: State, group: ParamGroup) -> Tensor:
        step, lr = state["step"].cast("float64").reshape(1), group.live("lr")
        least, smallest = group.option("eps")
        least = finfo(param.dtype).eps if least is None else least
        share = like(step ** group.number("beta2_decay"), param)
        rate = root_mean_square(param).maximum(smallest) * like(lr.minimum(step.rsqrt()), param)
        if group.number("weight_decay"):
            param = param * like(1 - lr * group.number("weight_decay"), param)
        square = grad * grad
        if "variance" in state:
            variance = _towards(state, "variance", square, share)
        else:
            rows = _towards(state, "row_var", square.mean(-1, True), share)
            columns = _towards(state, "col_var", square.mean(-2, True), share)
            variance = rows * columns / rows.mean(-2, True).maximum(least)
        update = grad * variance.maximum(least * least).rsqrt()
        return param - rate / (root_mean_square(update) / group.number("d")).maximum(1.0) * update


# What the rate is multiplied by, for a matrix of so many rows and columns.
_SCALES: dict[str, Callable[[int, int], float]] = {
    "original": lambda rows, columns: math.sqrt(max(1.0, rows / columns)),
    "match_rms_adamw": lambda rows, columns: 0.2 * math.sqrt(max(rows, columns)),
    "spectral_unclamped": lambda rows, columns: math.sqrt(rows / columns),
}


class Muon(Optimizer):
    """Momentum whose update is the nearest orthogonal matrix, by ns_steps of Newton's and Schulz's iteration in float32
    (PyTorch's is in bfloat16). Parameters are matrices; adjust_lr_fn is "original" (None), "match_rms_adamw" or
    "spectral_unclamped"."""

    _decoupled = True

    def __init__(self, params: Params, lr: float = 1e-3, weight_decay: float = 0.1, momentum: float = 0.95,
                 nesterov: bool = True, ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
                 eps: float = 1e-7, ns_steps: int = 5, adjust_lr_fn: Optional[str] = None, *, maximize: bool = False,
                 **how: Any) -> None:
        if adjust_lr_fn is not None and adjust_lr_fn not in _SCALES:
            raise InvalidArgumentError(f"Muon: adjust_lr_fn is one of {', '.join(_SCALES)}, not '{adjust_lr_fn}'")
        super().__init__(params, dict(lr=lr, weight_decay=weight_decay, momentum=momentum, nesterov=nesterov,
                                      ns_coefficients=ns_coefficients, eps=eps, ns_steps=ns_steps,
                                      adjust_lr_fn=adjust_lr_fn, maximize=maximize), how)

    def _counts(self, group: ParamGroup) -> bool:
        return False

    def _new_state(self, param: Tensor, group: ParamGroup) -> State:
        if param.ndim != 2:
            raise InvalidArgumentError(f"Muon: a parameter of shape {list(param.shape)}, which is no matrix: give it to "
                                       "another optimiser, see OptimizerGroup")
        return zeros_for(param, "momentum_buffer")

    def _update(self, param: Tensor, grad: Tensor, state: State, group: ParamGroup) -> Tensor:
        momentum, lr = group.live("momentum"), group.live("lr")
        average = _towards(state, "momentum_buffer", grad, like(1 - momentum, param))
        if group.option("nesterov"):
            average = grad + (average - grad) * like(momentum, param)
        update = self._orthogonal(average.cast("float32"), group).cast(param.dtype)
        scale = _SCALES[group.option("adjust_lr_fn") or "original"](*param.shape)
        return param * like(1 - lr * group.number("weight_decay"), param) - like(lr * scale, param) * update

    def _orthogonal(self, x: Tensor, group: ParamGroup) -> Tensor:
        a, b, c = group.option("ns_coefficients")
        tall = x.shape[0] > x.shape[1]
        x = x.transpose(0, 1) if tall else x
        x = x / x.square().sum().sqrt().maximum(group.number("eps"))
        for _ in range(group.option("ns_steps")):
            gram = x @ x.transpose(0, 1)
            x = x * a + (gram * b + gram @ gram * c) @ x
        return x.transpose(0, 1) if tall else x
