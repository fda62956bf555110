#include "tests/differential/interpret.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "backends/interp/interpreter.h"
#include "core/base/status.h"
#include "core/rules/spec.h"
#include "tests/differential/prove.h"

namespace tensord {
namespace {

// A buffer as a kernel sees it.
struct Bytes {
  std::vector<std::byte> data;
  std::vector<uint8_t> written;

  Bytes(const Memory& memory, DType dtype)
      : data(memory.size() * static_cast<size_t>(ItemSize(dtype))), written(data.size()) {
    const auto item = static_cast<size_t>(ItemSize(dtype));
    for (size_t e = 0; e < memory.size(); ++e) {
      if (memory[e].dtype == DType::kVoid) continue;
      const uint64_t bits = memory[e].ToBits();
      std::memcpy(&data[e * item], &bits, item);
      std::memset(&written[e * item], 1, item);
    }
  }

  Memory Elements(DType dtype) const {
    const auto item = static_cast<size_t>(ItemSize(dtype));
    Memory memory(data.size() / item);
    for (size_t e = 0; e < memory.size(); ++e) {
      if (written[e * item] == 0) continue;
      uint64_t bits = 0;
      std::memcpy(&bits, &data[e * item], item);
      memory[e] = Scalar::FromBits(dtype, bits);
    }
    return memory;
  }

  interp::BufferView View() { return {data.data(), written.data(), data.size()}; }
};

}  // namespace

std::string LowerKernels(const Schedule& schedule, const Target& target,
                         std::vector<std::unique_ptr<LinearKernel>>* kernels) {
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
    if (std::string problem = ProveBounds((*linear)->program); !problem.empty()) return problem;
    if (kernels != nullptr) kernels->push_back(*std::move(linear));
  }
  return "";
}

std::string Interpret(const Schedule& schedule, const Target& target, std::vector<Memory>& memory,
                      const Variables& variables) {
  std::vector<std::unique_ptr<LinearKernel>> kernels;
  if (std::string problem = LowerKernels(schedule, target, &kernels); !problem.empty()) {
    return problem;
  }
  std::vector<Bytes> buffers;
  for (size_t i = 0; i < memory.size(); ++i) {
    buffers.emplace_back(memory[i], schedule.buffers[i].dtype);
  }
  const std::function<std::string(size_t, size_t)> run = [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const Schedule::Step& step = schedule.steps[i];
      const auto buffer = [&](int number) -> Bytes& {
        return buffers[static_cast<size_t>(step.buffers[static_cast<size_t>(number)])];
      };
      if (step.kernel == Schedule::Step::kCopy) {
        buffer(0) = buffer(1);
        continue;
      }
      if (step.kernel == Schedule::Step::kLoop) {
        const size_t after = i + 1 + static_cast<size_t>(step.body);
        for (int64_t n = 0; n < step.most && buffer(0).Elements(DType::kBool)[0].i != 0; ++n) {
          if (std::string problem = run(i + 1, after); !problem.empty()) return problem;
        }
        i = after - 1;
        continue;
      }
      const LinearProgram& program = kernels[static_cast<size_t>(step.kernel)]->program;
      std::vector<interp::BufferView> views;
      for (int number : step.buffers) views.push_back(buffers[static_cast<size_t>(number)].View());
      std::vector<int64_t> values;
      for (const Node* variable : program.variables) {
        values.push_back(variables.at(std::string(variable->text)));
      }
      // Other ops than Store may write to a place more than once.
      const absl::Span<const Node* const> roots =
          schedule.kernels[static_cast<size_t>(step.kernel)]->sink->src;
      const bool stores_once = std::all_of(roots.begin(), roots.end(),
                                           [](const Node* root) { return root->op == Op::kStore; });
      const absl::Status status = interp::Interpreter(program).Run(
          views, {.grid = program.grid, .variables = values, .stores_once = stores_once});
      if (!status.ok()) return std::string(Message(status));
    }
    return std::string();
  };
  if (std::string problem = run(0, schedule.steps.size()); !problem.empty()) return problem;
  for (size_t i = 0; i < memory.size(); ++i) {
    memory[i] = buffers[i].Elements(schedule.buffers[i].dtype);
  }
  return "";
}

}  // namespace tensord
