"""tensord: arrays on the machine's devices, computed by the tensord daemon.

    import tensord
    x = tensord.Tensor([1.0, 2.0])
    print((x + 1).numpy())

Importing connects to nothing; the first tensor does (see connect).
"""

from __future__ import annotations

from _tensord import Client, Tensor, is_capturing, realize

from tensord import dtypes, errors, nn
from tensord.connection import connect, counters, current, synchronize
from tensord.creation import (
    Variable,
    arange,
    eye,
    full,
    full_like,
    linspace,
    manual_seed,
    ones,
    ones_like,
    rand,
    randint,
    randn,
    tensor,
    uniform,
    zeros,
    zeros_like,
)
from tensord.dtypes import (
    DType,
    bfloat16,
    bool_,
    double,
    dtype,
    float8_e4m3,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float16,
    float32,
    float64,
    half,
    int8,
    int16,
    int32,
    int64,
    long,
    promote_types,
    uint8,
    uint16,
    uint32,
    uint64,
)
from tensord.errors import TensordError
from tensord.functional import *  # noqa: F403
from tensord.jit import jit
from tensord.training import is_training, training

__version__ = "0.1.0"
