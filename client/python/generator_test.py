"""Generators: each has a seed and a counter of its own, inside of captured functions too."""

import copy
import pickle

import numpy as np
import pytest
import tensord
from tensord import Generator, Tensor, nn
from tensord.errors import FailedPreconditionError, InvalidArgumentError


def seeded(seed=3):
    return Generator().manual_seed(seed)


X = [0.25, 0.5, 0.75]
# Functions that draw, by a generator.
DRAWS = {
    "rand": lambda g: tensord.rand(3, 2, generator=g),
    "randn": lambda g: tensord.randn(3, 2, generator=g),
    "randn, float64": lambda g: tensord.randn(5, generator=g, dtype="float64"),
    "uniform": lambda g: tensord.uniform(4, low=-1.0, generator=g),
    "randint": lambda g: tensord.randint(0, 1000, (5,), generator=g),
    "randint, shape first": lambda g: tensord.randint(5, high=1000, generator=g),
    "randperm": lambda g: tensord.randperm(20, generator=g),
    "normal": lambda g: tensord.normal(4, mean=1.0, generator=g),
    "normal of tensors": lambda g: tensord.normal(Tensor(X), 2.0, generator=g),
    "rand_like": lambda g: tensord.rand_like(Tensor(X), generator=g),
    "randn_like": lambda g: tensord.randn_like(Tensor(X), generator=g),
    "randint_like": lambda g: tensord.randint_like(Tensor(X), 1000, generator=g),
    "bernoulli": lambda g: tensord.full((40,), 0.5).bernoulli(generator=g),
    "poisson": lambda g: tensord.full((9,), 30.0).poisson(generator=g),
    "multinomial": lambda g: tensord.ones(50).multinomial(20, generator=g),
    "multinomial, replaced": lambda g: tensord.ones(50).multinomial(20, True, generator=g),
    "uniform_": lambda g: tensord.zeros(4).clone().uniform_(generator=g),
    "normal_": lambda g: tensord.zeros(4).clone().normal_(1.0, 2.0, generator=g),
    "bernoulli_": lambda g: tensord.zeros(40).clone().bernoulli_(0.5, generator=g),
    "bernoulli_ of a tensor": lambda g: tensord.zeros(40).clone().bernoulli_(tensord.full((40,), 0.5), generator=g),
    "exponential_": lambda g: tensord.zeros(4).clone().exponential_(generator=g),
    "geometric_": lambda g: tensord.zeros(20).clone().geometric_(0.1, generator=g),
    "cauchy_": lambda g: tensord.zeros(4).clone().cauchy_(generator=g),
    "log_normal_": lambda g: tensord.zeros(4).clone().log_normal_(generator=g),
    "random_": lambda g: tensord.zeros(4).clone().random_(0, 1000, generator=g),
    **{
        name: lambda g, name=name: getattr(nn.init, name)(tensord.zeros(6, 5).clone(), generator=g)
        for name in ("uniform_", "normal_", "trunc_normal_", "xavier_uniform_", "xavier_normal_", "kaiming_uniform_",
                     "kaiming_normal_", "orthogonal_")
    },
    "sparse_": lambda g: nn.init.sparse_(tensord.zeros(6, 5).clone(), 0.4, generator=g),
}  # fmt: skip


@pytest.mark.parametrize("name", DRAWS)
def test_draws_from_the_generator_that_is_given(name):
    draw = DRAWS[name]
    default = tensord.default_generator.get_state().numpy().tolist()
    g = seeded()
    first, second = draw(g).numpy(), draw(g).numpy()
    assert not np.array_equal(first, second)
    again = seeded()
    np.testing.assert_array_equal(draw(again).numpy(), first)
    np.testing.assert_array_equal(draw(again).numpy(), second)
    assert not np.array_equal(draw(seeded(4)).numpy(), first)
    assert tensord.default_generator.get_state().numpy().tolist() == default
    # The same numbers as the default one gives for the seed.
    tensord.manual_seed(3)
    np.testing.assert_array_equal(draw(None).numpy(), first)
    tensord.manual_seed(3)
    np.testing.assert_array_equal(draw(tensord.default_generator).numpy(), first)


