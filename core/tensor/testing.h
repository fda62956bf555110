// What the tests of the tensor language share.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/ir/eval.h"
#include "core/tensor/expr.h"

namespace tensord {

struct HostTensor {
  DType dtype = DType::kVoid;
  std::vector<int64_t> shape;
  std::vector<Scalar> values;  // row-major

  static HostTensor Of(DType dtype, std::vector<int64_t> shape, absl::Span<const double> values);
  // Integers as doubles too; those beyond 2^53 not exactly.
  std::vector<double> AsDoubles() const;
};

// A graph with inputs that have values.
class Bench {
 public:
  Expr Input(DType dtype, std::vector<int64_t> shape, absl::Span<const double> values);
  Expr Input(const HostTensor& value);
  // 0, 1, 2, ... in float32.
  Expr Counting(std::vector<int64_t> shape, DType dtype = DType::kFloat32);

  // Fails the test if the expression is an error; then it is empty.
  HostTensor Eval(const Expr& x);
  std::vector<double> Values(const Expr& x) { return Eval(x).AsDoubles(); }

  Graph& graph() { return graph_; }
  std::vector<HostTensor>& inputs() { return inputs_; }

 private:
  Graph graph_;
  std::vector<HostTensor> inputs_;
};

// The same numbers on every run, in [low, high).
HostTensor Noise(DType dtype, std::vector<int64_t> shape, double low = -2, double high = 2,
                 uint64_t seed = 1);

// NaN equals NaN; otherwise |a - b| <= tolerance * max(1, |b|).
void ExpectNear(const std::vector<double>& actual, const std::vector<double>& expected,
                double tolerance, std::string_view what = "");

std::vector<int64_t> ShapeOf(const Expr& x);
std::string ErrorOf(const Expr& x);  // the message; "" if there is none

// Compares the gradient of `f` with central differences in float64, in every input.
using Function = std::function<Expr(absl::Span<const Expr>)>;
void ExpectGradient(std::string_view name, const Function& f, std::vector<HostTensor> inputs,
                    double tolerance = 1e-6);

}  // namespace tensord
