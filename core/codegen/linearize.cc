#include "core/codegen/linearize.h"

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>
#include <absl/numeric/int128.h>

#include <algorithm>
#include <array>
#include <memory>
#include <variant>

#include "core/base/check.h"
#include "core/base/status.h"
#include "core/ir/affine.h"
#include "core/ir/eval.h"

namespace tensord {
namespace {

// Unrolled and vector ranges that one kernel may have, and the size of one.
constexpr int kMaxUnrolled = 36;
constexpr int64_t kMaxUnroll = 126, kMaxLanes = 64;

// One loop with what happens in it, in order; the root is the kernel itself.
struct Region {
  const Node* range = nullptr;
  Region* parent = nullptr;
  int depth = 0;
  std::vector<std::variant<const Node*, Region*>> items;
};

// Which copy of the unrolled ranges is meant: 7 bits a range, 1 + its value. 0 means: not chosen;
// for a vector range that stands for all lanes.
class Copy {
 public:
  int64_t Get(int slot) const {
    return static_cast<int64_t>(absl::Uint128Low64(bits_[slot / 18] >> Shift(slot)) & 127) - 1;
  }
  Copy With(int slot, int64_t value) const {
    Copy result = *this;
    absl::uint128& bits = result.bits_[slot / 18];
    bits = (bits & ~(absl::uint128(127) << Shift(slot))) | absl::uint128(value + 1) << Shift(slot);
    return result;
  }
  // The same for these slots, not chosen for the others.
  Copy Only(absl::Span<const int> slots) const {
    Copy result;
    for (int slot : slots) result = result.With(slot, Get(slot));
    return result;
  }
  bool operator==(const Copy&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const Copy& copy) {
    return H::combine(std::move(h), copy.bits_);
  }

 private:
  static int Shift(int slot) { return 7 * (slot % 18); }
  std::array<absl::uint128, 2> bits_ = {};
};

class Linearizer {
 public:
  Linearizer(LoopNest& nest, const Target& target, LinearProgram& program)
      : nest_(nest), graph_(nest.graph), target_(target), program_(program), free_(nest.sink) {}

  absl::Status Run() {
    GroupFolds();
    TD_RETURN_IF_ERROR(Number());
    FindGuards();
    MakeLoops();
    // A store inside a reduction's loop is made with that loop.
    std::vector<const Node*> stores;
    for (const Node* store : nest_.sink->src) {
      if (!HasFoldRange(store)) stores.push_back(store);
    }
    StoreAll(stores);
    // An inner loop of the outputs comes after all else in its outer loop, which it may need.
    for (const Node* loop : nest_.loops) {
      auto found = region_of_range_.find(loop);
      if (found != region_of_range_.end()) found->second->parent->items.push_back(found->second);
    }
    Flatten(root_);
    return absl::OkStatus();
  }

 private:
  absl::Status Number();
  void MakeLoops();
  void GroupFolds();
  Region* NewRegion(const Node* range, Region* parent);
  Region* RegionOf(const Node* linear) const;
  Region* Deeper(Region* a, Region* b) const { return a->depth >= b->depth ? a : b; }

  std::vector<int> FreeSlots(const Node* node) const;
  template <typename Visit>
  void ForEachCopy(const std::vector<int>& slots, Copy copy, const Visit& visit, size_t from = 0);
  const Node* VectorRange(const Node* node) const;
  const std::vector<int>& Slots(const Node* node);
  bool AllLanes(const Node* node, Copy copy) const;

  // The value of a kernel-level node for one copy, at the linear level.
  const Node* Value(const Node* node, Copy copy);
  const Node* NewValue(const Node* node, Copy copy);
  const Node* IndexVector(const Node* node, Copy copy);
  const Node* Load(const Node* node, Copy copy);
  const Node* Running(const Node* node, Copy copy);
  void FindGuards();
  const Node* GateOf(const Node* load, Copy copy);
  bool HasFoldRange(const Node* node) const;
  void StoreAll(absl::Span<const Node* const> stores);
  void Store(const Node* node, Copy copy);
  void Fold(const Node* fold);
  const Node* FoldBody(const Node* fold, const std::vector<Copy>& terms, int lanes,
                       const Node* accumulator, Region* inner);
  bool IsContiguous(const Node* index, const Node* vector) const;

