// Sizes that vary from run to run. A size is an index-typed scalar over variables with bounds, so
// the interval of its value is known, its upper bound is the size in memory, and one program serves
// every value.
//
//   const Node* n = graph.Cast(graph.Variable("n", 1, 512, DType::kInt32), DType::kIndex);
//   SizedOp reshape({x}, {DimOf(n), {4}});
//   graph.Make({.op = Op::kReshape, .src = reshape.src, .ints = reshape.ints});
//
// Sizes are in normal form (affine.h), so equal ones are one node.
#pragma once

#include <absl/container/inlined_vector.h>
#include <absl/status/statusor.h>

#include <functional>
#include <limits>
#include <optional>
#include <string>

#include "core/ir/graph.h"

namespace tensord {

// Stands among `Node::ints` where a source has the number.
inline constexpr int64_t kSymbolic = std::numeric_limits<int64_t>::min();

// The ops that a size may be made of.
inline constexpr auto kDimOps = OpBit(Op::kConst) | OpBit(Op::kVariable) | OpBit(Op::kCast) |
                                OpBit(Op::kNeg) | OpBit(Op::kAdd) | OpBit(Op::kSub) |
                                OpBit(Op::kMul) | OpBit(Op::kFloorDiv) | OpBit(Op::kFloorMod) |
                                OpBit(Op::kMax) | OpBit(Op::kMin);
inline bool IsDim(const Node* node) {
  return node->dtype == DType::kIndex && node->shape.empty() && (node->below_ops & ~kDimOps) == 0;
}

// Whether the op has sizes among its ints, and how many of the ints come before them.
bool HasSizes(Op op);
inline size_t FirstSize(Op op) { return op == Op::kParam ? 1 : 0; }

using Sizes = absl::InlinedVector<Dim, 8>;
Sizes ShapeOf(const Node* node);
// The sizes in the attribute of an op: dims of Reshape, pairs of Pad, ...
Sizes AttributeOf(const NodeSpec& spec);
Sizes AttributeOf(const Node* node);

// Sources and ints of an op with sizes.
struct SizedOp {
  SizedOp(absl::Span<const Node* const> operands, absl::Span<const Dim> sizes,
          absl::Span<const int64_t> before = {});
  absl::InlinedVector<const Node*, 4> src;
  absl::InlinedVector<int64_t, 8> ints;
};

Dim DimOf(const Node* node);
const Node* NodeOf(Graph& graph, Dim dim);

// Add, Sub, Mul, FloorDiv, FloorMod, Max, Min of sizes. InvalidArgument where numbers would leave
// the range in which index arithmetic is exact.
absl::StatusOr<Dim> DimArithmetic(Graph& graph, Op op, Dim a, Dim b);
// Whether the op may be made over these nodes, and its result be used: what DimArithmetic checks.
absl::Status CheckDimOp(Op op, const Node* a, const Node* b);
absl::Status CheckDim(const Node* result);

// For our own passes: sizes that are in the range.
Dim Plus(Graph& graph, Dim a, Dim b);
Dim Minus(Graph& graph, Dim a, Dim b);
Dim TimesAll(Graph& graph, absl::Span<const Dim> dims);

// Whether a <= b whatever the variables are; false if that can't be told.
bool AtMost(Dim a, Dim b);
// Whether both shapes have the same number of elements.
bool SameCount(Graph& graph, absl::Span<const Dim> a, absl::Span<const Dim> b);
// What `part` lacks to the number of elements of `whole`; nothing if it does not divide it.
std::optional<Dim> MissingFactor(Graph& graph, absl::Span<const Dim> whole,
                                 absl::Span<const Dim> part);

// The number for given values of the variables.
int64_t Evaluate(const Node* dim, const std::function<int64_t(const Node* variable)>& value_of);
// Adds the variables that a node's value or size depends on, once each.
void CollectVariables(const Node* dim, std::vector<const Node*>& variables);

// "n", "2*n + 1"
std::string TextOf(Dim dim);
std::string TextOf(absl::Span<const Dim> dims);  // "[n, 4]"
std::string ShapeText(const Node* node);

}  // namespace tensord
