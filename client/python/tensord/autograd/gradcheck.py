"""Whether derivatives are right: compared with differences of the values, as torch.autograd.gradcheck does.

    x = tensord.rand(3, dtype="float64", requires_grad=True)
    assert gradcheck(tensord.sin, (x,))
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

from _tensord import Tensor

from tensord.autograd.modes import enable_grad, no_grad
from tensord.errors import InvalidArgumentError, TensordError

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]


class GradcheckError(TensordError, RuntimeError):
    """A derivative is not what differences say."""


def _floats(result: Any) -> list[Tensor]:
    """The results that have derivatives."""
    results = [result] if isinstance(result, Tensor) else list(result)
    return [x for x in results if isinstance(x, Tensor) and x.dtype.is_floating_point]


class _Check:
    """A function at its inputs. Jacobians are arrays [elements of the input, elements of the output]."""

    def __init__(self, func: Callable[..., Any], inputs: Sequence[Any], eps: float) -> None:
        self.func, self.inputs, self.eps = func, list(inputs), eps
        self.places = [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]
        if not self.places:
            raise InvalidArgumentError("gradcheck: no input requires a gradient")
        for i in self.places:
            if self.inputs[i].dtype != "float64":
                warnings.warn(f"gradcheck: input {i} is {self.inputs[i].dtype}; differences of less than float64 are mostly "
                              "too inexact", stacklevel=4)
        self.wanted: list[Tensor] = [self.inputs[i] for i in self.places]
        with enable_grad():
            self.outs = self.call(self.inputs)

    def call(self, inputs: Sequence[Any]) -> list[Tensor]:
        return _floats(self.func(*inputs))

    def numerical(self) -> list[list[Array]]:
        """By output and input: differences from eps before to eps after."""
        import numpy as np

        blocks: list[list[Array]] = [[] for _ in self.outs]
        with no_grad():
            for place, x in zip(self.places, self.wanted):
                unit = np.eye(x.numel()).reshape(x.numel(), *x.shape) * self.eps
                moved: list[list[Tensor]] = []
                for step in unit:
                    ends = []
                    for sign in 1, -1:
                        inputs = list(self.inputs)
                        inputs[place] = x.detach() + Tensor(sign * step).cast(x.dtype)
                        ends.append(self.call(inputs))
                    moved.append([(after - before) / (2 * self.eps) for after, before in zip(*ends)])
                for k, out in enumerate(self.outs):
                    rows = Tensor.stack([row[k] for row in moved]).numpy() if moved else np.zeros((0, *out.shape))
                    blocks[k].append(rows.reshape(x.numel(), out.numel()))
        return blocks

    def analytical(self) -> list[list[Array]]:
        """The same by a product of the Jacobian with each unit."""
        import numpy as np

        blocks: list[list[Array]] = []
        for out in self.outs:
            units = np.eye(out.numel()).reshape(out.numel(), *out.shape)
            made = [self._pulled(out, Tensor(unit).cast(out.dtype)) for unit in units]
            blocks.append([(Tensor.stack([row[k] for row in made]).numpy() if made else np.zeros((0, *x.shape)))
                           .reshape(out.numel(), x.numel()).T for k, x in enumerate(self.wanted)])  # fmt: skip
        return blocks

    def _pulled(self, out: Tensor, seed: Tensor) -> list[Tensor]:
        gradients = out.gradient(*self.wanted, gradient=seed)
        for place, x, gradient in zip(self.places, self.wanted, gradients):
            if gradient.shape != x.shape:
                raise GradcheckError(f"gradcheck: the gradient by input {place} has shape {list(gradient.shape)}, the input "
                                     f"{list(x.shape)}")
        return gradients

    def batched(self) -> list[list[Array]]:
        """The same by vmap over all units."""
        from tensord.func import _unit_rows, vmap

        blocks = []
        for out in self.outs:
            rows = vmap(lambda seed, out=out: tuple(self._pulled(out, seed)))(_unit_rows(out.detach()))
            blocks.append([row.numpy().reshape(out.numel(), x.numel()).T for row, x in zip(rows, self.wanted)])
        return blocks

    def forward(self) -> list[list[Array]]:
        """The same by products of the Jacobian with directions."""
        import numpy as np

        from tensord.func import _unit_rows, jvp

        def at(*wanted: Tensor) -> tuple[Tensor, ...]:
            inputs = list(self.inputs)
            for place, x in zip(self.places, wanted):
                inputs[place] = x
            return tuple(self.call(inputs))

        blocks: list[list[Array]] = [[] for _ in self.outs]
        for k, x in enumerate(self.wanted):
            rows = []
            for unit in _unit_rows(x.detach()):
                directions = tuple(unit if i == k else other.detach() * 0 for i, other in enumerate(self.wanted))
                rows.append(jvp(at, tuple(self.wanted), directions)[1])
            for j, out in enumerate(self.outs):
                columns = Tensor.stack([row[j] for row in rows]).numpy() if rows else np.zeros((0, *out.shape))
                blocks[j].append(columns.reshape(x.numel(), out.numel()))
        return blocks

    def is_same_again(self, tolerance: float) -> bool:
        return all(bool(((a - b).abs() <= tolerance).all().item() or (a.isnan() & b.isnan()).all().item())
                   for a, b in zip(self.outs, self.call(self.inputs)))


def gradcheck(func: Callable[..., Any], inputs: Union[Tensor, Sequence[Any]], *, eps: float = 1e-6, atol: float = 1e-5,
              rtol: float = 1e-3, raise_exception: bool = True, nondet_tol: float = 0.0, check_undefined_grad: bool = True,
              check_grad_dtypes: bool = False, check_batched_grad: bool = False, check_batched_forward_grad: bool = False,
              check_forward_ad: bool = False, check_backward_ad: bool = True, fast_mode: bool = False,
              masked: Optional[bool] = None) -> bool:
    """Whether the derivatives of func(*inputs), by those inputs that require a gradient, are differences over 2 * eps, up
    to atol + rtol * difference. They should be float64. GradcheckError says where they are not; False with
    raise_exception=False.

    check_batched_grad also takes them by vmap, check_forward_ad (and check_batched_forward_grad, which is the same here) by
    func.jvp. nondet_tol is how far a second call of func may be from the first. All elements are compared: fast_mode changes
    nothing, nor do check_undefined_grad and check_grad_dtypes, because gradients are always there and of their inputs' dtype;
    masked is of sparse tensors.
    """
    listed = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    try:
        check = _Check(func, listed, eps)
        if not check.is_same_again(nondet_tol):
            raise GradcheckError("gradcheck: the function gives something else when it is called again, so differences mean "
                                 "nothing; draw random numbers outside of it")
        expected = check.numerical()
        ways: list[tuple[str, Callable[[], list[list[Array]]]]] = []
        if check_backward_ad:
            ways.append(("the gradient", check.analytical))
        if check_batched_grad:
            ways.append(("the gradient by vmap", check.batched))
        if check_forward_ad or check_batched_forward_grad:
            ways.append(("the derivative by jvp", check.forward))
        for name, way in ways:
            _compare(name, way(), expected, check.places, atol, rtol)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _compare(name: str, blocks: list[list[Array]], expected: list[list[Array]], places: list[int], atol: float,
             rtol: float) -> None:
    import numpy as np

    for k, (row, expected_row) in enumerate(zip(blocks, expected)):
        for place, made, difference in zip(places, row, expected_row):
            if not np.allclose(made, difference, rtol, atol, equal_nan=True):
                raise GradcheckError(f"gradcheck: {name} of output {k} by input {place} is not what differences say.\n"
                                     f"differences:\n{difference}\n{name}:\n{made}")


def gradgradcheck(func: Callable[..., Any], inputs: Union[Tensor, Sequence[Any]],
                  grad_outputs: Union[Tensor, Sequence[Tensor], None] = None, *, eps: float = 1e-6, atol: float = 1e-5,
                  rtol: float = 1e-3, gen_non_contig_grad_outputs: bool = False, raise_exception: bool = True,
                  nondet_tol: float = 0.0, check_undefined_grad: bool = True, check_grad_dtypes: bool = False,
                  check_batched_grad: bool = False, check_fwd_over_rev: bool = False, check_rev_over_rev: bool = True,
                  fast_mode: bool = False, masked: bool = False) -> bool:
    """gradcheck of the gradients of `func`, by its inputs and by what its results are weighted with: grad_outputs, or
    normal random numbers. Options as there; tensors have no strides, so gen_non_contig_grad_outputs changes nothing.
    """
    from tensord.autograd import gradient
    from tensord.random import randn_like

    listed = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    outs = _Check(func, listed, eps).outs
    if grad_outputs is None:
        weights = [randn_like(out.detach()).realize().requires_grad_() for out in outs]
    else:
        weights = [grad_outputs] if isinstance(grad_outputs, Tensor) else list(grad_outputs)
    if [list(x.shape) for x in weights] != [list(x.shape) for x in outs]:
        raise InvalidArgumentError(f"gradgradcheck: grad_outputs have shapes {[list(x.shape) for x in weights]}, the results "
                                   f"{[list(x.shape) for x in outs]}")
    wanted = [i for i, x in enumerate(listed) if isinstance(x, Tensor) and x.requires_grad]

    def gradients(*args: Any) -> tuple[Tensor, ...]:
        with enable_grad():
            made = _floats(func(*args[:len(listed)]))
            return tuple(gradient(made, [args[i] for i in wanted], args[len(listed):]))

    return gradcheck(gradients, [*listed, *weights], eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception,
                     nondet_tol=nondet_tol, check_batched_grad=check_batched_grad, check_forward_ad=check_fwd_over_rev,
                     check_backward_ad=check_rev_over_rev)


__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]
