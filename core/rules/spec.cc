#include "core/rules/spec.h"

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include <algorithm>
#include <vector>

#include "core/base/status.h"
#include "core/ir/dims.h"
#include "core/ir/graph.h"
#include "core/ir/text.h"

namespace tensord {
namespace {

// A rule about one node and its direct sources.
struct SpecRow {
  std::string_view name;
  OpSet ops;
  std::string_view wants;
  bool (*holds)(const Node&);
};

constexpr OpSet kAllOps = OpSet::All();

bool IsIndex(const Node& node) { return node.dtype == DType::kIndex; }
bool IsGate(const Node& node) { return node.dtype == DType::kBool; }

bool HasNoLanes(const Node& node) { return node.lanes == 1; }

// Sources other than the gate, which stands last and is bool.
bool HasOperandsAndGate(const Node& node, size_t operands) {
  const size_t count = node.src.size();
  if (count != operands && count != operands + 1) return false;
  if (node.src[0]->op != Op::kParam || !IsIndex(*node.src[1])) return false;
  return count == operands || IsGate(*node.src[operands]);
}
bool LoadOperands(const Node& node) { return HasOperandsAndGate(node, 2); }
bool StoreOperands(const Node& node) {
  return HasOperandsAndGate(node, 3) && node.src[2]->dtype == node.src[0]->dtype;
}

bool ModifyOperands(const Node& node) {
  return node.src.size() >= 4 && node.src[0]->op == Op::kParam && IsIndex(*node.src[1]) &&
         node.src[2]->dtype == node.src[0]->dtype && IsGate(*node.src[3]) &&
         std::ranges::all_of(node.src.subspan(4), [](const Node* src) {
           return src->op == Op::kRange && src->range_kind() == RangeKind::kLoop;
         });
}

bool UsesNoParam(const Node& node) {
  return std::ranges::none_of(node.src, [](const Node* src) { return src->op == Op::kParam; });
}
bool IsBuffer(const Node& node) { return node.ints.size() == 2; }
bool HasValues(const Node& node) {
  return std::ranges::none_of(node.src, [](const Node* src) { return src->dtype == DType::kVoid; });
}

const SpecRow kTensorRows[] = {
    {"scalar-elements", kAllOps, "one lane", HasNoLanes},
    {"no-index", kAllOps, "a dtype that memory can hold: an index is a size, made of variables",
     [](const Node& node) { return !IsIndex(node) || IsDim(&node); }},
    {"index-use", kAllOps,
     "no index among the sources but for a size, in Cast and in other indices",
     [](const Node& node) {
       return IsIndex(node) || node.op == Op::kCast || HasSizes(node.op) ||
              std::ranges::none_of(node.src, [](const Node* src) { return IsIndex(*src); });
     }},
    {"values", kAllOps & ~(OpBit(Op::kLoopResult) | OpBit(Op::kUserKernelResult)),
     "sources with a value", HasValues},
};

const SpecRow kKernelRows[] = {
    {"one-lane", kAllOps, "one lane, vectors are made at the linear level", HasNoLanes},
    {"buffer", OpBit(Op::kParam), "a buffer: slot and number of elements", IsBuffer},
    {"param-use", kAllOps & ~(OpBit(Op::kLoad) | OpBit(Op::kStore) | OpBit(Op::kModify)),
     "no Param among the sources: only Load, Store and Modify take one", UsesNoParam},
    {"load-operands", OpBit(Op::kLoad), "Param, index [, bool gate]", LoadOperands},
    {"store-operands", OpBit(Op::kStore), "Param, index, value of its dtype [, bool gate]",
     StoreOperands},
    {"fold-operands", OpBit(Op::kFold), "a value and at least one Range",
     [](const Node& node) {
       return node.src.size() >= 2 && HasValues(node) &&
              std::ranges::all_of(node.src.subspan(1),
                                  [](const Node* src) { return src->op == Op::kRange; });
     }},
    {"running-operands", OpBit(Op::kRunning), "a value and a Range of kind loop",
     [](const Node& node) {
       return HasValues(node) && node.src[1]->op == Op::kRange &&
              node.src[1]->range_kind() == RangeKind::kLoop;
     }},
    {"modify-operands", OpBit(Op::kModify),
     "Param, index, value of its dtype, bool gate, Ranges of kind loop", ModifyOperands},
    {"sink-operands", OpBit(Op::kSink), "Stores and Modifies",
     [](const Node& node) {
       return std::ranges::all_of(node.src, [](const Node* src) {
         return src->op == Op::kStore || src->op == Op::kModify;
       });
     }},
    {"values", ElementwiseOps(), "sources with a value", HasValues},
};

// Ops whose sources have as many lanes as they have.
bool SameLanes(const Node& node) {
  return std::ranges::all_of(node.src, [&](const Node* src) { return src->lanes == node.lanes; });
}
bool ScalarSources(const Node& node) {
  return std::ranges::all_of(node.src, [](const Node* src) { return src->lanes == 1; });
}
bool AccumulatorFirst(const Node& node) { return node.src[0]->op == Op::kAccumulator; }

const SpecRow kLinearRows[] = {
    {"buffer", OpBit(Op::kParam), "a buffer: slot and number of elements", IsBuffer},
    {"param-use", kAllOps & ~(OpBit(Op::kLoad) | OpBit(Op::kStore)),
     "no Param among the sources: only Load and Store take one", UsesNoParam},
    {"load-operands", OpBit(Op::kLoad), "Param, index [, bool gate]", LoadOperands},
    {"store-operands", OpBit(Op::kStore), "Param, index, value of its dtype [, bool gate]",
     StoreOperands},
    {"lanes", ElementwiseOps() | OpBit(Op::kAccumulator) | OpBit(Op::kRead),
     "sources with the lanes of the result", SameLanes},
    {"scalar-sources", OpBit(Op::kBroadcast) | OpBit(Op::kStack), "sources of one lane",
     ScalarSources},
    {"one-stack", OpBit(Op::kStack), "as many sources of one dtype as lanes",
     [](const Node& node) {
       return node.src.size() == node.lanes && std::ranges::all_of(node.src, [&](const Node* src) {
                return src->dtype == node.dtype;
              });
     }},
    {"lane-number", OpBit(Op::kExtract), "a lane that the source has",
     [](const Node& node) { return node.slot() >= 0 && node.slot() < node.src[0]->lanes; }},
    {"one-lane", OpBit(Op::kHorizontal) | OpBit(Op::kExtract), "a result of one lane", HasNoLanes},
    {"accumulator", OpBit(Op::kUpdate) | OpBit(Op::kRead), "an Accumulator as first source",
     AccumulatorFirst},
    {"update-type", OpBit(Op::kUpdate), "a value of the accumulator's dtype and lanes",
     [](const Node& node) {
       return node.src[0]->dtype == node.src[1]->dtype && node.src[0]->lanes == node.src[1]->lanes;
     }},
    {"end-of-range", OpBit(Op::kEnd), "a Range",
     [](const Node& node) { return node.src[0]->op == Op::kRange; }},
};

struct Spec {
  std::string_view name;
  Level level;
  absl::Span<const SpecRow> rows;
};

const Spec kTensorSpec = {"tensor spec", kTensorLevel, kTensorRows};
const Spec kKernelSpec = {"kernel spec", kKernelLevel, kKernelRows};
const Spec kLinearSpec = {"linear spec", kLinearLevel, kLinearRows};

absl::Status Broken(const Spec& spec, std::string_view rule, const Node& node,
                    std::string_view wants) {
  return InvalidArgument("{}, {}: wants {}: {}", spec.name, rule, wants, PrintNode(&node));
}

absl::Status CheckRows(const Spec& spec, const Node& node) {
  if ((Info(node.op).levels & spec.level) == 0) {
    return Broken(spec, "level", node, "ops of this level only");
  }
  for (const SpecRow& row : spec.rows) {
    if (In(node.op, row.ops) && !row.holds(node)) return Broken(spec, row.name, node, row.wants);
  }
  return absl::OkStatus();
}

// One node for each slot, and one for each name of a variable: else users of the number disagree.
class Leaves {
 public:
  absl::Status Add(const Spec& spec, const Node& node) {
    if (node.op == Op::kParam && !params_.emplace(node.slot(), &node).second) {
      return Broken(spec, "one-param-per-slot", node, "one dtype and shape for the slot");
    }
    if (node.op == Op::kVariable && !names_.insert({node.text.data(), node.text.size()}).second) {
      return Broken(spec, "one-variable-per-name", node, "one dtype and bounds for the name");
    }
    if (node.op == Op::kRange && !ranges_.emplace(node.range_id(), &node).second) {
      return Broken(spec, "one-range-per-id", node, "one size and kind for the id");
    }
    return absl::OkStatus();
  }

