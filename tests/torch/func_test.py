"""Functions of functions (torch.func, torch.autograd.functional), and autograd's rules on writing in place, leaves and
hooks, step by step against PyTorch."""

import pytest
import tensord
import torch
from table import Ints, lib, row, test_row  # noqa: F401


def func(x):
    return lib(x).func


def functional(x):
    return lib(x).autograd.functional


# Of one example: a tensor [3, 4], for the most part.
FUNCTIONS = {
    "exp": lambda x: x.exp(),
    "sum": lambda x: x.sum(),
    "sum along an axis": lambda x: x.sum(1),
    "amax": lambda x: x.amax(0),
    "argmax": lambda x: x.argmax(1).float(),
    "prod": lambda x: x.prod(1),
    "softmax": lambda x: x.softmax(-1),
    "logsumexp": lambda x: x.logsumexp(0),
    "var": lambda x: x.var(1),
    "cumsum": lambda x: x.cumsum(0),
    "matmul with itself": lambda x: x @ x.transpose(0, 1),
    "transpose": lambda x: x.transpose(0, 1) * 2,
    "reshape": lambda x: x.reshape(2, 6).sin(),
    "expand": lambda x: x.unsqueeze(0).expand(2, 3, 4).cos(),
    "slices": lambda x: x[1:, ::2] * x[:-1, 1::2],
    "rows by index": lambda x: x[[0, 2, 2]],
    "flip": lambda x: x.flip(1),
    "roll": lambda x: x.roll(1, 0),
    "cat": lambda x: lib(x).cat([x, x * 2], 1),
    "stack": lambda x: lib(x).stack([x, x.exp()], 1),
    "where": lambda x: lib(x).where(x > 0, x, x * 0.1),
    "sort": lambda x: x.sort(1)[0],
    "topk": lambda x: x.topk(2, 1)[0],
    "diagonal": lambda x: x.diagonal(),
    "tril": lambda x: x.tril(),
    "pad": lambda x: lib(x).nn.functional.pad(x, (1, 2, 0, 1)),
    "norm": lambda x: x.norm(),
    "clamp": lambda x: x.clamp(-0.5, 0.5),
    "gelu": lambda x: lib(x).nn.functional.gelu(x),
    "layer_norm": lambda x: lib(x).nn.functional.layer_norm(x, (4,)),
    "conv1d": lambda x: lib(x).nn.functional.conv1d(x.unsqueeze(0), x.unsqueeze(0)[:, :, :2]),
    "avg_pool1d": lambda x: lib(x).nn.functional.avg_pool1d(x.unsqueeze(0), 2),
    "max_pool1d": lambda x: lib(x).nn.functional.max_pool1d(x.unsqueeze(0), 2),
    "inverse": lambda x: lib(x).linalg.inv(x[:, :3] + 5 * lib(x).eye(3)),
    "cholesky": lambda x: lib(x).linalg.cholesky(x @ x.transpose(0, 1) + 9 * lib(x).eye(3)),
    "einsum": lambda x: lib(x).einsum("ij,kj->ik", x, x),
    "scatter_add": lambda x: lib(x).zeros(3, 4).scatter_add(0, (x > 0).long(), x),
    "gather": lambda x: x.gather(1, (x > 0).long()),
}
SMOOTH = ["exp", "softmax", "logsumexp", "var", "cumsum", "matmul with itself", "reshape", "cat", "prod", "gelu",
          "layer_norm", "conv1d", "inverse", "slices", "gather"]  # fmt: skip

