"""jit: the rules of docs/jit.md. Where a captured call does what the function does, both are compared."""

import copy
import gc
import math
import pickle
import threading
import warnings
import weakref

import numpy as np
import pytest
import tensord
from tensord import Tensor, Variable, jit
from tensord.errors import FailedPreconditionError, InvalidArgumentError


def plain(value):
    """With numbers for tensors."""
    if isinstance(value, Tensor):
        return value.tolist()
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    return value


# ---- calls that do what the function does: each makes a function and calls that show its effects


def arguments_assigned(wrap):
    @wrap
    def f(x):
        x += 1
        return x * 10

    x = Tensor([1.0, 2.0]).realize()
    return [(f(x), x.tolist()) for _ in range(3)]


def slices_assigned(wrap):
    @wrap
    def f(x, value):
        x[1:] = value
        return x.sum()

    x = Tensor([1.0, 2.0, 3.0]).realize()
    return [(f(x, Tensor([float(i), 5.0])), x.tolist()) for i in range(3)]


def views_assigned(wrap):
    @wrap
    def f(x):
        x *= 2
        return x + 0

    base = Tensor([[1.0, 2.0], [3.0, 4.0]]).realize()
    return [(f(base[i % 2]), base.tolist()) for i in range(3)]


def the_same_tensor_twice(wrap):
    @wrap
    def f(x, y):
        x += 1
        return x * y

    x, y = Tensor([2.0]).realize(), Tensor([3.0]).realize()
    return [f(x, y), f(x, x), f(y, x), f(y, y), x, y]


def arguments_returned(wrap):
    f = wrap(lambda x, y: (y, x, x))
    x, y = Tensor([1.0]), Tensor([2.0])
    y2, x2, x3 = f(x, y)
    y += 1
    x2 += 1
    return [x, y, x2, y2, x3, f(x, y)]


def closures_returned(wrap):
    w = Tensor([1.0]).realize()

    @wrap
    def f():
        w.assign(w + 1)
        return w

    first = f()
    f()
    return [first, w]


def views_returned(wrap):
    f = wrap(lambda x: x[1:])
    x = Tensor([1.0, 2.0, 3.0]).realize()
    outs = []
    for i in range(2):
        tail = f(x)
        tail.assign([10.0 * i, 7.0])
        outs += [tail, x.tolist()]
    x += 1
    return [*outs, tail]


def structures_by_shape(wrap):
    f = wrap(lambda x: list(x.unbind(0)))
    two, three = Tensor([1.0, 2.0]), Tensor([1.0, 2.0, 3.0])
    return [f(two), f(three), f(two), f(three)]


def weak_dtypes(wrap):
    f = wrap(lambda x, y: x * y)
    weak = Tensor(2.0).sum()
    return [str(f(weak, Tensor([1], dtype="int8")).dtype), str(f(weak, Tensor([1.0], dtype="float16")).dtype),
            str((tensord.Tensor([1], dtype="int8") * f(weak, weak)).dtype)]  # fmt: skip


def gradients_left(wrap):
    w = Tensor([1.0, 2.0], requires_grad=True)

    @wrap
    def f(x):
        (w * x).sum().backward()
        return x

    out = []
    for i in range(4):
        f(Tensor([1.0, float(i)]))
        out.append(w.grad.tolist())
    w.grad = None
    f(Tensor([1.0, 1.0]))
    return [*out, w.grad]


def gradients_of_arguments(wrap):
    @wrap
    def f(x):
        (x * x).sum().backward()

    x, y = Tensor([3.0], requires_grad=True), Tensor([4.0], requires_grad=True)
    for each in (x, y, x):
        f(each)
    return [x.grad, y.grad]


def gradients_scaled_in_place(wrap):
    w = Tensor([1.0], requires_grad=True)
    w.grad = Tensor([8.0]).realize()

    @wrap
    def halve():
        w.grad.assign(w.grad * 0.5)

    halve()
    halve()
    w.grad = Tensor([2.0]).realize()
    halve()
    return w.grad


