"""Optimisers. step() inside a captured function becomes part of its program; elsewhere it runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Union

from _tensord import Tensor, is_capturing, realize

from tensord.creation import full, zeros_like
from tensord.errors import FailedPreconditionError, InvalidArgumentError


class Optimizer:
    """What optimisers share: parameters and a learning rate that lives on the device, so that
    changing it needs no other program."""

    def __init__(self, params: Iterable[Tensor], lr: float) -> None:
        self.params: list[Tensor] = list(params)
        if not self.params:
            raise InvalidArgumentError("an optimiser needs parameters; see nn.state.get_parameters")
        for i, param in enumerate(self.params):
            if not param.requires_grad:
                raise InvalidArgumentError(f"parameter {i}, {param!r}, has no requires_grad")
        if lr < 0:
            raise InvalidArgumentError(f"the learning rate {lr} is negative")
        self._lr: Tensor = full((1,), float(lr)).clone()

    @property
    def lr(self) -> Tensor:
        """One element; assign a number or a tensor to change it."""
        return self._lr

    @lr.setter
    def lr(self, value: Union[float, Tensor]) -> None:
        # As data: a number in the program would make another program of each.
        self._lr.assign(value if isinstance(value, Tensor) else Tensor([float(value)]))

    def zero_grad(self) -> None:
        for param in self.params:
            param.grad = None

    def step(self) -> None:
        """Updates the parameters by their gradients."""
        for i, param in enumerate(self.params):
            if param.grad is None:
                raise FailedPreconditionError(
                    f"parameter {i}, {param!r}, has no gradient: call backward() first")
        self._update()
        if not is_capturing():
            # Together with the gradients, which would otherwise keep the old parameters alive.
            realize(self.params, self._state(), [p.grad for p in self.params if p.grad is not None])

    def _update(self) -> None:
        raise NotImplementedError

    def _state(self) -> list[Tensor]:
        return []


class SGD(Optimizer):
    """Stochastic gradient descent, with PyTorch's momentum."""

    def __init__(self, params: Iterable[Tensor], lr: float = 0.001, momentum: float = 0.0,
                 weight_decay: float = 0.0, nesterov: bool = False) -> None:
        super().__init__(params, lr)
        if momentum < 0 or weight_decay < 0:
            raise InvalidArgumentError(
                f"SGD: momentum {momentum} or weight decay {weight_decay} is negative")
        self.momentum, self.weight_decay, self.nesterov = momentum, weight_decay, nesterov
        self.velocity: list[Tensor] = [zeros_like(p).clone() for p in self.params] if momentum else []

    def _update(self) -> None:
        for i, param in enumerate(self.params):
            grad = param.grad
            assert grad is not None
            grad = grad.detach()
            if self.weight_decay:
                grad = grad + param.detach() * self.weight_decay
            if self.momentum:
                velocity = self.velocity[i]
                velocity.assign(velocity * self.momentum + grad)
                grad = grad + velocity * self.momentum if self.nesterov else velocity
            param.assign((param.detach() - self._lr * grad).cast(param.dtype))

    def _state(self) -> list[Tensor]:
        return self.velocity


class AdamW(Optimizer):
    """Adam with decoupled weight decay."""

    def __init__(self, params: Iterable[Tensor], lr: float = 0.001,
                 betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0.01) -> None:
        super().__init__(params, lr)
        if not (0 <= betas[0] < 1 and 0 <= betas[1] < 1):
            raise InvalidArgumentError(f"Adam: betas {betas} are not in [0, 1)")
        if weight_decay < 0:
            raise InvalidArgumentError(f"Adam: the weight decay {weight_decay} is negative")
        self.betas, self.eps, self.weight_decay = betas, eps, weight_decay
        # Powers of the betas, by which the first steps are corrected.
        self.power1: Tensor = full((1,), 1.0).clone()
        self.power2: Tensor = full((1,), 1.0).clone()
        self.mean: list[Tensor] = [zeros_like(p).clone() for p in self.params]
        self.square: list[Tensor] = [zeros_like(p).clone() for p in self.params]

    def _update(self) -> None:
        beta1, beta2 = self.betas
        self.power1.assign(self.power1 * beta1)
        self.power2.assign(self.power2 * beta2)
        step_size = self._lr / (1 - self.power1)
        correction = (1 - self.power2).rsqrt()
        for param, mean, square in zip(self.params, self.mean, self.square):
            grad, old = param.grad, param.detach()
            assert grad is not None
            grad = self._with_decay(grad.detach(), old)
            mean.assign(mean * beta1 + grad * (1 - beta1))
            square.assign(square * beta2 + grad * grad * (1 - beta2))
            new = self._decayed(old) - step_size * mean / (square.sqrt() * correction + self.eps)
            param.assign(new.cast(param.dtype))

    def _with_decay(self, grad: Tensor, param: Tensor) -> Tensor:
        return grad

    def _decayed(self, param: Tensor) -> Tensor:
        return param * (1 - self._lr * self.weight_decay) if self.weight_decay else param

    def _state(self) -> list[Tensor]:
        return [self.power1, self.power2, *self.mean, *self.square]


class Adam(AdamW):
    """Adam; the weight decay, if any, is part of the gradient."""

    def __init__(self, params: Iterable[Tensor], lr: float = 0.001,
                 betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0.0) -> None:
        super().__init__(params, lr, betas, eps, weight_decay)

    def _with_decay(self, grad: Tensor, param: Tensor) -> Tensor:
        return grad + param * self.weight_decay if self.weight_decay else grad

    def _decayed(self, param: Tensor) -> Tensor:
        return param
