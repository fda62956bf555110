#include "core/tensor/testing.h"

#include <algorithm>
#include <cmath>

#include "core/base/check.h"
#include "core/base/status.h"
#include "core/rules/reference_eval.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/gradient.h"
#include "core/tensor/movement.h"
#include "core/tensor/reduce.h"

namespace tensord {
namespace {

std::vector<Scalar> Evaluate(const Node* root, absl::Span<const HostTensor> inputs) {
  ReferenceInputs values;
  for (size_t slot = 0; slot < inputs.size(); ++slot) {
    values.params[static_cast<int64_t>(slot)] = inputs[slot].values;
  }
  const Node* const roots[] = {root};
  return ReferenceEval(roots, values)[0];
}

}  // namespace

HostTensor HostTensor::Of(DType dtype, std::vector<int64_t> shape,
                          absl::Span<const double> values) {
  TD_CHECK(NumElements(shape) == static_cast<int64_t>(values.size()), "values fill the shape");
  HostTensor result = {dtype, std::move(shape), {}};
  for (double value : values) result.values.push_back(Scalar::Of(dtype, value));
  return result;
}

std::vector<double> HostTensor::AsDoubles() const {
  std::vector<double> result;
  for (const Scalar& value : values) {
    result.push_back(IsFloat(dtype) ? value.f : static_cast<double>(value.i));
  }
  return result;
}

Expr Bench::Input(DType dtype, std::vector<int64_t> shape, absl::Span<const double> values) {
  return Input(HostTensor::Of(dtype, std::move(shape), values));
}

Expr Bench::Input(const HostTensor& value) {
  const int64_t slot = static_cast<int64_t>(inputs_.size());
  inputs_.push_back(value);
  return Expr(&graph_, graph_.Param(slot, value.dtype, value.shape));
}

Expr Bench::Counting(std::vector<int64_t> shape, DType dtype) {
  std::vector<double> values(NumElements(shape));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  return Input(dtype, std::move(shape), values);
}

HostTensor Bench::Eval(const Expr& x) {
  if (!x.ok()) {
    ADD_FAILURE() << Message(x.status());
    return {};
  }
  return {x.dtype(), {x.shape().begin(), x.shape().end()}, Evaluate(x.node(), inputs_)};
}

HostTensor Noise(DType dtype, std::vector<int64_t> shape, double low, double high, uint64_t seed) {
  uint64_t state = seed * 0x9E3779B97F4A7C15 + 12345;
  std::vector<double> values(NumElements(shape));
  for (double& value : values) {
    state = state * 6364136223846793005 + 1442695040888963407;
    value = low + (high - low) * static_cast<double>(state >> 11) / 9007199254740992.0;
  }
  return HostTensor::Of(dtype, std::move(shape), values);
}

void ExpectNear(const std::vector<double>& actual, const std::vector<double>& expected,
                double tolerance, std::string_view what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (size_t i = 0; i < actual.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(actual[i])) << what << " at " << i << ": " << actual[i];
    } else if (std::isinf(expected[i])) {
      EXPECT_EQ(actual[i], expected[i]) << what << " at " << i;
    } else {
      EXPECT_NEAR(actual[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i])))
          << what << " at " << i;
    }
  }
}

std::vector<int64_t> ShapeOf(const Expr& x) {
  if (!x.ok()) {
    ADD_FAILURE() << Message(x.status());
    return {-1};
  }
  return {x.shape().begin(), x.shape().end()};
}

std::string ErrorOf(const Expr& x) { return std::string(Message(x.status())); }

void ExpectGradient(std::string_view name, const Function& f, std::vector<HostTensor> inputs,
                    double tolerance) {
  Bench bench;
  std::vector<Expr> x;
  for (const HostTensor& input : inputs) x.push_back(bench.Input(input));
  const Expr y = f(x);
  ASSERT_TRUE(y.ok()) << name << ": " << Message(y.status());
  // Unequal weights, so that an element in the wrong place shows.
  const Expr weight = bench.Input(Noise(DType::kFloat64, ShapeOf(y), 0.5, 1.5, 77));
  const Expr loss = Sum(y * weight);
  const std::vector<Expr> gradients = Gradient(loss, x);
  const auto value = [&] { return Evaluate(loss.node(), bench.inputs())[0].f; };
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_TRUE(gradients[i].ok()) << name << ": " << Message(gradients[i].status());
    EXPECT_EQ(gradients[i].shape(), x[i].shape()) << name;
    const std::vector<double> actual = bench.Values(gradients[i]);
    std::vector<double> expected;
    for (Scalar& element : bench.inputs()[i].values) {
      constexpr double kStep = 1e-5;
      const double at = element.f;
      element.f = at + kStep;
      const double above = value();
      element.f = at - kStep;
      const double below = value();
      element.f = at;
      expected.push_back((above - below) / (2 * kStep));
    }
    ExpectNear(actual, expected, tolerance, std::string(name) + " input " + std::to_string(i));
  }
}

}  // namespace tensord
