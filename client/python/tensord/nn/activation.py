"""Activations as modules. All take any shape, unless they say otherwise.

`inplace` changes nothing: the input keeps its values, and memory is the compiler's matter.
"""

from __future__ import annotations

from typing import Optional

from _tensord import Tensor

from tensord.dtypes import DTypeLike
from tensord.nn import functional as F, init
from tensord.nn.module import Module
from tensord.nn.parameter import empty_parameter


class _Activation(Module):
    """One whose arguments are attributes, shown by name in this order."""

    _shown_arguments: tuple[str, ...] = ()
    inplace = False

    def extra_repr(self) -> str:
        shown = [f"{name}={getattr(self, name)}" for name in self._shown_arguments]
        return ", ".join(shown + ["inplace=True"] * self.inplace)


class _InPlace(_Activation):
    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


class ReLU(_InPlace):
    """max(x, 0)"""

    def forward(self, input: Tensor) -> Tensor:
        return input.relu()


class ReLU6(_InPlace):
    """x limited to [0, 6]"""

    def forward(self, input: Tensor) -> Tensor:
        return input.relu6()


class SiLU(_InPlace):
    """x * sigmoid(x)"""

    def forward(self, input: Tensor) -> Tensor:
        return input.silu()


class Mish(_InPlace):
    """x * tanh(log(1 + exp(x)))"""

    def forward(self, input: Tensor) -> Tensor:
        return input.mish()


class Hardswish(_InPlace):
    """x * hardsigmoid(x)"""

    def forward(self, input: Tensor) -> Tensor:
        return input.hardswish()


class Hardsigmoid(_InPlace):
    """x / 6 + 1 / 2 limited to [0, 1]"""

    def forward(self, input: Tensor) -> Tensor:
        return input.hardsigmoid()


class SELU(_InPlace):
    """ELU scaled so that normal inputs stay normal."""

    def forward(self, input: Tensor) -> Tensor:
        return input.selu()


class Sigmoid(_Activation):
    """1 / (1 + exp(-x))"""

    def forward(self, input: Tensor) -> Tensor:
        return input.sigmoid()


class LogSigmoid(_Activation):
    """log(sigmoid(x))"""

    def forward(self, input: Tensor) -> Tensor:
        return input.logsigmoid()


class Tanh(_Activation):
    """tanh(x)"""

    def forward(self, input: Tensor) -> Tensor:
        return input.tanh()


class Tanhshrink(_Activation):
    """x - tanh(x)"""

    def forward(self, input: Tensor) -> Tensor:
        return input.tanhshrink()


class Softsign(_Activation):
    """x / (1 + |x|)"""

    def forward(self, input: Tensor) -> Tensor:
        return input.softsign()


class ELU(_Activation):
    """x where positive, else alpha * (exp(x) - 1)"""

    _shown_arguments = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input: Tensor) -> Tensor:
        return input.elu(self.alpha)


class CELU(_Activation):
    """x where positive, else alpha * (exp(x / alpha) - 1)"""

    _shown_arguments = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input: Tensor) -> Tensor:
        return input.celu(self.alpha)


class LeakyReLU(_Activation):
    """x where positive, else x * negative_slope"""

    _shown_arguments = ("negative_slope",)

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope, self.inplace = negative_slope, inplace

    def forward(self, input: Tensor) -> Tensor:
        return input.leaky_relu(self.negative_slope)


class Hardtanh(_Activation):
    """x limited to [min_val, max_val]"""

    _shown_arguments = ("min_val", "max_val")

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.min_val, self.max_val, self.inplace = min_val, max_val, inplace

    def forward(self, input: Tensor) -> Tensor:
        return input.hardtanh(self.min_val, self.max_val)


class Threshold(_Activation):
    """x where above the threshold, else the value"""

    _shown_arguments = ("threshold", "value")

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold, self.value, self.inplace = threshold, value, inplace

    def forward(self, input: Tensor) -> Tensor:
        return input.threshold(self.threshold, self.value)


class RReLU(_Activation):
    """x where positive, else x times a slope: in training drawn from [lower, upper], else their mean"""

    _shown_arguments = ("lower", "upper")

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input: Tensor) -> Tensor:
        return input.rrelu(self.lower, self.upper, self.training)


class GELU(_Activation):
    """x times the normal distribution's share below x: exactly, or by approximate="tanh" nearly"""

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return F.gelu(input, self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class Softplus(_Activation):
    """log(1 + exp(beta x)) / beta, and x itself where beta x is above the threshold"""

    _shown_arguments = ("beta", "threshold")

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, input: Tensor) -> Tensor:
        return F.softplus(input, self.beta, self.threshold)


class _Shrink(_Activation):
    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        return str(self.lambd)


class Hardshrink(_Shrink):
    """x, but 0 in [-lambd, lambd]"""

    def forward(self, input: Tensor) -> Tensor:
        return input.hardshrink(self.lambd)


class Softshrink(_Shrink):
    """x moved towards 0 by lambd, and 0 in [-lambd, lambd]"""

    def forward(self, input: Tensor) -> Tensor:
        return input.softshrink(self.lambd)


class PReLU(Module):
    """x where positive, else x * weight; weight [1], or [channels] for the channels, axis 1."""

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Optional[str] = None,
                 dtype: Optional[DTypeLike] = None) -> None:
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = empty_parameter(num_parameters, dtype=dtype, device=device)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        return input.prelu(self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class GLU(_Activation):
    """Half of the axis `dim` times the sigmoid of the other half: that axis gets half as long."""

    _shown_arguments = ("dim",)

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return input.glu(self.dim)


def _implied(dim: Optional[int], input: Tensor) -> int:
    """PyTorch's axis where none is given."""
    return dim if dim is not None else 0 if input.ndim in (0, 1, 3) else 1


class _Softmax(_Activation):
    _shown_arguments = ("dim",)

    def __init__(self, dim: Optional[int] = None) -> None:
        super().__init__()
        self.dim = dim


class Softmax(_Softmax):
    """exp(x) over its sum along `dim`"""

    def forward(self, input: Tensor) -> Tensor:
        return input.softmax(_implied(self.dim, input))


class LogSoftmax(_Softmax):
    """log(softmax(x))"""

    def forward(self, input: Tensor) -> Tensor:
        return input.log_softmax(_implied(self.dim, input))


class Softmin(_Softmax):
    """softmax(-x)"""

    def forward(self, input: Tensor) -> Tensor:
        return input.softmin(_implied(self.dim, input))


class Softmax2d(Module):
    """softmax over the channels of [batch, channels, height, width], or without batch."""

    def forward(self, input: Tensor) -> Tensor:
        return F.softmax2d(input)
