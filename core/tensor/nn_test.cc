#include "core/tensor/nn.h"

#include <cmath>
#include <limits>

#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/loss.h"
#include "core/tensor/testing.h"

namespace tensord {
namespace {

using Values = std::vector<double>;
using Sizes = std::vector<int64_t>;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(MatMul, OfAllRanks) {
  const struct {
    Sizes a, b, result;
  } cases[] = {
      {{3}, {3}, {}},
      {{2, 3}, {3}, {2}},
      {{3}, {3, 4}, {4}},
      {{2, 3}, {3, 4}, {2, 4}},
      {{5, 2, 3}, {3, 4}, {5, 2, 4}},
      {{2, 3}, {5, 3, 4}, {5, 2, 4}},
      {{5, 2, 3}, {3}, {5, 2}},
      {{3}, {5, 3, 4}, {5, 4}},
      {{6, 1, 2, 3}, {5, 3, 4}, {6, 5, 2, 4}},
      {{2, 0}, {0, 4}, {2, 4}},
      {{0, 3}, {3, 4}, {0, 4}},
      {{1, 1}, {1, 1}, {1, 1}},
  };
  for (const auto& c : cases) {
    Bench bench;
    const HostTensor a = Noise(DType::kFloat64, c.a, -2, 2, 1),
                     b = Noise(DType::kFloat64, c.b, -2, 2, 2);
    const Expr y = MatMul(bench.Input(a), bench.Input(b));
    EXPECT_EQ(ShapeOf(y), c.result);
    // Row-major over [batch, m, n] with batches that broadcast.
    const int64_t k = c.a.back(), n = c.b.size() == 1 ? 1 : c.b.back();
    const int64_t m = c.a.size() == 1 ? 1 : c.a[c.a.size() - 2];
    const int64_t a_batch = m * k == 0 ? 1 : NumElements(c.a) / (m * k);
    const int64_t b_batch = k * n == 0 ? 1 : NumElements(c.b) / (k * n);
    const int64_t batch = c.a.size() == 4 ? a_batch * b_batch : std::max(a_batch, b_batch);
    Values expected;
    for (int64_t p = 0; p < batch; ++p) {
      const int64_t pa = c.a.size() == 4 ? p / b_batch : a_batch == 1 ? 0 : p;
      const int64_t pb = c.a.size() == 4 ? p % b_batch : b_batch == 1 ? 0 : p;
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          double sum = 0;
          for (int64_t q = 0; q < k; ++q) {
            sum += a.values[(pa * m + i) * k + q].f * b.values[(pb * k + q) * n + j].f;
          }
          expected.push_back(sum);
        }
      }
    }
    ExpectNear(bench.Values(y), expected, 1e-12);
  }
}

TEST(MatMul, AccumulatesHalfInFloat32) {
  Bench bench;
  const Expr ones = Ones(bench.graph(), {1, 4096}, DType::kFloat16);
  const Expr y = MatMul(ones, Transpose(ones, 0, 1));
  EXPECT_EQ(y.dtype(), DType::kFloat16);
  EXPECT_EQ(bench.Values(y)[0], 4096);
  const Expr n = bench.Input(DType::kInt8, {1, 2}, {100, 100});
  EXPECT_EQ(MatMul(n, Transpose(n, 0, 1)).dtype(), DType::kInt8);
}

TEST(MatMul, IsOneSumOverOneProductOfViews) {
  Bench bench;
  const Expr y = MatMul(bench.Counting({2, 3}), bench.Counting({3, 4}));
  ASSERT_EQ(y.node()->op, Op::kReshape);
  const Node* reduce = y.node()->src[0];
  ASSERT_EQ(reduce->op, Op::kReduce);
  const Node* product = reduce->src[0];
  ASSERT_EQ(product->op, Op::kMul);
  for (const Node* side : product->src) EXPECT_EQ(side->op, Op::kExpand);
}

