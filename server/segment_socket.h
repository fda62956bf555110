// Where clients on this machine hand their segments over: a socket beside gRPC's, which carries no
// descriptors. Welcome tells its name; /proc/net/unix tells it to everybody on this machine, so
// that anything may come here.
//
//   one packet   session token (16 bytes), the segment's number (8, little-endian), a descriptor
//   the answer   one byte, 1 if the session has the segment now
//
// A connection is one segment. The kernel says who sends it: it must be the session's user.
//
// Not thread-safe: started and stopped by one thread.
#pragma once

#include <absl/status/statusor.h>
#include <poll.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "server/session/registry.h"

namespace tensord {

class SegmentSocket {
 public:
  static absl::StatusOr<std::unique_ptr<SegmentSocket>> Listen();
  ~SegmentSocket();
  SegmentSocket(const SegmentSocket&) = delete;
  SegmentSocket& operator=(const SegmentSocket&) = delete;

  const std::string& name() const { return name_; }  // in the abstract namespace
  void Serve(SessionRegistry& registry);             // which outlives Stop
  void Stop();

 private:
  SegmentSocket(std::string name, int fd) : name_(std::move(name)), fd_(fd) {}
  void Run(SessionRegistry& registry);
  void TurnAway(pollfd& stop);

  const std::string name_;
  const int fd_;
  int stop_ = -1;
  int spare_ = -1;  // a descriptor that is there when there is no other
  std::jthread thread_;
};

}  // namespace tensord
