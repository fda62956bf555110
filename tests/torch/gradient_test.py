"""Derivatives of derivatives, seeds, what has no influence, errors. First derivatives are in the other tables."""

import numpy as np
import torch
import torch.nn.functional as F
from table import Ints, error, lib, row, test_row  # noqa: F401

TWICE = {
    "square": lambda x: x * x,
    "cube": lambda x: x**3,
    "product of functions": lambda x: x.sin() * x.exp(),
    "quotient": lambda x: x.cos() / (x * x + 1),
    "tanh": lambda x: x.tanh(),
    "sigmoid": lambda x: x.sigmoid(),
    "log of exp": lambda x: (x.exp() + 1).log(),
    "sqrt": lambda x: (x * x + 1).sqrt(),
    "relu": lambda x: x.relu() * x,
    "abs": lambda x: x.abs() * x * x,
    "erf": lambda x: x.erf(),
    "softmax": lambda x: x.softmax(1),
    "log_softmax": lambda x: x.log_softmax(1),
    "logsumexp": lambda x: x.logsumexp(1),
    "mean and variance": lambda x: (x - x.mean(1, True)) * x.var(1, keepdim=True),
    "prod": lambda x: x.prod(1),
    "amax": lambda x: x.amax(1) * x.sum(1),
    "cumsum": lambda x: x.cumsum(1) * x,
    "matmul": lambda x: (x @ x.transpose(0, 1)).sin(),
    "slices": lambda x: x[1:, ::2] * x[:-1, 1::2],
    "rows by index": lambda x: x[[0, 0, 2]] * x,
    "where": lambda x: lib(x).where(x > 0, x * x, x.sin()),
    "expand and permute": lambda x: x.expand(2, 3, 4).permute(2, 0, 1).exp(),
    "cat": lambda x: lib(x).cat([x * x, x.exp()], 1).sin(),
    "maximum": lambda x: x.maximum(x * x) * x,
}


def twice(x, call):
    """The gradient of the squared norm of a gradient."""
    if lib(x) is torch:
        x.requires_grad_()
        (first,) = torch.autograd.grad(call(x).sum(), x, create_graph=True)
        return torch.autograd.grad((first * first).sum(), x)[0]
    (first,) = call(x).sum().gradient(x)
    return (first * first).sum().gradient(x)[0]


def thrice(x, call):
    if lib(x) is torch:
        x.requires_grad_()
        (first,) = torch.autograd.grad(call(x).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x, create_graph=True)
        return torch.autograd.grad(second.sum(), x)[0]
    (first,) = call(x).sum().gradient(x)
    return first.sum().gradient(x)[0].sum().gradient(x)[0]


def conv_twice(x, w):
    if lib(x) is torch:
        x.requires_grad_(), w.requires_grad_()
        first = torch.autograd.grad(F.conv2d(x, w).tanh().sum(), (x, w), create_graph=True)
        return torch.autograd.grad(sum((g * g).sum() for g in first), (x, w))
    first = x.conv2d(w).tanh().sum().gradient(x, w)
    return (first[0] * first[0]).sum().__add__((first[1] * first[1]).sum()).gradient(x, w)


def backward(x):
    """.grad after two calls of backward, which add up."""
    x = x.detach().requires_grad_()
    for _ in range(2):
        (x * x).sum().backward()
    return x.grad


ROWS = [
    *(
        row(f"second derivative: {name}", lambda x, c=call: twice(x, c), (3, 4), gradient=False, forward=(1e-3, 1e-3))
        for name, call in TWICE.items()
    ),
    *(
        row(
            f"third derivative: {name}",
            lambda x, c=TWICE[name]: thrice(x, c),
            (3, 4),
            gradient=False,
            forward=(1e-3, 1e-3),
        )
        for name in ("cube", "product of functions", "tanh", "softmax", "matmul")
    ),
    row("second derivative: conv", conv_twice, (1, 2, 5, 5), (3, 2, 3, 3), gradient=False, forward=(1e-3, 1e-2)),
    row(
        "a seed",
        lambda x, g: (x * x).gradient(x, gradient=g)[0],
        (3, 4),
        (3, 4),
        theirs=lambda x, g: 2 * x * g,
        gradient=False,
    ),
    row(
        "no influence gives zeros",
        lambda x, y: x.sum().gradient(x, y),
        (3,),
        (2,),
        numpy=lambda x, y: (np.ones(3, np.float32), np.zeros(2, np.float32)),
    ),
    row("detach ends it", lambda x: x * x.detach(), (3,)),
    row("a value used many times", lambda x: sum((x * k for k in range(1, 9)), x), (3,)),
    row("backward adds up", backward, (3,), gradient=False),
    row("through a cast", lambda x: x.double().sin().float(), (5,)),
    row("rounding has none", lambda x: x.round() + x * 0, (5,)),
    row("of an intermediate", lambda x: intermediate(x), (5,), gradient=False, theirs=lambda x: (2 * x).cos()),
    error(
        "no seed for many results",
        (RuntimeError, ValueError),
        "scalar|element|seed",
        lambda x: x.gradient(x),
        (3,),
        both=False,
    ),
    error("of an integer result", RuntimeError, "float|int", lambda x: x.sum().gradient(x), Ints(0, 3, 3), both=False),
    error(
        "a seed of another shape",
        (RuntimeError, ValueError),
        "shape",
        lambda x, g: x.gradient(x, gradient=g),
        (3,),
        (4,),
        both=False,
    ),
]


def intermediate(x):
    doubled = x * 2
    return doubled.sin().sum().gradient(doubled)[0]
