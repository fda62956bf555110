"""Optimisers that scale each element by what its gradients have been."""

from __future__ import annotations

from typing import Any

from _tensord import Tensor

from tensord.creation import full, ones
from tensord.nn.optim.group import ParamGroup
from tensord.nn.optim.optimizer import Optimizer, Params, State, averaged, like, moved, zeros_for


class RMSprop(Optimizer):
    """p - lr * g / (sqrt(v) + eps), where v averages g * g, and with `centered` the variance; momentum averages that
    quotient."""

    def __init__(self, params: Params, lr: float = 1e-2, alpha: float = 0.99, eps: float = 1e-8,
                 weight_decay: float = 0.0, momentum: float = 0.0, centered: bool = False, *, maximize: bool = False,
                 **how: Any) -> None:
        super().__init__(params, dict(lr=lr, momentum=momentum, alpha=alpha, eps=eps, centered=centered,
                                      weight_decay=weight_decay, maximize=maximize), how)

    def _new_state(self, param: Tensor, group: ParamGroup) -> State:
        names = ["square_avg"] + ["momentum_buffer"] * group.uses("momentum")
        return zeros_for(param, *names, *["grad_avg"] * bool(group.option("centered")))

    def _update(self, param: Tensor, grad: Tensor, state: State, group: ParamGroup) -> Tensor:
        alpha, lr = group.number("alpha"), like(group.live("lr"), param)
        square = averaged(state, "square_avg", grad * grad, alpha, 1 - alpha)
        if group.option("centered"):
            mean = averaged(state, "grad_avg", grad, alpha, 1 - alpha)
            square = square - mean * mean
        scaled = grad / (square.sqrt() + group.number("eps"))
        if group.uses("momentum"):
            scaled = averaged(state, "momentum_buffer", scaled, like(group.live("momentum"), param), 1)
        return param - lr * scaled


class Adagrad(Optimizer):
    """p - lr * g / (sqrt(sum of g * g) + eps), the rate falling as 1 / (1 + lr_decay * steps before)."""

    def __init__(self, params: Params, lr: float = 1e-2, lr_decay: float = 0.0, weight_decay: float = 0.0,
                 initial_accumulator_value: float = 0.0, eps: float = 1e-10, *, maximize: bool = False,
                 **how: Any) -> None:
        super().__init__(params, dict(lr=lr, lr_decay=lr_decay, eps=eps, weight_decay=weight_decay,
                                      initial_accumulator_value=initial_accumulator_value, maximize=maximize), how)

    def _new_state(self, param: Tensor, group: ParamGroup) -> State:
        start = full(tuple(param.shape), float(group["initial_accumulator_value"]), dtype=param.dtype)
        return {"sum": start.clone()}

    def _update(self, param: Tensor, grad: Tensor, state: State, group: ParamGroup) -> Tensor:
        total = averaged(state, "sum", grad * grad, 1, 1)
        lr = group.live("lr") / (1 + (state["step"].cast("float64") - 1) * group.number("lr_decay"))
        return param - like(lr, param) * grad / (total.sqrt() + group.number("eps"))


class Adadelta(Optimizer):
    """p - lr * d, where d = g * sqrt(u + eps) / sqrt(v + eps), and u and v average d * d and g * g."""

    def __init__(self, params: Params, lr: float = 1.0, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0.0,
                 *, maximize: bool = False, **how: Any) -> None:
        super().__init__(params, dict(lr=lr, rho=rho, eps=eps, weight_decay=weight_decay, maximize=maximize), how)

    def _new_state(self, param: Tensor, group: ParamGroup) -> State:
        return zeros_for(param, "square_avg", "acc_delta")

    def _update(self, param: Tensor, grad: Tensor, state: State, group: ParamGroup) -> Tensor:
        rho, eps = group.number("rho"), group.number("eps")
        square = averaged(state, "square_avg", grad * grad, rho, 1 - rho)
        delta = (state["acc_delta"] + eps).sqrt() / (square + eps).sqrt() * grad
        averaged(state, "acc_delta", delta * delta, rho, 1 - rho)
        return param - like(group.live("lr"), param) * delta


class ASGD(Optimizer):
    """Gradient descent whose rate falls as (1 + lambd * lr * steps) ** -alpha; state "ax" averages the parameter from
    step t0 on."""

    def __init__(self, params: Params, lr: float = 1e-2, lambd: float = 1e-4, alpha: float = 0.75, t0: float = 1e6,
                 weight_decay: float = 0.0, *, maximize: bool = False, **how: Any) -> None:
        super().__init__(params, dict(lr=lr, lambd=lambd, alpha=alpha, t0=t0, weight_decay=weight_decay,
                                      maximize=maximize), how)

    def _new_state(self, param: Tensor, group: ParamGroup) -> State:
        eta = full((), float(group["lr"])).clone()
        return {"eta": eta, "mu": ones(()).clone(), **zeros_for(param, "ax")}

    def _update(self, param: Tensor, grad: Tensor, state: State, group: ParamGroup) -> Tensor:
        lr, lambd, step = group.live("lr"), group.number("lambd"), state["step"].cast("float64")
        eta, mu = state["eta"].cast("float64").reshape(1), like(state["mu"].reshape(1), param)
        new = param * like(1 - lambd * eta, param) - like(eta, param) * grad
        mean = state["ax"]
        moved(state, "ax", (mu == 1).where(new, mean + (new - mean) * mu))
        moved(state, "eta", (lr / (1 + lambd * lr * step) ** group.number("alpha")).reshape(()))
        moved(state, "mu", (1 / (step - group.number("t0")).maximum(1.0)).reshape(()))
        return new


class Rprop(Optimizer):
    """A step of each element against the sign of its gradient. Its length, lr at first, grows by etas[1] while the sign
    stays and shrinks by etas[0], without a step, where it changes, within step_sizes."""

    def __init__(self, params: Params, lr: float = 1e-2, etas: tuple[float, float] = (0.5, 1.2),
                 step_sizes: tuple[float, float] = (1e-6, 50.0), *, maximize: bool = False, **how: Any) -> None:
        super().__init__(params, dict(lr=lr, etas=etas, step_sizes=step_sizes, maximize=maximize), how)

    def _new_state(self, param: Tensor, group: ParamGroup) -> State:
        length = full(tuple(param.shape), float(group["lr"]), dtype=param.dtype)
        return {**zeros_for(param, "prev"), "step_size": length.clone()}

    def _update(self, param: Tensor, grad: Tensor, state: State, group: ParamGroup) -> Tensor:
        shrink, grow = group.option("etas")
        least, most = group.option("step_sizes")
        agreement = grad * state["prev"]
        factor = (agreement > 0).where(grow, (agreement < 0).where(shrink, 1.0))
        length = moved(state, "step_size", (state["step_size"] * factor).clamp(least, most))
        grad = (agreement < 0).where(0.0, grad)
        moved(state, "prev", grad)
        return param - grad.sign() * length
