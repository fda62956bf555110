#include "backends/interp/interpreter.h"

#include <absl/container/flat_hash_set.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "backends/interp/explain.h"
#include "core/base/status.h"
#include "core/ir/eval.h"
#include "core/ir/text.h"

namespace tensord::interp {

Interpreter::Interpreter(const LinearProgram& program)
    : program_(program), stores_(program.params.size()) {
  std::vector<size_t> open;
  int64_t times = 1;  // of the innermost open loop
  for (const Node* node : program.body) {
    Instruction instruction = {.node = node, .result = PlaceOf(node), .src = {}};
    for (const Node* src : node->src) instruction.src.push_back(PlaceOf(src));
    if (node->op == Op::kRange) {
      open.push_back(code_.size());
      times *= node->range_size();
    }
    if (node->op == Op::kEnd) {
      times /= code_[open.back()].node->range_size();
      code_[open.back()].end = code_.size();
      open.pop_back();
    }
    if (node->op == Op::kStore) {
      int64_t& stores = stores_[static_cast<size_t>(node->src[0]->slot())];
      stores = node->src.size() > 3 || stores == kNotAll ? kNotAll
                                                         : stores + times * node->src[2]->lanes;
    }
    code_.push_back(std::move(instruction));
  }
}

size_t Interpreter::PlaceOf(const Node* node) {
  const auto [place, is_new] = places_.emplace(node, size_);
  if (is_new) size_ += node->lanes;
  return place->second;
}

// One launch.
class Machine {
 public:
  Machine(const Interpreter& interpreter, absl::Span<const BufferView> buffers,
          const Interpreter::Launch& launch)
      : interpreter_(interpreter),
        program_(interpreter.program_),
        buffers_(buffers),
        launch_(launch),
        values_(interpreter.size_) {}

  absl::Status Run() {
    TD_RETURN_IF_ERROR(Prepare());
    for (group_ = 0; group_ < launch_.grid; ++group_) {
      TD_RETURN_IF_ERROR(CheckStop());
      TD_RETURN_IF_ERROR(Execute(0, interpreter_.code_.size()));
    }
    return absl::OkStatus();
  }

 private:
  using Instruction = Interpreter::Instruction;

  // Who touched an element: a workgroup.
  static constexpr int64_t kNobody = -1, kSeveral = -2;
  struct Access {
    int64_t stored = kNobody, loaded = kNobody;
  };

  absl::Status Prepare() {
    if (buffers_.size() != program_.params.size() ||
        launch_.variables.size() < program_.variables.size()) {
      return Internal("kernel '{}' has {} buffers and {} variables, but is given {} and {}",
                      program_.name, program_.params.size(), program_.variables.size(),
                      buffers_.size(), launch_.variables.size());
    }
    for (const auto& [node, place] : interpreter_.places_) {
      if (node->IsConst()) values_[place] = Scalar::FromAttribute(node->dtype, node->ints[0]);
    }
    for (size_t i = 0; i < program_.variables.size(); ++i) {
      const Node* variable = program_.variables[i];
      const auto place = interpreter_.places_.find(variable);
      if (place == interpreter_.places_.end()) continue;
      values_[place->second] = Scalar::Int(variable->dtype, launch_.variables[i]);
    }
    absl::flat_hash_set<const std::byte*> loaded;
    for (const Instruction& instruction : interpreter_.code_) {
      const Node* node = instruction.node;
      if (node->op == Op::kLoad) loaded.insert(Buffer(node).data);
      if (node->op == Op::kStore) accesses_[Buffer(node).data];
    }
    for (size_t slot = 0; slot < buffers_.size(); ++slot) {
      const BufferView& buffer = buffers_[slot];
      const Node* param = program_.params[slot];
      const uint64_t bytes = static_cast<uint64_t>(param->ints[1] * ItemSize(param->dtype));
      const int64_t stores = interpreter_.stores_[slot];
      if (stores == 0 || stores == Interpreter::kNotAll ||
          stores * launch_.grid != param->ints[1] || buffer.bytes < bytes ||
          buffer.written == nullptr || loaded.contains(buffer.data)) {
        continue;
      }
      std::memset(buffer.written, 0, bytes);
    }
    return absl::OkStatus();
  }

  const BufferView& Buffer(const Node* access) const {
    return buffers_[static_cast<size_t>(access->src[0]->slot())];
  }
  // How many elements of its buffer an access may mean.
  uint64_t Elements(const Node* access) const {
    const Node* param = access->src[0];
    return std::min<uint64_t>(static_cast<uint64_t>(param->ints[1]),
                              Buffer(access).bytes / static_cast<uint64_t>(ItemSize(param->dtype)));
  }

