"""tinygrad's public names are here: each is looked up where a user would, and what is left out is left out for a reason.

The tables follow the reference of tinygrad's API, section by section.
"""

import pytest
import tensord
from tensord import Tensor, dtypes, nn

OPTIMIZER = nn.optim.SGD

# Section: (where a name may be, names)
NAMES = {
    "dtypes": ((dtypes,), """
        DType all bfloat16 bool bool_ byte can_lossless_cast char default_float default_int double finfo float float16 float32
        float64 floats fp8_fnuz fp8_ocp fp8e4m3 fp8e4m3fnuz fp8e5m2 fp8e5m2fnuz fp8s from_py half int int16 int16s int32
        int32s int64 int64s int8 int8s ints is_bool is_float is_int is_unsigned least_upper_dtype least_upper_float long short
        sints strong_dtype sum_acc_dtype to_dtype uchar uint uint16 uint32 uint64 uint8 uints ulong ushort weak_dtype weakfloat
        weakint weaks"""),
    "a dtype": ((dtypes.DType,), "bitsize const itemsize max min __lt__"),
    "casts": ((Tensor,), """
        bfloat16 bitcast bool byte cast char double element_size float half int is_floating_point long short to type type_as"""),
    "creation": ((Tensor,), """
        arange const const_like empty empty_like eye from_blob from_url full full_like invalids linspace ones ones_like zeros
        zeros_like"""),
    "random": ((Tensor,), """
        dropout glorot_uniform kaiming_normal kaiming_uniform manual_seed multinomial normal rand rand_like randint randn
        randn_like randperm random_bits scaled_uniform threefry uniform"""),
    "properties": ((Tensor,), """
        T device dtype element_size grad is_param max_numel max_shape nbytes ndim numel shape size __bool__ __hash__ __iter__
        __len__ __repr__"""),
    "data": ((Tensor,), """
        as_param assign clone contiguous contiguous_backward data detach is_param_ item linear_with_vars numpy realize replace
        schedule_linear to to_ tolist"""),
    "movement": ((Tensor,), """
        cat chunk diag diagonal expand flatten flip meshgrid pad pad_to permute rearrange repeat repeat_interleave reshape roll
        shrink shrink_to split squeeze stack transpose tril triu unflatten unfold unsqueeze view"""),
    "indexing": ((Tensor,), """
        __delitem__ __getitem__ __setitem__ gather masked_fill masked_select nonzero one_hot scatter scatter_reduce"""),
    "elementwise, one operand": ((Tensor,), """
        abs acos acosh asin asinh atan atanh bitwise_not ceil cos cosh erf exp exp2 floor isfinite isinf isnan log log10 log2
        logical_not neg reciprocal round rsqrt sign sin sinh sqrt square tan tanh trunc"""),
    "elementwise, several": ((Tensor,), """
        add allclose alu bitwise_and bitwise_or bitwise_xor clamp clip copysign div eq fmod isclose lerp logaddexp lshift maximum
        minimum mod mul ne pow rshift sub ufix uprod usum where"""),
    "operators": ((Tensor,), """
        __add__ __and__ __eq__ __floordiv__ __ge__ __gt__ __iadd__ __iand__ __ifloordiv__ __ilshift__ __imatmul__ __imul__
        __invert__ __ior__ __ipow__ __irshift__ __isub__ __itruediv__ __ixor__ __le__ __lshift__ __lt__ __matmul__ __mod__
        __mul__ __ne__ __neg__ __or__ __pow__ __radd__ __rand__ __rfloordiv__ __rlshift__ __rmatmul__ __rmod__ __rmul__ __ror__
        __rpow__ __rrshift__ __rshift__ __rsub__ __rtruediv__ __rxor__ __sub__ __truediv__ __xor__"""),
    "reductions": ((Tensor,), """
        all any argmax argmin argsort cummax cummin cumprod cumsum log_softmax logcumsumexp logsumexp max mean min normalize prod
        softmax softmin sort std std_mean sum topk var var_mean"""),
    "processing": ((Tensor,), """
        avg_pool2d conv2d conv_transpose2d custom_kernel dot einsum image_conv2d image_dot interpolate linear matmul max_pool2d
        max_unpool2d"""),
    "linear algebra and hashing": ((Tensor,), "hash keccak newton_schulz qr svd"),
    "activations": ((Tensor,), """
        batchnorm celu elu gelu hardsigmoid hardswish hardtanh layernorm leaky_relu logsigmoid mish quick_gelu relu relu6 selu
        sequential sigmoid silu softplus softsign swish"""),
    "attention and losses": ((Tensor,), """
        binary_crossentropy binary_crossentropy_logits cross_entropy nll_loss scaled_dot_product_attention
        sparse_categorical_crossentropy"""),
    "gradient": ((Tensor,), "backward gradient"),
    "sharding": ((Tensor,), "shard shard_ shard_like to"),
    "calls": ((Tensor,), "call callify"),
    "functions and settings": ((tensord,), "Context TinyJit Tensor Variable dtypes function nn"),
    "a captured function": ((tensord.TinyJit(abs),), "reset"),
    "layers": ((nn,), """
        BatchNorm BatchNorm2d BatchNorm3d Conv1d Conv2d ConvTranspose1d ConvTranspose2d Embedding GroupNorm InstanceNorm LSTMCell
        LayerNorm LayerNorm2d Linear RMSNorm"""),
    "optimisers": ((nn.optim,), "Adam AdamW LAMB LARS Muon OptimizerGroup SGD"),
    "an optimiser": ((OPTIMIZER,), "schedule_step step zero_grad"),
    "data sets": ((nn.datasets,), "cifar mnist"),
    "state files": ((nn.state,), """
        TensorIO get_parameters get_state_dict gguf_load load_state_dict safe_load safe_load_metadata safe_save tar_extract torch_load
        zip_extract"""),
}  # fmt: skip

# Names of the reference that are not here.
OUT_OF_SCOPE = {
    "decode_hevc_frame": "decodes video by a unit of some GPUs that no backend drives",
    "free_intermediates": "of captured functions: their intermediates are the daemon's, which frees them after each run",
    "fs_store": "needs tinygrad's remote store",
    "fs_load": "needs tinygrad's remote store",
}


@pytest.mark.parametrize("section", NAMES)
def test_names(section):
    places, names = NAMES[section]
    absent = [name for name in names.split() if not any(hasattr(place, name) for place in places)]
    assert absent == []


def test_what_is_out_of_scope_is_absent():
    places = (Tensor, tensord, nn, nn.optim, nn.state, dtypes, tensord.TinyJit(abs))
    assert [name for name in OUT_OF_SCOPE if any(hasattr(place, name) for place in places)] == []


def test_names_say_what_they_are():
    methods = {name for places, names in NAMES.values() if Tensor in places for name in names.split()
               if not name.startswith("__")}
    without = []
    for name in sorted(methods):
        lines = (getattr(Tensor, name).__doc__ or "").splitlines()
        if all(not line.strip() or " -> " in line or line == "Overloaded function." for line in lines):
            without.append(name)  # signatures at most
    assert without == []
