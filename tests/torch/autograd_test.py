"""Histories and what backward() does with them: the same steps in both libraries, and what is left is compared."""

import pytest
import tensord
import torch

LIBRARIES = [tensord, torch]


def leaf(lib, *values):
    return lib.tensor([float(value) for value in values or (1, 2)]).requires_grad_()


def plain(value):
    """Numbers, in lists, of what both libraries give."""
    if isinstance(value, (tensord.Tensor, torch.Tensor)):
        return [round(x, 4) for x in value.detach().reshape(-1).tolist()] + list(value.shape)
    return [plain(each) for each in value] if isinstance(value, (tuple, list)) else value


CASES = {}


def case(steps):
    CASES[steps.__name__] = steps
    return steps


# ---- memory that is shared, and histories that are not


@case
def write_through_a_detached_row(lib):
    w, x = leaf(lib, 3, 4), leaf(lib)
    b = x * 2
    d = b.detach()[:1]
    d.copy_(w[:1] * 2)
    (b * b).sum().backward()
    return b, d.requires_grad, w.grad, x.grad


@case
def detached_has_a_history_of_its_own(lib):
    w, b = leaf(lib, 3, 4), lib.zeros(2).clone()
    d = b.detach()
    row = d[:1]
    row.copy_(w[:1] * 2)
    said = b.requires_grad, d.requires_grad, row.requires_grad, d.is_leaf
    (d * d).sum().backward()
    return said, b, w.grad


@case
def base_changes_below_a_detached_history(lib):
    w, b = leaf(lib, 3, 4), lib.ones(2).clone()
    d = b.detach()
    d.mul_(w)
    b.add_(10)
    d.mul_(w)
    (d * 2).sum().backward()
    return b, d, w.grad


@case
def detached_rows_see_each_other(lib):
    w, b = leaf(lib, 3, 4), lib.zeros(3).clone()
    d = b.detach()
    first = d[:2]
    d.mul_(5)
    first.copy_(w)
    last = d[1:]
    last.add_(w)
    (d * lib.arange(3.0)).sum().backward()
    return b, d, w.grad, first, last, last.requires_grad


@case
def detached_of_detached(lib):
    w, b = leaf(lib, 3, 4), lib.zeros(2).clone()
    d = b.detach()
    d.add_(w)
    e = d.detach()
    e.mul_(w * w)
    (d + 0 * e).sum().backward()
    return b, d, e, w.grad


@case
def constants_through_what_is_detached(lib):
    w, b = leaf(lib, 3, 4), lib.zeros(2).clone()
    d = b.detach()
    d.add_(w)
    d[:1] = 7.0
    (d * d).sum().backward()
    with lib.no_grad():
        d.mul_(2)
    return b, d, w.grad, d.requires_grad


@case
def a_view_of_a_detached_leaf_in_place(lib):
    w = leaf(lib)
    w.detach()[0].mul_(5)
    row = w.detach()[1:]
    row.add_(5)
    (w * w).sum().backward()
    return w, w.grad, row.requires_grad


@case
def views_without_gradients_may_be_read(lib):
    w = leaf(lib)
    y = w * 2
    with lib.no_grad():
        row = y[1:]
        row.mul_(3)
    (y * y).sum().backward()
    return y, row, w.grad


# ---- constants in place of what had a history, and of empty tensors


def overwritten(name, write):
    def steps(lib):
        w = leaf(lib)
        y = w * 2
        write(lib, y)
        said = y.requires_grad, y.is_leaf, y.grad_fn is not None
        y.sum().backward()
        return said, w.grad

    CASES[f"overwritten by {name}"] = steps


overwritten("zero_", lambda lib, y: y.zero_())
overwritten("fill_", lambda lib, y: y.fill_(3))
overwritten("copy_", lambda lib, y: y.copy_(lib.ones(2)))
overwritten("all rows", lambda lib, y: y.__setitem__(slice(None), 1.0))
overwritten("a view", lambda lib, y: y.view(2).zero_())
overwritten("a mask", lambda lib, y: y.__setitem__(y > -9, 0.0))
overwritten("a product with 0", lambda lib, y: y.mul_(0))


def empty(name, loss):
    def steps(lib):
        w, other = leaf(lib), leaf(lib, 5)
        made = loss(lib, w, other)
        said = made.requires_grad, made.detach().requires_grad
        made.backward()
        return said, w.grad, other.grad

    CASES[f"empty: {name}"] = steps


