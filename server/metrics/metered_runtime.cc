#include "server/metrics/metered_runtime.h"

#include <utility>

#include "core/base/status.h"

namespace tensord {

MeteredRuntime::MeteredRuntime(std::unique_ptr<Runtime> runtime, Metrics& metrics)
    : metrics_(metrics), runtime_(std::move(runtime)) {}

absl::StatusOr<std::shared_ptr<const Executable>> MeteredRuntime::Prepare(
    const Program& program, absl::Span<Device* const> devices, CompileStats* stats) {
  CompileStats unused;
  if (stats == nullptr) stats = &unused;
  auto executable = runtime_->Prepare(program, devices, stats);
  if (executable.ok()) metrics_.Prepared(*stats);
  return executable;
}

}  // namespace tensord
