#include "backends/paced/device.h"

#include <absl/time/clock.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/hcq/event_count.h"
#include "core/base/status.h"

namespace tensord::paced {
namespace {

class Kernel final : public LoadedKernel {
 public:
  explicit Kernel(std::string name) : name_(std::move(name)) {}
  const std::string& name() const override { return name_; }

 private:
  const std::string name_;
};

// Whether this is the launch that a number or a text of the settings means.
bool Means(double number, const std::string& text, uint64_t launch, const std::string& kernel) {
  return (number > 0 && launch == static_cast<uint64_t>(number)) ||
         (!text.empty() && kernel.find(text) != std::string::npos);
}

}  // namespace

Device::Device(DeviceOptions options, Target target)
    : options_(std::move(options)),
      target_(std::move(target)),
      allocator_({.device_name = options_.name,
                  .capacity_bytes = options_.memory_bytes,
                  .max_cached_bytes = options_.memory_bytes / 2},
                 *this),
      timeline_(options_.name),
      clock_ns_(hcq::MonotonicNs()),
      queue_({.device_name = options_.name}, timeline_, *this) {}

absl::StatusOr<std::unique_ptr<LoadedKernel>> Device::Load(const std::string& /*binary*/,
                                                           const std::string& entry) {
  return std::make_unique<Kernel>(entry);
}

void Device::Resumed() { clock_ns_ = std::max(clock_ns_, hcq::MonotonicNs()); }

absl::Status Device::Serve(double ns) {
  clock_ns_ += static_cast<int64_t>(ns);
  // By comparing rather than by sleeping for `ns`: what one sleep was late is not added to the
  // next.
  const absl::Duration rest = absl::Nanoseconds(clock_ns_ - hcq::MonotonicNs());
  if (!AwaitStop(std::max(rest, absl::ZeroDuration()))) return absl::OkStatus();
  return Cancelled("{}: stopped before the work was done", options_.name);
}

bool Device::AwaitStop(absl::Duration time) {
  std::unique_lock lock(mu_);
  const auto stopped = [this] { return stopped_; };
  if (time != absl::InfiniteDuration()) {
    return stop_event_.wait_for(lock, absl::ToChronoNanoseconds(time), stopped);
  }
  stop_event_.wait(lock, stopped);
  return true;
}

void Device::Stop() {
  {
    const std::lock_guard lock(mu_);
    stopped_ = true;
  }
  stop_event_.notify_one();
}

void Device::Restart() {
  const std::lock_guard lock(mu_);
  stopped_ = false;
}

absl::Status Device::Exec(const ExecCommand& command) {
  const Settings& settings = options_.settings;
  const std::string& kernel = command.kernel->name();
  ++launches_;
  if (Means(settings.hang_launch, settings.hang_kernel, launches_, kernel)) {
    AwaitStop(absl::InfiniteDuration());
    return Cancelled("{}: kernel '{}', launch {}, hung as the settings ask", options_.name, kernel,
                     launches_);
  }
  TD_RETURN_IF_ERROR(
      Serve(settings.launch_us * 1e3 + settings.workgroup_ns * static_cast<double>(command.grid)));
  if (Means(settings.fault_launch, settings.fault_kernel, launches_, kernel)) {
    return Internal("{}: kernel '{}', launch {}, failed as the settings ask", options_.name, kernel,
                    launches_);
  }
  return absl::OkStatus();
}

absl::Status Device::Copy(const CopyCommand& command) {
  if (command.bytes > 0) std::memcpy(command.dst, command.src, command.bytes);
  const Settings& settings = options_.settings;
  return Serve(settings.copy_us * 1e3 + settings.byte_ns * static_cast<double>(command.bytes));
}

}  // namespace tensord::paced
