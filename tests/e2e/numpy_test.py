"""Random calls of the Python client against NumPy: the third opinion, beside the reference evaluator and INTERP.

A program is a list of steps that add arrays to a pool; each step does the same with tensors and with arrays. Whole
numbers must be equal to the bit; floats are compared with NumPy in float64. By hand, for longer:

    python tests/e2e/numpy_test.py --seconds 300 --seed 1000
"""

import argparse
import random
import sys
import tempfile
import time
import warnings

import numpy as np
import pytest
import tensord
from tensord import Tensor
from tensord.testing import Daemon

STEPS = {"arithmetic": 3, "logic": 1, "compare": 1, "function": 1, "movement": 4, "join": 1, "reduce": 2, "index": 3,
         "select": 1, "product": 1, "write": 2 if hasattr(Tensor, "__setitem__") else 0}  # fmt: skip

INTS = [np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64]
DTYPES = [*INTS, np.float32, np.float64, np.bool_]


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    with Daemon(tmp_path_factory.mktemp("both"), "--devices", "cpu,interp") as daemon:
        yield daemon


class Program:
    """Pairs of a tensor and the array that it should be equal to; floats are arrays of float64."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.values = np.random.default_rng(seed)
        self.pool = []
        self.text = []
        for _ in range(self.random.randint(1, 3)):
            self.leaf()
        for _ in range(self.random.randint(1, 7)):
            self.step()

    def shape(self):
        r = self.random
        return tuple(0 if r.random() < 0.03 else r.choice([1, 2, 3, 4, 5, 7, 16, 17]) for _ in range(r.randint(0, 3)))

    def array(self, dtype, shape):
        if dtype == np.bool_:
            return self.values.integers(0, 2, shape).astype(np.bool_)
        if np.issubdtype(dtype, np.integer):
            return self.values.integers(-9 if np.issubdtype(dtype, np.signedinteger) else 0, 10, shape).astype(dtype)
        return self.values.uniform(-2, 2, shape).astype(dtype)

    def leaf(self, dtype=None, shape=None):
        dtype = dtype or self.random.choice(DTYPES)
        array = self.array(dtype, self.shape() if shape is None else shape)
        # A copy: NumPy's results may be views of it, which a later step would write to.
        return self.add(f"leaf {np.dtype(dtype)} {array.shape}", Tensor(array.copy()), array)

    def add(self, text, tensor, array):
        array = np.asarray(array)
        if array.size <= 4000:
            self.pool.append((tensor, array.astype(np.float64) if array.dtype.kind == "f" else array.copy()))
            self.text.append(text)
        return tensor, array

    def any(self, kinds="iufb"):
        fitting = [pair for pair in self.pool if pair[1].dtype.kind in kinds]
        if fitting:
            return self.random.choice(fitting)
        return self.leaf({"f": np.float32, "b": np.bool_}.get(kinds[-1], np.int32))

    def partner(self, tensor, array):
        """Of the same dtype, and of a shape that broadcasts."""
        dtype = np.dtype(str(tensor.dtype).split(".")[-1])
        shape = [1 if self.random.random() < 0.2 else size for size in array.shape]
        return self.leaf(dtype.type, tuple(shape[self.random.randint(0, len(shape)):] if self.random.random() < 0.3
                                           else shape))  # fmt: skip

    def step(self):
        getattr(self, self.random.choices(list(STEPS), STEPS.values())[0])()

    def arithmetic(self):
        x, a = self.any("iuf")
        y, b = self.partner(x, a)
        if a.dtype.kind == "f":
            name = self.random.choice(["+", "-", "*", "max", "min"])
        else:
            name = self.random.choice(["+", "-", "*", "max", "min", "//", "%"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # overflow, and division by zero, which gives 0
            result = {
                "+": lambda: (x + y, a + b), "-": lambda: (x - y, a - b), "*": lambda: (x * y, a * b),
                "max": lambda: (x.maximum(y), np.maximum(a, b)), "min": lambda: (x.minimum(y), np.minimum(a, b)),
                "//": lambda: (x // y, a // b), "%": lambda: (x % y, a % b),
            }[name]()  # fmt: skip
        self.add(f"{name} of a {a.shape} and a {b.shape}", *result)

    def logic(self):
        x, a = self.any("iub")
        y, b = self.partner(x, a)
        name = self.random.choice(["&", "|", "^"])
        self.add(name, *{"&": lambda: (x & y, a & b), "|": lambda: (x | y, a | b), "^": lambda: (x ^ y, a ^ b)}[name]())

    def compare(self):
        x, a = self.any("iu")
        y, b = self.partner(x, a)
        name = self.random.choice(["<", "<=", "==", "!="])
        self.add(name, *{"<": lambda: (x < y, a < b), "<=": lambda: (x <= y, a <= b), "==": lambda: (x == y, a == b),
                         "!=": lambda: (x != y, a != b)}[name]())  # fmt: skip

    def function(self):
        x, a = self.any("f")
        name = self.random.choice(["exp", "sin", "cos", "tanh", "sqrt", "abs", "neg", "sigmoid", "square"])
        if name in ("exp", "sin", "cos", "square") and a.size and np.abs(a).max() > 5:
            name = "tanh"  # the others would make much of a small error
        self.add(name, *{
            "exp": lambda: (x.exp(), np.exp(a)), "sin": lambda: (x.sin(), np.sin(a)), "neg": lambda: (-x, -a),
            "cos": lambda: (x.cos(), np.cos(a)), "tanh": lambda: (x.tanh(), np.tanh(a)),
            "sqrt": lambda: (x.abs().sqrt(), np.sqrt(np.abs(a))), "abs": lambda: (x.abs(), np.abs(a)),
            "sigmoid": lambda: (x.sigmoid(), 1 / (1 + np.exp(-a))), "square": lambda: (x * x, a * a),
        }[name]())  # fmt: skip

    def movement(self):
        x, a = self.any()
        r = self.random
        name = r.choice(["permute", "reshape", "flip", "roll", "unsqueeze", "expand", "repeat", "tril", "slice"])
        axes = list(range(a.ndim))
        if name == "permute":
            r.shuffle(axes)
            self.add(f"permute {axes}", x.permute(*axes), a.transpose(axes))
        elif name == "reshape":
            sizes = [size for size in a.shape]
            r.shuffle(sizes)
            if len(sizes) > 1 and r.random() < 0.5:
                sizes[:2] = [sizes[0] * sizes[1]]
            self.add(f"reshape {sizes}", x.reshape(*sizes), a.reshape(sizes))
        elif name == "flip":
            some = [axis for axis in axes if r.random() < 0.5]
            if some:
                self.add(f"flip {some}", x.flip(*some), np.flip(a, some))
        elif name == "roll" and axes:
            shift, axis = r.randint(-4, 4), r.choice(axes)
            self.add(f"roll {shift} {axis}", x.roll(shift, axis), np.roll(a, shift, axis))
        elif name == "unsqueeze":
            axis = r.randint(0, a.ndim)
            self.add(f"unsqueeze {axis}", x.unsqueeze(axis), np.expand_dims(a, axis))
        elif name == "expand":
            sizes = [r.randint(1, 4) if size == 1 else size for size in a.shape]
            self.add(f"expand {sizes}", x.expand(*sizes), np.broadcast_to(a, sizes))
        elif name == "repeat" and axes:
            times = [r.randint(1, 3) for _ in axes]
            self.add(f"repeat {times}", x.repeat(*times), np.tile(a, times))
        elif name == "tril" and a.ndim >= 2:
            diagonal = r.randint(-2, 2)
            self.add(f"tril {diagonal}", x.tril(diagonal), np.tril(a, diagonal))
        elif name == "slice":
            index = self.basic_index(a.shape)
            self.add(f"[{index}]", x[index], a[index])

    def basic_index(self, shape):
        r = self.random
        index = []
        for size in shape[: r.randint(0, len(shape))]:
            if size and r.random() < 0.3:
                index.append(r.randrange(-size, size))
            else:
                ends = [None if r.random() < 0.4 else r.randint(-size - 1, size + 1) for _ in range(2)]
                index.append(slice(*ends, r.choice([None, 1, 2, 3, -1, -2])))
            if r.random() < 0.15:
                index.append(None)
        if r.random() < 0.2:
            index.append(Ellipsis)
        return tuple(index)

    def join(self):
        x, a = self.any()
        if a.ndim == 0:
            return
        axis = self.random.randrange(a.ndim)
        if self.random.random() < 0.5:
            self.add(f"cat {axis}", tensord.cat([x, x], axis), np.concatenate([a, a], axis))
        else:
            self.add(f"stack {axis}", tensord.stack([x, x], axis), np.stack([a, a], axis))

    def reduce(self):
        x, a = self.any("iuf")
        keep = self.random.random() < 0.5
        axis = self.random.randrange(a.ndim) if a.ndim and self.random.random() < 0.7 else None
        name = self.random.choice(["sum", "max", "min", "argmax", "cumsum", "mean", "prod"])
        text = f"{name} axis {axis} of {a.shape}"
        if name in ("max", "min", "argmax", "mean") and a.size == 0:
            return
        if name == "sum":
            y = x.sum(axis, keep)
            wide = np.float64 if a.dtype.kind == "f" else np.dtype(str(y.dtype).split(".")[-1])
            self.add(text, y, a.sum(axis, dtype=wide, keepdims=keep))
        elif name in ("max", "min"):
            y = {"max": x.amax, "min": x.amin}[name](axis, keep)
            self.add(text, y, {"max": a.max, "min": a.min}[name](axis, keepdims=keep))
        elif name == "argmax" and a.dtype.kind != "f":
            y = x.argmax(axis)
            self.add(text, y, np.asarray(a.argmax(axis)).astype(str(y.dtype).split(".")[-1]))
        elif name == "cumsum" and axis is not None and a.dtype.kind == "f":
            self.add(text, x.cumsum(axis), a.cumsum(axis))
        elif name == "mean" and a.dtype.kind == "f":
            self.add(text, x.mean(axis, keep), a.mean(axis, keepdims=keep))
        elif name == "prod" and a.dtype == np.int32:
            self.add(text, x.prod(axis, keep), a.prod(axis, dtype=np.int32, keepdims=keep))

    def index(self):
        """By arrays of numbers, beside slices."""
        x, a = self.any()
        if a.ndim == 0 or a.shape[0] == 0:
            return
        rows = self.values.integers(-a.shape[0], a.shape[0], (self.random.randint(1, 3), 2))
        if a.ndim >= 2 and a.shape[1] and self.random.random() < 0.5:
            columns = self.values.integers(0, a.shape[1], (2,))
            self.add("[rows, columns]", x[Tensor(rows.astype(np.int32)), Tensor(columns)], a[rows, columns])
        elif self.random.random() < 0.5:
            self.add("[rows]", x[Tensor(rows)], a[rows])
        else:
            self.add("[list]", x[rows[0].tolist()], a[rows[0].tolist()])

    def write(self):
        x, a = self.any()
        y, b = x.clone(), a.copy()
        index = self.basic_index(a.shape)
        index = tuple(part for part in index if part is not None)
        target = b[index]
        if self.random.random() < 0.5:
            value = self.random.randint(0, 5) if a.dtype != np.bool_ else True
            y[index] = value
            b[index] = value
        else:
            shape = tuple(1 if self.random.random() < 0.2 else size for size in np.shape(target))
            z, c = self.leaf(np.dtype(str(x.dtype).split(".")[-1]).type, shape)
            y[index] = z
            b[index] = c
        self.add(f"write [{index}]", y, b)

    def select(self):
        x, a = self.any()
        y, b = self.partner(x, a)
        p, c = self.leaf(np.bool_, a.shape)
        self.add("where", p.where(x, y), np.where(c, a, b))

    def product(self):
        x, a = self.any("f")
        if a.ndim != 2:
            return
        y, b = self.leaf(np.dtype(str(x.dtype).split(".")[-1]).type, (a.shape[1], 5))
        self.add("matmul", x @ y, a @ b)

    def problem(self):
        """The first value that is wrong; None if all are right."""
        for (tensor, array), text in zip(self.pool, self.text):
            got = tensor.numpy()
            if got.shape != array.shape:
                return f"{text}: shape {got.shape} instead of {array.shape}"
            if array.dtype.kind != "f":
                if got.dtype != array.dtype:
                    return f"{text}: dtype {got.dtype} instead of {array.dtype}"
                if not np.array_equal(got, array):
                    return f"{text}: {got} instead of {array}"
            else:
                # Float steps neither cancel nor grow much; a wrong one is off by far more.
                scale = 1 + (np.abs(array).max() if array.size else 0)
                loose = 1e-3 if got.dtype == np.float32 else 1e-6
                if not np.allclose(got, array, rtol=0, atol=loose * scale, equal_nan=True):
                    return f"{text}: {got} instead of {array}"
        return None


def check(seed):
    program = Program(seed)
    problem = program.problem()
    return problem and f"seed {seed}: {problem}\nsteps: {'; '.join(program.text)}"


@pytest.mark.parametrize(("device", "programs"), [("CPU:0", 120), ("INTERP:0", 40)])
def test_random_programs_agree_with_numpy(both, device, programs):
    with tensord.connect(both.address, device=device, timeout=60):
        for seed in range(programs):
            problem = check(seed)
            assert problem is None, f"{device}, {problem}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--device", default="CPU:0")
    arguments = parser.parse_args()
    end = time.monotonic() + arguments.seconds
    seed, failures = arguments.seed, 0
    with tempfile.TemporaryDirectory() as folder, Daemon(folder, "--devices", "cpu,interp") as daemon:
        with tensord.connect(daemon.address, device=arguments.device):
            while time.monotonic() < end:
                try:
                    problem = check(seed)
                except Exception as error:  # what the client raises is a finding too
                    problem = f"seed {seed}: {type(error).__name__}: {error}"
                if problem:
                    failures += 1
                    print(problem, flush=True)
                seed += 1
    print(f"{seed - arguments.seed} programs, {failures} failures; next seed {seed}")
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