  absl::Status CheckStop() const {
    // A request, which publishes nothing.
    if (launch_.stop == nullptr || !launch_.stop->load(std::memory_order_relaxed)) [[likely]] {
      return absl::OkStatus();
    }
    return Cancelled("kernel '{}' was stopped", program_.name);
  }

  absl::Status Execute(size_t from, size_t to) {
    for (size_t at = from; at < to; ++at) {
      const Instruction& instruction = interpreter_.code_[at];
      if (instruction.node->op != Op::kRange) {
        TD_RETURN_IF_ERROR(Step(instruction));
        continue;
      }
      // A source, if there is one, is where the loop ends in this run.
      const int64_t end =
          instruction.src.empty() ? instruction.node->range_size() : values_[instruction.src[0]].i;
      if (end > instruction.node->range_size()) {
        return Fault(instruction, 0, "the loop ends at {}, behind its bound", end);
      }
      for (int64_t i = 0; i < end; ++i) {
        TD_RETURN_IF_ERROR(CheckStop());
        values_[instruction.result] = Scalar::Int(DType::kIndex, i);
        TD_RETURN_IF_ERROR(Execute(at + 1, instruction.end));
      }
      at = instruction.end;
    }
    return absl::OkStatus();
  }

  absl::Status Step(const Instruction& instruction) {
    const Node* node = instruction.node;
    Scalar* const result = &values_[instruction.result];
    const auto src = [&](size_t s, size_t lane = 0) -> const Scalar& {
      return values_[instruction.src[s] + lane];
    };
    switch (node->op) {
      case Op::kConst:
      case Op::kParam:
      case Op::kVariable:
      case Op::kEnd:
        return absl::OkStatus();
      case Op::kLoad:
        return Load(instruction);
      case Op::kStore:
        return Store(instruction);
      case Op::kGridIndex:
        *result = Scalar::Int(DType::kIndex, group_);
        return absl::OkStatus();
      case Op::kAccumulator:
      case Op::kRead:
        std::copy_n(&src(0), node->lanes, result);
        return absl::OkStatus();
      case Op::kUpdate:
        std::copy_n(&src(1), node->src[1]->lanes, &values_[instruction.src[0]]);
        return absl::OkStatus();
      case Op::kBroadcast:
        std::fill_n(result, node->lanes, Scalar(src(0)));
        return absl::OkStatus();
      case Op::kRamp:
        for (int64_t lane = 0; lane < node->lanes; ++lane) {
          result[lane] = Scalar::Int(node->dtype, lane);
        }
        return absl::OkStatus();
      case Op::kStack:
        for (size_t lane = 0; lane < node->lanes; ++lane) result[lane] = src(lane);
        return absl::OkStatus();
      case Op::kExtract:
        *result = src(0, static_cast<size_t>(node->slot()));
        return absl::OkStatus();
      case Op::kHorizontal:
        *result = src(0);
        for (size_t lane = 1; lane < node->src[0]->lanes; ++lane) {
          *result = *EvalOp(CombineOp(node->reduce_kind()), node->dtype,
                            std::array{*result, src(0, lane)});
        }
        return absl::OkStatus();
      default:
        break;
    }
    std::array<Scalar, 3> operands;
    if (!In(node->op, ElementwiseOps()) || node->src.size() > operands.size()) {
      return Fault(instruction, 0, "the interpreter doesn't know this op");
    }
    for (size_t lane = 0; lane < node->lanes; ++lane) {
      for (size_t s = 0; s < node->src.size(); ++s) operands[s] = src(s, lane);
      const std::optional<Scalar> value =
          EvalOp(node->op, node->dtype, {operands.data(), node->src.size()});
      if (!value) return Fault(instruction, lane, "this op has no meaning for its operands");
      result[lane] = *value;
    }
    return absl::OkStatus();
  }

  // Source number `gate` of an access, if it has one, is the gate.
  bool IsOpen(const Instruction& access, size_t gate, size_t lane) const {
    if (access.src.size() <= gate) return true;
    return values_[access.src[gate] + (access.node->src[gate]->lanes == 1 ? 0 : lane)].i != 0;
  }

