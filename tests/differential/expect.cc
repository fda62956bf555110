#include "tests/differential/expect.h"

#include <absl/container/flat_hash_map.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/check.h"
#include "core/ir/loop.h"

namespace tensord {
namespace {

using Errors = std::vector<double>;

double Smallest(DType dtype) {  // positive number
  return DecodeFloat(dtype, 1);
}

double Unit(DType dtype, double value) {
  return std::max(std::ldexp(std::abs(value), -Format(dtype).mantissa_bits), Smallest(dtype));
}

double Largest(DType dtype) { return DecodeFloat(dtype, Format(dtype).max_code()); }

double AsDouble(const Scalar& x) { return IsFloat(x.dtype) ? x.f : static_cast<double>(x.i); }

// Errors moved like elements: the op applied to float64 numbers.
Errors Moved(const Node* node, const Errors& errors, const std::vector<Scalar>* index) {
  Graph graph;
  const Node* from = node->src[0];
  std::vector<const Node*> src = {graph.Param(0, DType::kFloat64, from->shape)};
  ReferenceInputs inputs;
  for (double error : errors) inputs.params[0].push_back(Scalar::Float(DType::kFloat64, error));
  if (index != nullptr) {
    src.push_back(graph.Param(1, node->src[1]->dtype, node->src[1]->shape));
    inputs.params[1] = *index;
  }
  const Node* root = graph.Intern({.op = node->op, .src = src, .ints = node->ints});
  Errors moved;
  const std::vector<std::vector<Scalar>> values = ReferenceEval({root}, inputs);
  for (const Scalar& value : values[0]) moved.push_back(value.f);
  return moved;
}

Errors Reduced(const Node* node, ReduceKind kind, const Errors& values) {
  Graph graph;
  const Node* from = graph.Param(0, DType::kFloat64, node->src[0]->shape);
  std::vector<int64_t> ints(node->ints.begin(), node->ints.end());
  ints[0] = static_cast<int64_t>(kind);
  ReferenceInputs inputs;
  for (double value : values) inputs.params[0].push_back(Scalar::Float(DType::kFloat64, value));
  const Node* root = graph.Intern({.op = Op::kReduce, .src = {from}, .ints = ints});
  Errors reduced;
  const std::vector<std::vector<Scalar>> result = ReferenceEval({root}, inputs);
  for (const Scalar& value : result[0]) reduced.push_back(value.f);
  return reduced;
}

struct Operand {
  Scalar value;
  double error;
};

// How far off the result of an elementwise op may be whose exact result on the operands' values is
// `value`.
double ElementwiseError(Op op, DType dtype, const Scalar& value,
                        const std::vector<Operand>& operands) {
  if (op == Op::kWhere) {
    if (operands[0].error == 0) return operands[operands[0].value.i != 0 ? 1 : 2].error;
    return kUnknown;
  }
  double worst = 0;
  for (const Operand& operand : operands) worst = std::max(worst, operand.error);
  if (worst == kUnknown) return kUnknown;
  // Which NaN it is is not defined.
  if (op == Op::kBitcast && IsFloat(operands[0].value.dtype) && std::isnan(operands[0].value.f)) {
    return kUnknown;
  }
  const bool transcendental = op == Op::kExp || op == Op::kLog || op == Op::kSin;
  const double rounding = !IsFloat(dtype) || !std::isfinite(value.f) ? 0 : Unit(dtype, value.f);
  if (worst == 0) {
    if (transcendental && std::isfinite(value.f)) {
      return std::abs(value.f) + 4 * rounding > Largest(dtype) ? kUnknown : 4 * rounding;
    }
    // A product that overflows need not once it is contracted with a sum.
    const bool finite = std::all_of(operands.begin(), operands.end(), [](const Operand& operand) {
      return std::isfinite(operand.value.f);
    });
    if (op == Op::kMul && IsFloat(dtype) && finite && std::isinf(value.f)) return kUnknown;
    // max(0, -0) may be either.
    if ((op == Op::kMax || op == Op::kMin) && IsFloat(dtype) && value.f == 0) return rounding;
    return 0;
  }
  const Operand& a = operands[0];
  const Operand& b = operands.back();
  switch (op) {
    case Op::kBitcast:
      return kUnknown;
    case Op::kNeg:
      return a.error;
    case Op::kSin:
      return std::isfinite(value.f) ? a.error + 4 * rounding : kUnknown;
    case Op::kLog:
    case Op::kSqrt:
      if (a.value.f - a.error <= 0) return kUnknown;
      break;
    case Op::kDiv:
      if (!(std::abs(b.value.f) > b.error)) return kUnknown;
      break;
    case Op::kCmpEq:
    case Op::kCmpNe:
    case Op::kCmpLt:
      if (std::isnan(a.value.f) || std::isnan(b.value.f)) return 0;
      return std::abs(a.value.f - b.value.f) > a.error + b.error ? 0 : kUnknown;
    case Op::kCast:
      if (dtype == DType::kBool && std::abs(a.value.f) <= a.error) return kUnknown;
      break;
    default:
      break;
  }
  // Every op left is monotone in each operand: its extremes are at the corners.
  double error = 0;
  for (unsigned corner = 0; corner < (1u << operands.size()); ++corner) {
    std::vector<Scalar> moved;
    for (size_t i = 0; i < operands.size(); ++i) {
      const double sign = (corner >> i & 1) != 0 ? 1 : -1;
      moved.push_back(
          Scalar::Float(DType::kFloat64, operands[i].value.f + sign * operands[i].error));
    }
    const DType at = IsFloat(dtype) ? DType::kFloat64 : dtype;
    const double result = AsDouble(*EvalOp(op, at, moved));
    const double center = AsDouble(value);
    if (std::isnan(result) && std::isnan(center)) continue;
    if (IsFloat(dtype) && RoundTo(dtype, result) == center) continue;
    if (!std::isfinite(result) || !std::isfinite(center)) return kUnknown;
    error = std::max(error, std::abs(result - center));
  }
  if (!IsFloat(dtype) || op == Op::kTrunc) return error == 0 ? 0 : kUnknown;
  error += (transcendental ? 4 : 1) * rounding;
  return std::abs(value.f) + error > Largest(dtype) ? kUnknown : error;
}

Errors ReduceErrors(const Node* node, const Expected& from, const std::vector<Scalar>& values) {
  Errors error = Reduced(node, ReduceKind::kMax, from.error);
  for (double& e : error) e = std::max(e, 0.0);
  if (!IsFloat(node->dtype)) {
    for (double& e : error) e = e > 0 ? kUnknown : 0;
    return error;
  }
  const ReduceKind kind = node->reduce_kind();
  const int64_t count = NumElements(node->shape) == 0
                            ? 0
                            : NumElements(node->src[0]->shape) / NumElements(node->shape);
  const double unit = std::ldexp(1.0, -Format(node->dtype).mantissa_bits);
  Errors magnitude, small, big;
  for (const Scalar& value : from.values) {
    const double x = std::abs(value.f);
    magnitude.push_back(std::isfinite(x) ? x : 0);
    big.push_back(std::isfinite(x) ? std::max(x, 1.0) : 1);
    small.push_back(x == 0 || !std::isfinite(x) ? 1 : std::min(x, 1.0));
  }
  const Errors sum = Reduced(node, ReduceKind::kAdd, magnitude);
  const Errors sum_error = Reduced(node, ReduceKind::kAdd, from.error);
  const Errors most = Reduced(node, ReduceKind::kMul, big);
  const Errors least = Reduced(node, ReduceKind::kMul, small);
  for (size_t i = 0; i < error.size(); ++i) {
    if (error[i] == kUnknown) continue;
    const double value = values[i].f;
    if (kind == ReduceKind::kAdd) {
      // Infinities and NaN stay, but a sum of finite numbers may overflow in one order only.
      const double rounding =
          static_cast<double>(count + 1) * (unit * sum[i] + Smallest(node->dtype));
      const bool fits = sum[i] + sum_error[i] + rounding < Largest(node->dtype) / 2;
      error[i] = fits ? std::isfinite(value) ? sum_error[i] + rounding : 0 : kUnknown;
    } else if (kind == ReduceKind::kMul) {
      const bool fits =
          most[i] * 2 < Largest(node->dtype) && least[i] > Smallest(node->dtype) / unit * 4;
      // Known elements: the relative error of each product; else give up.
      if (!fits || error[i] != 0) {
        error[i] = kUnknown;
      } else if (std::isfinite(value)) {
        error[i] = static_cast<double>(count + 1) * unit * std::abs(value);
      }
    }
    if (value == 0 && count != 1) error[i] = std::max(error[i], Smallest(node->dtype));
  }
  return error;
}

// One more value of a running reduction or of an update. The order is promised, but a product may
// be contracted with the sum that it is taken into.
Operand Taken(ScanKind kind, DType dtype, const Operand& before, const Operand& value) {
  Operand total = {EvalScan(kind, before.value, value.value), 0};
  const bool finite = std::isfinite(before.value.f) && std::isfinite(value.value.f);
  if (before.error == kUnknown || value.error == kUnknown) {
    total.error = kUnknown;
  } else if (kind == ScanKind::kLogAdd) {
    // Neither operand counts more than it differs.
    total.error = std::isfinite(total.value.f)
                      ? before.error + value.error + 8 * Unit(dtype, std::abs(total.value.f) + 1)
                  : before.error + value.error == 0 ? 0
                                                    : kUnknown;
  } else {
    const Op op = CombineOp(static_cast<ReduceKind>(kind));
    total.error = ElementwiseError(op, dtype, total.value, {before, value});
    if (IsFloat(dtype) && BitSize(dtype) < 32 && total.error != kUnknown &&
        (op == Op::kAdd || op == Op::kMul)) {
      // A total may be kept in float32.
      total.error += Unit(dtype, total.value.f);
      if (!(std::abs(total.value.f) < Largest(dtype))) total.error = kUnknown;
    }
    if (IsFloat(dtype) && op == Op::kAdd && total.error != kUnknown) {
      if (std::isfinite(total.value.f)) total.error += Unit(dtype, total.value.f);
      // What overflows in one rounding need not in another.
      if (std::isinf(total.value.f) && finite) total.error = kUnknown;
    }
  }
  return total;
}

Errors ScanErrors(const Node* node, const Expected& from) {
  const DType dtype = node->dtype;
  const int64_t size = node->shape[node->scan_axis()];
  int64_t stride = 1;
  for (const int64_t dim : node->shape.subspan(node->scan_axis() + 1)) stride *= dim;
  Errors errors(from.values.size());
  for (size_t first = 0; first < errors.size(); ++first) {
    if (static_cast<int64_t>(first) / stride % size != 0) continue;
    Operand total = {ScanIdentity(node->scan_kind(), dtype), 0};
    for (int64_t step = 0; step < size; ++step) {
      const size_t at = first + stride * (node->scan_reverse() ? size - 1 - step : step);
      const Operand before = total;
      total = Taken(node->scan_kind(), dtype, before, {from.values[at], from.error[at]});
      errors[at] = node->scan_exclusive() ? before.error : total.error;
    }
  }
  return errors;
}

Errors ScatterErrors(const Node* node, const Expected& x, const Expected& index,
                     const Expected& values) {
  Errors errors = x.error;
  const bool known_places =
      std::all_of(index.error.begin(), index.error.end(), [](double error) { return error == 0; });
  if (!known_places) return Errors(errors.size(), kUnknown);
  std::vector<Scalar> now = x.values;
  const Node *from = node->src[2], *where = node->src[1];
  const int64_t axis = node->scatter_axis();
  for (size_t e = 0; e < values.values.size(); ++e) {
    int64_t left = static_cast<int64_t>(e), place = 0, place_stride = 1, target = 0, stride = 1;
    std::vector<int64_t> at(from->shape.size());
    for (size_t i = at.size(); i-- > 0;) {
      at[i] = left % from->shape[i];
      left /= from->shape[i];
      if (where->shape[i] != 1) place += at[i] * place_stride;
      place_stride *= where->shape[i];
    }
    const int64_t row = index.values[place].i;
    if (row < 0 || row >= node->shape[axis]) continue;
    for (int64_t i = node->rank() - 1; i >= 0; --i) {
      const int64_t own = i == axis  ? row
                          : i < axis ? at[i]
                                     : at[at.size() - static_cast<size_t>(node->rank() - i)];
      target += own * stride;
      stride *= node->shape[i];
    }
    const Operand value = {values.values[e], values.error[e]};
    const Operand taken = node->scatter_kind() == ScatterKind::kSet
                              ? value
                              : Taken(static_cast<ScanKind>(node->scatter_kind()), node->dtype,
                                      {now[target], errors[target]}, value);
    now[target] = taken.value;
    errors[target] = taken.error;
  }
  return errors;
}

// Values and errors of nodes, and the same of the body of a loop while it runs.
class Expectation {
 public:
  using ByNode = absl::flat_hash_map<const Node*, Expected>;

