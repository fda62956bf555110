// A scheduled and compiled program on one device, and how it is launched.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <memory>
#include <string>
#include <vector>

#include "core/runtime/runtime.h"
#include "core/schedule/schedule.h"

namespace tensord {

// What the runs on one device share.
struct DeviceState {
  // Held from the reservation on the timeline to the submission.
  absl::Mutex submitting;
  // The scratch memory of the run that was launched last, while it is in flight: the device does
  // one run after the other, so a run that is queued behind it can use the same.
  absl::Mutex mu;
  std::weak_ptr<DeviceMemory> scratch ABSL_GUARDED_BY(mu);
};

class CompiledExecutable : public Executable {
 public:
  struct LaunchKernel {
    std::unique_ptr<LoadedKernel> loaded;
    int64_t grid;
    std::vector<std::string> variables;  // in the order of KernelArgs::variables
  };
  struct Variable {
    std::string name;
    int64_t min, max;
  };
  struct TensorType {
    DType dtype;
    std::vector<int64_t> shape;
  };

  const std::string& name() const override { return name_; }
  int num_kernels() const override { return static_cast<int>(step_names_.size()); }
  uint64_t scratch_bytes() const override { return schedule_.scratch_bytes; }
  std::vector<std::string> kernel_names() const override;

  // Checks, allocates and enqueues; see Runtime::Submit. `self` is this executable, kept until the
  // run is done.
  absl::StatusOr<Run> Launch(std::shared_ptr<const Executable> self, DeviceState& shared,
                             absl::Span<const BufferRef> inputs,
                             const absl::flat_hash_map<std::string, int64_t>& variables) const;
  Device& device() const { return *device_; }

 private:
  friend class RuntimeImpl;

  absl::StatusOr<std::shared_ptr<DeviceMemory>> Scratch(DeviceState& shared) const;
  // Adds the commands of steps [begin, end). `args` is by step.
  template <typename Address>
  void Record(size_t begin, size_t end, absl::Span<const KernelArgs> args, Address address,
              CommandList& list) const;
  absl::Status Check(absl::Span<const BufferRef> inputs,
                     const absl::flat_hash_map<std::string, int64_t>& variables) const;

  std::string name_;
  Device* device_ = nullptr;
  Schedule schedule_;                    // its kernel graphs are dropped once compiled
  std::vector<std::string> step_names_;  // of kernels and copies, in order
  std::vector<LaunchKernel> kernels_;
  std::vector<TensorType> inputs_, outputs_;
  std::vector<Variable> variables_;
};

}  // namespace tensord
