"""Recurrent layers. The loop over time runs on the device: its body is compiled once, for any length."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Optional, Union

import numpy as np
from _tensord import Tensor

from tensord.creation import zeros
from tensord.dtypes import DTypeLike
from tensord.errors import InvalidArgumentError
from tensord.loops import scan
from tensord.nn import functional as F, init
from tensord.nn.module import Module
from tensord.nn.parameter import Parameter, empty_parameter
from tensord.nn.utils.rnn import PackedSequence, _padded, _places

State = Union[Tensor, tuple[Tensor, Tensor]]
Input = Union[Tensor, PackedSequence]


# Each takes what the input and the state are times their weights, [.., gates * hidden], and the state; it gives the next.

def _rnn_tanh(x: Tensor, h: Tensor, state: Any) -> tuple[Tensor, ...]:
    return ((x + h).tanh(),)


def _rnn_relu(x: Tensor, h: Tensor, state: Any) -> tuple[Tensor, ...]:
    return ((x + h).relu(),)


def _lstm(x: Tensor, h: Tensor, state: Any) -> tuple[Tensor, ...]:
    i, f, g, o = (x + h).chunk(4, -1)
    c = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _gru(x: Tensor, h: Tensor, state: Any) -> tuple[Tensor, ...]:
    (rx, zx, nx), (rh, zh, nh) = x.chunk(3, -1), h.chunk(3, -1)
    z = (zx + zh).sigmoid()
    n = (nx + (rx + rh).sigmoid() * nh).tanh()
    return (n + z * (state[0] - n),)


_Step = Callable[[Tensor, Tensor, Any], tuple[Tensor, ...]]
# mode: gates, states, step
_CELLS: dict[str, tuple[int, int, _Step]] = {
    "RNN_TANH": (1, 1, _rnn_tanh), "RNN_RELU": (1, 1, _rnn_relu), "LSTM": (4, 2, _lstm), "GRU": (3, 1, _gru),
}  # fmt: skip


def _mode_of(nonlinearity: str, name: str) -> str:
    if nonlinearity not in ("tanh", "relu"):
        raise InvalidArgumentError(f"{name}: the nonlinearity is 'tanh' or 'relu', not '{nonlinearity}'")
    return f"RNN_{nonlinearity.upper()}"


class _Recurrent(Module):
    """What cells and layers share: parameters uniform within 1 / sqrt(hidden_size)."""

    hidden_size: int

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size else 0.0
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)


class _Cell(_Recurrent):
    """One step of one layer. weight_ih [gates * hidden, in], weight_hh [gates * hidden, hidden], biases [gates * hidden]"""

    bias_ih: Optional[Parameter]
    bias_hh: Optional[Parameter]

    def __init__(self, mode: str, input_size: int, hidden_size: int, bias: bool, device: Optional[str],
                 dtype: Optional[DTypeLike]) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias, self._cell = input_size, hidden_size, bias, mode
        rows = _CELLS[mode][0] * hidden_size
        self.weight_ih = empty_parameter(rows, input_size, dtype=dtype, device=device)
        self.weight_hh = empty_parameter(rows, hidden_size, dtype=dtype, device=device)
        self.bias_ih = empty_parameter(rows, dtype=dtype, device=device) if bias else None
        self.bias_hh = empty_parameter(rows, dtype=dtype, device=device) if bias else None
        self.reset_parameters()

    def _next(self, input: Tensor, state: Optional[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
        if input.ndim not in (1, 2) or input.shape[-1] != self.input_size:
            raise InvalidArgumentError(f"{type(self).__name__}: an input of shape {list(input.shape)}, which is not "
                                       f"[batch, {self.input_size}] or [{self.input_size}]")
        _, states, step = _CELLS[self._cell]
        if state is None:
            state = (zeros(*input.shape[:-1], self.hidden_size, dtype=input.dtype),) * states
        x = F.linear(input, self.weight_ih, self.bias_ih)
        return step(x, F.linear(state[0], self.weight_hh, self.bias_hh), state)

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else f", bias={self.bias}")


class RNNCell(_Cell):
    """forward(x [batch, in], h [batch, hidden] = zeros) gives the next h: tanh or relu of a sum of products. Batch may
    be missing."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh",
                 device: Optional[str] = None, dtype: Optional[DTypeLike] = None) -> None:
        super().__init__(_mode_of(nonlinearity, "RNNCell"), input_size, hidden_size, bias, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Optional[Tensor] = None) -> Tensor:
        return self._next(input, None if hx is None else (hx,))[0]

    def extra_repr(self) -> str:
        return super().extra_repr() + ("" if self.nonlinearity == "tanh" else f", nonlinearity={self.nonlinearity}")


