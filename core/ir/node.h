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
struct Node;

// The size of an axis: a number, or a node of dtype index over variables that is `size` at most.
struct Dim {
  int64_t size;
  const Node* node = nullptr;

  bool IsOne() const { return size == 1 && node == nullptr; }
  bool operator==(const Dim&) const = default;
};

struct Node {
  Op op;
  DType dtype;
  uint16_t lanes = 1;  // > 1 only at the linear level
  uint32_t id;         // position in the graph: sources have smaller ids
  uint64_t hash;       // of the structure below; equal across graphs for equal structures
  OpSet src_ops;       // ops of the direct sources, as a mask
  OpSet below_ops;     // ops in the whole subgraph, this one included

  absl::Span<const Node* const> src;
  absl::Span<const int64_t> ints;  // the attribute, see AttrKind
  std::string_view text;           // Variable: its name

  Shape shape;  // tensor level: dims; empty for scalars and at the other levels
  // Empty if all sizes are numbers; else per axis null, or what its size is in a run. `shape` holds
  // the upper bound then. Equal sizes are equal nodes.
  absl::Span<const Node* const> dims;

  // Interval that holds the value: exact for constants, sound for integers and index expressions;
  // the whole range of the dtype otherwise. Not meaningful for floats and uint64.
  int64_t lo, hi;

  bool IsConst() const { return op == Op::kConst; }
  // Const only: the value of an integer, bool or index.
  int64_t Int() const { return ints[0]; }
  // Const only: the value of a float.
  double Float() const { return std::bit_cast<double>(ints[0]); }
  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
  bool has_dims() const { return !dims.empty(); }
  Dim dim(size_t axis) const { return {shape[axis], dims.empty() ? nullptr : dims[axis]}; }

  // Attributes by name; valid for the ops that have them.
  int64_t slot() const { return ints[0]; }  // Param, Accumulator, Extract, GridIndex
  ReduceKind reduce_kind() const { return static_cast<ReduceKind>(ints[0]); }
  absl::Span<const int64_t> reduce_axes() const { return ints.subspan(1); }
  ScanKind scan_kind() const { return static_cast<ScanKind>(ints[0]); }  // Scan, Running
  int64_t scan_axis() const { return ints[1]; }
  bool scan_reverse() const { return ints[2] != 0; }    // from the last element to the first
  bool scan_exclusive() const { return ints[3] != 0; }  // of what comes before, from the identity
  bool running_exclusive() const { return ints[1] != 0; }
  ScatterKind scatter_kind() const { return static_cast<ScatterKind>(ints[0]); }  // and Modify
  int64_t scatter_axis() const { return ints[1]; }
  ExchangeKind exchange_kind() const { return static_cast<ExchangeKind>(ints[0]); }
  int64_t exchange_devices() const { return ints[1]; }
  int64_t exchange_shift() const { return ints[2]; }
  int64_t range_id() const { return ints[0]; }
  int64_t range_size() const { return ints[1]; }
  RangeKind range_kind() const { return static_cast<RangeKind>(ints[2]); }
  // Whether a Range ends before range_size(), at a number that is known in a run only.
  bool is_bounded() const { return op == Op::kRange && !src.empty(); }
};

int64_t NumElements(Shape shape);  // at most
inline bool SameShape(const Node* a, const Node* b) {
  return a->shape == b->shape && a->dims == b->dims;
}

}  // namespace tensord
