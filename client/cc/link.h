// Link: the ordered stream of one session, over as many gRPC streams as it takes. When one breaks,
// the next resumes the session as long as its lease lasts; commands are sent again and events read
// again so that each counts once.
//
//   Link link(address, stub, hello);
//   TD_RETURN_IF_ERROR(link.Open(deadline));
//   const uint64_t sequence = link.Send(std::move(command));
//   link.AwaitRun(sequence, deadline);
//
// Thread-safe. gRPC calls it on threads of its own.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/container/flat_hash_map.h>
#include <absl/random/random.h>
#include <absl/status/status.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/time.h>
#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "client/cc/command_log.h"
#include "client/cc/segments.h"
#include "proto/tensord/v1/session.grpc.pb.h"

namespace tensord::client {

// To the program's own logger "client", if it has one, else to standard error.
void LogLines(const std::string& lines);
absl::Status FromGrpc(const grpc::Status& status);
// Without a deadline if it is the infinite future.
std::unique_ptr<grpc::ClientContext> ContextUntil(absl::Time deadline);

// A unix socket's file, of which each daemon makes one of its own.
struct SocketFile {
  uint64_t inode = 0;
  int64_t changed_s = 0, changed_ns = 0;
  friend bool operator==(const SocketFile&, const SocketFile&) = default;
};

class Link {
 public:
  // `stub` outlives the link. `hurry` has gRPC try to connect at once where it waits to try again.
  Link(std::string address, v1::SessionService::Stub& stub, v1::Hello hello,
       std::function<void()> hurry);
  // Ends the session, and waits until gRPC has let go of this object.
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // Waits for the first Welcome.
  absl::Status Open(absl::Time deadline);
  const v1::Welcome& welcome() const { return welcome_; }  // the first
  Segments& segments() { return *segments_; }              // of the session, once it is open
  // Ends the session: what it owned on the daemon is freed.
  void Close();

  uint64_t Send(v1::Command command);
  void Release(uint64_t handle, uint64_t bytes);
  void FlushReleases();
  uint64_t NewHandle(Handle::Type type);
  uint64_t NewTransfer();
  // Whether it is worth to look for bytes of that length on the daemon, and whether they were
  // there.
  bool MayBeKnown(uint64_t bytes) const;
  void NoteKnown(uint64_t bytes, bool known);
  uint64_t last_sequence() const;
  bool WasRefused(uint64_t sequence) const;
  absl::Status AwaitRoom(absl::Time deadline);
  std::optional<absl::Status> AwaitRun(uint64_t sequence, absl::Time deadline);
  absl::Status FailureOf(uint64_t sequence) const;

  // Why the session is over; OK while it lives, be it without a stream.
  absl::Status ended() const;
  // Whether it is over for another reason than Close.
  bool lost() const;
  // Whether the daemon has said that it is about to end.
  bool went_away() const;
  // What it has cost, once Close has heard it.
  std::optional<v1::CountersReply> bill() const;

  // Of one call beside the stream: NewAttempts before the first.
  struct Attempts {
    uint64_t streams = 0;  // that there had been at the last one
    int in_vain = 0;       // since the latest stream
  };
  Attempts NewAttempts() const;
  // After a call that failed so: OK once it can be made again, else what to say instead.
  absl::Status AwaitRetry(const grpc::Status& failed, absl::Time deadline, Attempts& attempts);

 private:
  class Stream;
  enum class State {
    kOpening,  // the first stream has had no Welcome
    kLive,
    kCut,  // the session has no stream, and gets one
    kOver,
  };

  void StartStream() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Receive(const v1::ServerFrame& frame) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Greeted(const v1::Welcome& welcome) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // gRPC is done with the stream, which dies.
  void StreamDone(const grpc::Status& status);
  void Cut(const grpc::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void End(absl::Status why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Lost(std::string_view why) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Calls `tick` then, unless the state has changed.
  void At(absl::Time when, std::unique_ptr<grpc::Alarm>& alarm, void (Link::*tick)())
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void LeaseOver() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Whether a daemon has made the socket anew; again and again while the session is cut.
  void LookForDaemon() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Duration BackOff(int attempt) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // What is to be logged, which happens without the lock.
  void Say(const std::string& text) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { said_ += text + "\n"; }

  const std::string address_;
  v1::SessionService::Stub& stub_;
  const v1::Hello hello_;
  const std::function<void()> hurry_;
  v1::Welcome welcome_;               // fixed once Open has returned
  std::optional<Segments> segments_;  // as is this

  mutable absl::Mutex mu_;
  CommandLog log_ ABSL_GUARDED_BY(mu_);
  State state_ ABSL_GUARDED_BY(mu_) = State::kOpening;
  absl::Status ended_ ABSL_GUARDED_BY(mu_);  // why it is over
  bool closed_by_us_ ABSL_GUARDED_BY(mu_) = false;
  std::string go_away_ ABSL_GUARDED_BY(mu_);
  absl::Duration lease_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<Stream> stream_ ABSL_GUARDED_BY(mu_);  // while gRPC has it
  int dying_ ABSL_GUARDED_BY(mu_) = 0;                   // streams that it has no more
  uint64_t streams_ ABSL_GUARDED_BY(mu_) = 0;            // that were welcomed
  absl::Time cut_at_ ABSL_GUARDED_BY(mu_);
  std::string cut_by_ ABSL_GUARDED_BY(mu_);
  int attempts_ ABSL_GUARDED_BY(mu_) = 0;  // to resume, since then
  std::unique_ptr<grpc::Alarm> retry_ ABSL_GUARDED_BY(mu_),
      lease_end_ ABSL_GUARDED_BY(mu_), look_ ABSL_GUARDED_BY(mu_);
  std::optional<SocketFile> socket_ ABSL_GUARDED_BY(mu_);  // of the daemon last connected to
  bool in_a_hurry_ ABSL_GUARDED_BY(mu_) = false;           // to connect, without the lock
  int alarms_ ABSL_GUARDED_BY(mu_) = 0;                    // whose callbacks are still to come
  absl::BitGen random_ ABSL_GUARDED_BY(mu_);
  std::string said_ ABSL_GUARDED_BY(mu_);
  std::optional<v1::CountersReply> bill_ ABSL_GUARDED_BY(mu_);
  uint64_t last_transfer_ ABSL_GUARDED_BY(mu_) = 0;
  absl::flat_hash_map<uint64_t, int> unknown_ ABSL_GUARDED_BY(mu_);  // in a row, by length
};

}  // namespace tensord::client
