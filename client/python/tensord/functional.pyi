"""Methods of Tensor as functions. Written by make_stub.py."""

from typing import Any

from _tensord import Tensor

from tensord import return_types

__all__ = [
    'abs',
    'abs_',
    'absolute',
    'absolute_',
    'acos',
    'acos_',
    'acosh',
    'acosh_',
    'adaptive_avg_pool',
    'adaptive_avg_pool1d',
    'adaptive_max_pool',
    'adaptive_max_pool1d',
    'add',
    'addbmm',
    'addcdiv',
    'addcmul',
    'addmm',
    'addmv',
    'addmv_',
    'addr',
    'adjoint',
    'affine_grid',
    'airy_ai',
    'all',
    'allclose',
    'alpha_dropout',
    'alu',
    'amax',
    'amin',
    'aminmax',
    'angle',
    'any',
    'arccos',
    'arccos_',
    'arccosh',
    'arccosh_',
    'arcsin',
    'arcsin_',
    'arcsinh',
    'arcsinh_',
    'arctan',
    'arctan2',
    'arctan_',
    'arctanh',
    'arctanh_',
    'argmax',
    'argmin',
    'argsort',
    'argwhere',
    'as_strided',
    'asin',
    'asin_',
    'asinh',
    'asinh_',
    'atan',
    'atan2',
    'atan_',
    'atanh',
    'atanh_',
    'atleast_1d',
    'atleast_2d',
    'atleast_3d',
    'avg_pool1d',
    'avg_pool2d',
    'avg_pool3d',
    'baddbmm',
    'batch_norm',
    'batch_norm_train',
    'batchnorm',
    'bessel_j0',
    'bessel_j1',
    'bessel_y0',
    'bessel_y1',
    'bilinear',
    'binary_cross_entropy',
    'binary_cross_entropy_with_logits',
    'binary_crossentropy',
    'binary_crossentropy_logits',
    'bincount',
    'bitwise_and',
    'bitwise_left_shift',
    'bitwise_not',
    'bitwise_or',
    'bitwise_right_shift',
    'bitwise_xor',
    'bmm',
    'broadcast_shapes',
    'broadcast_tensors',
    'broadcast_to',
    'bucketize',
    'call',
    'cat',
    'cdist',
    'ceil',
    'ceil_',
    'celu',
    'celu_',
    'chain_matmul',
    'channel_shuffle',
    'chebyshev_polynomial_t',
    'chebyshev_polynomial_u',
    'chebyshev_polynomial_v',
    'chebyshev_polynomial_w',
    'cholesky',
    'cholesky_inverse',
    'cholesky_solve',
    'chunk',
    'clamp',
    'clamp_',
    'clamp_max',
    'clamp_max_',
    'clamp_min',
    'clamp_min_',
    'clip',
    'clip_',
    'clone',
    'col2im',
    'column_stack',
    'concat',
    'concatenate',
    'conj',
    'conj_physical',
    'const',
    'const_like',
    'constant_pad_nd',
    'contiguous_backward',
    'conv1d',
    'conv2d',
    'conv3d',
    'conv_transpose1d',
    'conv_transpose2d',
    'conv_transpose3d',
    'copysign',
    'corrcoef',
    'cos',
    'cos_',
    'cosh',
    'cosh_',
    'cosine_embedding_loss',
    'cosine_similarity',
    'count_nonzero',
    'cov',
    'cross',
    'cross_entropy',
    'ctc_loss',
    'cummax',
    'cummin',
    'cumprod',
    'cumsum',
    'cumulative_trapezoid',
    'custom_kernel',
    'deg2rad',
    'deg2rad_',
    'det',
    'detach',
    'detach_',
    'diag',
    'diag_embed',
    'diagflat',
    'diagonal',
    'diagonal_scatter',
    'diff',
    'digamma',
    'dim',
    'dist',
    'div',
    'divide',
    'dot',
    'dropout',
    'dsplit',
    'dstack',
    'einsum',
    'elu',
    'elu_',
    'embedding',
    'embedding_bag',
    'entr',
    'eq',
    'equal',
    'erf',
    'erf_',
    'erfc',
    'erfc_',
    'erfcx',
    'erfinv',
    'exp',
    'exp2',
    'exp2_',
    'exp_',
    'expand_as',
    'expm1',
    'expm1_',
    'feature_alpha_dropout',
    'feature_dropout',
    'fill',
    'fill_',
    'fix',
    'fix_',
    'flatten',
    'flip',
    'fliplr',
    'flipud',
    'float_power',
    'floor',
    'floor_',
    'floor_divide',
    'fmax',
    'fmin',
    'fmod',
    'frac',
    'frac_',
    'fractional_max_pool',
    'frexp',
    'from_url',
    'gather',
    'gaussian_nll_loss',
    'gcd',
    'gcd_',
    'ge',
    'gelu',
    'geqrf',
    'ger',
    'get_device',
    'glu',
    'greater',
    'greater_equal',
    'grid_sample',
    'group_norm',
    'gt',
    'gumbel_softmax',
    'hardshrink',
    'hardsigmoid',
    'hardswish',
    'hardtanh',
    'hardtanh_',
    'hash',
    'heaviside',
    'hermite_polynomial_h',
    'hermite_polynomial_he',
    'hinge_embedding_loss',
    'histc',
    'histogram',
    'histogramdd',
    'hsplit',
    'hstack',
    'huber_loss',
    'hypot',
    'i0',
    'i0_',
    'i0e',
    'i1',
    'i1e',
    'igamma',
    'igammac',
    'im2col',
    'image_conv2d',
    'image_dot',
    'index_add',
    'index_copy',
    'index_fill',
    'index_put',
    'index_put_',
    'index_reduce',
    'index_select',
    'inner',
    'instance_norm',
    'interpolate',
    'invalids',
    'inverse',
    'is_complex',
    'is_conj',
    'is_contiguous',
    'is_floating_point',
    'is_inference',
    'is_neg',
    'is_nonzero',
    'is_same_size',
    'is_signed',
    'isclose',
    'isfinite',
    'isin',
    'isinf',
    'isnan',
    'isneginf',
    'isposinf',
    'isreal',
    'keccak',
    'kl_div',
    'kron',
    'kthvalue',
    'l1_loss',
    'laguerre_polynomial_l',
    'layer_norm',
    'layernorm',
    'lcm',
    'lcm_',
    'ldexp',
    'ldexp_',
    'le',
    'leaky_relu',
    'leaky_relu_',
    'legendre_polynomial_p',
    'lerp',
    'less',
    'less_equal',
    'lgamma',
    'linear',
    'linear_with_vars',
    'lobpcg',
    'local_response_norm',
    'log',
    'log10',
    'log10_',
    'log1p',
    'log1p_',
    'log2',
    'log2_',
    'log_',
    'log_ndtr',
    'log_sigmoid',
    'log_softmax',
    'logaddexp',
    'logaddexp2',
    'logcumsumexp',
    'logdet',
    'logical_and',
    'logical_not',
    'logical_or',
    'logical_xor',
    'logit',
    'logit_',
    'logsigmoid',
    'logsumexp',
    'lp_pool2d',
    'lshift',
    'lt',
    'lu',
    'lu_solve',
    'lu_unpack',
    'margin_ranking_loss',
    'masked_fill',
    'masked_scatter',
    'masked_select',
    'matmul',
    'matrix_exp',
    'matrix_power',
    'max',
    'max_numel',
    'max_pool1d',
    'max_pool2d',
    'max_pool3d',
    'max_unpool2d',
    'maximum',
    'mean',
    'median',
    'meshgrid',
    'min',
    'minimum',
    'mish',
    'mm',
    'mod',
    'mode',
    'modified_bessel_k0',
    'modified_bessel_k1',
    'moveaxis',
    'movedim',
    'mse_loss',
    'msort',
    'mul',
    'multi_margin_loss',
    'multilabel_margin_loss',
    'multilabel_soft_margin_loss',
    'multinomial',
    'multiply',
    'mv',
    'mvlgamma',
    'nan_to_num',
    'nan_to_num_',
    'nanmean',
    'nanmedian',
    'nanquantile',
    'nansum',
    'narrow',
    'narrow_copy',
    'nbytes',
    'ndtr',
    'ndtri',
    'ne',
    'neg',
    'neg_',
    'negative',
    'negative_',
    'nelement',
    'newton_schulz',
    'nextafter',
    'nll_loss',
    'nonzero',
    'nonzero_static',
    'norm',
    'normalize',
    'not_equal',
    'numel',
    'one_hot',
    'orgqr',
    'ormqr',
    'outer',
    'pad',
    'pad_to',
    'pairwise_distance',
    'pca_lowrank',
    'pdist',
    'permute',
    'pin_memory',
    'pinverse',
    'pixel_shuffle',
    'pixel_unshuffle',
    'poisson_nll_loss',
    'polygamma',
    'positive',
    'pow',
    'prelu',
    'prod',
    'put',
    'qr',
    'quantile',
    'quick_gelu',
    'rad2deg',
    'rad2deg_',
    'random_bits',
    'ravel',
    'real',
    'rearrange',
    'reciprocal',
    'reciprocal_',
    'relu',
    'relu6',
    'relu_',
    'remainder',
    'renorm',
    'repeat',
    'repeat_interleave',
    'replace',
    'reshape',
    'resize_as_',
    'resolve_conj',
    'resolve_neg',
    'rms_norm',
    'roll',
    'rot90',
    'round',
    'round_',
    'row_stack',
    'rrelu',
    'rrelu_',
    'rshift',
    'rsqrt',
    'rsqrt_',
    'rsub',
    'scaled_dot_product_attention',
    'scaled_modified_bessel_k0',
    'scaled_modified_bessel_k1',
    'scatter',
    'scatter_add',
    'scatter_reduce',
    'schedule_linear',
    'searchsorted',
    'select',
    'select_scatter',
    'selu',
    'selu_',
    'sequential',
    'sgn',
    'shard',
    'shard_like',
    'shifted_chebyshev_polynomial_t',
    'shifted_chebyshev_polynomial_u',
    'shifted_chebyshev_polynomial_v',
    'shifted_chebyshev_polynomial_w',
    'shrink',
    'shrink_to',
    'sigmoid',
    'sigmoid_',
    'sign',
    'signbit',
    'silu',
    'sin',
    'sin_',
    'sinc',
    'sinc_',
    'sinh',
    'sinh_',
    'slice_scatter',
    'slogdet',
    'smooth_l1_loss',
    'soft_margin_loss',
    'softmax',
    'softmin',
    'softplus',
    'softshrink',
    'softsign',
    'sort',
    'sparse_categorical_crossentropy',
    'spherical_bessel_j0',
    'split',
    'split_with_sizes',
    'sqrt',
    'sqrt_',
    'square',
    'square_',
    'squeeze',
    'stack',
    'std',
    'std_mean',
    'storage_offset',
    'sub',
    'subtract',
    'sum',
    'sum_to_size',
    'svd',
    'svd_lowrank',
    'swapaxes',
    'swapdims',
    'swish',
    't',
    'take',
    'take_along_dim',
    'tan',
    'tan_',
    'tanh',
    'tanh_',
    'tanhshrink',
    'tensor_split',
    'tensordot',
    'threefry',
    'threshold',
    'threshold_',
    'tile',
    'topk',
    'transpose',
    'trapezoid',
    'trapz',
    'triangular_solve',
    'tril',
    'triplet_margin_loss',
    'triu',
    'true_divide',
    'trunc',
    'trunc_',
    'ufix',
    'unbind',
    'unflatten',
    'unfold',
    'unique',
    'unique_consecutive',
    'unravel_index',
    'unsqueeze',
    'uprod',
    'usum',
    'var',
    'var_mean',
    'vdot',
    'vecdot',
    'view_as',
    'vsplit',
    'vstack',
    'where',
    'xlog1py',
    'xlogy',
    'xlogy_',
    'zero_',
    'zeta',
]


