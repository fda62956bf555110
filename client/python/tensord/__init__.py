"""tensord: arrays on the machine's devices, computed by the tensord daemon.

    import tensord
    x = tensord.Tensor([1.0, 2.0])
    print((x + 1).numpy())

Importing connects to nothing; the first tensor does (see connect).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from _tensord import Client, SymInt, Tensor, __version__, is_capturing, realize

from tensord import autograd, dtypes, errors, fft, func, linalg, profiler, random, return_types, signal, special, tinygrad
from tensord.autograd import (
    checkpoint,
    custom_gradient,
    enable_grad,
    gradient,
    inference_mode,
    is_grad_enabled,
    no_grad,
    set_grad_enabled,
)
from tensord.compiled import autocast, compile
from tensord.connection import TLS, bill, connect, counters, current, explain, memory, synchronize
from tensord.context import Context
from tensord.creation import (
    Variable,
    arange,
    as_tensor,
    asarray,
    bartlett_window,
    blackman_window,
    block_diag,
    cartesian_prod,
    combinations,
    empty,
    empty_like,
    eye,
    from_blob,
    from_numpy,
    frombuffer,
    full,
    full_like,
    hamming_window,
    hann_window,
    kaiser_window,
    linspace,
    logspace,
    manual_seed,
    ones,
    ones_like,
    rand,
    randn,
    randperm,
    range_ as range,
    scalar_tensor,
    tensor,
    tril_indices,
    triu_indices,
    uniform,
    vander,
    zeros,
    zeros_like,
)
from tensord.dtypes import (
    DType,
    bfloat16,
    bool_,
    bool_ as bool,
    can_lossless_cast,
    default_dtypes,
    double,
    dtype,
    finfo,
    float32 as float,
    float8_e4m3,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float16,
    float32,
    float64,
    half,
    iinfo,
    int8,
    int16,
    int16 as short,
    int32,
    int32 as int,
    int64,
    long,
    promote_types,
    set_default_dtype,
    uint8,
    uint16,
    uint32,
    uint64,
)
from tensord.errors import TensordError
from tensord.fft import istft, stft
from tensord.func import vmap
from tensord.functional import *  # noqa: F403
from tensord.generator import Generator, default_generator
from tensord.interop import from_dlpack
from tensord.jit import TinyJit, function, jit
from tensord.kernels import kernel
from tensord.loops import fori_loop, scan, while_loop
from tensord.numerics import fast_math
from tensord.objects import can_cast, get_default_dtype, is_storage, is_tensor, result_type
from tensord.place import device, get_default_device, set_default_device
from tensord.printing import set_printoptions
from tensord.profiler import trace
from tensord.random import (
    bernoulli,
    fork_rng,
    get_rng_state,
    glorot_uniform,
    initial_seed,
    kaiming_normal,
    kaiming_uniform,
    normal,
    poisson,
    rand_like,
    randint,
    randint_like,
    randn_like,
    scaled_uniform,
    seed,
    set_rng_state,
)
from tensord.size import Size
from tensord.sharing import attach, publish, published, unpublish
from tensord.training import is_training, training

#: Constants.
e: Final = math.e
inf: Final = math.inf
nan: Final = math.nan
newaxis: Final = None
pi: Final = math.pi

if TYPE_CHECKING:
    from tensord import io, nn, utils
    from tensord.io import load, save
    from tensord.nn import optim
else:
    # These and NumPy would take most of the import's time, so they are imported when they are first named.
    _LATER = {
        "io": "tensord.io",
        "load": "tensord.io:load",
        "nn": "tensord.nn",
        "optim": "tensord.nn.optim",
        "save": "tensord.io:save",
        "utils": "tensord.utils",
        **{name: f"tensord.nn.functional:{name}" for name in functional._IN_TORCH_ORDER},
    }

    def __getattr__(name: str) -> Any:
        if name not in _LATER:
            raise AttributeError(f"module 'tensord' has no attribute {name!r}")
        from pkgutil import resolve_name

        value = globals()[name] = resolve_name(_LATER[name])
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *_LATER})

    # Not those of Python's own types and functions, which `import *` would hide.
    _PYTHONS = {"bool", "compile", "float", "int", "range"}
    __all__ = [name for name in __dir__() if not name.startswith("_") and name not in {*_PYTHONS, "math"}]
