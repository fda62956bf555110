#include "core/schedule/schedule.h"

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include <algorithm>
#include <map>
#include <optional>

#include "core/base/check.h"
#include "core/base/status.h"
#include "core/ir/user_kernel.h"
#include "core/rules/simplify.h"
#include "core/rules/spec.h"
#include "core/schedule/exchange.h"
#include "core/schedule/fuse.h"
#include "core/schedule/layout.h"
#include "core/schedule/loops.h"
#include "core/schedule/split_reduce.h"
#include "core/schedule/user_kernel.h"

namespace tensord {
namespace {

// Columns that a register tile of a contraction covers, and the size from which on a factor is laid
// out in blocks of them: where rows are far apart, each read would need a page of its own.
constexpr int64_t kBlock = 32;
constexpr int64_t kBlockedBytes = 256 << 10;
// An output that is to stand in more places than this is copied to the others.
constexpr size_t kMaxStores = 8;
// A contraction that reads an input this often gets a copy of it in the order it likes.
constexpr double kPackReuse = 16;

bool IsUserKernel(const Unit& unit) { return unit.tensors[0]->op == Op::kUserKernelResult; }

class Scheduler {
 public:
  explicit Scheduler(const Program& program) : program_(program) {}

  absl::StatusOr<Schedule> Run() {
    TD_RETURN_IF_ERROR(PrepareOutputs());
    std::vector<const Node*> values;
    for (const OutputValue& output : outputs_) {
      if (NumElements(output.value->shape) > 0) values.push_back(output.value);
    }
    fusion_ = Fuse(values);
    ChooseLayouts();
    MakeBuffers();
    lowered_.resize(fusion_.units.size());
    for (size_t i = 0; i < lowered_.size(); ++i) Lower(static_cast<int>(i));
    TD_RETURN_IF_ERROR(OrderSteps());
    return std::move(schedule_);
  }

 private:
  struct OutputValue {
    const Node* value;
    int64_t overwrites;
  };
  // What one unit reads from a copy that was made for it: in another order, or with zeros around.
  struct Copied {
    const Node* copy;
    std::vector<int64_t> margin = {};
  };
  using Copies = absl::flat_hash_map<const Node*, Copied>;
  // A unit on its way to a kernel.
  struct Lowered {
    std::unique_ptr<LoweredUnit> unit;
    std::vector<int> buffers;  // by slot
    std::vector<int> reads, writes;
    // Where inputs are read and outputs are stored.
    absl::flat_hash_map<const Node*, absl::flat_hash_set<const Node*>> read_offsets;
    absl::flat_hash_map<const Node*, const Node*> store_offset;
    std::unique_ptr<Lowered> update;  // a Scatter's second kernel

    int64_t SlotOf(int buffer) {
      auto place = std::find(buffers.begin(), buffers.end(), buffer);
      if (place == buffers.end()) place = buffers.insert(buffers.end(), buffer);
      return place - buffers.begin();
    }
  };

  absl::Status PrepareOutputs();
  void ChooseLayouts();
  int64_t InnermostOf(const Node* tensor) const;
  void AddCopyUnit(const Node* copy, Layout layout, std::vector<Unit>& units);
  void AddPackedCopy(const LayoutVote& vote, const Unit& unit, Copies& copies,
                     std::vector<Unit>& units);
  void AddPaddedCopy(const GuardedProduct& guarded, Copies& copies, std::vector<Unit>& units);
  void MakeBuffers();
  int AddBuffer(Schedule::Kind kind, int64_t index, const Node* tensor);
  int BufferOf(const Node* tensor);
  void Lower(int unit);
  void LowerInto(Lowered& lowered, int unit, const Node* scatter);
  void LowerUserKernelInto(Lowered& lowered, const Node* call);
  absl::Status MakeKernels(int unit);
  absl::Status MakeKernel(Lowered& lowered);
  absl::Status OrderSteps();
  bool CanRunBefore(int first, int second) const;
  const Layout& LayoutOf(const Node* tensor);

