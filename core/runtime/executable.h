// A scheduled and compiled program, and how it is launched. On several devices every device runs
// the same steps; where they exchange values they wait for each other.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <memory>
#include <string>
#include <vector>

#include "core/runtime/plan_compiler.h"
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
    std::vector<std::unique_ptr<LoadedKernel>> loaded;  // by device
    std::string key;                                    // of the code, in the kernel cache
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
  absl::StatusOr<Run> Launch(std::shared_ptr<const Executable> self,
                             absl::Span<DeviceState* const> shared,
                             absl::Span<const BufferRef> inputs,
                             const absl::flat_hash_map<std::string, int64_t>& variables,
                             const SubmitOptions& options) const;
  absl::Span<Device* const> devices() const { return devices_; }

 private:
  friend class RuntimeImpl;

  struct RunState;

  absl::StatusOr<std::shared_ptr<DeviceMemory>> Scratch(size_t device, DeviceState& shared) const;
  absl::Status Allocate(absl::Span<DeviceState* const> shared, RunState& run) const;
  void* AddressOf(const RunState& run, size_t device, int buffer) const;
  // Adds the commands of steps [begin, end) for one of the devices, and, unless it is null, stamps
  // of each by itself from `times` on.
  void Record(size_t begin, size_t end, RunState& run, size_t device, CommandList& list,
              RunTimes* times) const;
  // Exchanges next to each other that are made as one: from step `begin` to the one returned.
  size_t EndOfExchanges(size_t begin) const;
  void RecordExchanges(size_t begin, RunState& run, size_t device, CommandList& list) const;
  // What Record stamps, in order.
  void NameTimedSteps(absl::Span<const Plan::Kernel> kernels);
  absl::Status Check(absl::Span<const BufferRef> inputs,
                     const absl::flat_hash_map<std::string, int64_t>& variables) const;

  std::string name_;
  std::vector<Device*> devices_;
  Schedule schedule_;                    // its kernel graphs are dropped once compiled
  std::vector<std::string> step_names_;  // of kernels and copies, in order
  std::shared_ptr<const std::vector<std::string>> timed_names_;
  std::shared_ptr<const std::vector<std::vector<std::string>>> timed_kernels_;
  std::vector<LaunchKernel> kernels_;
  std::vector<TensorType> inputs_, outputs_;
  std::vector<Variable> variables_;
};

}  // namespace tensord
