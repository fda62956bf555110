"""What PyTorch asks a tensor as an object, and what it does to one element by element or where it lies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, Optional, Union

from _tensord import DType, Tensor, default_float

from tensord.creation import arange, tensor
from tensord.dtypes import (
    DTypeLike,
    bool_,
    from_py,
    is_float,
    is_int,
    is_unsigned,
    promote_types,
    strong_dtype,
    to_dtype,
)
from tensord.errors import InvalidArgumentError, UnimplementedError

# ---- questions


def is_tensor(obj: Any) -> bool:
    """Whether it is a Tensor."""
    return isinstance(obj, Tensor)


def is_storage(obj: Any) -> bool:
    """False: memory is the daemon's, and no object stands for it."""
    return False


def is_nonzero(input: Tensor) -> bool:
    """Whether the only element is not 0; it is computed. ValueError for more or fewer elements."""
    if input.numel() != 1:
        raise InvalidArgumentError(f"is_nonzero: a tensor of shape {tuple(input.shape)}; it needs one element")
    return bool(input.item() != 0)


def is_signed(input: Tensor) -> bool:
    """Whether its dtype has numbers below 0."""
    return input.dtype != bool_ and not is_unsigned(input.dtype)


def is_complex(input: Tensor) -> bool:
    """False: there are no complex numbers."""
    return False


def is_conj(input: Tensor) -> bool:
    """False: there are no complex numbers."""
    return False


def is_neg(input: Tensor) -> bool:
    """False: no tensor is kept as the negative of another."""
    return False


def is_inference(input: Tensor) -> bool:
    """False: what is computed under inference_mode is a tensor like others."""
    return False


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether both have the same shape."""
    return tuple(input.shape) == tuple(other.shape)


def get_device(input: Tensor) -> int:
    """The number of the device, of "CUDA:1" for example; -1 on a CPU, as in PyTorch. ValueError on several devices."""
    kind, number = _device(input, "get_device")
    return -1 if kind == "CPU" else number


def _device(input: Tensor, what: str) -> tuple[str, int]:
    name = input.device
    if not isinstance(name, str):
        raise InvalidArgumentError(f"{what}: the tensor is on {', '.join(name)}; ask each part, or device")
    kind, _, number = name.partition(":")
    return kind, int(number or 0)


def _is_cpu(self: Tensor) -> bool:
    """Whether it is on CPUs."""
    names = [self.device] if isinstance(self.device, str) else self.device
    return all(name.split(":")[0] == "CPU" for name in names)


def _is_cuda(self: Tensor) -> bool:
    """Whether it is on NVIDIA devices."""
    names = [self.device] if isinstance(self.device, str) else self.device
    return all(name.split(":")[0] in ("CUDA", "NV") for name in names)


def _never(self: Tensor) -> bool:
    """False: there are no such tensors."""
    return False


def ndimension(self: Tensor) -> int:
    """The number of axes."""
    return self.ndim


def is_pinned(self: Tensor) -> bool:
    """False: its data lies with the daemon."""
    return False


def is_shared(self: Tensor) -> bool:
    """False: its data lies with the daemon."""
    return False


def data_ptr(self: Tensor) -> NoReturn:
    """Always raises: the data lies in another process, the daemon, and has no address here."""
    raise UnimplementedError(
        "data_ptr: a tensor's data lies with the daemon, in another process, and has no address in this one; numpy() "
        "gives a copy, whose ctypes.data is one, and hash(t) tells tensors apart")


# ---- dtypes


def _dtype_of(value: Any) -> DType:
    return value.dtype if isinstance(value, Tensor) else from_py(value)


def result_type(tensor1: Any, tensor2: Any) -> DType:
    """The dtype of arithmetic of the two, tensors or numbers, see promote_types."""
    return strong_dtype(promote_types(_dtype_of(tensor1), _dtype_of(tensor2)))


def can_cast(from_: DTypeLike, to: DTypeLike) -> bool:
    """Whether PyTorch's rules let a result of dtype `from_` be stored as `to`: no float as an integer, and neither as a
    bool. can_lossless_cast asks whether every value is kept."""
    rank = [is_float(dtype) * 2 + is_int(dtype) for dtype in (to_dtype(from_), to_dtype(to))]
    return rank[0] <= rank[1]


def get_default_dtype() -> DType:
    """What plain floats become, see set_default_dtype."""
    return default_float()


# ---- element by element, on this side


def apply_(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Each element becomes callable(element), called here, one after the other: slow, and not in a captured function."""
    return _put(self, [callable(x) for x in self.reshape(-1).tolist()])


