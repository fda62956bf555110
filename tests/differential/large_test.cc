// Sizes at which the compiler does what it does not for small ones: workgroups, blocks that stay in
// a cache, packed and padded copies of factors, contractions summed in parts. Compared with loops
// in double precision, since the reference evaluator would take minutes; and run twice, since
// results must not depend on which thread comes first.
#include <gtest/gtest.h>

#include <cmath>

#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/gradient.h"
#include "core/tensor/movement.h"
#include "core/tensor/nn.h"
#include "core/tensor/reduce.h"
#include "tests/compiler/run_program.h"

namespace tensord {
namespace {

// A dense tensor in double precision.
struct Array {
  std::vector<int64_t> shape;
  std::vector<double> values;

  explicit Array(std::vector<int64_t> dims)
      : shape(std::move(dims)), values(static_cast<size_t>(NumElements(shape))) {}
  explicit Array(const HostTensor& tensor) : shape(tensor.shape), values(tensor.AsDoubles()) {}

  template <typename... Index>
  double& operator()(Index... index) {
    size_t at = 0, axis = 0;
    ((at = at * static_cast<size_t>(shape[axis++]) + static_cast<size_t>(index)), ...);
    return values[at];
  }
};

std::vector<HostTensor> RunTwice(Bench& bench, const std::vector<Expr>& outputs) {
  static ProgramRunner& runner = *new ProgramRunner;
  std::vector<HostTensor> first;
  for (int run = 0; run < 2; ++run) {
    auto result = runner.Run(outputs, bench.inputs());
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return {};
    if (run == 0) first = std::move(result->outputs);
    for (size_t i = 0; i < outputs.size() && run == 1; ++i) {
      EXPECT_TRUE(first[i].values == result->outputs[i].values) << "output " << i << " differs";
    }
  }
  return first;
}

// At most `tolerance` of the largest value off.
void ExpectClose(const HostTensor& actual, const Array& expected, double tolerance,
                 const std::string& what) {
  ASSERT_EQ(actual.shape, expected.shape) << what;
  double largest = 0;
  for (double value : expected.values) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < expected.values.size(); ++i) {
    const double value = actual.values[i].f;
    ASSERT_LE(std::abs(value - expected.values[i]), tolerance * largest)
        << what << ": element " << i << " is " << value << " instead of " << expected.values[i];
  }
}

TEST(Large, MatMul) {
  const struct {
    int64_t m, k, n;
    bool transpose_a, transpose_b;
  } cases[] = {
      {257, 129, 300, false, false}, {300, 513, 301, false, false}, {300, 513, 301, true, false},
      {301, 512, 300, false, true},  {64, 4096, 65, false, false},  {65, 4099, 64, true, true},
      {1, 3000, 500, false, false},  {500, 3000, 1, false, false},  {1025, 3, 1024, false, false},
      {512, 512, 512, true, false},
  };
  for (const auto& c : cases) {
    const std::string what = std::to_string(c.m) + "x" + std::to_string(c.k) + "x" +
                             std::to_string(c.n) + (c.transpose_a ? " a'" : "") +
                             (c.transpose_b ? " b'" : "");
    Bench bench;
    const auto input = [&](int64_t rows, int64_t columns, bool transpose, uint64_t seed) {
      std::vector<int64_t> shape = {rows, columns};
      if (transpose) std::swap(shape[0], shape[1]);
      const Expr x = bench.Input(Noise(DType::kFloat32, shape, -1, 1, seed));
      return transpose ? Transpose(x, 0, 1) : x;
    };
    const Expr a = input(c.m, c.k, c.transpose_a, 1), b = input(c.k, c.n, c.transpose_b, 2);
    const std::vector<HostTensor> actual = RunTwice(bench, {MatMul(a, b)});
    ASSERT_EQ(actual.size(), 1u) << what;
    Array x(bench.inputs()[0]), y(bench.inputs()[1]), expected({c.m, c.n});
    for (int64_t i = 0; i < c.m; ++i) {
      for (int64_t p = 0; p < c.k; ++p) {
        const double left = c.transpose_a ? x(p, i) : x(i, p);
        for (int64_t j = 0; j < c.n; ++j) {
          expected(i, j) += left * (c.transpose_b ? y(j, p) : y(p, j));
        }
      }
    }
    ExpectClose(actual[0], expected, 1e-5, what);
  }
}

// Forward, and backward by both operands, in one program and apart.
TEST(Large, Convolution) {
  const struct {
    int64_t batch, in, out, size, taps, stride, padding;
  } cases[] = {{8, 3, 33, 28, 5, 1, 0},
               {5, 32, 17, 20, 3, 1, 1},
               {16, 7, 64, 17, 3, 2, 1},
               {40, 16, 16, 15, 3, 1, 2}};
  for (const auto& c : cases) {
    const std::string what = std::to_string(c.batch) + "," + std::to_string(c.in) + "->" +
                             std::to_string(c.out) + " " + std::to_string(c.size);
    Bench bench;
    const Expr x = bench.Input(Noise(DType::kFloat32, {c.batch, c.in, c.size, c.size}, -1, 1, 1));
    const Expr w = bench.Input(Noise(DType::kFloat32, {c.out, c.in, c.taps, c.taps}, -1, 1, 2));
    const int64_t stride[] = {c.stride};
    const PadAmount padding[] = {{c.padding, c.padding}};
    const Expr y = Conv(x, w, std::nullopt, {.stride = stride, .padding = padding});
    ASSERT_TRUE(y.ok()) << y.status();
    const Expr seed = bench.Input(Noise(DType::kFloat32, ShapeOf(y), -1, 1, 3));
    const Expr targets[] = {x, w};
    const std::vector<Expr> gradients = Gradient(y, targets, seed);

    Array in(bench.inputs()[0]), weight(bench.inputs()[1]), out_gradient(bench.inputs()[2]);
    Array expected(ShapeOf(y)), in_gradient(in.shape), weight_gradient(weight.shape);
    const int64_t places = y.shape()[2];
    for (int64_t b = 0; b < c.batch; ++b) {
      for (int64_t o = 0; o < c.out; ++o) {
        for (int64_t i = 0; i < c.in; ++i) {
          for (int64_t h = 0; h < places * places; ++h) {
            const int64_t row = h / places, column = h % places;
            for (int64_t t = 0; t < c.taps * c.taps; ++t) {
              const int64_t r = row * c.stride + t / c.taps - c.padding;
              const int64_t s = column * c.stride + t % c.taps - c.padding;
              if (r < 0 || s < 0 || r >= c.size || s >= c.size) continue;
              const int64_t u = t / c.taps, v = t % c.taps;
              expected(b, o, row, column) += in(b, i, r, s) * weight(o, i, u, v);
              in_gradient(b, i, r, s) += out_gradient(b, o, row, column) * weight(o, i, u, v);
              weight_gradient(o, i, u, v) += out_gradient(b, o, row, column) * in(b, i, r, s);
            }
          }
        }
      }
    }
    const std::vector<HostTensor> apart[] = {RunTwice(bench, {y}), RunTwice(bench, {gradients[0]}),
                                             RunTwice(bench, {gradients[1]})};
    ExpectClose(apart[0].at(0), expected, 1e-5, what + " forward");
    ExpectClose(apart[1].at(0), in_gradient, 1e-5, what + " by the input");
    ExpectClose(apart[2].at(0), weight_gradient, 1e-5, what + " by the weight");
    const std::vector<HostTensor> all = RunTwice(bench, {y, gradients[0], gradients[1]});
    ExpectClose(all.at(0), expected, 1e-5, what + " forward in one");
    ExpectClose(all.at(1), in_gradient, 1e-5, what + " by the input in one");
    ExpectClose(all.at(2), weight_gradient, 1e-5, what + " by the weight in one");
  }
}

TEST(Large, SumsOverEachAxis) {
  for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{
           {3, 70001}, {70001, 3}, {517, 513}, {31, 65, 101}, {200003}, {2, 3, 5, 7, 11, 13, 17}}) {
    Bench bench;
    const Expr x = bench.Input(Noise(DType::kFloat32, shape, -1, 1));
    for (int64_t axis = 0; axis < x.rank(); ++axis) {
      Array in(bench.inputs()[0]);
      int64_t inner = 1;
      for (size_t i = static_cast<size_t>(axis) + 1; i < shape.size(); ++i) inner *= shape[i];
      const int64_t length = shape[static_cast<size_t>(axis)];
      std::vector<int64_t> reduced = shape;
      reduced.erase(reduced.begin() + axis);
      Array sum(reduced), largest(reduced);
      for (int64_t e = 0; e < static_cast<int64_t>(sum.values.size()); ++e) {
        const int64_t start = e / inner * inner * length + e % inner;
        double& total = sum.values[static_cast<size_t>(e)];
        double& most = largest.values[static_cast<size_t>(e)];
        most = -2;
        for (int64_t i = 0; i < length; ++i) {
          const double value = in.values[static_cast<size_t>(start + i * inner)];
          total += value;
          most = std::max(most, value);
        }
      }
      const std::vector<HostTensor> actual = RunTwice(bench, {Sum(x, axis), Max(x, axis)});
      const std::string what = "axis " + std::to_string(axis) + " of " + std::to_string(x.rank());
      ExpectClose(actual.at(0), sum, 1e-4, what);
      ExpectClose(actual.at(1), largest, 0, what);
    }
  }
}

