"""Files that only look as if torch.save had written them: nothing in them runs, and each is an error in the end.

What PyTorch itself writes is read in tests/torch/files_test.py.
"""

import collections
import os
import pickle
import struct
import subprocess
import sys
import textwrap
import zipfile

import numpy as np
import pytest
import tensord
from tensord import errors
from tensord.io import torch_load
from tensord.io.unpickler import Dummy
from tensord.testing import fuzz_file


class Reduce:
    """Pickled as a call."""

    def __init__(self, *call):
        self.call = call

    def __reduce__(self):
        return self.call


def archive(path, pickled, members=(), prefix="archive/", compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as file:
        file.writestr(f"{prefix}data.pkl", pickled)
        for name, data in dict(members).items():
            file.writestr(f"{prefix}{name}", data)
    return path


def name(text):
    return text.encode() if isinstance(text, str) else text


# Opcodes by hand.
def glob(module, attribute):
    return b"c" + name(module) + b"\n" + name(attribute) + b"\n"


def text(value):
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def number(value):
    return b"\x8a" + bytes([9]) + value.to_bytes(9, "little", signed=True)


def tuple_of(*items):
    return b"(" + b"".join(items) + b"t"


def storage(kind="FloatStorage", key="0", count=6):
    return tuple_of(text("storage"), glob("torch", kind), text(key), text("cpu"), number(count)) + b"Q"


def tensor(store=None, offset=0, size=(2, 3), stride=(3, 1), more=b"\x89" + glob("collections", "OrderedDict") + b")R"):
    return (
        glob("torch._utils", "_rebuild_tensor_v2")
        + tuple_of(
            store or storage(), number(offset), tuple_of(*map(number, size)), tuple_of(*map(number, stride)), more
        )
        + b"R"
    )


DATA = np.arange(6, dtype=np.float32)


def load(tmp_path, pickled, data=DATA.tobytes(), **more):
    return torch_load(archive(tmp_path / "f.pt", b"\x80\x02" + pickled + b".", {"data/0": data, **more}))


def test_a_tensor_by_hand(tmp_path):
    assert load(tmp_path, tensor()).tolist() == [[0, 1, 2], [3, 4, 5]]


VIEWS = [  # size, stride, offset
    ((2, 3), (3, 1), 0), ((3, 2), (1, 3), 0), ((2, 2), (3, 1), 1), ((2, 3), (0, 1), 2), ((4, 3), (1, 1), 0),
    ((6,), (1,), 0),
    ((), (), 5), ((3,), (2,), 1), ((1, 6), (17, 1), 0), ((6, 1), (1, 0), 0), ((1, 1, 1), (1, 5, 2), 3), ((5,), (0,), 4),
    ((0, 3), (3, 1), 0), ((2, 0), (9, 9), 6), ((3, 1, 2), (2, 2, 1), 0), ((2, 1, 3), (3, 7, 1), 0), ((2, 2), (1, 1), 3),
]  # fmt: skip


@pytest.mark.parametrize("size, stride, offset", VIEWS, ids=str)
def test_strides_and_offsets(tmp_path, size, stride, offset):
    expected = np.lib.stride_tricks.as_strided(DATA[offset:], size, [4 * s for s in stride])
    np.testing.assert_array_equal(load(tmp_path, tensor(size=size, stride=stride, offset=offset)).numpy(), expected)


def test_shared_storages_stay_shared(tmp_path):
    a, b = load(tmp_path, b"]" + b"(" + tensor() + tensor(size=(3, 2), stride=(1, 3)) + b"e")
    a[1, 0] = 50
    assert b.tolist() == [[0, 50], [1, 4], [2, 5]]


def test_big_endian_storages(tmp_path):
    data = DATA.astype(">f4").tobytes()
    assert load(tmp_path, tensor(), data, byteorder="big").tolist() == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(errors.InvalidArgumentError, match="neither little nor big"):
        load(tmp_path, tensor(), data, byteorder="middle")


def test_compressed_storages(tmp_path):
    path = archive(
        tmp_path / "f", b"\x80\x02" + tensor() + b".", {"data/0": DATA.tobytes()}, "x/", zipfile.ZIP_DEFLATED
    )
    assert torch_load(path).tolist() == [[0, 1, 2], [3, 4, 5]]


def test_plain_values_come_as_they_are(tmp_path):
    value = {
        "a": [1, 2.5, None, True, -(2**70)],
        "b": ("x", b"y", {"z": {1, 2}}),
        3: frozenset({4}),
        (1, "k"): "deep" * 100,
    }
    value["c"] = collections.OrderedDict(p=1, q=2)
    for protocol in range(2, 6):
        loaded = torch_load(archive(tmp_path / "f", pickle.dumps(value, protocol)))
        assert loaded == value and type(loaded["c"]) is collections.OrderedDict
    cycle = []
    cycle.append(cycle)
    loaded = torch_load(archive(tmp_path / "f", pickle.dumps(cycle)))
    assert loaded[0] is loaded


def test_unknown_classes_are_inert(tmp_path):
    pickled = b"(" + glob("model.code", "Net") + b")\x81}" + text("weight") + number(3) + b"sb" + b"l"
    loaded = load(tmp_path, pickled)[0]
    assert isinstance(loaded, Dummy) and loaded.class_name == "model.code.Net" and loaded.state == {"weight": 3}


def evil(path):
    """Calls that leave `path` if they run."""
    code = f"open({str(path)!r}, 'w').close()"
    command = f"touch {path}"
    for protocol in 0, 2, 4:
        yield f"os.system {protocol}", pickle.dumps(Reduce(os.system, (command,)), protocol)
        yield f"eval {protocol}", pickle.dumps(Reduce(eval, (code,)), protocol)
        yield f"exec {protocol}", pickle.dumps(Reduce(exec, (code,)), protocol)
        yield f"subprocess {protocol}", pickle.dumps(Reduce(subprocess.check_output, (["touch", str(path)],)), protocol)
        yield f"open {protocol}", pickle.dumps(Reduce(open, (str(path), "w")), protocol)
    argument = text(command)
    yield "posix", glob("posix", "system") + tuple_of(argument) + b"R."
    yield "builtins of Python 2", glob("__builtin__", "eval") + tuple_of(text(code)) + b"R."
    yield "INST", b"(" + argument + b"ios\nsystem\n."
    yield "OBJ", b"(" + glob("os", "system") + argument + b"o."
    yield "NEWOBJ", glob("os", "system") + tuple_of(argument) + b"\x81."
    yield "NEWOBJ_EX", glob("os", "system") + tuple_of(argument) + b"}\x92."
    yield "STACK_GLOBAL", text("os") + text("system") + b"\x93" + tuple_of(argument) + b"R."
    yield "dotted STACK_GLOBAL", text("torch") + text("os.system") + b"\x93" + tuple_of(argument) + b"R."
    yield (
        "by way of a module of the table",
        text("torch.serialization") + text("os.system") + b"\x93" + tuple_of(argument) + b"R.",
    )
    yield "getattr", glob("builtins", "getattr") + tuple_of(glob("torch", "Size"), text("__class__")) + b"R."
    yield "a chain of getattr", (glob("builtins", "getattr") + tuple_of(
        glob("builtins", "getattr") + tuple_of(glob("os", "path"), text("os")) + b"R", text("system")) + b"R"
        + tuple_of(argument) + b"R.")  # fmt: skip
    yield "operator", glob("operator", "attrgetter") + tuple_of(text("os.system")) + b"R."
    yield "functools", glob("functools", "partial") + tuple_of(glob("os", "system"), argument) + b"R."
    yield "importlib", glob("importlib", "import_module") + tuple_of(text("os")) + b"R."
    yield "torch.hub", glob("torch.hub", "load") + tuple_of(argument) + b"R."
    yield (
        "a function of a library",
        glob("numpy.testing._private.utils", "runstring") + tuple_of(text(code), b"}") + b"R.",
    )
    yield "a function of ours", glob("tensord.connection", "connect") + tuple_of(argument) + b"R."
    yield "EXT", b"\x82\1."
    yield "build of a function", glob("collections", "OrderedDict") + b"}" + text("__call__") + argument + b"sb."
    yield "build of a tensor", tensor() + b"}" + text("grad") + argument + b"sb."
    yield "persistent id", argument + b"Q."
    yield "persistent id of a call", b"P" + name(command) + b"\n."
    yield "a call of a value", argument + tuple_of(argument) + b"R."
    yield "a call with a list", glob("torch", "Size") + b"](" + argument + b"eR."
    no_type = tuple_of(text("storage"), glob("os", "system"), text("0"), text("cpu"), number(6)) + b"Q"
    yield "a type of a storage that is none", tensor(no_type) + b"."


@pytest.mark.parametrize("case", range(sum(1 for _ in evil("x"))))
def test_nothing_runs(tmp_path, case):
    what, pickled = list(evil(tmp_path / "ran"))[case]
    for path in (archive(tmp_path / "f.pt", pickled, {"data/0": DATA.tobytes()}), tmp_path / "bare.pt"):
        if path.name == "bare.pt":
            path.write_bytes(pickled)
        with pytest.raises(errors.TensordError) as caught:
            torch_load(path)
        assert str(path) in str(caught.value) and not (tmp_path / "ran").exists(), what


FLOATS = b"\x80\x02" + tensor() + b"."
WRONG = {  # name: (pickle, message)
    "empty": (b"", "cannot be read|no value"),
    "no end": (b"\x80\x02}", "cannot be read"),
    "nothing left": (b".", "leaves 0 values"),
    "two values": (b"NN.", "leaves 2 values"),
    "a mark left": (b"(.", "takes a value where there is none"),
    "no mark": (b"Nt.", "needs a mark"),
    "an opcode of nobody": (b"\xfe.", "cannot be read"),
    "append to a dict": (b"}Na.", "no list, set or dict"),
    "a key of a list": (b"}]Ns.", "key of type list"),
    "a key of a deep tuple": (b"})\x85\x85Ns.", "key of type tuple"),
    "an odd number of items": (b"}(Nu.", "key without a value"),
    "memo of nothing": (b"h\5.", "reads memo 5"),
    "memo at the start": (b"q\0.", "no value|where there is none"),
    "a string without end": (b"X\xff\xff\xff\x7f", "allowed"),
    "bytes without end": (b"\x8e" + (2**62).to_bytes(8, "little"), "allowed|cannot be read"),
    "a number without end": (b"\x8b\xff\xff\xff\x7f", "allowed|cannot be read"),
    "a number of many digits": (b"I" + b"9" * 5000 + b"\n.", "cannot be read"),
    "a negative size": (tensor(size=(-2, 3)) + b".", "no size"),
    "sizes of text": (tensor(size=()).replace(b"(t", b"X\1\0\0\0at", 1) + b".", ""),
    "sizes that overflow": (tensor(size=(2**40, 2**40), stride=(0, 0)) + b".", "too many elements"),
    "strides that are missing": (tensor(stride=(1,)) + b".", "do not fit shape"),
    "negative strides": (tensor(stride=(-3, 1), offset=3) + b".", "do not fit shape"),
    "a negative offset": (tensor(offset=-1) + b".", "do not fit shape"),
    "an element too many": (tensor(offset=1) + b".", "reaches to element 6 of 6"),
    "elements far off": (tensor(stride=(2**40, 2**40)) + b".", "reaches to element"),
    "a storage larger than its member": (tensor(storage(count=7)) + b".", "has 24 bytes, not 28"),
    "a storage of negative size": (tensor(storage(count=-1)) + b".", "no size of a storage"),
    "a storage of an enormous size": (tensor(storage(count=2**62)) + b".", "no size of a storage"),
    "a storage that is missing": (tensor(storage(key="9")) + b".", "not in the file"),
    "a storage outside": (tensor(storage(key="../data.pkl")) + b".", "not in the file"),
    "a tensor over nothing": (tensor(b"N") + b".", "no storage"),
    "a name and nothing else": (glob("torch", "Size") + b".", "the name torch.Size"),
    "too few arguments": (glob("torch._utils", "_rebuild_tensor_v2") + b")R.", "cannot be read"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_pickle_is_an_error(tmp_path, case):
    pickled, message = WRONG[case]
    path = archive(tmp_path / "f.pt", pickled, {"data/0": DATA.tobytes()})
    with pytest.raises(errors.InvalidArgumentError, match=message) as caught:
        torch_load(path)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("kind", ["ComplexFloatStorage", "QInt8Storage"])
def test_dtypes_that_we_lack_are_named(tmp_path, kind):
    with pytest.raises(errors.UnimplementedError, match=kind.removesuffix("Storage").lower()):
        load(tmp_path, tensor(storage(kind, count=1)))


def test_hostile_pickles_take_little_memory_and_time(tmp_path):
    """Each in a process whose memory is limited."""
    laughs = b"]q\0" + b"".join(
        b"(" + b"h" + bytes([i]) + b"h" + bytes([i]) + b"tq" + bytes([i + 1]) for i in range(200)
    )
    cases = {
        "memo": b"Nr\xff\xff\xff\x7f.",
        "depth": b"]" * 2_000_000 + b"a" * 1_999_999 + b".",
        "tuples": b")" + b"\x85" * 2_000_000 + b".",
        "laughs": laughs + b"}h\xc8Ns.",
    }
    for case, pickled in cases.items():
        path = archive(tmp_path / f"{case}.pt", pickled)
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(f"""
            import resource, tensord
            resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))
            try:
                tensord.io.torch_load({str(path)!r})
            except tensord.TensordError as error:
                print(error)
        """)], capture_output=True, text=True, timeout=120)  # fmt: skip
        assert done.returncode == 0, (case, done.stderr[-2000:])


@pytest.mark.parametrize("members, message", [
    ({}, "0 members are called data.pkl"), ({"a/data.pkl": b".", "b/data.pkl": b"."}, "2 members"),
    ({"a/data.pkl": b".", "a/constants.pkl": b"."}, "leaves 0 values"), ({"a/b/data.pkl": b"."}, "0 members"),
    ({"model/constants.pkl": b"."}, "TorchScript"),
], ids=str)  # fmt: skip
def test_other_zip_files_are_an_error(tmp_path, members, message):
    with zipfile.ZipFile(tmp_path / "f", "w") as file:
        file.writestr("readme", "")
        for member, data in members.items():
            file.writestr(member, data)
    with pytest.raises(errors.InvalidArgumentError, match=message):
        torch_load(tmp_path / "f")


def test_mutated_files_are_errors_or_values(tmp_path):
    path = archive(tmp_path / "f", FLOATS, {"data/0": DATA.tobytes(), "byteorder": b"little"})
    fuzz_file(path, torch_load, rounds=500)
    path = tmp_path / "bare"
    path.write_bytes(pickle.dumps({"a": [1, 2, (3, "x")], "b": {1.5: b"2"}}, 2))
    fuzz_file(path, torch_load, rounds=500)


def test_a_cut_archive_is_an_error(tmp_path):
    path = archive(tmp_path / "f", FLOATS, {"data/0": DATA.tobytes()})
    whole = path.read_bytes()
    for size in range(0, len(whole), 7):
        path.write_bytes(whole[:size])
        with pytest.raises(errors.TensordError):
            torch_load(path)


def test_the_session_goes_on():
    assert tensord.ones(2).sum().item() == 2