def test_states_are_taken_and_set():
    g = seeded(2**64 - 5)
    tensord.rand(10, generator=g)
    state = g.get_state()
    assert state.numpy().tolist() == [2**32 - 5, 2**32 - 1, 10, 0]
    rest = tensord.rand(4, generator=g).numpy()
    other = g.clone_state()
    g.set_state(state)
    np.testing.assert_array_equal(tensord.rand(4, generator=g).numpy(), rest)
    np.testing.assert_array_equal(tensord.rand(4, generator=g).numpy(), tensord.rand(4, generator=other).numpy())
    assert g.initial_seed() == 2**64 - 5 and seeded(-5).initial_seed() == 2**64 - 5
    assert Generator().initial_seed() == Generator().initial_seed()
    assert g.seed() == g.initial_seed() != seeded().seed()
    assert g.device == tensord.current().device and Generator("cpu").device == "cpu"
    assert tensord.manual_seed(9) is tensord.default_generator


def test_the_default_one_is_that_of_the_client(daemon):
    tensord.manual_seed(5)
    want = tensord.rand(3).numpy()
    with tensord.connect(daemon.address):
        tensord.manual_seed(5)
        np.testing.assert_array_equal(tensord.rand(3, generator=tensord.default_generator).numpy(), want)


def test_captured_functions_draw_on():
    g, other = seeded(1), seeded(2)

    @tensord.jit
    def step(x):
        return x + tensord.rand(3, generator=g), tensord.rand(2, generator=other), tensord.rand(2)

    tensord.manual_seed(7)
    drawn = [[part.numpy().copy() for part in step(tensord.zeros(3))] for _ in range(4)]
    tensord.manual_seed(7)
    for a, b, c in drawn:
        np.testing.assert_array_equal(a, tensord.rand(3, generator=seeded_at(1, a, drawn, 3)).numpy())
        np.testing.assert_array_equal(b, tensord.rand(2, generator=seeded_at(2, b, drawn, 2)).numpy())
        np.testing.assert_array_equal(c, tensord.rand(2).numpy())
    assert g.get_state().numpy().tolist() == [1, 0, 12, 0]
    assert other.get_state().numpy().tolist() == [2, 0, 8, 0]
    with pytest.raises(FailedPreconditionError, match="seed outside"):
        tensord.jit(lambda x: (g.manual_seed(1), x)[1])(tensord.zeros(1))


def seeded_at(seed, part, drawn, count):
    """Where the call stands that gave the part."""
    call = next(i for i, parts in enumerate(drawn) if any(part is each for each in parts))
    g = seeded(seed)
    g.set_state(Tensor(np.array([seed, 0, count * call, 0], np.uint32)))
    return g


def test_defined_functions_draw_from_several():
    g = seeded(1)

    @tensord.function
    def noisy(x):
        return x + tensord.rand(3, generator=g) + tensord.rand(3)

    tensord.manual_seed(2)
    have = [noisy(tensord.zeros(3)).numpy() for _ in range(3)]
    tensord.manual_seed(2)
    mine = seeded(1)
    for each in have:
        np.testing.assert_allclose(each, (tensord.rand(3, generator=mine) + tensord.rand(3)).numpy(), rtol=1e-6)


def test_a_generator_of_another_session_is_an_error(daemon):
    g = seeded()
    with tensord.connect(daemon.address):
        with pytest.raises(InvalidArgumentError, match="of one session"):
            tensord.rand(2, generator=g)


@pytest.mark.parametrize("wrong", [Tensor, "uint8", [4]], ids=str)
def test_states_that_are_none(wrong):
    value = {"uint8": lambda: tensord.zeros(4, dtype="uint8"), "[4]": lambda: tensord.zeros(3, dtype="uint32")}
    with pytest.raises((InvalidArgumentError, TypeError, AttributeError)):
        seeded().set_state(value.get(str(wrong), lambda: 3)())
    with pytest.raises(InvalidArgumentError, match="64 bits"):
        seeded(2**64)


COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda g: pickle.loads(pickle.dumps(g)),
    "in a list": lambda g: copy.deepcopy([g, g])[1],
}


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_goes_on_from_the_same_state(name):
    g = seeded()
    tensord.rand(5, generator=g)
    other = COPIES[name](g)
    expected = tensord.rand(4, generator=g).numpy()
    np.testing.assert_array_equal(tensord.rand(4, generator=other).numpy(), expected)
    assert other.initial_seed() == 3 and not np.array_equal(tensord.rand(4, generator=g).numpy(), expected)