  // Makes a node and puts it where its sources are known.
  const Node* Emit(const NodeSpec& spec, Region* at_least = nullptr);
  void Place(const Node* node, Region* region);
  const Node* EmitOp(Op op, std::vector<const Node*> src, std::vector<int64_t> ints = {});
  const Node* Widen(const Node* value, int lanes);
  const Node* Read(const Node* accumulator, Region* region);
  void Flatten(const Region* region);

  LoopNest& nest_;
  Graph& graph_;
  const Target& target_;
  LinearProgram& program_;
  FreeRanges free_;
  std::vector<std::unique_ptr<Region>> regions_;
  Region* root_ = nullptr;
  absl::flat_hash_map<const Node*, Region*> region_of_range_, region_of_;
  absl::flat_hash_map<const Node*, const Node*> bounded_;  // ranges that end early, linear level
  absl::flat_hash_map<const Node*, int> slot_of_;          // unrolled and vector ranges
  std::vector<const Node*> slots_;
  absl::flat_hash_set<const Node*> moves_vectors_;  // unrolled ranges in the index of vector loads
  absl::flat_hash_map<std::pair<const Node*, Copy>, const Node*> values_;
  absl::flat_hash_map<const Node*, std::vector<int>> slots_of_;  // by node: those it depends on
  // Folds with the same ranges run in one loop; keyed by their first range.
  absl::flat_hash_map<const Node*, std::vector<const Node*>> group_of_;
  absl::flat_hash_set<const Node*> fold_ranges_;
  // Numbers that may be zero and are not where a node is used.
  absl::flat_hash_map<const Node*, std::vector<const Node*>> guards_;
  int64_t next_accumulator_ = 0, next_read_ = 0;
};

absl::Status Linearizer::Number() {
  for (const Node* node : TopologicalOrder({nest_.sink})) {
    if (node->op != Op::kRange) continue;
    const RangeKind kind = node->range_kind();
    if (kind == RangeKind::kGrid) program_.grid = node->range_size();
    if (kind != RangeKind::kUnroll && kind != RangeKind::kVector) continue;
    slot_of_[node] = static_cast<int>(slots_.size());
    slots_.push_back(node);
    if (static_cast<int>(slots_.size()) > kMaxUnrolled) {
      return ResourceExhausted("kernel {}: more than {} unrolled and vector ranges", program_.name,
                               kMaxUnrolled);
    }
    const int64_t limit = kind == RangeKind::kVector ? kMaxLanes : kMaxUnroll;
    if (node->range_size() > limit) {
      return InvalidArgument("kernel {}: {} copies of an unrolled or vector range, at most {}",
                             program_.name, node->range_size(), limit);
    }
  }
  for (const auto& [node, ranges] : free_.all()) {
    if (node->op == Op::kLoad && VectorRange(node) != nullptr && HasFoldRange(node)) {
      for (const Node* range : ranges) {
        if (range->range_kind() == RangeKind::kUnroll) moves_vectors_.insert(range);
      }
    }
    if (node->op == Op::kSink) continue;
    const auto vectors = std::count_if(ranges.begin(), ranges.end(), [](const Node* range) {
      return range->range_kind() == RangeKind::kVector;
    });
    if (vectors > 1) {
      return InvalidArgument("kernel {}: a value has lanes along two loops", program_.name);
    }
  }
  return absl::OkStatus();
}

Region* Linearizer::NewRegion(const Node* range, Region* parent) {
  regions_.push_back(std::make_unique<Region>());
  Region* region = regions_.back().get();
  region->range = range;
  region->parent = parent;
  region->depth = parent == nullptr ? 0 : parent->depth + 1;
  if (range != nullptr) region_of_range_[range] = region;
  if (range != nullptr && range->is_bounded()) {
    // The bound may depend on the workgroup.
    const Node* bound = Value(range->src[0], Copy());
    region->range = graph_.Make(Op::kRange, {&bound, 1}, range->ints);
    region_of_range_[region->range] = region;
    bounded_[range] = region->range;
  }
  return region;
}

// The loops of each store, in the order of the nest.
void Linearizer::MakeLoops() {
  root_ = NewRegion(nullptr, nullptr);
  for (const Node* store : nest_.sink->src) {
    Region* region = root_;
    for (const Node* loop : nest_.loops) {
      if (loop->range_kind() != RangeKind::kLoop || !free_.Depends(store, loop)) continue;
      auto found = region_of_range_.find(loop);
      region = found != region_of_range_.end() ? found->second : NewRegion(loop, region);
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

Region* Linearizer::RegionOf(const Node* linear) const {
  const auto& regions = linear->op == Op::kRange ? region_of_range_ : region_of_;
  auto found = regions.find(linear);
  return found == regions.end() ? root_ : found->second;
}

// The unrolled ranges that a node depends on. Those that a reduction's vector loads move with come
// last, so that copies that share a scalar, which takes a register in all lanes, follow each other:
// a register tile of rows * vectors then has one row's scalar alive at a time.
std::vector<int> Linearizer::FreeSlots(const Node* node) const {
  std::vector<int> slots, of_vectors;
  for (const Node* range : free_.Of(node)) {
    if (range->range_kind() != RangeKind::kUnroll) continue;
    (moves_vectors_.contains(range) ? of_vectors : slots).push_back(slot_of_.at(range));
  }
  slots.insert(slots.end(), of_vectors.begin(), of_vectors.end());
  return slots;
}

template <typename Visit>
void Linearizer::ForEachCopy(const std::vector<int>& slots, Copy copy, const Visit& visit,
                             size_t from) {
  if (from == slots.size()) {
    visit(copy);
    return;
  }
  for (int64_t value = 0; value < slots_[slots[from]]->range_size(); ++value) {
    ForEachCopy(slots, copy.With(slots[from], value), visit, from + 1);
  }
}

const Node* Linearizer::VectorRange(const Node* node) const {
  const Node* vector = nullptr;
  for (const Node* range : free_.Of(node)) {
    if (range->range_kind() == RangeKind::kVector) vector = range;
  }
  return vector;
}

const std::vector<int>& Linearizer::Slots(const Node* node) {
  auto [place, is_new] = slots_of_.try_emplace(node);
  if (is_new) {
    for (const Node* range : free_.Of(node)) {
      if (auto slot = slot_of_.find(range); slot != slot_of_.end()) {
        place->second.push_back(slot->second);
      }
    }
  }
  return place->second;
}

const Node* Linearizer::Emit(const NodeSpec& spec, Region* at_least) {
  const Node* node = graph_.Make(spec);
  Place(node, at_least == nullptr ? root_ : at_least);
  return node;
}

void Linearizer::Place(const Node* node, Region* region) {
  constexpr OpSet kEverywhere =
      OpBit(Op::kConst) | OpBit(Op::kParam) | OpBit(Op::kVariable) | OpBit(Op::kRange);
  if (In(node->op, kEverywhere) || region_of_.contains(node)) return;
  // The smart constructor may have made another node than asked for, with parts that are new.
  for (const Node* src : node->src) {
    Place(src, root_);
    region = Deeper(region, RegionOf(src));
  }
  region_of_[node] = region;
  region->items.push_back(node);
}

const Node* Linearizer::EmitOp(Op op, std::vector<const Node*> src, std::vector<int64_t> ints) {
  return Emit({.op = op, .src = src, .ints = ints});
}

const Node* Linearizer::Widen(const Node* value, int lanes) {
  if (value->lanes == lanes) return value;
  TD_CHECK(value->lanes == 1, "lanes differ");
  return Emit({.op = Op::kBroadcast, .src = {value}, .lanes = static_cast<uint16_t>(lanes)});
}

const Node* Linearizer::Value(const Node* node, Copy copy) {
  copy = copy.Only(Slots(node));
  const auto key = std::make_pair(node, copy);
  if (auto found = values_.find(key); found != values_.end()) return found->second;
  const Node* value = NewValue(node, copy);
  values_[key] = value;
  return value;
}

bool Linearizer::AllLanes(const Node* node, Copy copy) const {
  const Node* vector = VectorRange(node);
  return vector != nullptr && copy.Get(slot_of_.at(vector)) < 0;
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
          return EmitOp(Op::kGridIndex, {}, {0});
        case RangeKind::kUnroll:
          return graph_.Index(copy.Get(slot_of_.at(node)));
        case RangeKind::kVector:
          return AllLanes(node, copy) ? IndexVector(node, copy)
                                      : graph_.Index(copy.Get(slot_of_.at(node)));
        default:
          return node->is_bounded() ? bounded_.at(node) : node;
      }
    case Op::kLoad:
      return Load(node, copy);
    case Op::kFold:
      if (const Node* vector = VectorRange(node); vector != nullptr && !AllLanes(node, copy)) {
        const int slot = slot_of_.at(vector);
        return EmitOp(Op::kExtract, {Value(node, copy.With(slot, -1))}, {copy.Get(slot)});
      }
      Fold(node);
      return values_.at({node, copy});
    case Op::kRunning:
      return Running(node, copy);
    default:
      break;
  }
  if (node->dtype == DType::kIndex && AllLanes(node, copy)) return IndexVector(node, copy);
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
  for (const Node*& operand : src) operand = Widen(operand, lanes);
  if (lane_by_lane) {
    std::vector<const Node*> values;
    for (int64_t lane = 0; lane < lanes; ++lane) {
      values.push_back(EmitOp(node->op, {EmitOp(Op::kExtract, {src[0]}, {lane}),
                                         EmitOp(Op::kExtract, {src[1]}, {lane})}));
    }
    return EmitOp(Op::kStack, values);
  }
  return Emit({.op = node->op, .src = src, .ints = node->ints, .dtype = node->dtype});
}

// An index in all lanes: base + lane * stride where it is affine, lane by lane where not.
const Node* Linearizer::IndexVector(const Node* node, Copy copy) {
  const Node* vector = VectorRange(node);
  const int slot = slot_of_.at(vector);
  const uint16_t lanes = static_cast<uint16_t>(vector->range_size());
  bool affine = true;
  const Affine index = ToAffine(node);
  for (const Affine::Term& term : index.terms) {
    affine &= term.atom == vector || !free_.Depends(term.atom, vector);
  }
  if (affine) {
    const Node* base = Value(node, copy.With(slot, 0));
    const Node* ramp = Emit({.op = Op::kRamp, .dtype = DType::kIndex, .lanes = lanes});
    const Node* stride = Widen(graph_.Index(index.CoefficientOf(vector)), lanes);
    return EmitOp(Op::kAdd, {Widen(base, lanes), EmitOp(Op::kMul, {ramp, stride})});
  }
  std::vector<const Node*> values;
  for (int64_t lane = 0; lane < lanes; ++lane) values.push_back(Value(node, copy.With(slot, lane)));
  return EmitOp(Op::kStack, values);
}

bool Linearizer::IsContiguous(const Node* index, const Node* vector) const {
  const Affine affine = ToAffine(index);
  for (const Affine::Term& term : affine.terms) {
    if (term.atom != vector && free_.Depends(term.atom, vector)) return false;
  }
  return affine.CoefficientOf(vector) == 1;
}

// Numbers that are positive where the loop has turns, and might not be: its end, and for the blocks
// of a loop and their rest the end of the whole.
static std::vector<const Node*> TurnsOf(const Node* range) {
  std::vector<const Node*> ends;
  if (!range->is_bounded()) return ends;
  const Node* end = range->src[0];
  ends.push_back(end);
  if (end->op == Op::kFloorDiv || end->op == Op::kFloorMod) ends.push_back(end->src[0]);
  std::erase_if(ends, [](const Node* number) { return number->lo > 0; });
  return ends;
}

// What a loop needs and what doesn't change in it stands before it. But where the loop may have no
// turn, a tensor that is read in it may have no elements.
void Linearizer::FindGuards() {
  const std::vector<const Node*> order = TopologicalOrder({nest_.sink});
  if (std::all_of(order.begin(), order.end(),
                  [](const Node* node) { return TurnsOf(node).empty(); })) {
    return;
  }
  for (auto place = order.rbegin(); place != order.rend(); ++place) {
    const Node* user = *place;
    if (user->op == Op::kSink || user->op == Op::kRange) continue;
    std::vector<const Node*> around = guards_[user];
    const auto add = [&](const Node* range) {
      for (const Node* number : TurnsOf(range)) {
        if (std::find(around.begin(), around.end(), number) == around.end()) {
          around.push_back(number);
        }
      }
    };
    for (const Node* range : free_.Of(user)) add(range);
    if (user->op == Op::kFold) {
      for (const Node* range : user->src.subspan(1)) add(range);
    }
    for (const Node* src : user->src) {
      auto [own, is_first] = guards_.emplace(src, around);
      if (is_first) continue;
      std::erase_if(own->second, [&](const Node* number) {
        return std::find(around.begin(), around.end(), number) == around.end();
      });
    }
  }
}

// The gate of a load that may stand before a loop without turns; null if it needs none.
const Node* Linearizer::GateOf(const Node* load, Copy copy) {
  const Node* gate = load->src.size() > 2 ? Value(load->src[2], copy) : nullptr;
  auto found = guards_.find(load);
  if (found == guards_.end()) return gate;
  std::vector<const Node*> inside;  // what the loops around the load say already
  for (const Node* range : free_.Of(load)) {
    const std::vector<const Node*> turns = TurnsOf(range);
    inside.insert(inside.end(), turns.begin(), turns.end());
  }
  for (const Node* number : found->second) {
    if (std::find(inside.begin(), inside.end(), number) != inside.end()) continue;
    const Node* turns = EmitOp(Op::kCmpLt, {graph_.Index(0), Value(number, Copy())});
    if (gate != nullptr && gate->lanes > 1) turns = Widen(turns, gate->lanes);
    gate = gate == nullptr ? turns : EmitOp(Op::kAnd, {gate, turns});
  }
  return gate;
}

const Node* Linearizer::Load(const Node* node, Copy copy) {
  const Node *param = node->src[0], *index = node->src[1];
  if (!AllLanes(node, copy)) {
    std::vector<const Node*> src = {param, Value(index, copy)};
    if (const Node* gate = GateOf(node, copy)) src.push_back(gate);
    return Emit({.op = Op::kLoad, .src = src});
  }
  const Node* vector = VectorRange(node);
  const int slot = slot_of_.at(vector);
  const uint16_t lanes = static_cast<uint16_t>(vector->range_size());
  if (IsContiguous(index, vector)) {
    std::vector<const Node*> src = {param, Value(index, copy.With(slot, 0))};
    if (const Node* gate = GateOf(node, copy)) {
      src.push_back(node->src.size() > 2 ? Widen(gate, lanes) : gate);
    }
    return Emit({.op = Op::kLoad, .src = src, .lanes = lanes});
  }
  std::vector<const Node*> values;
  for (int64_t lane = 0; lane < lanes; ++lane) values.push_back(Value(node, copy.With(slot, lane)));
  return EmitOp(Op::kStack, values);
}

// An accumulator around the scan's loop, which takes in one value a step.
const Node* Linearizer::Running(const Node* node, Copy copy) {
  const Node* vector = VectorRange(node);
  if (vector != nullptr && !AllLanes(node, copy)) {
    const int slot = slot_of_.at(vector);
    return EmitOp(Op::kExtract, {Value(node, copy.With(slot, -1))}, {copy.Get(slot)});
  }
  const ScanKind kind = node->scan_kind();
  const Node* value = Widen(Value(node->src[0], copy),
                            vector == nullptr ? 1 : static_cast<int>(vector->range_size()));
  Region* loop = region_of_range_.at(node->src[1]);
  const auto constant = [&](const Scalar& number) {
    return Widen(
        graph_.Intern({.op = Op::kConst, .ints = {number.attribute()}, .dtype = node->dtype}),
        value->lanes);
  };
  const Node* accumulator = Emit({.op = Op::kAccumulator,
                                  .src = {constant(ScanIdentity(kind, node->dtype))},
                                  .ints = {next_accumulator_++}},
                                 loop->parent);
  const Node* before = Read(accumulator, loop);
  const auto make = [&](Op op, std::initializer_list<const Node*> src) {
    return Emit({.op = op, .src = src}, loop);
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
    ForEachCopy(FreeSlots(store), Copy(), [&](Copy copy) { Value(store->src[2], copy); });
  }
  for (const Node* store : stores) {
    ForEachCopy(FreeSlots(store), Copy(), [&](Copy copy) { Store(store, copy); });
  }
}

void Linearizer::Store(const Node* node, Copy copy) {
  const Node *param = node->src[0], *index = node->src[1], *stored = node->src[2];
  const Node* vector = VectorRange(node);
  // Once for each value of the loops of its index, whatever its value depends on.
  Region* region = root_;
  for (const Node* range : free_.Of(node)) {
    if (auto found = region_of_range_.find(range); found != region_of_range_.end()) {
      region = Deeper(region, found->second);
    }
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
      const Node* old = Emit({.op = Op::kLoad, .src = src, .lanes = value->lanes}, region);
      value = Emit({.op = combine, .src = {{old, value}}}, region);
    }
    src.insert(src.begin() + 2, value);
    Emit({.op = Op::kStore, .src = src}, region);
  };
  const Node* value = Value(stored, copy);
  if (vector == nullptr) {
    store(Value(index, copy), value, gate == nullptr ? nullptr : Value(gate, copy));
    return;
  }
  const int slot = slot_of_.at(vector);
  const int lanes = static_cast<int>(vector->range_size());
  value = Widen(value, lanes);
  if (IsContiguous(index, vector)) {
    store(Value(index, copy.With(slot, 0)), value,
          gate == nullptr ? nullptr : Widen(Value(gate, copy), lanes));
    return;
  }
  for (int64_t lane = 0; lane < lanes; ++lane) {
    const Copy own = copy.With(slot, lane);
    store(Value(index, own), EmitOp(Op::kExtract, {value}, {lane}),
          gate == nullptr ? nullptr : Value(gate, own));
  }
}

const Node* Linearizer::Read(const Node* accumulator, Region* region) {
  return Emit({.op = Op::kRead, .src = {accumulator}, .ints = {next_read_++}}, region);
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
      const Node* a = Widen(Value(body->src[0], copy), lanes);
      const Node* b = Widen(Value(body->src[1], copy), lanes);
      sum = EmitOp(Op::kFma, {a, b, sum});
    }
    return sum;
  }
  // As a tree, so that the chain through the accumulator is one op long.
  std::vector<const Node*> values;
  for (Copy copy : terms) values.push_back(Widen(Value(body, copy), lanes));
  while (values.size() > 1) {
    std::vector<const Node*> half;
    for (size_t i = 0; i + 1 < values.size(); i += 2) {
      half.push_back(EmitOp(CombineOp(kind), {values[i], values[i + 1]}));
    }
    if (values.size() % 2 == 1) half.push_back(values.back());
    values = std::move(half);
  }
  if (accumulator == nullptr) return values[0];
  return EmitOp(CombineOp(kind), {Read(accumulator, inner), values[0]});
}

