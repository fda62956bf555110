#include "core/schedule/fuse.h"

#include <absl/container/btree_set.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "core/base/check.h"
#include "core/ir/substitute.h"
#include "core/schedule/materialize.h"

namespace tensord {
namespace {

// What the loops inside a shared outer loop touch must stay in a core's second-level cache, or the
// second pass over it would be as slow as in a kernel of its own.
constexpr int64_t kMaxInnerBytes = 256 << 10;
// Below this a kernel is launch overhead anyhow.
constexpr int64_t kSmallElements = 1 << 16;
constexpr size_t kMaxBuffers = 48;
// Passes recurse through what one kernel computes, so its expressions' depths together are bounded.
constexpr int kMaxUnitDepth = 576;
// Beyond this many kernels a program is not worth the search for merges, whose cost grows with the
// square.
constexpr size_t kMaxSearched = 8192;
constexpr std::ptrdiff_t kMaxSiblings = 16;  // that each tensor is tried with

using RangeSet = std::vector<const Node*>;

bool Contains(const RangeSet& set, const Node* range) {
  return std::find(set.begin(), set.end(), range) != set.end();
}

bool IsSubset(const RangeSet& a, const RangeSet& b) {
  return std::all_of(a.begin(), a.end(), [&](const Node* range) { return Contains(b, range); });
}

int64_t Extent(const RangeSet& set) {
  int64_t product = 1;
  for (const Node* range : set) product *= range->range_size();
  return product;
}

// The ranges of an index that is one distinct range or zero per axis and covers the tensor whole.
std::optional<RangeSet> PlainRanges(Lowering& lowering, const Node* tensor, const Index& index) {
  RangeSet ranges;
  for (size_t i = 0; i < index.size(); ++i) {
    const Dim dim = tensor->dim(i);
    if (index[i]->IsConst() && index[i]->Int() == 0 && dim.IsOne()) continue;
    if (index[i]->op != Op::kRange || index[i]->range_size() != dim.size ||
        (index[i]->is_bounded() ? index[i]->src[0] : nullptr) != lowering.SizeHere(dim.node) ||
        Contains(ranges, index[i])) {
      return std::nullopt;
    }
    ranges.push_back(index[i]);
  }
  return ranges;
}

// Ranges that a value depends on and does not reduce.
RangeSet FreeRangesOf(const Node* value) {
  absl::flat_hash_map<const Node*, absl::flat_hash_set<const Node*>> free;
  for (const Node* node : TopologicalOrder({value})) {
    absl::flat_hash_set<const Node*>& own = free[node];
    if (node->op == Op::kRange) own.insert(node);
    const size_t operands = node->op == Op::kFold ? 1 : node->src.size();
    for (size_t i = 0; i < operands; ++i) {
      const absl::flat_hash_set<const Node*> more = free.at(node->src[i]);
      free[node].insert(more.begin(), more.end());
    }
    if (node->op == Op::kFold) {
      for (const Node* range : node->src.subspan(1)) free[node].erase(range);
    }
  }
  return {free.at(value).begin(), free.at(value).end()};
}

// The loops with every set in `outer` as a prefix; nothing if the sets don't nest. The loop of a
// scan is innermost: what is stored beside it runs over all of the loops or needs none of its
// steps.
std::optional<RangeSet> OrderLoops(const RangeSet& loops, std::vector<RangeSet> outer,
                                   const Lowering::ScanLoop& scan) {
  if (scan.range != nullptr) {
    if (!scan.is_legal || !Contains(loops, scan.range)) return std::nullopt;
    for (const RangeSet& set : outer) {
      if (Contains(set, scan.range) && set.size() < loops.size()) return std::nullopt;
    }
  }
  std::sort(outer.begin(), outer.end(),
            [](const RangeSet& a, const RangeSet& b) { return a.size() < b.size(); });
  RangeSet order;
  for (const RangeSet& set : outer) {
    if (!IsSubset(order, set)) return std::nullopt;
    for (const Node* range : loops) {
      if (Contains(set, range) && !Contains(order, range)) order.push_back(range);
    }
  }
  for (const Node* range : loops) {
    if (!Contains(order, range)) order.push_back(range);
  }
  if (const auto inner = std::find(order.begin(), order.end(), scan.range); inner != order.end()) {
    std::rotate(inner, inner + 1, order.end());
  }
  return order;
}

// The loop of a scan in reverse counts down.
void TurnScanAround(LoweredUnit& unit, const Node* range) {
  Graph& graph = unit.graph;
  int64_t id = 0;
  std::vector<const Node*> roots;
  for (const LoweredUnit::Output& output : unit.outputs) {
    roots.push_back(output.value);
    roots.insert(roots.end(), output.index.begin(), output.index.end());
  }
  for (const Access& access : unit.accesses) {
    roots.push_back(access.load);
    roots.insert(roots.end(), access.index.begin(), access.index.end());
  }
  for (const Node* node : TopologicalOrder(roots)) {
    if (node->op == Op::kRange) id = std::max(id, node->range_id() + 1);
  }
  const Node* step = graph.Range(id, range->range_size(), RangeKind::kLoop);
  const Node* back = graph.Make(Op::kSub, {graph.Index(range->range_size() - 1), step});
  const std::vector<const Node*> turned = Substitute(graph, roots, {{range, {back, {step}}}});
  auto next = turned.begin();
  const auto take = [&](Index& index) {
    for (const Node*& part : index) part = *next++;
  };
  for (LoweredUnit::Output& output : unit.outputs) {
    output.value = *next++;
    take(output.index);
  }
  for (Access& access : unit.accesses) {
    access.load = *next++;
    take(access.index);
  }
  std::replace(unit.loops.begin(), unit.loops.end(), range, step);
}

class Fuser {
 public:
  explicit Fuser(absl::Span<const Node* const> outputs)
      : outputs_(outputs.begin(), outputs.end()), materialized_(ChooseMaterialized(outputs)) {}

