"""PyTorch's names about tensors as objects: questions, dtypes, data that is written element by element or where it lies."""

import copy
import math
import pickle

import numpy as np
import pytest
import tensord
from tensord import Tensor, nn

A = np.arange(12, dtype=np.float32).reshape(3, 4)

QUESTIONS = [
    ("is_tensor", lambda: (tensord.is_tensor(Tensor(A)), tensord.is_tensor(A)), (True, False)),
    ("is_storage", lambda: tensord.is_storage(Tensor(A)), False),
    ("is_nonzero", lambda: [tensord.is_nonzero(Tensor(x)) for x in ([2.5], 0, True, [[0.0]])], [True, False, True, False]),
    ("is_signed", lambda: [tensord.zeros(1, dtype=d).is_signed() for d in ("int8", "uint8", "float16", "bool")],
     [True, False, True, False]),
    ("is_complex", lambda: (Tensor(A).is_complex(), tensord.is_complex(Tensor(A))), (False, False)),
    ("is_same_size", lambda: (Tensor(A).is_same_size(Tensor(A)), Tensor(A).is_same_size(Tensor(A.T))), (True, False)),
    ("is_floating_point", lambda: tensord.is_floating_point(Tensor(A)), True),
    ("where it is", lambda: (Tensor(A).is_cpu, Tensor(A).is_cuda, Tensor(A).get_device()), (True, False, -1)),
    ("kinds there are not", lambda: {getattr(Tensor(A), f"is_{kind}") for kind in ("sparse", "quantized", "nested", "meta")},
     {False}),
    ("ndimension", lambda: Tensor(A).ndimension(), 2),
    ("pinned, shared", lambda: (Tensor(A).is_pinned(), Tensor(A).is_shared()), (False, False)),
    ("real", lambda: Tensor(A).real.tolist(), A.tolist()),
    ("constants", lambda: (tensord.pi, tensord.e, tensord.inf, math.isnan(tensord.nan), tensord.newaxis),
     (math.pi, math.e, math.inf, True, None)),
    ("dtypes by PyTorch's short names", lambda: (tensord.float, tensord.int, tensord.bool, tensord.short),
     ("float32", "int32", "bool", "int16")),
    ("result_type", lambda: tensord.result_type(tensord.zeros(1, dtype="int8"), 2.0), "float32"),
    ("result_type of numbers", lambda: tensord.result_type(1, True), "int32"),
    ("can_cast", lambda: [tensord.can_cast(*pair) for pair in (("int32", "float16"), ("float16", "int32"), ("int64", "int8"),
                                                              ("int8", "bool"), ("bool", "int8"))],
     [True, False, True, False, True]),
    ("get_default_dtype", tensord.get_default_dtype, "float32"),
    ("Size", lambda: (tensord.Size((2, 3)).numel(), tensord.Size((2, 3)) == Tensor(A)[:2, :3].shape,
                      repr(tensord.Size([2])), tensord.Size((1, 2, 3))[1:].numel()), (6, True, "tensord.Size([2])", 6)),
    ("divmod", lambda: [x.tolist() for x in divmod(Tensor([7, -7]), 2)], [[3, -4], [1, 1]]),
    ("divmod of a number", lambda: [x.tolist() for x in divmod(7, Tensor([2, -2]))], [[3, -4], [1, -1]]),
    ("round", lambda: (round(Tensor([2.5, 3.14])).tolist(), round(Tensor([312.5]), -1).tolist()), ([2.0, 3.0], [310.0])),
    ("narrow_copy", lambda: Tensor(A).narrow_copy(1, 1, 2).tolist(), A[:, 1:3].tolist()),
    ("scalar_tensor", lambda: (tensord.scalar_tensor(3).dtype, tensord.scalar_tensor(3, dtype="int8").tolist()),
     ("float32", 3)),
    ("range", lambda: (tensord.range(1, 3).tolist(), tensord.range(1, 0, -0.25).tolist(), tensord.range(1, 2, 0.7).dtype),
     ([1, 2, 3], [1, 0.75, 0.5, 0.25, 0], "float32")),
    ("in place, as a function", lambda: tensord.relu_(Tensor([-1.0, 2.0])).tolist(), [0, 2]),
]  # fmt: skip


@pytest.mark.parametrize("ask, answer", [pytest.param(*row[1:], id=row[0]) for row in QUESTIONS])
def test_answers(ask, answer):
    assert ask() == answer


FROM_BUFFERS = [
    ("bytes", bytes(range(8)), {"dtype": "uint16"}, np.frombuffer(bytes(range(8)), np.uint16)),
    ("an array, in part", A, {"dtype": "float32", "count": 3, "offset": 8}, A.ravel()[2:5]),
    ("bools", b"\0\1\2", {"dtype": "bool"}, np.array([False, True, True])),
    ("bfloat16", b"\x80\x3f", {"dtype": "bfloat16"}, np.array([1.0], np.float32)),
]