empty("a mask of nothing", lambda lib, w, other: w[w > 5].sum())
empty("a slice of nothing", lambda lib, w, other: w[2:].sum())
empty("of two", lambda lib, w, other: (w[2:] + other[1:]).sum())
empty("joined", lambda lib, w, other: lib.cat([w[2:], other[1:]]).sum())
empty("after some steps", lambda lib, w, other: ((w[2:] * 2).exp() * other).sum() * 3)
empty("beside others", lambda lib, w, other: (w[2:] * 2).sum() + other.sum())
empty("a batch", lambda lib, w, other: (lib.zeros(0, 2) @ w.reshape(2, 1) + other).sum())
empty("the mean of nothing", lambda lib, w, other: lib.nn.functional.linear(lib.zeros(0, 2), w.reshape(1, 2), other).mean())


# ---- leaves that nobody holds


@case
def leaf_of_a_function(lib):
    def made():
        inside = leaf(lib, 3)
        return inside * 2

    w = leaf(lib)
    y = made()
    said = y.requires_grad, y.is_leaf
    y.sum().backward()
    (made() * w).sum().backward()
    return said, w.grad


@case
def weights_that_were_replaced(lib):
    layer = lib.nn.Linear(2, 2)
    loss = layer(lib.ones(1, 2)).sum()
    layer.weight = lib.nn.Parameter(lib.zeros(2, 2))
    layer.bias = lib.nn.Parameter(lib.zeros(2))
    loss.backward()
    return loss.requires_grad, layer.weight.grad is None


@case
def hooks_on_the_way_to_nobody(lib):
    seen = []

    def made():
        y = leaf(lib, 3) * 2
        y.register_hook(lambda g: seen.append(g))
        return y * 5

    made().sum().backward()
    return seen


@case
def hooks_of_nobody(lib):
    seen = []

    def made():
        inside = leaf(lib, 3)
        inside.register_hook(lambda g: seen.append(("hook", g)))
        inside.register_post_accumulate_grad_hook(lambda x: seen.append(("after", x.grad)))
        return inside * 2

    made().sum().backward()
    return seen


@case
def module_hooks_of_a_temporary_input(lib):
    layer, seen = lib.nn.Linear(2, 1), []
    with lib.no_grad():
        layer.weight.fill_(3)
        layer.bias.zero_()
    layer.requires_grad_(False)
    layer.register_full_backward_hook(lambda module, given, out: seen.append((given, out)))
    layer(lib.ones(1, 2).requires_grad_()).sum().backward()
    layer.requires_grad_(True)
    layer(lib.ones(1, 2).requires_grad_()).sum().backward()
    layer(lib.ones(1, 2)).sum().backward()
    return [given[0] is None or given for given, _ in seen], [out for _, out in seen], layer.weight.grad


@case
def frozen_since(lib):
    w, v = leaf(lib), leaf(lib)
    loss = (w * v).sum()
    w.requires_grad_(False)
    loss.backward()
    return w.grad is None, v.grad


# ---- grad and backward of several


@case
def unused_inputs(lib):
    w, v = leaf(lib), leaf(lib, 5)
    loss = (w * w).sum()
    return (lib.autograd.grad(loss, [w, v], allow_unused=True, retain_graph=True),
            lib.autograd.grad(loss, [v, w], materialize_grads=True, retain_graph=True),
            lib.autograd.grad(loss, v, materialize_grads=True, allow_unused=True))


@case
def grad_of_what_is_empty(lib):
    w = leaf(lib)
    return lib.autograd.grad(w[w > 5].sum(), w)


@case
def grads_in_batches(lib):
    w, v = leaf(lib), leaf(lib, 5)
    weights = lib.tensor([[1.0, 0], [0, 1], [2, 3]])
    both = lib.autograd.grad([w * w * v, w.sum() * v], [w, v], [weights, lib.ones(3, 1)], is_grads_batched=True)
    (first,) = lib.autograd.grad((w**3), w, weights, is_grads_batched=True, create_graph=True)
    first.sum().backward()
    return both, first, w.grad, lib.autograd.grad(w * 2, [v], weights, is_grads_batched=True, materialize_grads=True)


@case
def grad_of_a_leaf_that_was_written_to(lib):
    w = leaf(lib)
    loss = (w + 1).sum() * 2
    with lib.no_grad():
        w.sub_(1)
    return lib.autograd.grad(loss, w)