  // `known` of the nodes outside of the loop whose body this is for.
  Expectation(const ReferenceInputs& inputs, ByNode known)
      : inputs_(inputs), known_(std::move(known)) {}

  void Run(absl::Span<const Node* const> roots) {
    const auto known = [&](const Node* node) {
      return known_.contains(node) || results_.contains(node);
    };
    for (const Node* node : loop::EvaluationOrder(roots, known)) {
      if (node->op == Op::kLoop) {
        RunLoop(node);
      } else if (node->op == Op::kLoopResult) {
        known_[node] = results_.at(node->src[0])[node->slot()];
      } else {
        Expected result = Visit(node);
        known_[node] = std::move(result);
      }
    }
  }

  const Expected& Of(const Node* node) const { return known_.at(node); }

 private:
  Expected Visit(const Node* node) const {
    const auto values_of = [&](const Node* operand) -> const std::vector<Scalar>& {
      return Of(operand).values;
    };
    Expected result{ReferenceEvalNode(*node, values_of, inputs_), {}};
    if (node->src.empty()) {
      result.error.assign(result.values.size(), 0);
    } else if (node->op == Op::kReduce) {
      result.error = ReduceErrors(node, Of(node->src[0]), result.values);
    } else if (node->op == Op::kScan) {
      result.error = ScanErrors(node, Of(node->src[0]));
    } else if (node->op == Op::kScatter) {
      result.error = ScatterErrors(node, Of(node->src[0]), Of(node->src[1]), Of(node->src[2]));
    } else if (In(node->op, MovementOps())) {
      result.error = Moved(node, Of(node->src[0]).error, nullptr);
    } else if (node->op == Op::kGather) {
      const Expected& index = Of(node->src[1]);
      result.error = Moved(node, Of(node->src[0]).error, &index.values);
      const size_t row = index.values.empty() ? 1 : result.values.size() / index.values.size();
      for (size_t e = 0; e < result.error.size(); ++e) {
        if (index.error[e / row] != 0) result.error[e] = kUnknown;
      }
    } else if (node->op == Op::kContiguous || node->op == Op::kDetach ||
               node->op == Op::kWithSlope) {
      result.error = Of(node->src[0]).error;
    } else {
      for (size_t e = 0; e < result.values.size(); ++e) {
        std::vector<Operand> operands;
        for (const Node* src : node->src) {
          const Expected& from = Of(src);
          operands.push_back({from.values[e], from.error[e]});
        }
        result.error.push_back(ElementwiseError(node->op, node->dtype, result.values[e], operands));
      }
    }
    return result;
  }