 private:
  absl::flat_hash_map<int64_t, const Node*> params_, ranges_;
  absl::flat_hash_set<absl::string_view> names_;
};

absl::Status VerifyGraph(const Spec& spec, absl::Span<const Node* const> order) {
  Leaves leaves;
  for (const Node* node : order) {
    TD_RETURN_IF_ERROR(CheckRows(spec, *node));
    TD_RETURN_IF_ERROR(leaves.Add(spec, *node));
  }
  return absl::OkStatus();
}

// Every Carry belongs to a Loop above it, and loops in a loop have smaller levels.
absl::Status CheckLoopsClose(absl::Span<const Node* const> roots,
                             absl::Span<const Node* const> order) {
  struct Seen {
    std::vector<const Node*> open;  // Carries without a Loop so far, by id
    int64_t level = -1;             // of the loops in it
  };
  absl::flat_hash_map<const Node*, Seen> seen;  // of nodes with loops or Carries below them
  const auto include = [&](const Node* from, Seen& to) {
    const auto found = seen.find(from);
    if (found == seen.end()) return;
    std::vector<const Node*> both;
    std::ranges::set_union(to.open, found->second.open, std::back_inserter(both),
                           [](const Node* a, const Node* b) { return a->id < b->id; });
    to.open = std::move(both);
    to.level = std::max(to.level, found->second.level);
  };
  for (const Node* node : order) {
    if ((node->below_ops & OpBit(Op::kCarry)) == 0) continue;
    Seen mine;
    if (node->op == Op::kCarry) {
      mine.open = {node};  // the initial value is computed outside of the loop
    } else if (node->op == Op::kLoop) {
      include(node->src[0], mine);
      for (size_t i = 2; i < node->src.size(); i += 2) include(node->src[i], mine);
      if (mine.level >= node->ints[0]) {
        return Broken(kTensorSpec, "loop-levels", *node,
                      fmt::format("a level above that of the loops in it, {}", mine.level));
      }
      for (size_t i = 1; i < node->src.size(); i += 2) {
        std::erase(mine.open, node->src[i]);
      }
      for (size_t i = 1; i < node->src.size(); i += 2) include(node->src[i]->src[0], mine);
      mine.level = std::max(mine.level, node->ints[0]);
    } else {
      for (const Node* src : node->src) include(src, mine);
      if (node->op == Op::kExchange && !mine.open.empty()) {
        return Broken(kTensorSpec, "exchange-outside", *node, "to stand outside of loops");
      }
    }
    seen[node] = std::move(mine);
  }
  for (const Node* root : roots) {
    const auto found = seen.find(root);
    if (found == seen.end() || found->second.open.empty()) continue;
    return Broken(kTensorSpec, "loops-close", *found->second.open[0],
                  "a Loop that it is a state of, around all that depends on it");
  }
  return absl::OkStatus();
}

// Reduce ranges that a node depends on and that no Fold below it has closed.
using OpenRanges = std::vector<int64_t>;

void Include(const OpenRanges& from, const OpenRanges& except, OpenRanges& to) {
  for (const int64_t id : from) {
    if (!std::ranges::count(except, id) && !std::ranges::count(to, id)) to.push_back(id);
  }
}

// What is stored may depend on a reduce range only if it has a place for each of its values.
absl::Status CheckReduceRangesClose(absl::Span<const Node* const> order) {
  absl::flat_hash_map<const Node*, OpenRanges> open;
  for (const Node* node : order) {
    OpenRanges mine, closed;
    if (node->op == Op::kRange && node->range_kind() == RangeKind::kReduce) {
      mine.push_back(node->range_id());
    } else if (node->op == Op::kFold) {
      for (const Node* range : node->src.subspan(1)) closed.push_back(range->range_id());
      Include(open.at(node->src[0]), closed, mine);
    } else if (node->op == Op::kStore) {
      OpenRanges unplaced;
      for (const Node* src : node->src) Include(open.at(src), open.at(node->src[1]), unplaced);
      if (!unplaced.empty()) {
        return InvalidArgument("{}, reduce-ranges-close: wants a Fold over range {}: {}",
                               kKernelSpec.name, unplaced[0], PrintNode(node));
      }
    } else {
      for (const Node* src : node->src) Include(open.at(src), {}, mine);
    }
    open[node] = std::move(mine);
  }
  return absl::OkStatus();
}

// What is visible at a point of a linear program.
class Scopes {
 public:
  absl::Status Add(const Node& node) {
    for (const Node* src : node.src) {
      if (In(src->op, kUnordered) || visible_.contains(src)) continue;
      return Broken(kLinearSpec, "source-before-use", node,
                    fmt::format("source %{} earlier, in a loop that is still open", src->id));
    }
    if (!listed_.insert(&node).second) {
      return Broken(kLinearSpec, "listed-once", node, "each node once");
    }
    if (node.op == Op::kEnd) return Close(node);
    if (node.op == Op::kRange) loops_.push_back({&node, names_.size()});
    names_.push_back(&node);
    visible_.insert(&node);
    return absl::OkStatus();
  }