  Fusion Run() {
    absl::flat_hash_map<const Node*, int> unit_of_call;  // the results of a user's kernel are one
    for (const Node* tensor : materialized_.tensors) {
      const int position = static_cast<int>(position_.size());
      position_[tensor] = position;
      int unit = static_cast<int>(units_.size());
      if (tensor->op == Op::kUserKernelResult) {
        unit = unit_of_call.emplace(tensor->src[0], unit).first->second;
      }
      if (unit == static_cast<int>(units_.size())) units_.emplace_back();
      unit_of_[tensor] = unit;
      units_[unit].tensors.push_back(tensor);
    }
    needs_.resize(units_.size());
    users_.resize(units_.size());
    for (const Node* tensor : materialized_.tensors) {
      for (const Node* need : materialized_.needs.at(tensor)) {
        if (need->op == Op::kParam) continue;
        needs_[unit_of_.at(tensor)].insert(unit_of_.at(need));
        users_[unit_of_.at(need)].insert(unit_of_.at(tensor));
      }
    }
    // A merge can make another one possible that was looked at before.
    for (bool merged = units_.size() <= kMaxSearched; merged;) {
      merged = false;
      for (const Node* tensor : materialized_.tensors) merged |= MergeIntoUsers(tensor);
    }
    if (units_.size() <= kMaxSearched) MergeSiblings();
    return Result();
  }

 private:
  // Whether `from` must run before `to` because of some third unit.
  bool HasPathAround(int from, int to) {
    if (users_[from].size() == 1 && users_[from].contains(to)) return false;
    seen_.resize(units_.size());
    ++search_;
    stack_.clear();
    for (int need : needs_[to]) {
      if (need != from) stack_.push_back(need);
    }
    while (!stack_.empty()) {
      const int unit = stack_.back();
      stack_.pop_back();
      if (unit == from) return true;
      if (std::exchange(seen_[unit], search_) == search_) continue;
      stack_.insert(stack_.end(), needs_[unit].begin(), needs_[unit].end());
    }
    return false;
  }

  bool DependsOn(int unit, int on) { return needs_[unit].contains(on) || HasPathAround(on, unit); }

  // Units only grow, so their sizes tell whether this very merge was refused before.
  std::array<size_t, 4> AttemptOf(int a, int b) const {
    return {static_cast<size_t>(a), units_[a].tensors.size(), static_cast<size_t>(b),
            units_[b].tensors.size()};
  }

  // What can be told without a look at the rest of the program, which would cost as much as it has
  // units.
  bool MayMerge(int a, int b) const {
    int contractions = 0, depth = 0;
    bool has_output = false;
    for (int unit : {a, b}) {
      for (const Node* tensor : units_[unit].tensors) {
        // These have kernels of their own.
        if (tensor->op == Op::kScatter || tensor->op == Op::kUserKernelResult) return false;
        depth += materialized_.depth.at(tensor);
        contractions += materialized_.contracts.contains(tensor);
        has_output |= outputs_.contains(tensor);
      }
    }
    // A contraction's result wants an order of its own in memory, outputs of the program have one.
    if (contractions > 1 || (contractions == 1 && has_output) || depth > kMaxUnitDepth)
      return false;
    return !refused_.contains(AttemptOf(a, b));
  }

