// The sessions of the daemon, by their secret tokens.
//
// Thread-safe.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/container/flat_hash_map.h>
#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/time.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/base/log_limiter.h"
#include "core/base/steady_clock.h"
#include "proto/tensord/v1/session.pb.h"
#include "server/session/session.h"

namespace tensord {

// What a client wrote, for logs and tables: short, and without what breaks lines.
std::string Printable(std::string_view text);

class SessionRegistry {
 public:
  explicit SessionRegistry(SessionEngine engine);
  ~SessionRegistry();

  absl::StatusOr<std::shared_ptr<Session>> Open(const v1::Hello& hello, std::string_view peer,
                                                std::string_view user);
  // Of calls beside its stream, by the same user. Unauthenticated for a token that names no session
  // of theirs; says no more than that.
  absl::StatusOr<std::shared_ptr<Session>> Find(const std::string& token, std::string_view user);
  // The same of a client that comes back: NotFound.
  absl::StatusOr<std::shared_ptr<Session>> FindToResume(const std::string& token,
                                                        std::string_view user);
  // A stream takes the session, or leaves it. One that nobody takes within its lease is closed.
  absl::StatusOr<Attachment> Attach(Session& session, std::weak_ptr<SessionListener> listener,
                                    uint64_t acknowledged);
  void Detach(Session& session, uint64_t attachment);
  void Close(Session& session);
  // By its public id; NotFound if it isn't open.
  absl::StatusOr<std::shared_ptr<Session>> FindById(std::string_view id);
  // As Close, of one that the daemon ends or whose client is gone: the client, if it is there, is
  // told why, and devices stop its runs.
  void GiveUp(Session& session, const absl::Status& why);
  // How many ended so before their work was done.
  uint64_t gave_up();
  // The same by somebody's wish. Returns what it held, in bytes.
  uint64_t Kill(Session& session, const absl::Status& reason);

  // Of sessions that are opened from now on.
  void SetMaxSessionBytes(uint64_t bytes);

  // Refuses new sessions and new commands of the present ones.
  void GoAway(const std::string& reason, absl::Duration grace);

  std::vector<std::shared_ptr<Session>> List();  // oldest first
  size_t parked();                               // how many of them are without a stream
  uint64_t total();                              // opened since start
  v1::CountersReply Counters();                  // of all sessions, ended ones included
  bool going_away();
  const SessionEngine& engine() const { return engine_; }

 private:
  // The session of that token if it is the user's; else null.
  std::shared_ptr<Session> Lookup(const std::string& token, std::string_view user);
  void Unpark(const Session& session) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void EndLeases();

  const SessionEngine engine_;
  absl::Mutex mu_;
  absl::flat_hash_map<std::string, std::shared_ptr<Session>> sessions_ ABSL_GUARDED_BY(mu_);
  uint64_t total_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t gave_up_ ABSL_GUARDED_BY(mu_) = 0;
  v1::CountersReply ended_ ABSL_GUARDED_BY(mu_);  // sums over sessions that have ended
  SessionLimits limits_ ABSL_GUARDED_BY(mu_);
  std::string going_away_ ABSL_GUARDED_BY(mu_);  // the reason
  // By the ends of their leases, SteadyNow's times.
  std::multimap<absl::Time, std::shared_ptr<Session>> parked_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  LogLimiter foreign_;
  SteadyWake reaper_wake_;
  std::jthread reaper_;
};

}  // namespace tensord
