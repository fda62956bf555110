"""jit: one program a signature, state, random numbers, variables, and what may not be done."""

import gc

import numpy as np
import pytest
import tensord
from tensord import Tensor, jit


def runs():
    return tensord.counters()["programs_run"]


def test_later_calls_only_run():
    calls = []

    @jit
    def double(x):
        calls.append(1)
        return x * 2 + 1

    for i in range(4):
        assert double(Tensor([i, i + 1])).tolist() == [2 * i + 1, 2 * i + 3]
    assert calls == [1] and double.captures == 1


def test_a_call_is_one_program():
    weight = Tensor(np.ones((4, 4), np.float32)).realize()

    @jit
    def step(x):
        return (x @ weight).softmax(-1).sum(), (x @ weight).relu()

    x = Tensor(np.eye(4, dtype=np.float32)).realize()
    step(x)
    before = runs()
    step(x)
    assert runs() - before == 1


def test_each_signature_is_captured_once():
    @jit
    def total(x):
        return x.sum()

    assert total(Tensor([1.0, 2.0])).item() == 3
    assert total(Tensor([1.0, 2.0, 3.0])).item() == 6
    assert total(Tensor([1, 2])).item() == 3
    assert total(Tensor([3.0, 4.0])).item() == 7
    assert total.captures == 3


def test_structures_and_constants():
    @jit
    def combine(pair, *, scale, extra=None):
        out = {"sum": (pair[0] + pair[1]) * scale, "other": [pair[0], "text"]}
        return out if extra is None else (out, extra["x"] * 2)

    one, two = Tensor([1.0]), Tensor([2.0])
    assert combine((one, two), scale=2)["sum"].tolist() == [6]
    assert combine([one, two], scale=2)["other"][1] == "text"
    assert combine((one, two), scale=3)["sum"].tolist() == [9]
    out, doubled = combine((one, two), scale=2, extra={"x": np.array([4.0])})
    assert doubled.tolist() == [8] and out["other"][0].tolist() == [1]
    with pytest.raises(TypeError, match="hashed"):
        combine((one, two), scale={1, 2})


def test_state_is_updated_by_every_call():
    count = Tensor([0.0]).realize()

    @jit
    def step(x):
        count.assign(count + x)
        return count * 10

    for i in range(1, 5):
        assert step(Tensor([1.0])).tolist() == [10 * i]
        assert count.tolist() == [i]


def test_state_changed_outside_is_seen():
    weight = Tensor([1.0]).realize()

    @jit
    def scale(x):
        return x * weight

    assert scale(Tensor([3.0])).item() == 3
    weight.assign([5.0])
    assert scale(Tensor([3.0])).item() == 15
    weight += 1
    assert scale(Tensor([3.0])).item() == 18


def test_two_assignments_in_one_call():
    count = Tensor([1]).realize()

    @jit
    def step():
        count.assign(count + 1)
        middle = count * 100
        count.assign(count * 2)
        return middle

    assert step().tolist() == [200] and count.tolist() == [4]
    assert step().tolist() == [500] and count.tolist() == [10]


def test_swapping_two_tensors():
    a, b = Tensor([1, 2]).realize(), Tensor([3, 4]).realize()

    @jit
    def swap():
        old = a + 0
        a.assign(b)
        b.assign(old)

    swap()
    assert (a.tolist(), b.tolist()) == ([3, 4], [1, 2])
    swap()
    assert (a.tolist(), b.tolist()) == ([1, 2], [3, 4])


def test_old_versions_keep_their_data():
    weight = Tensor([1.0, 2.0]).realize()
    lazy, view = weight * 10, weight.reshape(2)

    @jit
    def step():
        weight.assign(weight + 1)

    step()
    step()
    assert weight.tolist() == [3, 4]
    assert lazy.tolist() == [10, 20] and view.tolist() == [3, 4]
    after = weight * 10
    step()
    assert after.tolist() == [30, 40] and (weight * 10).tolist() == [40, 50]


def test_results_of_earlier_calls_stay():
    @jit
    def step(x):
        return x + 1

    results = [step(Tensor([i])) for i in range(3)]
    assert [result.item() for result in results] == [1, 2, 3]


