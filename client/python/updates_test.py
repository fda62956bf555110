"""What was written in place, and the state of generators, outlive programs that fail."""

import numpy as np
import pytest
import tensord
from tensord import Tensor, nn
from tensord.errors import FailedPreconditionError, ResourceExhaustedError, TensordError
from tensord.testing import Daemon

COUNT = 10**8


def too_large():
    """Is refused before it is sent."""
    return tensord.zeros(10**14).sum()


def without_memory():
    """Is refused by the device."""
    return tensord.arange(COUNT).sort()[0].sum()


def without_value():
    """Can't be sent."""
    return tensord.ones(tensord.Variable(f"n{without_value.count}", 1, 10)).sum()


without_value.count = 0


class Spoiled:
    """Made of a tensor that has an error already."""

    def __call__(self):
        return tensord.arange(COUNT).sort()[0].realize().sum() + 1


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A daemon whose device has little memory."""
    with Daemon(tmp_path_factory.mktemp("small"), "--memory-bytes", "64MiB") as daemon:
        yield daemon


@pytest.fixture
def small_client(small):
    with tensord.connect(small.address, timeout=60) as client:
        tensord.manual_seed(1)
        yield client


FAILURES = [too_large, without_memory, without_value, Spoiled()]


@pytest.fixture(params=FAILURES, ids=lambda each: getattr(each, "__name__", "spoiled"))
def failing(request, small_client):
    without_value.count += 1
    return request.param


def written(value=1.0):
    return tensord.full((2,), value).clone().realize()


def drawn_after(seed, before, count=1):
    """The numbers that follow when so many were drawn."""
    generator = tensord.Generator().manual_seed(seed)
    tensord.rand(before, generator=generator).realize()
    return tensord.rand(count, generator=generator).tolist()


def test_an_update_is_not_lost_with_what_was_to_be_computed_beside_it(failing):
    p = written()
    for i in range(3):
        p.add_(1)
        with pytest.raises(TensordError):
            (p.sum() + failing()).item()
        if i != 1:  # else it is seen later
            assert p.tolist() == [i + 2] * 2


def test_an_update_that_fails_takes_no_other_along(failing):
    p, q = written(), written(5.0)
    q.add_(failing())
    p.add_(1)
    assert p.tolist() == [2, 2]
    p.mul_(2)
    assert (p + 1).tolist() == [5, 5] and p.tolist() == [4, 4]
    with pytest.raises(TensordError):
        q.tolist()
    with pytest.raises(TensordError):
        q.tolist()
    assert p.tolist() == [4, 4]
    q.copy_(p)
    assert q.tolist() == [4, 4]


def test_updates_that_read_each_other_are_those_of_old_data(small_client):
    p, q, r = written(), written(5.0), written(7.0)
    new_p, new_q = p + q, q - p
    p.copy_(new_p)
    q.copy_(new_q)
    r.add_(q)
    with pytest.raises(ResourceExhaustedError):
        (p.sum() + without_memory()).item()
    assert (p.tolist(), q.tolist(), r.tolist()) == ([6, 6], [4, 4], [11, 11])


def test_numbers_that_a_failed_program_drew_count_as_drawn(failing):
    tensord.manual_seed(4)
    own = tensord.Generator().manual_seed(4)
    with pytest.raises(TensordError):
        (tensord.rand(3).sum() + tensord.rand(3, generator=own).sum() + failing()).item()
    expected = drawn_after(4, 3)
    assert tensord.rand(1).tolist() == expected
    assert tensord.rand(1, generator=own).tolist() == expected


def test_a_captured_function_that_fails_has_its_updates(small_client):
    p = written()
    own = tensord.Generator().manual_seed(4)

    @tensord.jit
    def step(x):
        p.add_(x)
        return p.sum() + without_memory() + tensord.rand(1, generator=own)

    for i in range(3):
        with pytest.raises(ResourceExhaustedError):
            step(tensord.ones(2)).item()
        assert p.tolist() == [i + 2] * 2
    assert tensord.rand(1, generator=own).tolist() == drawn_after(4, 3)


@pytest.mark.parametrize("make", [
    lambda: tensord.zeros(10**14).contiguous(),
    lambda: tensord.rand(5)[0] + tensord.zeros(10**14),
])  # fmt: skip
def test_what_is_larger_than_the_limit_is_refused_when_it_is_realized(make):
    with pytest.raises(ResourceExhaustedError, match="larger than the limit of .* bytes for one tensor"):
        make().realize()
    assert tensord.rand(2).shape == (2,)


def test_a_fault_on_the_device_is_told_by_what_it_may_have_spoiled(tmp_path):
    with Daemon(tmp_path, "--devices", "paced(fault_kernel=fold)") as daemon, \
            tensord.connect(daemon.address, timeout=60):  # fmt: skip
        tensord.manual_seed(4)
        p = written()
        p.add_(1)
        with pytest.raises(TensordError, match="kernel 'fold"):
            (p.sum() + tensord.rand(9).sum()).item()
        for _ in range(2):
            with pytest.raises(TensordError, match="written in place by a run that failed.*kernel 'fold"):
                p.numpy()
        assert tensord.rand(2).numpy().shape == (2,)  # the device computes nothing
        p.copy_(tensord.ones(2))
        assert p.numpy().shape == (2,)


def test_a_lost_session_takes_its_tensors_and_no_generator(tmp_path):
    with Daemon(tmp_path) as daemon, tensord.connect(daemon.address, timeout=60):
        tensord.manual_seed(4)
        assert len(tensord.rand(3).tolist()) == 3
        p = written()
        p.add_(1)
        daemon.kill()
        daemon.start()
        with pytest.raises(TensordError):
            p.tolist()
        assert tensord.rand(1).tolist() == drawn_after(4, 3)
        p.copy_(tensord.ones(2))
        assert p.tolist() == [1, 1]


# ---- writing to tensors from outside of a function

OUTSIDE = [
    lambda: tensord.zeros(3),
    lambda: tensord.zeros(3).clone(),
    lambda: tensord.zeros(3).clone().realize(),
    lambda: tensord.ones(3) - 1,
    lambda: nn.Parameter(tensord.zeros(3)).detach(),
]


@pytest.mark.parametrize("make", OUTSIDE)
@pytest.mark.parametrize("write", [
    lambda t, x: t.add_(x), lambda t, x: t.copy_(x), lambda t, x: t[:2].mul_(x[0]), lambda t, x: t.__setitem__(0, x[0]),
    lambda t, x: t.detach().add_(x), lambda t, x: tensord.vmap(lambda y: t.add_(y * x.sum()))(tensord.ones(4, 3)),
])  # fmt: skip
def test_vmap_refuses_to_write_what_depends_on_an_example_to_a_tensor_from_outside(make, write):
    t = make()
    with pytest.raises(FailedPreconditionError, match="vmap: a tensor from outside of the function"):
        tensord.vmap(lambda x: write(t, x) and x)(tensord.ones(2, 3))
    assert t.tolist() == [0, 0, 0]
    t.add_(1)
    assert t.tolist() == [1, 1, 1]


@pytest.mark.parametrize("make", OUTSIDE)
def test_vmap_writes_what_is_the_same_for_all(make):
    t = make()
    assert tensord.vmap(lambda x: x + t.add_(1))(tensord.ones(2, 3)).tolist() == [[2] * 3] * 2
    assert t.tolist() == [1, 1, 1]


def test_vmap_writes_to_what_is_made_inside():
    def nested(x):
        total = tensord.zeros(3)
        total[1:] = x[1:]
        rows = tensord.vmap(lambda y: tensord.zeros(3).add_(y).add_(total))(tensord.ones(2, 3))
        total.add_(rows.sum(0))
        return total

    x = Tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
    expected = x.numpy().copy()
    expected[:, 0] = 0
    assert tensord.vmap(nested)(x).tolist() == (3 * expected + 2).tolist()


def test_vmap_refuses_to_write_to_what_another_vmap_made():
    def nested(x):
        total = tensord.zeros(3)
        tensord.vmap(lambda y: total.add_(y))(tensord.ones(2, 3))
        return x + total

    with pytest.raises(FailedPreconditionError, match="vmap: a tensor from outside"):
        tensord.vmap(nested)(tensord.ones(2, 3))


@pytest.mark.parametrize("make", OUTSIDE[:4])
def test_a_function_of_which_a_derivative_is_asked_writes_to_tensors_outside(make):
    t = make()

    def function(x):
        t.add_(x)
        return (x * t).sum()

    assert tensord.func.grad(function)(tensord.ones(3)).tolist() == [2, 2, 2]  # of x * (0 + x)
    assert t.tolist() == [1, 1, 1]
    assert tensord.func.grad(function)(tensord.ones(3)).tolist() == [3, 3, 3]  # of x * (1 + x)
    t.mul_(2)
    assert t.tolist() == [4, 4, 4]
    w = tensord.ones(3).requires_grad_()
    (w * t).sum().backward()
    assert w.grad.tolist() == [4, 4, 4]


# ---- anomalies in captured functions

def test_anomalies_of_a_captured_function_are_found():
    w = tensord.tensor([0.0, 1.0]).requires_grad_()

    @tensord.jit
    def step(x):
        loss = (w * x).sqrt().sum()
        loss.backward()
        return loss

    @tensord.jit
    def looks_itself(x):
        with tensord.autograd.detect_anomaly():
            return step(x)

    x = tensord.tensor([0.0, 1.0])
    step(x)
    with pytest.raises(RuntimeError, match="MulBackward"), tensord.autograd.detect_anomaly():
        step(x)
    with pytest.raises(FailedPreconditionError, match="detect_anomaly: a function that is being captured"):
        looks_itself(x)
