"""PyTorch's database of operations, and which callable of tensord answers to which of its names."""

import random
import re

import numpy as np
import tensord
import torch
from oracle import NotApplicable, to_ours
from tensord import Tensor
from torch.testing._internal.common_methods_invocations import op_db

DTYPES = {"float32": torch.float32, "int32": torch.int64, "bool": torch.bool}  # ours: theirs

# Names that are not counted, with the reason: tensord has no such thing, or PyTorch's users never call it.
NOT_COUNTED = {
    r"jiterator_.*": "compiles CUDA source",
    r"torch\.ops\..*|_.*|native_.*|grid_sampler_.d|max_pool2d_with_indices_backward|constant_pad_nd|slice|alias_copy"
    r"|.*\.(decomposed|partial_views|triton_optimized)|resolve_(neg|conj)": "internal to PyTorch",
    r"\w+_copy|unsafe_\w+|scalar_tensor": "internal to PyTorch",
    r"sparse\..*|to_sparse": "sparse tensors",
    r"fft\.(?!i?fftshift).*|stft|istft|complex|polar|view_as_(complex|real)|cfloat|cdouble|chalf"
    r"|linalg\.eig(vals)?": "complex numbers",
    r"as_strided.*|\w+_strided|empty_permuted|resize_.*": "strides and storage",
    r"masked\..*": "a prototype of masked tensors",
    r"nn\.functional\.linear_cross_entropy.*|hash_tensor": "newer than the lists that we follow",
}
COUNTED_ALL_THE_SAME = re.compile(r"__\w+__$")

# Only shapes and dtypes can be compared: the numbers are random, or undefined.
RANDOM = re.compile(
    r"(new_)?empty(_like)?|rand(n|int)?(_like)?|bernoulli|multinomial|normal.*|uniform|cauchy|exponential|geometric"
    r"|log_normal|nn\.functional\.(feature_)?(alpha_)?dropout.*|nn\.functional\.rrelu|nn\.functional\.fractional_max_pool.*"
    r"|svd_lowrank|pca_lowrank"
)


def is_random(op, sample):
    return RANDOM.fullmatch(op.full_name) is not None or sample.kwargs.get("dropout_p", 0) > 0


# Where we differ on purpose: {(name, dtype): reason}.
ON_PURPOSE = {
    ("prod", "bool"): "prod keeps the dtype",
    **{(f"nn.functional.avg_pool{n}d", "int32"): "averages of integers are float32" for n in (1, 2, 3)},
    **{
        (name, "float32"): "what is beside the triangle is not read and has no derivative"
        for name in ("cholesky_solve", "cholesky_inverse")
    },
    **{
        (name, "int32"): "a fractional factor makes integers float32" for name in ("addbmm", "addmv", "baddbmm")
    },
    ("linalg.pinv.hermitian", "float32"): "the derivative of matrices that are not symmetric, of which one half is read",
    ("addr", "bool"): "an integer factor makes bool int32",
    ("bincount", "int32"): "sums of integer weights are integers",
    **{("randint", dtype): "integers have an integer dtype" for dtype in DTYPES},
    **{("scatter", dtype): "scatter reduces by numbers, scatter_reduce by tensors" for dtype in DTYPES},
    ("square", "bool"): "the square of bool is bool",
    ("svd", "float32"): "svd is linalg.svd",
}

# Whose results are compared as the database says: vectors up to their sign.
PROCESSED = {"linalg.eigh", "linalg.svd"}

# Indices of elements, of which any of several equal ones will do: compared by what they point to. {name: position of
# dim among the arguments behind the input}; the last result is the index.
POINTING = {"argsort": 0, "cummax": 0, "cummin": 0, "kthvalue": 1, "mode": 0, "sort": 0, "topk": 1}


