"""What a loop leaves behind on the daemon: nothing that grows with its iterations."""

import pytest
import tensord
from tensord import Tensor, nn, optim


def _model():
    tensord.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))


def captured(requires_grad=False, dtype=tensord.float32, lazy=False, detach=False, no_grad=False):
    def prepare():
        step = tensord.jit(lambda x: x * 2 + 1 if dtype.is_floating_point else x + 1)
        start = tensord.zeros(16, dtype=dtype)
        state = {"x": start + 1 if lazy else start.realize()}
        weight = tensord.ones(16).requires_grad_(requires_grad)

        def iterate():
            if requires_grad:
                state["x"] = (step(state["x"]) * weight).detach()
            elif no_grad:
                with tensord.no_grad():
                    state["x"] = step(state["x"])
            else:
                state["x"] = step(state["x"])
            if detach:
                state["x"] = state["x"].detach()
            if requires_grad:
                state["x"].realize()

        return iterate

    return prepare


def eager(function, read=False):
    def prepare():
        state = {"x": tensord.zeros(16).realize()}

        def iterate():
            state["x"] = function(state["x"]).realize()
            if read:
                state["x"].numpy()

        return iterate

    return prepare


def trained(jit, zero_grad=True, keep_loss=False):
    def prepare():
        model = _model()
        optimizer = optim.Adam(model.parameters(), lr=0.01)
        inputs, targets = tensord.ones(8, 4).realize(), tensord.zeros(8, 1).realize()
        state = {"loss": Tensor(0.0)}

        def step():
            if zero_grad:
                optimizer.zero_grad()
            loss = ((model(inputs) - targets) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss

        run = tensord.jit(step) if jit else step

        def iterate():
            loss = run()
            if keep_loss:  # a running mean
                state["loss"] = (state["loss"] * 0.9 + loss.detach() * 0.1).realize()
            loss.item()

        return iterate

    return prepare


def in_place():
    x = tensord.zeros(16).realize()

    def iterate():
        x.add_(1)
        x[3:5] = 2.0
        x.realize()

    return iterate


def generated():
    def iterate():
        tensord.rand(16).realize()
        tensord.randn(4, 4).sum().item()

    return iterate


def failed():
    x = tensord.ones(4).realize()

    def iterate():
        with pytest.raises(RuntimeError):
            x.reshape(3)
        with pytest.raises(tensord.errors.TensordError):
            tensord.jit(lambda y: y.item())(x)

    return iterate


LOOPS = {
    "captured, float": captured(),
    "captured, int": captured(dtype=tensord.int32),
    "captured, of an expression": captured(lazy=True),
    "captured, detached": captured(detach=True),
    "captured, no_grad": captured(no_grad=True),
    "captured, times a parameter, detached": captured(requires_grad=True),
    "eager": eager(lambda x: x + 1),
    "eager, a view": eager(lambda x: x.reshape(4, 4).T.reshape(16)),
    "eager, read": eager(lambda x: x * 0.5 + 1, read=True),
    "training": trained(jit=False),
    "training, captured": trained(jit=True),
    "training, captured, a running mean": trained(jit=True, keep_loss=True),
    "in place": in_place,
    "random numbers": generated,
    "what fails": failed,
}


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_keeps_nothing(name, client):
    iterate = LOOPS[name]()
    held = []
    for count in (12, 12, 36):
        for _ in range(count):
            iterate()
        client.synchronize()
        held.append(client.counters()["live_handles"])
    # Which of a few a moment finds may differ, but not by the number of iterations.
    assert held[2] - held[1] < 12, held
