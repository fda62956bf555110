// What is noted of each run, transfer and compilation that is over, and a ring of the latest.
//
//   TraceRing ring({.records = 4096, .steps = 262'144});
//   ring.Add({&record, 1});
//   const TraceRing::Found found = ring.Read(after, 256, [](const TraceRecord&) { return true; });
//
// Times are SteadyNs's, 0 where there was none.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/container/inlined_vector.h>
#include <absl/functional/function_ref.h>
#include <absl/status/status.h>
#include <absl/synchronization/mutex.h>
#include <absl/types/span.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/device/device.h"

namespace tensord {

// Whose a record is. Outlives the session as long as there are records.
struct TracedSession {
  std::string id, user, client_name;
  bool same_clock = false;  // the client's is the daemon's
};

struct TracedCompile {
  int64_t begin_ns = 0, end_ns = 0;
  bool plan_cached = false;
  int kernels_compiled = 0, kernel_memory_hits = 0, kernel_disk_hits = 0;
};

// Of a program that is compiled.
struct TracedProgram {
  std::string name;
  uint64_t hash = 0;
  TracedCompile compile;
};

struct TraceRecord {
  enum class Kind : uint8_t { kRun, kUpload, kDownload, kCompile };
  struct Step {
    int64_t begin_ns = 0, end_ns = 0;
  };
  struct OnDevice {
    const Device* device = nullptr;
    int64_t begin_ns = 0, end_ns = 0;  // by the device's clock, as those of steps
    std::shared_ptr<const std::vector<std::string>> names;  // of the steps; null: none are noted
    std::vector<Step> steps;
  };

  Kind kind = Kind::kRun;
  absl::StatusCode code = absl::StatusCode::kOk;
  uint64_t number = 0;  // the ring's
  uint64_t sequence = 0;
  uint64_t bytes = 0;
  std::shared_ptr<const TracedSession> session;
  std::shared_ptr<const TracedProgram> program;
  int64_t sent_ns = 0;  // by the client's clock
  int64_t received_ns = 0, ready_ns = 0, turn_ns = 0, done_ns = 0, told_ns = 0;
  absl::InlinedVector<OnDevice, 1> devices;
};

// Thread-safe. Takes no other lock.
class TraceRing {
 public:
  struct Limits {
    size_t records;
    size_t steps;  // of all records together; one alone may have more
  };
  explicit TraceRing(Limits limits);

  // Takes them, in this order.
  void Add(absl::Span<TraceRecord> records);

  struct Found {
    std::vector<TraceRecord> records;  // in order
    uint64_t last = 0;                 // number of the last one that was looked at
    bool more = false;                 // whether there are records behind it
    uint64_t lost = 0;                 // after `after`, and gone
  };
  // Looks at `most` records with numbers above `after`, and returns those that are `wanted`.
  Found Read(uint64_t after, size_t most, absl::FunctionRef<bool(const TraceRecord&)> wanted) const;

 private:
  static size_t StepsOf(const TraceRecord& record);
  TraceRecord& Slot(uint64_t number) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return slots_[number % slots_.size()];
  }

  const Limits limits_;
  mutable absl::Mutex mu_;
  std::vector<TraceRecord> slots_ ABSL_GUARDED_BY(mu_);  // by number, modulo their count
  uint64_t first_ ABSL_GUARDED_BY(mu_) = 1, last_
                                            ABSL_GUARDED_BY(mu_) = 0;  // numbers that are there
  size_t steps_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tensord