def comparable(op, sample, result, given):
    """The result in the form in which it is compared; `given` is the input, as PyTorch's or ours."""
    if op.full_name in PROCESSED:
        return sample.output_process_fn_grad(result)
    if op.full_name not in POINTING:
        return result
    position = POINTING[op.full_name]
    dim = sample.kwargs.get("dim", sample.args[position] if len(sample.args) > position else -1)
    *values, index = result if isinstance(result, tuple) else (result,)
    lost = index.ndim < given.ndim  # the axis
    where = (index.unsqueeze(dim) if lost else index).long()
    if given.ndim == 0:
        return *values, index
    pointed = given.gather(dim, where)
    return *values, pointed.squeeze(dim) if lost else pointed

# How far results may be apart: |ours - theirs| <= atol + rtol |theirs|. Some need more than the usual, for the reason
# beside them.
USUAL = {"forward": (1e-4, 1e-5), "gradient": (1e-3, 1e-4)}
TOLERANCES = {
    r"linalg\..*|svd|lu.*|pinverse|cholesky_.*|matrix_exp": (
        (1e-3, 1e-3),
        (1e-2, 1e-2),
    ),  # as well as the matrix is conditioned
    # Saturated weights, of whose gradient float32 leaves two digits: PyTorch's own is off by 2e-3 from its float64.
    r"nn\.functional\.multi_head_attention_forward": ((1e-4, 1e-5), (1e-2, 1e-2)),
    r"cumprod|prod|nn\.functional\.bilinear": ((1e-3, 1e-4), (1e-2, 1e-3)),  # products of many, in another order
}


def tolerance(name, kind):
    for pattern, both in TOLERANCES.items():
        if re.fullmatch(pattern, name):
            return both[kind == "gradient"]
    return USUAL[kind]


def names():
    """The counted operations by full name, such as "max.binary"."""
    return {op.full_name: op for op in op_db if why_not_counted(op.full_name) is None}


def not_counted():
    """{reason: names}"""
    found = {}
    for op in op_db:
        if reason := why_not_counted(op.full_name):
            found.setdefault(reason, []).append(op.full_name)
    return found


def why_not_counted(name):
    if COUNTED_ALL_THE_SAME.match(name):
        return None
    return next((reason for pattern, reason in NOT_COUNTED.items() if re.fullmatch(pattern, name)), None)


def supports(op, dtype):
    return DTYPES[dtype] in op.supported_dtypes("cpu")


def samples(op, dtype, most):
    """{number: sample} of at most so many, spread over all of the operation's; the same ones on every run."""
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    found = list(op.sample_inputs("cpu", DTYPES[dtype], requires_grad=False))
    return {number: found[number] for number in spread(len(found), most)}


def spread(count, most):
    """At most so many of range(count). A smaller selection is part of a larger one of twice or four times the size."""
    step = 1
    while (count + step - 1) // step > most:
        step *= 2
    return range(0, count, step)


def theirs(op, sample):
    torch.manual_seed(0)
    return comparable(op, sample, op.op(sample.input, *sample.args, **sample.kwargs), sample.input)


def find(name):
    """tensord's callable for a name of the database, or None."""
    base = _without_variant(name)
    for key in (name, base):
        if key in ADAPTERS:
            needs, adapter = ADAPTERS[key]
            return adapter if needs is None or look_up(needs) else None
    return look_up(base)


def _without_variant(name):
    base = name.split(".")
    if base[0] in ("nn", "linalg", "special", "signal", "fft"):  # what follows a function's name is its variant
        length = {"nn": 3, "signal": 3}.get(base[0], 2)
        base = base[:length]
    else:
        base = base[:1]
    return ".".join(base)


def look_up(name):
    """The function of a name in the places where PyTorch has it, else the method."""
    base = name.split(".")
    places = [tensord]
    for part in base[:-1]:
        places = [inner for place in places if (inner := getattr(place, part, None)) is not None]
    for place in (*places, tensord, Tensor):
        found = getattr(place, base[-1], None)
        # tensord's modules and dtypes have names that are functions in PyTorch.
        if callable(found) and not isinstance(found, type):
            return found
    return None


