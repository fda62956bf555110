// What a session's client remembers of its commands: their numbers, those that may have to be sent
// again, which runs are under way and which commands were refused; and the handles that it makes.
//
// Not thread-safe: guarded by the lock of the link that owns it.
#pragma once

#include <absl/container/flat_hash_set.h>
#include <absl/status/status.h>

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "core/wire/handle.h"
#include "proto/tensord/v1/session.pb.h"

namespace tensord::client {

class CommandLog {
 public:
  CommandLog();
  void SetLimits(const v1::Limits& limits);

  // Numbers the command and queues it. A run takes the waiting releases along.
  uint64_t Add(v1::Command command);
  // A number for a command that is not to be sent.
  uint64_t Skip() { return ++last_; }
  // Nothing is sent any more.
  void Drop();
  // Gives a handle up, after all commands so far; with others, when they are worth a command.
  void Release(uint64_t handle, uint64_t bytes);
  void FlushReleases();
  uint64_t NewHandle(Handle::Type type);

  // Moves what is queued into the frame, as much as fits; false if there is nothing to say. The
  // frame must come back by Written before the next one.
  bool Fill(v1::ClientFrame& frame);
  // The frame was sent, or was not: its commands are kept until they are acknowledged.
  void Written(v1::ClientFrame& frame);
  // A new stream begins: what the daemon has not received goes first.
  void Resume(uint64_t received);
  void Receive(const v1::ServerFrame& frame);

  uint64_t last() const { return last_; }  // number
  uint64_t pending() const { return last_ - acknowledged_; }
  bool has_room() const { return pending() < max_pending_; }
  uint64_t events() const { return events_; }  // that were received, completions and errors
  bool is_running(uint64_t sequence) const { return running_.contains(sequence); }
  bool was_refused(uint64_t sequence) const { return refused_.contains(sequence); }
  // How a run that has ended went; nothing if it failed so long ago that it is forgotten.
  std::optional<absl::Status> Outcome(uint64_t sequence) const;

 private:
  uint64_t Queue(v1::Command command);
  std::vector<uint64_t> TakeReleases();
  void SendReleases();
  void Recycle(const std::vector<uint64_t>& handles);

  std::deque<v1::Command> queue_;  // to be sent
  std::deque<v1::Command> sent_;   // and not acknowledged
  uint64_t last_ = 0;
  uint64_t acknowledged_ = 0;
  uint64_t events_ = 0;
  uint64_t told_events_ = 0;  // that the daemon knows we have
  uint64_t max_pending_;
  int max_frame_commands_;
  absl::flat_hash_set<uint64_t> refused_;
  absl::flat_hash_set<uint64_t> running_;
  std::map<uint64_t, absl::Status> failures_;  // of runs
  uint64_t forgotten_ = 0;                     // failures of runs before this may be lost
  std::vector<uint64_t> releases_;
  uint64_t release_bytes_ = 0;
  uint32_t next_slot_ = 0;
  std::vector<Handle> free_;
};

}  // namespace tensord::client
