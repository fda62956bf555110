#include "core/codegen/linearize.h"

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include <algorithm>

#include "core/base/check.h"
#include "core/base/status.h"
#include "core/codegen/copies.h"
#include "core/codegen/instructions.h"
#include "core/codegen/turn_guards.h"
#include "core/ir/affine.h"
#include "core/ir/eval.h"

namespace tensord {
namespace {

class Linearizer {
 public:
  Linearizer(LoopNest& nest, const Target& target, LinearProgram& program)
      : nest_(nest),
        graph_(nest.graph),
        target_(target),
        program_(program),
        free_(nest.sink),
        copies_(free_),
        guards_(nest.sink, free_),
        code_(nest.graph) {}

  absl::Status Run() {
    GroupFolds();
    TD_RETURN_IF_ERROR(copies_.Number(nest_.sink, fold_ranges_, program_.name));
    for (const Node* node : TopologicalOrder({nest_.sink})) {
      if (node->op == Op::kRange && node->range_kind() == RangeKind::kGrid) {
        program_.grid = node->range_size();
      }
    }
    MakeLoops();
    // A store inside a reduction's loop is made with that loop.
    std::vector<const Node*> stores;
    for (const Node* store : nest_.sink->src) {
      if (!HasFoldRange(store)) stores.push_back(store);
    }
    StoreAll(stores);
    // An inner loop of the outputs comes after all else in its outer loop, which it may need.
    for (const Node* loop : nest_.loops) {
      if (Region* region = code_.LoopOf(loop)) region->parent->items.push_back(region);
    }
    code_.AppendTo(program_.body);
    return absl::OkStatus();
  }

 private:
  void MakeLoops();
  void GroupFolds();
  Region* NewLoop(const Node* range, Region* parent);

  // The value of a kernel-level node for one copy, at the linear level.
  const Node* Value(const Node* node, Copy copy);
  const Node* NewValue(const Node* node, Copy copy);
  const Node* IndexVector(const Node* node, Copy copy);
  const Node* Load(const Node* node, Copy copy);
  const Node* Running(const Node* node, Copy copy);
  const Node* GateOf(const Node* load, Copy copy);
  bool HasFoldRange(const Node* node) const;
  void StoreAll(absl::Span<const Node* const> stores);
  void Store(const Node* node, Copy copy);
  void Fold(const Node* fold);
  const Node* FoldBody(const Node* fold, const std::vector<Copy>& terms, int lanes,
                       const Node* accumulator, Region* inner);
  bool IsContiguous(const Node* index, const Node* vector) const;

  const Node* Read(const Node* accumulator, Region* region);