  absl::Status Finish() const {
    if (loops_.empty()) return absl::OkStatus();
    return Broken(kLinearSpec, "loops-end", *loops_.back().range, "an End for every Range");
  }

 private:
  // Leaves, which need not be listed.
  static constexpr OpSet kUnordered = OpBit(Op::kConst) | OpBit(Op::kParam) | OpBit(Op::kVariable);

  struct Loop {
    const Node* range;
    size_t first_name;
  };

  absl::Status Close(const Node& end) {
    if (loops_.empty() || loops_.back().range != end.src[0]) {
      return Broken(kLinearSpec, "loops-nest", end, "to end the innermost open loop");
    }
    for (size_t i = loops_.back().first_name; i < names_.size(); ++i) visible_.erase(names_[i]);
    names_.resize(loops_.back().first_name);
    loops_.pop_back();
    return absl::OkStatus();
  }

  absl::flat_hash_set<const Node*> listed_, visible_;
  std::vector<const Node*> names_;  // the visible ones, outer loops first
  std::vector<Loop> loops_;
};

}  // namespace

absl::Status VerifyTensor(absl::Span<const Node* const> roots) {
  const std::vector<const Node*> order = TopologicalOrder(roots);
  TD_RETURN_IF_ERROR(VerifyGraph(kTensorSpec, order));
  return CheckLoopsClose(roots, order);
}

absl::Status VerifyKernel(absl::Span<const Node* const> roots) {
  const std::vector<const Node*> order = TopologicalOrder(roots);
  TD_RETURN_IF_ERROR(VerifyGraph(kKernelSpec, order));
  return CheckReduceRangesClose(order);
}

absl::Status VerifyLinear(absl::Span<const Node* const> body) {
  Leaves leaves;
  absl::flat_hash_set<const Node*> leaves_seen;
  Scopes scopes;
  for (const Node* node : body) {
    for (const Node* src : node->src) {
      if (src->src.empty() && leaves_seen.insert(src).second) {
        TD_RETURN_IF_ERROR(CheckRows(kLinearSpec, *src));
        TD_RETURN_IF_ERROR(leaves.Add(kLinearSpec, *src));
      }
    }
    TD_RETURN_IF_ERROR(CheckRows(kLinearSpec, *node));
    TD_RETURN_IF_ERROR(scopes.Add(*node));
  }
  return scopes.Finish();
}

}  // namespace tensord