def map_(self: Tensor, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Each element becomes callable(element, that of `tensor`), which broadcasts; like apply_."""
    return map2_(self, tensor, tensor, lambda x, y, _: callable(x, y))


def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Callable[[Any, Any, Any], Any]) -> Tensor:
    """Each element becomes callable(element, that of x, that of y), which broadcast; like apply_."""
    rows = [each.expand(self.shape).reshape(-1).tolist() for each in (self, x, y)]
    return _put(self, [callable(*elements) for elements in zip(*rows)])


def _put(target: Tensor, elements: list[Any]) -> Tensor:
    return target.copy_(tensor(elements, target.dtype).reshape(target.shape))


# ---- where it lies


def fill_diagonal_(self: Tensor, fill_value: Union[bool, int, float], wrap: bool = False) -> Tensor:
    """Writes a number to the elements whose indices are equal. With `wrap` the diagonal of a tall matrix begins anew
    below a row that is left out. ValueError for fewer than two axes, or for more of different sizes."""
    sizes = tuple(self.shape)
    if len(sizes) < 2 or (len(sizes) > 2 and len(set(sizes)) > 1):
        raise InvalidArgumentError(f"fill_diagonal_: shape {sizes}; it needs a matrix, or more axes of one size")
    step = sum(self.stride())
    place = arange(self.numel(), dtype="int64").reshape(sizes)
    on = place % step == 0
    if not (wrap and len(sizes) == 2):
        on = on & (place < min(sizes) * step)
    return self.masked_fill_(on, fill_value)


def narrow_copy(self: Tensor, dim: int, start: int, length: int) -> Tensor:
    """narrow, in memory of its own."""
    return self.narrow(dim, start, length).clone()


def set_(self: Tensor, source: Optional[Tensor] = None) -> Tensor:
    """This Python object becomes another name of `source`, whose data it shares from now on; without one, of a tensor
    without elements. Other names of the tensor keep what they had. ValueError for another dtype, or if a gradient is
    required."""
    source = tensor([], self.dtype) if source is None else source
    if source.dtype != self.dtype:
        raise InvalidArgumentError(f"set_: {source.dtype} for a tensor of {self.dtype}")
    return self._become(source, "set_")


def resize_(self: Tensor, *sizes: Any) -> Tensor:
    """This Python object becomes a view of its first elements in another shape. Memory does not grow: NotImplementedError
    for more elements than there are. Other names of the tensor keep their shape."""
    shape = tuple(sizes[0]) if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    count = 1
    for size in shape:
        count *= size
    if count > self.numel():
        raise UnimplementedError(
            f"resize_: {tuple(self.shape)} to {shape}: memory of a tensor does not grow; make one by empty{shape}")
    return self._become(self.reshape(-1)[:count].reshape(shape), "resize_")


def resize_as_(self: Tensor, the_template: Tensor) -> Tensor:
    """resize_ to the shape of another tensor."""
    return resize_(self, *the_template.shape)




def _itself(self: Tensor) -> Tensor:
    """The tensor: all numbers are real, and kept as they are."""
    return self


# ---- Python's operators


def _round(self: Tensor, digits: Optional[int] = None) -> Tensor:
    return self.round() if digits is None else self.round(decimals=digits)


def _divmod(self: Tensor, other: Any) -> tuple[Tensor, Tensor]:
    return self // other, self % other


def _rdivmod(self: Tensor, other: Any) -> tuple[Tensor, Tensor]:
    return other // self, other % self


for _method in (apply_, data_ptr, fill_diagonal_, get_device, is_complex, is_conj, is_inference, is_neg, is_nonzero,
                is_pinned, is_same_size, is_shared, is_signed, map2_, map_, narrow_copy, ndimension, resize_, resize_as_,
                set_):  # fmt: skip
    setattr(Tensor, _method.__name__, _method)
for _name, _operator in (("__round__", _round), ("__divmod__", _divmod), ("__rdivmod__", _rdivmod)):
    setattr(Tensor, _name, _operator)
for _name, _question in (("is_cpu", _is_cpu), ("is_cuda", _is_cuda)):
    setattr(Tensor, _name, property(_question))
setattr(Tensor, "real", property(_itself))
for _name in ("resolve_conj", "resolve_neg"):
    setattr(Tensor, _name, _itself)
for _name in ("is_sparse", "is_sparse_csr", "is_quantized", "is_nested", "is_meta", "is_mps", "is_xpu", "is_mkldnn"):
    setattr(Tensor, _name, property(_never))
