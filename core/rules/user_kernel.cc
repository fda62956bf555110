#include "core/rules/user_kernel.h"

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>
#include <absl/container/inlined_vector.h>
#include <absl/numeric/int128.h>
#include <absl/strings/ascii.h>

#include <algorithm>

#include "core/base/status.h"
#include "core/ir/affine.h"
#include "core/ir/dims.h"
#include "core/ir/linear.h"
#include "core/ir/text.h"
#include "core/ir/user_kernel.h"
#include "core/rules/bounds.h"
#include "core/rules/spec.h"

namespace tensord {
namespace {

constexpr size_t kMaxNameBytes = 64;
constexpr size_t kMaxBodyBytes = 256 << 10;
constexpr size_t kMaxBodyNodes = 2048;
constexpr int kMaxBodyDepth = 256;
constexpr size_t kMaxUserBuffers = 32;
// Comparisons that one gate is made of, counted as often as they are used in it: a proof looks at
// each.
constexpr int kMaxComparisons = 32;
// Turns of all its ranges together, and what one range may count to.
constexpr int64_t kMaxTurns = int64_t{1} << 56;
constexpr int64_t kMaxRange = int64_t{1} << 40;

// Arithmetic on indices; none of it may overflow, so it is checked before it is done.
constexpr OpSet kIndexOps = OpBit(Op::kNeg) | OpBit(Op::kAdd) | OpBit(Op::kSub) | OpBit(Op::kMul) |
                            OpBit(Op::kFloorDiv) | OpBit(Op::kFloorMod) | OpBit(Op::kMax) |
                            OpBit(Op::kMin) | OpBit(Op::kCmpLt) | OpBit(Op::kCmpEq) |
                            OpBit(Op::kCmpNe);
constexpr OpSet kStructure = OpBit(Op::kConst) | OpBit(Op::kParam) | OpBit(Op::kRange) |
                             OpBit(Op::kLoad) | OpBit(Op::kStore) | OpBit(Op::kFold) |
                             OpBit(Op::kSink);

bool IsIndex(const Node* node) { return node->dtype == DType::kIndex; }

// Before a node with an index as result or operand is made.
absl::Status CheckIndexOp(const Node* node, absl::Span<const Node* const> src) {
  const bool has_index = std::any_of(src.begin(), src.end(), IsIndex);
  if (node->op == Op::kCast && IsIndex(node)) {
    if (!IsIndex(src[0]) && !IsInt(src[0]->dtype)) {
      return InvalidArgument("a {} does not become an index", Name(src[0]->dtype));
    }
    return absl::OkStatus();
  }
  if (node->op == Op::kCast && has_index) {
    if (!IsInt(node->dtype)) return InvalidArgument("an index becomes an integer only");
    return absl::OkStatus();
  }
  if ((!has_index && !IsIndex(node)) || In(node->op, kStructure)) return absl::OkStatus();
  if (!In(node->op, kIndexOps)) {
    return InvalidArgument("no {} of indices: cast them to an integer dtype", Name(node->op));
  }
  if (node->op == Op::kFloorDiv || node->op == Op::kFloorMod) {
    if (!src[1]->IsConst() || src[1]->Int() <= 0) {
      return InvalidArgument("an index is divided by positive constants only");
    }
  }
  if (src.size() == 2) return CheckDimOp(node->op, src[0], src[1]);
  return absl::OkStatus();
}

absl::Status CheckOp(const Node* node) {
  const bool elementwise = In(node->op, ElementwiseOps()) && node->op != Op::kFma;
  if (!elementwise && !In(node->op, kStructure)) {
    return InvalidArgument("the op is not legal in a kernel");
  }
  if (!IsIndex(node) && node->dtype != DType::kVoid && ItemSize(node->dtype) == 0) {
    return InvalidArgument("values are of dtypes that memory can hold");
  }
  if (node->op == Op::kRange) {
    const RangeKind kind = node->range_kind();
    if (node->is_bounded() || (kind != RangeKind::kLoop && kind != RangeKind::kReduce)) {
      return InvalidArgument("wants a loop or reduce range whose size is a number");
    }
    if (node->range_size() > kMaxRange) {
      return InvalidArgument("the range has more than {} turns", kMaxRange);
    }
  }
  return absl::OkStatus();
}

class Reader {
 public:
  explicit Reader(const Node* call)
      : call_(call), outputs_(user_kernel::OutputsOf(call)), name_(user_kernel::NameOf(call)) {}

