// A piece of a client's memory that the daemon maps, so that bulk data crosses by one copy on each
// side instead of a socket. A memfd, sealed so that it cannot shrink: no access to it can fault.
//
// Thread-safe. The client may change its bytes at any time, so they are only ever copied.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <string_view>

namespace tensord {

// Of bytes in a segment, that one message may be about.
inline constexpr uint64_t kMaxPieceBytes = 4 << 20;

class Segment {
 public:
  static constexpr uint64_t kMaxBytes = 64 << 20;

  // `descriptor` stays the caller's. InvalidArgument for what is no sealed memfd of at most so many
  // bytes.
  static absl::StatusOr<std::shared_ptr<Segment>> Map(int descriptor);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  uint64_t size() const { return size_; }
  // OutOfRange if the segment does not have them all.
  absl::StatusOr<char*> At(uint64_t offset, uint64_t bytes) const;

 private:
  Segment(char* data, uint64_t size) : data_(data), size_(size) {}

  char* const data_;
  const uint64_t size_;
};

}  // namespace tensord
