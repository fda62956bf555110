#include "tests/differential/interpret.h"

#include <fmt/format.h>

#include <array>
#include <optional>

#include "core/base/status.h"
#include "core/codegen/codegen.h"
#include "core/ir/text.h"
#include "core/rules/spec.h"

namespace tensord {
namespace {

using Lanes = std::vector<Scalar>;

class Interpreter {
 public:
  Interpreter(const LinearProgram& program, absl::Span<Memory* const> buffers,
              const Variables& variables)
      : program_(program), buffers_(buffers), variables_(variables) {
    std::vector<size_t> open;
    end_of_.resize(program.body.size());
    for (size_t at = 0; at < program.body.size(); ++at) {
      const Node* node = program.body[at];
      if (node->op == Op::kRange) open.push_back(at);
      if (node->op == Op::kEnd) {
        end_of_[open.back()] = at;
        open.pop_back();
      }
    }
    for (const Memory* buffer : buffers) stored_.emplace_back(buffer->size());
  }

  std::string Run() {
    for (int64_t group = 0; group < program_.grid; ++group) {
      group_ = group;
      Range(0, program_.body.size());
      if (!problem_.empty()) return problem_;
    }
    return "";
  }

 private:
  void Range(size_t from, size_t to) {
    for (size_t at = from; at < to && problem_.empty(); ++at) {
      const Node* node = program_.body[at];
      if (node->op != Op::kRange) {
        Step(node);
        continue;
      }
      for (int64_t i = 0; i < node->range_size() && problem_.empty(); ++i) {
        values_[node] = {Scalar::Int(DType::kIndex, i)};
        Range(at + 1, end_of_[at]);
      }
      at = end_of_[at];
    }
  }

  const Lanes& Of(const Node* node) {
    if (node->op == Op::kConst) {
      return values_[node] = {Scalar::FromAttribute(node->dtype, node->ints[0])};
    }
    if (node->op == Op::kVariable) {
      return values_[node] = {Scalar::Int(node->dtype, variables_.at(std::string(node->text)))};
    }
    // A loop's index outside of its loop is no value.
    return values_[node];
  }

  // The element of lane `lane` that an access means; null if its gate is closed or it is out of
  // bounds.
  Scalar* Element(const Node* node, const Node* gate, size_t lane) {
    if (gate != nullptr) {
      const Lanes& open = Of(gate);
      if (open[open.size() == 1 ? 0 : lane].i == 0) return nullptr;
    }
    const Lanes& index = Of(node->src[1]);
    const int64_t at = index.size() == 1 ? index[0].i + static_cast<int64_t>(lane) : index[lane].i;
    Memory& memory = *buffers_[static_cast<size_t>(node->src[0]->slot())];
    if (at < 0 || at >= static_cast<int64_t>(memory.size())) {
      problem_ =
          fmt::format("element {} of {} is out of bounds: {}", at, memory.size(), PrintNode(node));
      return nullptr;
    }
    return &memory[static_cast<size_t>(at)];
  }

  void Load(const Node* node) {
    const Node* gate = node->src.size() > 2 ? node->src[2] : nullptr;
    Lanes result(node->lanes);
    for (size_t lane = 0; lane < node->lanes; ++lane) {
      const Scalar* element = Element(node, gate, lane);
      if (element != nullptr && element->dtype == DType::kVoid) {
        problem_ = fmt::format("lane {} reads what nothing has written: {}", lane, PrintNode(node));
      }
      result[lane] = element == nullptr ? Scalar::Of(node->dtype, 0) : *element;
    }
    values_[node] = std::move(result);
  }

  void Store(const Node* node) {
    const Lanes value = Of(node->src[2]);
    const Node* gate = node->src.size() > 3 ? node->src[3] : nullptr;
    const size_t slot = static_cast<size_t>(node->src[0]->slot());
    for (size_t lane = 0; lane < value.size(); ++lane) {
      Scalar* element = Element(node, gate, lane);
      if (element == nullptr) continue;
      *element = value[lane];
      auto again = stored_[slot][static_cast<size_t>(element - buffers_[slot]->data())];
      if (again) {
        problem_ = fmt::format("element {} is stored twice: {}", element - buffers_[slot]->data(),
                               PrintNode(node));
      }
      again = true;
    }
  }