  absl::StatusOr<UserKernel> Run() {
    TD_RETURN_IF_ERROR(CheckName());
    TD_RETURN_IF_ERROR(ReadBody(), "kernel '{}'", name_);
    TD_RETURN_IF_ERROR(VerifyKernel({kernel_.sink}), "kernel '{}'", name_);
    order_ = TopologicalOrder({kernel_.sink});
    TD_RETURN_IF_ERROR(CheckBuffers(), "kernel '{}'", name_);
    TD_RETURN_IF_ERROR(CheckStores(), "kernel '{}'", name_);
    TD_RETURN_IF_ERROR(OrderLoops(), "kernel '{}'", name_);
    TD_RETURN_IF_ERROR(CheckBounds(), "kernel '{}'", name_);
    return std::move(kernel_);
  }

 private:
  absl::Status CheckName() const {
    const bool legal = !name_.empty() && name_.size() <= kMaxNameBytes &&
                       !absl::ascii_isdigit(name_[0]) &&
                       std::all_of(name_.begin(), name_.end(),
                                   [](char c) { return absl::ascii_isalnum(c) || c == '_'; });
    if (legal) return absl::OkStatus();
    return InvalidArgument(
        "a kernel's name is letters, digits and underscores, {} at most, and starts with no digit",
        kMaxNameBytes);
  }

  // The body in a graph of its own, made anew so that indices have their normal form.
  absl::Status ReadBody() {
    if (call_->src.size() + outputs_.size() > kMaxUserBuffers) {
      return InvalidArgument("{} inputs and outputs, more than {}",
                             call_->src.size() + outputs_.size(), kMaxUserBuffers);
    }
    const std::string_view body = user_kernel::BodyOf(call_);
    if (body.size() > kMaxBodyBytes) {
      return ResourceExhausted("its text has {} bytes, more than {}", body.size(), kMaxBodyBytes);
    }
    Graph written;
    TD_ASSIGN_OR_RETURN(const std::vector<const Node*> roots, Parse(body, written));
    if (roots.size() != 1 || roots[0]->op != Op::kSink) {
      return InvalidArgument("its body is one Sink over Stores");
    }
    const std::vector<const Node*> order = TopologicalOrder(roots);
    if (order.size() > kMaxBodyNodes) {
      return ResourceExhausted("its body has {} nodes, more than {}", order.size(), kMaxBodyNodes);
    }
    absl::flat_hash_map<const Node*, const Node*> made;
    absl::flat_hash_map<const Node*, int> depth;
    for (const Node* node : order) {
      absl::InlinedVector<const Node*, 4> src;
      int& deep = depth[node];
      for (const Node* source : node->src) {
        src.push_back(made.at(source));
        deep = std::max(deep, 1 + depth.at(source));
      }
      if (deep > kMaxBodyDepth) {
        return ResourceExhausted("its expressions are more than {} ops deep", kMaxBodyDepth);
      }
      TD_ASSIGN_OR_RETURN(made[node], Made(node, src), "{}", PrintNode(node));
    }
    kernel_.sink = made.at(roots[0]);
    return absl::OkStatus();
  }

  absl::StatusOr<const Node*> Made(const Node* node, absl::Span<const Node* const> src) {
    TD_RETURN_IF_ERROR(CheckOp(node));
    TD_RETURN_IF_ERROR(CheckIndexOp(node, src));
    TD_ASSIGN_OR_RETURN(const Node* made, kernel_.graph.TryMake({.op = node->op,
                                                                 .src = src,
                                                                 .ints = node->ints,
                                                                 .text = node->text,
                                                                 .dtype = node->dtype}));
    if (IsIndex(made) && !CheckDim(made).ok()) {
      return InvalidArgument(
          "the index {} may be beyond 2^48: cast data to int32 before it becomes an index, or "
          "clamp it",
          TextOf(Dim{0, made}));
    }
    return made;
  }

