// What a session's handles name. Each is pending, a value, a value that is spilled, or an error.
//
// Not thread-safe: every field is guarded by the lock of the session. Shared with what works on the
// object when its handle may be gone: an upload, a compilation, a run in flight.
#pragma once

#include <absl/status/status.h>
#include <absl/time/time.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/runtime/runtime.h"
#include "server/memory/spill_store.h"
#include "server/scheduler/scheduler.h"
#include "server/session/content_index.h"
#include "server/sharing/publications.h"
#include "server/trace/trace_ring.h"

namespace tensord {

enum class ObjectState : uint8_t { kPending, kValue, kSpilled, kError };

// A tensor's value while it has no memory of its device.
struct SpilledValue {
  DType dtype;
  std::vector<int64_t> shape;
  std::shared_ptr<const SpillStore::Spilled> bytes;
};

struct Tensor {
  ObjectState state = ObjectState::kPending;
  absl::Status error;
  BufferRef buffer;    // unless an error, spilled, or on its way
  uint64_t ready = 0;  // value of the device's timeline from which the contents are there
  uint64_t bytes = 0;  // charged to the session, for that device or as spilled
  Device* device = nullptr;
  std::shared_ptr<Content> content;  // if it is as it was uploaded
  int readers = 0;  // downloads and copies under way: a run that overwrites it waits for them
  // Others may read the buffer: nothing overwrites it, and its owner is charged for it.
  PublishedBufferRef published;
  std::shared_ptr<const SpilledValue> spilled;  // until it is back
  absl::Time used;                              // by a command, last
  int wanted = 0;                               // by commands that got it brought back: it stays
  bool asked_for = false;                       // to be brought back, by who reads it
};

// A tensor that a session holds, as operators see it.
struct HeldTensor {
  uint64_t handle = 0;
  ObjectState state = ObjectState::kPending;
  absl::Status error;
  uint64_t bytes = 0;
  // Unless an error.
  DType dtype = DType::kBool;
  std::vector<int64_t> shape;
  std::string device;
};

// What a run is checked against before the runtime sees it. Of several devices: all that are the
// first one's, then those of the second, and so on.
struct Signature {
  struct Output {
    uint64_t bytes = 0;
    int64_t overwrites = Program::kFresh;
  };
  size_t num_inputs = 0;
  std::vector<Output> outputs;
};

// How long a program's next run may take on its device, by the last ones. Of two in a row the
// shorter counts: a single long one is more often the machine's doing than the program's.
class RunLength {
 public:
  int64_t expected_ns() const { return expected_ns_; }
  void Add(int64_t ns) {
    const int64_t sample = last_ns_ < 0 ? ns : std::min(ns, last_ns_);
    last_ns_ = ns;
    expected_ns_ =
        expected_ns_ == Scheduler::kUnknown ? sample : expected_ns_ + (sample - expected_ns_) / 4;
  }

 private:
  int64_t last_ns_ = -1;
  int64_t expected_ns_ = Scheduler::kUnknown;
};

struct LoadedProgram {
  // A part of what a run does that can't be started as a whole: `program` computes some of the
  // outputs that overwrite inputs. `inputs` and `outputs` are which of the whole's it has, on all
  // devices.
  struct Apart {
    std::shared_ptr<LoadedProgram> program;
    std::vector<size_t> inputs;
    std::vector<size_t> outputs;
  };

  ObjectState state = ObjectState::kPending;
  absl::Status error;
  std::string name;
  std::vector<Device*> devices;
  Signature signature;
  std::shared_ptr<const Executable> executable;
  RunLength length;
  int64_t sent_ns = 0, received_ns = 0;         // of its command, if that is noted
  std::shared_ptr<const TracedProgram> traced;  // once it is compiled
  std::shared_ptr<const Program> whole;         // if it has updates apart; immutable
  std::vector<Apart> apart;                     // in order; made when a run first needs it
};

}  // namespace tensord