@pytest.mark.parametrize("buffer, options, expected", [pytest.param(*row[1:], id=row[0]) for row in FROM_BUFFERS])
def test_buffers(buffer, options, expected):
    made = tensord.frombuffer(buffer, **options)
    assert made.dtype == options["dtype"]
    np.testing.assert_array_equal(made.numpy(), expected)


def test_asarray():
    x = Tensor(A)
    assert tensord.asarray(x) is x and tensord.asarray(x, copy=True) is not x
    assert tensord.asarray(x, dtype="int32").tolist() == A.astype(int).tolist()
    assert tensord.asarray([1, 2]).dtype == "int32" and tensord.asarray(b"\0\0\x80\x3f").dtype == "uint8"
    assert tensord.asarray(b"\0\0\x80\x3f", dtype="float32").tolist() == [1.0]
    assert tensord.asarray(A, requires_grad=True).requires_grad and not x.requires_grad


def become(change):
    """A tensor and another name of it, after a change of the first object."""
    x = Tensor(A)
    view = x[1]
    change(x)
    return x, view


def test_set_and_resize_make_another_name():
    source = Tensor(A.ravel())
    x, view = become(lambda x: x.set_(source))
    source.add_(1)
    assert x.tolist() == (A.ravel() + 1).tolist() and view.tolist() == A[1].tolist()
    x, _ = become(lambda x: x.resize_(2, 3))
    assert x.tolist() == A.ravel()[:6].reshape(2, 3).tolist()
    assert become(lambda x: x.resize_((6, 2)))[0].shape == (6, 2)
    assert become(lambda x: x.resize_as_(Tensor([1, 2])))[0].tolist() == [0, 1]
    assert become(lambda x: x.set_())[0].shape == (0,)


def test_elements_by_functions():
    x = Tensor(A)
    assert x.apply_(lambda v: v * 2 + 1) is x and x.tolist() == (A * 2 + 1).tolist()
    assert x.map_(Tensor([1.0, 2.0, 3.0, 4.0]), lambda a, b: a - b).tolist() == (A * 2 + 1 - [1, 2, 3, 4]).tolist()
    assert Tensor([1, 2]).map2_(Tensor(3), Tensor([4, 5]), lambda a, b, c: a * b + c).tolist() == [7, 11]


@pytest.mark.parametrize("shape, wrap", [((3, 4), False), ((7, 3), False), ((7, 3), True), ((4, 3), True), ((3, 3), True)])
def test_diagonals_are_filled(shape, wrap):
    expected = np.zeros(shape)
    np.fill_diagonal(expected, 5, wrap=wrap)
    x = tensord.zeros(*shape)
    assert x.fill_diagonal_(5, wrap) is x and x.tolist() == expected.tolist()


def test_a_diagonal_of_a_cube():
    expected = np.zeros((3, 3, 3))
    np.fill_diagonal(expected, 2)
    assert tensord.zeros(3, 3, 3).fill_diagonal_(2).tolist() == expected.tolist()


def graded():
    return tensord.zeros(2, requires_grad=True)


ERRORS = [
    ("an address", NotImplementedError, "daemon", lambda: Tensor(A).data_ptr()),
    ("more elements", NotImplementedError, "grow", lambda: Tensor(A).resize_(100)),
    ("a view of what requires a gradient", ValueError, "gradient", lambda: graded().resize_(1)),
    ("another dtype", ValueError, "int32", lambda: Tensor(A).set_(Tensor([1]))),
    ("is_nonzero of two", ValueError, "one element", lambda: tensord.is_nonzero(Tensor([1, 2]))),
    ("a diagonal of a vector", ValueError, "matrix", lambda: tensord.zeros(3).fill_diagonal_(1)),
    ("a diagonal of unequal sizes", ValueError, "matrix", lambda: tensord.zeros(3, 2, 3).fill_diagonal_(1)),
    ("no whole elements", ValueError, "whole", lambda: tensord.frombuffer(b"abc", dtype="int16")),
    ("an offset outside", ValueError, "offset", lambda: tensord.frombuffer(b"ab", dtype="int8", offset=2)),
    ("too many elements", ValueError, "2 elements", lambda: tensord.frombuffer(b"ab", dtype="int16", count=2)),
    ("data that is not copied", ValueError, "copied", lambda: tensord.asarray(A, copy=False)),
    ("a range that goes away", ValueError, "range", lambda: tensord.range(1, 3, -1)),
    ("autocast", NotImplementedError, "bfloat16", lambda: tensord.autocast("cpu")),
    ("a backend in Python", TypeError, "backend", lambda: tensord.compile(abs, backend=lambda graph, inputs: graph)),
    ("too few rows", ValueError, "3 times", lambda: tensord.lobpcg(tensord.eye(5), 2)),
    ("a profile", ValueError, "profile", lambda: tensord.set_printoptions(profile="long")),
    ("a kind of layers", ValueError, "RNN_TANH", lambda: nn.RNNBase("CNN", 2, 3)),
]