TEST(Linear, HasTheWeightAsOutByIn) {
  Bench bench;
  const Expr x = bench.Input(DType::kFloat32, {1, 2}, {1, 2});
  const Expr w = bench.Input(DType::kFloat32, {3, 2}, {1, 0, 0, 1, 1, 1});
  const Expr b = bench.Input(DType::kFloat32, {3}, {0, 10, 20});
  EXPECT_EQ(bench.Values(Linear(x, w, b)), (Values{1, 12, 23}));
}

struct Conv2Case {
  int64_t batch, in, out, groups, height, width, kh, kw;
  std::vector<int64_t> stride, dilation;
  std::vector<PadAmount> padding;
};

const Conv2Case kConvs[] = {
    {1, 1, 1, 1, 3, 3, 2, 2, {}, {}, {}},
    {2, 3, 4, 1, 5, 6, 3, 2, {}, {}, {}},
    {2, 4, 6, 2, 5, 5, 3, 3, {1}, {1}, {{1, 1}}},
    {1, 3, 3, 3, 6, 6, 3, 3, {2}, {1}, {{1, 1}}},
    {1, 2, 2, 1, 7, 8, 3, 2, {2, 1}, {2, 1}, {{0, 2}, {3, 1}}},
    {1, 2, 2, 1, 7, 7, 3, 3, {3}, {2}, {}},
    {1, 2, 3, 1, 4, 4, 1, 1, {2}, {}, {{1, 0}}},
    {1, 1, 1, 1, 6, 6, 3, 3, {}, {}, {{-1, 0}, {0, -1}}},
    {1, 2, 1, 1, 6, 6, 2, 2, {2}, {}, {}},
};

int64_t Pick(const std::vector<int64_t>& values, size_t i) {
  return values.empty() ? 1 : values[std::min(i, values.size() - 1)];
}
PadAmount Pick(const std::vector<PadAmount>& values, size_t i) {
  return values.empty() ? PadAmount{} : values[std::min(i, values.size() - 1)];
}

TEST(Conv, AgreesWithLoops) {
  for (const Conv2Case& c : kConvs) {
    Bench bench;
    const int64_t cin = c.in / c.groups, cout = c.out / c.groups;
    const HostTensor x = Noise(DType::kFloat64, {c.batch, c.in, c.height, c.width}, -2, 2, 3);
    const HostTensor w = Noise(DType::kFloat64, {c.out, cin, c.kh, c.kw}, -2, 2, 4);
    const HostTensor bias = Noise(DType::kFloat64, {c.out}, -2, 2, 5);
    const Expr y = Conv(bench.Input(x), bench.Input(w), bench.Input(bias),
                        {c.stride, c.dilation, c.padding, c.groups});
    const PadAmount ph = Pick(c.padding, 0), pw = Pick(c.padding, 1);
    const int64_t sh = Pick(c.stride, 0), sw = Pick(c.stride, 1);
    const int64_t dh = Pick(c.dilation, 0), dw = Pick(c.dilation, 1);
    const int64_t oh = (c.height + ph.before + ph.after - (c.kh - 1) * dh - 1) / sh + 1;
    const int64_t ow = (c.width + pw.before + pw.after - (c.kw - 1) * dw - 1) / sw + 1;
    EXPECT_EQ(ShapeOf(y), (Sizes{c.batch, c.out, oh, ow}));
    Values expected;
    for (int64_t b = 0; b < c.batch; ++b) {
      for (int64_t o = 0; o < c.out; ++o) {
        for (int64_t i = 0; i < oh; ++i) {
          for (int64_t j = 0; j < ow; ++j) {
            double sum = bias.values[o].f;
            for (int64_t q = 0; q < cin; ++q) {
              for (int64_t u = 0; u < c.kh; ++u) {
                for (int64_t v = 0; v < c.kw; ++v) {
                  const int64_t row = i * sh + u * dh - ph.before,
                                col = j * sw + v * dw - pw.before;
                  if (row < 0 || row >= c.height || col < 0 || col >= c.width) continue;
                  const int64_t channel = o / cout * cin + q;
                  sum += x.values[((b * c.in + channel) * c.height + row) * c.width + col].f *
                         w.values[((o * cin + q) * c.kh + u) * c.kw + v].f;
                }
              }
            }
            expected.push_back(sum);
          }
        }
      }
    }
    ExpectNear(bench.Values(y), expected, 1e-12);
  }
}

