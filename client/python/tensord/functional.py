"""Methods of Tensor as functions, where PyTorch has both forms."""

from __future__ import annotations

from typing import Any

from _tensord import Tensor

from tensord.training import is_training

abs = Tensor.abs
acos = Tensor.acos
argmax = Tensor.argmax
argmin = Tensor.argmin
asin = Tensor.asin
atan = Tensor.atan
avg_pool2d = Tensor.avg_pool2d
binary_cross_entropy = Tensor.binary_cross_entropy
binary_cross_entropy_with_logits = Tensor.binary_cross_entropy_with_logits
cat = Tensor.cat
ceil = Tensor.ceil
chunk = Tensor.chunk
clamp = Tensor.clamp
clip = Tensor.clip
conv2d = Tensor.conv2d
cos = Tensor.cos
cosh = Tensor.cosh
cross_entropy = Tensor.cross_entropy
cumsum = Tensor.cumsum
elu = Tensor.elu
embedding = Tensor.embedding
erf = Tensor.erf
exp = Tensor.exp
exp2 = Tensor.exp2
flatten = Tensor.flatten
flip = Tensor.flip
floor = Tensor.floor
gather = Tensor.gather
gelu = Tensor.gelu
group_norm = Tensor.group_norm
isclose = Tensor.isclose
isfinite = Tensor.isfinite
isinf = Tensor.isinf
isnan = Tensor.isnan
l1_loss = Tensor.l1_loss
layer_norm = Tensor.layer_norm
leaky_relu = Tensor.leaky_relu
linear = Tensor.linear
log = Tensor.log
log10 = Tensor.log10
log1p = Tensor.log1p
log2 = Tensor.log2
log_softmax = Tensor.log_softmax
logsumexp = Tensor.logsumexp
matmul = Tensor.matmul
max_pool2d = Tensor.max_pool2d
maximum = Tensor.maximum
mean = Tensor.mean
minimum = Tensor.minimum
mse_loss = Tensor.mse_loss
nll_loss = Tensor.nll_loss
one_hot = Tensor.one_hot
permute = Tensor.permute
pow = Tensor.pow
prod = Tensor.prod
relu = Tensor.relu
relu6 = Tensor.relu6
reshape = Tensor.reshape
rms_norm = Tensor.rms_norm
round = Tensor.round
rsqrt = Tensor.rsqrt
scaled_dot_product_attention = Tensor.scaled_dot_product_attention
sigmoid = Tensor.sigmoid
sign = Tensor.sign
silu = Tensor.silu
sin = Tensor.sin
sinh = Tensor.sinh
softmax = Tensor.softmax
softplus = Tensor.softplus
split = Tensor.split
sqrt = Tensor.sqrt
square = Tensor.square
squeeze = Tensor.squeeze
stack = Tensor.stack
std = Tensor.std
sum = Tensor.sum
tan = Tensor.tan
tanh = Tensor.tanh
transpose = Tensor.transpose
tril = Tensor.tril
triu = Tensor.triu
trunc = Tensor.trunc
unsqueeze = Tensor.unsqueeze
var = Tensor.var


def where(condition: Tensor, yes: Any, no: Any) -> Tensor:
    """Elements of `yes` where the condition holds, else of `no`."""
    return condition.where(yes, no)


def dropout(x: Tensor, p: float = 0.5) -> Tensor:
    """Active inside `with tensord.training():` only."""
    return x.dropout(p, is_training())