ROWS = [
    *(row(f"vmap: {name}", lambda x, f=f: func(x).vmap(f)(x), (5, 3, 4), gradient=name in SMOOTH)
      for name, f in FUNCTIONS.items()),
    *(row(f"vmap along another axis: {name}", lambda x, f=FUNCTIONS[name]: func(x).vmap(f, in_dims=1, out_dims=-1)(x),
          (3, 5, 4), gradient=False) for name in ("softmax", "cumsum", "slices", "matmul with itself", "rows by index")),
    *(row(f"vmap of a gradient: {name}",
          lambda x, f=FUNCTIONS[name]: func(x).vmap(func(x).grad(lambda y: (f(y) ** 2).sum()))(x), (5, 3, 4),
          gradient=False, forward=(1e-3, 1e-4)) for name in SMOOTH),
    *(row(f"{kind}: {name}", lambda x, f=FUNCTIONS[name], k=kind: getattr(func(x), k)(f)(x), (3, 4), gradient=False,
          forward=(1e-3, 1e-5)) for name in SMOOTH for kind in ("jacrev", "jacfwd")),
    *(row(f"jvp: {name}", lambda x, v, f=FUNCTIONS[name]: func(x).jvp(f, (x,), (v,)), (3, 4), (3, 4), gradient=False,
          forward=(1e-3, 1e-5)) for name in SMOOTH),
    *(row(f"hessian: {name}", lambda x, f=FUNCTIONS[name]: func(x).hessian(lambda y: f(y).sin().sum())(x), (3, 4),
          gradient=False, forward=(1e-3, 1e-4)) for name in ("exp", "softmax", "matmul with itself", "slices")),
    row("vmap over two arguments", lambda x, w: func(x).vmap(lambda a, b: a.outer(b), in_dims=(0, 1), out_dims=1)(x, w),
        (5, 3), (4, 5)),
    row("vmap over one of two", lambda x, w: func(x).vmap(lambda a, b: a @ b, in_dims=(0, None))(x, w), (5, 2, 3), (3, 4)),
    row("vmap of vmap", lambda x, w: func(x).vmap(func(x).vmap(lambda a, b: (a * b).sum(), (None, 0)), (0, None))(x, w),
        (5, 3), (4, 3)),
    row("vmap over an index", lambda x, i: func(x).vmap(lambda a, k: a[k] * 2)(x, i), (5, 3, 4), Ints(0, 3, 5, 2)),
    row("vmap of embedding", lambda w, i: func(w).vmap(lambda k: lib(w).nn.functional.embedding(k, w))(i), (6, 3),
        Ints(0, 6, 5, 2)),
    row("vmap of cross_entropy", lambda x, y: func(x).vmap(lib(x).nn.functional.cross_entropy)(x, y.long()), (5, 2, 4),
        Ints(0, 4, 5, 2)),
    row("vjp of two", lambda x, y: func(x).vjp(lambda a, b: (a * b, a.sin()), x, y)[1]((x, y)), (3,), (3,),
        gradient=False),
    row("jacrev of two by two", lambda x, y: func(x).jacrev(lambda a, b: (a * b, a.sum()), argnums=(0, 1))(x, y), (3,), (3,),
        gradient=False),
    row("hessian by two", lambda x, y: func(x).hessian(lambda a, b: (a * a * b).sum(), argnums=(0, 1))(x, y), (3,), (3,),
        gradient=False),
    row("grad of grad of grad", lambda x: func(x).vmap(func(x).grad(func(x).grad(func(x).grad(lambda y: y.sin()))))(x), (5,),
        gradient=False),
    *(row(f"functional.{name}", lambda x, f=f: f(functional(x), x), (3,), gradient=False) for name, f in {
        "jacobian": lambda F, x: F.jacobian(lambda y: (y * y).sum() * y, x),
        "jacobian of two": lambda F, x: F.jacobian(lambda y, z: (y * z, y.sum()), (x, x * 2)),
        "hessian": lambda F, x: F.hessian(lambda y: (y**3).sum() * y[0], x),
        "hessian of two": lambda F, x: F.hessian(lambda y, z: (y * y * z).sum(), (x, x * 2)),
        "vjp": lambda F, x: F.vjp(lambda y: y.exp() * y[0], x, x),
        "jvp": lambda F, x: F.jvp(lambda y: y.exp() * y[0], x, x),
        "hvp": lambda F, x: F.hvp(lambda y: (y**3).sum() * y[0], x, x),
        "vhp": lambda F, x: F.vhp(lambda y: (y**3).sum() * y[0], x, x),
    }.items()),
]


# ---- autograd's rules: the same steps in both libraries, and what is left in w.grad


def stored(x):
    """In memory, where PyTorch's are anyway."""
    return x if isinstance(x, torch.Tensor) else x.realize()


def add_in_place(lib, w, x):
    y = stored(w * 2)
    y += x * w
    (y * y).sum().backward()