  // The element that a lane means: consecutive ones, or one for each lane of the index.
  absl::StatusOr<uint64_t> Element(const Instruction& access, size_t lane) const {
    const bool consecutive = access.node->src[1]->lanes == 1;
    const int64_t index = consecutive ? values_[access.src[1]].i + static_cast<int64_t>(lane)
                                      : values_[access.src[1] + lane].i;
    const uint64_t elements = Elements(access.node);
    if (index < 0 || static_cast<uint64_t>(index) >= elements) {
      const int64_t item = ItemSize(access.node->src[0]->dtype);
      return Fault(access, lane, "element {} (byte {:#x}) of {} is out of bounds", index,
                   index * item, elements);
    }
    return static_cast<uint64_t>(index);
  }

  absl::Status Load(const Instruction& load) {
    const Node* node = load.node;
    const BufferView& buffer = Buffer(node);
    const auto item = static_cast<size_t>(ItemSize(node->dtype));
    for (size_t lane = 0; lane < node->lanes; ++lane) {
      Scalar& result = values_[load.result + lane];
      if (!IsOpen(load, 2, lane)) {
        result = Scalar::Of(node->dtype, 0);
        continue;
      }
      TD_ASSIGN_OR_RETURN(const uint64_t element, Element(load, lane));
      const uint64_t at = element * item;
      if (buffer.written != nullptr && std::count(buffer.written + at, buffer.written + at + item,
                                                  1) < static_cast<std::ptrdiff_t>(item)) {
        return Fault(load, lane, "reads element {}, which nothing has written", element);
      }
      if (const auto touched = accesses_.find(buffer.data); touched != accesses_.end()) {
        Access& access = touched->second[element];
        if (access.stored != kNobody && access.stored != group_) {
          return Fault(load, lane, "reads element {}, which workgroup {} stores", element,
                       access.stored);
        }
        access.loaded = access.loaded == kNobody || access.loaded == group_ ? group_ : kSeveral;
      }
      uint64_t bits = 0;
      std::memcpy(&bits, buffer.data + at, item);
      result = Scalar::FromBits(node->dtype, bits);
    }
    return absl::OkStatus();
  }

  absl::Status Store(const Instruction& store) {
    const Node* node = store.node;
    const BufferView& buffer = Buffer(node);
    const DType dtype = node->src[0]->dtype;
    const auto item = static_cast<size_t>(ItemSize(dtype));
    for (size_t lane = 0; lane < node->src[2]->lanes; ++lane) {
      if (!IsOpen(store, 3, lane)) continue;
      TD_ASSIGN_OR_RETURN(const uint64_t element, Element(store, lane));
      Access& access = accesses_.find(buffer.data)->second[element];
      if (access.stored != kNobody && (access.stored != group_ || launch_.stores_once)) {
        return Fault(store, lane, "stores element {}, which workgroup {} has stored", element,
                     access.stored);
      }
      if (access.loaded != kNobody && access.loaded != group_) {
        return Fault(store, lane, "stores element {}, which {} reads", element,
                     access.loaded == kSeveral ? std::string("more than one workgroup")
                                               : fmt::format("workgroup {}", access.loaded));
      }
      access.stored = group_;
      const uint64_t bits = values_[store.src[2] + lane].ToBits();
      std::memcpy(buffer.data + element * item, &bits, item);
      if (buffer.written != nullptr) std::memset(buffer.written + element * item, 1, item);
    }
    return absl::OkStatus();
  }

  template <typename... Args>
  absl::Status Fault(const Instruction& instruction, size_t lane,
                     fmt::format_string<Args...> format, Args&&... args) const {
    const auto value_of = [&](const Node* node) -> std::optional<Scalar> {
      const auto place = interpreter_.places_.find(node);
      if (place == interpreter_.places_.end() || node->dtype == DType::kVoid) return std::nullopt;
      return values_[place->second + std::min<size_t>(lane, node->lanes - size_t{1})];
    };
    return Internal("kernel '{}' stopped in workgroup {}, lane {}: {}; {}", program_.name, group_,
                    lane, fmt::format(format, std::forward<Args>(args)...),
                    Explain(instruction.node, value_of));
  }

  const Interpreter& interpreter_;
  const LinearProgram& program_;
  const absl::Span<const BufferView> buffers_;
  const Interpreter::Launch& launch_;
  int64_t group_ = 0;
  std::vector<Scalar> values_;
  // Of the buffers that are stored to; slots of one address share an entry.
  absl::flat_hash_map<const std::byte*, absl::flat_hash_map<uint64_t, Access>> accesses_;
};

absl::Status Interpreter::Run(absl::Span<const BufferView> buffers, const Launch& launch) const {
  if (launch.grid <= 0) return absl::OkStatus();
  return Machine(*this, buffers, launch).Run();
}

}  // namespace tensord::interp