  // Makes `a` and `b` one unit, in b's place, if that is legal and pays.
  bool TryMerge(int a, int b) {
    Unit merged = units_[a];
    merged.tensors.insert(merged.tensors.end(), units_[b].tensors.begin(), units_[b].tensors.end());
    std::sort(merged.tensors.begin(), merged.tensors.end(),
              [&](const Node* x, const Node* y) { return position_.at(x) < position_.at(y); });
    if (!IsLegal(merged)) {
      refused_.insert(AttemptOf(a, b));
      return false;
    }
    for (const Node* tensor : merged.tensors) unit_of_[tensor] = b;
    units_[a].tensors.clear();
    units_[b] = std::move(merged);
    needs_[b].insert(needs_[a].begin(), needs_[a].end());
    users_[b].insert(users_[a].begin(), users_[a].end());
    needs_[b].erase(a);
    users_[b].erase(a);
    needs_[b].erase(b);
    users_[b].erase(b);
    for (int need : needs_[a]) {
      users_[need].erase(a);
      if (need != b) users_[need].insert(b);
    }
    for (int user : users_[a]) {
      needs_[user].erase(a);
      if (user != b) needs_[user].insert(b);
    }
    needs_[a].clear();
    users_[a].clear();
    return true;
  }

  bool IsLegal(const Unit& unit);

  bool MergeIntoUsers(const Node* tensor) {
    bool any = false;
    for (bool merged = true; merged;) {
      merged = false;
      const int unit = unit_of_.at(tensor);
      const std::vector<int> users(users_[unit].begin(), users_[unit].end());
      for (int user : users) {
        if (MayMerge(unit, user) && !HasPathAround(unit, user) && TryMerge(unit, user)) {
          merged = any = true;
          break;
        }
      }
    }
    return any;
  }

  // Units of one shape that read a tensor in common become one kernel with several outputs. Only
  // the bigger of what they read counts: a shared scalar saves nothing.
  void MergeSiblings() {
    absl::flat_hash_map<const Node*, std::vector<const Node*>> readers;
    const auto big_needs = [&](const Node* tensor) {
      std::vector<const Node*> needs = materialized_.needs.at(tensor);
      int64_t most = 0;
      for (const Node* need : needs) most = std::max(most, NumElements(need->shape));
      std::erase_if(needs, [&](const Node* need) { return NumElements(need->shape) * 2 < most; });
      return needs;
    };
    for (const Node* tensor : materialized_.tensors) {
      for (const Node* need : big_needs(tensor)) readers[need].push_back(tensor);
    }
    for (const Node* tensor : materialized_.tensors) {
      for (const Node* need : big_needs(tensor)) {
        // Readers are in the order of the graph; the next few are as good as any.
        const std::vector<const Node*>& all = readers.at(need);
        const auto self = std::lower_bound(
            all.begin(), all.end(), position_.at(tensor),
            [&](const Node* reader, int position) { return position_.at(reader) < position; });
        for (auto other = self + 1; other < std::min(self + 1 + kMaxSiblings, all.end()); ++other) {
          const int a = unit_of_.at(tensor), b = unit_of_.at(*other);
          if (a == b || !MayMerge(a, b)) continue;
          if (DependsOn(a, b) || DependsOn(b, a)) continue;
          TryMerge(a, b);
        }
      }
    }
  }

  Fusion Result() {
    Fusion result;
    std::vector<int> state(units_.size(), 0);
    std::vector<int> order;
    for (int root = 0; root < static_cast<int>(units_.size()); ++root) {
      std::vector<std::pair<int, std::vector<int>>> stack;
      if (state[root] == 0 && !units_[root].tensors.empty()) {
        state[root] = 1;
        stack.push_back({root, {needs_[root].begin(), needs_[root].end()}});
      }
      while (!stack.empty()) {
        auto& [unit, needs] = stack.back();
        if (needs.empty()) {
          order.push_back(unit);
          stack.pop_back();
          continue;
        }
        const int need = needs.back();
        needs.pop_back();
        if (state[need] == 0) {
          state[need] = 1;
          stack.push_back({need, {needs_[need].begin(), needs_[need].end()}});
        }
      }
    }
    for (const Node* output : outputs_) {
      if (materialized_.set.contains(output)) result.stored.insert(output);
    }
    for (const Node* tensor : materialized_.tensors) {
      for (const Node* need : materialized_.needs.at(tensor)) {
        auto found = unit_of_.find(need);
        if (found != unit_of_.end() && found->second != unit_of_.at(tensor)) {
          result.stored.insert(need);
        }
      }
    }
    for (int unit : order) result.units.push_back(units_[unit]);
    return result;
  }

