"""Gradient descent, with momentum."""

from __future__ import annotations

from typing import Any

from _tensord import Tensor

from tensord.errors import InvalidArgumentError
from tensord.nn.optim.group import ParamGroup
from tensord.nn.optim.optimizer import Optimizer, Params, State, like, moved, zeros_for


class SGD(Optimizer):
    """p - lr * g; with momentum, v = momentum * v + (1 - dampening) * g stands for g, at the first step v = g. nesterov
    takes g + momentum * v."""

    def __init__(self, params: Params, lr: float = 1e-3, momentum: float = 0.0, dampening: float = 0.0,
                 weight_decay: float = 0.0, nesterov: bool = False, *, maximize: bool = False, **how: Any) -> None:
        super().__init__(params, dict(lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay,
                                      nesterov=nesterov, maximize=maximize), how)

    def _check(self, options: Any) -> None:
        super()._check(options)
        whole = {**self.defaults, **options}
        if whole["nesterov"] and (not whole["momentum"] or whole["dampening"]):
            raise InvalidArgumentError(f"{type(self).__name__}: nesterov needs a momentum and no dampening, not momentum "
                                       f"{whole['momentum']} and dampening {whole['dampening']}")

    def _counts(self, group: ParamGroup) -> bool:
        return bool(group["dampening"])  # of which the first step is free

    def _new_state(self, param: Tensor, group: ParamGroup) -> State:
        return zeros_for(param, "momentum_buffer") if group.uses("momentum") else {}

    def _update(self, param: Tensor, grad: Tensor, state: State, group: ParamGroup) -> Tensor:
        return param - like(group.live("lr"), param) * self._with_momentum(param, grad, state, group)

    def _with_momentum(self, param: Tensor, grad: Tensor, state: State, group: ParamGroup) -> Tensor:
        if not group.uses("momentum"):
            return grad
        if "momentum_buffer" not in state:
            raise InvalidArgumentError(f"{type(self).__name__}: the momentum was zero when the optimiser was made, so "
                                       "there is no buffer for it")
        momentum, dampening = like(group.live("momentum"), param), group.number("dampening")
        old = state["momentum_buffer"]
        new = old * momentum + grad * (1 - dampening)
        if "step" in state:
            new = (state["step"] == 1).where(grad, new)
        velocity = moved(state, "momentum_buffer", new)
        return grad + velocity * momentum if group.option("nesterov") else velocity


class LARS(Optimizer):
    """SGD whose rate is scaled for each parameter by tcoef * |p| / (|g| + weight_decay * |p|), where neither is zero.

    `classic` puts the rate inside of the momentum buffer; weight decay is part of the gradient with `pre_wd`, else
    decoupled.
    """

    _decoupled = True

    def __init__(self, params: Params, lr: float = 1e-3, momentum: float = 0.9, weight_decay: float = 1e-4,
                 nesterov: bool = False, classic: bool = True, pre_wd: bool = True, tcoef: float = 1e-3, *,
                 maximize: bool = False, **how: Any) -> None:
        super().__init__(params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay, nesterov=nesterov,
                                      classic=classic, pre_wd=pre_wd, tcoef=tcoef, maximize=maximize), how)

    def _counts(self, group: ParamGroup) -> bool:
        return False

    def _new_state(self, param: Tensor, group: ParamGroup) -> State:
        return zeros_for(param, "momentum_buffer")

    def _update(self, param: Tensor, grad: Tensor, state: State, group: ParamGroup) -> Tensor:
        lr, decay = like(group.live("lr"), param), group.number("weight_decay")
        size, slope = param.square().sum().sqrt(), grad.square().sum().sqrt()
        trusted = (size > 0) & (slope > 0)
        trust: Any = group.number("tcoef")
        trust = trusted.where(trust * size / (slope + decay * size), 1.0) if trust else 1.0
        if group.option("pre_wd"):
            grad = grad + param * decay
        scale = trust * lr
        classic = group.option("classic")
        if classic:
            grad = grad * scale
        if group.uses("momentum"):
            momentum = like(group.live("momentum"), param)
            velocity = moved(state, "momentum_buffer", state["momentum_buffer"] * momentum + grad)
            grad = grad + velocity * momentum if group.option("nesterov") else velocity
        if not group.option("pre_wd"):
            param = param * (1 - lr * decay)
        return param - (grad if classic else grad * scale)
