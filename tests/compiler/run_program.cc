#include "tests/compiler/run_program.h"

#include <cstring>

#include "backends/registry.h"
#include "core/base/check.h"
#include "core/base/status.h"
#include "core/tensor/weak.h"

namespace tensord {

ProgramRunner::ProgramRunner(std::string_view device) {
  auto devices = OpenDevices(device);
  TD_CHECK(devices.ok(), Message(devices.status()));
  auto runtime = Runtime::Create({}, *std::move(devices));
  TD_CHECK(runtime.ok(), Message(runtime.status()));
  runtime_ = *std::move(runtime);
}

Program MakeProgram(absl::Span<const Expr> outputs, absl::Span<const HostTensor> inputs,
                    absl::Span<const int64_t> overwrites) {
  Program program;
  program.name = "test";
  std::vector<const Node*> roots;
  for (const Expr& output : outputs) {
    TD_CHECK(output.ok(), Message(output.status()));
    roots.push_back(output.node());
  }
  const std::vector<const Node*> copies = CopyStrong(program.graph, roots);
  for (const Node* node : TopologicalOrder(copies)) {
    if (node->op == Op::kVariable) program.variables.push_back(node);
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    program.inputs.push_back(
        program.graph.Param(static_cast<int64_t>(i), inputs[i].dtype, inputs[i].shape));
  }
  for (size_t i = 0; i < copies.size(); ++i) {
    program.outputs.push_back({copies[i], i < overwrites.size() ? overwrites[i] : Program::kFresh});
  }
  return program;
}

BufferRef Upload(Device& device, const HostTensor& value) {
  const size_t item = static_cast<size_t>(ItemSize(value.dtype));
  auto memory = device.allocator().Allocate(value.values.size() * item);
  TD_CHECK(memory.ok(), Message(memory.status()));
  auto* bytes = static_cast<std::byte*>((*memory)->host_address());
  for (size_t i = 0; i < value.values.size(); ++i) {
    const uint64_t bits = value.values[i].ToBits();
    std::memcpy(bytes + i * item, &bits, item);
  }
  return std::make_shared<Buffer>(Buffer{value.dtype, value.shape, *std::move(memory)});
}

HostTensor Download(const Buffer& buffer) {
  HostTensor result{buffer.dtype, buffer.shape, {}};
  const size_t item = static_cast<size_t>(ItemSize(buffer.dtype));
  const auto* bytes = static_cast<const std::byte*>(buffer.memory->host_address());
  for (int64_t i = 0; i < NumElements(buffer.shape); ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, bytes + static_cast<size_t>(i) * item, item);
    result.values.push_back(Scalar::FromBits(buffer.dtype, bits));
  }
  return result;
}

absl::StatusOr<ProgramRunner::Result> ProgramRunner::Run(
    absl::Span<const Expr> outputs, absl::Span<const HostTensor> inputs,
    absl::Span<const int64_t> overwrites,
    const absl::flat_hash_map<std::string, int64_t>& variables) {
  const Program program = MakeProgram(outputs, inputs, overwrites);
  TD_ASSIGN_OR_RETURN(const std::shared_ptr<const Executable> executable,
                      runtime_->Prepare(program, device(), nullptr));
  std::vector<BufferRef> buffers;
  for (const HostTensor& input : inputs) buffers.push_back(Upload(device(), input));
  TD_ASSIGN_OR_RETURN(const tensord::Run run, runtime_->Submit(executable, buffers, variables));
  TD_RETURN_IF_ERROR(device().timeline().Wait(run.done, absl::InfiniteFuture()));
  Result result;
  for (const BufferRef& output : run.outputs) result.outputs.push_back(Download(*output));
  result.kernels = executable->num_kernels();
  result.kernel_names = executable->kernel_names();
  return result;
}

}  // namespace tensord
