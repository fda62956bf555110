// Setting and waiting for signals that live in host memory. Thread-safe.
#pragma once

#include <absl/time/time.h>

#include <cstdint>

#include "backends/hcq/event_count.h"
#include "core/device/device.h"

namespace tensord::hcq {

// Publishes everything written before to whoever sees the value, and wakes its waiters.
void SetSignal(Signal& signal, uint64_t value);

// The event that SetSignal notifies. Signals share a few of them, so a waiter may wake in vain.
EventCount& EventFor(const Signal& signal);

inline bool Reached(const Signal& signal, uint64_t value) {
  return signal.value.load(std::memory_order_acquire) >= value;  // pairs with SetSignal
}

}  // namespace tensord::hcq
