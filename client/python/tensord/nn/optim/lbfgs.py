"""L-BFGS. It decides by values of the loss, so it runs from here, not inside a captured function."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn, Optional

from _tensord import Tensor, is_capturing, realize

from tensord.autograd import enable_grad
from tensord.errors import FailedPreconditionError, InvalidArgumentError, UnimplementedError
from tensord.nn.optim.optimizer import Optimizer, Params


class _Point(NamedTuple):
    """On a line: how far along, the loss there, its gradient, and its slope along the line."""

    t: float
    loss: float
    grad: Tensor
    slope: float


class LBFGS(Optimizer):
    """Quasi-Newton steps from the last history_size differences of gradients: step(closure), where the closure clears
    the gradients, computes them, and returns the loss. A step takes up to max_iter iterations and max_eval (max_iter * 5 /
    4) calls of the closure. line_search_fn is None, which goes lr along each direction, or "strong_wolfe".

    All parameters are one group.
    """

    def __init__(self, params: Params, lr: float = 1.0, max_iter: int = 20, max_eval: Optional[int] = None,
                 tolerance_grad: float = 1e-7, tolerance_change: float = 1e-9, history_size: int = 100,
                 line_search_fn: Optional[str] = None) -> None:
        if line_search_fn not in (None, "strong_wolfe"):
            raise InvalidArgumentError(f"LBFGS: line_search_fn is 'strong_wolfe' or None, not '{line_search_fn}'")
        super().__init__(params, dict(
            lr=lr, max_iter=max_iter, max_eval=max_iter * 5 // 4 if max_eval is None else max_eval,
            tolerance_grad=tolerance_grad, tolerance_change=tolerance_change, history_size=history_size,
            line_search_fn=line_search_fn, maximize=False))
        if len(self.param_groups) != 1:
            raise InvalidArgumentError(f"LBFGS: {len(self.param_groups)} groups of parameters; it takes one")
        self.history: list[tuple[Tensor, Tensor]] = []  # changes of gradient and parameters
        self.iterations = 0
        self.scale = 1.0  # of the first guess of the inverse Hessian
        self._last: Optional[tuple[Tensor, Tensor, float]] = None  # direction, gradient, step size

    def _counts(self, group: Any) -> bool:
        return False

    def schedule_step(self) -> NoReturn:
        """Always raises: the step reads the loss to know how far to go."""
        raise UnimplementedError("LBFGS: a step reads the loss on its way, so it cannot be put off; call step(closure)")

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        if closure is None:
            raise InvalidArgumentError("LBFGS: step needs a closure that computes the loss and its gradients")
        if is_capturing():
            raise FailedPreconditionError("LBFGS: its steps depend on the loss, so they can't be captured; capture the "
                                          "closure instead")
        group, calls = self.param_groups[0], 0

        def evaluate() -> tuple[Any, float, Tensor]:
            nonlocal calls
            calls += 1
            with enable_grad():
                loss = closure()
            return loss, float(loss), self._flat_grad()

        first, loss, grad = evaluate()
        if _largest(grad) <= group["tolerance_grad"]:
            return first
        for iteration in range(1, group["max_iter"] + 1):
            self.iterations += 1
            direction = self._direction(grad)
            before, slope = loss, _dot(grad, direction)
            t = group["lr"] * (min(1.0, 1 / float(grad.abs().sum())) if self.iterations == 1 else 1.0)
            self._last = direction, grad, t
            if slope > -group["tolerance_change"]:
                break
            start = [param.detach().clone().realize() for param in self.params]
            if group["line_search_fn"]:
                def at(t: float) -> _Point:
                    self._go(start, direction, t)
                    _, loss, grad = evaluate()
                    return _Point(t, loss, grad, _dot(grad, direction))

                t, loss, grad, _ = _strong_wolfe(at, _Point(0.0, loss, grad, slope), t, _largest(direction))
                self._go(start, direction, t)
            else:
                self._go(start, direction, t)
                if iteration < group["max_iter"]:
                    _, loss, grad = evaluate()
            self._last = direction, self._last[1], t
            if (calls >= group["max_eval"] or _largest(grad) <= group["tolerance_grad"]
                    or _largest(direction) * abs(t) <= group["tolerance_change"]
                    or abs(loss - before) < group["tolerance_change"]):
                break
        return first

    def _flat_grad(self) -> Tensor:
        parts = [param.detach() * 0 if param.grad is None else param.grad.detach() for param in self.params]
        return Tensor.cat([part.reshape(-1) for part in parts]).clone().realize()

    def _go(self, start: list[Tensor], direction: Tensor, t: float) -> None:
        """To start + t * direction."""
        at = 0
        for param, value in zip(self.params, start):
            part = direction[at:at + value.numel()].reshape(*value.shape)
            param.assign((value + part * t).cast(param.dtype))
            at += value.numel()
        realize(self.params)

    def _direction(self, grad: Tensor) -> Tensor:
        """Against the gradient, times what the history says about the inverse Hessian."""
        if self._last is not None:
            direction, before, t = self._last
            change, moved = (grad - before).realize(), (direction * t).realize()
            curvature = _dot(change, moved)
            if curvature > 1e-10:
                self.history = [*self.history, (change, moved)][-self.param_groups[0]["history_size"]:]
                self.scale = curvature / _dot(change, change)
        q = -grad
        shares = []
        for change, moved in reversed(self.history):
            share = (moved * q).sum() / (change * moved).sum()
            shares.append(share)
            q = q - change * share
        q = q * self.scale
        for (change, moved), share in zip(self.history, reversed(shares)):
            q = q + moved * (share - (change * q).sum() / (change * moved).sum())
        return q.realize()

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "history": list(self.history), "iterations": self.iterations,
                "scale": self.scale, "last": self._last}

    def load_state_dict(self, state_dict: Any) -> None:
        if "history" not in state_dict:
            raise InvalidArgumentError("LBFGS: this is no state_dict() of tensord's LBFGS")
        super().load_state_dict(state_dict)
        self.history, self.iterations = list(state_dict["history"]), state_dict["iterations"]
        self.scale, self._last = state_dict["scale"], state_dict["last"]


def _dot(a: Tensor, b: Tensor) -> float:
    return float((a * b).sum())


def _largest(x: Tensor) -> float:
    return float(x.abs().max())


def _cubic(a: _Point, b: _Point, least: float, most: float) -> float:
    """Where the cubic with these values and slopes is smallest, within bounds."""
    low, high = (a, b) if a.t <= b.t else (b, a)
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square = d1 * d1 - a.slope * b.slope
    if square < 0:
        return (least + most) / 2
    d2 = math.sqrt(square)
    if high.slope - low.slope + 2 * d2 == 0:
        return (least + most) / 2
    t = high.t - (high.t - low.t) * ((high.slope + d2 - d1) / (high.slope - low.slope + 2 * d2))
    return min(max(t, least), most)


def _strong_wolfe(at: Callable[[float], _Point], start: _Point, t: float, reach: float, c1: float = 1e-4,
                  c2: float = 0.9, tolerance: float = 1e-9, limit: int = 25) -> _Point:
    """A point with enough descent (c1) and a slope that is flat enough (c2). `reach`: the direction's largest element."""
    def too_high(point: _Point) -> bool:
        return point.loss > start.loss + c1 * point.t * start.slope

    def flat(point: _Point) -> bool:
        return abs(point.slope) <= -c2 * start.slope

    # Goes on until such points lie between two.
    before, now = start, at(t)
    for count in range(limit):
        if too_high(now) or (count > 1 and now.loss >= before.loss) or (not flat(now) and now.slope >= 0):
            break
        if flat(now):
            return now
        following = _cubic(before, now, now.t + 0.01 * (now.t - before.t), now.t * 10)
        before, now = now, at(following)
    else:
        return min(start, now, key=lambda point: point.loss)
    # Then makes the distance smaller. `low` has the smaller loss.
    low, high = (before, now) if before.loss <= now.loss else (now, before)
    stuck = False
    for _ in range(count, limit):
        if abs(high.t - low.t) * reach < tolerance:
            break
        least, most = sorted((low.t, high.t))
        t = _cubic(low, high, least, most)
        margin = 0.1 * (most - least)
        if min(most - t, t - least) < margin:
            # Near a border twice, or on it: a little away from it.
            away = stuck or t >= most or t <= least
            if away:
                t = most - margin if abs(t - most) < abs(t - least) else least + margin
            stuck = not away
        else:
            stuck = False
        now = at(t)
        if too_high(now) or now.loss >= low.loss:
            high = now
            if high.loss < low.loss:
                low, high = high, low
        else:
            if flat(now):
                return now
            if now.slope * (high.t - low.t) >= 0:
                high = low
            low = now
    return low
