#include "tests/differential/interpret.h"

#include <fmt/format.h>

#include <cstring>

#include "backends/interp/interpreter.h"
#include "core/base/status.h"
#include "core/codegen/codegen.h"
#include "core/rules/spec.h"

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
  std::vector<Bytes> buffers;
  for (size_t i = 0; i < memory.size(); ++i) {
    buffers.emplace_back(memory[i], schedule.buffers[i].dtype);
  }
  for (const Schedule::Step& step : schedule.steps) {
    if (step.kernel == Schedule::Step::kCopy) {
      buffers[static_cast<size_t>(step.buffers[0])] = buffers[static_cast<size_t>(step.buffers[1])];
      continue;
    }
    const LinearProgram& program = kernels[static_cast<size_t>(step.kernel)]->program;
    std::vector<interp::BufferView> views;
    for (int buffer : step.buffers) views.push_back(buffers[static_cast<size_t>(buffer)].View());
    std::vector<int64_t> values;
    for (const Node* variable : program.variables) {
      values.push_back(variables.at(std::string(variable->text)));
    }
    const absl::Status status = interp::Interpreter(program).Run(
        views, {.grid = program.grid, .variables = values, .stores_once = true});
    if (!status.ok()) return std::string(Message(status));
  }
  for (size_t i = 0; i < memory.size(); ++i) {
    memory[i] = buffers[i].Elements(schedule.buffers[i].dtype);
  }
  return "";
}

}  // namespace tensord