  const Program& program_;
  Graph graph_;
  std::vector<OutputValue> outputs_;
  std::vector<const Node*> params_;  // by slot; null if unused
  absl::flat_hash_map<const Node*, UserKernel> user_kernels_;
  Fusion fusion_;
  absl::flat_hash_map<const Node*, int64_t> innermost_;  // of temporaries that were voted on
  absl::flat_hash_map<const Node*, Layout> layouts_;
  std::vector<Copies> copies_;  // by unit
  absl::flat_hash_map<const Node*, int> buffer_of_;
  // Where outputs are stored besides: tensor -> buffers.
  absl::flat_hash_map<const Node*, std::vector<int>> also_;
  std::vector<std::pair<int, int>> copies_at_end_;  // buffers: to, from
  std::vector<Lowered> lowered_;                    // by unit
  std::vector<std::vector<int>> before_;            // by unit: units that run earlier
  absl::flat_hash_map<std::string, int> kernel_of_;
  Schedule schedule_;
};

// The program's values, simplified, in a graph of our own. An output that would be no kernel's
// result (an input, a movement of one) is made contiguous, so that a kernel copies it.
absl::Status Scheduler::PrepareOutputs() {
  std::vector<const Node*> roots;
  for (const Program::Output& output : program_.outputs) roots.push_back(output.value);
  TD_ASSIGN_OR_RETURN(std::vector<const Node*> copies,
                      SimplifyForSchedule(graph_, CopyTo(graph_, roots), program_.fast_math));
  copies = SplitBigContractions(graph_, copies);
  params_.assign(program_.inputs.size(), nullptr);
  for (const Node* node : TopologicalOrder(copies)) {
    if (node->rank() > kMaxRank) {
      return InvalidArgument("{}: {} axes, at most {} are possible", Name(node->op), node->rank(),
                             kMaxRank);
    }
    if (node->op == Op::kParam) params_[node->slot()] = node;
    if (node->op == Op::kUserKernel) {
      TD_ASSIGN_OR_RETURN(UserKernel kernel, ReadUserKernel(node));
      user_kernels_.emplace(node, std::move(kernel));
    }
  }
  for (size_t i = 0; i < copies.size(); ++i) {
    const Node* value = copies[i];
    if (value->op == Op::kParam) value = graph_.Intern({.op = Op::kContiguous, .src = {value}});
    outputs_.push_back({value, program_.outputs[i].overwrites});
  }
  return absl::OkStatus();
}

void Scheduler::ChooseLayouts() {
  absl::flat_hash_set<const Node*> fixed;
  for (const OutputValue& output : outputs_) fixed.insert(output.value);
  for (const Unit& unit : fusion_.units) {
    if (!IsUserKernel(unit)) continue;
    const Node* call = unit.tensors[0]->src[0];
    fixed.insert(unit.tensors.begin(), unit.tensors.end());
    fixed.insert(call->src.begin(), call->src.end());
  }
  const Lowering::Storage anywhere{0, {std::vector<int64_t>(kMaxRank, 1)}, 1};
  const auto in_memory = [&](const Node* tensor) {
    return tensor->op == Op::kParam || fusion_.stored.contains(tensor) ? &anywhere : nullptr;
  };
  absl::flat_hash_map<const Node*, std::map<int64_t, double>> votes;
  struct Want {
    size_t unit;
    LayoutVote vote;
  };
  std::vector<Want> wants;
  std::vector<std::optional<GuardedProduct>> guarded(fusion_.units.size());
  for (size_t i = 0; i < fusion_.units.size(); ++i) {
    if (IsUserKernel(fusion_.units[i])) continue;
    bool contracts = false;
    std::unique_ptr<LoweredUnit> lowered;
    for (const Node* tensor : fusion_.units[i].tensors) {
      contracts |= (tensor->below_ops & OpBit(Op::kReduce)) != 0;
    }
    if (!contracts) continue;
    lowered = LowerUnit(fusion_.units[i], in_memory);
    TD_CHECK(lowered != nullptr, "a unit that fused does not lower");
    for (const LayoutVote& vote : VotesOf(*lowered)) {
      votes[vote.tensor][vote.axis] += vote.weight;
      wants.push_back({i, vote});
    }
    guarded[i] = FindGuardedProduct(*lowered);
  }
  for (const auto& [tensor, axes] : votes) {
    if (tensor->op == Op::kParam || fixed.contains(tensor)) continue;
    auto best = std::max_element(axes.begin(), axes.end(),
                                 [](const auto& a, const auto& b) { return a.second < b.second; });
    innermost_[tensor] = best->first;
  }

  // What can't be laid out as a contraction wants is copied for it, if it is read often enough.
  std::vector<Unit> units;
  for (size_t i = 0; i < fusion_.units.size(); ++i) {
    Copies copies;
    for (const Want& want : wants) {
      if (want.unit == i) AddPackedCopy(want.vote, fusion_.units[i], copies, units);
    }
    if (guarded[i]) AddPaddedCopy(*guarded[i], copies, units);
    units.push_back(fusion_.units[i]);
    copies_.push_back(std::move(copies));
  }
  fusion_.units = std::move(units);
}

int64_t Scheduler::InnermostOf(const Node* tensor) const {
  auto chosen = innermost_.find(tensor);
  return chosen == innermost_.end() ? tensor->rank() - 1 : chosen->second;
}

// A unit of its own that makes `copy`.
void Scheduler::AddCopyUnit(const Node* copy, Layout layout, std::vector<Unit>& units) {
  if (!fusion_.stored.insert(copy).second) return;
  layouts_[copy] = std::move(layout);
  units.push_back({{copy}});
  copies_.push_back({});
}

void Scheduler::AddPackedCopy(const LayoutVote& vote, const Unit& unit, Copies& copies,
                              std::vector<Unit>& units) {
  const Node* tensor = vote.tensor;
  if (std::find(unit.tensors.begin(), unit.tensors.end(), tensor) != unit.tensors.end()) return;
  Layout wanted = WithInnermost(tensor->shape, vote.axis);
  const int64_t size = tensor->shape[vote.axis];
  if (size > kBlock && size % kBlock == 0 &&
      NumElements(tensor->shape) * ItemSize(tensor->dtype) >= kBlockedBytes) {
    wanted = Blocked(tensor->shape, vote.axis, kBlock);
  }
  if (LayoutOf(tensor) == wanted) return;
  if (vote.weight < kPackReuse * static_cast<double>(NumElements(tensor->shape))) return;
  // A value of its own for each order: the axis is in a permutation and its inverse.
  std::vector<int64_t> forth, back(tensor->rank());
  for (int64_t axis = 0; axis < tensor->rank(); ++axis) {
    if (axis != vote.axis) forth.push_back(axis);
  }
  forth.push_back(vote.axis);
  for (int64_t axis = 0; axis < tensor->rank(); ++axis) back[forth[axis]] = axis;
  const Node* permuted = graph_.Intern({.op = Op::kPermute, .src = {tensor}, .ints = forth});
  const Node* copy = graph_.Intern(
      {.op = Op::kContiguous,
       .src = {graph_.Intern({.op = Op::kPermute, .src = {permuted}, .ints = back})}});
  AddCopyUnit(copy, std::move(wanted), units);
  copies[tensor] = {copy};
}

void Scheduler::AddPaddedCopy(const GuardedProduct& guarded, Copies& copies,
                              std::vector<Unit>& units) {
  const Node* tensor = guarded.tensor;
  if (copies.contains(tensor)) return;
  std::vector<int64_t> pads;
  for (int64_t margin : guarded.margin) pads.insert(pads.end(), {margin, margin});
  const Node* copy =
      graph_.Intern({.op = Op::kContiguous,
                     .src = {graph_.Intern({.op = Op::kPad, .src = {tensor}, .ints = pads})}});
  AddCopyUnit(copy, WithInnermost(copy->shape, InnermostOf(tensor)), units);
  copies[tensor] = {copy, guarded.margin};
}

const Layout& Scheduler::LayoutOf(const Node* tensor) {
  auto found = layouts_.find(tensor);
  if (found == layouts_.end()) {
    found = layouts_.emplace(tensor, WithInnermost(tensor->shape, InnermostOf(tensor))).first;
  }
  return found->second;
}

int Scheduler::AddBuffer(Schedule::Kind kind, int64_t index, const Node* tensor) {
  schedule_.buffers.push_back({kind, index, tensor->dtype, NumElements(tensor->shape)});
  return static_cast<int>(schedule_.buffers.size()) - 1;
}

// Inputs come first, so that slot and buffer are one number.
void Scheduler::MakeBuffers() {
  for (size_t slot = 0; slot < program_.inputs.size(); ++slot) {
    const int buffer =
        AddBuffer(Schedule::Kind::kInput, static_cast<int64_t>(slot), program_.inputs[slot]);
    if (params_[slot] != nullptr) buffer_of_[params_[slot]] = buffer;
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const OutputValue& output = outputs_[i];
    if (output.overwrites != Program::kFresh) {
      // Whether it can be stored there directly is only known once all kernels are lowered.
      schedule_.outputs.push_back(static_cast<int>(output.overwrites));
      continue;
    }
    const int buffer = AddBuffer(Schedule::Kind::kOutput, static_cast<int64_t>(i), output.value);
    schedule_.outputs.push_back(buffer);
    if (buffer_of_.emplace(output.value, buffer).second) continue;
    std::vector<int>& also = also_[output.value];
    if (also.size() < kMaxStores && output.value->op != Op::kScatter) {
      also.push_back(buffer);
    } else {
      copies_at_end_.push_back({buffer, buffer_of_.at(output.value)});
    }
  }
}

int Scheduler::BufferOf(const Node* tensor) {
  auto [place, is_new] = buffer_of_.emplace(tensor, -1);
  if (is_new) place->second = AddBuffer(Schedule::Kind::kTemporary, -1, tensor);
  return place->second;
}

void Scheduler::Lower(int unit) {
  Lowered& lowered = lowered_[unit];
  if (IsUserKernel(fusion_.units[unit])) {
    return LowerUserKernelInto(lowered, fusion_.units[unit].tensors[0]->src[0]);
  }
  LowerInto(lowered, unit, nullptr);
  const Node* tensor = fusion_.units[unit].tensors[0];
  if (tensor->op != Op::kScatter || NumElements(tensor->src[2]->shape) == 0) return;
  lowered.update = std::make_unique<Lowered>();
  LowerInto(*lowered.update, unit, tensor);
  lowered.reads.insert(lowered.reads.end(), lowered.update->reads.begin(),
                       lowered.update->reads.end());
  // When the updates are read, some are stored already: nowhere does the place read match.
  for (const auto& [param, offsets] : lowered.update->read_offsets) {
    lowered.read_offsets[param].insert(nullptr);
  }
}

// One kernel: of `scatter`'s updates, or of the unit if that is null.
void Scheduler::LowerInto(Lowered& lowered, int unit, const Node* scatter) {
  absl::flat_hash_map<const Node*, Lowering::Storage> storages;
  const auto storage_of = [&](const Node* tensor) -> const Lowering::Storage* {
    if (tensor->op != Op::kParam && !fusion_.stored.contains(tensor)) return nullptr;
    std::vector<int64_t> margin;
    if (auto found = copies_[unit].find(tensor); found != copies_[unit].end()) {
      margin = found->second.margin;
      tensor = found->second.copy;
    }
    auto [place, is_new] = storages.try_emplace(tensor);
    if (is_new) {
      place->second = {lowered.SlotOf(BufferOf(tensor)), LayoutOf(tensor),
                       NumElements(tensor->shape), std::move(margin)};
    }
    return &place->second;
  };
  lowered.unit = scatter != nullptr ? LowerUpdate(scatter, storage_of)
                                    : LowerUnit(fusion_.units[unit], storage_of);
  TD_CHECK(lowered.unit != nullptr, "a unit that fused does not lower");
  absl::flat_hash_map<const Node*, std::vector<int64_t>> margins;
  for (const auto& [tensor, copied] : copies_[unit]) {
    if (!copied.margin.empty()) margins[tensor] = copied.margin;
  }
  if (!margins.empty()) DropGuards(*lowered.unit, margins);

  for (const LoweredUnit::Output& output : lowered.unit->outputs) {
    if (!fusion_.stored.contains(output.tensor)) continue;
    lowered.writes.push_back(BufferOf(output.tensor));
    lowered.store_offset[output.tensor] =
        Offset(lowered.unit->graph, output.index, LayoutOf(output.tensor));
  }
  lowered.reads = lowered.buffers;
  for (const Access& access : lowered.unit->accesses) {
    if (access.tensor->op == Op::kParam && !copies_[unit].contains(access.tensor)) {
      lowered.read_offsets[access.tensor].insert(access.load->src[1]);
    }
  }
}

void Scheduler::LowerUserKernelInto(Lowered& lowered, const Node* call) {
  // All of them, those that nobody reads as well: the kernel stores each.
  std::vector<const Node*> results;
  for (const user_kernel::Output& output : user_kernel::OutputsOf(call)) {
    const int64_t number[] = {static_cast<int64_t>(results.size())};
    results.push_back(graph_.Intern(
        {.op = Op::kUserKernelResult, .src = {&call, 1}, .ints = number, .dtype = output.dtype}));
    fusion_.stored.insert(results.back());
  }
  lowered.unit =
      LowerUserKernel(call, std::move(user_kernels_.at(call)), results,
                      [&](const Node* input) { return lowered.SlotOf(BufferOf(input)); });
  lowered.reads = lowered.buffers;
  for (const LoweredUnit::Output& output : lowered.unit->outputs) {
    lowered.writes.push_back(BufferOf(output.tensor));
    lowered.store_offset[output.tensor] = output.index[0];
  }
  for (const Access& access : lowered.unit->accesses) {
    if (access.tensor->op == Op::kParam) {
      lowered.read_offsets[access.tensor].insert(access.load->src[1]);
    }
  }
}

absl::Status Scheduler::MakeKernels(int unit) {
  Lowered& lowered = lowered_[unit];
  if (lowered.update == nullptr) return MakeKernel(lowered);
  const Node* scatter = fusion_.units[unit].tensors[0];
  const Node* from = scatter->src[0];
  // What is updated in place holds already what the Scatter starts from.
  const bool in_place = from->op == Op::kParam && BufferOf(scatter) == BufferOf(from);
  if (!in_place) TD_RETURN_IF_ERROR(MakeKernel(lowered));
  return MakeKernel(*lowered.update);
}

absl::Status Scheduler::MakeKernel(Lowered& lowered) {
  Graph& graph = lowered.unit->graph;
  std::vector<const Node*> stores;
  for (const LoweredUnit::Output& output : lowered.unit->outputs) {
    if (!fusion_.stored.contains(output.tensor)) continue;
    // A program output that stands in several places lies row-major in each.
    std::vector<int> targets = {BufferOf(output.tensor)};
    if (auto more = also_.find(output.tensor); more != also_.end()) {
      targets.insert(targets.end(), more->second.begin(), more->second.end());
    }
    const Node* offset = lowered.store_offset.at(output.tensor);
    for (int target : targets) {
      const Node* param = graph.Param(lowered.SlotOf(target), output.tensor->dtype,
                                      {NumElements(output.tensor->shape)});
      if (output.gate == nullptr) {
        stores.push_back(graph.Make(Op::kStore, {param, offset, output.value}));
        continue;
      }
      std::vector<const Node*> src = {param, offset, output.value, output.gate};
      src.insert(src.end(), output.ordered.begin(), output.ordered.end());
      stores.push_back(graph.Make(Op::kModify, src, output.tensor->ints.first(1)));
    }
  }

  auto kernel = std::make_unique<Kernel>();
  kernel->sink = graph.Make(Op::kSink, stores, {});
  kernel->loops = lowered.unit->loops;
#ifndef NDEBUG
  TD_RETURN_IF_ERROR(VerifyKernel({kernel->sink}), "scheduling program '{}'", program_.name);
#endif
  kernel->params.resize(lowered.buffers.size());
  std::string sizes, folded;
  bool scans = false;
  for (const Node* loop : kernel->loops) sizes += fmt::format("_{}", loop->range_size());
  for (const Node* node : TopologicalOrder({kernel->sink})) {
    if (node->op == Op::kParam) kernel->params[node->slot()] = node;
    if (node->op == Op::kVariable) kernel->variables.push_back(node);
    scans |= node->op == Op::kRunning;
    if (node->op != Op::kFold) continue;
    int64_t extent = 1;
    for (const Node* range : node->src.subspan(1)) extent *= range->range_size();
    folded += fmt::format("_{}", extent);
  }
  const bool scatters = stores[0]->op == Op::kModify;
  const std::string& given = lowered.unit->name;
  kernel->name = !given.empty()   ? given + sizes
                 : scatters       ? "scatter" + sizes
                 : scans          ? "scan" + sizes
                 : folded.empty() ? "map" + sizes
                                  : "fold" + sizes;
  if (!folded.empty()) kernel->name += "_over" + folded;
  // Lowering may have looked at a tensor whose value then folded away.
  for (size_t slot = 0; slot < kernel->params.size(); ++slot) {
    if (kernel->params[slot] != nullptr) continue;
    const Schedule::Buffer& buffer = schedule_.buffers[lowered.buffers[slot]];
    kernel->params[slot] = graph.Param(static_cast<int64_t>(slot), buffer.dtype, {buffer.elements});
  }
  kernel->graph = std::move(graph);

  const auto [known, is_new] =
      kernel_of_.emplace(StructuralKey(*kernel), static_cast<int>(schedule_.kernels.size()));
  if (is_new) schedule_.kernels.push_back(std::move(kernel));
  schedule_.steps.push_back({known->second, std::move(lowered.buffers)});
  return absl::OkStatus();
}

bool Scheduler::CanRunBefore(int first, int second) const {
  // False if `second` is among what `first` waits for.
  std::vector<int> stack = {first};
  absl::flat_hash_set<int> seen;
  while (!stack.empty()) {
    const int unit = stack.back();
    stack.pop_back();
    if (unit == second) return false;
    if (!seen.insert(unit).second) continue;
    for (int other : before_[unit]) stack.push_back(other);
  }
  return true;
}

// Overwrites inputs in place where every reader can run before, and through a copy at the end where
// not; then sorts and makes the kernels.
absl::Status Scheduler::OrderSteps() {
  const int count = static_cast<int>(lowered_.size());
  before_.resize(count);
  absl::flat_hash_map<int, int> writer;  // buffer -> unit
  std::vector<std::vector<int>> readers(schedule_.buffers.size());
  for (int unit = 0; unit < count; ++unit) {
    for (int buffer : lowered_[unit].writes) writer[buffer] = unit;
    for (int buffer : lowered_[unit].reads) readers[buffer].push_back(unit);
  }
  for (size_t buffer = 0; buffer < readers.size(); ++buffer) {
    auto found = writer.find(static_cast<int>(buffer));
    if (found == writer.end()) continue;
    for (int reader : readers[buffer]) before_[reader].push_back(found->second);
  }

  absl::flat_hash_set<int> overwritten;  // temporaries that became inputs
  for (const OutputValue& output : outputs_) {
    if (output.overwrites == Program::kFresh || NumElements(output.value->shape) == 0) continue;
    const int input = static_cast<int>(output.overwrites);
    const int source = buffer_of_.at(output.value);
    const int unit = writer.at(source);
    bool in_place = schedule_.buffers[source].kind == Schedule::Kind::kTemporary;
    // The kernel itself may read an element only where it stores it.
    const Lowered& lowered = lowered_[unit];
    if (auto reads = lowered.read_offsets.find(params_[input]);
        reads != lowered.read_offsets.end()) {
      in_place = in_place && reads->second.size() == 1 &&
                 reads->second.contains(lowered.store_offset.at(output.value));
    }
    std::vector<int> others;
    for (int reader : readers[input]) {
      if (reader == unit) continue;
      others.push_back(reader);
      in_place = in_place && CanRunBefore(reader, unit);
    }
    if (!in_place) {
      copies_at_end_.push_back({input, source});
      continue;
    }
    before_[unit].insert(before_[unit].end(), others.begin(), others.end());
    // From now on the temporary is the input itself.
    overwritten.insert(source);
    for (Lowered& lowered : lowered_) {
      std::replace(lowered.buffers.begin(), lowered.buffers.end(), source, input);
      if (Lowered* update = lowered.update.get()) {
        std::replace(update->buffers.begin(), update->buffers.end(), source, input);
      }
    }
    for (auto& [to, from] : copies_at_end_) {
      if (from == source) from = input;
    }
    buffer_of_[output.value] = input;
    writer[input] = unit;
    readers[input].insert(readers[input].end(), readers[source].begin(), readers[source].end());
  }

  // Kahn's algorithm, the lowest number first: near the order in which the program was written. But
  // a kernel that stores no temporary can only free some, so it runs as soon as it can.
  std::vector<int> turn(count);
  for (int unit = 0; unit < count; ++unit) {
    const std::vector<int>& writes = lowered_[unit].writes;
    const bool only_frees = std::none_of(writes.begin(), writes.end(), [&](int buffer) {
      return schedule_.buffers[buffer].kind == Schedule::Kind::kTemporary &&
             !overwritten.contains(buffer);
    });
    turn[unit] = only_frees ? unit - count : unit;
  }
  const auto later = [&turn](int a, int b) { return turn[a] > turn[b]; };
  std::vector<int> missing(count, 0);
  std::vector<std::vector<int>> after(count);
  for (int unit = 0; unit < count; ++unit) {
    for (int other : before_[unit]) {
      if (other == unit) continue;
      after[other].push_back(unit);
      ++missing[unit];
    }
  }
  int made = 0;
  std::vector<int> ready;
  for (int unit = count; unit-- > 0;) {
    if (missing[unit] == 0) ready.push_back(unit);
  }
  std::sort(ready.begin(), ready.end(), later);
  while (!ready.empty()) {
    const int unit = ready.back();
    ready.pop_back();
    TD_RETURN_IF_ERROR(MakeKernels(unit));
    ++made;
    for (int next : after[unit]) {
      if (--missing[next] == 0) {
        ready.insert(std::upper_bound(ready.begin(), ready.end(), next, later), next);
      }
    }
  }
  TD_CHECK(made == count, "the kernels wait for each other");
  for (const auto& [to, from] : copies_at_end_) {
    schedule_.steps.push_back({Schedule::Step::kCopy, {to, from}});
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Schedule> ScheduleInParts(const Program& program) {
  if (HasExchanges(program)) return ScheduleExchanges(program);
  if (HasLoops(program)) return ScheduleLoops(program);
  return Scheduler(program).Run();
}

absl::StatusOr<Schedule> MakeSchedule(const Program& program) {
  TD_ASSIGN_OR_RETURN(Schedule schedule, ScheduleInParts(program));
  PlaceTemporaries(schedule);
  return schedule;
}

}  // namespace tensord
