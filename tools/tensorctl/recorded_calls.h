// A recording, call by call: what tensorctl replay plays.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/ir/dtype.h"
#include "core/wire/recording.h"
#include "proto/tensord/v1/session.pb.h"

namespace tensord {

struct RecordedCall {
  std::string method;  // "Upload", of the SessionService; else as gRPC has it
  uint32_t session = 0;
  std::vector<std::string> sent, received;  // messages
  std::vector<uint64_t> left_out;           // bytes, of what was sent
  std::optional<v1::Status> ended;
};

// Calls by number.
std::map<uint64_t, RecordedCall> CallsOf(const Recording& recording);

// InvalidArgument if the bytes are no such message, as in a file that was tampered with.
template <typename Message>
absl::StatusOr<Message> Parse(const std::string& bytes) {
  Message message;
  if (message.ParseFromString(bytes)) return message;
  return InvalidArgument("the recording has bytes that are no {}", Message::descriptor()->name());
}

// Bytes of a tensor whose own were left out: its elements are 0, 1 or 2, by a generator that starts
// from `seed`, so that they are fit for any use, also as indices.
std::string MadeUp(DType dtype, uint64_t bytes, uint64_t seed);

}  // namespace tensord
