"""PyTorch's names, module by module: each is in tensord, or here with the reason why not. A reason for a name that tensord
has fails."""

import fnmatch
import types

import pytest
import tensord
import torch
from left_out import LEFT_OUT
from tensord import nn

# module: PyTorch's and ours
MODULES = {
    "nn": (torch.nn, nn),
    "nn.functional": (torch.nn.functional, nn.functional),
    "nn.init": (torch.nn.init, nn.init),
    "nn.utils": (torch.nn.utils, nn.utils),
    "nn.utils.rnn": (torch.nn.utils.rnn, nn.utils.rnn),
    "nn.utils.parametrizations": (torch.nn.utils.parametrizations, nn.utils.parametrizations),
    "nn.utils.parametrize": (torch.nn.utils.parametrize, nn.utils.parametrize),
    "optim": (torch.optim, nn.optim),
    "optim.lr_scheduler": (torch.optim.lr_scheduler, nn.optim.lr_scheduler),
    "optim.swa_utils": (torch.optim.swa_utils, nn.optim.swa_utils),
    "linalg": (torch.linalg, tensord.linalg),
    "special": (torch.special, tensord.special),
    "fft": (torch.fft, tensord.fft),
    "signal.windows": (torch.signal.windows, tensord.signal.windows),
    "random": (torch.random, tensord.random),
}

NEWER = "newer than the releases that we follow"
OLDER = "PyTorch has deprecated it"
LOW = "products of scaled narrow floats; matmul takes those dtypes itself"
HELPER = "internal to PyTorch"
LAYOUT = "memory formats: how data lies is the daemon's matter"
ABSENT = {
    "nn": {
        "Container": OLDER, "LinearCrossEntropyLoss": NEWER,
        "LinearCrossEntropyOptions": NEWER, "RNNCellBase": HELPER, "factory_kwargs": HELPER,
        "UninitializedBuffer": "lazy layers have no parameters before their first call",
        "UninitializedParameter": "lazy layers have no parameters before their first call",
    },
    "nn.functional": {
        "ScalingType": LOW, "SwizzleType": LOW, "scaled_mm": LOW, "scaled_grouped_mm": LOW, "scaled_addmm": LOW,
        "scaled_addmm_": LOW, "grouped_mm": "products of matrices of different sizes: one product each",
        "assert_int_or_pair": HELPER, "native_channel_shuffle": HELPER, "has_torch_function": HELPER,
        "has_torch_function_unary": HELPER, "has_torch_function_variadic": HELPER, "linear_cross_entropy": NEWER,
    },
    "nn.init": {
        name: f"{OLDER}: {name}_"
        for name in ("constant", "dirac", "kaiming_normal", "kaiming_uniform", "normal", "orthogonal", "sparse", "xavier_normal",
                     "xavier_uniform")
    },
    "nn.utils": {
        "clip_grad_norm": f"{OLDER}: clip_grad_norm_", "convert_conv2d_weight_memory_format": LAYOUT,
        "convert_conv3d_weight_memory_format": LAYOUT,
    },
    "nn.utils.rnn": {"PackedSequence_": HELPER, "bind": HELPER, "copy_method_params": HELPER},
    "nn.utils.parametrize": {
        "CustomClassBase": HELPER, "get_swap_module_params_on_conversion": HELPER, "is_opaque_symbolic_type": HELPER,
        "is_traceable_wrapper_subclass": HELPER,
        "transfer_parametrizations_and_params": "made for PyTorch's quantisation; register_parametrization again",
    },
    "optim": {"functional": "internal to PyTorch", "swap_in_optimizer_params_and_state": NEWER},
    "linalg": {"LinAlgError": "errors are tensord.errors', and nothing is raised for data, which is not known at the call"},
    "random": {"thread_safe_generator": HELPER},
}  # fmt: skip


def is_public(module, name):
    """Whether it is the module's own, and not what it has imported for itself."""
    if name.startswith("_"):
        return False
    if name in getattr(module, "__all__", ()):
        return True
    value = getattr(module, name)
    if value is torch.Tensor:
        return False
    if isinstance(value, types.ModuleType) or not callable(value):
        return False
    origin = getattr(value, "__module__", None) or "torch"
    return origin.startswith("torch") and origin not in ("torch.overrides", "torch.types", "torch._jit_internal")


@pytest.mark.parametrize("module", MODULES)
def test_names_are_there_or_have_a_reason(module):
    theirs, ours = MODULES[module]
    missing = {name for name in dir(theirs) if is_public(theirs, name) and not hasattr(ours, name)}
    assert missing == set(ABSENT.get(module, {}))


def missing_names():
    """Of torch and its Tensor."""
    functions = {name for name in dir(torch) if is_public(torch, name) and not hasattr(tensord, name)}
    return functions | {name for name in dir(torch.Tensor) if not name.startswith("_") and not hasattr(tensord.Tensor, name)}


def test_functions_and_methods_are_there_or_have_a_reason():
    patterns = [pattern for names in LEFT_OUT.values() for pattern in names.split()]
    missing = missing_names()
    assert sorted(name for name in missing if not any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)) == []
    assert [pattern for pattern in patterns if not fnmatch.filter(missing, pattern)] == []  # all are used


def test_each_reason_is_one():
    assert all(reason for names in ABSENT.values() for reason in names.values())