TEST(Conv, InOneAndThreeDimensions) {
  Bench bench;
  const Expr x = bench.Counting({1, 1, 4}), w = Ones(bench.graph(), {1, 1, 2}, DType::kFloat32);
  EXPECT_EQ(bench.Values(Conv(x, w)), (Values{1, 3, 5}));
  const Expr x3 = bench.Counting({1, 1, 2, 2, 3}),
             w3 = Ones(bench.graph(), {1, 1, 2, 2, 2}, DType::kFloat32);
  EXPECT_EQ(bench.Values(Conv(x3, w3)), (Values{40, 48}));
}

TEST(ConvTranspose, IsTheAdjointOfConv) {
  // <conv(x), y> = <x, conv_transpose(y)>.
  for (const Conv2Case& c : kConvs) {
    Bench bench;
    const Expr x =
        bench.Input(Noise(DType::kFloat64, {c.batch, c.in, c.height, c.width}, -2, 2, 3));
    const Expr w =
        bench.Input(Noise(DType::kFloat64, {c.out, c.in / c.groups, c.kh, c.kw}, -2, 2, 4));
    const ConvOptions options = {c.stride, c.dilation, c.padding, c.groups};
    const Expr forward = Conv(x, w, std::nullopt, options);
    const Expr y = bench.Input(Noise(DType::kFloat64, ShapeOf(forward), -2, 2, 6));
    // What a stride leaves over at the end is output padding.
    Sizes extra;
    for (size_t i = 0; i < 2; ++i) {
      const PadAmount pad = Pick(c.padding, i);
      const int64_t size = i == 0 ? c.height : c.width, taps = i == 0 ? c.kh : c.kw;
      extra.push_back((size + pad.before + pad.after - (taps - 1) * Pick(c.dilation, i) - 1) %
                      Pick(c.stride, i));
    }
    const Expr back = ConvTranspose(y, w, std::nullopt, options, extra);
    EXPECT_EQ(ShapeOf(back), ShapeOf(x));
    ExpectNear(bench.Values(Sum(forward * y)), bench.Values(Sum(x * back)), 1e-11);
  }
}

TEST(Pool, MaxAndAverage) {
  Bench bench;
  const Expr x = bench.Counting({1, 1, 4, 4});
  const int64_t two[] = {2, 2}, one[] = {1}, three[] = {3, 3};
  EXPECT_EQ(bench.Values(MaxPool(x, {.kernel = two})), (Values{5, 7, 13, 15}));
  EXPECT_EQ(bench.Values(AvgPool(x, {.kernel = two})), (Values{2.5, 4.5, 10.5, 12.5}));
  EXPECT_EQ(ShapeOf(MaxPool(x, {.kernel = three, .stride = one})), (Sizes{1, 1, 2, 2}));
  const PadAmount pad[] = {{1, 1}};
  EXPECT_EQ(bench.Values(MaxPool(x - 20, {.kernel = three, .stride = three, .padding = pad})),
            (Values{-15, -13, -7, -5}));
  // Corner windows hold 4 of 9 elements.
  ExpectNear(bench.Values(AvgPool(x, {.kernel = three, .stride = three, .padding = pad})),
             {10.0 / 9, 18.0 / 9, 42.0 / 9, 50.0 / 9}, 1e-6);
  ExpectNear(
      bench.Values(AvgPool(
          x, {.kernel = three, .stride = three, .padding = pad, .count_include_pad = false})),
      {2.5, 4.5, 10.5, 12.5}, 1e-6);
}

