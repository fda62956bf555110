// Node: one op with its operands; the only value of the IR at every level.
//
// Nodes are immutable and interned by their Graph: equal nodes are one pointer, so equality is a
// pointer compare and a pass is a memoised map from node to node. Order nodes by `id`, never by
// address, so that output is the same on every run.
#pragma once

#include <absl/types/span.h>

#include <bit>
#include <cstdint>
#include <string_view>

#include "core/ir/dtype.h"
#include "core/ir/op.h"

namespace tensord {

using Shape = absl::Span<const int64_t>;

struct Node {
  Op op;
  DType dtype;
  uint16_t lanes = 1;  // > 1 only at the linear level
  uint32_t id;         // position in the graph: sources have smaller ids
  uint64_t hash;       // of the structure below; equal across graphs for equal structures
  uint64_t src_ops;    // ops of the direct sources, as a mask
  uint64_t below_ops;  // ops in the whole subgraph, this one included

  absl::Span<const Node* const> src;
  absl::Span<const int64_t> ints;  // the attribute, see AttrKind
  std::string_view text;           // Variable: its name

  Shape shape;  // tensor level: dims; empty for scalars and at the other levels

  // Interval that holds the value: exact for constants, sound for integers and index expressions;
  // the whole range of the dtype otherwise. Not meaningful for floats and uint64.
  int64_t lo, hi;

  bool IsConst() const { return op == Op::kConst; }
  // Const only: the value of an integer, bool or index.
  int64_t Int() const { return ints[0]; }
  // Const only: the value of a float.
  double Float() const { return std::bit_cast<double>(ints[0]); }
  int64_t rank() const { return static_cast<int64_t>(shape.size()); }

  // Attributes by name; valid for the ops that have them.
  int64_t slot() const { return ints[0]; }                // Param, Accumulator, Extract, GridIndex
  ReduceKind reduce_kind() const { return static_cast<ReduceKind>(ints[0]); }
  absl::Span<const int64_t> reduce_axes() const { return ints.subspan(1); }
  int64_t range_id() const { return ints[0]; }
  int64_t range_size() const { return ints[1]; }
  RangeKind range_kind() const { return static_cast<RangeKind>(ints[2]); }
};

int64_t NumElements(Shape shape);

}  // namespace tensord
