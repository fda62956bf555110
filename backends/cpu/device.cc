#include "backends/cpu/device.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/cpu/kernel.h"
#include "core/base/check.h"
#include "core/base/status.h"
#include "core/compile/llvm_loader.h"

namespace tensord::cpu {
namespace {

Target WithCores(Target target, int cores) {
  target.cores = cores;
  return target;
}

// Copies are launches too, so that big ones use the bandwidth of several cores and a bad address is
// contained like a kernel's.
constexpr int64_t kCopyChunk = 1 << 20;

void CopyChunk(void* const* buffers, const int64_t* variables, int64_t grid_index) {
  const int64_t begin = grid_index * kCopyChunk;
  const int64_t bytes = std::min(kCopyChunk, variables[0] - begin);
  std::memcpy(static_cast<char*>(buffers[0]) + begin, static_cast<const char*>(buffers[1]) + begin,
              bytes);
}

}  // namespace

Device::Device(DeviceOptions options, Target target)
    : options_(std::move(options)),
      target_(WithCores(std::move(target), options_.threads)),
      allocator_({.device_name = options_.name,
                  .capacity_bytes = options_.memory_bytes,
                  .max_cached_bytes = options_.memory_bytes / 2},
                 *this),
      timeline_(options_.name),
      pool_(options_.name, options_.threads),
      queue_({.device_name = options_.name, .max_lists = options_.max_queued_lists}, timeline_,
             *this) {}

absl::StatusOr<std::unique_ptr<LoadedKernel>> Device::Load(const std::string& binary,
                                                           const std::string& entry) {
  TD_ASSIGN_OR_RETURN(std::shared_ptr<LlvmObject> object, LlvmObject::Load(binary, entry),
                      "{}: kernel '{}'", options_.name, entry);
  auto* function = reinterpret_cast<KernelFunction*>(object->entry());
  return std::make_unique<Kernel>(entry, function, std::move(object));
}

absl::Status Device::Exec(const ExecCommand& command) {
  TD_CHECK(command.kernel != nullptr && command.args != nullptr && command.grid >= 0);
  const auto& kernel = static_cast<const Kernel&>(*command.kernel);
  const std::optional<Fault> fault = pool_.Run({.function = kernel.function(),
                                                .buffers = command.args->buffers.data(),
                                                .variables = command.args->variables.data(),
                                                .grid = command.grid});
  if (!fault) return absl::OkStatus();
  return Internal("{}: kernel '{}' of {} workgroups stopped by a {}", options_.name, kernel.name(),
                  command.grid, fault->Describe());
}

absl::Status Device::Copy(const CopyCommand& command) {
  void* const buffers[] = {command.dst, const_cast<void*>(command.src)};
  const int64_t bytes = static_cast<int64_t>(command.bytes);
  const std::optional<Fault> fault = pool_.Run({.function = CopyChunk,
                                                .buffers = buffers,
                                                .variables = &bytes,
                                                .grid = (bytes + kCopyChunk - 1) / kCopyChunk});
  if (!fault) return absl::OkStatus();
  return Internal("{}: copy of {} bytes stopped by a {}", options_.name, bytes, fault->Describe());
}

}  // namespace tensord::cpu