from tensord.nn.functional import adaptive_avg_pool1d as adaptive_avg_pool1d
from tensord.nn.functional import adaptive_max_pool1d as adaptive_max_pool1d
from tensord.nn.functional import avg_pool1d as avg_pool1d
from tensord.nn.functional import avg_pool2d as avg_pool2d
from tensord.nn.functional import avg_pool3d as avg_pool3d
from tensord.nn.functional import bilinear as bilinear
from tensord.nn.functional import conv1d as conv1d
from tensord.nn.functional import conv2d as conv2d
from tensord.nn.functional import conv3d as conv3d
from tensord.nn.functional import conv_transpose1d as conv_transpose1d
from tensord.nn.functional import conv_transpose2d as conv_transpose2d
from tensord.nn.functional import conv_transpose3d as conv_transpose3d
from tensord.nn.functional import linear as linear
from tensord.nn.functional import max_pool1d as max_pool1d
from tensord.nn.functional import max_pool2d as max_pool2d
from tensord.nn.functional import max_pool3d as max_pool3d
from tensord.nn.functional import scaled_dot_product_attention as scaled_dot_product_attention
def mirrored() -> list[str]: ...
abs = Tensor.abs
abs_ = Tensor.abs_
absolute = Tensor.absolute
absolute_ = Tensor.absolute_
acos = Tensor.acos
acos_ = Tensor.acos_
acosh = Tensor.acosh
acosh_ = Tensor.acosh_
adaptive_avg_pool = Tensor.adaptive_avg_pool
adaptive_max_pool = Tensor.adaptive_max_pool
def add(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
addbmm = Tensor.addbmm
addcdiv = Tensor.addcdiv
addcmul = Tensor.addcmul
addmm = Tensor.addmm
addmv = Tensor.addmv
addmv_ = Tensor.addmv_
addr = Tensor.addr
adjoint = Tensor.adjoint
affine_grid = Tensor.affine_grid
airy_ai = Tensor.airy_ai
all = Tensor.all
allclose = Tensor.allclose
alpha_dropout = Tensor.alpha_dropout
alu = Tensor.alu
amax = Tensor.amax
amin = Tensor.amin
aminmax = Tensor.aminmax
angle = Tensor.angle
any = Tensor.any
arange = Tensor.arange
arccos = Tensor.arccos
arccos_ = Tensor.arccos_
arccosh = Tensor.arccosh
arccosh_ = Tensor.arccosh_
arcsin = Tensor.arcsin
arcsin_ = Tensor.arcsin_
arcsinh = Tensor.arcsinh
arcsinh_ = Tensor.arcsinh_
arctan = Tensor.arctan
arctan2 = Tensor.arctan2
arctan_ = Tensor.arctan_
arctanh = Tensor.arctanh
arctanh_ = Tensor.arctanh_
argmax = Tensor.argmax
argmin = Tensor.argmin
argsort = Tensor.argsort
argwhere = Tensor.argwhere
as_strided = Tensor.as_strided
asin = Tensor.asin
asin_ = Tensor.asin_
asinh = Tensor.asinh
asinh_ = Tensor.asinh_
atan = Tensor.atan
def atan2(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
atan_ = Tensor.atan_
atanh = Tensor.atanh
atanh_ = Tensor.atanh_
atleast_1d = Tensor.atleast_1d
atleast_2d = Tensor.atleast_2d
atleast_3d = Tensor.atleast_3d
baddbmm = Tensor.baddbmm
batch_norm = Tensor.batch_norm
batch_norm_train = Tensor.batch_norm_train
batchnorm = Tensor.batchnorm
bernoulli = Tensor.bernoulli
bessel_j0 = Tensor.bessel_j0
bessel_j1 = Tensor.bessel_j1
bessel_y0 = Tensor.bessel_y0
bessel_y1 = Tensor.bessel_y1
binary_cross_entropy = Tensor.binary_cross_entropy
binary_cross_entropy_with_logits = Tensor.binary_cross_entropy_with_logits
binary_crossentropy = Tensor.binary_crossentropy
binary_crossentropy_logits = Tensor.binary_crossentropy_logits
bincount = Tensor.bincount
def bitwise_and(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
def bitwise_left_shift(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
bitwise_not = Tensor.bitwise_not
def bitwise_or(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
def bitwise_right_shift(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
def bitwise_xor(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
block_diag = Tensor.block_diag
bmm = Tensor.bmm
def broadcast_shapes(*shapes: 'Any') -> 'tuple[int, ...]': ...
broadcast_tensors = Tensor.broadcast_tensors
broadcast_to = Tensor.broadcast_to
def bucketize(input: 'Any', boundaries: 'Tensor', *, out_int32: 'bool' = True, right: 'bool' = False) -> 'Tensor': ...
call = Tensor.call
cartesian_prod = Tensor.cartesian_prod
cat = Tensor.cat
cdist = Tensor.cdist
ceil = Tensor.ceil
ceil_ = Tensor.ceil_
celu = Tensor.celu
celu_ = Tensor.celu_
def chain_matmul(*matrices: 'Tensor') -> 'Tensor': ...
channel_shuffle = Tensor.channel_shuffle
def chebyshev_polynomial_t(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
def chebyshev_polynomial_u(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
def chebyshev_polynomial_v(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
def chebyshev_polynomial_w(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
cholesky = Tensor.cholesky
cholesky_inverse = Tensor.cholesky_inverse
cholesky_solve = Tensor.cholesky_solve
chunk = Tensor.chunk
clamp = Tensor.clamp
clamp_ = Tensor.clamp_
clamp_max = Tensor.clamp_max
clamp_max_ = Tensor.clamp_max_
clamp_min = Tensor.clamp_min
clamp_min_ = Tensor.clamp_min_
clip = Tensor.clip
clip_ = Tensor.clip_
clone = Tensor.clone
col2im = Tensor.col2im
column_stack = Tensor.column_stack
combinations = Tensor.combinations
concat = Tensor.concat
concatenate = Tensor.concatenate
conj = Tensor.conj
conj_physical = Tensor.conj_physical
const = Tensor.const
const_like = Tensor.const_like
def constant_pad_nd(input: 'Tensor', pad: 'Any', value: 'Any' = 0) -> 'Tensor': ...
contiguous_backward = Tensor.contiguous_backward
def copysign(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
corrcoef = Tensor.corrcoef
cos = Tensor.cos
cos_ = Tensor.cos_
cosh = Tensor.cosh
cosh_ = Tensor.cosh_
cosine_embedding_loss = Tensor.cosine_embedding_loss
cosine_similarity = Tensor.cosine_similarity
count_nonzero = Tensor.count_nonzero
cov = Tensor.cov
cross = Tensor.cross
cross_entropy = Tensor.cross_entropy
ctc_loss = Tensor.ctc_loss
cummax = Tensor.cummax
cummin = Tensor.cummin
cumprod = Tensor.cumprod
cumsum = Tensor.cumsum
cumulative_trapezoid = Tensor.cumulative_trapezoid
custom_kernel = Tensor.custom_kernel
deg2rad = Tensor.deg2rad
deg2rad_ = Tensor.deg2rad_
det = Tensor.det
detach = Tensor.detach
detach_ = Tensor.detach_
diag = Tensor.diag
diag_embed = Tensor.diag_embed
diagflat = Tensor.diagflat
diagonal = Tensor.diagonal
diagonal_scatter = Tensor.diagonal_scatter
diff = Tensor.diff
digamma = Tensor.digamma
dim = Tensor.dim
dist = Tensor.dist
def div(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
divide = Tensor.divide
dot = Tensor.dot
dropout = Tensor.dropout
dsplit = Tensor.dsplit
dstack = Tensor.dstack
def einsum(formula: 'str', *operands: 'Any', dtype: 'Any' = None) -> 'Tensor': ...
elu = Tensor.elu
elu_ = Tensor.elu_
embedding = Tensor.embedding
embedding_bag = Tensor.embedding_bag
empty = Tensor.empty
empty_like = Tensor.empty_like
entr = Tensor.entr
def eq(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
equal = Tensor.equal
erf = Tensor.erf
erf_ = Tensor.erf_
erfc = Tensor.erfc
erfc_ = Tensor.erfc_
erfcx = Tensor.erfcx
erfinv = Tensor.erfinv
exp = Tensor.exp
exp2 = Tensor.exp2
exp2_ = Tensor.exp2_
exp_ = Tensor.exp_
expand_as = Tensor.expand_as
expm1 = Tensor.expm1
expm1_ = Tensor.expm1_
eye = Tensor.eye
feature_alpha_dropout = Tensor.feature_alpha_dropout
feature_dropout = Tensor.feature_dropout
def fill(input: 'Tensor', value: 'Any') -> 'Tensor': ...
fill_ = Tensor.fill_
fix = Tensor.fix
fix_ = Tensor.fix_
flatten = Tensor.flatten
flip = Tensor.flip
fliplr = Tensor.fliplr
flipud = Tensor.flipud
def float_power(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
floor = Tensor.floor
floor_ = Tensor.floor_
def floor_divide(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
def fmax(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
def fmin(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
def fmod(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
frac = Tensor.frac
frac_ = Tensor.frac_
fractional_max_pool = Tensor.fractional_max_pool
frexp = Tensor.frexp
from_blob = Tensor.from_blob
from_numpy = Tensor.from_numpy
from_url = Tensor.from_url
full = Tensor.full
full_like = Tensor.full_like
gather = Tensor.gather
gaussian_nll_loss = Tensor.gaussian_nll_loss
def gcd(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
gcd_ = Tensor.gcd_
def ge(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
gelu = Tensor.gelu
geqrf = Tensor.geqrf
ger = Tensor.ger
get_device = Tensor.get_device
glorot_uniform = Tensor.glorot_uniform
glu = Tensor.glu
greater = Tensor.greater
greater_equal = Tensor.greater_equal
grid_sample = Tensor.grid_sample
group_norm = Tensor.group_norm
def gt(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
gumbel_softmax = Tensor.gumbel_softmax
hardshrink = Tensor.hardshrink
hardsigmoid = Tensor.hardsigmoid
hardswish = Tensor.hardswish
hardtanh = Tensor.hardtanh
hardtanh_ = Tensor.hardtanh_
hash = Tensor.hash
def heaviside(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
def hermite_polynomial_h(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
def hermite_polynomial_he(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
hinge_embedding_loss = Tensor.hinge_embedding_loss
histc = Tensor.histc
histogram = Tensor.histogram
histogramdd = Tensor.histogramdd
hsplit = Tensor.hsplit
hstack = Tensor.hstack
huber_loss = Tensor.huber_loss
def hypot(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
i0 = Tensor.i0
i0_ = Tensor.i0_
i0e = Tensor.i0e
i1 = Tensor.i1
i1e = Tensor.i1e
def igamma(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
def igammac(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
im2col = Tensor.im2col
image_conv2d = Tensor.image_conv2d
image_dot = Tensor.image_dot
index_add = Tensor.index_add
index_copy = Tensor.index_copy
index_fill = Tensor.index_fill
index_put = Tensor.index_put
index_put_ = Tensor.index_put_
index_reduce = Tensor.index_reduce
index_select = Tensor.index_select
inner = Tensor.inner
instance_norm = Tensor.instance_norm
interpolate = Tensor.interpolate
invalids = Tensor.invalids
inverse = Tensor.inverse
is_complex = Tensor.is_complex
is_conj = Tensor.is_conj
is_contiguous = Tensor.is_contiguous
is_floating_point = Tensor.is_floating_point
is_inference = Tensor.is_inference
is_neg = Tensor.is_neg
is_nonzero = Tensor.is_nonzero
is_same_size = Tensor.is_same_size
is_signed = Tensor.is_signed
isclose = Tensor.isclose
isfinite = Tensor.isfinite
def isin(elements: 'Any', test_elements: 'Any', *, assume_unique: 'bool' = False, invert: 'bool' = False) -> 'Tensor': ...
isinf = Tensor.isinf
isnan = Tensor.isnan
isneginf = Tensor.isneginf
isposinf = Tensor.isposinf
isreal = Tensor.isreal
kaiming_normal = Tensor.kaiming_normal
kaiming_uniform = Tensor.kaiming_uniform
keccak = Tensor.keccak
kl_div = Tensor.kl_div
kron = Tensor.kron
kthvalue = Tensor.kthvalue
l1_loss = Tensor.l1_loss
def laguerre_polynomial_l(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
layer_norm = Tensor.layer_norm
layernorm = Tensor.layernorm
def lcm(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
lcm_ = Tensor.lcm_
def ldexp(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
ldexp_ = Tensor.ldexp_
def le(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
leaky_relu = Tensor.leaky_relu
leaky_relu_ = Tensor.leaky_relu_
def legendre_polynomial_p(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
lerp = Tensor.lerp
less = Tensor.less
less_equal = Tensor.less_equal
lgamma = Tensor.lgamma
linear_with_vars = Tensor.linear_with_vars
linspace = Tensor.linspace
from tensord.linalg import lobpcg as lobpcg
local_response_norm = Tensor.local_response_norm
log = Tensor.log
log10 = Tensor.log10
log10_ = Tensor.log10_
log1p = Tensor.log1p
log1p_ = Tensor.log1p_
log2 = Tensor.log2
log2_ = Tensor.log2_
log_ = Tensor.log_
log_ndtr = Tensor.log_ndtr
log_sigmoid = Tensor.log_sigmoid
log_softmax = Tensor.log_softmax
def logaddexp(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
def logaddexp2(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
logcumsumexp = Tensor.logcumsumexp
def logdet(input: 'Tensor') -> 'Tensor': ...
def logical_and(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
logical_not = Tensor.logical_not
def logical_or(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
def logical_xor(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
logit = Tensor.logit
logit_ = Tensor.logit_
logsigmoid = Tensor.logsigmoid
logspace = Tensor.logspace
logsumexp = Tensor.logsumexp
lp_pool2d = Tensor.lp_pool2d
lshift = Tensor.lshift
def lt(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
def lu(A: 'Tensor', pivot: 'bool' = True, get_infos: 'bool' = False) -> 'tuple[Tensor, ...]': ...
def lu_solve(b: 'Tensor', LU_data: 'Tensor', LU_pivots: 'Tensor') -> 'Tensor': ...
def lu_unpack(LU_data: 'Tensor', LU_pivots: 'Tensor', unpack_data: 'bool' = True, unpack_pivots: 'bool' = True) -> 'return_types.lu_unpack': ...
manual_seed = Tensor.manual_seed
margin_ranking_loss = Tensor.margin_ranking_loss
masked_fill = Tensor.masked_fill
masked_scatter = Tensor.masked_scatter
masked_select = Tensor.masked_select
matmul = Tensor.matmul
matrix_exp = Tensor.matrix_exp
matrix_power = Tensor.matrix_power
max = Tensor.max
max_numel = Tensor.max_numel
max_unpool2d = Tensor.max_unpool2d
def maximum(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
mean = Tensor.mean
median = Tensor.median
meshgrid = Tensor.meshgrid
min = Tensor.min
def minimum(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
mish = Tensor.mish
mm = Tensor.mm
mod = Tensor.mod
mode = Tensor.mode
modified_bessel_k0 = Tensor.modified_bessel_k0
modified_bessel_k1 = Tensor.modified_bessel_k1
moveaxis = Tensor.moveaxis
movedim = Tensor.movedim
mse_loss = Tensor.mse_loss
msort = Tensor.msort
def mul(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
multi_margin_loss = Tensor.multi_margin_loss
multilabel_margin_loss = Tensor.multilabel_margin_loss
multilabel_soft_margin_loss = Tensor.multilabel_soft_margin_loss
multinomial = Tensor.multinomial
multiply = Tensor.multiply
mv = Tensor.mv
mvlgamma = Tensor.mvlgamma
nan_to_num = Tensor.nan_to_num
nan_to_num_ = Tensor.nan_to_num_
nanmean = Tensor.nanmean
nanmedian = Tensor.nanmedian
nanquantile = Tensor.nanquantile
nansum = Tensor.nansum
narrow = Tensor.narrow
narrow_copy = Tensor.narrow_copy
nbytes = Tensor.nbytes
ndtr = Tensor.ndtr
ndtri = Tensor.ndtri
def ne(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
neg = Tensor.neg
neg_ = Tensor.neg_
negative = Tensor.negative
negative_ = Tensor.negative_
nelement = Tensor.nelement
new_empty = Tensor.new_empty
new_ones = Tensor.new_ones
new_tensor = Tensor.new_tensor
new_zeros = Tensor.new_zeros
newton_schulz = Tensor.newton_schulz
def nextafter(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
nll_loss = Tensor.nll_loss
nonzero = Tensor.nonzero
nonzero_static = Tensor.nonzero_static
norm = Tensor.norm
normal = Tensor.normal
normalize = Tensor.normalize
not_equal = Tensor.not_equal
numel = Tensor.numel
one_hot = Tensor.one_hot
ones = Tensor.ones
ones_like = Tensor.ones_like
from tensord.linalg import householder_product as orgqr
ormqr = Tensor.ormqr
outer = Tensor.outer
pad = Tensor.pad
pad_to = Tensor.pad_to
pairwise_distance = Tensor.pairwise_distance
from tensord.linalg import pca_lowrank as pca_lowrank
pdist = Tensor.pdist
permute = Tensor.permute
pin_memory = Tensor.pin_memory
pinverse = Tensor.pinverse
pixel_shuffle = Tensor.pixel_shuffle
pixel_unshuffle = Tensor.pixel_unshuffle
poisson = Tensor.poisson
poisson_nll_loss = Tensor.poisson_nll_loss
def polygamma(n: 'int', input: 'Tensor') -> 'Tensor': ...
positive = Tensor.positive
def pow(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
prelu = Tensor.prelu
prod = Tensor.prod
put = Tensor.put
qr = Tensor.qr
quantile = Tensor.quantile
quick_gelu = Tensor.quick_gelu
rad2deg = Tensor.rad2deg
rad2deg_ = Tensor.rad2deg_
rand = Tensor.rand
rand_like = Tensor.rand_like
randint = Tensor.randint
randint_like = Tensor.randint_like
randn = Tensor.randn
randn_like = Tensor.randn_like
random_bits = Tensor.random_bits
randperm = Tensor.randperm
ravel = Tensor.ravel
def real(input: 'Tensor') -> 'Tensor': ...
rearrange = Tensor.rearrange
reciprocal = Tensor.reciprocal
reciprocal_ = Tensor.reciprocal_
relu = Tensor.relu
relu6 = Tensor.relu6
relu_ = Tensor.relu_
def remainder(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
renorm = Tensor.renorm
repeat = Tensor.repeat
repeat_interleave = Tensor.repeat_interleave
replace = Tensor.replace
reshape = Tensor.reshape
resize_as_ = Tensor.resize_as_
resolve_conj = Tensor.resolve_conj
resolve_neg = Tensor.resolve_neg
rms_norm = Tensor.rms_norm
roll = Tensor.roll
rot90 = Tensor.rot90
round = Tensor.round
round_ = Tensor.round_
row_stack = Tensor.row_stack
rrelu = Tensor.rrelu
rrelu_ = Tensor.rrelu_
rshift = Tensor.rshift
rsqrt = Tensor.rsqrt
rsqrt_ = Tensor.rsqrt_
def rsub(input: 'Tensor', other: 'Any', *, alpha: 'Any' = 1) -> 'Tensor': ...
scaled_modified_bessel_k0 = Tensor.scaled_modified_bessel_k0
scaled_modified_bessel_k1 = Tensor.scaled_modified_bessel_k1
scaled_uniform = Tensor.scaled_uniform
scatter = Tensor.scatter
scatter_add = Tensor.scatter_add
scatter_reduce = Tensor.scatter_reduce
schedule_linear = Tensor.schedule_linear
searchsorted = Tensor.searchsorted
select = Tensor.select
select_scatter = Tensor.select_scatter
selu = Tensor.selu
selu_ = Tensor.selu_
sequential = Tensor.sequential
sgn = Tensor.sgn
shard = Tensor.shard
shard_like = Tensor.shard_like
def shifted_chebyshev_polynomial_t(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
def shifted_chebyshev_polynomial_u(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
def shifted_chebyshev_polynomial_v(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
def shifted_chebyshev_polynomial_w(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
shrink = Tensor.shrink
shrink_to = Tensor.shrink_to
sigmoid = Tensor.sigmoid
sigmoid_ = Tensor.sigmoid_
sign = Tensor.sign
signbit = Tensor.signbit
silu = Tensor.silu
sin = Tensor.sin
sin_ = Tensor.sin_
sinc = Tensor.sinc
sinc_ = Tensor.sinc_
sinh = Tensor.sinh
sinh_ = Tensor.sinh_
slice_scatter = Tensor.slice_scatter
slogdet = Tensor.slogdet
smooth_l1_loss = Tensor.smooth_l1_loss
soft_margin_loss = Tensor.soft_margin_loss
softmax = Tensor.softmax
softmin = Tensor.softmin
softplus = Tensor.softplus
softshrink = Tensor.softshrink
softsign = Tensor.softsign
sort = Tensor.sort
sparse_categorical_crossentropy = Tensor.sparse_categorical_crossentropy
spherical_bessel_j0 = Tensor.spherical_bessel_j0
split = Tensor.split
split_with_sizes = Tensor.split_with_sizes
sqrt = Tensor.sqrt
sqrt_ = Tensor.sqrt_
square = Tensor.square
square_ = Tensor.square_
squeeze = Tensor.squeeze
stack = Tensor.stack
std = Tensor.std
std_mean = Tensor.std_mean
storage_offset = Tensor.storage_offset
def sub(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
subtract = Tensor.subtract
sum = Tensor.sum
sum_to_size = Tensor.sum_to_size
svd = Tensor.svd
from tensord.linalg import svd_lowrank as svd_lowrank
swapaxes = Tensor.swapaxes
swapdims = Tensor.swapdims
swish = Tensor.swish
t = Tensor.t
take = Tensor.take
take_along_dim = Tensor.take_along_dim
tan = Tensor.tan
tan_ = Tensor.tan_
tanh = Tensor.tanh
tanh_ = Tensor.tanh_
tanhshrink = Tensor.tanhshrink
tensor_split = Tensor.tensor_split
tensordot = Tensor.tensordot
threefry = Tensor.threefry
threshold = Tensor.threshold
threshold_ = Tensor.threshold_
tile = Tensor.tile
topk = Tensor.topk
transpose = Tensor.transpose
trapezoid = Tensor.trapezoid
trapz = Tensor.trapz
def triangular_solve(b: 'Tensor', A: 'Tensor', upper: 'bool' = True, transpose: 'bool' = False, unitriangular: 'bool' = False) -> 'return_types.triangular_solve': ...
tril = Tensor.tril
tril_indices = Tensor.tril_indices
triplet_margin_loss = Tensor.triplet_margin_loss
triu = Tensor.triu
triu_indices = Tensor.triu_indices
def true_divide(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
trunc = Tensor.trunc
trunc_ = Tensor.trunc_
ufix = Tensor.ufix
unbind = Tensor.unbind
unflatten = Tensor.unflatten
unfold = Tensor.unfold
uniform = Tensor.uniform
unique = Tensor.unique
unique_consecutive = Tensor.unique_consecutive
def unravel_index(indices: 'Tensor', shape: 'Any') -> 'tuple[Tensor, ...]': ...
unsqueeze = Tensor.unsqueeze
uprod = Tensor.uprod
usum = Tensor.usum
vander = Tensor.vander
var = Tensor.var
var_mean = Tensor.var_mean
vdot = Tensor.vdot
vecdot = Tensor.vecdot
view_as = Tensor.view_as
vsplit = Tensor.vsplit
vstack = Tensor.vstack
where = Tensor.where
def xlog1py(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
def xlogy(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
xlogy_ = Tensor.xlogy_
zero_ = Tensor.zero_
zeros = Tensor.zeros
zeros_like = Tensor.zeros_like
def zeta(input: Any, other: Any, *arguments: Any, **keywords: Any) -> Tensor: ...
