#include "tests/differential/shrink.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <optional>
#include <set>

#include "core/ir/infer.h"
#include "core/ir/loop.h"

namespace tensord {
namespace {

// What a node becomes, given its new sources; null to give up.
using Remake =
    std::function<const Node*(Graph& graph, const Node* node, const std::vector<const Node*>& src)>;

const Node* TryIntern(Graph& graph, const NodeSpec& spec) {
  Inferred inferred;
  return Infer(graph, spec, inferred).ok() ? graph.Intern(spec) : nullptr;
}

const Node* Same(Graph& graph, const Node* node, const std::vector<const Node*>& src) {
  return TryIntern(
      graph,
      {.op = node->op, .src = src, .ints = node->ints, .text = node->text, .dtype = node->dtype});
}

// The case with every node remade, slots numbered anew. Outputs that `keep` lacks are left out.
std::optional<Case> Rebuild(const Case& test, const std::vector<size_t>& keep,
                            const Remake& remake) {
  std::vector<const Node*> roots;
  for (size_t i : keep) roots.push_back(test.outputs[i]);
  Graph graph;
  absl::flat_hash_map<const Node*, const Node*> to;
  for (const Node* node : TopologicalOrder(roots)) {
    std::vector<const Node*> src;
    for (const Node* s : node->src) src.push_back(to.at(s));
    const Node* made = remake(graph, node, src);
    if (made == nullptr) return std::nullopt;
    to[node] = made;
  }
  Case result;
  result.seed = test.seed;
  result.values = test.values;
  std::vector<const Node*> made;
  for (const Node* root : roots) made.push_back(to.at(root));
  absl::flat_hash_map<int64_t, int64_t> slots;
  absl::flat_hash_map<const Node*, const Node*> numbered;
  const auto slot_of = [&](int64_t slot) {
    return slots.emplace(slot, static_cast<int64_t>(slots.size())).first->second;
  };
  for (const Node* node : TopologicalOrder(made)) {
    std::vector<const Node*> src;
    for (const Node* s : node->src) src.push_back(numbered.at(s));
    if (node->op == Op::kParam) {
      numbered[node] = result.graph.Param(slot_of(node->slot()), node->dtype, node->shape);
    } else {
      numbered[node] = Same(result.graph, node, src);
    }
  }
  for (size_t i = 0; i < keep.size(); ++i) {
    result.outputs.push_back(numbered.at(made[i]));
    const int64_t overwrites = test.overwrites[keep[i]];
    result.overwrites.push_back(overwrites == Program::kFresh ? overwrites : slot_of(overwrites));
  }
  if (!ParamsOf(result).ok()) return std::nullopt;
  return result;
}

class Shrinker {
 public:
  Shrinker(const Case& test, const std::function<bool(Case&)>& fails, int budget)
      : fails_(fails), budget_(budget) {
    best_ = *Rebuild(test, All(test), Same);
  }

  Case Run() {
    for (bool smaller = true; smaller && budget_ > 0;) {
      smaller = DropOutputs();
      smaller |= DropOverwrites();
      smaller |= ReplaceNodes();
      smaller |= ShortenLoops();
      smaller |= ReduceSizes();
      smaller |= NarrowToFloat32();
    }
    return std::move(best_);
  }

 private:
  static std::vector<size_t> All(const Case& test) {
    std::vector<size_t> all;
    for (size_t i = 0; i < test.outputs.size(); ++i) all.push_back(i);
    return all;
  }

  bool Try(std::optional<Case> candidate) {
    if (!candidate || candidate->outputs.empty() || budget_-- <= 0) return false;
    if (!fails_(*candidate)) return false;
    best_ = *std::move(candidate);
    return true;
  }

  bool DropOutputs() {
    bool any = false;
    for (size_t i = best_.outputs.size(); i-- > 0 && best_.outputs.size() > 1;) {
      std::vector<size_t> keep = All(best_);
      keep.erase(keep.begin() + static_cast<std::ptrdiff_t>(i));
      any |= Try(Rebuild(best_, keep, Same));
    }
    return any;
  }

  bool DropOverwrites() {
    bool any = false;
    for (size_t i = 0; i < best_.overwrites.size(); ++i) {
      if (best_.overwrites[i] == Program::kFresh) continue;
      std::optional<Case> fresh = Rebuild(best_, All(best_), Same);
      fresh->overwrites[i] = Program::kFresh;
      any |= Try(Rebuild(*fresh, All(*fresh), Same));
    }
    return any;
  }

  int64_t FreeSlot(absl::Span<const Node* const> order) const {
    int64_t free_slot = 0;
    for (const Node* node : order) {
      if (node->op == Op::kParam) free_slot = std::max(free_slot, node->slot() + 1);
    }
    for (const int64_t overwrites : best_.overwrites) {
      free_slot = std::max(free_slot, overwrites + 1);
    }
    return free_slot;
  }

  // A node becomes an input or one of its sources, the nodes nearest to the outputs first.
  bool ReplaceNodes() {
    bool any = false;
    for (size_t back = 0;; ++back) {
      const std::vector<const Node*> order = TopologicalOrder(best_.outputs);
      if (back >= order.size() || budget_ <= 0) return any;
      const Node* victim = order[order.size() - 1 - back];
      if (victim->src.empty() || victim->dtype == DType::kVoid) continue;
      const int64_t free_slot = FreeSlot(order);
      bool replaced = false;
      for (size_t s = 0; s < victim->src.size() && !replaced; ++s) {
        if (victim->src[s]->dtype != victim->dtype || victim->src[s]->shape != victim->shape) {
          continue;
        }
        replaced =
            Try(Rebuild(best_, All(best_), [&](Graph& graph, const Node* node, const auto& src) {
              return node == victim ? src[s] : Same(graph, node, src);
            }));
      }
      if (!replaced) {
        replaced =
            Try(Rebuild(best_, All(best_), [&](Graph& graph, const Node* node, const auto& src) {
              return node == victim ? graph.Param(free_slot, node->dtype, node->shape)
                                    : Same(graph, node, src);
            }));
      }
      any |= replaced;
      if (replaced) --back;  // wraps to look at the same place again
    }
  }