TEST(Large, SoftmaxAndNorm) {
  for (const auto& [rows, columns] :
       std::vector<std::pair<int64_t, int64_t>>{{300, 1001}, {3, 50001}, {40000, 5}}) {
    Bench bench;
    const Expr x = bench.Input(Noise(DType::kFloat32, {rows, columns}, -3, 3));
    Array in(bench.inputs()[0]), softmax(in.shape), norm(in.shape);
    for (int64_t r = 0; r < rows; ++r) {
      double exponentials = 0, mean = 0, square = 0;
      for (int64_t c = 0; c < columns; ++c) {
        exponentials += std::exp(in(r, c));
        mean += in(r, c) / static_cast<double>(columns);
      }
      for (int64_t c = 0; c < columns; ++c) {
        square += (in(r, c) - mean) * (in(r, c) - mean) / static_cast<double>(columns);
      }
      for (int64_t c = 0; c < columns; ++c) {
        softmax(r, c) = std::exp(in(r, c)) / exponentials;
        norm(r, c) = (in(r, c) - mean) / std::sqrt(square + 1e-5);
      }
    }
    const std::vector<HostTensor> actual = RunTwice(bench, {Softmax(x, -1), LayerNorm(x)});
    ExpectClose(actual.at(0), softmax, 1e-5, "softmax");
    ExpectClose(actual.at(1), norm, 1e-4, "norm");
  }
}

}  // namespace
}  // namespace tensord
