// A process that compiles: a copy of this executable at the other end of a socket.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/status/statusor.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/time.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/compiler/worker.pb.h"

namespace tensord::compiler {

// The descriptor by which a worker reaches the daemon, and the exit code of one without memory.
inline constexpr int kWorkerSocket = 3;
inline constexpr int kOutOfMemory = 86;

// One message, with its size before it. False: the other end is gone, or it is no message, or the
// deadline has come.
bool WriteFrame(int fd, const google::protobuf::MessageLite& message, absl::Time deadline);
bool ReadFrame(int fd, google::protobuf::MessageLite& message, absl::Time deadline);

class Process {
 public:
  // `arguments` of the executable that this process runs; at most so many bytes of memory.
  static absl::StatusOr<std::unique_ptr<Process>> Start(const std::vector<std::string>& arguments,
                                                        uint64_t memory_bytes);
  ~Process();  // ends it

  int pid() const { return pid_; }
  // Whether it lives, and has said nothing unasked.
  bool IsIdle() const;
  // Processor time that it may still take.
  void LimitProcessorTime(absl::Duration more) const;

  // Several threads may send, and one at a time receives. False: as above.
  bool Send(const Request& request, absl::Time deadline);
  bool Receive(Reply& reply, absl::Time deadline);

  // Ends it, if it has not ended by itself. The status that it left, as waitpid() gives it, or
  // nothing if it still lived.
  std::optional<int> End();

 private:
  Process(int pid, int fd) : pid_(pid), fd_(fd) {}

  const int pid_;
  const int fd_;
  bool ended_ = false;  // and was waited for
  absl::Mutex sending_;
};

}  // namespace tensord::compiler