TEST(Pool, CeilModeAddsTheWindowThatRunsOver) {
  Bench bench;
  const int64_t kernel[] = {2}, stride[] = {2}, wide[] = {4};
  const Expr x = bench.Counting({1, 5});
  EXPECT_EQ(bench.Values(MaxPool(x, {.kernel = kernel, .stride = stride, .ceil_mode = true})),
            (Values{1, 3, 4}));
  EXPECT_EQ(bench.Values(AvgPool(x, {.kernel = kernel, .stride = stride, .ceil_mode = true})),
            (Values{0.5, 2.5, 4}));
  // It does not count if it starts in the padding on the right.
  const PadAmount pad[] = {{0, 1}};
  EXPECT_EQ(ShapeOf(MaxPool(bench.Counting({1, 4}),
                            {.kernel = kernel, .stride = wide, .padding = pad, .ceil_mode = true})),
            (Sizes{1, 1}));
  const Expr n = bench.Input(DType::kInt8, {1, 3}, {-5, -7, -128});
  EXPECT_EQ(bench.Values(MaxPool(n, {.kernel = kernel, .stride = stride, .ceil_mode = true})),
            (Values{-5, -128}));
  // Nor need the first window fit, if it lacks less than a stride.
  const int64_t large[] = {7}, short_stride[] = {1};
  EXPECT_EQ(bench.Values(MaxPool(x, {.kernel = large, .stride = wide, .ceil_mode = true})),
            (Values{4}));
  EXPECT_EQ(bench.Values(AvgPool(x, {.kernel = large, .stride = wide, .ceil_mode = true})),
            (Values{2}));
  EXPECT_NE(ErrorOf(MaxPool(x, {.kernel = large, .stride = short_stride, .ceil_mode = true})), "");
  EXPECT_NE(ErrorOf(MaxPool(x, {.kernel = large, .stride = wide})), "");
}

TEST(Norm, OfBatches) {
  Bench bench;
  const Expr x = bench.Input(DType::kFloat64, {2, 2, 2}, {1, 3, 10, 20, 5, 7, 30, 40});
  const Expr w = bench.Input(DType::kFloat64, {2}, {2, 1}),
             b = bench.Input(DType::kFloat64, {2}, {0, 5});
  const BatchNormResult r = BatchNormTrain(x, w, b, 0);
  ExpectNear(bench.Values(r.mean), {4, 25}, 1e-12);
  ExpectNear(bench.Values(r.unbiased_var), {20.0 / 3, 500.0 / 3}, 1e-12);
  const double s = 2 / std::sqrt(5.0), t = 1 / std::sqrt(125.0);
  const Values expected = {-3 * s, -s, 5 - 15 * t, 5 - 5 * t, s, 3 * s, 5 + 5 * t, 5 + 15 * t};
  ExpectNear(bench.Values(r.y), expected, 1e-12);
  const Expr var = r.unbiased_var * 0.75;
  ExpectNear(bench.Values(BatchNorm(x, r.mean, var, w, b, 0)), expected, 1e-12);
}

TEST(Norm, OfLayersGroupsAndRootMeanSquares) {
  Bench bench;
  const HostTensor data = Noise(DType::kFloat64, {2, 4, 3});
  const Expr x = bench.Input(data);
  const Expr layer = LayerNorm(x, 2), group = GroupNorm(x, 2), rms = RmsNorm(x);
  ExpectNear(bench.Values(Mean(layer, {1, 2})), {0, 0}, 1e-12);
  ExpectNear(bench.Values(Var(layer, {1, 2}, 0)), {1, 1}, 1e-4);
  ExpectNear(bench.Values(Var(Reshape(group, {4, 6}), 1, 0)), {1, 1, 1, 1}, 1e-4);
  ExpectNear(bench.Values(Mean(rms * rms, 2)), Values(8, 1), 1e-4);
  const Expr half = Cast(x, DType::kFloat16);
  EXPECT_EQ(LayerNorm(half, 1).dtype(), DType::kFloat16);
  EXPECT_EQ(BatchNormTrain(half, std::nullopt, std::nullopt).mean.dtype(), DType::kFloat32);
}

