#include "server/metrics/metered_runtime.h"

#include <utility>

#include "core/base/status.h"

namespace tensord {

MeteredRuntime::MeteredRuntime(std::unique_ptr<Runtime> runtime, Metrics& metrics)
    : metrics_(metrics), runtime_(std::move(runtime)) {
  for (Device* device : runtime_->devices()) busy_[device] = &metrics_.Busy(*device);
}

absl::StatusOr<std::shared_ptr<const Executable>> MeteredRuntime::Prepare(
    const Program& program, absl::Span<Device* const> devices, CompileStats* stats) {
  CompileStats unused;
  if (stats == nullptr) stats = &unused;
  auto executable = runtime_->Prepare(program, devices, stats);
  if (executable.ok()) metrics_.Prepared(*stats);
  return executable;
}

absl::StatusOr<Run> MeteredRuntime::Submit(
    const std::shared_ptr<const Executable>& executable, absl::Span<const BufferRef> inputs,
    const absl::flat_hash_map<std::string, int64_t>& variables) {
  TD_ASSIGN_OR_RETURN(Run run, runtime_->Submit(executable, inputs, variables));
  for (size_t i = 0; i < run.times_by_device.size(); ++i) {
    const auto& [device, times] = run.times_by_device[i];
    device->timeline().OnReached(i == 0 ? run.done : run.done_on_others[i - 1].second,
                                 [times = times, busy = busy_.at(device)](absl::Status status) {
                                   // One that failed may have no end.
                                   if (status.ok()) busy->Increment(times->device_ns() * 1e-9);
                                 });
  }
  return run;
}

}  // namespace tensord