def in_place_twice(lib, w, x):
    y = stored(w * 2)
    y.mul_(3)
    stored(y)
    y.add_(w)
    stored(y)
    y.sum().backward()


def into_rows(lib, w, x):
    buffer = stored(lib.zeros(2, 4))
    buffer[1] = stored(w * 2)
    stored(buffer)
    buffer[0] = w * w
    (buffer * buffer).sum().backward()


def into_a_slice(lib, w, x):
    buffer = stored(lib.ones(6))
    buffer[1:5] *= w
    stored(buffer)
    buffer.sin().sum().backward()


def by_a_mask(lib, w, x):
    y = stored(w * 1.5)
    y[x > 0] = 0
    stored(y)
    (y * w).sum().backward()


def through_a_view(lib, w, x):
    y = stored(w * 2)
    y[1:3].mul_(5)
    stored(y)
    (y * y).sum().backward()


def copied(lib, w, x):
    y = stored(x * 1)
    y.copy_(w * 3)
    stored(y)
    y.sum().backward()


def without_gradients(lib, w, x):
    y = stored(w * 2)
    with lib.no_grad():
        y.mul_(7)
    stored(y).sum().backward()


def row_without_gradients(lib, w, x):
    y = stored(w * 2)
    with lib.no_grad():
        y[0] = 9.0
    (y * x).sum().backward()


def while_detached(lib, w, x):
    y = stored(w * 2)
    y.detach().mul_(3)
    y[1:].detach().copy_(w[1:])
    stored(y)
    (y * x).sum().backward()


def leaf_while_detached(lib, w, x):
    w.detach().mul_(3)
    (w * w).sum().backward()


def views_follow(lib, w, x):
    y = stored(w * 2)
    z = y[1:]
    z.add_(w[1:] * 5)
    y.mul_(x)
    stored(z)
    (z * z).sum().backward()


def retained_after_writing(lib, w, x):
    y = w * 2
    y.retain_grad()
    y += 1
    stored(y)
    (y * y).sum().backward()
    w.grad = w.grad + 10 * y.grad


def many_times(lib, w, x):
    y, total = stored(w * 2), 0
    for _ in range(3):
        y *= w
        stored(y)
        total = total + y.sum()
    total.backward()


def required_later(lib, w, x):
    before = w * x
    v = stored((x * 3).detach())
    early = v * 2
    v.requires_grad_()
    (v * early * w + before).sum().backward()
    w.grad = w.grad + 10 * v.grad


def leaf_between(lib, w, x):
    y = stored(w * 2).detach().requires_grad_()
    (y * w).sum().backward()
    w.grad = w.grad + y.grad


def updated_between(lib, w, x):
    loss = (w + 1).sum() * 2
    with lib.no_grad():
        w.sub_(1)
    loss.backward()


def retained(lib, w, x):
    y = w * w
    y.retain_grad()
    stored(y)
    (y * 3).sin().sum().backward()
    w.grad = w.grad + y.grad


def retained_of_equal_ones(lib, w, x):
    y, z = w * 2, w * 2
    y.retain_grad()
    z.register_hook(lambda g: g * 7)
    (y + 3 * z).sum().backward()
    w.grad = w.grad + 10 * y.grad


def hooked(lib, w, x):
    seen = []
    y = stored(w * w)
    y.register_hook(lambda g: seen.append(g.detach()))
    y.register_hook(lambda g: g * 2)
    handle = y.register_hook(lambda g: g * 100)
    handle.remove()
    w.register_hook(lambda g: g + 1)
    (y * y * x).sum().backward()
    w.grad = w.grad + seen[0]


def hooked_twice(lib, w, x):
    y = w * 2
    z = y * y
    y.register_hook(lambda g: g * 3)
    z.register_hook(lambda g: g + x)
    (z + y).sum().backward()


def after_accumulation(lib, w, x):
    w.register_post_accumulate_grad_hook(lambda p: setattr(p, "grad", p.grad * 5))
    (w * x).sum().backward()


