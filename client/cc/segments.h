// Memory that this client shares with a daemon on the same machine, through which bulk data goes
// instead of the socket. A session has a few segments, made when they are first needed, their pages
// there before they are used; a transfer takes one for its time, or does without.
//
//   if (const Segments::Lease lease = segments.Take(bytes)) ... lease->data(), lease->size() ...
//
// Thread-safe.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tensord::client {

class Segment {
 public:
  // Null if this machine has none to give.
  static std::unique_ptr<Segment> Create(uint64_t number, uint64_t bytes);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  uint64_t number() const { return number_; }
  char* data() const { return data_; }
  uint64_t size() const { return size_; }
  // Whether the daemon whose socket that is has taken it for the session.
  bool Offer(const std::string& socket, const std::string& token) const;

 private:
  Segment(uint64_t number, int fd, char* data, uint64_t size)
      : number_(number), fd_(fd), data_(data), size_(size) {}

  const uint64_t number_;
  const int fd_;
  char* const data_;
  const uint64_t size_;
};

class Segments {
 public:
  // Without a socket there are none.
  Segments(std::string socket, std::string token);

  // Gives itself back.
  using Lease = std::unique_ptr<Segment, std::function<void(Segment*)>>;
  // One for a transfer of so many bytes, smaller than these if they are many; null if they are few,
  // or no segment is free.
  Lease Take(uint64_t bytes);

 private:
  void GiveBack(std::unique_ptr<Segment> segment);

  const std::string token_;
  absl::Mutex mu_;
  std::string socket_ ABSL_GUARDED_BY(mu_);  // empty: the daemon doesn't take any
  std::vector<std::unique_ptr<Segment>> free_ ABSL_GUARDED_BY(mu_);
  std::vector<uint64_t> unused_ ABSL_GUARDED_BY(mu_);  // numbers of segments that are not there
};

}  // namespace tensord::client