Values AttentionByLoops(const HostTensor& q, const HostTensor& k, const HostTensor& v,
                        int64_t heads, int64_t group, bool causal) {
  const int64_t nq = q.shape[2], nk = k.shape[2], d = q.shape[3];
  Values result;
  for (int64_t h = 0; h < heads; ++h) {
    const int64_t kv = h / group;
    for (int64_t i = 0; i < nq; ++i) {
      Values weights(nk, 0);
      double total = 0;
      for (int64_t j = 0; j < nk; ++j) {
        if (causal && j > i) continue;
        double score = 0;
        for (int64_t p = 0; p < d; ++p) {
          score += q.values[(h * nq + i) * d + p].f * k.values[(kv * nk + j) * d + p].f;
        }
        total += weights[j] = std::exp(score / std::sqrt(static_cast<double>(d)));
      }
      for (int64_t p = 0; p < d; ++p) {
        double sum = 0;
        for (int64_t j = 0; j < nk; ++j)
          sum += weights[j] / total * v.values[(kv * nk + j) * d + p].f;
        result.push_back(sum);
      }
    }
  }
  return result;
}

TEST(Attention, AgreesWithLoops) {
  for (int64_t group : {1, 2}) {
    for (bool causal : {false, true}) {
      Bench bench;
      const HostTensor q = Noise(DType::kFloat64, {1, 4, 3, 2}, -2, 2, 1);
      const HostTensor k = Noise(DType::kFloat64, {1, 4 / group, 5, 2}, -2, 2, 2);
      const HostTensor v = Noise(DType::kFloat64, {1, 4 / group, 5, 2}, -2, 2, 3);
      const Expr y = ScaledDotProductAttention(bench.Input(q), bench.Input(k), bench.Input(v),
                                               {.is_causal = causal, .grouped_heads = group > 1});
      EXPECT_EQ(ShapeOf(y), (Sizes{1, 4, 3, 2}));
      ExpectNear(bench.Values(y), AttentionByLoops(q, k, v, 4, group, causal), 1e-12);
      const Expr keep = Tril(Ones(bench.graph(), {3, 5}, DType::kBool));
      const Expr masked = ScaledDotProductAttention(
          bench.Input(q), bench.Input(k), bench.Input(v),
          {.mask =
               causal ? keep : Where(keep, Zeros(bench.graph(), {3, 5}, DType::kFloat64), -kInf),
           .grouped_heads = group > 1});
      ExpectNear(bench.Values(masked), AttentionByLoops(q, k, v, 4, group, true), 1e-12);
    }
  }
}

TEST(Attention, WithEverythingMaskedIsNan) {
  Bench bench;
  const Expr x = Ones(bench.graph(), {1, 2}, DType::kFloat32);
  const Expr none = Zeros(bench.graph(), {1, 1}, DType::kBool);
  ExpectNear(bench.Values(ScaledDotProductAttention(x, x, x, {.mask = none})), {kNan, kNan}, 0);
}

TEST(Dropout, KeepsAndScales) {
  Bench bench;
  const Expr x = bench.Input(DType::kFloat32, {4}, {1, 2, 3, kInf});
  const Expr random = bench.Input(DType::kFloat32, {4}, {0.1, 0.5, 0.9, 0});
  EXPECT_EQ(bench.Values(Dropout(x, random, 0.5)), (Values{0, 4, 6, 0}));
  EXPECT_EQ(bench.Values(Dropout(x, random, 1)), (Values{0, 0, 0, 0}));
}