  void Step(const Node* node) {
    switch (node->op) {
      case Op::kConst:
      case Op::kParam:
      case Op::kVariable:
      case Op::kEnd:
        return;
      case Op::kLoad:
        return Load(node);
      case Op::kStore:
        return Store(node);
      case Op::kGridIndex:
        values_[node] = {Scalar::Int(DType::kIndex, group_)};
        return;
      case Op::kAccumulator:
        registers_[node] = Of(node->src[0]);
        return;
      case Op::kUpdate:
        registers_[node->src[0]] = Of(node->src[1]);
        return;
      case Op::kRead:
        values_[node] = registers_[node->src[0]];
        return;
      case Op::kBroadcast:
        values_[node] = Lanes(node->lanes, Scalar(Of(node->src[0])[0]));
        return;
      case Op::kRamp: {
        Lanes ramp;
        for (int64_t lane = 0; lane < node->lanes; ++lane) {
          ramp.push_back(Scalar::Int(node->dtype, lane));
        }
        values_[node] = std::move(ramp);
        return;
      }
      case Op::kStack: {
        Lanes lanes;
        for (const Node* src : node->src) lanes.push_back(Of(src)[0]);
        values_[node] = std::move(lanes);
        return;
      }
      case Op::kExtract: {
        const Scalar lane = Of(node->src[0])[static_cast<size_t>(node->slot())];
        values_[node] = {lane};
        return;
      }
      case Op::kHorizontal: {
        const Lanes lanes = Of(node->src[0]);
        Scalar total = lanes[0];
        for (size_t lane = 1; lane < lanes.size(); ++lane) {
          total =
              *EvalOp(CombineOp(node->reduce_kind()), node->dtype, std::array{total, lanes[lane]});
        }
        values_[node] = {total};
        return;
      }
      default:
        return Elementwise(node);
    }
  }

  void Elementwise(const Node* node) {
    std::array<Lanes, 3> src;
    for (size_t s = 0; s < node->src.size(); ++s) src[s] = Of(node->src[s]);
    Lanes result(node->lanes);
    std::array<Scalar, 3> operands;
    for (size_t lane = 0; lane < node->lanes; ++lane) {
      for (size_t s = 0; s < node->src.size(); ++s) operands[s] = src[s][lane];
      const std::optional<Scalar> value =
          EvalOp(node->op, node->dtype, {operands.data(), node->src.size()});
      if (!value) {
        problem_ = fmt::format("has no meaning: {}", PrintNode(node));
        return;
      }
      result[lane] = *value;
    }
    values_[node] = std::move(result);
  }

  const LinearProgram& program_;
  const absl::Span<Memory* const> buffers_;
  const Variables& variables_;
  int64_t group_ = 0;
  std::vector<size_t> end_of_;
  std::vector<std::vector<bool>> stored_;  // by slot
  absl::flat_hash_map<const Node*, Lanes> values_, registers_;
  std::string problem_;
};

}  // namespace

std::string Interpret(const LinearProgram& program, absl::Span<Memory* const> buffers,
                      const Variables& variables) {
  return Interpreter(program, buffers, variables).Run();
}

std::string Interpret(const Schedule& schedule, const Target& target, std::vector<Memory>& memory,
                      const Variables& variables) {
  std::vector<std::unique_ptr<LinearKernel>> kernels;
  for (size_t i = 0; i < schedule.kernels.size(); ++i) {
    const Kernel& kernel = *schedule.kernels[i];
    if (absl::Status status = VerifyKernel({kernel.sink}); !status.ok()) {
      return fmt::format("kernel {}: {}", i, Message(status));
    }
    auto linear = LowerKernel(kernel, target);
    if (!linear.ok()) return fmt::format("kernel {}: {}", i, Message(linear.status()));
    if (absl::Status status = VerifyLinear((*linear)->program.body); !status.ok()) {
      return fmt::format("kernel {}: {}", i, Message(status));
    }
    kernels.push_back(*std::move(linear));
  }
  for (const Schedule::Step& step : schedule.steps) {
    if (step.kernel == Schedule::Step::kCopy) {
      memory[static_cast<size_t>(step.buffers[0])] = memory[static_cast<size_t>(step.buffers[1])];
      continue;
    }
    std::vector<Memory*> buffers;
    for (int buffer : step.buffers) buffers.push_back(&memory[static_cast<size_t>(buffer)]);
    const LinearProgram& program = kernels[static_cast<size_t>(step.kernel)]->program;
    if (std::string problem = Interpret(program, buffers, variables); !problem.empty()) {
      return fmt::format("kernel {}: {}", step.kernel, problem);
    }
  }
  return "";
}

}  // namespace tensord
