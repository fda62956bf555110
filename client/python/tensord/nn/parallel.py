"""A module over several devices, as torch.nn.parallel.DataParallel. Tensor.shard is what it is made of, and does more.

There is no DistributedDataParallel and no FSDP, which are of several processes: here one program runs on all devices of
a daemon, and what is computed from a tensor that is divided among them is divided too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional, Union

from _tensord import Tensor

from tensord.connection import current
from tensord.errors import InvalidArgumentError
from tensord.nn.module import Module


class DataParallel(Module):
    """Divides tensors among its arguments along the axis `dim` over devices, of which each does its part, and brings
    results together on output_device, the first one unless given.

    device_ids: names, or numbers of the client's devices; all of them unless given. Parameters and buffers are laid whole
    on each. The devices divide the axis. What the module computes over the batch, such as BatchNorm's statistics, is of
    the whole batch, which PyTorch's DataParallel does not do.
    """

    def __init__(self, module: Module, device_ids: Optional[Sequence[Union[int, str]]] = None,
                 output_device: Union[int, str, None] = None, dim: int = 0) -> None:
        super().__init__()
        known = current().devices
        ids = range(len(known)) if device_ids is None else device_ids

        def name(device: Union[int, str]) -> str:
            if isinstance(device, int) and not 0 <= device < len(known):
                raise InvalidArgumentError(f"DataParallel: device {device} of {known}")
            return known[device] if isinstance(device, int) else device.upper()

        self.module, self.dim = module, dim
        self.device_ids = [name(device) for device in ids]
        if not self.device_ids:
            raise InvalidArgumentError("DataParallel: there are no devices")
        self.output_device = self.device_ids[0] if output_device is None else name(output_device)
        for tensor in [*module.parameters(), *module.buffers()]:
            tensor.to_(self.device_ids if len(self.device_ids) > 1 else self.device_ids[0])

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        if len(self.device_ids) == 1:
            return self.module(*inputs, **kwargs)

        def scatter(x: Tensor) -> Tensor:
            return x.shard(self.device_ids, self.dim if x.ndim else None)

        result = self.module(*_map(scatter, inputs), **_map(scatter, kwargs))
        return _map(lambda x: x.to(device=self.output_device), result)


def _map(function: Any, value: Any) -> Any:
    """Of the tensors in tuples, lists and dicts."""
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_map(function, each) for each in value))
    if isinstance(value, (tuple, list)):
        return type(value)(_map(function, each) for each in value)
    if isinstance(value, dict):
        return {key: _map(function, each) for key, each in value.items()}
    return value


__all__ = ["DataParallel"]
