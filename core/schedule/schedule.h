// Scheduling: a program becomes an ordered list of kernels over buffers. What is fused and what is
// materialised is decided in fuse.h, how materialised tensors lie in memory in layout.h, where the
// temporaries lie in memory.h.
//
//   TD_ASSIGN_OR_RETURN(Schedule schedule, MakeSchedule(program));
//   for (const Step& step : schedule.steps) ...   // launch schedule.kernels[step.kernel]
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/ir/kernel.h"
#include "core/ir/program.h"

namespace tensord {

struct Schedule {
  enum class Kind { kInput, kOutput, kTemporary };
  struct Buffer {
    Kind kind;
    int64_t index;  // input slot or output number; unused for temporaries
    DType dtype;
    int64_t elements;
    uint64_t offset = 0;  // temporaries: in the scratch memory of a run
    uint64_t bytes() const { return static_cast<uint64_t>(elements) * ItemSize(dtype); }
  };
  struct Step {
    static constexpr int kCopy = -1;
    static constexpr int kLoop = -2;
    static constexpr int kExchange = -3;
    // Index in `kernels`; or kCopy: buffers[1] is copied to buffers[0]; or kLoop: while the bool in
    // buffers[0] is true, but `most` times at most, the next `body` steps; or kExchange: buffers[0]
    // becomes what buffers[1] is on other devices, see ExchangeKind. Exchanges next to each other
    // are one up to the next that `meets`: all devices have come to the first before any is done,
    // and have done the last before any goes on.
    int kernel;
    std::vector<int> buffers;  // in the order of the kernel's params
    int64_t most = 0;
    int body = 0;
    ExchangeKind exchange = ExchangeKind::kGather;
    int64_t shift = 0;
    bool meets = false;
  };

  std::vector<std::unique_ptr<Kernel>> kernels;  // no two with the same code
  std::vector<Step> steps;
  std::vector<Buffer> buffers;
  uint64_t scratch_bytes = 0;
  // Per program output: the buffer that holds it after the run; an input for what overwrites one.
  std::vector<int> outputs;
};

// Fails only on graphs that no limit of the wire would let through, and on loops that are none.
absl::StatusOr<Schedule> MakeSchedule(const Program& program);
// The same without places for the temporaries: parts.h joins such schedules.
absl::StatusOr<Schedule> ScheduleInParts(const Program& program);

// Sets the offsets of the temporaries and the size of the scratch memory.
void PlaceTemporaries(Schedule& schedule);

}  // namespace tensord
