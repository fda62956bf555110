// What users read when shapes or dtypes do not fit: the messages are part of the interface.
#include "core/tensor/activation.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/index.h"
#include "core/tensor/loss.h"
#include "core/tensor/movement.h"
#include "core/tensor/nn.h"
#include "core/tensor/reduce.h"
#include "core/tensor/scan.h"
#include "core/tensor/testing.h"

namespace tensord {
namespace {

TEST(Error, NamesTheThingAndTheRule) {
  Bench bench;
  Graph& graph = bench.graph();
  const Expr m = bench.Counting({2, 3}), v = bench.Counting({4}),
             n = bench.Counting({2, 3}, DType::kInt32);
  const Expr image = bench.Counting({1, 3, 8, 8}), weight = bench.Counting({4, 3, 3, 3});
  const Expr one = Constant(graph, 1, DType::kFloat32), mask = Zeros(graph, {2, 3}, DType::kBool);
  const int64_t kernel[] = {2, 2}, three[] = {1, 1, 1};
  const int64_t big[] = {9};
  const std::pair<Expr, const char*> cases[] = {
      {m + v,
       "add: shapes [2, 3] and [4] do not broadcast: aligned from the last axis, sizes must be "
       "equal or 1"},
      {BitwiseAnd(m, n), "bitwise_and: operands are float32 and int32; it needs integers or bool"},
      {ShiftLeft(n, 1.0), "shift_left: operands are int32 and weakfloat; it needs integers"},
      {Sub(mask, mask),
       "sub: bool has no difference; use logical_xor, or cast to an integer first"},
      {Cast(n, DType::kUint8) + 300,
       "the number 300 does not fit uint8; cast the tensor to a wider dtype first"},
      {Pow(n, -1), "pow: integers to the power -1; cast to a float first"},
      {Clamp(m, std::nullopt, std::nullopt), "clamp: needs a minimum or a maximum"},
      {Where(m, m, 0),
       "where: the condition is float32, it must be bool; compare it with something"},
      {Bitcast(m, DType::kWeakInt),
       "bitcast: weakint has no storage, hence no bits; cast it first"},
      {Full(graph, {2, -1}, 0, DType::kFloat32), "size -1 in [2, -1] is negative"},
      {Arange(graph, 0, 200, 1, DType::kInt8),
       "arange: 0 to 200 in steps of 1 does not fit int8; use a wider dtype"},
      {Arange(graph, 0, 1, 0, DType::kInt8), "arange: the step is 0"},
      {Reshape(m, {4, -1}), "reshape: [2, 3] has 6 elements and does not fit [4, -1]"},
      {Reshape(m, {-1, -1}), "reshape: [-1, -1] may have one -1 and no other negative size"},
      {Expand(m, {2, 4}),
       "expand: [2, 3] does not become [2, 4]: only axes of size 1 and new axes in front repeat"},
      {Permute(m, {0, 0}), "permute: axis 0 occurs twice in [0, 0]"},
      {Permute(m, {0}), "permute: [0] names 1 axes, shape [2, 3] has 2"},
      {Transpose(m, 0, 2), "transpose: axis 2 is outside of shape [2, 3]; axes go from -2 to 1"},
      {Flip(m, {1, -1}), "flip: an axis occurs twice in [1, -1]"},
      {Pad(m, {{1, 1}}), "pad: 1 pairs for shape [2, 3]; give one per axis"},
      {Pad(m, {{-3, 0}, {0, 0}}), "pad: (-3, 0) crops more than axis 0 of [2, 3] has"},
      {SliceAxis(m, 0, {.step = 0}), "slice: the step is 0"},
      {Select(m, 1, 3), "index: 3 is outside of axis 1 of shape [2, 3]"},
      {Select(one, 0, 0), "index: axis 0 of a tensor without axes"},
      {Unsqueeze(m, 4), "unsqueeze: axis 4 is outside of [-3, 2]"},
      {Cat({m, v}, 0), "cat: [2, 3] and [4] differ in more than axis 0"},
      {Stack({m, v}, 0), "stack: shapes [2, 3] and [4] differ"},
      {Repeat(m, {2}), "repeat: 1 numbers for shape [2, 3]; give one per axis"},
      {Tril(v), "tril: shape [4] has no rows and columns"},
      {Sum(m, 2), "sum: axis 2 is outside of shape [2, 3]; axes go from -2 to 1"},
      {Sum(m, {1, -1}), "sum: an axis occurs twice in [1, -1]"},
      {MatMul(m, v), "matmul: inner sizes differ: [2, 3] @ [4]"},
      {MatMul(bench.Counting({2, 2, 3}), bench.Counting({3, 3, 3})),
       "matmul: batch axes of [2, 2, 3] @ [3, 3, 3] do not broadcast"},
      {Linear(m, v),
       "linear: input [2, 3] and weight [4]; the weight is [out, in], in the last axis of the "
       "input"},
      {Conv(image, bench.Counting({4, 2, 3, 3})),
       "conv: channels of input [1, 3, 8, 8] in 1 groups do not fit weight [4, 2, 3, 3], which is "
       "[out, in "
       "/ groups, taps..]"},
      {Conv(m, weight),
       "conv: input [2, 3] and weight [4, 3, 3, 3]: both need two axes and then the same 1 to 3 "
       "spatial axes"},
      {Conv(image, weight, std::nullopt, {.stride = three}),
       "conv: 3 numbers for 2 spatial axes; give one, or one per axis"},
      {Conv(image, weight, v * v + bench.Counting({1}) + Reshape(v, {4, 1})),
       "conv: bias [4, 4] does not fit 4 output channels"},
      {Conv(image, bench.Counting({4, 3, 9, 1})),
       "conv: 9 taps with dilation 1 do not fit the 8 elements of spatial axis 0"},
      {MaxPool(m, {.kernel = kernel, .stride = three}),
       "max_pool: 3 numbers for 2 spatial axes; give one, or one per axis"},
      {AvgPool(v, {.kernel = big}),
       "avg_pool: a window of 9 elements does not fit axis of 4 with padding"},
      {LayerNorm(m, 1, v),
       "layer_norm: weight, bias and statistics have shape [3] for input [2, 3], not [4]"},
      {GroupNorm(m, 2), "group_norm: 3 channels do not split into 2 groups"},
      {ScaledDotProductAttention(m, m, m, {.mask = mask, .is_causal = true}),
       "attention: query [2, 3], key [2, 3], value [2, 3]: give a mask or is_causal, not both"},
      {Dropout(m, m, 1.5), "dropout: probability 1.5 is outside of [0, 1]"},
      {MseLoss(m, v), "mse_loss: prediction [2, 3] and target [4] differ in shape"},
      {CrossEntropy(m, bench.Counting({3}, DType::kInt32)),
       "cross_entropy: input [2, 3] needs integer labels [2], has int32 [3]"},
      {CrossEntropy(m, v), "cross_entropy: probabilities [4] and input [2, 3] differ in shape"},
      {Index(m, {0, 0, 0}), "index: 3 indices for shape [2, 3]"},
      {Index(m, {mask}),
       "index: a tensor of bool as an index; it must hold integers; use where or masked_fill for "
       "masks"},
      {Embedding(m, m), "embedding: the index is float32, it must hold integers"},
      {GatherAlong(m, 0, n + v.shape()[0] * 0 + Zeros(graph, {2, 2, 3}, DType::kInt32)),
       "gather: index [2, 2, 3] is larger than [2, 3] or has another rank"},
  };
  for (const auto& [expr, message] : cases) EXPECT_EQ(ErrorOf(expr), message);
}

TEST(Error, TheFirstSticks) {
  Bench bench;
  const Expr bad = bench.Counting({2}) + bench.Counting({3});
  const Expr fine = bench.Counting({2});
  const int64_t kernel[] = {2};
  const Expr users[] = {
      Sum(bad),
      bad * 2.0,
      1 - bad,
      Where(Lt(bad, 0), fine, bad),
      Softmax(bad, 0),
      MatMul(fine, bad),
      Relu(bad),
      Reshape(bad, {2}),
      Cat({fine, bad}, 0),
      Pow(bad, 2.5),
      CrossEntropy(bad, fine),
      MaxPool(bad, {.kernel = kernel}),
      Index(bad, {0}),
      Gelu(bad),
      Tril(bad),
      LayerNorm(bad),
      Conv(bad, fine),
      CumSum(bad, 0),
      Clamp(bad, 0, 1),
      IsClose(fine, bad),
      Embedding(bad, fine),
      OneHot(bad, 2),
      ArgMax(bad, 0),
      Std(bad),
      Linear(fine, bad),
  };
  for (const Expr& user : users) EXPECT_EQ(user.status(), bad.status());
}

}  // namespace
}  // namespace tensord