  absl::Status CheckBuffers() const {
    for (const Node* node : order_) {
      if (node->op != Op::kParam) continue;
      const auto slot = static_cast<size_t>(node->slot());
      if (slot >= outputs_.size() + call_->src.size()) {
        return InvalidArgument("buffer {} is unknown: it has {} outputs and {} inputs", slot,
                               outputs_.size(), call_->src.size());
      }
      const bool is_output = slot < outputs_.size();
      const Node* input = is_output ? nullptr : call_->src[slot - outputs_.size()];
      const DType dtype = is_output ? outputs_[slot].dtype : input->dtype;
      const int64_t elements = NumElements(is_output ? outputs_[slot].dims : input->shape);
      if (node->dtype != dtype || node->ints[1] != elements || elements == 0) {
        return InvalidArgument("buffer {} is {}[{}], the body has {}[{}]", slot, Name(dtype),
                               elements, Name(node->dtype), node->ints[1]);
      }
    }
    for (const Node* node : order_) {
      if (node->op == Op::kLoad && !IsInput(node->src[0])) {
        return InvalidArgument("it reads output {}: outputs are stored only", node->src[0]->slot());
      }
      if (node->op == Op::kStore && IsInput(node->src[0])) {
        return InvalidArgument("it stores to input {}: inputs are read only",
                               node->src[0]->slot() - static_cast<int64_t>(outputs_.size()));
      }
      if (node->op != Op::kFold) continue;
      for (const Node* range : node->src.subspan(1)) {
        if (range->range_kind() == RangeKind::kReduce) continue;
        return InvalidArgument("it reduces over r{}, which is no reduce range", range->range_id());
      }
    }
    return absl::OkStatus();
  }

  bool IsInput(const Node* param) const {
    return param->slot() >= static_cast<int64_t>(outputs_.size());
  }

  absl::Status CheckStores() {
    std::vector<const Node*> stores(outputs_.size(), nullptr);
    for (const Node* store : kernel_.sink->src) {
      const Node*& mine = stores[store->src[0]->slot()];
      if (mine != nullptr) {
        return InvalidArgument(
            "output {} has two Stores: store each output once, choosing values by Where",
            store->src[0]->slot());
      }
      mine = store;
    }
    FindFree();
    for (size_t k = 0; k < stores.size(); ++k) {
      if (stores[k] == nullptr) return InvalidArgument("output {} is never stored", k);
      TD_RETURN_IF_ERROR(CheckStore(k, stores[k]));
    }
    kernel_.sink = kernel_.graph.Make(Op::kSink, stores, {});
    stores_ = std::move(stores);
    return absl::OkStatus();
  }

  // Its index takes every place once: it is a sum of loops with mixed-radix strides, and there are
  // as many turns as places.
  absl::Status CheckStore(size_t output, const Node* store) {
    const int64_t elements = store->src[0]->ints[1];
    const auto error = [&](std::string_view rule) {
      return InvalidArgument("output {} is stored at {}: {}", output, Text(store->src[1]), rule);
    };
    if (store->src.size() != 3) {
      return error("a Store has no gate: choose the value by Where, every place gets one");
    }
    const Affine index = ToAffine(store->src[1]);
    std::vector<Affine::Term> terms(index.terms.begin(), index.terms.end());
    for (const Affine::Term& term : terms) {
      if (term.atom->op == Op::kRange && term.atom->range_kind() == RangeKind::kLoop) continue;
      return error(
          "the index must be made of loop ranges, each once, so that no place is stored "
          "twice");
    }
    std::sort(terms.begin(), terms.end(), [](const Affine::Term& a, const Affine::Term& b) {
      return std::abs(a.coefficient) < std::abs(b.coefficient);
    });
    absl::int128 reach = 0, turns = 1;
    for (const Affine::Term& term : terms) {
      const int64_t size = term.atom->range_size(), stride = std::abs(term.coefficient);
      if (size > 1 && stride <= reach) return error("two turns of its loops store to one place");
      reach += absl::int128(stride) * (size - 1);
      turns *= size;
      if (reach > kMaxTurns || turns > kMaxTurns) return error("it leaves the output");
    }
    if (index.lo() < 0 || index.hi() >= elements) {
      return error(fmt::format("that is in [{}, {}], outside of its {} elements", index.lo(),
                               index.hi(), elements));
    }
    for (const Node* range : free_.at(store->src[2])) {
      if (range->range_size() == 1 || index.CoefficientOf(range) != 0) continue;
      return error(fmt::format("the value depends on r{}, so each place would be stored {} times",
                               range->range_id(), range->range_size()));
    }
    if (turns != elements) {
      return error(fmt::format("{} of its {} elements are stored, all must be",
                               static_cast<int64_t>(turns), elements));
    }
    return absl::OkStatus();
  }

  // By node: ranges that it depends on and does not reduce.
  void FindFree() {
    for (const Node* node : order_) {
      RangeSet& mine = free_[node];
      if (node->op == Op::kRange) mine.insert(node);
      const size_t operands = node->op == Op::kFold ? 1 : node->src.size();
      for (size_t i = 0; i < operands; ++i) {
        const RangeSet& more = free_.at(node->src[i]);
        mine.insert(more.begin(), more.end());
      }
      if (node->op != Op::kFold) continue;
      for (const Node* range : node->src.subspan(1)) mine.erase(range);
    }
  }