def ours(op, function, sample, made):
    """What tensord makes of a sample; `made` gets the pairs (torch tensor, ours) of its tensors."""
    given = to_ours(sample.input, made)
    first = () if given is None else (given,)
    result = function(*first, *to_ours(tuple(sample.args), made), **to_ours(sample.kwargs, made))
    return comparable(op, sample, result, given)


# What the database calls in a way of its own, and where list one of the API deviates on purpose. {name: (what must be
# there, callable)}; None: nothing.


def _method(name, attribute=None):
    return name, lambda x, *args, **kwargs: getattr(x, attribute or name)(*args, **kwargs)


def _property(name):
    return None, lambda x: getattr(x, name)


def _by_keyword(name):
    """max and min give places as well by the keyword dim only; by position they give the values alone."""

    def call(x, *args, **kwargs):
        if args and isinstance(args[0], int):
            return getattr(x, name)(**dict(zip(("dim", "keepdim"), args)), **kwargs)
        return getattr(x, name)(*args, **kwargs)

    return None, call


def _reverse(name, **fixed):
    return name, lambda x, *args, **kwargs: look_up(name)(*reversed((x, *args)), **fixed, **kwargs)


def _to(x, *args, **kwargs):
    for argument in args:
        if not isinstance(argument, (tensord.DType, Tensor, bool)):
            raise NotApplicable("devices")
    kwargs.pop("copy", None)
    dtypes = [a.dtype if isinstance(a, Tensor) else a for a in args if not isinstance(a, bool)]
    return x.to(*dtypes, **kwargs)


def _cast(name):
    def call(x, **kwargs):
        return getattr(x, name)(**kwargs)

    return name, call


ADAPTERS = {
    **{
        name: _method(name)
        for name in (
            "contiguous",
            "sum_to_size",
            "expand",
            "expand_as",
            "reshape_as",
            "view",
            "view_as",
            "unfold",
            "repeat",
            "item",
            "new_zeros",
            "new_ones",
            "new_empty",
            "new_full",
        )
    },
    **{
        name: _cast(name)
        for name in ("bfloat16", "bool", "byte", "char", "double", "float", "half", "int", "long", "short")
    },
    "cauchy": _method("cauchy_"),
    "exponential": _method("exponential_"),
    "geometric": _method("geometric_"),
    "log_normal": _method("log_normal_"),
    "uniform": _method("uniform_"),
    "zero_": ("zero_", lambda x: x.clone().zero_()),
    "normal.in_place": ("normal_", lambda x, *args: x.clone().normal_(*args)),
    "T": _property("T"),
    "mT": _property("mT"),
    "H": _property("H"),
    "mH": _property("mH"),
    "to": (None, _to),
    "max": _by_keyword("max"),
    "min": _by_keyword("min"),
    "__rdiv__": (None, lambda x, y: x.__rtruediv__(y)),
    "where": (None, lambda x, condition, other: condition.where(x, other)),
    "einsum": ("einsum", lambda tensors, equation: tensord.einsum(equation, *tensors)),
    "polygamma": ("polygamma", lambda x, n: look_up("polygamma")(n, x)),
    "special.polygamma": ("polygamma", lambda x, n: look_up("polygamma")(n, x)),
    **{
        name: (name, lambda a, b, n=name, **kwargs: look_up(n)(a @ b.mT, **kwargs))
        for name in ("pca_lowrank", "svd_lowrank")
    },
    "linalg.pinv.singular": ("linalg.pinv", lambda a, b: look_up("linalg.pinv")(a @ b.mT)),
    "linalg.lstsq.grad_oriented": (
        "linalg.lstsq",
        lambda a, b, driver: look_up("linalg.lstsq")(a, b, driver=driver)[:2],
    ),
    "nn.functional.embedding": _reverse("nn.functional.embedding"),
    "nn.functional.embedding_bag": _reverse("nn.functional.embedding_bag"),
}
