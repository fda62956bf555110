"""torch.nn.utils: packed sequences, fused layers and computed weights against PyTorch's."""

import numpy as np
import pytest
import tensord
import torch
import torch.nn.utils.prune
import torch.utils.checkpoint
import torch.utils.data.distributed
from tensord import Tensor, nn

RNG = np.random.default_rng(7)


def x(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def near(have, want, **tolerance):
    np.testing.assert_allclose(have.numpy(), want.detach().numpy(), **{"rtol": 1e-4, "atol": 1e-5, **tolerance})


def of(lib, array):
    return torch.tensor(array) if lib is torch else Tensor(array)


LENGTHS = [([4, 2, 2, 1], True), ([2, 4, 1, 2], False), ([3, 3, 3, 3], True), ([1, 5, 5, 2], False)]


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("lengths, in_order", LENGTHS, ids=str)
def test_packs_and_pads_as_pytorch_does(judge, lengths, in_order, batch_first):
    array = x(*((4, 5) if batch_first else (5, 4)), 3)
    packed = []
    for lib, rnn in ((tensord, nn.utils.rnn), (torch, torch.nn.utils.rnn)):
        given = lengths if lib is torch else Tensor(np.array(lengths))
        packed.append(rnn.pack_padded_sequence(of(lib, array), given, batch_first, enforce_sorted=in_order))
    ours, theirs = packed
    near(ours.data, theirs.data)
    np.testing.assert_array_equal(ours.batch_sizes.numpy(), theirs.batch_sizes.numpy())
    assert ours.batch_sizes.dtype == tensord.int64
    assert (ours.sorted_indices is None) == (theirs.sorted_indices is None)
    for options in ({}, {"padding_value": -1.5, "total_length": 7}):
        have = nn.utils.rnn.pad_packed_sequence(ours, batch_first, **options)
        want = torch.nn.utils.rnn.pad_packed_sequence(theirs, batch_first, **options)
        near(have[0], want[0])
        np.testing.assert_array_equal(have[1].numpy(), want[1].numpy())


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("side", ["right", "left"])
def test_sequences_of_different_lengths(judge, batch_first, side):
    arrays = [x(n, 2) for n in (3, 1, 4)]
    ours, theirs = nn.utils.rnn, torch.nn.utils.rnn
    mine, others = [Tensor(a) for a in arrays], [torch.tensor(a) for a in arrays]
    have = ours.pad_sequence(mine, batch_first, 0.5, padding_side=side)
    near(have, theirs.pad_sequence(others, batch_first, 0.5, padding_side=side))
    if side == "right":
        for part, array in zip(ours.unpad_sequence(have, Tensor([3, 1, 4]), batch_first), arrays):
            np.testing.assert_array_equal(part.numpy(), array)
    packed = ours.pack_sequence(mine, enforce_sorted=False)
    near(packed.data, theirs.pack_sequence(others, enforce_sorted=False).data)
    for part, array in zip(ours.unpack_sequence(packed), arrays):
        np.testing.assert_array_equal(part.numpy(), array)


@pytest.mark.parametrize("lengths, sorted_, message", [([1, 2], True, "rise"), ([2, 0], True, "at least 1"), ([2], True, "2 sequences")])  # fmt: skip
def test_lengths_that_do_not_fit(judge, lengths, sorted_, message):
    with pytest.raises(RuntimeError):
        torch.nn.utils.rnn.pack_padded_sequence(torch.zeros(5, 2, 3), lengths, enforce_sorted=sorted_)
    with pytest.raises(RuntimeError, match=message):
        nn.utils.rnn.pack_padded_sequence(tensord.zeros(5, 2, 3), lengths, enforce_sorted=sorted_)


LAYERS = [
    ("RNN", {}), ("GRU", {"num_layers": 2, "bidirectional": True}), ("LSTM", {"bidirectional": True, "batch_first": True}),
    ("LSTM", {"num_layers": 2, "proj_size": 3, "bidirectional": True}), ("GRU", {"bias": False}),
]  # fmt: skip


@pytest.mark.parametrize("with_state", [False, True])
@pytest.mark.parametrize("name, options", LAYERS, ids=str)
def test_recurrent_layers_take_packed_sequences(judge, name, options, with_state):
    theirs, ours = getattr(torch.nn, name)(3, 5, **options), getattr(nn, name)(3, 5, **options)
    ours.load_state_dict(theirs.state_dict())
    lengths, array = [2, 4, 1, 4], x(4, 4, 3)
    rows = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    states = [x(rows, 4, options.get("proj_size") or 5), x(rows, 4, 5)]
    results = []
    for lib, rnn, layer in ((tensord, nn.utils.rnn, ours), (torch, torch.nn.utils.rnn, theirs)):
        value = of(lib, array).requires_grad_()
        packed = rnn.pack_padded_sequence(value, lengths, layer.batch_first, enforce_sorted=False)
        state = tuple(of(lib, each) for each in states) if name == "LSTM" else of(lib, states[0])
        output, final = layer(packed, *([state] if with_state else []))
        final = final if isinstance(final, tuple) else (final,)
        padded, _ = rnn.pad_packed_sequence(output, layer.batch_first)
        (padded.square().sum() + sum(each.sum() for each in final)).backward()
        results.append([padded, *final, value.grad, *(p.grad for p in layer.parameters())])
    tensord.realize(results[0])
    for have, want in zip(*results):
        near(have, want, rtol=1e-3, atol=1e-4)


def moved(norm, lib):
    """With statistics that are not the first ones."""
    norm.load_state_dict({
        "weight": of(lib, np.linspace(0.5, 2, norm.num_features, dtype=np.float32)), "bias": of(lib, np.linspace(-1, 1, norm.num_features, dtype=np.float32)),
        "running_mean": of(lib, np.linspace(0, 3, norm.num_features, dtype=np.float32)), "running_var": of(lib, np.linspace(0.1, 2, norm.num_features, dtype=np.float32)),
        "num_batches_tracked": of(lib, np.array(3)),
    })  # fmt: skip
    return norm.eval()


FUSED = [
    ("Conv2d", (2, 4, 3), {}, "BatchNorm2d", (1, 2, 5, 5)), ("Conv1d", (2, 4, 3), {"bias": False}, "BatchNorm1d", (1, 2, 5)),
    ("ConvTranspose2d", (2, 4, 3), {}, "BatchNorm2d", (1, 2, 5, 5)), ("Linear", (3, 4), {}, "BatchNorm1d", (2, 3)),
    ("Linear", (3, 4), {"bias": False}, "BatchNorm1d", (2, 3)),
]  # fmt: skip


@pytest.mark.parametrize("name, args, options, norm, shape", FUSED, ids=str)
def test_fuses_layers(judge, name, args, options, norm, shape):
    theirs, ours = getattr(torch.nn, name)(*args, **options).eval(), getattr(nn, name)(*args, **options).eval()
    ours.load_state_dict(theirs.state_dict())
    function = "fuse_linear_bn_eval" if name == "Linear" else "fuse_conv_bn_eval"
    more = {"transpose": True} if "Transpose" in name else {}
    value, norms = x(*shape), (moved(getattr(nn, norm)(4), tensord), moved(getattr(torch.nn, norm)(4), torch))
    have = getattr(nn.utils, function)(ours, norms[0], **more)
    want = getattr(torch.nn.utils, function)(theirs, norms[1], **more)
    assert list(have.state_dict()) == list(want.state_dict())
    for key, tensor in want.state_dict().items():
        near(have.state_dict()[key], tensor)
    near(have(Tensor(value)), norms[1](theirs(torch.tensor(value))))
    with pytest.raises(RuntimeError, match="call eval"):
        getattr(nn.utils, function)(ours.train(), norms[0])


HOOKED = [
    ("weight_norm", "Linear", (4, 3), (2, 4), {}), ("weight_norm", "Conv2d", (2, 3, 3), (1, 2, 5, 5), {"dim": None}),
    ("weight_norm", "Linear", (4, 3), (2, 4), {"dim": 1}), ("spectral_norm", "Linear", (4, 3), (2, 4), {}),
    ("spectral_norm", "Conv2d", (2, 3, 3), (1, 2, 5, 5), {"n_power_iterations": 3}),
    ("spectral_norm", "ConvTranspose1d", (2, 3, 3), (1, 2, 5), {}),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("function, name, args, shape, options", HOOKED, ids=str)
def test_older_forms_of_computed_weights(judge, function, name, args, shape, options, training):
    theirs = getattr(torch.nn.utils, function)(getattr(torch.nn, name)(*args), **options).train(training)
    ours = getattr(nn.utils, function)(getattr(nn, name)(*args), **options).train(training)
    assert [key for key, _ in ours.named_parameters()] == [key for key, _ in theirs.named_parameters()]
    assert ours.load_state_dict(theirs.state_dict()) == ([], [])
    value = x(*shape)
    for _ in range(2):
        have, want = ours(Tensor(value)), theirs(torch.tensor(value))
        have.square().sum().backward()
        want.square().sum().backward()
        near(have, want)
        grads = {key: p.grad for key, p in theirs.named_parameters()}
        for key, p in ours.named_parameters():
            near(p.grad, grads[key], rtol=1e-3, atol=1e-4)
        for key, tensor in theirs.state_dict().items():
            near(ours.state_dict()[key], tensor)
        ours.zero_grad()
        theirs.zero_grad()
    with pytest.raises(RuntimeError, match="already"):
        getattr(nn.utils, function)(ours)
    getattr(torch.nn.utils, f"remove_{function}")(theirs)
    assert getattr(nn.utils, f"remove_{function}")(ours) is ours
    assert sorted(ours.state_dict()) == sorted(theirs.state_dict())
    near(ours.weight, theirs.weight)
    near(ours(Tensor(value)), theirs(torch.tensor(value)))
    with pytest.raises(ValueError, match="has none"):
        getattr(nn.utils, f"remove_{function}")(ours)


ORTHOGONAL = [
    ("Linear", (4, 4), (2, 4), {}), ("Linear", (3, 5), (2, 3), {}), ("Linear", (5, 3), (2, 5), {"orthogonal_map": "cayley"}),
    ("Linear", (4, 4), (2, 4), {"orthogonal_map": "householder"}), ("Linear", (5, 3), (2, 5), {"orthogonal_map": "matrix_exp"}),
    ("Linear", (4, 4), (2, 4), {"use_trivialization": False, "orthogonal_map": "householder"}),
    ("Linear", (3, 5), (2, 3), {"use_trivialization": False, "orthogonal_map": "householder"}),
]  # fmt: skip


@pytest.mark.parametrize("name, args, shape, options", ORTHOGONAL, ids=str)
def test_orthogonal_weights(judge, name, args, shape, options):
    make = "orthogonal"
    theirs = getattr(torch.nn.utils.parametrizations, make)(getattr(torch.nn, name)(*args), **options)
    ours = getattr(nn.utils.parametrizations, make)(getattr(nn, name)(*args), **options)
    value, change = x(*shape), x(*args[::-1]) * 0.3
    with torch.no_grad():
        # From the point where both begin, off in some direction.
        theirs.parametrizations.weight.original.add_(torch.tensor(np.tril(change, -1) if args[1] >= args[0] else np.triu(change, 1)))
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert ours.load_state_dict(theirs.state_dict()) == ([], [])
    near(ours.weight, theirs.weight)
    wide = args[1] < args[0]
    made = ours.weight.numpy()
    np.testing.assert_allclose(made @ made.T if wide else made.T @ made, np.eye(min(args)), atol=1e-5)
    have, want = ours(Tensor(value)), theirs(torch.tensor(value))
    have.square().sum().backward()
    want.square().sum().backward()
    near(have, want)
    near(ours.parametrizations.weight.original.grad, theirs.parametrizations.weight.original.grad, rtol=1e-3, atol=1e-4)
    if options.get("use_trivialization", True) or options["orthogonal_map"] == "householder":
        target = np.linalg.qr(x(max(args), min(args)))[0].astype(np.float32)
        ours.weight = Tensor(target.T if wide else target)
        near(ours.weight, torch.tensor(target.T if wide else target), atol=1e-5)


def test_what_is_no_orthogonal_map(judge):
    for lib in (torch.nn, nn):
        with pytest.raises(ValueError):
            lib.utils.parametrizations.orthogonal(lib.Linear(2, 2), orthogonal_map="qr")
    layer = nn.utils.parametrizations.orthogonal(nn.Linear(2, 2), orthogonal_map="cayley", use_trivialization=False)
    with pytest.raises(NotImplementedError):
        layer.weight = tensord.eye(2)


def test_skip_init(judge):
    drawn = []
    before = tensord.get_rng_state().numpy().tolist()
    for module in (nn.utils.skip_init(nn.Linear, 3, 4), nn.utils.skip_init(nn.LSTM, 3, 4, num_layers=2)):
        drawn.append([tuple(p.shape) for p in module.parameters()])
    assert tensord.get_rng_state().numpy().tolist() == before
    assert drawn[0] == [(4, 3), (4,)] and len(drawn[1]) == 8
    for lib in (torch.nn, nn):
        with pytest.raises(RuntimeError):
            lib.utils.skip_init(lib.ReLU)


# ---- pruning


def layers(lib):
    rng = np.random.default_rng(3)
    made = lib.nn.Linear(6, 4), lib.nn.Conv2d(3, 4, 2)
    for layer in made:
        for parameter in layer.parameters():
            parameter.requires_grad_(False)
            parameter.copy_(of(lib, rng.standard_normal(tuple(parameter.shape)).astype(np.float32)))
            parameter.requires_grad_()
    return made


def scores(lib, tensor):
    """Another order of importance."""
    return of(lib, np.random.default_rng(4).standard_normal(tuple(tensor.shape)).astype(np.float32))


def half(lib):
    class Half(lib.nn.utils.prune.BasePruningMethod):
        PRUNING_TYPE = "unstructured"

        def compute_mask(self, t, default_mask):
            mask = default_mask.clone()
            mask.view(-1)[::2] = 0
            return mask

    return Half


# What is done to a linear layer and a convolution, one after the other.
PRUNED = {
    "the least": [lambda p, lib, a, b: p.l1_unstructured(a, "weight", 0.3), lambda p, lib, a, b: p.l1_unstructured(b, "bias", 2)],
    "the least, twice": [lambda p, lib, a, b: p.l1_unstructured(a, "weight", 0.5),
                         lambda p, lib, a, b: p.l1_unstructured(a, "weight", 0.5),
                         lambda p, lib, a, b: p.l1_unstructured(a, "weight", 2)],
    "by scores": [lambda p, lib, a, b: p.l1_unstructured(a, "weight", 5, scores(lib, a.weight))],
    "rows": [lambda p, lib, a, b: p.ln_structured(a, "weight", 0.5, 2, 0), lambda p, lib, a, b: p.ln_structured(b, "weight", 1, 1, 1)],
    "rows, then columns": [lambda p, lib, a, b: p.ln_structured(a, "weight", 1, float("inf"), 0),
                           lambda p, lib, a, b: p.ln_structured(a, "weight", 2, 2, -1),
                           lambda p, lib, a, b: p.ln_structured(a, "weight", 1, 2, 0)],
    "rows by scores": [lambda p, lib, a, b: p.ln_structured(b, "weight", 2, 2, 0, scores(lib, b.weight))],
    "nothing": [lambda p, lib, a, b: p.identity(a, "weight"), lambda p, lib, a, b: p.l1_unstructured(a, "weight", 0)],
    "all": [lambda p, lib, a, b: p.l1_unstructured(a, "weight", 1.0)],
    "by a mask": [lambda p, lib, a, b: p.custom_from_mask(a, "bias", lib.tensor([1, 0, 0, 1])),
                  lambda p, lib, a, b: p.custom_from_mask(a, "bias", lib.tensor([0, 1, 1, 1]))],
    "of several": [lambda p, lib, a, b: p.global_unstructured([(a, "weight"), (b, "weight"), (a, "bias")], p.L1Unstructured,
                                                              amount=0.4),
                   lambda p, lib, a, b: p.global_unstructured([(a, "weight"), (b, "weight")], p.L1Unstructured, amount=9)],
    "several by scores": [lambda p, lib, a, b: p.global_unstructured(
        [(a, "weight"), (b, "weight")], p.L1Unstructured, {(b, "weight"): scores(lib, b.weight)}, amount=11)],
    "by a method of one's own": [lambda p, lib, a, b: half(lib).apply(a, "weight"), lambda p, lib, a, b: half(lib).apply(a, "weight")],
    "and left": [lambda p, lib, a, b: p.l1_unstructured(a, "weight", 0.5), lambda p, lib, a, b: p.remove(a, "weight")],
}  # fmt: skip


@pytest.mark.parametrize("name", PRUNED)
def test_prunes_as_pytorch_does(judge, name):
    seen = []
    for lib in (tensord, torch):
        prune = lib.nn.utils.prune
        linear, conv = layers(lib)
        parameter = linear.weight
        for step in PRUNED[name]:
            step(prune, lib, linear, conv)
        out = linear(of(lib, np.ones((2, 6), np.float32))).sum() + conv(of(lib, np.ones((1, 3, 4, 4), np.float32))).sum()
        out.backward()
        state = {**{f"linear.{k}": v for k, v in linear.state_dict().items()},
                 **{f"conv.{k}": v for k, v in conv.state_dict().items()}}  # fmt: skip
        grads = [x.grad for x in [*linear.parameters(), *conv.parameters()]]
        names = [name for name, _ in linear.named_parameters()]
        seen.append((state, [out, linear.weight, linear.bias, conv.weight, *grads], sorted(names), prune.is_pruned(linear),
                     prune.is_pruned(lib.nn.Sequential(conv)), any(x is parameter for x in linear.parameters())))
    ours, theirs = seen
    assert set(ours[0]) == set(theirs[0])
    for key, value in theirs[0].items():
        near(ours[0][key], value)
    for mine, other in zip(ours[1], theirs[1]):
        near(mine.detach(), other)
    assert ours[2:] == theirs[2:]


@pytest.mark.parametrize("amount, left", [(0.5, 12), (7, 17), (0.0, 24)])
@pytest.mark.parametrize("lib", [tensord, torch])
def test_prunes_as_many_at_random(judge, lib, amount, left):
    prune, (linear, conv) = lib.nn.utils.prune, layers(lib)
    prune.random_unstructured(linear, "weight", amount)
    assert linear.weight_mask.sum().tolist() == left
    prune.random_structured(conv, "weight", 1, 0)
    rows = conv.weight_mask.reshape(4, -1).sum(1).tolist()
    assert sorted(rows) == [0, 12, 12, 12]


REFUSED = {
    "a negative amount": lambda p, layer: p.l1_unstructured(layer, "weight", -1),
    "a share above 1": lambda p, layer: p.l1_unstructured(layer, "weight", 1.5),
    "more than there are": lambda p, layer: p.l1_unstructured(layer, "weight", 25),
    "rows of a vector": lambda p, layer: p.ln_structured(layer, "bias", 1, 2, 0),
    "an axis that is not there": lambda p, layer: p.ln_structured(layer, "weight", 1, 2, 2),
    "remove what is not pruned": lambda p, layer: p.remove(layer, "weight"),
    "rows of several": lambda p, layer: p.global_unstructured([(layer, "weight")], p.LnStructured, amount=1, n=2),
    "no such parameter": lambda p, layer: p.l1_unstructured(layer, "wait", 1),
    "an amount that is no number": lambda p, layer: p.l1_unstructured(layer, "weight", "all"),
}


@pytest.mark.parametrize("lib", [tensord, torch])
@pytest.mark.parametrize("what", REFUSED)
def test_pruning_refuses(judge, what, lib):
    with pytest.raises((ValueError, IndexError, TypeError, AttributeError)):
        REFUSED[what](lib.nn.utils.prune, layers(lib)[0])


def test_a_pruned_layer_learns_what_is_left(judge):
    linear = layers(tensord)[0]
    nn.utils.prune.l1_unstructured(linear, "weight", 0.5)
    optimizer = nn.optim.SGD(linear.parameters(), lr=0.1)

    @tensord.jit
    def step(given):
        optimizer.zero_grad()
        loss = linear(given).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    given = Tensor(x(8, 6))
    losses = [step(given).item() for _ in range(5)]
    assert losses == sorted(losses, reverse=True) and losses[-1] < losses[0]
    zeros = (linear.weight_mask == 0).numpy()
    assert zeros.sum() == 12
    nn.utils.prune.remove(linear, "weight")
    assert (linear.weight.numpy()[zeros] == 0).all() and (linear.weight.numpy()[~zeros] != 0).all()


# ---- checkpoints, parts of data sets, older names


@pytest.mark.parametrize("segments", [1, 2, 3, 5])
def test_checkpoints_in_segments(judge, segments):
    seen = []
    for lib in (tensord, torch):
        layer = layers(lib)[0]
        steps = [layer, lib.tanh, lambda t: t * 2, lib.sin, lib.exp]
        given = of(lib, np.arange(6, dtype=np.float32).reshape(1, 6) / 6).requires_grad_()
        out = lib.utils.checkpoint.checkpoint_sequential(steps, segments, given, use_reentrant=False)
        out.sum().backward()
        once = lib.utils.checkpoint.checkpoint(lambda a, b: (a * b).sin(), given, given * 2, use_reentrant=False)
        once.sum().backward()
        seen.append((out.detach(), once.detach(), given.grad, layer.weight.grad))
    for mine, other in zip(*seen):
        near(mine, other)


def test_checkpoints_refuse(judge):
    with pytest.raises(ValueError, match="segments"):
        tensord.utils.checkpoint.checkpoint_sequential([lambda t: t], 2, tensord.ones(1))
    with pytest.raises(ValueError, match="context"):
        tensord.utils.checkpoint.checkpoint(lambda t: t, tensord.ones(1), context_fn=lambda: None)


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("count, parts", [(10, 3), (9, 3), (2, 4), (1, 1), (7, 2)])
def test_parts_of_a_data_set(judge, count, parts, drop_last):
    theirs_of = torch.utils.data.distributed.DistributedSampler
    for rank in range(parts):
        options = {"num_replicas": parts, "rank": rank, "drop_last": drop_last}
        ours = tensord.utils.data.DistributedSampler(range(count), shuffle=False, **options)
        theirs = theirs_of(range(count), shuffle=False, **options)
        assert list(ours) == list(theirs) and len(ours) == len(theirs)
    samplers = [tensord.utils.data.DistributedSampler(range(count), parts, rank, seed=1, drop_last=drop_last)
                for rank in range(parts)]  # fmt: skip
    orders = []
    for epoch in 0, 1:
        for sampler in samplers:
            sampler.set_epoch(epoch)
        orders.append([list(sampler) for sampler in samplers])
        drawn = [number for part in orders[-1] for number in part]
        assert len({len(part) for part in orders[-1]}) == 1
        assert len(set(drawn)) == (min(len(drawn), count))
    assert [list(sampler) for sampler in samplers] == orders[-1]
    assert count < 7 or orders[0] != orders[1]


def test_parts_need_a_number(judge):
    for options in ({}, {"num_replicas": 2}, {"num_replicas": 2, "rank": 2}, {"num_replicas": 2, "rank": -1}):
        with pytest.raises(ValueError, match="rank"):
            tensord.utils.data.DistributedSampler(range(3), **options)


def test_the_older_name_of_functional_call(judge):
    for lib in (tensord, torch):
        call = lib.nn.utils.stateless.functional_call if lib is tensord else torch.func.functional_call
        out = call(layers(lib)[0], {"weight": lib.zeros(4, 6), "bias": lib.ones(4)}, (lib.ones(1, 6),))
        assert out.tolist() == [[1, 1, 1, 1]]