def module_hooks(lib, w, x):
    layer = lib.nn.Linear(4, 4)
    with lib.no_grad():
        layer.weight.copy_(x.reshape(4, 1) * lib.arange(4.0) / 4)
        layer.bias.zero_()
    seen = []
    layer.register_full_backward_pre_hook(lambda m, out: (out[0] * 2,))
    layer.register_full_backward_hook(lambda m, given, out: seen.append((given, out)))
    layer.register_full_backward_hook(lambda m, given, out: (given[0] + 1,))
    (layer(w * 1).tanh() * x).sum().backward()
    w.grad = w.grad + seen[0][0][0] + seen[0][1][0]


def second_order(lib, w, x):
    (g,) = lib.autograd.grad((w**3).sum(), w, create_graph=True)
    stored(g)
    (g * g).sum().backward()


def gradient_is_constant(lib, w, x):
    (g,) = lib.autograd.grad((w**3).sum(), w)
    (g * w).sum().backward()


STEPS = [add_in_place, in_place_twice, into_rows, into_a_slice, by_a_mask, through_a_view, copied, without_gradients,
         row_without_gradients, while_detached, leaf_while_detached, views_follow, retained_after_writing, many_times,
         required_later, leaf_between, updated_between, retained, retained_of_equal_ones, hooked, hooked_twice,
         after_accumulation, module_hooks, second_order, gradient_is_constant]  # fmt: skip


def after(steps):
    def call(w, x):
        w = w.detach().clone().requires_grad_()
        steps(lib(w), w, x)
        return w.grad

    return call


ROWS += [row(f"autograd: {steps.__name__}", after(steps), (4,), (4,), gradient=False) for steps in STEPS]


# ---- what is said of a tensor, and what is refused


def said(library):
    """By name: requires_grad, is_leaf and whether there is a grad_fn."""
    w, x = library.ones(3).requires_grad_(), library.ones(3)
    y = w * 2
    with library.no_grad():
        quiet = w * 2
    written = library.zeros(3).clone()
    written[0] = y[0]
    detached = y.detach()
    tensors = {
        "leaf": w, "plain": x, "made of a leaf": y, "made of both": y + x, "made of plain": x + 1, "no_grad": quiet,
        "compared": y > 0, "written": written, "detached": detached, "clone": y.clone(), "index": y.argmax(),
        "floor": y.floor(), "view": w[1:], "cast": w.double(), "relu": y.relu(),
    }  # fmt: skip
    return {name: (t.requires_grad, t.is_leaf, t.grad_fn is not None) for name, t in tensors.items()}


def test_what_is_said_of_tensors():
    assert said(tensord) == said(torch)


REFUSED = {
    "a leaf in place": lambda lib, w: w.add_(1),
    "a leaf by an operator": lambda lib, w: w.__iadd__(1),
    "a row of a leaf": lambda lib, w: w.__setitem__(0, 1.0),
    "a view of a leaf": lambda lib, w: w[1:].mul_(2),
    "no leaf without gradient": lambda lib, w: (w * 2).requires_grad_(False),
    "retain_grad of what has none": lambda lib, w: lib.ones(3).retain_grad(),
    "a hook on what has none": lambda lib, w: lib.ones(3).register_hook(lambda g: g),
    "a post hook on no leaf": lambda lib, w: (w * 2).register_post_accumulate_grad_hook(lambda g: None),
    "backward of a constant": lambda lib, w: lib.ones(3).sum().backward(),
    "backward of what is detached": lambda lib, w: (w.detach() * 2).sum().backward(),
}


@pytest.mark.parametrize("library", [tensord, torch])
@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused(what, library):
    w = library.ones(3).requires_grad_()
    with pytest.raises(RuntimeError):
        REFUSED[what](library, w)
    assert w.tolist() == [1, 1, 1]


@pytest.mark.parametrize("library", [tensord, torch])
def test_anomalies_are_named(library):
    x = library.zeros(3).requires_grad_()
    with pytest.raises(RuntimeError, match="nan") as error, library.autograd.detect_anomaly():
        y = x.sqrt()
        (y * 0).sum().backward()
    assert "Backward" in str(error.value)
    if library is tensord:
        assert "y = x.sqrt()" in str(error.value)
    with library.autograd.detect_anomaly():
        (x + 1).log().sum().backward()
    assert x.grad.tolist() == [1, 1, 1]
