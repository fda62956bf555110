#include "tools/tensorctl/recorded_calls.h"

#include <absl/strings/strip.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "core/ir/eval.h"

namespace tensord {

std::map<uint64_t, RecordedCall> CallsOf(const Recording& recording) {
  std::map<uint64_t, RecordedCall> calls;
  for (const v1::RecordedEvent& event : recording.events) {
    RecordedCall& call = calls[event.call()];
    call.session = event.session();
    if (event.has_begun()) {
      call.method = std::string(absl::StripPrefix(event.begun(), "/tensord.v1.SessionService/"));
    } else if (event.has_sent()) {
      call.sent.push_back(event.sent());
      for (const v1::LeftOut& left_out : event.left_out()) {
        call.left_out.push_back(left_out.bytes());
      }
    } else if (event.has_received()) {
      call.received.push_back(event.received());
    } else if (event.has_ended()) {
      call.ended = event.ended();
    }
  }
  return calls;
}

std::string MadeUp(DType dtype, uint64_t bytes, uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto item = static_cast<uint64_t>(std::max(ItemSize(dtype), 1));
  uint64_t values[3] = {};
  for (int i = 0; i < 3 && ItemSize(dtype) > 0; ++i) values[i] = Scalar::Of(dtype, i).ToBits();
  std::string made(bytes, '\0');
  for (uint64_t at = 0; at + item <= bytes; at += item) {
    std::memcpy(&made[at], &values[random() % 3], item);
  }
  return made;
}

}  // namespace tensord
