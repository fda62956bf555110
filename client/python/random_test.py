"""Distributions by their moments, with fixed seeds."""

import numpy as np
import pytest
import tensord
from tensord import Tensor


def moments(tensor):
    values = tensor.numpy().astype(np.float64)
    return values.mean(), values.var()


def near(value, expected, tolerance):
    assert abs(value - expected) < tolerance, f"{value} is not near {expected}"


def test_randint_in_both_orders():
    for x in (tensord.randint(50, 40, low=-3, high=4), tensord.randint(-3, 4, (50, 40)),
              Tensor.randint(50, 40, low=-3, high=4)):  # fmt: skip
        assert x.shape == (50, 40) and x.dtype == tensord.int32
        assert sorted(set(x.numpy().ravel().tolist())) == list(range(-3, 4))
    assert tensord.randint(7, (2, 3)).shape == (2, 3)
    assert set(tensord.randint(1000).numpy().tolist()) == set(range(10))
    assert tensord.randint(4, dtype="int64").dtype == tensord.int64
    for arguments in ({"low": 0.5}, {"high": 2.5}, {"dtype": "float32"}):
        with pytest.raises(TypeError):
            tensord.randint(3, **arguments)
    with pytest.raises(ValueError, match="must be below"):
        tensord.randint(3, low=5, high=5)


def test_creation_by_distribution():
    n = 40000
    for x, mean, var in [
        (tensord.normal(n, mean=3, std=2), 3, 4), (tensord.scaled_uniform(200, 200), 0, 1 / (3 * n)),
        (tensord.glorot_uniform(100, 20, 20), 0, 6 / 500 / 3), (tensord.kaiming_uniform(100, 20, 20, a=1), 0, 3 / 400 / 3),
        (tensord.kaiming_normal(100, 20, 20, a=0), 0, 2 / 400), (tensord.rand_like(tensord.zeros(n)), 0.5, 1 / 12),
        (tensord.randn_like(tensord.zeros(n)), 0, 1),
    ]:  # fmt: skip
        m, v = moments(x)
        near(m, mean, 5 * np.sqrt(var / n))
        near(v, var, 0.05 * var)
    assert tensord.randn(1000, dtype="float64").numpy().std() == pytest.approx(1, abs=0.1)
    a, b = tensord.randn(4, dtype="float64").numpy(), tensord.randn(4, dtype="float64").numpy()
    assert not np.intersect1d(a, b).size  # the second draw begins after the first
    assert tensord.randint_like(tensord.zeros(5), 3).dtype == tensord.float32


def test_bernoulli_and_poisson():
    p = np.repeat([0.0, 0.2, 0.9, 1.0], 5000).astype(np.float32)
    drawn = Tensor(p).bernoulli().numpy().reshape(4, -1).mean(1)
    np.testing.assert_allclose(drawn, [0, 0.2, 0.9, 1], atol=0.03)
    rates = np.array([0.0, 0.5, 4.0, 9.5, 12.0, 40.0, 1000.0])
    x = tensord.poisson(Tensor(np.tile(rates.astype(np.float32), (8000, 1)))).numpy().astype(np.float64)
    assert (x == np.floor(x)).all() and x.min() >= 0
    assert (np.abs(x.mean(0) - rates) <= 5 * np.sqrt(rates / 8000)).all()
    np.testing.assert_allclose(x.var(0), rates, rtol=0.1)
    # The shape, not only its moments: the third moment of a Poisson distribution is its rate too.
    np.testing.assert_allclose(((x - rates) ** 3).mean(0)[2:6], rates[2:6], rtol=0.6)


def test_filling_in_place():
    x = tensord.zeros(40000).clone()
    for fill, mean, var in [
        (lambda: x.uniform_(-1, 3), 1, 16 / 12), (lambda: x.normal_(2, 0.5), 2, 0.25),
        (lambda: x.bernoulli_(0.25), 0.25, 0.1875), (lambda: x.exponential_(2), 0.5, 0.25),
        (lambda: x.geometric_(0.5), 2, 2), (lambda: x.random_(10, 20), 14.5, 8.25),
        (lambda: x.log_normal_(0, 0.25), np.exp(0.03125), (np.exp(0.0625) - 1) * np.exp(0.0625)),
    ]:  # fmt: skip
        assert fill() is x
        m, v = moments(x)
        near(m, mean, 6 * np.sqrt(var / 40000))
        near(v, var, 0.08 * var)
    x.cauchy_(1, 2)
    np.testing.assert_allclose(np.quantile(x.numpy(), [0.25, 0.5, 0.75]), [-1, 1, 3], atol=0.15)
    ints = tensord.zeros(1000, dtype="uint8").clone().random_()
    assert len(np.unique(ints.numpy())) > 200
    x.bernoulli_(Tensor([1.0]))
    assert x.numpy().min() == 1
    with pytest.raises(ValueError, match="not in"):
        x.bernoulli_(1.5)
    with pytest.raises(ValueError, match="must be a float"):
        ints.normal_()


def test_bits():
    # Random123's known answer for threefry2x32 with 20 rounds.
    x = Tensor(np.array([0xFFFFFFFFFFFFFFFF, 0], np.uint64))
    assert x.threefry(x).numpy().tolist() == [0xBB002BE71CB996FC, 0x99BA4EFE6B200159]
    words = Tensor.random_bits(Tensor(np.zeros(2, np.uint32)), Tensor(np.zeros(2, np.uint32)), 3)
    assert words.dtype == tensord.uint32 and words.numpy()[0] == 0x6B200159


def test_the_seed_decides():
    tensord.manual_seed(3)
    first = [tensord.randint(4, low=0, high=1000).tolist(), tensord.normal(2).tolist()]
    tensord.manual_seed(3)
    assert first == [tensord.randint(4, low=0, high=1000).tolist(), tensord.normal(2).tolist()]


def test_normal_numbers_of_given_means():
    tensord.manual_seed(1)
    mean, std = Tensor(np.full((200, 100), 3.0, "float32")), Tensor(np.linspace(0.5, 2, 100).astype("float32"))
    x = tensord.normal(mean, std).numpy()
    assert x.shape == (200, 100) and abs(x.mean() - 3) < 0.05
    np.testing.assert_allclose(x.std(0), std.numpy(), rtol=0.25)
    assert tensord.normal(1.5, std).shape == (100,) and tensord.normal(mean, 0.0).numpy().std() == 0
    assert tensord.normal(1, 2, (3, 4)).shape == (3, 4) and tensord.normal(2, 3).shape == (2, 3)
    assert tensord.normal(0.0, 1.0, size=(5,), dtype="float64").dtype == tensord.float64
    with pytest.raises(TypeError):
        tensord.normal(0.0, 1.0, (2,), 3)
