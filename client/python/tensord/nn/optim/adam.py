"""Optimisers that divide an average of the gradients by the root of an average of their squares."""

from __future__ import annotations

from typing import Any

from _tensord import Tensor

from tensord.creation import ones
from tensord.errors import InvalidArgumentError
from tensord.nn.optim.group import ParamGroup
from tensord.nn.optim.optimizer import Optimizer, Params, State, averaged, betas, like, moved, zeros_for

Betas = tuple[float, float]


def _averages(param: Tensor, grad: Tensor, state: State, group: ParamGroup) -> tuple[Tensor, Tensor]:
    """The averages of gradient and square, after they have taken this one in."""
    beta1, beta2 = group.live("betas", 0), group.live("betas", 1)
    mean = averaged(state, "exp_avg", grad, like(beta1, param), like(1 - beta1, param))
    square = averaged(state, "exp_avg_sq", grad * grad, like(beta2, param), like(1 - beta2, param))
    return mean, square


def _decayed(param: Tensor, group: ParamGroup) -> Tensor:
    """Smaller by the decoupled weight decay."""
    decay = group.number("weight_decay")
    return param * like(1 - group.live("lr") * decay, param) if decay else param


class Adam(Optimizer):
    """p - lr * m / (sqrt(v) + eps), where m and v are averages of g and g * g, corrected for having begun at zero. With
    amsgrad v is the largest so far. Weight decay is part of the gradient."""

    def __init__(self, params: Params, lr: float = 1e-3, betas: Betas = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0.0, amsgrad: bool = False, *, maximize: bool = False,
                 decoupled_weight_decay: bool = False, **how: Any) -> None:
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad,
                                      maximize=maximize, decoupled_weight_decay=decoupled_weight_decay), how)

    def _new_state(self, param: Tensor, group: ParamGroup) -> State:
        more = ["max_exp_avg_sq"] * bool(group.option("amsgrad"))
        return zeros_for(param, "exp_avg", "exp_avg_sq", *more)

    def _update(self, param: Tensor, grad: Tensor, state: State, group: ParamGroup) -> Tensor:
        if group.option("decoupled_weight_decay"):
            param = _decayed(param, group)
        mean, square = _averages(param, grad, state, group)
        if group.option("amsgrad"):
            square = moved(state, "max_exp_avg_sq", state["max_exp_avg_sq"].maximum(square))
        _, _, correction1, correction2 = betas(group, state)
        root = square.sqrt() * like(correction2.rsqrt(), param) + group.number("eps")
        return param - like(group.live("lr") / correction1, param) * mean / root


class SparseAdam(Optimizer):
    """Adam of those rows alone whose gradient is not zero: the others, and their averages, stay as they are. For tables
    of which a step looks up few rows. Gradients are dense here, so a row that was looked up and has a gradient of zero
    counts as one that was not."""

    def __init__(self, params: Params, lr: float = 1e-3, betas: Betas = (0.9, 0.999), eps: float = 1e-8,
                 maximize: bool = False) -> None:
        if isinstance(eps, (int, float)) and eps <= 0:
            raise InvalidArgumentError(f"SparseAdam: eps is {eps}; it must be positive")
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, maximize=maximize))

    def _new_state(self, param: Tensor, group: ParamGroup) -> State:
        return zeros_for(param, "exp_avg", "exp_avg_sq")

    def _update(self, param: Tensor, grad: Tensor, state: State, group: ParamGroup) -> Tensor:
        row: Tensor = (grad != 0).any(tuple(range(1, grad.ndim)), True) if grad.ndim > 1 else grad != 0
        beta1, beta2, correction1, correction2 = betas(group, state)
        for name, value, beta in (("exp_avg", grad, beta1), ("exp_avg_sq", grad * grad, beta2)):
            average = state[name] * like(beta, param) + value * like(1 - beta, param)
            moved(state, name, row.where(average, state[name]))
        rate = like(group.live("lr") * correction2.sqrt() / correction1, param)
        change = rate * state["exp_avg"] / (state["exp_avg_sq"].sqrt() + group.number("eps"))
        return row.where(param - change, param)


class AdamW(Adam):
    """Adam whose weight decay makes the parameter smaller by lr * weight_decay, apart from the gradient."""

    def __init__(self, params: Params, lr: float = 1e-3, betas: Betas = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False, **how: Any) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize, decoupled_weight_decay=True,
                         **how)