  LoopNest& nest_;
  Graph& graph_;
  const Target& target_;
  LinearProgram& program_;
  FreeRanges free_;
  Copies copies_;
  TurnGuards guards_;
  Instructions code_;
  absl::flat_hash_map<const Node*, const Node*> bounded_;  // ranges that end early, linear level
  absl::flat_hash_map<std::pair<const Node*, Copy>, const Node*> values_;
  // Folds with the same ranges run in one loop; keyed by their first range.
  absl::flat_hash_map<const Node*, std::vector<const Node*>> group_of_;
  absl::flat_hash_set<const Node*> fold_ranges_;
  int64_t next_accumulator_ = 0, next_read_ = 0;
};

Region* Linearizer::NewLoop(const Node* range, Region* parent) {
  if (!range->is_bounded()) return code_.AddLoop(range, range, parent);
  // The bound may depend on the workgroup.
  const Node* bound = Value(range->src[0], Copy());
  bounded_[range] = graph_.Make(Op::kRange, {&bound, 1}, range->ints);
  return code_.AddLoop(range, bounded_[range], parent);
}

// The loops of each store, in the order of the nest.
void Linearizer::MakeLoops() {
  for (const Node* store : nest_.sink->src) {
    Region* region = code_.root();
    for (const Node* loop : nest_.loops) {
      if (loop->range_kind() != RangeKind::kLoop || !free_.Depends(store, loop)) continue;
      Region* known = code_.LoopOf(loop);
      region = known != nullptr ? known : NewLoop(loop, region);
    }
  }
}

void Linearizer::GroupFolds() {
  for (const Node* node : TopologicalOrder({nest_.sink})) {
    if (node->op != Op::kFold) continue;
    group_of_[node->src[1]].push_back(node);
    fold_ranges_.insert(node->src.begin() + 1, node->src.end());
  }
}

const Node* Linearizer::Value(const Node* node, Copy copy) {
  copy = copies_.For(node, copy);
  const auto key = std::make_pair(node, copy);
  if (auto found = values_.find(key); found != values_.end()) return found->second;
  const Node* value = NewValue(node, copy);
  values_[key] = value;
  return value;
}

const Node* Linearizer::NewValue(const Node* node, Copy copy) {
  switch (node->op) {
    case Op::kConst:
    case Op::kParam:
    case Op::kVariable:
      return node;
    case Op::kRange:
      switch (node->range_kind()) {
        case RangeKind::kGrid:
          return code_.EmitOp(Op::kGridIndex, {}, {0});
        case RangeKind::kUnroll:
          return graph_.Index(copy.Get(copies_.SlotOf(node)));
        case RangeKind::kVector:
          return copies_.AllLanes(node, copy) ? IndexVector(node, copy)
                                              : graph_.Index(copy.Get(copies_.SlotOf(node)));
        default:
          return node->is_bounded() ? bounded_.at(node) : node;
      }
    case Op::kLoad:
      return Load(node, copy);
    case Op::kFold:
      if (const Node* vector = copies_.VectorRange(node);
          vector != nullptr && !copies_.AllLanes(node, copy)) {
        const int slot = copies_.SlotOf(vector);
        return code_.EmitOp(Op::kExtract, {Value(node, copy.With(slot, -1))}, {copy.Get(slot)});
      }
      Fold(node);
      return values_.at({node, copy});
    case Op::kRunning:
      return Running(node, copy);
    default:
      break;
  }
  if (node->dtype == DType::kIndex && copies_.AllLanes(node, copy)) return IndexVector(node, copy);
  std::vector<const Node*> src;
  int lanes = 1;
  for (const Node* operand : node->src) {
    src.push_back(Value(operand, copy));
    lanes = std::max<int>(lanes, src.back()->lanes);
  }
  // Processors divide integers one by one, and LLVM 19 takes a vector of divisors that are guarded
  // against zero for ones where some lanes are constant.
  constexpr OpSet kDivisions =
      OpBit(Op::kFloorDiv) | OpBit(Op::kFloorMod) | OpBit(Op::kTruncDiv) | OpBit(Op::kTruncMod);
  const bool lane_by_lane = In(node->op, kDivisions) && lanes > 1 && !src[1]->IsConst();
  for (const Node*& operand : src) operand = code_.Widen(operand, lanes);
  if (lane_by_lane) {
    std::vector<const Node*> values;
    for (int64_t lane = 0; lane < lanes; ++lane) {
      values.push_back(code_.EmitOp(node->op, {code_.EmitOp(Op::kExtract, {src[0]}, {lane}),
                                               code_.EmitOp(Op::kExtract, {src[1]}, {lane})}));
    }
    return code_.EmitOp(Op::kStack, values);
  }
  return code_.Emit({.op = node->op, .src = src, .ints = node->ints, .dtype = node->dtype});
}

// An index in all lanes: base + lane * stride where it is affine, lane by lane where not.
const Node* Linearizer::IndexVector(const Node* node, Copy copy) {
  const Node* vector = copies_.VectorRange(node);
  const int slot = copies_.SlotOf(vector);
  const uint16_t lanes = static_cast<uint16_t>(vector->range_size());
  bool affine = true;
  const Affine index = ToAffine(node);
  for (const Affine::Term& term : index.terms) {
    affine &= term.atom == vector || !free_.Depends(term.atom, vector);
  }
  if (affine) {
    const Node* base = Value(node, copy.With(slot, 0));
    const Node* ramp = code_.Emit({.op = Op::kRamp, .dtype = DType::kIndex, .lanes = lanes});
    const Node* stride = code_.Widen(graph_.Index(index.CoefficientOf(vector)), lanes);
    return code_.EmitOp(Op::kAdd,
                        {code_.Widen(base, lanes), code_.EmitOp(Op::kMul, {ramp, stride})});
  }
  std::vector<const Node*> values;
  for (int64_t lane = 0; lane < lanes; ++lane) values.push_back(Value(node, copy.With(slot, lane)));
  return code_.EmitOp(Op::kStack, values);
}

bool Linearizer::IsContiguous(const Node* index, const Node* vector) const {
  const Affine affine = ToAffine(index);
  for (const Affine::Term& term : affine.terms) {
    if (term.atom != vector && free_.Depends(term.atom, vector)) return false;
  }
  return affine.CoefficientOf(vector) == 1;
}

// The gate of a load that may stand before a loop without turns; null if it needs none.
const Node* Linearizer::GateOf(const Node* load, Copy copy) {
  const Node* gate = load->src.size() > 2 ? Value(load->src[2], copy) : nullptr;
  for (const Node* number : guards_.Of(load)) {
    const Node* turns = code_.EmitOp(Op::kCmpLt, {graph_.Index(0), Value(number, Copy())});
    if (gate != nullptr && gate->lanes > 1) turns = code_.Widen(turns, gate->lanes);
    gate = gate == nullptr ? turns : code_.EmitOp(Op::kAnd, {gate, turns});
  }
  return gate;
}

const Node* Linearizer::Load(const Node* node, Copy copy) {
  const Node *param = node->src[0], *index = node->src[1];
  if (!copies_.AllLanes(node, copy)) {
    std::vector<const Node*> src = {param, Value(index, copy)};
    if (const Node* gate = GateOf(node, copy)) src.push_back(gate);
    return code_.Emit({.op = Op::kLoad, .src = src});
  }
  const Node* vector = copies_.VectorRange(node);
  const int slot = copies_.SlotOf(vector);
  const uint16_t lanes = static_cast<uint16_t>(vector->range_size());
  if (IsContiguous(index, vector)) {
    std::vector<const Node*> src = {param, Value(index, copy.With(slot, 0))};
    if (const Node* gate = GateOf(node, copy)) {
      src.push_back(node->src.size() > 2 ? code_.Widen(gate, lanes) : gate);
    }
    return code_.Emit({.op = Op::kLoad, .src = src, .lanes = lanes});
  }
  std::vector<const Node*> values;
  for (int64_t lane = 0; lane < lanes; ++lane) values.push_back(Value(node, copy.With(slot, lane)));
  return code_.EmitOp(Op::kStack, values);
}

// An accumulator around the scan's loop, which takes in one value a step.
const Node* Linearizer::Running(const Node* node, Copy copy) {
  const Node* vector = copies_.VectorRange(node);
  if (vector != nullptr && !copies_.AllLanes(node, copy)) {
    const int slot = copies_.SlotOf(vector);
    return code_.EmitOp(Op::kExtract, {Value(node, copy.With(slot, -1))}, {copy.Get(slot)});
  }
  const ScanKind kind = node->scan_kind();
  const Node* value = code_.Widen(Value(node->src[0], copy),
                                  vector == nullptr ? 1 : static_cast<int>(vector->range_size()));
  Region* loop = code_.LoopOf(node->src[1]);
  const auto constant = [&](const Scalar& number) {
    return code_.Widen(
        graph_.Intern({.op = Op::kConst, .ints = {number.attribute()}, .dtype = node->dtype}),
        value->lanes);
  };
  const Node* accumulator = code_.Emit({.op = Op::kAccumulator,
                                        .src = {constant(ScanIdentity(kind, node->dtype))},
                                        .ints = {next_accumulator_++}},
                                       loop->parent);
  const Node* before = Read(accumulator, loop);
  const auto make = [&](Op op, std::initializer_list<const Node*> src) {
    return code_.Emit({.op = op, .src = src}, loop);
  };
  const Node* total =
      kind == ScanKind::kLogAdd
          ? LogAdd(before, value, make,
                   [&](double x) { return constant(Scalar::Float(node->dtype, x)); })
          : make(CombineOp(static_cast<ReduceKind>(kind)), {before, value});
  make(Op::kUpdate, {accumulator, total});
  return node->running_exclusive() ? before : total;
}

bool Linearizer::HasFoldRange(const Node* node) const {
  return std::any_of(free_.Of(node).begin(), free_.Of(node).end(),
                     [&](const Node* range) { return fold_ranges_.contains(range); });
}

// All values before the first store: a store may overwrite what another one's value reads.
void Linearizer::StoreAll(absl::Span<const Node* const> stores) {
  for (const Node* store : stores) {
    copies_.ForEach(copies_.FreeSlots(store), Copy(),
                    [&](Copy copy) { Value(store->src[2], copy); });
  }
  for (const Node* store : stores) {
    copies_.ForEach(copies_.FreeSlots(store), Copy(), [&](Copy copy) { Store(store, copy); });
  }
}

void Linearizer::Store(const Node* node, Copy copy) {
  const Node *param = node->src[0], *index = node->src[1], *stored = node->src[2];
  const Node* vector = copies_.VectorRange(node);
  // Once for each value of the loops of its index, whatever its value depends on.
  Region* region = code_.root();
  for (const Node* range : free_.Of(node)) {
    if (Region* loop = code_.LoopOf(range)) region = Instructions::Deeper(region, loop);
  }
  // Where the gate is false nothing is stored.
  const Node* gate = node->op == Op::kModify ? node->src[3] : nullptr;
  const bool sets = gate != nullptr && node->scatter_kind() == ScatterKind::kSet;
  if (gate != nullptr && gate->IsConst()) {
    if (gate->Int() == 0) return;
    // A store without a gate and without a load is taken to be one of all elements.
    if (!sets) gate = nullptr;
  }
  const auto store = [&](const Node* at, const Node* value, const Node* where) {
    std::vector<const Node*> src = {param, at};
    if (where != nullptr) src.push_back(where);
    if (node->op == Op::kModify && !sets) {
      const Op combine = CombineOp(static_cast<ReduceKind>(node->scatter_kind()));
      const Node* old = code_.Emit({.op = Op::kLoad, .src = src, .lanes = value->lanes}, region);
      value = code_.Emit({.op = combine, .src = {{old, value}}}, region);
    }
    src.insert(src.begin() + 2, value);
    code_.Emit({.op = Op::kStore, .src = src}, region);
  };
  const Node* value = Value(stored, copy);
  if (vector == nullptr) {
    store(Value(index, copy), value, gate == nullptr ? nullptr : Value(gate, copy));
    return;
  }
  const int slot = copies_.SlotOf(vector);
  const int lanes = static_cast<int>(vector->range_size());
  value = code_.Widen(value, lanes);
  if (IsContiguous(index, vector)) {
    store(Value(index, copy.With(slot, 0)), value,
          gate == nullptr ? nullptr : code_.Widen(Value(gate, copy), lanes));
    return;
  }
  for (int64_t lane = 0; lane < lanes; ++lane) {
    const Copy own = copy.With(slot, lane);
    store(Value(index, own), code_.EmitOp(Op::kExtract, {value}, {lane}),
          gate == nullptr ? nullptr : Value(gate, own));
  }
}

const Node* Linearizer::Read(const Node* accumulator, Region* region) {
  return code_.Emit({.op = Op::kRead, .src = {accumulator}, .ints = {next_read_++}}, region);
}

// One step of a reduction: the accumulator's value with the terms of all copies taken in.
const Node* Linearizer::FoldBody(const Node* fold, const std::vector<Copy>& terms, int lanes,
                                 const Node* accumulator, Region* inner) {
  const ReduceKind kind = fold->reduce_kind();
  const Node* body = fold->src[0];
  const bool multiply_add =
      kind == ReduceKind::kAdd && body->op == Op::kMul && IsFloat(body->dtype) && target_.has_fma;
  if (multiply_add && accumulator != nullptr) {
    const Node* sum = Read(accumulator, inner);
    for (Copy copy : terms) {
      const Node* a = code_.Widen(Value(body->src[0], copy), lanes);
      const Node* b = code_.Widen(Value(body->src[1], copy), lanes);
      sum = code_.EmitOp(Op::kFma, {a, b, sum});
    }
    return sum;
  }
  // As a tree, so that the chain through the accumulator is one op long.
  std::vector<const Node*> values;
  for (Copy copy : terms) values.push_back(code_.Widen(Value(body, copy), lanes));
  while (values.size() > 1) {
    std::vector<const Node*> half;
    for (size_t i = 0; i + 1 < values.size(); i += 2) {
      half.push_back(code_.EmitOp(CombineOp(kind), {values[i], values[i + 1]}));
    }
    if (values.size() % 2 == 1) half.push_back(values.back());
    values = std::move(half);
  }
  if (accumulator == nullptr) return values[0];
  return code_.EmitOp(CombineOp(kind), {Read(accumulator, inner), values[0]});
}

// All copies of all Folds that run in the loop of this one.
void Linearizer::Fold(const Node* fold) {
  const std::vector<const Node*>& group = group_of_.at(fold->src[1]);
  Region* outer = code_.root();
  for (const Node* member : group) {
    TD_CHECK(member->src.subspan(1) == fold->src.subspan(1), "folds share a part of their loops");
    for (const Node* range : free_.Of(member)) {
      if (Region* loop = code_.LoopOf(range)) outer = Instructions::Deeper(outer, loop);
    }
  }
  // And inside the loops that a store in its own loop needs.
  for (const Node* store : nest_.sink->src) {
    const std::vector<const Node*>& free = free_.Of(store);
    if (std::none_of(fold->src.begin() + 1, fold->src.end(), [&](const Node* range) {
          return std::find(free.begin(), free.end(), range) != free.end();
        })) {
      continue;
    }
    for (const Node* range : free) {
      Region* loop = code_.LoopOf(range);
      if (loop != nullptr && range->range_kind() == RangeKind::kLoop) {
        outer = Instructions::Deeper(outer, loop);
      }
    }
  }
  Region* inner = outer;
  std::vector<int> own_slots;
  const Node* own_vector = nullptr;
  for (const Node* range : fold->src.subspan(1)) {
    switch (range->range_kind()) {
      case RangeKind::kUnroll:
        own_slots.push_back(copies_.SlotOf(range));
        break;
      case RangeKind::kVector:
        own_vector = range;
        break;
      default:
        inner = NewLoop(range, inner);
    }
  }

  struct Pending {
    const Node* member;
    Copy copy;
    const Node* accumulator;
  };
  std::vector<Pending> pending;
  for (const Node* member : group) {
    const Node* outer_vector = copies_.VectorRange(member);
    TD_CHECK(own_vector == nullptr || outer_vector == nullptr, "lanes along two loops");
    const Node* vector = own_vector != nullptr ? own_vector : outer_vector;
    const int lanes = vector == nullptr ? 1 : static_cast<int>(vector->range_size());
    const Scalar identity = ReduceIdentity(member->reduce_kind(), member->dtype);
    const Node* start =
        graph_.Intern({.op = Op::kConst, .ints = {identity.attribute()}, .dtype = member->dtype});
    copies_.ForEach(copies_.FreeSlots(member), Copy(), [&](Copy copy) {
      std::vector<Copy> terms;
      copies_.ForEach(own_slots, copy, [&](Copy term) { terms.push_back(term); });
      const Node* accumulator = nullptr;
      if (inner != outer || own_vector != nullptr) {
        accumulator = code_.Emit({.op = Op::kAccumulator,
                                  .src = {code_.Widen(start, lanes)},
                                  .ints = {next_accumulator_++}},
                                 outer);
      }
      const Node* total = FoldBody(member, terms, lanes, accumulator, inner);
      if (accumulator == nullptr) {
        values_[{member, copy}] = total;
        return;
      }
      code_.Emit({.op = Op::kUpdate, .src = {{accumulator, total}}}, inner);
      pending.push_back({member, copy, accumulator});
    });
  }
  const auto ranges = fold->src.subspan(1);
  std::vector<const Node*> stores;
  for (const Node* store : nest_.sink->src) {
    const std::vector<const Node*>& free = free_.Of(store);
    const bool here = std::any_of(ranges.begin(), ranges.end(), [&](const Node* range) {
      return std::find(free.begin(), free.end(), range) != free.end();
    });
    const bool open = std::all_of(free.begin(), free.end(), [&](const Node* range) {
      const bool is_loop =
          range->range_kind() == RangeKind::kLoop || range->range_kind() == RangeKind::kReduce;
      return !is_loop || code_.LoopOf(range) != nullptr;
    });
    if (here && open) stores.push_back(store);
  }
  StoreAll(stores);
  // A loop stands behind what it needs from outside, so it is put in place last.
  for (Region* region = inner; region != outer; region = region->parent) {
    region->parent->items.push_back(region);
  }
  for (const Pending& done : pending) {
    const Node* total = Read(done.accumulator, outer);
    if (own_vector != nullptr) {
      total = code_.EmitOp(Op::kHorizontal, {total},
                           {static_cast<int64_t>(done.member->reduce_kind())});
    }
    values_[{done.member, done.copy}] = total;
  }
}

}  // namespace

absl::Status Linearize(LoopNest& nest, const Target& target, LinearProgram& program) {
  return Linearizer(nest, target, program).Run();
}

}  // namespace tensord
