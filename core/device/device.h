// What a backend implements. A device is memory, loaded kernels and a queue of commands that runs
// asynchronously and meets the host only at signals.
//
//   CommandList list;
//   uint64_t done = device.timeline().Reserve();
//   list.Wait(device.timeline().signal(), done - 1);
//   list.Exec(kernel, args, grid);
//   list.Signal(device.timeline().signal(), done);
//   TD_RETURN_IF_ERROR(device.Submit(std::move(list)));         // returns at once
//   TD_RETURN_IF_ERROR(device.timeline().Wait(done, deadline));
//
// The contract of the verbs (order, visibility) is that of hardware command queues: a later command
// of the list starts only after an earlier Wait is satisfied; a Signal is visible only after all
// earlier commands' writes are. Commands of one list run in order. Lists of one device run in the
// order of submission. All methods of Device are thread-safe unless they say otherwise.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "core/device/target.h"

namespace tensord {

class Device;

// A 64-bit value in memory that a device can wait for, write and timestamp.
struct Signal {
  std::atomic<uint64_t> value{0};
  std::atomic<uint64_t> timestamp_ns{0};  // device clock, set by Timestamp
};

// A kernel in the form that a device can run; made by Device::Load, dies before its device.
class LoadedKernel {
 public:
  virtual ~LoadedKernel() = default;
  virtual const std::string& name() const = 0;
};

// The argument block of one launch. It must stay alive and unchanged until the launch is done.
struct KernelArgs {
  std::vector<void*> buffers;      // device addresses, in slot order
  std::vector<int64_t> variables;  // in the kernel's order
};

struct WaitCommand {
  Signal* signal;
  uint64_t value;
};
struct SignalCommand {
  Signal* signal;
  uint64_t value;
};
struct TimestampCommand {
  Signal* signal;
};
struct BarrierCommand {};
struct ExecCommand {
  const LoadedKernel* kernel;
  const KernelArgs* args;
  int64_t grid;
};
struct CopyCommand {
  void* dst;
  const void* src;
  size_t bytes;
};
class CommandList;
// While the byte at `condition` is not 0, but `most` times at most: the commands of `body`, which
// are Execs, Copies and Loops. The byte is device memory that those write.
struct LoopCommand {
  const void* condition;
  uint64_t most;
  std::shared_ptr<const CommandList> body;
};
using Command = std::variant<WaitCommand, SignalCommand, TimestampCommand, BarrierCommand,
                             ExecCommand, CopyCommand, LoopCommand>;

// A recorded list of commands: cheap to make, submitted once or kept and submitted again.
class CommandList {
 public:
  void Wait(Signal* signal, uint64_t value) { commands_.push_back(WaitCommand{signal, value}); }
  void Signal(tensord::Signal* signal, uint64_t value) {
    commands_.push_back(SignalCommand{signal, value});
  }
  void Timestamp(tensord::Signal* signal) { commands_.push_back(TimestampCommand{signal}); }
  // Writes that the host made to device memory are visible to the kernels that follow.
  void Barrier() { commands_.push_back(BarrierCommand{}); }
  // Runs workgroups 0 ... grid-1 in any order and in parallel; the next command sees their writes.
  void Exec(const LoadedKernel* kernel, const KernelArgs* args, int64_t grid) {
    commands_.push_back(ExecCommand{kernel, args, grid});
  }
  void Copy(void* dst, const void* src, size_t bytes) {
    commands_.push_back(CopyCommand{dst, src, bytes});
  }
  void Loop(const void* condition, uint64_t most, std::shared_ptr<const CommandList> body) {
    commands_.push_back(LoopCommand{condition, most, std::move(body)});
  }
  // Keeps an object (argument blocks, memory) alive until the whole list has run.
  void Keep(std::shared_ptr<const void> object) { kept_.push_back(std::move(object)); }

  const std::vector<Command>& commands() const { return commands_; }
  const std::vector<std::shared_ptr<const void>>& kept() const { return kept_; }

 private:
  std::vector<Command> commands_;
  std::vector<std::shared_ptr<const void>> kept_;
};

// The order of a device's work: every submission reserves the next value and signals it at its end.
// Thread-safe.
class Timeline {
 public:
  virtual ~Timeline() = default;
  virtual tensord::Signal* signal() = 0;
  // The next value; whoever reserves it must submit a list that waits for value-1 and signals
  // value, in the order of the values (hold one lock over Reserve and Submit).
  virtual uint64_t Reserve() = 0;
  virtual uint64_t last_reserved() const = 0;
  virtual bool Reached(uint64_t value) const = 0;
  // Blocks until the value is reached; DeadlineExceeded after the deadline, or the device's fault.
  virtual absl::Status Wait(uint64_t value, absl::Time deadline) = 0;
  // Calls `done` once the value is reached (at once if it is), on a thread of the device that must
  // not be blocked: do little, take no lock that is held while submitting.
  virtual void OnReached(uint64_t value, std::function<void(absl::Status)> done) = 0;
};

struct MemoryStats {
  uint64_t capacity_bytes;  // limit of the device
  uint64_t in_use_bytes;    // handed out
  uint64_t cached_bytes;    // free, kept for reuse
  uint64_t peak_in_use_bytes;
  uint64_t allocations;  // since start
};

// A piece of device memory; gives itself back when it dies. The owner keeps it alive until the
// timeline has passed its last use (CommandList::Keep does that).
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual void* address() const = 0;       // what kernels get
  virtual size_t size() const = 0;         // bytes, as asked for
  virtual void* host_address() const = 0;  // the same memory seen by the host; null if it can't
  virtual Device& device() const = 0;
};

class Allocator {
 public:
  virtual ~Allocator() = default;
  // Contents undefined, aligned to 64 bytes at least. ResourceExhausted names the bytes asked for,
  // free and cached. Zero bytes are allowed and give an address that must not be read.
  virtual absl::StatusOr<std::shared_ptr<DeviceMemory>> Allocate(size_t bytes) = 0;
  // Gives cached memory back to the system.
  virtual void Trim() = 0;
  virtual MemoryStats stats() const = 0;
};

// How far a device is, for who watches whether it gets on.
struct Progress {
  uint64_t list = 0;   // timeline value of the list under way; 0: there is none
  uint64_t steps = 0;  // grows with the beginning and with the end of each launch and copy
  bool works = false;  // on a launch or a copy; else it waits for a signal
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const std::string& name() const = 0;  // "CPU:0"
  virtual const Target& target() const = 0;
  virtual Allocator& allocator() = 0;
  virtual Timeline& timeline() = 0;
  // `binary` is what the compiler for this target made, `entry` the symbol in it.
  virtual absl::StatusOr<std::unique_ptr<LoadedKernel>> Load(const std::string& binary,
                                                             const std::string& entry) = 0;
  // Appends to the device's queue and returns at once. ResourceExhausted when the queue is full.
  virtual absl::Status Submit(CommandList list) = 0;
  virtual Progress progress() = 0;
  // The list that signals this value of the timeline does no more work, and the value fails: with
  // `why`, and the name of the kernel if one was stopped by it. Lists behind it run. Returns at
  // once; nothing happens if the value is reached, or was not submitted.
  virtual void Abandon(uint64_t value, const absl::Status& why) = 0;
  // Waits until everything submitted so far is done.
  absl::Status Synchronize(absl::Time deadline = absl::InfiniteFuture()) {
    return timeline().Wait(timeline().last_reserved(), deadline);
  }
  // False for a device that compiles and schedules but computes nothing.
  virtual bool executes() const { return true; }
};

}  // namespace tensord
