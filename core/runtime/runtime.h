// Runtime: programs in, results out, on the devices it owns. It caches plans by the structure of
// the program and kernels by their content, compiles on a pool of threads, and lets equal requests
// in flight share one compilation.
//
//   TD_ASSIGN_OR_RETURN(auto runtime, Runtime::Create(options, std::move(devices)));
//   TD_ASSIGN_OR_RETURN(auto executable, runtime->Prepare(program, device));
//   TD_ASSIGN_OR_RETURN(auto run, runtime->Submit(*executable, inputs, variables));
//   TD_RETURN_IF_ERROR(device.timeline().Wait(run.done, deadline));   // then run.outputs are valid
//
// Thread-safe.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>
#include <absl/types/span.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/device/device.h"
#include "core/ir/program.h"

namespace tensord {

// A tensor in device memory, dense and row-major. Several owners may share it (sessions, runs in
// flight), hence shared_ptr.
struct Buffer {
  DType dtype;
  std::vector<int64_t> shape;
  std::shared_ptr<DeviceMemory> memory;
  // Set by the run that computes it: the value is there once the device's timeline reaches this.
  uint64_t ready = 0;
};
using BufferRef = std::shared_ptr<Buffer>;

class PlanCompiler;

struct RuntimeOptions {
  std::string cache_dir;  // kernels on disk; empty: memory only
  uint64_t disk_cache_bytes = uint64_t{1} << 30;
  int compile_threads = 0;                 // 0: one per core
  std::shared_ptr<PlanCompiler> compiler;  // null: in this process; see plan_compiler.h
  uint64_t max_graph_nodes = 1 << 20;
  uint64_t max_buffer_bytes = uint64_t{1} << 40;  // of one tensor
};

// What one Prepare did.
struct CompileStats {
  bool plan_cached = false;  // the whole plan was there
  int kernels = 0;           // launches in the plan
  int kernels_compiled = 0;  // by the compiler, now
  int kernel_memory_hits = 0;
  int kernel_disk_hits = 0;
  // Some were compiled, and the kernels on disk come from another build of the daemon.
  bool other_build = false;
  absl::Duration schedule, lower, compile;  // time by phase, summed over kernels where parallel
};

struct CacheStats {
  uint64_t plans, plan_hits, plan_misses;
  uint64_t kernel_memory_hits, kernel_disk_hits, kernel_misses;  // a miss is a compilation
  uint64_t disk_entries, disk_bytes, disk_limit_bytes;
  uint64_t disk_rejected;  // corrupt or foreign entries that were ignored
  std::string directory;
};

struct CachedKernel {
  std::string key, name;
  uint64_t bytes;
};

// A program compiled for its devices. Immutable, shared by all sessions, holds no client's buffers.
class Executable {
 public:
  virtual ~Executable() = default;
  virtual const std::string& name() const = 0;
  virtual int num_kernels() const = 0;         // those in the body of a loop count once
  virtual uint64_t scratch_bytes() const = 0;  // memory for intermediates, per run
  virtual std::vector<std::string> kernel_names() const = 0;
};

// When a run began and ended, by the device's clock; valid once its timeline value is reached.
struct RunTimes {
  Signal begin, end;
  int64_t device_ns() const {
    // Relaxed: waiting for the timeline orders the stamps before this.
    return static_cast<int64_t>(end.timestamp_ns.load(std::memory_order_relaxed) -
                                begin.timestamp_ns.load(std::memory_order_relaxed));
  }
};

// When each step of a run began and ended on one device; valid as RunTimes are.
struct StepTimes {
  std::shared_ptr<const std::vector<std::string>> names;  // kernels, "copy", "exchange", "loop"
  // One a name: keys of the code, for Runtime::KernelSource; a loop has several.
  std::shared_ptr<const std::vector<std::vector<std::string>>> kernels;
  std::unique_ptr<RunTimes[]> times;  // one a name
};

struct SubmitOptions {
  bool time_steps = false;  // for Run::steps_by_device; costs the device two stamps a step
};

struct Run {
  // One per program output, and of the second device after those of the first; those that overwrite
  // are the input's.
  std::vector<BufferRef> outputs;
  uint64_t done;  // timeline value, of the first device
  std::vector<std::pair<Device*, uint64_t>> done_on_others;
  int kernels;
  std::shared_ptr<const RunTimes> times;  // of the first device
  // Of all devices, in their order; what the runtime does not measure isn't there.
  std::vector<std::pair<Device*, std::shared_ptr<const RunTimes>>> times_by_device;
  std::vector<std::shared_ptr<const StepTimes>> steps_by_device;  // likewise, if asked for
};

class Runtime {
 public:
  static absl::StatusOr<std::unique_ptr<Runtime>> Create(
      RuntimeOptions options, std::vector<std::unique_ptr<Device>> devices);
  virtual ~Runtime() = default;

  virtual absl::Span<Device* const> devices() const = 0;
  virtual absl::StatusOr<Device*> FindDevice(std::string_view name) const = 0;  // "" is the first

  // Blocks while it schedules and compiles. Errors name the node or kernel. As many devices as the
  // program is for, of one kind, none twice.
  virtual absl::StatusOr<std::shared_ptr<const Executable>> Prepare(
      const Program& program, absl::Span<Device* const> devices, CompileStats* stats) = 0;
  absl::StatusOr<std::shared_ptr<const Executable>> Prepare(const Program& program, Device& device,
                                                            CompileStats* stats) {
    Device* const devices[] = {&device};
    return Prepare(program, devices, stats);
  }

  // Checks the inputs against the program (dtype, shape, device), allocates outputs and scratch,
  // and enqueues. `inputs` are those of the first device, then those of the second, and so on.
  // `variables` by name; every variable of the program but kDeviceIndex needs a value in its
  // bounds. An input that an output overwrites must not be another input as well.
  virtual absl::StatusOr<Run> Submit(const std::shared_ptr<const Executable>& executable,
                                     absl::Span<const BufferRef> inputs,
                                     const absl::flat_hash_map<std::string, int64_t>& variables,
                                     const SubmitOptions& options) = 0;
  absl::StatusOr<Run> Submit(const std::shared_ptr<const Executable>& executable,
                             absl::Span<const BufferRef> inputs,
                             const absl::flat_hash_map<std::string, int64_t>& variables) {
    return Submit(executable, inputs, variables, {});
  }

  virtual CacheStats cache_stats() const = 0;
  // Kernels in memory, the latest used first, so many at most.
  virtual std::vector<CachedKernel> cached_kernels(size_t /*most*/) const { return {}; }
  // What a kernel computes, as text for people. NotFound if no cache has it any more.
  virtual absl::StatusOr<std::string> KernelSource(std::string_view /*key*/) {
    return absl::NotFoundError("this runtime keeps no sources");
  }
  virtual absl::Status ClearCache() = 0;  // plans, kernels in memory and on disk
};

}  // namespace tensord