  // Iteration by iteration, errors included. If it is not sure whether there is one more, nothing
  // is known of the states.
  void RunLoop(const Node* node) {
    const size_t count = loop::NumStates(node);
    std::vector<Expected> states;
    std::vector<const Node*> roots = {loop::Condition(node)};
    for (size_t k = 0; k < count; ++k) {
      states.push_back(Of(loop::InitOf(node, k)));
      roots.push_back(loop::NextOf(node, k));
    }
    for (int64_t iteration = 0; iteration < node->ints[1]; ++iteration) {
      ByNode around = known_;
      for (size_t k = 0; k < count; ++k) around[loop::CarryOf(node, k)] = states[k];
      Expectation body(inputs_, std::move(around));
      body.Run(roots);
      const Expected& condition = body.Of(roots[0]);
      if (condition.error[0] != 0) {
        for (Expected& state : states) state.error.assign(state.values.size(), kUnknown);
        break;
      }
      if (condition.values[0].i == 0) break;
      for (size_t k = 0; k < count; ++k) states[k] = body.Of(roots[1 + k]);
    }
    results_[node] = std::move(states);
  }

  const ReferenceInputs& inputs_;
  ByNode known_;
  absl::flat_hash_map<const Node*, std::vector<Expected>> results_;  // of Loops, by state
};

}  // namespace

std::vector<Expected> Expect(absl::Span<const Node* const> roots, const ReferenceInputs& inputs) {
  Expectation expectation(inputs, {});
  expectation.Run(roots);
  std::vector<Expected> results;
  for (const Node* root : roots) results.push_back(expectation.Of(root));
  return results;
}

std::string Compare(absl::Span<const Scalar> actual, const Expected& expected) {
  if (actual.size() != expected.values.size()) {
    return fmt::format("{} elements instead of {}", actual.size(), expected.values.size());
  }
  size_t wrong = 0;
  std::string first;
  for (size_t i = 0; i < actual.size(); ++i) {
    const Scalar &a = actual[i], &e = expected.values[i];
    const double error = expected.error[i];
    bool fits = error == kUnknown || a == e;
    if (!fits && IsFloat(e.dtype)) {
      fits = a.f == e.f || std::abs(a.f - e.f) <= error;  // -0 is 0
    }
    if (fits) continue;
    if (wrong++ == 0) {
      first = IsFloat(e.dtype)
                  ? fmt::format("element {} is {} instead of {} +- {}", i, a.f, e.f, error)
                  : fmt::format("element {} is {} instead of {}", i, a.i, e.i);
    }
  }
  return wrong == 0 ? ""
                    : fmt::format("{} ({} of {} elements are wrong)", first, wrong, actual.size());
}

}  // namespace tensord