TEST(Loss, OfLabels) {
  Bench bench;
  const HostTensor data = Noise(DType::kFloat64, {3, 4});
  const Expr x = bench.Input(data);
  const Expr labels = bench.Input(DType::kInt64, {3}, {2, 0, 3});
  const Expr weight = bench.Input(DType::kFloat64, {4}, {1, 2, 3, 4});
  Values logs;
  for (int i = 0; i < 3; ++i) {
    double sum = 0;
    for (int j = 0; j < 4; ++j) sum += std::exp(data.values[i * 4 + j].f);
    for (int j = 0; j < 4; ++j) logs.push_back(data.values[i * 4 + j].f - std::log(sum));
  }
  const Values nll = {-logs[2], -logs[4], -logs[11]};
  const auto all = [&](int i) {
    return -(logs[4 * i] + logs[4 * i + 1] + logs[4 * i + 2] + logs[4 * i + 3]);
  };
  ExpectNear(bench.Values(CrossEntropy(x, labels, {.reduction = Reduction::kNone})), nll, 1e-12);
  ExpectNear(bench.Values(CrossEntropy(x, labels)), {(nll[0] + nll[1] + nll[2]) / 3}, 1e-12);
  ExpectNear(
      bench.Values(
          CrossEntropy(x, labels, {.label_smoothing = 0.3, .reduction = Reduction::kNone})),
      {0.7 * nll[0] + 0.075 * all(0), 0.7 * nll[1] + 0.075 * all(1), 0.7 * nll[2] + 0.075 * all(2)},
      1e-12);
  ExpectNear(bench.Values(CrossEntropy(x, labels, {.weight = weight})),
             {(3 * nll[0] + nll[1] + 4 * nll[2]) / 8}, 1e-12);
  ExpectNear(bench.Values(CrossEntropy(x, labels, {.ignore_index = 0})), {(nll[0] + nll[2]) / 2},
             1e-12);
  ExpectNear(bench.Values(NllLoss(LogSoftmax(x, 1), labels, {.reduction = Reduction::kSum})),
             {nll[0] + nll[1] + nll[2]}, 1e-12);
  // Probabilities that say the same, and a class axis with others behind it.
  const Expr one_hot = bench.Input(DType::kFloat64, {3, 4}, {0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 1});
  ExpectNear(bench.Values(CrossEntropy(x, one_hot, {.label_smoothing = 0.3})),
             bench.Values(CrossEntropy(x, labels, {.label_smoothing = 0.3})), 1e-12);
  const Expr deep = Permute(Reshape(x, {1, 3, 4}), {0, 2, 1});
  ExpectNear(bench.Values(CrossEntropy(deep, Reshape(labels, {1, 3}))),
             bench.Values(CrossEntropy(x, labels)), 1e-12);
}

TEST(Loss, OfPairs) {
  Bench bench;
  const Expr x = bench.Input(DType::kFloat64, {3}, {0.2, 0.5, 0.9}),
             y = bench.Input(DType::kFloat64, {3}, {0, 1, 1});
  ExpectNear(bench.Values(MseLoss(x, y)), {(0.04 + 0.25 + 0.01) / 3}, 1e-12);
  ExpectNear(bench.Values(L1Loss(x, y, Reduction::kSum)), {0.8}, 1e-12);
  const Values expected = {-std::log(0.8), -std::log(0.5), -std::log(0.9)};
  ExpectNear(bench.Values(BinaryCrossEntropy(x, y, Reduction::kNone)), expected, 1e-12);
  const Expr logits = Log(x / (1 - x));
  ExpectNear(bench.Values(BinaryCrossEntropyWithLogits(logits, y, std::nullopt, Reduction::kNone)),
             expected, 1e-12);
  const Expr w = bench.Input(DType::kFloat64, {1}, {3});
  ExpectNear(bench.Values(BinaryCrossEntropyWithLogits(logits, y, w, Reduction::kNone)),
             {expected[0], 3 * expected[1], 3 * expected[2]}, 1e-12);
}

}  // namespace
}  // namespace tensord
