#include "core/ir/dims.h"

#include <absl/container/flat_hash_map.h>
#include <absl/numeric/int128.h>

#include <algorithm>

#include "core/base/check.h"
#include "core/base/status.h"
#include "core/ir/affine.h"
#include "core/ir/eval.h"

namespace tensord {
namespace {

// Values and coefficients stay below this, so that sums and products of two fit 64 bits.
constexpr int64_t kLimit = int64_t{1} << 48;

bool InLimit(absl::int128 value) { return value >= -kLimit && value <= kLimit; }

bool InLimit(const Affine& affine) {
  return InLimit(affine.constant) && InLimit(affine.lo()) && InLimit(affine.hi()) &&
         std::all_of(affine.terms.begin(), affine.terms.end(),
                     [](const Affine::Term& term) { return InLimit(term.coefficient); });
}

int64_t Largest(const Affine& affine) {
  int64_t largest = std::abs(affine.constant);
  for (const Affine::Term& term : affine.terms) {
    largest = std::max(largest, std::abs(term.coefficient));
  }
  return largest;
}

Product ProductOf(Graph& graph, absl::Span<const Dim> dims) {
  Product product;
  for (const Dim& dim : dims) {
    if (dim.node == nullptr) {
      product.constant *= dim.size;
    } else {
      product.Multiply(graph, dim.node);
    }
  }
  return product;
}

Dim Combine(Graph& graph, Op op, Dim a, Dim b) {
  return DimOf(graph.Make(op, {NodeOf(graph, a), NodeOf(graph, b)}));
}

std::string AtomText(const Node* atom);

std::string SumText(const Node* node) {
  const Affine sum = ToAffine(node);
  std::string text;
  const auto add = [&](int64_t number, std::string_view factor) {
    const int64_t size = std::abs(number);
    text += text.empty() ? (number < 0 ? "-" : "") : (number < 0 ? " - " : " + ");
    if (factor.empty()) {
      text += fmt::format("{}", size);
    } else {
      text += size == 1 ? std::string(factor) : fmt::format("{}*{}", size, factor);
    }
  };
  for (const Affine::Term& term : sum.terms) add(term.coefficient, AtomText(term.atom));
  if (sum.constant != 0 || sum.terms.empty()) add(sum.constant, "");
  return text;
}

// In brackets if it is a sum.
std::string FactorText(const Node* node) {
  const std::string text = SumText(node);
  return node->op == Op::kAdd ? "(" + text + ")" : text;
}

std::string AtomText(const Node* atom) {
  switch (atom->op) {
    case Op::kVariable:
      return std::string(atom->text);
    case Op::kRange:
      return fmt::format("r{}", atom->range_id());
    case Op::kMul:
      return FactorText(atom->src[0]) + "*" + FactorText(atom->src[1]);
    case Op::kFloorDiv:
      return FactorText(atom->src[0]) + "//" + FactorText(atom->src[1]);
    case Op::kFloorMod:
      return FactorText(atom->src[0]) + "%" + FactorText(atom->src[1]);
    case Op::kMax:
    case Op::kMin:
      return fmt::format("{}({}, {})", atom->op == Op::kMax ? "max" : "min", SumText(atom->src[0]),
                         SumText(atom->src[1]));
    case Op::kCast:
      if (atom->src[0]->op == Op::kVariable) return std::string(atom->src[0]->text);
      return fmt::format("cast(%{})", atom->src[0]->id);
    default:
      return fmt::format("%{}", atom->id);
  }
}

}  // namespace

bool HasSizes(Op op) {
  constexpr auto kOps = OpBit(Op::kParam) | OpBit(Op::kIota) | OpBit(Op::kReshape) |
                        OpBit(Op::kExpand) | OpBit(Op::kPad) | OpBit(Op::kShrink);
  return In(op, kOps);
}

Sizes ShapeOf(const Node* node) {
  Sizes sizes;
  for (size_t axis = 0; axis < node->shape.size(); ++axis) sizes.push_back(node->dim(axis));
  return sizes;
}

Sizes AttributeOf(const NodeSpec& spec) {
  Sizes sizes;
  size_t next = Info(spec.op).num_src;
  for (int64_t value : spec.ints.subspan(FirstSize(spec.op))) {
    if (value != kSymbolic) {
      sizes.push_back({value});
    } else {
      TD_CHECK(next < spec.src.size(), "a symbolic size without a source");
      sizes.push_back(DimOf(spec.src[next++]));
    }
  }
  return sizes;
}

Sizes AttributeOf(const Node* node) {
  return AttributeOf(NodeSpec{.op = node->op, .src = node->src, .ints = node->ints});
}

SizedOp::SizedOp(absl::Span<const Node* const> operands, absl::Span<const Dim> sizes,
                 absl::Span<const int64_t> before)
    : src(operands.begin(), operands.end()), ints(before.begin(), before.end()) {
  for (const Dim& dim : sizes) {
    ints.push_back(dim.node == nullptr ? dim.size : kSymbolic);
    if (dim.node != nullptr) src.push_back(dim.node);
  }
}

Dim DimOf(const Node* node) { return node->IsConst() ? Dim{node->Int()} : Dim{node->hi, node}; }

const Node* NodeOf(Graph& graph, Dim dim) {
  return dim.node != nullptr ? dim.node : graph.Index(dim.size);
}

absl::Status CheckDimOp(Op op, const Node* a, const Node* b) {
  const Affine x = ToAffine(a), y = ToAffine(b);
  bool fits = InLimit(x) && InLimit(y);
  if (fits && op == Op::kMul) {
    fits = InLimit(absl::int128(Largest(x)) * Largest(y)) &&
           InLimit(absl::int128(std::max(std::abs(x.lo()), std::abs(x.hi()))) *
                   std::max(std::abs(y.lo()), std::abs(y.hi())));
  }
  if (fits) return absl::OkStatus();
  return InvalidArgument("{} of sizes {} and {} may be beyond 2^48", Name(op), SumText(a),
                         SumText(b));
}

absl::Status CheckDim(const Node* result) {
  if (InLimit(ToAffine(result))) return absl::OkStatus();
  return InvalidArgument("the size {} may be beyond 2^48, or has no bounds", SumText(result));
}

absl::StatusOr<Dim> DimArithmetic(Graph& graph, Op op, Dim a, Dim b) {
  const Node *x = NodeOf(graph, a), *y = NodeOf(graph, b);
  TD_RETURN_IF_ERROR(CheckDimOp(op, x, y));
  const Node* result = graph.Make(op, {x, y});
  TD_RETURN_IF_ERROR(CheckDim(result));
  return DimOf(result);
}

Dim Plus(Graph& graph, Dim a, Dim b) {
  if (a.node == nullptr && b.node == nullptr) return {a.size + b.size};
  return Combine(graph, Op::kAdd, a, b);
}

Dim Minus(Graph& graph, Dim a, Dim b) {
  if (a.node == nullptr && b.node == nullptr) return {a.size - b.size};
  return Combine(graph, Op::kSub, a, b);
}

Dim TimesAll(Graph& graph, absl::Span<const Dim> dims) {
  return DimOf(FromProduct(graph, ProductOf(graph, dims)));
}

bool AtMost(Dim a, Dim b) {
  if (a.node == nullptr && b.node == nullptr) return a.size <= b.size;
  Affine difference;
  const auto add = [&](Dim dim, int64_t factor) {
    if (dim.node == nullptr) {
      difference.constant += dim.size * factor;
    } else {
      difference.Add(ToAffine(dim.node), factor);
    }
  };
  add(b, 1);
  add(a, -1);
  return difference.lo() >= 0;
}

bool SameCount(Graph& graph, absl::Span<const Dim> a, absl::Span<const Dim> b) {
  const Product x = ProductOf(graph, a), y = ProductOf(graph, b);
  if (x.constant == 0 || y.constant == 0) return x.constant == y.constant;
  return x.constant == y.constant && x.factors == y.factors;
}

std::optional<Dim> MissingFactor(Graph& graph, absl::Span<const Dim> whole,
                                 absl::Span<const Dim> part) {
  Product rest = ProductOf(graph, whole);
  const Product known = ProductOf(graph, part);
  if (known.constant == 0 || rest.constant % known.constant != 0) return std::nullopt;
  rest.constant /= known.constant;
  for (const Node* factor : known.factors) {
    const auto place = std::find(rest.factors.begin(), rest.factors.end(), factor);
    if (place == rest.factors.end()) return std::nullopt;
    rest.factors.erase(place);
  }
  return DimOf(FromProduct(graph, rest));
}

int64_t Evaluate(const Node* dim, const std::function<int64_t(const Node*)>& value_of) {
  absl::flat_hash_map<const Node*, Scalar> values;
  for (const Node* node : TopologicalOrder({&dim, 1})) {
    Scalar& value = values[node];
    if (node->IsConst()) {
      value = Scalar::FromAttribute(node->dtype, node->ints[0]);
    } else if (node->op == Op::kVariable) {
      value = Scalar::Int(node->dtype, value_of(node));
    } else {
      absl::InlinedVector<Scalar, 2> src;
      for (const Node* operand : node->src) src.push_back(values.at(operand));
      const std::optional<Scalar> result = EvalOp(node->op, node->dtype, src);
      TD_CHECK(result.has_value(), Name(node->op));
      value = *result;
    }
  }
  return values.at(dim).i;
}

void CollectVariables(const Node* dim, std::vector<const Node*>& variables) {
  for (const Node* node : TopologicalOrder({&dim, 1})) {
    if (node->op == Op::kVariable &&
        std::find(variables.begin(), variables.end(), node) == variables.end()) {
      variables.push_back(node);
    }
  }
}

std::string TextOf(Dim dim) {
  return dim.node == nullptr ? fmt::format("{}", dim.size) : SumText(dim.node);
}

std::string TextOf(absl::Span<const Dim> dims) {
  std::string text;
  for (const Dim& dim : dims) text += (text.empty() ? "" : ", ") + TextOf(dim);
  return "[" + text + "]";
}

std::string ShapeText(const Node* node) { return TextOf(ShapeOf(node)); }

}  // namespace tensord
