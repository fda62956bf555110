#include "backends/hcq/signal.h"

namespace tensord::hcq {

void SetSignal(Signal& signal, uint64_t value) {
  // A waiter may free the signal as soon as it sees the value: take the event first.
  EventCount& event = EventFor(signal);
  signal.value.store(value, std::memory_order_release);  // publishes the writes before it
  event.Notify();
}

EventCount& EventFor(const Signal& signal) {
  struct alignas(64) Slot {
    EventCount event;
  };
  static Slot slots[64];
  // Signals are 16 bytes or more apart; the multiplication spreads neighbours.
  const auto address = reinterpret_cast<uintptr_t>(&signal) >> 4;
  return slots[(address * 0x9E3779B97F4A7C15u) >> 58].event;
}

}  // namespace tensord::hcq
