"""Tensors made from nothing. Constants and sequences take no memory: they fold into what uses them."""

from __future__ import annotations

import array
import itertools
import operator
from collections.abc import Sequence
from typing import Any, Optional, Union

import _tensord
from _tensord import SymInt, Tensor, strong_dtype

from tensord.dtypes import DTypeLike, bool_, is_float, is_int, to_dtype, weaks
from tensord.errors import FailedPreconditionError, InvalidArgumentError, OutOfRangeError, UnimplementedError
from tensord.generator import Generator, default_generator
from tensord.place import Devices, placed

Number = Union[bool, int, float]


def _sizes(sizes: tuple[Any, ...], named: Optional[Sequence[int]] = None) -> list[Any]:
    """Of *shape, one sequence, or the keyword `size`."""
    if named is not None:
        if sizes:
            raise TypeError(f"the shape is given twice: {sizes} and size={named}")
        sizes = tuple(named)
    if len(sizes) == 1 and isinstance(sizes[0], Sequence):
        sizes = tuple(sizes[0])
    checked = [size if isinstance(size, SymInt) else operator.index(size) for size in sizes]
    if any(not isinstance(size, SymInt) and size < 0 for size in checked):
        raise InvalidArgumentError(f"sizes {checked}: none may be negative")
    return checked


def _stored(tensor: Tensor, flag: bool) -> Tensor:
    """In memory of its own, if the flag says so."""
    return tensor.contiguous() if flag else tensor


def _made(tensor: Tensor, requires_grad: bool) -> Tensor:
    return tensor.requires_grad_() if requires_grad else tensor


@placed
def tensor(data: Any, dtype: Optional[DTypeLike] = None, *, device: Devices = None,
           requires_grad: bool = False) -> Tensor:
    """Tensor(data), always with data of its own: a plain number gets a default dtype."""
    made = Tensor(data, dtype)
    if isinstance(data, Tensor):
        made = made.detach().clone()
    if made.dtype in weaks:
        strong = strong_dtype(made.dtype)
        made = made.cast(strong) if isinstance(data, Tensor) else Tensor(data, strong)
    return _made(made, requires_grad)


def as_tensor(data: Any, dtype: Optional[DTypeLike] = None) -> Tensor:
    """The tensor itself if it is one of that dtype, else tensor(data, dtype)."""
    if isinstance(data, Tensor):
        return data if dtype is None else data.cast(dtype)
    return tensor(data, dtype)


def from_numpy(array: Any) -> Tensor:
    """A copy of a NumPy array, in its dtype. Unlike in PyTorch no memory is shared: the daemon has its own."""
    return tensor(array)


def from_blob(address: int, shape: Sequence[int], *, dtype: Optional[DTypeLike] = None) -> Tensor:
    """Always raises: a tensor's data is the daemon's, which cannot share memory of this process."""
    raise UnimplementedError(
        "from_blob: a tensor's data lies with the daemon, in another process, so memory of this one cannot be wrapped; "
        "copy it by Tensor(numpy.ctypeslib.as_array(pointer, shape)) or Tensor(bytes)")


def asarray(obj: Any, *, dtype: Optional[DTypeLike] = None, device: Devices = None, copy: Optional[bool] = None,
            requires_grad: bool = False) -> Tensor:
    """A tensor of what a tensor, an array, a buffer, or numbers in lists hold. A tensor is itself if dtype and device are
    as they should be, unless `copy`; other data is always copied to the daemon: ValueError for copy=False. With a dtype,
    bytes and other buffers that are no arrays are elements of it, see frombuffer."""
    if isinstance(obj, Tensor):
        made = obj if dtype is None else obj.cast(dtype)
        made = made if device is None else made.to(device)
        if copy is False and made is not obj and made.dtype != obj.dtype:
            raise InvalidArgumentError(f"asarray: copy=False, and {obj.dtype} to {dtype} is a copy")
        made = made.clone() if copy and made is obj else made
        return made.detach().requires_grad_() if requires_grad else made
    if copy is False:
        raise InvalidArgumentError("asarray: copy=False, and a tensor's data lies with the daemon, so it is copied")
    if dtype is not None and isinstance(obj, (bytes, bytearray, memoryview, array.array)):
        return frombuffer(obj, dtype=dtype, requires_grad=requires_grad, device=device)
    return tensor(obj, dtype, device=device, requires_grad=requires_grad)


