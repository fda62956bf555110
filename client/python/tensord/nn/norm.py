"""Normalisation layers."""

from __future__ import annotations

from typing import Any, Optional

from _tensord import Tensor

from tensord.creation import ones, zeros
from tensord.dtypes import DTypeLike
from tensord.errors import InvalidArgumentError
from tensord.nn import functional as F, init
from tensord.nn.functional import Size
from tensord.nn.module import Module
from tensord.nn.parameter import Parameter, empty_parameter, placed


class _ByChannel(Module):
    """Weight and bias of each channel, and statistics that run along."""

    _ranks: tuple[int, ...] = ()  # of inputs; any if empty
    _without_batch = 0  # the rank of an input without batch, if that may be missing

    weight: Optional[Parameter]
    bias: Optional[Parameter]
    running_mean: Optional[Tensor]
    running_var: Optional[Tensor]
    num_batches_tracked: Optional[Tensor]

    def __init__(self, num_features: int, eps: float, momentum: Optional[float], affine: bool,
                 track_running_stats: bool, bias: bool, device: Optional[str], dtype: Optional[DTypeLike]) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        self.weight = empty_parameter(num_features, dtype=dtype, device=device) if affine else None
        self.bias = empty_parameter(num_features, dtype=dtype, device=device) if affine and bias else None
        # With memory of their own, which programs overwrite.
        buffers: dict[str, Optional[Tensor]] = {
            "running_mean": zeros(num_features, dtype=dtype), "running_var": ones(num_features, dtype=dtype),
            "num_batches_tracked": zeros((), dtype="int64"),
        }  # fmt: skip
        for name, value in buffers.items():
            self.register_buffer(name, placed(value, device).clone() if value is not None and track_running_stats
                                 else None)
        self._reset_affine()

    def reset_running_stats(self) -> None:
        """As if nothing had been seen."""
        for buffer, value in ((self.running_mean, 0), (self.running_var, 1), (self.num_batches_tracked, 0)):
            if buffer is not None:
                init.constant_(buffer, value)

    def _reset_affine(self) -> None:
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def reset_parameters(self) -> None:
        self.reset_running_stats()
        self._reset_affine()

    def _check(self, input: Tensor) -> None:
        if self._ranks and input.ndim not in self._ranks and input.ndim != self._without_batch:
            raise InvalidArgumentError(f"{type(self).__name__}: an input of shape {list(input.shape)}; it needs "
                                       f"{' or '.join(str(n) for n in self._ranks)} axes")
        axis = 0 if input.ndim == self._without_batch else 1
        if input.ndim <= axis or input.shape[axis] != self.num_features:
            raise InvalidArgumentError(f"{type(self).__name__}: an input of shape {list(input.shape)} for "
                                       f"{self.num_features} channels, which are axis {axis}")

    def extra_repr(self) -> str:
        return (f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
                f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}")


class BatchNorm(_ByChannel):
    """Normalises each channel (axis 1) of an input of any rank: in training by the batch, which also moves the running
    statistics, else by these. Without them always by the batch.

    momentum is the weight of the newest batch; None gives all batches the same. weight and bias [num_features].
    """

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: Optional[float] = 0.1, affine: bool = True,
                 track_running_stats: bool = True, device: Optional[str] = None, dtype: Optional[DTypeLike] = None, *,
                 bias: bool = True) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, bias, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        self._check(input)
        mean, var, count = self.running_mean, self.running_var, self.num_batches_tracked
        if not self.training and mean is not None and var is not None:
            return input.batch_norm(mean, var, self.weight, self.bias, self.eps)
        if mean is None or var is None:
            return F.batch_norm(input, None, None, self.weight, self.bias, True, eps=self.eps)
        F._more_than_one(type(self).__name__, input, [i for i in range(input.ndim) if i != 1], "for each channel")
        share: Any = self.momentum
        if count is not None:
            count.assign(count + 1)
            share = 1 / count.cast(mean.dtype) if share is None else share
        y, batch_mean, batch_var = input.batch_norm_train(self.weight, self.bias, self.eps)
        for running, now in ((mean, batch_mean), (var, batch_var)):
            running.assign((running * (1 - share) + now.detach() * share).cast(running.dtype))
        return y


class BatchNorm1d(BatchNorm):
    """BatchNorm of [batch, channels] or [batch, channels, length]."""

    _ranks = (2, 3)


class BatchNorm2d(BatchNorm):
    """BatchNorm of [batch, channels, height, width]."""

    _ranks = (4,)


class BatchNorm3d(BatchNorm):
    """BatchNorm of [batch, channels, depth, height, width]."""

    _ranks = (5,)


class SyncBatchNorm(BatchNorm):
    """BatchNorm by the statistics of the whole batch also where it is divided over devices. All BatchNorms do that here,
    so this one is of inputs of any rank from 2 on and has PyTorch's name; process_group is None, since one program runs
    on all devices."""

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: Optional[float] = 0.1, affine: bool = True,
                 track_running_stats: bool = True, process_group: None = None, device: Optional[str] = None,
                 dtype: Optional[DTypeLike] = None, *, bias: bool = True) -> None:
        if process_group is not None:
            raise InvalidArgumentError("SyncBatchNorm: there are no groups of processes; a batch is divided by "
                                       "Tensor.shard")
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: None = None) -> Module:
        """The module with a SyncBatchNorm, of the same tensors, for each BatchNorm in it; itself one if it is one."""
        made = module
        if isinstance(module, BatchNorm) and not isinstance(module, SyncBatchNorm):
            made = cls(module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats,
                       process_group)
            vars(made).update(vars(module))
        for name, part in list(module.named_children()):
            setattr(made, name, cls.convert_sync_batchnorm(part, process_group))
        return made


