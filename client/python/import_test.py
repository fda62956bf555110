"""What `import tensord` imports, as that takes time; the rest comes when it is first named."""

import subprocess
import sys

import pytest

AT_ONCE = """
    tensord tensord.autograd tensord.autograd.anomaly tensord.autograd.forward_ad tensord.autograd.function
    tensord.autograd.functional tensord.autograd.gradcheck tensord.autograd.graph tensord.autograd.hooks
    tensord.autograd.modes tensord.compiled tensord.connection tensord.context tensord.creation tensord.download
    tensord.dtypes tensord.errors tensord.fft tensord.func tensord.functional tensord.generator tensord.given
    tensord.interop tensord.jit tensord.kernels tensord.linalg tensord.loops tensord.numerics tensord.objects tensord.out
    tensord.place tensord.printing tensord.profiler tensord.random tensord.return_types tensord.sharing
    tensord.signal tensord.signal.windows tensord.size tensord.special tensord.structure tensord.tinygrad tensord.training
""".split()

# (what names it, what of the rest is then there)
LATER = [
    ("tensord.nn", "tensord.nn"),
    ("tensord.nn.Linear", "tensord.nn.linear"),
    ("tensord.nn.optim", "tensord.nn.optim"),
    ("tensord.optim", "tensord.nn.optim"),
    ("tensord.utils", "tensord.utils.data"),
    ("tensord.io", "tensord.io"),
    ("tensord.load", "tensord.io"),
    ("tensord.conv2d", "tensord.nn.functional"),
    ("tensord.functional.conv2d", "tensord.nn.functional"),
    ("tensord.tensor([1])", "numpy"),
    ("from tensord import *", "tensord.nn"),
]


def modules_after(code):
    """Of tensord and NumPy, in a new interpreter."""
    program = f"import sys\nimport tensord\n{code}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True, check=True)
    return {module for module in done.stdout.split() if module.split(".")[0] in ("tensord", "numpy")}


def test_importing_imports_what_a_program_needs():
    assert modules_after("") == set(AT_ONCE)


# Of Python's own, for connecting, a private daemon or files: a quarter of the time that the import takes.
PYTHONS = {"hashlib", "logging", "secrets", "shutil", "subprocess", "tempfile", "zipfile"}


def test_importing_imports_little_of_python():
    programs = (f"import sys\n{imported}\nprint(*sys.modules)" for imported in ("", "import tensord"))
    before, after = (
        set(subprocess.run([sys.executable, "-c", each], text=True, capture_output=True, check=True).stdout.split())
        for each in programs
    )
    assert (after - before) & PYTHONS == set()


@pytest.mark.parametrize("code, module", LATER)
def test_the_rest_comes_when_it_is_named(daemon, code, module):
    assert module not in AT_ONCE
    assert module in modules_after(f"tensord.connect({daemon.address!r})\n{code}")


def test_arrays_are_arguments_whoever_imported_numpy():
    assert "numpy" in modules_after("import numpy\nassert tensord.jit(lambda x: x + 1)(numpy.ones(2)).tolist() == [2, 2]")


def test_names_that_come_later_are_listed():
    code = "names = set(dir(tensord))\nassert {'nn', 'io', 'load', 'save', 'conv2d'} <= names\n"
    assert modules_after(code) == set(AT_ONCE)


def test_a_name_that_does_not_exist_is_an_error():
    with pytest.raises(subprocess.CalledProcessError) as raised:
        modules_after("tensord.conv4d")
    assert "module 'tensord' has no attribute 'conv4d'" in raised.value.stderr