// All copies of all Folds that run in the loop of this one.
void Linearizer::Fold(const Node* fold) {
  const std::vector<const Node*>& group = group_of_.at(fold->src[1]);
  Region* outer = root_;
  for (const Node* member : group) {
    TD_CHECK(member->src.subspan(1) == fold->src.subspan(1), "folds share a part of their loops");
    for (const Node* range : free_.Of(member)) {
      if (auto found = region_of_range_.find(range); found != region_of_range_.end()) {
        outer = Deeper(outer, found->second);
      }
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
      if (auto found = region_of_range_.find(range);
          found != region_of_range_.end() && range->range_kind() == RangeKind::kLoop) {
        outer = Deeper(outer, found->second);
      }
    }
  }
  Region* inner = outer;
  std::vector<int> own_slots;
  const Node* own_vector = nullptr;
  for (const Node* range : fold->src.subspan(1)) {
    switch (range->range_kind()) {
      case RangeKind::kUnroll:
        own_slots.push_back(slot_of_.at(range));
        break;
      case RangeKind::kVector:
        own_vector = range;
        break;
      default:
        inner = NewRegion(range, inner);
    }
  }

  struct Pending {
    const Node* member;
    Copy copy;
    const Node* accumulator;
  };
  std::vector<Pending> pending;
  for (const Node* member : group) {
    const Node* outer_vector = VectorRange(member);
    TD_CHECK(own_vector == nullptr || outer_vector == nullptr, "lanes along two loops");
    const Node* vector = own_vector != nullptr ? own_vector : outer_vector;
    const int lanes = vector == nullptr ? 1 : static_cast<int>(vector->range_size());
    const Scalar identity = ReduceIdentity(member->reduce_kind(), member->dtype);
    const Node* start =
        graph_.Intern({.op = Op::kConst, .ints = {identity.attribute()}, .dtype = member->dtype});
    ForEachCopy(FreeSlots(member), Copy(), [&](Copy copy) {
      std::vector<Copy> terms;
      ForEachCopy(own_slots, copy, [&](Copy term) { terms.push_back(term); });
      const Node* accumulator = nullptr;
      if (inner != outer || own_vector != nullptr) {
        accumulator = Emit(
            {.op = Op::kAccumulator, .src = {Widen(start, lanes)}, .ints = {next_accumulator_++}},
            outer);
      }
      const Node* total = FoldBody(member, terms, lanes, accumulator, inner);
      if (accumulator == nullptr) {
        values_[{member, copy}] = total;
        return;
      }
      Emit({.op = Op::kUpdate, .src = {{accumulator, total}}}, inner);
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
      return !is_loop || region_of_range_.contains(range);
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
      total = EmitOp(Op::kHorizontal, {total}, {static_cast<int64_t>(done.member->reduce_kind())});
    }
    values_[{done.member, done.copy}] = total;
  }
}

void Linearizer::Flatten(const Region* region) {
  if (region->range != nullptr) program_.body.push_back(region->range);
  for (const auto& item : region->items) {
    if (const Node* const* node = std::get_if<const Node*>(&item)) {
      program_.body.push_back(*node);
    } else {
      Flatten(std::get<Region*>(item));
    }
  }
  if (region->range != nullptr) {
    program_.body.push_back(graph_.Make(Op::kEnd, {region->range}));
  }
}

}  // namespace

absl::Status Linearize(LoopNest& nest, const Target& target, LinearProgram& program) {
  return Linearizer(nest, target, program).Run();
}

}  // namespace tensord
