#include "server/trace/trace_ring.h"

#include <algorithm>
#include <utility>

namespace tensord {

TraceRing::TraceRing(Limits limits) : limits_(limits), slots_(limits.records) {}

size_t TraceRing::StepsOf(const TraceRecord& record) {
  size_t steps = 0;
  for (const TraceRecord::OnDevice& device : record.devices) steps += device.steps.size();
  return steps;
}

void TraceRing::Add(absl::Span<TraceRecord> records) {
  std::vector<TraceRecord> dying;  // without the lock
  absl::MutexLock lock(&mu_);
  for (TraceRecord& record : records) {
    // What is pushed out is swapped into the caller's record, and dies there.
    if (last_ - first_ + 1 == slots_.size()) steps_ -= StepsOf(Slot(first_++));
    steps_ += StepsOf(record);
    record.number = ++last_;
    std::swap(Slot(last_), record);
    while (steps_ > limits_.steps && first_ < last_) {
      TraceRecord& oldest = Slot(first_++);
      steps_ -= StepsOf(oldest);
      dying.push_back(std::exchange(oldest, {}));
    }
  }
}

TraceRing::Found TraceRing::Read(uint64_t after, size_t most,
                                 absl::FunctionRef<bool(const TraceRecord&)> wanted) const {
  Found found;
  absl::MutexLock lock(&mu_);
  const uint64_t begin = std::max(std::min(after, last_) + 1, first_);
  found.lost = begin - (std::min(after, last_) + 1);
  const uint64_t end = std::min(begin + most, last_ + 1);
  for (uint64_t number = begin; number < end; ++number) {
    const TraceRecord& record = slots_[number % slots_.size()];
    if (wanted(record)) found.records.push_back(record);
  }
  found.last = end - 1;
  found.more = end <= last_;
  return found;
}

}  // namespace tensord