class LSTMCell(_Cell):
    """forward(x [batch, in], (h, c) each [batch, hidden] = zeros) gives the next (h, c); gates i, f, g, o. Batch may be
    missing."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Optional[str] = None,
                 dtype: Optional[DTypeLike] = None) -> None:
        super().__init__("LSTM", input_size, hidden_size, bias, device, dtype)

    def forward(self, input: Tensor, hx: Optional[tuple[Tensor, Tensor]] = None) -> tuple[Tensor, Tensor]:
        h, c = self._next(input, hx)
        return h, c


class GRUCell(_Cell):
    """forward(x [batch, in], h [batch, hidden] = zeros) gives the next h; gates r, z, n. Batch may be missing."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Optional[str] = None,
                 dtype: Optional[DTypeLike] = None) -> None:
        super().__init__("GRU", input_size, hidden_size, bias, device, dtype)

    def forward(self, input: Tensor, hx: Optional[Tensor] = None) -> Tensor:
        return self._next(input, None if hx is None else (hx,))[0]


class RNNBase(_Recurrent):
    """Layers over a sequence: weight_ih_l0 [gates * hidden, in], weight_hh_l0 [gates * hidden, out], bias_ih_l0,
    bias_hh_l0 [gates * hidden], weight_hr_l0 [proj, hidden] with proj_size; _l1.. for further layers, and _reverse
    behind that for the other direction."""

    def __init__(self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
                 batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
                 device: Optional[str] = None, dtype: Optional[DTypeLike] = None) -> None:
        if mode not in _CELLS:
            raise InvalidArgumentError(f"RNNBase: mode '{mode}' is none of {', '.join(_CELLS)}")
        super().__init__()
        name = type(self).__name__
        if hidden_size < 1 or num_layers < 1:
            raise InvalidArgumentError(f"{name}: hidden_size {hidden_size} and num_layers {num_layers} are at least 1")
        if not 0 <= dropout <= 1:
            raise InvalidArgumentError(f"{name}: the probability dropout is in [0, 1], not {dropout}")
        if not 0 <= proj_size < hidden_size:
            raise InvalidArgumentError(f"{name}: proj_size {proj_size} must be less than hidden_size {hidden_size}")
        self.mode, self.input_size, self.hidden_size, self.num_layers, self.bias = (mode, input_size, hidden_size,
                                                                                    num_layers, bias)
        self.batch_first, self.dropout, self.bidirectional, self.proj_size = (batch_first, float(dropout), bidirectional,
                                                                              proj_size)
        gates, out = _CELLS[mode][0] * hidden_size, proj_size or hidden_size
        for layer in range(num_layers):
            size = input_size if layer == 0 else out * self._directions
            for suffix in self._suffixes(layer):
                shapes: dict[str, tuple[int, ...]] = {"weight_ih": (gates, size), "weight_hh": (gates, out)}
                if bias:
                    shapes |= {"bias_ih": (gates,), "bias_hh": (gates,)}
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                for kind, shape in shapes.items():
                    setattr(self, kind + suffix, empty_parameter(*shape, dtype=dtype, device=device))
        self.reset_parameters()

    @property
    def _directions(self) -> int:
        return 2 if self.bidirectional else 1

    def _suffixes(self, layer: int) -> list[str]:
        return [f"_l{layer}{reverse}" for reverse in ("", "_reverse")[:self._directions]]

    def flatten_parameters(self) -> None:
        """Nothing: PyTorch lays its parameters out for its kernels here."""

    def _run(self, input: Input,
             initial: Optional[tuple[Tensor, ...]]) -> tuple[Any, tuple[Tensor, ...]]:
        """input [time, batch, in], or with batch_first [batch, time, in], or [time, in], or packed; outputs likewise."""
        if not isinstance(input, PackedSequence):
            return self._layers(input, initial, None)
        order, back, sizes = input.sorted_indices, input.unsorted_indices, input.sizes
        if initial is not None and order is not None:
            initial = tuple(each.index_select(1, order) for each in initial)
        x = _padded(input)
        has_step = Tensor(sizes[:, None] > np.arange(sizes[0])).unsqueeze(-1)  # [time, batch, 1]
        y, final = self._layers(x.transpose(0, 1) if self.batch_first else x, initial, has_step)
        y = (y.transpose(0, 1) if self.batch_first else y).flatten(0, 1)
        step, number = _places(sizes)
        output = input._with(y.index_select(0, Tensor(step * int(sizes[0]) + number)))
        return output, final if back is None else tuple(each.index_select(1, back) for each in final)

    def _layers(self, input: Tensor, initial: Optional[tuple[Tensor, ...]],
                has_step: Optional[Tensor]) -> tuple[Tensor, tuple[Tensor, ...]]:
        if input.ndim not in (2, 3) or input.shape[-1] != self.input_size:
            raise InvalidArgumentError(f"{type(self).__name__}: an input of shape {list(input.shape)}, which is not "
                                       f"[.., .., {self.input_size}] or [time, {self.input_size}]")
        batched, flip = input.ndim == 3, input.ndim == 3 and self.batch_first
        x = input.transpose(0, 1) if flip else input if batched else input.unsqueeze(1)
        _, states, _ = _CELLS[self.mode]
        sizes = (self.proj_size or self.hidden_size, self.hidden_size)[:states]
        rows = self.num_layers * self._directions
        if initial is None:
            initial = tuple(zeros(rows, x.shape[1], size, dtype=x.dtype) for size in sizes)
        elif not batched:
            initial = tuple(each.unsqueeze(1) for each in initial)
        for each, size in zip(initial, sizes):
            if tuple(each.shape) != (rows, x.shape[1], size):
                raise InvalidArgumentError(f"{type(self).__name__}: a state of shape {list(each.shape)}; it is "
                                           f"{[rows, x.shape[1], size]}")
        finals: list[tuple[Tensor, ...]] = []
        for layer in range(self.num_layers):
            if layer and self.dropout:
                x = x.dropout(self.dropout, self.training)
            outputs = []
            for suffix in self._suffixes(layer):
                output, final = self._direction(x, tuple(each[len(finals)] for each in initial), suffix, has_step)
                outputs.append(output)
                finals.append(final)
            x = outputs[0] if len(outputs) == 1 else Tensor.cat(outputs, dim=-1)
        final_states = tuple(Tensor.stack(list(each)) for each in zip(*finals))
        if not batched:
            return x.squeeze(1), tuple(each.squeeze(1) for each in final_states)
        return x.transpose(0, 1) if flip else x, final_states

    def _direction(self, x: Tensor, state: tuple[Tensor, ...], suffix: str,
                   has_step: Optional[Tensor]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Where a sequence has no step its state stays."""
        of: dict[str, Any] = {kind: getattr(self, kind + suffix, None) for kind in
              ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")}  # fmt: skip
        step = _CELLS[self.mode][2]

        def body(now: tuple[Tensor, ...], rows: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], Tensor]:
            following = step(rows[0], F.linear(now[0], of["weight_hh"], of["bias_hh"]), now)
            if of["weight_hr"] is not None:
                following = (F.linear(following[0], of["weight_hr"]), *following[1:])
            if has_step is not None:
                following = tuple(rows[1].where(after, before) for after, before in zip(following, now))
            return following, following[0]

        steps = (F.linear(x, of["weight_ih"], of["bias_ih"]),) + (() if has_step is None else (has_step,))
        final, outputs = scan(body, state, steps, reverse=suffix.endswith("_reverse"))
        return outputs, final

    def extra_repr(self) -> str:
        shown = [f"{self.input_size}, {self.hidden_size}"]
        for name, default in (("proj_size", 0), ("num_layers", 1), ("bias", True), ("batch_first", False),
                              ("dropout", 0), ("bidirectional", False)):  # fmt: skip
            value = getattr(self, name)
            shown += [f"{name}={value}"] * (value != default)
        return ", ".join(shown)


class RNN(RNNBase):
    """Layers of tanh or relu over x [time, batch, in] ([batch, time, in] with batch_first, [time, in] without batch).

    forward(x, h = zeros) gives the last layer's outputs [time, batch, directions * hidden] and the last states
    [layers * directions, batch, hidden]. `dropout` is between layers, in training. Of a PackedSequence (nn.utils.rnn) the
    outputs are one too, and states are in the order before packing.
    """

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = "tanh",
                 bias: bool = True, batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
                 device: Optional[str] = None, dtype: Optional[DTypeLike] = None) -> None:
        super().__init__(_mode_of(nonlinearity, "RNN"), input_size, hidden_size, num_layers, bias, batch_first, dropout,
                         bidirectional, 0, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Input, hx: Optional[Tensor] = None) -> tuple[Any, Tensor]:
        output, (h,) = self._run(input, None if hx is None else (hx,))
        return output, h


class LSTM(RNNBase):
    """Layers of LSTM cells; shapes as in RNN, with two states: forward(x, (h, c)) gives outputs, (h, c). With proj_size
    outputs and h are of that size."""

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
                 batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
                 device: Optional[str] = None, dtype: Optional[DTypeLike] = None) -> None:
        super().__init__("LSTM", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional,
                         proj_size, device, dtype)

    def forward(self, input: Input,
                hx: Optional[tuple[Tensor, Tensor]] = None) -> tuple[Any, tuple[Tensor, Tensor]]:
        output, (h, c) = self._run(input, hx)
        return output, (h, c)


class GRU(RNNBase):
    """Layers of GRU cells; shapes as in RNN."""

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
                 batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
                 device: Optional[str] = None, dtype: Optional[DTypeLike] = None) -> None:
        super().__init__("GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0, device,
                         dtype)

    def forward(self, input: Input, hx: Optional[Tensor] = None) -> tuple[Any, Tensor]:
        output, (h,) = self._run(input, None if hx is None else (hx,))
        return output, h
