"""Functions of one operand: trigonometric, exponential, special, activations."""

import torch
import torch.nn.functional as F
from table import Data, Ints, lib, row, test_row  # noqa: F401

INF, NAN = float("inf"), float("nan")
EVERYWHERE = (
    "sin",
    "cos",
    "tan",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "exp",
    "exp2",
    "expm1",
    "erf",
    "sigmoid",
    "square",
)
POSITIVE = ("sqrt", "rsqrt", "log", "log2", "log10", "reciprocal")  # and their neighbours
WITHIN_ONE = ("asin", "acos", "atanh")
# In torch.special, and where.
NAMED = {
    **{name: (-20, 20) for name in ("bessel_j0", "bessel_j1", "spherical_bessel_j0", "airy_ai", "log_ndtr")},
    **{name: (0.1, 20) for name in ("bessel_y0", "bessel_y1", "modified_bessel_k0", "modified_bessel_k1")},
    **{name: (0.1, 20) for name in ("scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "entr")},
    **{name: (-5, 5) for name in ("modified_bessel_i0", "modified_bessel_i1", "erfcx")},
}
POLYNOMIALS = [
    *(f"{shifted}chebyshev_polynomial_{kind}" for shifted in ("", "shifted_") for kind in "tuvw"),
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
]
SPECIAL = {
    "erfc": (-2, 2),
    "erfinv": (-0.9, 0.9),
    "lgamma": (0.1, 5),
    "digamma": (0.5, 5),
    "i0": (-3, 3),
    "sinc": (-2, 2),
    "log1p": (-0.9, 3),
    "logit": (0.1, 0.9),
    "deg2rad": (-300, 300),
    "rad2deg": (-3, 3),
}
FAR = [-400.0, -350.0, -300.0, 300.0, 350.0, 400.0]
# Ours as a method, PyTorch's in nn.functional.
ACTIVATIONS = {
    "relu": {},
    "relu6": {},
    "leaky_relu": {},
    "logsigmoid": {},
    "hardsigmoid": {},
    "hardswish": {},
    "hardtanh": {},
    "silu": {},
    "elu": {},
    "celu": {},
    "selu": {},
    "softplus": {},
    "mish": {},
    "softsign": {},
    "tanhshrink": {},
    "hardshrink": {},
    "softshrink": {},
}
WITH_OPTIONS = [
    ("leaky_relu", {"negative_slope": 0.3}),
    ("elu", {"alpha": 0.1}),
    ("elu", {"alpha": 2.0}),
    *(("celu", {"alpha": float(a)}) for a in (1, 2, 3, 4)),
    *(("softplus", {"beta": b}) for b in (1.0, 3.0, 1 / 3)),
    *(("hardtanh", {"min_val": float(-v), "max_val": float(v)}) for v in (10, 15, 20, 25)),
    ("hardshrink", {"lambd": 0.3}),
    ("softshrink", {"lambd": 0.3}),
    ("gelu", {"approximate": "none"}),
    ("gelu", {"approximate": "tanh"}),
]


def activation(name, x, **options):
    return getattr(F if lib(x) is torch else x, name)(*((x,) if lib(x) is torch else ()), **options)


ROWS = [
    *(row(name, lambda x, n=name: getattr(x, n)(), (4, 5)) for name in EVERYWHERE),
    *(row(f"{name} of positive", lambda x, n=name: getattr(x, n)(), (4, 5), low=0.1) for name in POSITIVE),
    *(
        row(f"{name} within (-1, 1)", lambda x, n=name: getattr(x, n)(), (4, 5), low=-0.95, high=0.95)
        for name in WITHIN_ONE
    ),
    row("acosh above 1", lambda x: x.acosh(), (4, 5), low=1.1, high=4),
    *(
        row(
            f"{name} at the corners",
            lambda x, n=name: getattr(x, n)(),
            Data([0.0, INF, -INF, NAN, 1.0, -1.0]),
            gradient=False,
        )
        for name in (*EVERYWHERE, *POSITIVE, *WITHIN_ONE, "acosh")
    ),
    *(
        row(f"{name} of -0", lambda x, n=name: 1 / getattr(x, n)(), Data([-0.0]), gradient=False)
        for name in ("sin", "tan", "asin", "atan", "sinh", "tanh", "asinh", "atanh", "erf", "sqrt", "expm1", "log1p")
    ),
    *(
        row(f"{name} of 0-d", lambda x, n=name: getattr(x, n)(), (), low=0.2, high=0.8)
        for name in (*EVERYWHERE, *POSITIVE, *WITHIN_ONE)
    ),
    *(row(f"{name} of nothing", lambda x, n=name: getattr(x, n)(), (0, 3)) for name in ("sin", "exp", "tanh", "sqrt")),
    *(
        row(f"{name} of ints", lambda x, n=name: getattr(x, n)(), Ints(1, 5, 6))
        for name in (*EVERYWHERE[:-1], *POSITIVE, "acosh")
    ),
    *(
        row(
            f"{name} of {dtype}",
            lambda x, n=name: getattr(x, n)(),
            (6,),
            low=0.2,
            high=0.8,
            dtype=dtype,
            gradient=dtype == "float64",
            forward={"float16": (2e-3, 1e-3), "bfloat16": (1.6e-2, 1e-2), "float64": (1e-6, 1e-7)}[dtype],
        )
        for name in (*EVERYWHERE, *POSITIVE, *WITHIN_ONE)
        for dtype in ("float16", "bfloat16", "float64")
    ),
    *(
        row(
            f"{name} at ±{size:g}",
            lambda x, n=name: getattr(x, n)(),
            Data([size, -size, size * 1.1, -size * 1.3]),
            forward=(3e-3, 3e-3),
            backward=(3e-2, 3e-3),
        )
        for name in ("sin", "cos")
        for size in (10.0, 1e2, 1e3, 1e4, 1e5, 1e6)
    ),
    row(
        "tan near the poles",
        lambda x: x.tan(),
        Data([1.5, 1.57, -1.55, 4.71]),
        forward=(1e-2, 1e-2),
        backward=(2e-2, 1e-2),
    ),
    *(
        row(f"{name} at ±300", lambda x, n=name: getattr(x, n)(), Data([300.0, -300.0]), gradient=False)
        for name in ("asin", "acos", "acosh", "atanh", "sinh", "cosh", "tanh", "atan")
    ),
    row("asinh at ±300", lambda x: x.asinh(), Data([300.0, -300.0])),
    row("asinh near 0", lambda x: x.asinh(), Data([1e-3, -1e-3, 1e-5])),
    row("atanh near 0", lambda x: x.atanh(), Data([1e-3, -1e-3, 1e-5])),
    row("expm1 near 0", lambda x: x.expm1(), Data([1e-5, -1e-5, 1e-7])),
    row("log1p near 0", lambda x: x.log1p(), Data([1e-5, -1e-5, 1e-7])),
    row("tanh near 0", lambda x: x.tanh(), Data([1e-4, -1e-4, 1e-6]), forward=(1e-4, 1e-12)),
    row("sinh near 0", lambda x: x.sinh(), Data([1e-4, -1e-4, 1e-6]), forward=(1e-4, 1e-12)),
    row("erf near 0", lambda x: x.erf(), Data([1e-4, -1e-4, 1e-6]), forward=(1e-4, 1e-12)),
    *(
        row(f"{name} at 0 has an infinite gradient", lambda x, n=name: getattr(x, n)(), Data([0.0]))
        for name in ("sqrt", "rsqrt", "log")
    ),
    *(
        row(name, lambda x, n=name: getattr(x, n)(), (4, 5), low=low, high=high)
        for name, (low, high) in SPECIAL.items()
    ),
    *(
        row(name, lambda x, n=name: getattr(lib(x).special, n)(x), (4, 5), low=low, high=high, forward=(1e-4, 1e-5))
        for name, (low, high) in NAMED.items()
    ),
    *(
        row(
            name,
            lambda x, n, f=name: getattr(lib(x).special, f)(x, n),
            (6, 1),
            Data([-1, 0, 1, 2, 5, 6], "float32"),
            low=-1,
            high=1,
            gradient=False,
        )
        for name in POLYNOMIALS
    ),
    *(
        row(f"polygamma {n} at poles", lambda x, n=n: lib(x).special.polygamma(n, x), Data([0.0, -1.0, -2.0]), gradient=False)
        for n in (2, 3, 4)
    ),
    *(row(f"logit by {eps}", lambda x, e=eps: x.logit(e), (5,), low=0.0, high=1.0) for eps in (0.2, 0.6)),
    row("entr below 0", lambda x: lib(x).special.entr(x), Data([-1.0, 0.0, 0.5])),
    row("hypot at 0", lambda x, y: lib(x).hypot(x, y), Data([0.0, 3.0]), Data([0.0, 4.0])),
    row(
        "nextafter",
        lambda x, y: lib(x).nextafter(x, y),
        Data([0.0, 3.0, 1.0]),
        Data([1.0, 2.0, 1.0]),
        gradient=(0,),
        forward=(0, 0),
    ),
    row("polygamma 1", lambda x: lib(x).polygamma(1, x), (5,), low=0.5, high=4, gradient=False),
    row("igamma", lambda x, y: lib(x).igamma(x, y), (5,), (5,), low=0.5, high=3, gradient=False),
    row("zeta", lambda x, y: lib(x).special.zeta(x, y), (5,), (5,), low=1.5, high=4, gradient=False),
    row("nan_to_num", lambda x: x.nan_to_num(), Data([NAN, INF, -INF, 1.0]), gradient=False),
    row("nan_to_num to given", lambda x: x.nan_to_num(1.0, 2.0, 3.0), Data([NAN, INF, -INF, 1.0]), gradient=False),
    row("sgn", lambda x: x.sgn(), (5,)),
    row("frexp", lambda x: lib(x).frexp(x), (6,), gradient=False),
    # Activations.
    *(row(name, lambda x, n=name: activation(n, x), (4, 5), low=-4, high=4) for name in ACTIVATIONS),
    *(row(f"{name} of 0-d", lambda x, n=name: activation(n, x), ()) for name in ACTIVATIONS),
    *(row(f"{name} far out", lambda x, n=name: activation(n, x), Data(FAR)) for name in ACTIVATIONS),
    *(
        row(f"{name} of NaN", lambda x, n=name: activation(n, x), Data([NAN]), gradient=False)
        for name in ACTIVATIONS
        if name not in ("hardshrink", "softshrink")
    ),
    *(
        row(
            f"{name} of float16",
            lambda x, n=name: activation(n, x),
            (9,),
            dtype="float16",
            gradient=False,
            forward=(5e-3, 2e-3),
        )
        for name in ACTIVATIONS
        if name not in ("tanhshrink",)
    ),
    *(
        row(
            f"{name} with {options}",
            lambda x, n=name, o=options: activation(n, x, **o),
            (4, 5),
            low=-30,
            high=30,
            backward=(1e-3, 1e-6),
        )
        for name, options in WITH_OPTIONS
    ),
    *(
        row(
            f"{name} at -1, 0, 1",
            lambda x, n=name: activation(n, x),
            Data([-1.0, 0.0, 1.0]),
            gradient=name != "leaky_relu",
        )
        for name in ("relu", "softsign", "leaky_relu", "elu", "silu")
    ),
    row("leaky_relu neg_slope", lambda x: x.leaky_relu(neg_slope=0.2), (5,), theirs=lambda x: F.leaky_relu(x, 0.2)),
    row(
        "hardsigmoid with parameters",
        lambda x: x.hardsigmoid(0.2, 0.4),
        (5,),
        theirs=lambda x: (0.2 * x + 0.4).clip(0, 1),
    ),
    row("gelu is tanh by default", lambda x: x.gelu(), (5,), theirs=lambda x: F.gelu(x, approximate="tanh")),
    row("gelu far out", lambda x: x.gelu(), Data(FAR), theirs=lambda x: F.gelu(x, approximate="tanh")),
    row("quick_gelu", lambda x: x.quick_gelu(), (5,), theirs=lambda x: x * torch.sigmoid(1.702 * x)),
    row("quick_gelu far out", lambda x: x.quick_gelu(), Data(FAR), theirs=lambda x: x * torch.sigmoid(1.702 * x)),
    row("swish", lambda x: x.swish(), (5,), theirs=F.silu),
    row("relu of ints", lambda x: x.relu(), Ints(-5, 5, 9)),
    row(
        "the naïve sigmoid has gradient 0 at ±300",
        lambda x: 1 / (1 + (-x).exp()),
        Data([300.0, -300.0]),
        gradient=False,
    ),
    row("erf far out", lambda x: x.erf(), Data(FAR)),
    row("glu", lambda x: (F if lib(x) is torch else lib(x)).glu(x), (3, 4)),
    row("prelu", lambda x, w: (F if lib(x) is torch else lib(x)).prelu(x, w), (2, 3, 4), (3,)),
    row("threshold", lambda x: (F if lib(x) is torch else lib(x)).threshold(x, 0.1, 20.0), (3, 4)),
]