  // A loop runs less often, or has a state less: the state stays what it is at first, and an input
  // takes the place of what it became.
  bool ShortenLoops() {
    bool any = false;
    for (size_t at = 0;; ++at) {
      const std::vector<const Node*> order = TopologicalOrder(best_.outputs);
      if (at >= order.size() || budget_ <= 0) return any;
      const Node* loop = order[at];
      if (loop->op != Op::kLoop) continue;
      for (const int64_t most : {0, 1, 2}) {
        if (most >= loop->ints[1]) break;
        const bool shorter =
            Try(Rebuild(best_, All(best_), [&](Graph& graph, const Node* node, const auto& src) {
              if (node != loop) return Same(graph, node, src);
              return TryIntern(graph, {.op = Op::kLoop, .src = src, .ints = {node->ints[0], most}});
            }));
        any |= shorter;
        if (shorter) break;
      }
      for (size_t k = loop::NumStates(loop); k-- > 0;) {
        if (!Try(WithoutState(loop, k, FreeSlot(order)))) continue;
        any = true;
        --at;  // wraps to look at the same place again
        break;
      }
    }
  }

  std::optional<Case> WithoutState(const Node* loop, size_t state, int64_t free_slot) const {
    const auto dropped = static_cast<int64_t>(state);
    const auto fewer = [&](int64_t number) { return number - (number > dropped ? 1 : 0); };
    return Rebuild(
        best_, All(best_), [&](Graph& graph, const Node* node, const auto& src) -> const Node* {
          if (node == loop) {
            std::vector<const Node*> others = src;
            const auto at = others.begin() + 1 + 2 * static_cast<std::ptrdiff_t>(state);
            others.erase(at, at + 2);
            return TryIntern(graph, {.op = Op::kLoop, .src = others, .ints = node->ints});
          }
          if (node->op == Op::kLoopResult && node->src[0] == loop) {
            if (node->slot() == dropped) return graph.Param(free_slot, node->dtype, node->shape);
            return TryIntern(graph, {.op = Op::kLoopResult,
                                     .src = src,
                                     .ints = {fewer(node->slot())},
                                     .dtype = node->dtype});
          }
          const bool is_state = node->op == Op::kCarry && std::ranges::count(loop->src, node) > 0;
          if (!is_state) return Same(graph, node, src);
          if (node->ints[1] == dropped) return src[0];
          return TryIntern(
              graph, {.op = Op::kCarry, .src = src, .ints = {node->ints[0], fewer(node->ints[1])}});
        });
  }

  // One number becomes a smaller one wherever shapes have it.
  bool ReduceSizes() {
    std::set<int64_t, std::greater<>> sizes;
    for (const Node* node : TopologicalOrder(best_.outputs)) {
      for (int64_t dim : node->shape) sizes.insert(dim);
    }
    bool any = false;
    for (const int64_t size : sizes) {
      for (const int64_t smaller : {int64_t{1}, int64_t{2}, size / 4, size / 2, size - 1}) {
        if (smaller < 1 || smaller >= size) continue;
        if (Try(Rebuild(best_, All(best_), [&](Graph& graph, const Node* node, const auto& src) {
              std::vector<int64_t> ints(node->ints.begin(), node->ints.end());
              const AttrKind kind = Info(node->op).attr;
              if (kind == AttrKind::kShape || kind == AttrKind::kParam) {
                const size_t first = kind == AttrKind::kParam ? 1 : 0;
                std::replace(ints.begin() + static_cast<std::ptrdiff_t>(first), ints.end(), size,
                             smaller);
              } else if (node->op == Op::kShrink) {
                for (size_t i = 1; i < ints.size(); i += 2) {
                  if (ints[i] == size) ints[i] = smaller;
                }
              } else if (kind == AttrKind::kSlide && ints[4] == size) {
                ints[4] = smaller;
              }
              return TryIntern(graph, {.op = node->op,
                                       .src = src,
                                       .ints = ints,
                                       .text = node->text,
                                       .dtype = node->dtype});
            }))) {
          any = true;
          break;
        }
      }
    }
    return any;
  }

  bool NarrowToFloat32() {
    bool any = false;
    std::set<DType> used;
    for (const Node* node : TopologicalOrder(best_.outputs)) used.insert(node->dtype);
    for (const DType from : used) {
      const DType to = IsFloat(from) ? DType::kFloat32 : DType::kInt32;
      if (from == to || from == DType::kBool) continue;
      any |= Try(Rebuild(
          best_, All(best_), [&](Graph& graph, const Node* node, const auto& src) -> const Node* {
            if (node->op == Op::kConst && node->dtype == from && !IsFloat(from)) {
              return graph.Int(to, node->Int());
            }
            return TryIntern(graph, {.op = node->op,
                                     .src = src,
                                     .ints = node->ints,
                                     .text = node->text,
                                     .dtype = node->dtype == from ? to : node->dtype});
          }));
    }
    return any;
  }

  const std::function<bool(Case&)>& fails_;
  int budget_;
  Case best_;
};

}  // namespace

Case Shrink(const Case& test, const std::function<bool(Case&)>& fails, int budget) {
  return Shrinker(test, fails, budget).Run();
}

}  // namespace tensord