  absl::flat_hash_set<const Node*> outputs_;
  Materialized materialized_;
  std::vector<Unit> units_;  // merged ones are left empty
  absl::flat_hash_map<const Node*, int> unit_of_, position_;
  absl::flat_hash_set<std::array<size_t, 4>> refused_;
  std::vector<absl::btree_set<int>> needs_, users_;  // by unit: what it reads, who reads it
  // Of HasPathAround: which search has seen a unit last, and what it has still to see.
  std::vector<int64_t> seen_;
  int64_t search_ = 0;
  std::vector<int> stack_;
};

// The sites of a unit's tensors, checked. `sites` has one per tensor.
struct Checked {
  RangeSet loops;  // of the outputs, in axis order
  std::vector<RangeSet> outer;
  absl::flat_hash_map<const Node*, const Site*> site_of;
};

std::optional<Checked> CheckSites(const Unit& unit, Lowering& lowering, const RangeSet& loops) {
  Checked checked;
  checked.loops = loops;
  for (const Site& site : lowering.sites()) {
    auto [place, is_new] = checked.site_of.emplace(site.tensor, &site);
    if (!is_new || site.gated) return std::nullopt;  // at two places, or not everywhere
    const std::optional<RangeSet> ranges = PlainRanges(lowering, site.tensor, site.index);
    if (!ranges) return std::nullopt;
    if (IsSubset(*ranges, loops)) {
      checked.outer.push_back(*ranges);
    } else if (ranges->size() != site.context.size() || !IsSubset(*ranges, site.context) ||
               !IsSubset(*ranges, FreeRangesOf(site.value))) {
      return std::nullopt;  // computed again for ranges that it doesn't depend on, or too rarely
    }
  }
  if (checked.site_of.size() != unit.tensors.size()) return std::nullopt;
  return checked;
}

// `home`, the index of every element of a tensor, for another one with the same axes but for those
// of size 1.
std::optional<Index> SameRanges(const Node* other, const Node* tensor, const Index& home,
                                const Node* zero) {
  const Sizes shape = ShapeOf(tensor);
  Index index;
  size_t next = 0;
  const auto skip_ones = [&] {
    while (next < shape.size() && shape[next].IsOne()) ++next;
  };
  for (const Dim& dim : ShapeOf(other)) {
    if (!dim.IsOne()) {
      skip_ones();
      if (next == shape.size() || shape[next] != dim) return std::nullopt;
      index.push_back(home[next++]);
    } else {
      index.push_back(zero);
    }
  }
  skip_ones();
  if (next != shape.size()) return std::nullopt;
  return index;
}

// Lowers the unit's tensors, last first: what an earlier one feeds is reached through its users.
std::optional<RangeSet> LowerTensors(const Unit& unit, Lowering& lowering) {
  const Node* last = unit.tensors.back();
  const Index home = lowering.OutputRanges(last);
  absl::flat_hash_set<const Node*> reached;
  size_t seen = 0;
  for (size_t i = unit.tensors.size(); i-- > 0;) {
    const Node* tensor = unit.tensors[i];
    if (reached.contains(tensor)) continue;
    const std::optional<Index> index = SameRanges(tensor, last, home, lowering.Zero());
    if (!index) return std::nullopt;
    lowering.Value(tensor, *index);
    for (; seen < lowering.sites().size(); ++seen) reached.insert(lowering.sites()[seen].tensor);
  }
  RangeSet loops;
  for (const Node* i : home) {
    if (i->op == Op::kRange) loops.push_back(i);
  }
  return loops;
}

bool Fuser::IsLegal(const Unit& unit) {
  const absl::flat_hash_set<const Node*> inside(unit.tensors.begin(), unit.tensors.end());
  const Lowering::Storage anywhere{0, {std::vector<int64_t>(kMaxRank, 1)}, 1};
  absl::flat_hash_set<const Node*> buffers(unit.tensors.begin(), unit.tensors.end());
  for (const Node* tensor : unit.tensors) {
    for (const Node* need : materialized_.needs.at(tensor)) buffers.insert(need);
  }
  if (buffers.size() > kMaxBuffers) return false;
  Graph graph;
  Lowering lowering(
      graph,
      [&](const Node* tensor) {
        const bool in_memory = tensor->op == Op::kParam ||
                               (materialized_.set.contains(tensor) && !inside.contains(tensor));
        return in_memory ? &anywhere : nullptr;
      },
      [&](const Node* tensor) { return inside.contains(tensor); });
  const std::optional<RangeSet> loops = LowerTensors(unit, lowering);
  if (!loops) return false;
  const std::optional<Checked> checked = CheckSites(unit, lowering, *loops);
  if (!checked || !OrderLoops(*loops, checked->outer, lowering.scan_loop())) return false;
  const int64_t elements = Extent(*loops);
  for (const Node* tensor : unit.tensors) {
    const auto reduce = materialized_.reduces.find(tensor);
    if (reduce == materialized_.reduces.end()) continue;
    const RangeSet ranges = *PlainRanges(lowering, tensor, checked->site_of.at(tensor)->index);
    const bool at_every_element = ranges.size() == loops->size() && IsSubset(ranges, *loops);
    // A contraction keeps its own loops; others may only add to each of its results.
    if (materialized_.contracts.contains(tensor) &&
        (!at_every_element || lowering.scan_loop().range != nullptr)) {
      return false;
    }
    if (at_every_element || !IsSubset(ranges, *loops) || elements <= kSmallElements) continue;
    const int64_t inner = std::max(elements / Extent(ranges), reduce->second);
    if (inner * ItemSize(tensor->dtype) > kMaxInnerBytes) return false;
  }
  return true;
}

}  // namespace

Fusion Fuse(absl::Span<const Node* const> outputs) { return Fuser(outputs).Run(); }

std::unique_ptr<LoweredUnit> LowerUnit(const Unit& unit, const Lowering::StorageOf& storage_of) {
  auto result = std::make_unique<LoweredUnit>();
  const absl::flat_hash_set<const Node*> inside(unit.tensors.begin(), unit.tensors.end());
  Lowering lowering(
      result->graph,
      [&](const Node* tensor) { return inside.contains(tensor) ? nullptr : storage_of(tensor); },
      [&](const Node* tensor) { return inside.contains(tensor); });
  const std::optional<RangeSet> loops = LowerTensors(unit, lowering);
  if (!loops) return nullptr;
  const std::optional<Checked> checked = CheckSites(unit, lowering, *loops);
  if (!checked) return nullptr;
  const std::optional<RangeSet> order = OrderLoops(*loops, checked->outer, lowering.scan_loop());
  if (!order) return nullptr;
  result->loops = *order;
  for (const Node* tensor : unit.tensors) {
    const Site& site = *checked->site_of.at(tensor);
    result->outputs.push_back({tensor, site.index, site.value});
  }
  result->accesses = lowering.accesses();
  if (lowering.scan_loop().reverse) TurnScanAround(*result, lowering.scan_loop().range);
  return result;
}

std::unique_ptr<LoweredUnit> LowerUpdate(const Node* scatter,
                                         const Lowering::StorageOf& storage_of) {
  auto result = std::make_unique<LoweredUnit>();
  Lowering lowering(result->graph, storage_of, [](const Node*) { return false; });
  const Node *x = scatter->src[0], *index = scatter->src[1], *values = scatter->src[2];
  const int64_t axis = scatter->scatter_axis();
  const Index at = lowering.OutputRanges(values);
  const auto rest = at.end() - (x->rank() - axis - 1);
  Index where = at;
  for (size_t i = 0; i < where.size(); ++i) {
    if (index->shape[i] == 1) where[i] = lowering.Zero();
  }
  const Node* row = lowering.Value(index, where);
  LoweredUnit::Output update{scatter, Index(at.begin(), at.begin() + axis), nullptr};
  update.index.push_back(result->graph.Cast(row, DType::kIndex));
  update.index.insert(update.index.end(), rest, at.end());
  update.gate = lowering.InsideRows(row, x->dim(axis));
  update.value = lowering.Value(values, at);
  for (auto part = at.begin() + axis; part != rest; ++part) {
    if ((*part)->op == Op::kRange) update.ordered.push_back(*part);
  }
  for (const Node* part : at) {
    if (part->op == Op::kRange) result->loops.push_back(part);
  }
  result->outputs.push_back(std::move(update));
  result->accesses = lowering.accesses();
  return result;
}

}  // namespace tensord