def cleared_gradients(wrap):
    w = Tensor([1.0], requires_grad=True)

    @wrap
    def f():
        w.grad = None
        (w * 3).sum().backward()
        w.assign(w.detach() - w.grad)
        w.grad = None

    f()
    f()
    return [w, w.grad is None]


def steps_outside(wrap):
    w = Tensor([1.0, 2.0], requires_grad=True)
    optimiser = tensord.nn.optim.SGD([w], lr=0.5)

    @wrap
    def loss(x):
        optimiser.zero_grad()
        value = ((w - x) ** 2).sum()
        value.backward()
        return value

    out = []
    for _ in range(3):
        out.append(loss(Tensor([0.5, 0.5])).item())
        optimiser.step()
    return [*out, w]


def both_steps_inside(wrap):
    w = Tensor([1.0, 2.0], requires_grad=True)
    optimiser = tensord.nn.optim.Adam([w], lr=0.5)

    @wrap
    def step(x):
        optimiser.zero_grad()
        value = ((w - x) ** 2).sum()
        value.backward()
        optimiser.step()
        return value

    with tensord.training():
        return [*[step(Tensor([0.5, 0.5])).item() for _ in range(3)], w]


def frozen_parameters(wrap):
    a, b = Tensor([1.0], requires_grad=True), Tensor([1.0], requires_grad=True)

    @wrap
    def f():
        a.grad = b.grad = None
        (a * b * 3).sum().backward()

    out = []
    for frozen in (False, True, False):
        b.requires_grad_(not frozen)
        f()
        out.append((a.grad, b.grad))
    return out


def modes(wrap):
    w = Tensor([2.0], requires_grad=True)

    @wrap
    def f(x):
        return x * (2 if tensord.is_training() else 3) + (w * x).gradient(w)[0]

    out = [f(Tensor([1.0]))]
    with tensord.training():
        out.append(f(Tensor([1.0])))
    with tensord.no_grad():
        out.append(f(Tensor([1.0])))
    return out


def default_dtypes(wrap):
    f = wrap(lambda x: tensord.ones(2) * x)
    out = [str(f(Tensor([1], dtype="int8")).dtype)]
    with tensord.default_dtypes(float="float64"):
        out.append(str(f(Tensor([1], dtype="int8")).dtype))
    return out


def numbers_by_value_and_type(wrap):
    f = wrap(lambda x, n: (x * n, str(x.dtype), str((x * n).dtype), 1 / float(n)))
    x = Tensor([1, 2])
    return [f(x, n) for n in (1, 1.0, True, 2, -0.5, 1)] + [
        wrap(lambda x, n: x * n)(Tensor([1.0]), n).copysign(1).tolist() for n in (0.0, -0.0)]


def names_bound_anew(wrap):
    scale, weight = 2, Tensor([1.0])

    @wrap
    def f(x):
        return x * weight * scale

    out = [f(Tensor([3.0]))]
    scale = 5
    out.append(f(Tensor([3.0])))
    weight = Tensor([10.0])
    out.append(f(Tensor([3.0])))
    scale = 2
    return [*out, f(Tensor([3.0]))]


def names_of_inner_functions(wrap):
    scale = 2
    inner = wrap(lambda x: x * scale)
    outer = wrap(lambda x: inner(x) + 1)
    out = [outer(Tensor([3.0]))]
    scale = 5
    return [*out, outer(Tensor([3.0]))]


def inherited_methods(wrap):
    class Base:
        def __init__(self, value):
            self.value = Tensor([value])

        @wrap
        def run(self, x):
            return self.value * x

        again = run

    class Derived(Base):
        @wrap
        def run(self, x):
            return super().run(x) + 100

    base, derived = Base(2.0), Derived(3.0)
    return [base.run(Tensor([1.0])), derived.run(Tensor([1.0])), derived.run(Tensor([2.0])), derived.again(Tensor([1.0])),
            base.again(Tensor([5.0]))]


