"""What PyTorch has, as what tensord takes, and whether two results are the same.

PyTorch's int64 is tensord's int32 (the default integer of each), and int64 results of PyTorch are compared modulo 2^32.
"""

import numpy as np
import tensord
import torch


class NotApplicable(Exception):
    """tensord has no counterpart of an argument: complex numbers, sparse tensors, devices."""


class Disagreement(Exception):
    """Why two results differ, in few words."""


DTYPES = {
    getattr(torch, name): tensord.dtype(name)
    for name in (
        "bool",
        "int8",
        "uint8",
        "int16",
        "uint16",
        "int32",
        "uint32",
        "int64",
        "uint64",
        "float16",
        "bfloat16",
        "float32",
        "float64",
        "float8_e4m3fn",
        "float8_e5m2",
        "float8_e4m3fnuz",
        "float8_e5m2fnuz",
    )
}
# Arguments about things that tensord does not have, and the values of them that say nothing.
SAYS_NOTHING = {
    "device": ("cpu", torch.device("cpu"), None),
    "layout": (torch.strided, None),
    "pin_memory": (False, None),
    "memory_format": (torch.contiguous_format, torch.preserve_format, None),
    "requires_grad": (False,),
    "non_blocking": (False, True),
    "out": (None,),
    "generator": (None,),
    "inplace": (False,),
}


def to_numpy(tensor):
    """Its data; a type that NumPy lacks becomes float32."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor._is_zerotensor():  # a gradient that PyTorch knows to be zero
        tensor = torch.zeros(tensor.shape, dtype=tensor.dtype)
    if tensor.dtype in (torch.bfloat16,) or "float8" in str(tensor.dtype):
        tensor = tensor.float()
    return tensor.contiguous().numpy()


def to_ours(value, made=None):
    """A torch value, or a structure of them; the pairs (torch, ours) of its tensors are appended to `made`."""
    if isinstance(value, torch.Tensor):
        ours = _tensor(value)
        if made is not None:
            made.append((value, ours))
        return ours
    if isinstance(value, torch.dtype):
        if value not in DTYPES:
            raise NotApplicable(f"dtype {value}")
        return DTYPES[value]
    if isinstance(value, (torch.Size, tuple)):
        return tuple(to_ours(item, made) for item in value)
    if isinstance(value, list):
        return [to_ours(item, made) for item in value]
    if isinstance(value, dict):
        return {
            key: to_ours(item, made)
            for key, item in value.items()
            if not (key in SAYS_NOTHING and value[key] in SAYS_NOTHING[key])
        }
    if isinstance(value, slice):
        return slice(*(to_ours(part, made) for part in (value.start, value.stop, value.step)))
    if value is None or value is Ellipsis or isinstance(value, (bool, int, float, str, np.ndarray, np.generic)):
        return value
    raise NotApplicable(f"{type(value).__name__} argument")


def _tensor(value):
    if value.is_complex():
        raise NotApplicable("complex numbers")
    if value.layout != torch.strided or value.is_quantized:
        raise NotApplicable("sparse or quantised tensors")
    if value.dtype not in DTYPES:
        raise NotApplicable(f"dtype {value.dtype}")
    if value.dtype == torch.int64:
        if value.numel() and not -(2**31) <= value.min().item() <= value.max().item() < 2**31:
            raise NotApplicable("int64 values")
        return tensord.Tensor(to_numpy(value).astype(np.int32))
    return tensord.Tensor(to_numpy(value), dtype=DTYPES[value.dtype])


def leaves(result):
    """The tensors and numbers of a result, in order."""
    if isinstance(result, (tuple, list)):
        return [leaf for item in result for leaf in leaves(item)]
    if isinstance(result, dict):
        return [leaf for item in result.values() for leaf in leaves(item)]
    return [result]


def check_form(expected, got):
    """Type, shape and dtype, which are known before anything is computed."""
    if not isinstance(expected, torch.Tensor):
        if isinstance(got, tensord.Tensor) and got.shape == ():
            return
        if isinstance(got, tensord.Tensor) or isinstance(expected, str) != isinstance(got, str):
            raise Disagreement(f"type: {type(got).__name__} for {type(expected).__name__}")
        return
    if not isinstance(got, tensord.Tensor):
        raise Disagreement(f"type: {type(got).__name__} for a tensor")
    if tuple(expected.shape) != got.shape:
        raise Disagreement(f"shape: {got.shape} for {tuple(expected.shape)}")
    if expected.is_complex():
        raise NotApplicable("complex numbers")
    want, have = str(expected.dtype).removeprefix("torch."), dtype_name(got)
    if want != have and not (want == "int64" and have in ("int32", "uint32")):
        raise Disagreement(f"dtype: {have} for {want}")


def dtype_name(ours):
    """Of one of our tensors; what has the weak type of a Python number has this number's usual one."""
    return {"weakint": "int32", "weakfloat": "float32"}.get(ours.dtype.name, ours.dtype.name)


def check_values(expected, got, rtol, atol):
    """`got` is our array, or a number."""
    if isinstance(expected, torch.Tensor):
        expected = to_numpy(expected)
    elif isinstance(expected, (str, type(None), torch.dtype)):
        if expected != got:
            raise Disagreement(f"value: {got!r} for {expected!r}")
        return
    expected, got = np.asarray(expected), np.asarray(got)
    if expected.dtype.kind == "f" or got.dtype.kind == "f":
        with np.errstate(invalid="ignore", over="ignore"):
            wrong = ~np.isclose(got.astype(np.float64), expected.astype(np.float64), rtol, atol, equal_nan=True)
    else:
        if expected.dtype == np.int64 and got.dtype in (np.int32, np.uint32):
            expected = expected.astype(got.dtype)
        wrong = expected != got
    if wrong.any():
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise Disagreement(
            f"value: {got[place]:.7g} for {expected[place]:.7g}"
            + (f", {wrong.sum()} of {wrong.size}" if wrong.size > 1 else "")
        )
