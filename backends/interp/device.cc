#include "backends/interp/device.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "backends/interp/interpreter.h"
#include "core/base/check.h"
#include "core/base/status.h"
#include "core/ir/linear_text.h"
#include "core/rules/spec.h"

namespace tensord::interp {
namespace {

class Kernel final : public LoadedKernel {
 public:
  Kernel(Graph graph, LinearProgram program)
      : graph_(std::move(graph)), program_(std::move(program)), interpreter_(program_) {}
  const std::string& name() const override { return program_.name; }
  const Interpreter& interpreter() const { return interpreter_; }

 private:
  const Graph graph_;  // owns the program's nodes
  const LinearProgram program_;
  const Interpreter interpreter_;
};

}  // namespace

Device::Device(DeviceOptions options, Target target, std::shared_ptr<MemoryMap> map)
    : options_(std::move(options)),
      target_(std::move(target)),
      map_(std::move(map)),
      allocator_({.device_name = options_.name,
                  .capacity_bytes = options_.memory_bytes,
                  .max_cached_bytes = options_.memory_bytes / 2},
                 *this, map_),
      timeline_(options_.name),
      queue_({.device_name = options_.name}, timeline_, *this) {}

absl::StatusOr<std::unique_ptr<LoadedKernel>> Device::Load(const std::string& binary,
                                                           const std::string& entry) {
  Graph graph;
  TD_ASSIGN_OR_RETURN(LinearProgram program, ParseLinear(binary, graph), "{}: kernel '{}'",
                      options_.name, entry);
  TD_RETURN_IF_ERROR(VerifyLinear(program.body), "{}: kernel '{}'", options_.name, entry);
  if (program.name != entry) {
    return InvalidArgument("{}: kernel '{}' is not in the binary of '{}'", options_.name, entry,
                           program.name);
  }
  return std::make_unique<Kernel>(std::move(graph), std::move(program));
}

absl::Status Device::Exec(const ExecCommand& command) {
  TD_CHECK(command.kernel != nullptr && command.args != nullptr && command.grid >= 0);
  std::vector<BufferView> buffers;
  for (const void* address : command.args->buffers) buffers.push_back(map_->Find(address));
  TD_RETURN_IF_ERROR(
      static_cast<const Kernel&>(*command.kernel)
          .interpreter()
          .Run(buffers,
               {.grid = command.grid, .variables = command.args->variables, .stop = &stop_}),
      "{}", options_.name);
  return absl::OkStatus();
}

// Between device memory and the host's, or within device memory; which is which, the map tells.
absl::Status Device::Copy(const CopyCommand& command) {
  if (command.bytes == 0) return absl::OkStatus();
  const BufferView to = map_->Find(command.dst), from = map_->Find(command.src);
  for (const BufferView& view : {to, from}) {
    if (view.data != nullptr && view.bytes < command.bytes) {
      return Internal("{}: a copy of {} bytes is out of bounds of memory with {}", options_.name,
                      command.bytes, view.bytes);
    }
  }
  if (from.written != nullptr && to.data == nullptr) {
    const uint8_t* end = from.written + command.bytes;
    const uint8_t* unwritten = std::find<const uint8_t*>(from.written, end, 0);
    if (unwritten != end) {
      return Internal("{}: a copy of {} bytes to the host reads byte {}, which nothing has written",
                      options_.name, command.bytes, unwritten - from.written);
    }
  }
  std::memmove(command.dst, command.src, command.bytes);
  if (to.written != nullptr) {
    if (from.written != nullptr) {
      std::memmove(to.written, from.written, command.bytes);
    } else {
      std::memset(to.written, 1, command.bytes);
    }
  }
  return absl::OkStatus();
}

}  // namespace tensord::interp
