// Graph: the arena that makes, interns and owns nodes.
//
//   Graph graph;
//   const Node* x = graph.Param(0, DType::kFloat32, {2, 3});
//   const Node* y = graph.Make(Op::kExp, {x});
//   absl::StatusOr<const Node*> bad = graph.TryMake({.op = Op::kAdd, .src = {x, z}});
//
// Two ways in: TryMake checks the op table and the shape rules and is for input that may be wrong
// (the tensor language, the wire); Make is for our own passes and checks the same by TD_CHECK.
// Both apply the cheap identities at once ("smart constructor", fold.h): constants fold, index
// arithmetic takes its normal form, so a result may be another op than asked for.
//
// Not thread-safe while it grows: one thread builds, many may then read. Nodes live as long as the
// graph; there is no removal: copy the live roots into a fresh graph (CopyTo).
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <string_view>
#include <vector>

#include "core/ir/node.h"

namespace tensord {

// What a node is made from. Spans need to live only during the call.
struct NodeSpec {
  Op op;
  absl::Span<const Node* const> src = {};
  absl::Span<const int64_t> ints = {};
  std::string_view text = {};
  DType dtype = DType::kVoid;  // only for ops whose dtype is declared
  uint16_t lanes = 0;          // 0: the sources' lanes; declared for Load, Broadcast, Ramp
};

class Graph {
 public:
  Graph();
  ~Graph();
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;

  // InvalidArgument names the rule that the node breaks and the values that break it.
  absl::StatusOr<const Node*> TryMake(const NodeSpec& spec);
  const Node* Make(const NodeSpec& spec);
  const Node* Make(Op op, std::initializer_list<const Node*> src,
                   std::initializer_list<int64_t> ints = {});
  const Node* Make(Op op, absl::Span<const Node* const> src, absl::Span<const int64_t> ints);

  // The node exactly as given, checked like Make but without the smart constructor: for code that
  // has the normal form in hand (affine.cc, the text parser).
  const Node* Intern(const NodeSpec& spec);

  // Constants. The value is brought into the dtype: ints wrap, floats are rounded to its precision.
  const Node* Int(DType dtype, int64_t value);
  const Node* Float(DType dtype, double value);
  // `value` in any dtype: 2.5 as an integer truncates.
  const Node* Value(DType dtype, double value);
  const Node* Index(int64_t value) { return Int(DType::kIndex, value); }
  const Node* Bool(bool value) { return Int(DType::kBool, value); }

  const Node* Param(int64_t slot, DType dtype, Shape shape);
  const Node* SizedParam(int64_t slot, DType dtype, absl::Span<const Dim> shape);
  const Node* Variable(std::string_view name, int64_t min, int64_t max, DType dtype);
  const Node* Range(int64_t id, int64_t size, RangeKind kind);
  const Node* Range(int64_t id, Dim size, RangeKind kind);
  const Node* Cast(const Node* x, DType dtype);

  // The same op and attribute over other sources.
  const Node* WithSources(const Node* node, absl::Span<const Node* const> src);

  size_t size() const;   // nodes made so far
  size_t bytes() const;  // memory held by the arena
  const Node* node(uint32_t id) const;

 private:
  struct Storage;
  std::unique_ptr<Storage> storage_;
};

// Copies what `roots` reach into `to`; returns the copies of the roots, in order.
std::vector<const Node*> CopyTo(Graph& to, absl::Span<const Node* const> roots);

// Nodes that `roots` reach, sources before users, each once; order depends on structure only.
std::vector<const Node*> TopologicalOrder(absl::Span<const Node* const> roots);

}  // namespace tensord