class LAMB(Optimizer):
    """Adam with a decoupled weight decay, whose update is scaled for each parameter by |p| / |update| where neither is
    zero; with `adam` it is not."""

    _decoupled = True

    def __init__(self, params: Params, lr: float = 1e-3, betas: Betas = (0.9, 0.999), eps: float = 1e-6,
                 weight_decay: float = 0.0, adam: bool = False, *, maximize: bool = False, **how: Any) -> None:
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, adam=adam,
                                      maximize=maximize), how)

    def _new_state(self, param: Tensor, group: ParamGroup) -> State:
        return zeros_for(param, "exp_avg", "exp_avg_sq")

    def _update(self, param: Tensor, grad: Tensor, state: State, group: ParamGroup) -> Tensor:
        mean, square = _averages(param, grad, state, group)
        _, _, correction1, correction2 = betas(group, state)
        root = (square / like(correction2, param)).sqrt() + group.number("eps")
        update = mean / like(correction1, param) / root + param * group.number("weight_decay")
        if not group.option("adam"):
            size, length = param.square().sum().sqrt(), update.square().sum().sqrt()
            update = update * ((size > 0) & (length > 0)).where(size / length, 1.0)
        return param - like(group.live("lr"), param) * update


class Adamax(Optimizer):
    """Adam with the largest |g|, which fades by beta2, in place of the root of v."""

    def __init__(self, params: Params, lr: float = 2e-3, betas: Betas = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0.0, *, maximize: bool = False, **how: Any) -> None:
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, maximize=maximize), how)

    def _new_state(self, param: Tensor, group: ParamGroup) -> State:
        return zeros_for(param, "exp_avg", "exp_inf")

    def _update(self, param: Tensor, grad: Tensor, state: State, group: ParamGroup) -> Tensor:
        beta1, beta2, correction1, _ = betas(group, state)
        mean = averaged(state, "exp_avg", grad, like(beta1, param), like(1 - beta1, param))
        largest = (state["exp_inf"] * like(beta2, param)).maximum(grad.abs() + group.number("eps"))
        largest = moved(state, "exp_inf", largest)
        return param - like(group.live("lr") / correction1, param) * mean / largest


class NAdam(Optimizer):
    """Adam with Nesterov's momentum, which grows from beta1 / 2 to beta1 at a pace of momentum_decay."""

    def __init__(self, params: Params, lr: float = 2e-3, betas: Betas = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0.0, momentum_decay: float = 4e-3, decoupled_weight_decay: bool = False, *,
                 maximize: bool = False, **how: Any) -> None:
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay,
                                      momentum_decay=momentum_decay, decoupled_weight_decay=decoupled_weight_decay,
                                      maximize=maximize), how)

    def _new_state(self, param: Tensor, group: ParamGroup) -> State:
        return {"mu_product": ones(()).clone(), **zeros_for(param, "exp_avg", "exp_avg_sq")}

    def _update(self, param: Tensor, grad: Tensor, state: State, group: ParamGroup) -> Tensor:
        if group.option("decoupled_weight_decay"):
            param = _decayed(param, group)
        beta1, _, _, correction2 = betas(group, state)
        step, decay, lr = state["step"].cast("float64"), group.number("momentum_decay"), group.live("lr")

        def momentum(step: Tensor) -> Tensor:
            return beta1 * (1 - 0.5 * (step * decay).pow(0.96, reverse=True))

        now, following = momentum(step), momentum(step + 1)
        product = (state["mu_product"].cast("float64") * now).reshape(1)
        moved(state, "mu_product", product.reshape(()))
        mean, square = _averages(param, grad, state, group)
        root = (square / like(correction2, param)).sqrt() + group.number("eps")
        by_grad, by_mean = lr * (1 - now) / (1 - product), lr * following / (1 - product * following)
        return param - like(by_grad, param) * grad / root - like(by_mean, param) * mean / root


class RAdam(Optimizer):
    """Adam that divides by the root of v only once enough steps make it reliable, and then less at first."""

    def __init__(self, params: Params, lr: float = 1e-3, betas: Betas = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0.0, decoupled_weight_decay: bool = False, *, maximize: bool = False,
                 **how: Any) -> None:
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay,
                                      decoupled_weight_decay=decoupled_weight_decay, maximize=maximize), how)

    def _new_state(self, param: Tensor, group: ParamGroup) -> State:
        return zeros_for(param, "exp_avg", "exp_avg_sq")

    def _update(self, param: Tensor, grad: Tensor, state: State, group: ParamGroup) -> Tensor:
        if group.option("decoupled_weight_decay"):
            param = _decayed(param, group)
        mean, square = _averages(param, grad, state, group)
        _, beta2, correction1, correction2 = betas(group, state)
        last = 2 / (1 - beta2) - 1
        length = last - 2 * state["step"].cast("float64") * (1 - correction2) / correction2
        # Of a length up to 4 the root does not exist; it isn't used up to 5.
        safe = length.maximum(5.0)
        rectified = ((safe - 4) * (safe - 2) * last / ((last - 4) * (last - 2) * safe)).sqrt() * correction2.sqrt()
        adaptive = like(rectified, param) / (square.sqrt() + group.number("eps"))
        reliable = (length > 5).reshape(*([1] if param.ndim else []))
        return param - like(group.live("lr") / correction1, param) * mean * reliable.where(adaptive, 1.0)
