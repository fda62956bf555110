"""Names about tensors as objects, and what only PyTorch's library has at its top level."""

import array
import io
from collections import OrderedDict

import numpy as np
import pytest
import tensord
import torch
from oracle import DTYPES
from table import Ints, create, lib, row, test_row  # noqa: F401
from tensord import nn

WIDE = [dtype for dtype in DTYPES if "float8" not in str(dtype)]
BYTES = bytes(range(1, 65))

ROWS = [
    *(
        row(
            f"fill_diagonal_ of {shape}, wrap {wrap}",
            lambda x, w=wrap: (x * 1).fill_diagonal_(3, w),
            shape,
            gradient=False,
        )
        for shape in ((3, 5), (7, 3), (4, 3), (3, 3), (2, 2, 2), (1, 1), (0, 3))
        for wrap in (False, True)
    ),
    row("narrow_copy", lambda x: x.narrow_copy(1, 1, 2), (3, 4), gradient=False),
    row("divmod", lambda x: divmod(x, 0.75), (9,), gradient=False, theirs=lambda x: (x // 0.75, x % 0.75)),
    row("divmod of ints", lambda x: divmod(x, -3), Ints(-9, 9, 9), theirs=lambda x: (x // -3, x % -3)),
    row("divmod of a number", lambda x: divmod(7.5, x), (9,), gradient=False, theirs=lambda x: (7.5 // x, 7.5 % x)),
    row("round of two digits", lambda x: round(x, 2), (9,), gradient=False, form=True, theirs=lambda x: x.round(decimals=2)),
    row("map_", lambda x, y: (x * 1).map_(y, lambda a, b: a * b + 1), (3, 4), (4,), gradient=False,
        theirs=lambda x, y: (x * 1).map_(y.expand(3, 4), lambda a, b: a * b + 1)),
    row("apply_", lambda x: (x * 1).apply_(lambda v: v * v), (3, 4), gradient=False),
    row("resize_", lambda x: (x * 1).resize_(2, 3), (3, 4), gradient=False),
    row("resize_as_", lambda x, y: (x * 1).resize_as_(y), (3, 4), (12,), gradient=False),
    row("constant_pad_nd", lambda x: lib(x).constant_pad_nd(x, (1, 2, 0, 1), 4.0), (2, 3)),
    row("adaptive_avg_pool1d", lambda x: lib(x).adaptive_avg_pool1d(x, 3), (2, 3, 7)),
    row("stft as a method", lambda x: x.stft(8, window=lib(x).ones(8), return_complex=False) if lib(x) is torch else
        x.stft(8, window=lib(x).ones(8)), (64,), gradient=False, backward=(1e-3, 1e-3),
        theirs=lambda x: torch.view_as_real(x.stft(8, window=torch.ones(8), return_complex=True))),
    row("orgqr", lambda x, tau: x.orgqr(tau), (4, 3), (3,)),
    *(
        row(
            f"lobpcg, largest {largest}",
            lambda x, y, g=largest: lib(x).lobpcg(x @ x.mT, 2, y @ y.mT + 9 * lib(x).eye(9), largest=g)[0],
            (9, 9),
            (9, 9),
            gradient=False,
            forward=(1e-2, 1e-3),
        )
        for largest in (True, False)
    ),
    *(
        row(
            f"CrossMapLRN2d({size})",
            lambda x, s=size: (torch.nn if lib(x) is torch else nn).CrossMapLRN2d(s, 0.3, 0.6, 1.5)(x),
            (2, channels, 3, 4),
            gradient=False,  # PyTorch's is not that of what it computes
        )
        for size, channels in ((1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (6, 3))  # with more, PyTorch keeps the first one
    ),
    *(
        create(f"frombuffer of {dtype}", lambda t, n=str(dtype)[6:]: t.frombuffer(BYTES, dtype=getattr(t, n), count=3, offset=8))
        for dtype in WIDE
    ),
    *(
        create(f"range({', '.join(map(str, ends))})", lambda t, e=ends: t.range(*e))
        for ends in ((1, 4), (0, 1, 0.3), (3, 0, -1), (2, 2), (-1.5, 1.5, 0.5))
    ),
    create("range of ints", lambda t: t.range(1, 9, 3, dtype=t.int32)),
    *(create(f"scalar_tensor({x})", lambda t, x=x: t.scalar_tensor(x)) for x in (3, 2.5, True)),
    create("asarray of an array", lambda t: t.asarray(np.arange(6, dtype=np.float64).reshape(2, 3))),
    create("asarray of lists", lambda t: t.asarray([[1, 2], [3, 4]], dtype=t.float32)),
    create("asarray of a buffer", lambda t: t.asarray(bytearray(BYTES[:8]))),
    create("asarray of a buffer, as ints", lambda t: t.asarray(bytearray(BYTES[:8]), dtype=t.int16)),
    create("asarray of doubles", lambda t: t.asarray(array.array("d", [1, 2]))),
]  # fmt: skip


def name_of(dtype):
    return str(dtype).removeprefix("torch.")


def test_can_cast_is_pytorchs():
    found = {(a, b): tensord.can_cast(DTYPES[a], DTYPES[b]) for a in DTYPES for b in DTYPES}
    assert found == {(a, b): torch.can_cast(a, b) for a in DTYPES for b in DTYPES}


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int32", "float16", "bfloat16", "float32", "float64"])
def test_result_types_with_numbers_are_pytorchs(dtype):
    ours, theirs = tensord.zeros(2, dtype=dtype), torch.zeros(2, dtype=getattr(torch, dtype))
    for number in (True, 2, 1.5):
        want = name_of(torch.result_type(theirs, number))
        assert tensord.result_type(ours, number) == ("int32" if want == "int64" else want)


QUESTIONS = """
    is_signed is_complex is_conj is_neg is_inference is_floating_point ndimension get_device is_cpu is_cuda is_sparse is_sparse_csr
    is_quantized is_nested is_meta is_mps is_xpu is_mkldnn is_pinned
""".split()


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("dtype", ["float32", "uint8", "bool"])
def test_answers_are_pytorchs(name, dtype):
    answers = [getattr(t.zeros(2, 3, dtype=getattr(t, dtype)), name) for t in (tensord, torch)]
    ours, theirs = (answer() if callable(answer) else answer for answer in answers)
    assert ours == theirs and type(ours) is type(theirs)


def test_sizes_print_and_count_alike():
    ours, theirs = tensord.Size((2, 3)) + (4,), torch.Size((2, 3)) + (4,)
    assert ours == theirs and ours.numel() == theirs.numel() and repr(ours)[8:] == repr(theirs)[6:]


def test_pytorch_loads_what_is_saved():
    saved = {
        "a": tensord.Tensor(np.arange(6, dtype=np.float32).reshape(2, 3), requires_grad=True),
        "nested": [OrderedDict(x=tensord.tensor([1.5])), (1, -(2**40), 2.5, None, True, "text \u00e4", {})],
        **{name: tensord.tensor([0, 1, 1], dtype=name) for name in map(name_of, DTYPES)},
        "empty": tensord.zeros(0, 3),
        "number": tensord.tensor(2.5),
        "dtype": tensord.bfloat16,
    }
    file = io.BytesIO()
    tensord.save(saved, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=True)
    assert list(loaded) == list(saved) and loaded["nested"][1] == saved["nested"][1] and loaded["dtype"] is torch.bfloat16
    assert type(loaded["nested"][0]) is OrderedDict and loaded["a"].requires_grad
    for name, tensor in saved.items():
        if isinstance(tensor, tensord.Tensor):
            assert name_of(loaded[name].dtype) == str(tensor.dtype)
            np.testing.assert_array_equal(loaded[name].detach().double().numpy(), tensor.double().numpy())


def test_what_pytorch_saved_to_memory_is_loaded():
    for zipped in (True, False):
        file = io.BytesIO()
        torch.save({"x": torch.arange(6.0).reshape(2, 3).T, "y": [1, "a"]}, file, _use_new_zipfile_serialization=zipped)
        file.seek(0)
        loaded = tensord.load(file)
        assert loaded["y"] == [1, "a"] and loaded["x"].tolist() == [[0, 3], [1, 4], [2, 5]]