def recursion(wrap):
    @wrap
    def power(x, n):
        return x * 1 if n == 1 else x * power(x, n - 1)

    return [power(Tensor([3.0]), n) for n in (1, 3, 3, 2)]


def earlier_results(wrap):
    f = wrap(lambda x: x + 1)
    return [f(Tensor([i])) for i in range(4)]


def random_numbers(wrap):
    tensord.manual_seed(7)
    f = wrap(lambda x: x + tensord.rand(2))
    out = [tensord.rand(2), f(Tensor([1.0, 2.0])), f(Tensor([1.0, 2.0])), tensord.rand(2)]
    tensord.manual_seed(7)
    return [*out, tensord.rand(2), f(Tensor([1.0, 2.0]))]


def derivatives_through(wrap):
    w, x = Tensor([2.0, 3.0], requires_grad=True), Tensor([1.0, 5.0], requires_grad=True)
    f = wrap(lambda x: ((w * x).tanh(), x.sum()))
    out = []
    for _ in range(2):
        w.grad = x.grad = None
        a, b = f(x * 0.5)
        (a.sum() * b + w.sum()).backward()
        out += [w.grad, x.grad]
    return out


def derivatives_of_chains(wrap):
    f = wrap(lambda x: (x * x * 0.5).sin())
    x = Tensor([0.3, 0.4], requires_grad=True)
    y = f(f(x) * 2) + f(x)
    first = y.sum().gradient(x, y)
    return [y, *first, first[0].sum().gradient(x)[0]]


def results_before_updates(wrap):
    w = Tensor([2.0], requires_grad=True)
    f = wrap(lambda x: w * w * x)
    y = f(Tensor([3.0]))
    w.assign(Tensor([5.0]))
    return [y, f(Tensor([3.0]))]


SAME = [value for name, value in list(globals().items()) if callable(value) and getattr(value, "__module__", "") == __name__
        and name != "plain"]  # fmt: skip


@pytest.mark.parametrize("case", SAME, ids=lambda case: case.__name__)
def test_does_what_the_function_does(case):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected = plain(case(lambda function: function))
        captured = plain(case(jit))
    assert repr(rounded(captured)) == repr(rounded(expected))


def rounded(value):
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value


# ---- what is kept, and when it is captured anew


def test_a_program_serves_what_it_can():
    cases = [
        (lambda x: x * 2, [(Tensor([1.0]),)] * 3, 1),
        (lambda x: x * 2, [(Tensor([1.0]),), (Tensor([1.0, 2.0]),), (Tensor([1]),), (Tensor([5.0]),)], 3),
        (lambda x, y: x * y, [(Tensor([1.0]), Tensor([2.0]))] * 2, 1),
        (lambda x, n: x * n, [(Tensor([1.0]), n) for n in (1, 2, 1.0, True, 1, 0.0, -0.0)], 6),
        (lambda x, n: x * n, [(Tensor([1.0]), n) for n in (float("nan"), float("nan"))], 1),
        (lambda x, n: x * n, [(Tensor([1.0]), Tensor(float(n))) for n in range(4)], 1),
        (lambda x: x * 2, [(Tensor([1.0]),), (Tensor([1.0], requires_grad=True),), (Tensor([3.0]),)], 2),
    ]
    for function, calls, captures in cases:
        captured = jit(function)
        for call in calls:
            captured(*call)
        assert captured.captures == captures, calls


def test_variables_bound_anew_are_one_program():
    n = Variable("rows", 1, 8)
    data = Tensor(np.arange(16, dtype=np.float32).reshape(8, 2)).realize()

    class Model:
        @jit
        def total(self, x, size):
            return (data[:size] * x).sum(0), x * size

    model = Model()
    for rows in (1, 8, 3, 1):
        n.bind(rows)
        total, scaled = model.total(Tensor([1.0, 2.0]), n)
        np.testing.assert_array_equal(total.numpy(), data.numpy()[:rows].sum(0) * [1, 2])
        assert scaled.tolist() == [rows, 2 * rows]
    assert model.total.captures == 1


