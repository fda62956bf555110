#include "backends/null/device.h"

#include <cstring>
#include <utility>

namespace tensord::null {
namespace {

class Kernel final : public LoadedKernel {
 public:
  explicit Kernel(std::string name) : name_(std::move(name)) {}
  const std::string& name() const override { return name_; }

 private:
  const std::string name_;
};

}  // namespace

Device::Device(DeviceOptions options, Target target)
    : options_(std::move(options)),
      target_(std::move(target)),
      allocator_({.device_name = options_.name,
                  .capacity_bytes = options_.memory_bytes,
                  .max_cached_bytes = options_.memory_bytes / 2},
                 *this),
      timeline_(options_.name),
      queue_({.device_name = options_.name}, timeline_, *this) {}

absl::StatusOr<std::unique_ptr<LoadedKernel>> Device::Load(const std::string& /*binary*/,
                                                           const std::string& entry) {
  return std::make_unique<Kernel>(entry);
}

absl::Status Device::Exec(const ExecCommand& /*command*/) { return absl::OkStatus(); }

absl::Status Device::Copy(const CopyCommand& command) {
  if (command.bytes > 0) std::memcpy(command.dst, command.src, command.bytes);
  return absl::OkStatus();
}

}  // namespace tensord::null