class _InstanceNorm(_ByChannel):
    def forward(self, input: Tensor) -> Tensor:
        self._check(input)
        x = input.unsqueeze(0) if input.ndim == self._without_batch else input
        by_input = self.training or not self.track_running_stats
        y = F.instance_norm(x, self.running_mean, self.running_var, self.weight, self.bias, by_input,
                            0.0 if self.momentum is None else self.momentum, self.eps)
        return y if x is input else y.squeeze(0)


class InstanceNorm(_InstanceNorm):
    """Normalises each channel (axis 1) of each sample over the other axes, with a weight and bias by default."""

    def __init__(self, num_features: int, eps: float = 1e-5, affine: bool = True, device: Optional[str] = None,
                 dtype: Optional[DTypeLike] = None) -> None:
        super().__init__(num_features, eps, 0.1, affine, False, True, device, dtype)


class _InstanceNormNd(_InstanceNorm):
    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = False,
                 track_running_stats: bool = False, device: Optional[str] = None, dtype: Optional[DTypeLike] = None, *,
                 bias: bool = True) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, bias, device, dtype)


class InstanceNorm1d(_InstanceNormNd):
    """Normalises each channel of [batch, channels, length], or without batch, by itself; with track_running_stats
    outside of training by the running statistics."""

    _ranks, _without_batch = (3,), 2


class InstanceNorm2d(_InstanceNormNd):
    """The same of [batch, channels, height, width], or without batch."""

    _ranks, _without_batch = (4,), 3


class InstanceNorm3d(_InstanceNormNd):
    """The same of [batch, channels, depth, height, width], or without batch."""

    _ranks, _without_batch = (5,), 4


class _OverLastAxes(Module):
    def __init__(self, normalized_shape: Size, eps: Optional[float], elementwise_affine: bool, bias: bool,
                 device: Optional[str], dtype: Optional[DTypeLike]) -> None:
        super().__init__()
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else normalized_shape
        self.normalized_shape: tuple[int, ...] = tuple(shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self.weight = empty_parameter(*self.normalized_shape, dtype=dtype, device=device) if elementwise_affine else None
        self.bias = (empty_parameter(*self.normalized_shape, dtype=dtype, device=device)
                     if elementwise_affine and bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class LayerNorm(_OverLastAxes):
    """Normalises over the last axes, which have the sizes normalized_shape; weight and bias are of that shape."""

    def __init__(self, normalized_shape: Size, eps: float = 1e-5, elementwise_affine: bool = True, bias: bool = True,
                 device: Optional[str] = None, dtype: Optional[DTypeLike] = None) -> None:
        super().__init__(normalized_shape, eps, elementwise_affine, bias, device, dtype)
        self.eps: float = eps

    def forward(self, input: Tensor) -> Tensor:
        return input.layer_norm(self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, bias={self.bias is not None}"


class LayerNorm2d(LayerNorm):
    """LayerNorm over the channels of [batch, channels, height, width], at each place by itself."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class RMSNorm(_OverLastAxes):
    """Scales to a root mean square of one over the last axes, which have the sizes normalized_shape. eps None is the
    distance from 1 to the next number of the dtype."""

    def __init__(self, normalized_shape: Size, eps: Optional[float] = None, elementwise_affine: bool = True,
                 device: Optional[str] = None, dtype: Optional[DTypeLike] = None) -> None:
        super().__init__(normalized_shape, eps, elementwise_affine, False, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)


class GroupNorm(Module):
    """Normalises groups of the channels (axis 1); weight and bias [num_channels]."""

    def __init__(self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True,
                 device: Optional[str] = None, dtype: Optional[DTypeLike] = None, *, bias: bool = True) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise InvalidArgumentError(f"GroupNorm: {num_channels} channels in {num_groups} groups")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        self.weight = empty_parameter(num_channels, dtype=dtype, device=device) if affine else None
        self.bias = empty_parameter(num_channels, dtype=dtype, device=device) if affine and bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return input.group_norm(self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
                f"bias={self.bias is not None}")


class LocalResponseNorm(Module):
    """x [batch, channels, ..] over (k + alpha * mean square of `size` neighbouring channels) ** beta."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        return input.local_response_norm(self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(Module):
    """x [batch, channels, height, width] over (k + alpha / size * sum of squares of neighbouring channels) ** beta: those
    at a distance below (size + 1) // 2, so that an even size sums as many as the odd one below it. Unlike in PyTorch,
    where the square of the first channel stays in all sums that follow, all sums are of neighbours."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim != 4:
            raise InvalidArgumentError(
                f"CrossMapLRN2d: shape {tuple(input.shape)}; it needs [batch, channels, height, width]")
        width = 2 * ((self.size + 1) // 2) - 1
        return input.local_response_norm(width, self.alpha * width / self.size, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
