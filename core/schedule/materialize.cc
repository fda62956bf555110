#include "core/schedule/materialize.h"

#include <algorithm>

#include "core/ir/dims.h"
#include "core/schedule/fuse.h"

namespace tensord {
namespace {

// An expression between materialised tensors is at most this deep, an op counting by its cost, so
// that passes may recurse and no kernel grows beyond what the compiler takes in its stride.
constexpr int kMaxDepth = 192;
// An elementwise expression with more work than this is not computed twice.
constexpr int kMaxRecomputeCost = 32;
constexpr int kMaxCost = 1 << 20;  // where counting stops
// A factor of a contraction that is read this often is worth a buffer.
constexpr int64_t kOperandReuse = 4;

using Consumers = absl::flat_hash_map<const Node*, std::vector<const Node*>>;

// Movement ops through which each element of the source is read once at most.
bool IsOneToOne(Op op) { return In(op, MovementOps()) && op != Op::kExpand && op != Op::kSlide; }

bool IsSum(const Node* node) {
  return node->op == Op::kReduce && node->reduce_kind() == ReduceKind::kAdd;
}

// A reshape that only adds or drops axes of size 1.
bool KeepsAxes(const Node* node) {
  if (node->op == Op::kPermute) return true;
  if (node->op != Op::kReshape) return false;
  Sizes a = ShapeOf(node->src[0]), b = ShapeOf(node);
  for (Sizes* sizes : {&a, &b}) {
    sizes->erase(std::remove_if(sizes->begin(), sizes->end(), [](Dim dim) { return dim.IsOne(); }),
                 sizes->end());
  }
  return a == b;
}

// True for a sum that a later sum takes in: sum of (a movement of) a sum.
bool IsAbsorbed(const Node* reduce, const Consumers& consumers) {
  if (!IsSum(reduce)) return false;
  const Node* node = reduce;
  while (true) {
    const std::vector<const Node*>& users = consumers.at(node);
    if (users.size() != 1) return false;
    node = users[0];
    if (IsSum(node)) return true;
    if (!IsOneToOne(node->op)) return false;
  }
}

// Follows elementwise users of `node` until they come together again in one node; null if they
// don't, or lead elsewhere. The join of a node with one elementwise user is that user.
const Node* Join(const Node* node, const Consumers& consumers,
                 const absl::flat_hash_set<const Node*>& outputs) {
  constexpr int kMaxSteps = 12;
  std::vector<const Node*> open = consumers.at(node);
  for (int step = 0; step < kMaxSteps && !open.empty(); ++step) {
    const auto earliest = std::min_element(
        open.begin(), open.end(), [](const Node* a, const Node* b) { return a->id < b->id; });
    const Node* next = *earliest;
    if (!In(next->op, ElementwiseOps()) || !SameShape(next, node)) return nullptr;
    if (open.size() == 1) return next;
    if (outputs.contains(next)) return nullptr;
    open.erase(earliest);
    for (const Node* user : consumers.at(next)) {
      if (std::find(open.begin(), open.end(), user) == open.end()) open.push_back(user);
    }
  }
  return nullptr;
}

// The last tensor that only `reduce` and elementwise work on it lead to: storing that one instead
// makes the work an epilogue of the reduction. A scan stays in place, it runs in the loops of what
// is stored.
const Node* SinkPastElementwise(const Node* reduce, const Consumers& consumers,
                                const absl::flat_hash_set<const Node*>& outputs) {
  const Node* best = reduce;
  const Node* node = reduce;
  while (!outputs.contains(node)) {
    if (const Node* join = Join(node, consumers, outputs)) {
      best = node = join;
      continue;
    }
    const std::vector<const Node*>& users = consumers.at(node);
    if (reduce->op == Op::kScan || users.size() != 1 || !KeepsAxes(users[0])) break;
    node = users[0];
    if (outputs.contains(node)) best = node;
  }
  return best;
}

// Through movement to what is moved; tells whether an element may be read several times.
const Node* Base(const Node* node, bool* repeats) {
  *repeats = false;
  while (In(node->op, MovementOps())) {
    if (node->op == Op::kExpand || node->op == Op::kSlide) *repeats = true;
    node = node->src[0];
  }
  return node;
}

bool IsLeaf(const Node* node) {
  return node->op == Op::kParam || node->op == Op::kConst || node->op == Op::kVariable ||
         node->op == Op::kIota || node->dtype == DType::kIndex;
}

// What a contraction reads over and over: materialised, with the zeros of a Pad, unless it is in
// memory anyhow.
void AddOperands(const Node* product, absl::flat_hash_set<const Node*>& chosen) {
  for (const Node* factor : product->src) {
    const Node* node = factor;
    while (In(node->op, MovementOps()) && node->op != Op::kPad) node = node->src[0];
    if (IsLeaf(node)) continue;
    if (NumElements(product->shape) >= kOperandReuse * NumElements(node->shape)) {
      chosen.insert(node);
    }
  }
}
int Cost(const Node* node) {
  switch (node->op) {
    case Op::kExp:
    case Op::kLog:
    case Op::kSin:
      return 12;
    case Op::kDiv:
    case Op::kSqrt:
    case Op::kFloorDiv:
    case Op::kFloorMod:
    case Op::kTruncDiv:
    case Op::kTruncMod:
    case Op::kGather:
      return 4;
    default:
      return In(node->op, ElementwiseOps()) ? 1 : 0;
  }
}

}  // namespace

const Node* ContractionProduct(const Node* reduce) {
  if (!IsSum(reduce)) return nullptr;
  const Node* node = reduce->src[0];
  while (IsOneToOne(node->op) || IsSum(node)) node = node->src[0];
  if (node->op != Op::kMul || !IsFloat(node->dtype)) return nullptr;
  for (const Node* factor : node->src) {
    bool repeats;
    if (Base(factor, &repeats)->IsConst() || !repeats) return nullptr;
  }
  return node;
}

Materialized ChooseMaterialized(absl::Span<const Node* const> outputs) {
  const std::vector<const Node*> order = TopologicalOrder(outputs);
  const absl::flat_hash_set<const Node*> output_set(outputs.begin(), outputs.end());
  Consumers consumers;
  for (const Node* node : order) {
    consumers[node];
    for (const Node* src : node->src) {
      std::vector<const Node*>& users = consumers[src];
      if (users.empty() || users.back() != node) users.push_back(node);
    }
  }

  absl::flat_hash_set<const Node*> chosen;
  for (const Node* node : order) {
    if (node->op == Op::kContiguous || node->op == Op::kScatter) chosen.insert(node);
    if (node->op == Op::kUserKernelResult) {
      chosen.insert(node);
      chosen.insert(node->src[0]->src.begin(), node->src[0]->src.end());
    }
    if (node->op != Op::kReduce) continue;
    if (output_set.contains(node) || !IsAbsorbed(node, consumers)) {
      chosen.insert(SinkPastElementwise(node, consumers, output_set));
      if (const Node* product = ContractionProduct(node)) AddOperands(product, chosen);
    }
  }

  // One tensor takes in scans along one loop only, and none beside a reduction.
  absl::flat_hash_map<const Node*, absl::Span<const int64_t>> scans;
  for (const Node* node : order) {
    if (node->op != Op::kScan) continue;
    const Node* sink = SinkPastElementwise(node, consumers, output_set);
    const absl::Span<const int64_t> loop = node->ints.subspan(1, 2);  // axis, reverse
    const auto found = scans.find(sink);
    const bool fits = found != scans.end() ? found->second == loop : !chosen.contains(sink);
    if (!fits) sink = node;
    chosen.insert(sink);
    scans[sink] = loop;
  }

  // How often each is read, through movement: a moved value is computed where it is used.
  absl::flat_hash_map<const Node*, int> uses;
  for (auto place = order.rbegin(); place != order.rend(); ++place) {
    int64_t sum = 0;
    for (const Node* user : consumers[*place]) {
      sum += In(user->op, MovementOps()) ? std::max(uses[user], 1) : 1;
    }
    uses[*place] = static_cast<int>(std::min<int64_t>(sum, 1 << 20));
  }

  Materialized result;
  absl::flat_hash_map<const Node*, int> cost, depth;
  for (const Node* node : order) {
    int sum = Cost(node), deepest = 0;
    for (const Node* src : node->src) {
      sum = std::min(sum + cost[src], kMaxCost);
      // The rows of a Gather are computed inside of the index of its source.
      deepest = node->op == Op::kGather ? deepest + depth[src] : std::max(deepest, depth[src]);
    }
    const bool dear =
        sum > kMaxRecomputeCost && uses[node] > 1 && !IsLeaf(node) && !In(node->op, MovementOps());
    // A size is no tensor, and cheap.
    const bool is_param = node->op == Op::kParam || node->dtype == DType::kIndex;
    const bool is_empty = NumElements(node->shape) == 0;
    if (!is_param && !is_empty &&
        (output_set.contains(node) || chosen.contains(node) || dear || deepest >= kMaxDepth)) {
      result.set.insert(node);
      result.tensors.push_back(node);
      result.depth[node] = deepest + std::max(Cost(node), 1);
      cost[node] = depth[node] = 0;
    } else {
      cost[node] = is_param ? 0 : sum;
      depth[node] = is_param ? 0 : deepest + std::max(Cost(node), 1);
    }
  }

  for (const Node* tensor : result.tensors) {
    std::vector<const Node*>& needs = result.needs[tensor];
    absl::flat_hash_set<const Node*> seen = {tensor};
    std::vector<const Node*> stack = {tensor};
    while (!stack.empty()) {
      const Node* node = stack.back();
      stack.pop_back();
      if (node->op == Op::kReduce) {
        int64_t& most = result.reduces[tensor];
        most = std::max(most, NumElements(node->src[0]->shape) /
                                  std::max<int64_t>(NumElements(node->shape), 1));
        if (ContractionProduct(node) != nullptr) result.contracts.insert(tensor);
      }
      for (const Node* src : node->src) {
        if (!seen.insert(src).second) continue;
        if (src->op == Op::kParam || result.set.contains(src)) {
          needs.push_back(src);
        } else {
          stack.push_back(src);
        }
      }
    }
  }
  return result;
}

}  // namespace tensord