  absl::Status OrderLoops() {
    std::vector<std::vector<const Node*>> sets;
    absl::int128 turns = 1;
    for (const Node* store : stores_) {
      std::vector<const Node*>& set = sets.emplace_back();
      for (const Affine::Term& term : ToAffine(store->src[1]).terms) set.push_back(term.atom);
      std::sort(set.begin(), set.end(),
                [](const Node* a, const Node* b) { return a->range_id() < b->range_id(); });
    }
    std::stable_sort(sets.begin(), sets.end(),
                     [](const auto& a, const auto& b) { return a.size() < b.size(); });
    for (const auto& set : sets) {
      for (const Node* loop : kernel_.loops) {
        if (std::find(set.begin(), set.end(), loop) != set.end()) continue;
        return InvalidArgument(
            "its outputs are stored in loops that do not nest: r{} is around one Store and not "
            "around another that has loops of its own; write two kernels",
            loop->range_id());
      }
      for (const Node* range : set) {
        const auto known = std::find(kernel_.loops.begin(), kernel_.loops.end(), range);
        if (known == kernel_.loops.end()) kernel_.loops.push_back(range);
      }
    }
    for (const Node* node : order_) {
      if (node->op != Op::kRange) continue;
      turns *= node->range_size();
      if (turns > kMaxTurns) return ResourceExhausted("its loops have more than 2^56 turns");
    }
    return absl::OkStatus();
  }

  // How many comparisons a condition is made of, at most kMaxComparisons + 1.
  absl::flat_hash_map<const Node*, int> CountComparisons() const {
    constexpr OpSet kLogic = OpBit(Op::kAnd) | OpBit(Op::kOr) | OpBit(Op::kXor) | OpBit(Op::kMul) |
                             OpBit(Op::kAdd) | OpBit(Op::kMin) | OpBit(Op::kMax);
    absl::flat_hash_map<const Node*, int> count;
    for (const Node* node : order_) {
      int& mine = count[node];
      if (node->dtype != DType::kBool) continue;
      mine = 1;
      if (!In(node->op, kLogic)) continue;
      mine = std::min(count.at(node->src[0]) + count.at(node->src[1]), kMaxComparisons + 1);
    }
    return count;
  }

  absl::Status CheckBounds() const {
    const absl::flat_hash_map<const Node*, int> comparisons = CountComparisons();
    std::vector<const Node*> loads;
    for (const Node* node : order_) {
      if (node->op != Op::kLoad) continue;
      loads.push_back(node);
      if (node->src.size() > 2 && comparisons.at(node->src[2]) > kMaxComparisons) {
        return ResourceExhausted("the gate of {} has more than {} comparisons", PrintNode(node),
                                 kMaxComparisons);
      }
    }
    const Node* load = FirstUnproven(loads);
    if (load == nullptr) return absl::OkStatus();
    const Node* index = load->src[1];
    return InvalidArgument(
        "input {} is read at {}, which is in [{}, {}] and not proven to stay within [0, {}): give "
        "the read a gate that says when it is inside",
        load->src[0]->slot() - static_cast<int64_t>(outputs_.size()), Text(index), index->lo,
        index->hi, load->src[0]->ints[1]);
  }

  static std::string Text(const Node* index) { return TextOf(Dim{0, index}); }

  using RangeSet = absl::flat_hash_set<const Node*>;

  const Node* call_;
  const std::vector<user_kernel::Output> outputs_;
  const std::string_view name_;
  UserKernel kernel_;
  std::vector<const Node*> order_;   // of the body
  std::vector<const Node*> stores_;  // by output
  absl::flat_hash_map<const Node*, RangeSet> free_;
};

}  // namespace

absl::StatusOr<UserKernel> ReadUserKernel(const Node* call) { return Reader(call).Run(); }

const Node* FirstUnproven(absl::Span<const Node* const> loads) {
  LinearProgram accesses;  // as far as a proof looks at one
  for (const Node* node : TopologicalOrder(loads)) {
    if (node->op != Op::kParam) continue;
    const auto slot = static_cast<size_t>(node->slot());
    accesses.written.resize(std::max(accesses.written.size(), slot + 1));
  }
  accesses.body.assign(loads.begin(), loads.end());
  const std::vector<const Node*> unproven = UnprovenAccesses(accesses);
  return unproven.empty() ? nullptr : unproven[0];
}

}  // namespace tensord