def test_many_captures_are_warned_about():
    f = jit(lambda x, n: x * n)
    x = Tensor([1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in range(15):
            f(x, n)
    with pytest.warns(RuntimeWarning, match="captured 16 times.*as tensors"):
        f(x, 15)


def test_programs_kept_are_bounded():
    f = jit(lambda x, n: x * n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n in range(70):
            f(Tensor([1.0]), n)
        assert f.captures == 70
        f(Tensor([1.0]), 69)
        assert f.captures == 70
        f(Tensor([1.0]), 0)
        assert f.captures == 71


def test_reset_forgets():
    f = jit(lambda x: x * 2)
    f(Tensor([1.0]))
    f.reset()
    assert f(Tensor([2.0])).tolist() == [4] and f.captures == 2


# ---- objects


def test_objects_are_not_kept_alive():
    class Model:
        def __init__(self):
            self.weight = Tensor([2.0]).realize()

        @jit
        def run(self, x):
            return x * self.weight

    model = Model()
    model.run(Tensor([1.0]))
    gone = weakref.ref(model)
    bound = weakref.ref(model.run)
    del model
    gc.collect()
    assert gone() is None and bound() is None

    class Slots:
        __slots__ = ()
        run = jit(lambda self, x: x)

    with pytest.raises(TypeError, match="__weakref__"):
        Slots().run(Tensor([1.0]))


def test_captured_functions_are_freed():
    big = Tensor(np.zeros(1000, np.float32)).realize()

    def make():
        weight = (big + 1).realize()
        return jit(lambda x: x * weight)

    f = make()
    f(Tensor([1.0]))
    gc.collect()
    gone = weakref.ref(f)
    del f
    gc.collect()
    assert gone() is None


@jit
def by_name(x):
    return x + 1


@pytest.mark.filterwarnings("ignore:step was")  # how often
def test_numbers_that_differ_in_the_sign_of_zero_are_different():
    numbers = [0.0, -0.0, np.float32(0), np.float32(-0.0), np.float64(0), np.float64(-0.0), np.float16(-0.0), 0j, complex(0.0, -0.0),
               complex(-0.0, 0.0), complex(-0.0, -0.0), np.complex64(0), np.complex64(complex(0.0, -0.0))]
    for wrap in (tensord.jit, tensord.function):
        seen = []

        @wrap
        def step(x, number):
            seen.append(number)
            return x + 1

        for _ in range(2):
            for number in numbers:
                step(Tensor([1.0]), number).numpy()
                step(Tensor([1.0]), (number,)).numpy()
        assert len(seen) == 2 * len(numbers)
        for number in (math.nan, np.float32("nan")):
            for _ in range(2):
                step(Tensor([1.0]), number)
        assert len(seen) == 2 * len(numbers) + 2


def test_copies_and_pickles():
    by_name(Tensor([1.0]))
    assert pickle.loads(pickle.dumps(by_name)) is by_name
    f = jit(lambda x: x * 2)
    f(Tensor([1.0]))
    twin = copy.deepcopy(f)
    assert twin(Tensor([3.0])).tolist() == [6] and twin.captures == 1 and f.captures == 1


def test_threads_share_a_function():
    f = jit(lambda x: (x * 2, [x + 1]))
    results = [None] * 8

    def work(i):
        results[i] = [plain(f(Tensor([float(i)] * (1 + i % 2)))) for _ in range(5)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, result in enumerate(results):
        size = 1 + i % 2
        assert result == [[[2.0 * i] * size, [[i + 1.0] * size]]] * 5


# ---- errors


def test_what_cannot_be():
    x, base = Tensor([1.0, 2.0]).realize(), Tensor([1.0, 2.0, 3.0]).realize()

    def add(x, y):
        x += 1
        return x + y

    def generator(x):
        yield x

    def other_name(x):
        x += base[0]

    cases = [
        (lambda: jit(add)(base[:2], base[1:]), InvalidArgumentError, "argument 0 of add.*argument 1"),
        (lambda: jit(other_name)(base), InvalidArgumentError, "from outside"),
        (lambda: jit(lambda x: (y for y in [x]))(x), TypeError, "generator.*list"),
        (lambda: jit(generator), TypeError, "generators"),
        (lambda: jit(3), TypeError, "not a function"),
        (lambda: jit(lambda x: x * x.item())(x[0]), FailedPreconditionError, "while a function is captured"),
        (lambda: jit(lambda x: x if x.sum() > 0 else -x)(x), TypeError, "neither true nor false"),
        (lambda: jit(lambda x: x.numpy())(x), FailedPreconditionError, "while a function is captured"),
        (lambda: jit(lambda x: x * x.replace(x))(x), FailedPreconditionError, "replace"),
        (lambda: jit(lambda x, s: x)(x, {1}), TypeError, "hashed"),
    ]
    for call, error, message in cases:
        with pytest.raises(error, match=message):
            call()
    assert base.tolist() == [1, 2, 3] and x.tolist() == [1, 2]


def test_a_function_that_raised_runs_again():
    calls = []
    state = Tensor([1.0], requires_grad=True)

    @jit
    def f(x):
        calls.append(1)
        (state * x).sum().backward()
        x += 1
        if len(calls) == 1:
            raise KeyError("first")
        return x * 1

    x = Tensor([1.0]).realize()
    with pytest.raises(KeyError, match="first"):
        f(x)
    assert x.tolist() == [1] and state.grad is None
    assert f(x).tolist() == [2] and state.grad.tolist() == [1] and len(calls) == 2


def test_derivatives_that_cannot_go_through_are_errors():
    w = Tensor([2.0], requires_grad=True)
    count = Tensor([0.0]).realize()

    @jit
    def counts(x):
        count.assign(count + 1)
        return w * x

    draws = jit(lambda x: w * x * tensord.rand(1))
    plain_input = Tensor([1.0]).realize()
    squares = jit(lambda x: x * x)
    for call, target in ((lambda: counts(plain_input), w), (lambda: draws(plain_input), w),
                         (lambda: squares(plain_input), plain_input)):  # fmt: skip
        with pytest.raises(FailedPreconditionError, match="captured function"):
            (call().sum() + w.sum() + plain_input.sum()).gradient(target)
    with pytest.raises(FailedPreconditionError, match="captured function counts"):
        (counts(plain_input) + w).sum().backward()
    assert (counts(plain_input).detach() + w).sum().gradient(w)[0].tolist() == [1]
    with tensord.no_grad():
        detached = counts(plain_input)
    assert (detached + w).sum().gradient(w)[0].tolist() == [1]


def test_arguments_keep_their_structure():
    for change in (lambda s: s.update(w=s["w"] + 1), lambda s: s["l"].append(s["w"]), lambda s: s["l"].clear()):
        function = jit(lambda s, change=change: (change(s), s["w"] * 2)[1])
        with pytest.raises(TypeError, match="changes a list or dict among its arguments"):
            function({"w": Tensor([1.0]), "l": [Tensor([2.0])]})


def test_the_generator_is_seeded_outside():
    with pytest.raises(FailedPreconditionError, match="seed outside"):
        jit(lambda: (tensord.manual_seed(3), tensord.rand(2))[1])()


def test_constants_that_are_equal_and_not_the_same():
    @jit
    def function(value):
        return Tensor([1.0]) * (next(iter(value)) if isinstance(value, dict) else np.copysign(1.0, value))

    assert function({2: None}).tolist() == [2.0]
    assert function({2.5: None}).tolist() == [2.5]
    assert function(0.0).tolist() == [1.0] and function(-0.0).tolist() == [-1.0]