@placed
def frombuffer(buffer: Any, *, dtype: DTypeLike, count: int = -1, offset: int = 0, device: Devices = None,
               requires_grad: bool = False) -> Tensor:
    """`count` elements, or all, of what has Python's buffer protocol, from byte `offset` on, as [count]. Unlike PyTorch
    it copies them. ValueError for an offset or a count outside of the buffer, or for bytes that are no whole elements."""
    kind, data = to_dtype(dtype), memoryview(buffer).cast("B")
    rest = len(data) - offset
    if offset < 0 or rest <= 0:
        raise InvalidArgumentError(f"frombuffer: offset {offset} in a buffer of {len(data)} bytes")
    if count == 0 or count < -1:
        raise InvalidArgumentError(f"frombuffer: count {count}; it is -1 for all, or more than 0")
    if count == -1 and rest % kind.itemsize:
        raise InvalidArgumentError(f"frombuffer: {rest} bytes are no whole number of {kind}, of {kind.itemsize} each")
    size = (rest // kind.itemsize if count == -1 else count) * kind.itemsize
    if size > rest:
        raise InvalidArgumentError(f"frombuffer: {count} elements of {kind} after byte {offset} of {len(data)}")
    bits = Tensor(bytes(data[offset : offset + size]))
    return _made(bits.ne(0) if kind == bool_ else bits.bitcast(kind), requires_grad)


@placed
def scalar_tensor(s: Number, *, dtype: Optional[DTypeLike] = None, device: Devices = None,
                  requires_grad: bool = False) -> Tensor:
    """A tensor without axes that holds a number: of the default float unless a dtype is given, whatever the number."""
    return full((), s, dtype=_tensord.default_float() if dtype is None else dtype, requires_grad=requires_grad)


@placed
def range_(start: Number, end: Number, step: Number = 1, *, dtype: Optional[DTypeLike] = None, device: Devices = None,
           requires_grad: bool = False) -> Tensor:
    """start, start + step, .. up to end, which is part of it, of the default float unless a dtype is given; PyTorch has
    deprecated it for arange. ValueError for a step of 0, or in the other direction."""
    if step == 0 or (end - start) * step < 0:
        raise InvalidArgumentError(f"range: from {start} to {end} by {step}")
    places = _tensord._arange(0, int((end - start) / step) + 1, 1, "float64")
    made = (places * step + start).cast(_tensord.default_float() if dtype is None else dtype)
    return _made(made, requires_grad)


@placed
def full(shape: Union[int, Sequence[int], None] = None, fill_value: Optional[Number] = None, *,
         size: Union[int, Sequence[int], None] = None, dtype: Optional[DTypeLike] = None, buffer: bool = False,
         device: Devices = None, requires_grad: bool = False) -> Tensor:
    """A tensor filled with a number; `size` is another name of `shape`. Without a dtype, that of the number: bool, int32
    or float32.

    It is a constant that folds into what uses it, until it is assigned to. With `buffer` it is in memory, and a border for
    fusion, at once. ValueError for a negative size.
    """
    if (shape is None) == (size is None) or fill_value is None:
        raise TypeError("full: it takes one shape and a number")
    return _made(_stored(_tensord._full(_sizes((size if shape is None else shape,)), fill_value, dtype), buffer),
                 requires_grad)


@placed
def zeros(*shape: Any, size: Optional[Sequence[int]] = None, dtype: Optional[DTypeLike] = None,
          device: Devices = None, requires_grad: bool = False) -> Tensor:
    """Zeros of the default float, or of `dtype`; `size` says the shape as well. ValueError for a negative size."""
    return _made(_tensord._full(_sizes(shape, size), 0.0, dtype), requires_grad)


@placed
def ones(*shape: Any, size: Optional[Sequence[int]] = None, dtype: Optional[DTypeLike] = None,
         device: Devices = None, requires_grad: bool = False) -> Tensor:
    """Ones of the default float, or of `dtype`; `size` says the shape as well. ValueError for a negative size."""
    return _made(_tensord._full(_sizes(shape, size), 1.0, dtype), requires_grad)


@placed
def empty(*shape: Any, size: Optional[Sequence[int]] = None, dtype: Optional[DTypeLike] = None,
          device: Devices = None, requires_grad: bool = False) -> Tensor:
    """A tensor whose content nobody should rely on. (It is zero.)"""
    return zeros(*shape, size=size, dtype=dtype, requires_grad=requires_grad)


@placed
def full_like(tensor: Tensor, fill_value: Number, *, dtype: Optional[DTypeLike] = None, buffer: bool = False,
              device: Devices = None, requires_grad: bool = False) -> Tensor:
    """full, in the shape and dtype of a tensor."""
    dtype = strong_dtype(tensor.dtype) if dtype is None else dtype
    return _made(_stored(_tensord._full(list(tensor.shape), fill_value, dtype), buffer), requires_grad)


@placed
def zeros_like(tensor: Tensor, *, dtype: Optional[DTypeLike] = None, device: Devices = None,
               requires_grad: bool = False) -> Tensor:
    return full_like(tensor, 0, dtype=dtype, requires_grad=requires_grad)


@placed
def ones_like(tensor: Tensor, *, dtype: Optional[DTypeLike] = None, device: Devices = None,
              requires_grad: bool = False) -> Tensor:
    return full_like(tensor, 1, dtype=dtype, requires_grad=requires_grad)


@placed
def empty_like(tensor: Tensor, *, dtype: Optional[DTypeLike] = None, device: Devices = None,
               requires_grad: bool = False) -> Tensor:
    return full_like(tensor, 0, dtype=dtype, requires_grad=requires_grad)


@placed
def new_tensor(like: Tensor, data: Any, *, dtype: Optional[DTypeLike] = None, device: Devices = None) -> Tensor:
    """tensor(data), in the dtype of `like`."""
    return tensor(data, strong_dtype(like.dtype) if dtype is None else dtype)


@placed
def new_full(like: Tensor, size: Union[int, Sequence[int]], fill_value: Number, *, dtype: Optional[DTypeLike] = None,
             device: Devices = None) -> Tensor:
    """full(size, fill_value), in the dtype of `like`."""
    return full(size, fill_value, dtype=strong_dtype(like.dtype) if dtype is None else dtype)


@placed
def new_zeros(like: Tensor, *shape: Any, size: Optional[Sequence[int]] = None, dtype: Optional[DTypeLike] = None,
              device: Devices = None) -> Tensor:
    return new_full(like, _sizes(shape, size), 0, dtype=dtype)


@placed
def new_ones(like: Tensor, *shape: Any, size: Optional[Sequence[int]] = None, dtype: Optional[DTypeLike] = None,
             device: Devices = None) -> Tensor:
    return new_full(like, _sizes(shape, size), 1, dtype=dtype)


@placed
def new_empty(like: Tensor, *shape: Any, size: Optional[Sequence[int]] = None, dtype: Optional[DTypeLike] = None,
              device: Devices = None) -> Tensor:
    return new_full(like, _sizes(shape, size), 0, dtype=dtype)


@placed
def arange(start: Optional[Number] = None, end: Optional[Number] = None, step: Number = 1, *,
           stop: Optional[Number] = None, dtype: Optional[DTypeLike] = None, device: Devices = None) -> Tensor:
    """start, start + step, ... before end, as [n]; from 0 if only one of them is given. `stop` is another name of `end`.

    If all are ints the dtype is int32, or int64 where int32 is too small; else float32. An integer dtype that lacks the
    first or the last number is an OverflowError. ValueError for a step of 0.
    """
    last = _end("arange", end, stop)
    if last is None:
        start, last = 0, start
    if last is None:
        raise TypeError("arange: it needs an end")
    return _tensord._arange(0 if start is None else start, last, step, dtype)


def _end(what: str, end: Any, stop: Any) -> Any:
    """The end, which NumPy and tinygrad call `stop`."""
    if end is not None and stop is not None:
        raise TypeError(f"{what}: end and stop are the same, and both are given")
    return stop if end is None else end


@placed
def linspace(start: Union[Number, Tensor], end: Union[Number, Tensor, None] = None, steps: Optional[int] = None, *,
             stop: Union[Number, Tensor, None] = None, dtype: Optional[DTypeLike] = None,
             device: Devices = None) -> Tensor:
    """`steps` evenly spaced numbers, both ends included, as [steps]; `stop` is another name of `end`. Ends may be tensors
    without axes. Integer dtypes truncate, the ends first.

    ValueError for negative or bool steps, and for dtype bool.
    """
    last = _end("linspace", end, stop)
    if last is None or steps is None:
        raise TypeError("linspace: it needs start, end and steps")
    if isinstance(steps, bool):
        raise InvalidArgumentError("linspace: steps is a bool; it is a count")
    return _tensord._linspace(start, last, steps, dtype)


@placed
def logspace(start: Union[Number, Tensor], end: Union[Number, Tensor], steps: int, base: float = 10.0, *,
             dtype: Optional[DTypeLike] = None, device: Devices = None) -> Tensor:
    """base to the power of linspace(start, end, steps)."""
    return _tensord._logspace(start, end, steps, base, dtype)


@placed
def eye(n: int, m: Optional[int] = None, *, dtype: Optional[DTypeLike] = None, device: Devices = None) -> Tensor:
    """Ones on the diagonal of [n, m], zeros elsewhere; square without m. ValueError for negative sizes."""
    return _tensord._eye(n, n if m is None else m, dtype)


@placed
def tril_indices(row: int, col: Optional[int] = None, offset: int = 0, *, dtype: Optional[DTypeLike] = None,
                 device: Devices = None) -> Tensor:
    """Rows and columns, as [2, n], of the entries of [row, col] on and below the diagonal moved right by offset."""
    return _tensord._tri_indices(True, row, row if col is None else col, offset, dtype)


@placed
def triu_indices(row: int, col: Optional[int] = None, offset: int = 0, *, dtype: Optional[DTypeLike] = None,
                 device: Devices = None) -> Tensor:
    """Rows and columns, as [2, n], of the entries of [row, col] on and above the diagonal moved right by offset."""
    return _tensord._tri_indices(False, row, row if col is None else col, offset, dtype)


def _tensors(arguments: tuple[Any, ...]) -> list[Tensor]:
    if len(arguments) == 1 and isinstance(arguments[0], (list, tuple)):
        arguments = tuple(arguments[0])
    return [argument if isinstance(argument, Tensor) else tensor(argument) for argument in arguments]


def cartesian_prod(*tensors: Any) -> Tensor:
    """Every combination of one element of each vector, as rows: [product of sizes, vectors]. A lone vector is itself."""
    return _tensord._cartesian_prod(_tensors(tensors))


def combinations(x: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """The combinations of r elements of a vector, in the order of itertools, as [n, r]."""
    if x.ndim != 1:
        raise InvalidArgumentError(f"combinations: shape {x.shape} is no vector")
    if r < 0:
        raise InvalidArgumentError(f"combinations: of {r} elements")
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    chosen = list(choose(range(x.shape[0]), r))
    if r == 0 or not chosen:
        return zeros(len(chosen) if r else 0, r, dtype=strong_dtype(x.dtype))
    return x[tensor(chosen)]


def block_diag(*tensors: Any) -> Tensor:
    """The matrices along the diagonal of a larger one, zeros elsewhere. Vectors are rows, numbers 1 x 1."""
    return _tensord._block_diag(_tensors(tensors))


def vander(x: Tensor, n: Optional[int] = None, increasing: bool = False, *, N: Optional[int] = None) -> Tensor:
    """Powers of a vector as columns, x^(n-1) ... x^0 or, if `increasing`, the other way round; n is its length."""
    columns = n if N is None else N
    if columns is None:
        columns = x.shape[0] if x.ndim else 0
    return _tensord._vander(x, columns, increasing)


def _window(name: str, n: int, periodic: bool, parameters: Sequence[float], dtype: Optional[DTypeLike]) -> Tensor:
    return _tensord._window(name, n, periodic, parameters, None, dtype)


@placed
def hann_window(window_length: int, periodic: bool = True, *, dtype: Optional[DTypeLike] = None,
                device: Devices = None) -> Tensor:
    """0.5 - 0.5 cos(2 pi i / n), as [window_length]; n is one less if not periodic, so that both ends are alike."""
    return _window("general_cosine", window_length, periodic, (0.5, 0.5), dtype)


@placed
def hamming_window(window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, *,
                   dtype: Optional[DTypeLike] = None, device: Devices = None) -> Tensor:
    """alpha - beta cos(2 pi i / n), as [window_length]."""
    return _window("general_cosine", window_length, periodic, (alpha, beta), dtype)


@placed
def blackman_window(window_length: int, periodic: bool = True, *, dtype: Optional[DTypeLike] = None,
                    device: Devices = None) -> Tensor:
    """0.42 - 0.5 cos(2 pi i / n) + 0.08 cos(4 pi i / n), as [window_length]."""
    return _window("general_cosine", window_length, periodic, (0.42, 0.5, 0.08), dtype)


@placed
def bartlett_window(window_length: int, periodic: bool = True, *, dtype: Optional[DTypeLike] = None,
                    device: Devices = None) -> Tensor:
    """A triangle from 0 over 1 to 0, as [window_length]."""
    return _window("bartlett", window_length, periodic, (), dtype)


@placed
def kaiser_window(window_length: int, periodic: bool = True, beta: float = 12.0, *,
                  dtype: Optional[DTypeLike] = None, device: Devices = None) -> Tensor:
    """I0(beta sqrt(1 - (2 i / n - 1)^2)) / I0(beta), as [window_length]."""
    return _window("kaiser", window_length, periodic, (beta,), dtype)


def manual_seed(seed: int = 0) -> Generator:
    """Starts the default generator anew, and gives it; functions captured by jit are concerned too."""
    return default_generator.manual_seed(seed)


@placed
def rand(*shape: Any, size: Optional[Sequence[int]] = None, generator: Optional[Generator] = None,
         dtype: Optional[DTypeLike] = None, contiguous: bool = False, device: Devices = None,
         requires_grad: bool = False) -> Tensor:
    """Uniform in [0, 1). With `contiguous` it is in memory, and a border for fusion, at once."""
    return _made(_stored(_tensord._rand(_sizes(shape, size), dtype, generator), contiguous), requires_grad)


@placed
def randn(*shape: Any, size: Optional[Sequence[int]] = None, generator: Optional[Generator] = None,
          dtype: Optional[DTypeLike] = None, contiguous: bool = False, device: Devices = None,
          requires_grad: bool = False) -> Tensor:
    """Normal, of mean 0 and variance 1. `contiguous` as of rand."""
    return _made(_stored(_tensord._randn(_sizes(shape, size), dtype, generator), contiguous), requires_grad)


@placed
def uniform(*shape: Any, low: float = 0.0, high: float = 1.0, size: Optional[Sequence[int]] = None,
            generator: Optional[Generator] = None, dtype: Optional[DTypeLike] = None, device: Devices = None,
            requires_grad: bool = False) -> Tensor:
    """Uniform in [low, high): floats, or for an integer dtype whole numbers, as randint.

    TypeError for an integer dtype with bounds that are no whole numbers, ValueError if it has none between them.
    """
    sizes = _sizes(shape, size)
    if dtype is None or is_float(dtype):
        return _made(_tensord._rand(sizes, dtype, generator) * (high - low) + low, requires_grad)
    if not (is_int(dtype) and float(low).is_integer() and float(high).is_integer()):
        raise TypeError(f"uniform: {dtype} in [{low}, {high}); whole numbers need whole bounds and an integer dtype")
    if low >= high:
        raise InvalidArgumentError(f"uniform: low {low} must be below high {high}")
    return _made(_tensord._randint(int(low), int(high), sizes, dtype, generator), requires_grad)


@placed
def randperm(n: int, *, generator: Optional[Generator] = None, dtype: Optional[DTypeLike] = None,
             device: Devices = None) -> Tensor:
    """The numbers below n in random order. int32 unless told otherwise."""
    return _tensord._randperm(n, dtype, generator)


class Variable(SymInt):
    """A named integer between bounds (inclusive) that is given anew for each run, without another
    program. It serves as a size, as a bound of slices and as a number beside tensors:

    n = Variable("n", 1, 512).bind(3);  y = x[:n] * n
    """

    def __init__(self, name: str, min: int, max: int) -> None:
        super().__init__(name, min, max)
        self.name, self.min, self.max = name, min, max

    @property
    def tensor(self) -> Tensor:
        """Its value as an int32 tensor without axes."""
        return _tensord._variable(self.name, self.min, self.max)

    def bind(self, value: int) -> Variable:
        """What the runs that follow read."""
        if not self.min <= value <= self.max:
            raise OutOfRangeError(
                f"variable '{self.name}': {value} is not between {self.min} and {self.max}")
        _tensord._bind(self.name, value)
        return self