def test_an_argument_may_also_be_state():
    weight = Tensor([1.0]).realize()

    @jit
    def step(x):
        weight.assign(weight + x)
        return x * 2

    assert step(weight).tolist() == [2]
    assert weight.tolist() == [2]
    assert step(weight).tolist() == [4]
    assert weight.tolist() == [4]


def test_random_numbers_are_drawn_anew_by_each_call():
    @jit
    def draw():
        return tensord.rand(3), tensord.randint(0, 1000, (3,))

    tensord.manual_seed(3)
    drawn = [(a.tolist(), b.tolist()) for a, b in (draw() for _ in range(3))]
    assert len({str(item) for item in drawn}) == 3
    tensord.manual_seed(3)
    assert [(a.tolist(), b.tolist()) for a, b in (draw() for _ in range(3))] == drawn
    assert draw.captures == 1


def test_lazy_tensors_from_outside_are_computed_once():
    table = tensord.arange(4) * tensord.rand(4)  # not computed yet

    @jit
    def pick(i):
        return table[i]

    first = pick(Tensor([3])).item()
    assert pick(Tensor([3])).item() == first == table[3].item()


def test_reading_data_inside_is_an_error_and_leaves_all_as_it_was():
    state = Tensor([1.0]).realize()

    @jit
    def bad(x):
        state.assign(state + 1)
        return x * (x + 1).item()

    with pytest.raises(tensord.errors.FailedPreconditionError, match="captured"):
        bad(Tensor([1.0]))
    assert state.tolist() == [1.0]
    assert (Tensor([1.0]) + 1).item() == 2, "the client goes on"


def test_what_a_function_raises_comes_out():
    @jit
    def bad(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        bad(Tensor([1.0]))


def test_tensors_that_escape_have_no_data():
    escaped = []

    @jit
    def leak(x):
        escaped.append(x + 1)
        return x * 2

    leak(Tensor([1.0]))
    with pytest.raises(tensord.errors.FailedPreconditionError, match="return it"):
        escaped[0].numpy()
    with pytest.raises(tensord.errors.FailedPreconditionError, match="return it"):
        escaped[0] + 1


def test_a_captured_function_takes_in_another():
    count = Tensor([0]).realize()

    @jit
    def inner(x):
        count.assign(count + 1)
        return x * 2

    @jit
    def outer(x):
        return inner(inner(x)) + 1

    assert outer(Tensor([1])).tolist() == [5] and count.tolist() == [2]
    assert outer(Tensor([2])).tolist() == [9] and count.tolist() == [4]


def test_variables_are_bound_for_each_run():
    n = tensord.Variable("n", 0, 100)

    @jit
    def scale(x):
        return x * n.tensor

    n.bind(3)
    assert scale(Tensor([2])).tolist() == [6]
    n.bind(50)
    assert scale(Tensor([2])).tolist() == [100]
    assert scale.captures == 1
    with pytest.raises(IndexError, match="between"):
        n.bind(101)


def test_a_client_that_nobody_holds_is_the_same_client(daemon):
    tensord.connect(daemon.address, timeout=60)
    double = jit(lambda x: x * 2)
    kept = []
    for i in range(5):
        kept.append([object() for _ in range(50)])  # so that new objects come to lie elsewhere
        double(Tensor([i]))
    assert double.captures == 1


def test_methods_are_captured_for_each_object():
    class Counter:
        def __init__(self, start):
            self.value = Tensor([start]).realize()

        @jit
        def step(self, x):
            self.value.assign(self.value + x)
            return self.value * 1

    one, two = Counter(1), Counter(10)
    assert one.step(Tensor([1])).tolist() == [2] and two.step(Tensor([1])).tolist() == [11]
    assert one.step(Tensor([1])).tolist() == [3] and two.step(Tensor([1])).tolist() == [12]


def test_replays_keep_no_memory():
    state = Tensor(np.zeros(1000, np.float32)).realize()

    @jit
    def step(x):
        state.assign(state + x)
        return state.sum()

    x = Tensor(np.ones(1000, np.float32)).realize()
    step(x).item()
    gc.collect()
    before = tensord.counters()
    for _ in range(50):
        last = step(x)
    assert last.item() == 51000
    del last
    tensord.synchronize()
    after = tensord.counters()
    assert after["live_handles"] <= before["live_handles"] + 1
    assert after["live_bytes"] <= before["live_bytes"] + 4096