@pytest.mark.parametrize("kind, message, call", [pytest.param(*row[1:], id=row[0]) for row in ERRORS])
def test_errors(kind, message, call):
    with pytest.raises(kind, match=message):
        call()


@pytest.fixture
def print_options():
    from tensord import printing

    before = dict(printing._chosen)
    yield tensord.set_printoptions
    printing._chosen.clear()
    printing._chosen.update(before)


PRINTED = [
    ({"precision": 2}, [1 / 3, 2.0], "Tensor([0.33, 2.  ], dtype=float32)"),
    ({"sci_mode": True, "precision": 1}, [1 / 3, 2.0], "Tensor([3.3e-01, 2.0e+00], dtype=float32)"),
    ({"sci_mode": False, "precision": 2}, [1e-9, 2.0], "Tensor([0.00, 2.00], dtype=float32)"),
    ({"threshold": 4, "edgeitems": 1}, [1, 2, 3, 4, 5], "Tensor([1, ..., 5], dtype=int32)"),
    ({"profile": "short"}, [1 / 3], "Tensor([0.33], dtype=float32)"),
]


@pytest.mark.parametrize("options, data, text", PRINTED)
def test_print_options(print_options, options, data, text):
    print_options(**options)
    assert str(Tensor(data)) == text


def test_long_lines_and_whole_profiles(print_options):
    print_options(profile="full", linewidth=40)
    lines = str(tensord.arange(2000)).splitlines()
    assert max(map(len, lines)) <= 40 + len(", dtype=int32)") and "..." not in "".join(lines)


def test_default_devices():
    name = str(tensord.get_default_device())
    tensord.set_default_device("CPU:0")
    try:
        assert str(tensord.get_default_device()) == "CPU:0" == tensord.zeros(2).device
        with tensord.device("INTERP:0" if "INTERP:0" in tensord.current().devices else "CPU:0") as inner:
            assert tensord.get_default_device() == inner
    finally:
        tensord.set_default_device(None)
    assert tensord.get_default_device() == name


def test_compile_is_jit_with_the_modules_parameters():
    @tensord.compile(fullgraph=True)
    def double(x):
        return x * 2

    assert [double(Tensor([n])).item() for n in (1, 2)] == [2, 4] and double.captures == 1
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    compiled = tensord.compile(model)
    x = Tensor(np.ones((2, 3), np.float32))
    np.testing.assert_allclose(compiled(x).numpy(), model(x).numpy(), rtol=1e-6)
    assert {id(p) for p in compiled.parameters()} == {id(p) for p in model.parameters()}
    assert sorted(compiled.state_dict()) == sorted(f"_orig_mod.{name}" for name in model.state_dict())
    compiled(x).sum().backward()
    assert model[0].weight.grad is not None
    assert tensord.compile(model, disable=True) is model
    for twin in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))):
        np.testing.assert_allclose(twin(x).numpy(), model(x).numpy(), rtol=1e-6)
        assert twin._orig_mod is not model


def test_a_compiled_module_trains_as_its_module_does():
    model = nn.Sequential(nn.Dropout(0.5))
    compiled, x = tensord.compile(model), tensord.ones(1000)
    assert compiled.eval()(x).sum().item() == 1000 and not model.training
    assert set(compiled.train()(x).tolist()) == {0.0, 2.0} and model.training
    with pytest.raises(AttributeError, match="no_such_thing"):
        compiled.no_such_thing


def test_autocast_that_is_off_does_nothing():
    with tensord.autocast("cpu", enabled=False):
        assert (tensord.ones(2, 2) @ tensord.ones(2, 2)).dtype == "float32"


def test_lobpcg():
    rng = np.random.default_rng(1)
    a, b = (m @ m.T + np.eye(9) for m in rng.standard_normal((2, 9, 9)))
    for largest in (True, False):
        e, v = tensord.lobpcg(Tensor(a), 3, Tensor(b), largest=largest)
        np.testing.assert_allclose(a @ v.numpy(), b @ v.numpy() * e.numpy(), rtol=1e-6, atol=1e-8)
        expected = np.sort(np.linalg.eigvals(np.linalg.solve(b, a)).real)
        np.testing.assert_allclose(e.numpy(), expected[::-1][:3] if largest else expected[:3], rtol=1e-8)


def test_tensor_io_reads_what_it_is_asked_for():
    data = bytes(range(256)) * 3
    file = nn.state.TensorIO(Tensor(data))
    assert file.readable() and file.seekable() and not file.writable()
    assert file.read(4) == data[:4] and file.read(4) == data[4:8] and file.tell() == 8
    assert file.seek(-3, 2) == 765 and file.read() == data[-3:] and file.read(5) == b""
    assert file.seek(10) == 10 and file.seek(-5, 1) == 5 and file.read(2) == data[5:7]
    with pytest.raises(ValueError, match="uint8"):
        nn.state.TensorIO(Tensor([1.0]))