@case
def backward_of_several(lib):
    w, v, seen = leaf(lib), leaf(lib, 3, 4), []
    y = w * 2
    y.register_hook(lambda g: seen.append(g))
    lib.autograd.backward([(y * v).sum(), y * y], [None, lib.tensor([1.0, 10.0])])
    lib.autograd.backward([(w * v).sum(), (w * w).sum()], inputs=[w])
    lib.autograd.backward(v * v, lib.ones(2))
    return w.grad, v.grad, seen


@case
def backward_of_several_with_a_graph(lib):
    w = leaf(lib)
    lib.autograd.backward([(w**3).sum(), (w**2).sum()], create_graph=True)
    (second,) = lib.autograd.grad(w.grad.sum(), w)
    return second


# ---- functions with rules


def rules(lib):
    class Scaled(lib.autograd.Function):
        @staticmethod
        def forward(x, k):
            return x * x * k, x > 1, x + 1

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(inputs[0])
            ctx.k = inputs[1]
            ctx.mark_non_differentiable(output[1], output[2])
            ctx.set_materialize_grads(False)

        @staticmethod
        def backward(ctx, g, of_mask, of_sum):
            assert of_mask is None and of_sum is None
            return g * ctx.saved_tensors[0] * 2 * ctx.k, None

    class Zeros(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            seen = x + 1
            ctx.mark_non_differentiable(seen)
            return x * 2, seen

        @staticmethod
        def backward(ctx, g, of_seen):
            return g * 3 + of_seen

    class Doubled(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            x.mul_(2)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 20

    class Once(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @lib.autograd.function.once_differentiable
        def backward(ctx, g):
            return g * 2 * ctx.saved_tensors[0]

    return Scaled, Zeros, Doubled, Once


@case
def rule_with_setup_context(lib):
    w = leaf(lib)
    y, mask, other = rules(lib)[0].apply(w, 3.0)
    y.sum().backward()
    return w.grad, y.requires_grad, mask.tolist(), other, other.requires_grad


@case
def rule_with_zeros_for_what_is_constant(lib):
    w = leaf(lib)
    y, seen = rules(lib)[1].apply(w)
    (y * 2).sum().backward()
    return w.grad, seen, seen.requires_grad


@case
def rule_in_place(lib):
    w = leaf(lib)
    x = w * 3
    y = rules(lib)[2].apply(x)
    x.sum().backward()
    return w.grad, x, y, y is x


@case
def rule_that_ends_derivatives(lib):
    w = leaf(lib)
    (g,) = lib.autograd.grad(rules(lib)[3].apply(w).sum(), w, create_graph=True)
    return g


# ---- checks, forward mode, hooks on several


def wrong(lib, factor, history):
    class Square(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            saved = ctx.saved_tensors[0]
            return g * factor * (saved if history else saved.detach())

    return Square.apply


CHECKED = {
    "right": lambda lib: (lambda x, y: (x * y).sin()),
    "two results": lambda lib: (lambda x, y: (x.exp(), (x @ y).reshape(1))),
    "a wrong factor": lambda lib: (lambda x, y: wrong(lib, 1.5, True)(x) * y),
    "no second derivative": lambda lib: (lambda x, y: wrong(lib, 2, False)(x)),
    "a rule": lambda lib: (lambda x, y: wrong(lib, 2, True)(x + y)),
}


def checked(name, make):
    def steps(lib):
        inputs = [lib.tensor(values, dtype=lib.float64, requires_grad=True) for values in ([0.5, 1.5], [2.0, -0.5])]
        said = []
        for check, options in ((lib.autograd.gradcheck, {}), (lib.autograd.gradcheck, {"check_batched_grad": True}),
                               (lib.autograd.gradgradcheck, {})):
            said.append(check(make(lib), inputs, raise_exception=False, **options))
            if not said[-1]:
                with pytest.raises(RuntimeError):
                    check(make(lib), inputs, **options)
        return said

    CASES[f"gradcheck: {name}"] = steps


for _name, _make in CHECKED.items():
    checked(_name, _make)


@case
def dual_numbers(lib):
    forward_ad = lib.autograd.forward_ad
    x, y = lib.tensor([1.0, 2.0]), lib.tensor([3.0, 4.0])
    with forward_ad.dual_level():
        dual, other = forward_ad.make_dual(x, lib.tensor([1.0, 10.0])), forward_ad.make_dual(y, lib.ones(2))
        product, constant = forward_ad.unpack_dual((dual * other).exp() / 100), forward_ad.unpack_dual(x * 2)
        return product.primal, product.tangent, constant.primal, constant.tangent


@case
def hooks_on_several(lib):
    w, v, seen = leaf(lib), leaf(lib, 3, 4), []
    handle = lib.autograd.graph.register_multi_grad_hook((w, v), lambda gradients: seen.append(gradients))
    (w * v).sum().backward()
    (w * 2).sum().backward()
    handle.remove()
    (w * v).sum().backward()
    return seen


# ---- data


@case
def data_is_written_to(lib):
    w = leaf(lib)
    loss = (w + 0).sum()
    w.data.mul_(5)
    w.data[0] = 7.0
    loss.backward()
    (w * w).sum().backward()
    return w, w.grad, w.data.requires_grad, w.requires_grad, w.is_leaf


@case
def data_is_replaced(lib):
    w, other = leaf(lib), leaf(lib, 7, 8)
    w.data = other * 2
    (w * w).sum().backward()
    y = w * 3
    y.data = lib.ones(2)
    y.sum().backward()
    return w, w.grad, other.grad, y, y.requires_grad


@case
def data_of_a_parameter(lib):
    layer = lib.nn.Linear(2, 1)
    weight = layer.weight
    layer.weight.data.fill_(2)
    layer.bias.data = lib.ones(1)
    layer(lib.ones(1, 2)).sum().backward()
    return layer(lib.ones(1, 2)), layer.weight is weight, weight.grad


# ---- modules and optimisers


@case
def forward_hooks(lib):
    log = []

    class Layer(lib.nn.Module):
        def forward(self, x, scale=1.0, fail=False):
            if fail:
                raise KeyError("on purpose")
            return x * scale

    layer = Layer()
    layer.register_forward_hook(lambda m, args, out: log.append(("last", out)))
    layer.register_forward_hook(lambda m, args, kwargs, out: log.append(("kwargs", dict(kwargs), out)), with_kwargs=True)
    layer.register_forward_hook(lambda m, args, out: log.append(("always", out is None)), always_call=True)
    layer.register_forward_hook(lambda m, args, out: out + 1, prepend=True)
    layer.register_forward_pre_hook(lambda m, args, kwargs: (args, {**kwargs, "scale": 3.0}), with_kwargs=True)
    layer.register_forward_pre_hook(lambda m, args: log.append("first"), prepend=True)
    out = layer(lib.ones(2), scale=2.0)
    with pytest.raises(KeyError):
        layer(lib.ones(2), fail=True)
    layer.register_forward_hook(lambda m, args, out: {}["nothing"], always_call=True)
    with pytest.raises(KeyError, match="on purpose"):
        layer(lib.ones(2), fail=True)
    with pytest.raises(KeyError, match="nothing"):
        layer(lib.ones(2))
    return [list(each) if isinstance(each, tuple) else each for each in log], out


def step_hooks(name, options):
    def steps(lib):
        w, log = leaf(lib), []
        optimizer = getattr(lib.optim, name)([w], **options)

        def closure():
            log.append("closure")
            optimizer.zero_grad()
            loss = (w * w).sum()
            loss.backward()
            return loss

        optimizer.register_step_pre_hook(lambda o, args, kwargs: log.append(("before", o is optimizer, len(args))))
        handle = optimizer.register_step_post_hook(lambda o, args, kwargs: log.append(("after", len(args))))
        replaced = optimizer.register_step_pre_hook(lambda o, args, kwargs: ((o, closure), kwargs))
        optimizer.step(lambda: log.append("never"))
        replaced.remove()
        handle.remove()
        optimizer.step(closure)
        return log, w

    CASES[f"step hooks: {name}"] = steps


step_hooks("SGD", {"lr": 0.1})
step_hooks("Adam", {"lr": 0.1})
step_hooks("LBFGS", {"lr": 0.1, "max_iter": 1})


def step_without_gradients(name, options):
    def steps(lib):
        w, v = leaf(lib), leaf(lib, 3)
        optimizer = getattr(lib.optim, name)([w, v], **options)
        said = optimizer.step()
        (v * v).sum().backward()
        optimizer.step()
        return said, w, v

    CASES[f"a step without gradients: {name}"] = steps


for _name in ("SGD", "Adam", "AdamW", "Adagrad", "RMSprop", "Adadelta", "NAdam", "RAdam", "Adamax", "ASGD", "Rprop"):
    step_without_gradients(_name, {"lr": 0.1})


@case
def norms_of_few_values(lib):
    norm, by_sample = lib.nn.BatchNorm1d(3).train(), lib.nn.InstanceNorm1d(3).train()
    refused = []
    for call in (lambda: norm(lib.ones(1, 3)), lambda: norm(lib.ones(1, 3, 1)), lambda: by_sample(lib.ones(2, 3, 1)),
                 lambda: lib.nn.BatchNorm1d(3, track_running_stats=False).eval()(lib.ones(1, 3)),
                 lambda: lib.nn.functional.batch_norm(lib.ones(1, 3), None, None, training=True),
                 lambda: lib.nn.functional.instance_norm(lib.ones(2, 3, 1))):  # fmt: skip
        try:
            call()
        except ValueError:
            refused.append(True)
    return refused, norm.eval()(lib.ones(1, 3)), norm.train()(lib.ones(0, 3))


@case
def vmap_of_nothing(lib):
    vmap = lib.vmap
    index = vmap(lambda x, i: x[i], (0, None))(lib.zeros(0, 3), lib.tensor([0, 2]))
    return (vmap(lambda x: (x.sum(), x * 2))(lib.zeros(0, 3)), vmap(lambda x: x + 1, out_dims=1)(lib.zeros(0, 3)), index)


@pytest.mark.parametrize("name", CASES)
def test_steps_leave_the_same(name):
    ours, theirs = (plain(CASES[name](lib)) for lib in LIBRARIES)
    assert same(ours, theirs), (ours, theirs)


def same(ours, theirs):
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(ours, float) and isinstance(theirs, float):
        return ours == pytest.approx(theirs, rel=1e-4, abs=1e-5, nan_ok=True)
    return ours == theirs


def no_grad_view(lib, write, base=lambda lib: leaf(lib) * 2):
    y = base(lib)
    with lib.no_grad():
        row = y[1:]
    write(row)


REFUSED = {
    "a view without gradients": lambda lib: no_grad_view(lib, lambda row: row.mul_(2)),
    "the same of a leaf": lambda lib: no_grad_view(lib, lambda row: row.mul_(2), leaf),
    "what has a history to such a view": lambda lib: no_grad_view(lib, lambda row: row.copy_(leaf(lib, 1)),
                                                                  lambda lib: lib.zeros(2).clone()),
    "grad by what has no influence": lambda lib: lib.autograd.grad(leaf(lib).sum(), leaf(lib)),
    "grad by what requires none": lambda lib: lib.autograd.grad(leaf(lib).sum(), lib.ones(2)),
    "grad of what requires none": lambda lib: lib.autograd.grad(lib.ones(2).sum(), leaf(lib)),
    "zeros and no zeros": lambda lib: lib.autograd.grad(leaf(lib).sum(), leaf(lib), materialize_grads=True,
                                                        allow_unused=False),
    "backward of several elements": lambda lib: lib.autograd.backward([leaf(lib).sum(), leaf(lib) * 2]),
    "backward of a constant among them": lambda lib: lib.autograd.backward([leaf(lib).sum(), lib.ones(())]),
    "a dual tensor outside": lambda lib: lib.autograd.forward_ad.make_dual(lib.ones(1), lib.ones(1)),
    "two levels": lambda lib: nested_levels(lib),
    "a dirty leaf": lambda lib: rules(lib)[2].apply(leaf(lib)),
    "data of another dtype": lambda lib: setattr(leaf(lib), "data", lib.ones(2, dtype=lib.int32)),
    "gradcheck of nothing": lambda lib: lib.autograd.gradcheck(lambda x: x, lib.ones(2)),
}  # fmt: skip


def nested_levels(lib):
    with lib.autograd.forward_ad.dual_level(), lib.autograd.forward_ad.dual_level():
        pass


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda lib: lib.__name__)
@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused(what, library):
    with pytest.raises((RuntimeError, ValueError)):
        REFUSED[what](library)


def test_data_keeps_its_shape_and_is_a_memoryview_if_called():
    w = leaf(tensord)
    with pytest.raises(ValueError, match=r"\[3\] for a tensor that is float32 \[2\]"):
        w.data = tensord.ones(3)
    with pytest.raises(TypeError, match="float"):
        w.data = 1.0
    assert w.data().tolist() == [1, 2] and isinstance(w.data(), memoryview)


def test_what_has_no_meaning_here_says_so():
    graph = tensord.autograd.graph
    for call in (lambda: graph.saved_tensors_hooks(None, None), lambda: graph.save_on_cpu(),
                 lambda: graph.get_gradient_edge(leaf(tensord))):  # fmt: skip
        with pytest.raises(NotImplementedError, match="derivatives"):
            call()
    w = leaf(tensord)
    y = w * 2
    with graph.allow_mutation_on_saved_tensors():
        loss = (y * y).sum()
        y.zero_()
    loss.backward()
    assert w.grad.tolist() == [8, 16]
