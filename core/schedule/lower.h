// Lowering: the value of a tensor-level node at an index, as kernel-level nodes.
//
// Movement ops become index arithmetic, reductions become Folds over fresh Ranges, and a tensor
// that lives in memory becomes a Load. Nothing is materialised here: the caller says for each
// tensor whether it is read from memory, and lowers one kernel's outputs with one Lowering, so that
// what they share is computed once. The recursion is as deep as the expressions between tensors in
// memory, which the fusion pass bounds.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "core/ir/dims.h"
#include "core/ir/graph.h"
#include "core/ir/substitute.h"

namespace tensord {

using Index = std::vector<const Node*>;  // one node of dtype index per axis

// The conditions that must all hold for `condition` to hold; none if it is true.
std::vector<const Node*> Conjuncts(const Node* condition);

// One read of a tensor in memory.
struct Access {
  const Node* tensor;
  Index index;
  const Node* load;
};

// One place where a tensor of special interest is computed inside a kernel.
struct Site {
  const Node* tensor;
  Index index;
  std::vector<const Node*> context;  // ranges it may depend on: those of the site around it and of
                                     // the Folds in between
  bool gated;                        // only some of the values matter there
  const Node* value;                 // kernel level
};

// Axes that a tensor may have.
inline constexpr int kMaxRank = 64;

// Where the elements of a tensor lie: at the sum of index * stride. A blocked axis is cut into
// blocks, elements of one block lie side by side and blocks lie `block_stride` apart.
struct Layout {
  std::vector<int64_t> strides;  // per axis, in elements; 1 for a blocked axis
  int64_t blocked_axis = -1;
  int64_t block = 0, block_stride = 0;
  bool operator==(const Layout&) const = default;
};
// The offset of the element at `index`.
const Node* Offset(Graph& graph, const Index& index, const Layout& layout);

class Lowering {
 public:
  struct Storage {
    int64_t slot;  // Param of the kernel
    Layout layout;
    int64_t elements;
    // Zeros around the tensor, per axis, that may be read: none if empty.
    std::vector<int64_t> margin = {};
  };
  // Where `tensor` is read from, or null if it is to be computed here.
  using StorageOf = std::function<const Storage*(const Node* tensor)>;
  // Whether the places where `tensor` is computed are to be recorded as sites.
  using IsSite = std::function<bool(const Node* tensor)>;

  Lowering(Graph& graph, StorageOf storage_of, IsSite is_site);

  // The value of `tensor` at `index`.
  const Node* Value(const Node* tensor, const Index& index);
  // A Range for every axis longer than 1; constant 0 for the others.
  Index OutputRanges(const Node* tensor);
  // A size of a tensor, in this graph. Null stays null.
  const Node* SizeHere(const Node* size);
  const Node* Zero() { return graph_.Index(0); }

  // Whether `row`, data of any integer type, is an index below `count`.
  const Node* InsideRows(const Node* row, Dim count);

  const std::vector<Access>& accesses() const { return accesses_; }
  const std::vector<Site>& sites() const { return sites_; }

  // The loop that scans run along, one for all scans that are lowered together.
  struct ScanLoop {
    const Node* range = nullptr;  // null without scans
    bool reverse = false;
    bool is_legal = true;  // false if some scan is wanted in another loop, or not in all of one
  };
  const ScanLoop& scan_loop() const { return scan_loop_; }

 private:
  struct Key {
    const Node* tensor;
    const Node* gate;
    Index index;
    bool operator==(const Key&) const = default;
    template <typename H>
    friend H AbslHashValue(H h, const Key& key) {
      return H::combine(std::move(h), key.tensor, key.gate, key.index);
    }
  };

  // `gate` says where the value matters; null: everywhere. Elsewhere it may be anything, but
  // nothing outside of a tensor may be read.
  const Node* Lower(const Node* tensor, const Index& index, const Node* gate);
  const Node* LowerNew(const Node* tensor, const Index& index, const Node* gate);
  const Node* LowerMovement(const Node* tensor, const Index& index, const Node* gate);
  Index ReshapeIndex(const Index& index, const Node* from, const Node* to);
  // Sizes are nodes of this graph.
  void ReshapeAxes(absl::Span<const Node* const> index, absl::Span<const Dim> from,
                   absl::Span<const Dim> to, ReplacementMap& parts, Index& result);
  const Node* LowerSite(const Node* tensor, const Index& index, const Node* gate);
  const Node* LowerReduce(const Node* tensor, const Index& index, const Node* gate);
  const Node* Fold(ReduceKind kind, const Node* body, std::vector<const Node*> ranges);
  const Node* LowerScan(const Node* tensor, const Index& index, const Node* gate);
  const Node* LowerGather(const Node* tensor, const Index& index, const Node* gate);
  const Node* Load(const Node* tensor, const Storage& storage, const Index& index,
                   const Node* gate);
  // 0 where `inside` is false, the source's value elsewhere.
  const Node* Guarded(const Node* source, const Index& index, const Node* inside, const Node* gate);

  const Node* InBounds(const Node* index, Dim size);
  const Node* And(const Node* a, const Node* b);
  const Node* Range(Dim size, RangeKind kind);
  // A size as an index of this graph.
  const Node* Number(Dim size);

  Graph& graph_;
  StorageOf storage_of_;
  IsSite is_site_;
  int64_t next_range_ = 0;
  std::vector<const Node*> context_;  // of the site being lowered
  std::vector<Access> accesses_;
  std::vector<Site> sites_;
  ScanLoop scan_loop_;
  absl::flat_hash_map<Key, const Node*> memo_;
  absl::flat_hash_map<const Node*, const Node*> sizes_;  // of tensors, in this graph
};

}  // namespace tensord
