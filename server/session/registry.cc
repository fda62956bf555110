#include "server/session/registry.h"

#include <google/protobuf/message.h>
#include <pthread.h>
#include <sys/random.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "core/base/check.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "core/base/steady_clock.h"
#include "core/base/text.h"
#include "core/wire/refusal.h"

namespace tensord {
namespace {

constexpr size_t kMaxSessions = 10'000;
constexpr size_t kMaxText = 200;

std::string RandomToken() {
  std::string token(16, '\0');
  const ssize_t got = getrandom(token.data(), token.size(), 0);
  TD_CHECK(got == static_cast<ssize_t>(token.size()), "getrandom");
  return token;
}

// All of a reply's fields are numbers to add up.
void AddCounters(const v1::CountersReply& counters, v1::CountersReply& sum) {
  const google::protobuf::Reflection& reflection = *counters.GetReflection();
  const google::protobuf::Descriptor& descriptor = *counters.GetDescriptor();
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const google::protobuf::FieldDescriptor* field = descriptor.field(i);
    reflection.SetUInt64(&sum, field,
                         reflection.GetUInt64(sum, field) + reflection.GetUInt64(counters, field));
  }
}

// Weights rather than classes, of which a higher one always goes first: with those, one session
// that never rests would stop all below it.
absl::StatusOr<int> WeightOf(v1::Priority priority) {
  constexpr std::pair<v1::Priority, int> kWeights[] = {{v1::PRIORITY_UNSPECIFIED, 4},
                                                       {v1::PRIORITY_INTERACTIVE, 16},
                                                       {v1::PRIORITY_NORMAL, 4},
                                                       {v1::PRIORITY_BATCH, 1}};
  for (const auto& [each, weight] : kWeights) {
    if (each == priority) return weight;
  }
  return InvalidArgument(
      "Hello: priority {} is none that this daemon knows; leave it out for normal",
      static_cast<int>(priority));
}

// Which of these it was, and whether it ever was, is for those who have a valid token.
absl::Status NoSuchSession() {
  return NotFound(
      "there is no such session: its lease ran out, it was ended, or the daemon was restarted; "
      "open "
      "a new one");
}

}  // namespace

std::string Printable(std::string_view name) { return OneLine(Prefix(name, kMaxText)); }

SessionRegistry::SessionRegistry(SessionEngine engine)
    : engine_(engine), limits_(engine.limits), reaper_([this] {
        pthread_setname_np(pthread_self(), "td-lease");
        EndLeases();
      }) {}

SessionRegistry::~SessionRegistry() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  reaper_wake_.Notify();
}

absl::StatusOr<std::shared_ptr<Session>> SessionRegistry::Open(const v1::Hello& hello,
                                                               std::string_view peer,
                                                               std::string_view user) {
  TD_ASSIGN_OR_RETURN(const int weight, WeightOf(hello.priority()));
  std::shared_ptr<Session> session;
  {
    absl::MutexLock lock(&mu_);
    if (!going_away_.empty()) return Unavailable("no new sessions: {}", going_away_);
    if (sessions_.size() >= kMaxSessions) {
      return Refuse(
          {.reason = "SESSIONS",
           .subject = "daemon",
           .limit = kMaxSessions,
           .used = sessions_.size(),
           .needed = 1,
           .retry_after = absl::Seconds(1)},
          fmt::format("{} sessions are open, the limit: try again later", sessions_.size()));
    }
    SessionEngine engine = engine_;
    engine.limits = limits_;
    const absl::Duration lease = std::min(absl::Milliseconds(hello.lease_ms()), limits_.max_lease);
    session =
        std::make_shared<Session>(SessionIdentity{.id = fmt::format("session-{}", ++total_),
                                                  .token = RandomToken(),
                                                  .client_name = Printable(hello.client_name()),
                                                  .peer = std::string(peer),
                                                  .user = Printable(user),
                                                  .weight = weight,
                                                  .lease = lease},
                                  engine);
    sessions_[session->identity().token] = session;
    if (engine.spiller != nullptr) engine.spiller->Join(session);
  }
  Log("session").info("opened id={} peer={} user='{}' client='{}' weight={}",
                      session->identity().id, session->identity().peer, session->identity().user,
                      session->identity().client_name, session->identity().weight);
  return session;
}

std::shared_ptr<Session> SessionRegistry::Lookup(const std::string& token, std::string_view user) {
  std::shared_ptr<Session> session;
  {
    absl::MutexLock lock(&mu_);
    const auto found = sessions_.find(token);
    if (found == sessions_.end()) return nullptr;
    session = found->second;
  }
  const SessionIdentity& identity = session->identity();
  if (identity.user == Printable(user)) return session;
  // Its owner should know: somebody has the token.
  if (const std::optional<uint64_t> left_out = foreign_.Take()) {
    Log("session").warn("refused id={} of user='{}' to user='{}', who has its token left_out={}",
                        identity.id, identity.user, Printable(user), *left_out);
  }
  return nullptr;
}

absl::StatusOr<std::shared_ptr<Session>> SessionRegistry::Find(const std::string& token,
                                                               std::string_view user) {
  if (std::shared_ptr<Session> session = Lookup(token, user)) return session;
  return absl::UnauthenticatedError("the session token is not valid: open a session first");
}

absl::StatusOr<std::shared_ptr<Session>> SessionRegistry::FindById(std::string_view id) {
  absl::MutexLock lock(&mu_);
  for (const auto& [token, session] : sessions_) {
    if (session->identity().id == id) return session;
  }
  return NotFound("there is no session '{}': tensorctl sessions lists them", id);
}

absl::StatusOr<std::shared_ptr<Session>> SessionRegistry::FindToResume(const std::string& token,
                                                                       std::string_view user) {
  if (std::shared_ptr<Session> session = Lookup(token, user)) return session;
  return NoSuchSession();
}

absl::StatusOr<Attachment> SessionRegistry::Attach(Session& session,
                                                   std::weak_ptr<SessionListener> listener,
                                                   uint64_t acknowledged) {
  absl::StatusOr<Attachment> attachment;
  bool was_parked;
  {
    absl::MutexLock lock(&mu_);
    was_parked = session.parked_until().has_value();
    Unpark(session);
    attachment = session.Attach(std::move(listener), acknowledged);
  }
  if (absl::IsNotFound(attachment.status())) return NoSuchSession();
  if (attachment.ok() && attachment->number > 1) {
    Log("session").info("resumed id={} {}", session.identity().id,
                        was_parked ? "in=lease" : "from=another-stream");
  }
  return attachment;
}

void SessionRegistry::Detach(Session& session, uint64_t attachment) {
  const absl::Duration lease = session.identity().lease;
  std::shared_ptr<Session> excess;
  {
    absl::MutexLock lock(&mu_);
    const auto found = sessions_.find(session.identity().token);
    const absl::Time until = SteadyNow() + lease;
    if (found == sessions_.end() || !session.Detach(attachment, until)) return;
    if (lease > absl::ZeroDuration()) {
      parked_.emplace(until, found->second);
      if (parked_.size() > limits_.max_parked_sessions) {
        excess = parked_.begin()->second;
        excess->Expire(absl::InfiniteFuture());
      }
    }
  }
  reaper_wake_.Notify();
  if (lease == absl::ZeroDuration()) {
    return GiveUp(session, Cancelled("the connection of its client ended"));
  }
  Log("session").info("parked id={} lease={}", session.identity().id, absl::FormatDuration(lease));
  if (excess == nullptr) return;
  Log("session").warn("ending a parked session id={} because of limit={}", excess->identity().id,
                      engine_.limits.max_parked_sessions);
  GiveUp(*excess, Cancelled("too many sessions are without a connection"));
}

void SessionRegistry::Unpark(const Session& session) {
  std::erase_if(parked_, [&](const auto& entry) { return entry.second.get() == &session; });
}

// The thread that ends sessions whose lease is over.
void SessionRegistry::EndLeases() {
  for (;;) {
    std::vector<std::shared_ptr<Session>> over;
    absl::Duration rest = absl::InfiniteDuration();
    {
      absl::MutexLock lock(&mu_);
      if (stopping_) return;
      const absl::Time now = SteadyNow();
      for (const auto& [until, session] : parked_) {
        if (until > now) {
          rest = until - now;
          break;
        }
        if (session->Expire(now)) over.push_back(session);
      }
    }
    if (over.empty()) reaper_wake_.WaitFor(rest);
    for (const auto& session : over) {
      Log("session").info("lease over id={}", session->identity().id);
      GiveUp(*session, Cancelled("its client was not back within the lease"));
    }
  }
}

void SessionRegistry::Close(Session& session) {
  session.End();
  std::shared_ptr<Session> dying;  // without the lock
  v1::CountersReply counters;
  bool last;
  {
    absl::MutexLock lock(&mu_);
    const auto found = sessions_.find(session.identity().token);
    if (found == sessions_.end()) return;
    dying = std::move(found->second);
    sessions_.erase(found);
    Unpark(*dying);
    // Read under the lock, so that sums over all sessions never shrink.
    counters = dying->Counters();
    AddCounters(counters, ended_);
    last = sessions_.empty();
  }
  dying = nullptr;
  // Nobody is here: memory that devices keep for reuse goes back to the system.
  if (last) {
    engine_.work_pool.Schedule([&runtime = engine_.runtime] {
      for (Device* device : runtime.devices()) device->allocator().Trim();
    });
  }
  Log("session").info(
      "ended id={} age={} runs={} bytes_up={} bytes_down={} device_s={:.6f} compile_s={:.6f} "
      "byte_s={}",
      session.identity().id, absl::FormatDuration(absl::Now() - session.opened()),
      counters.programs_run(), counters.bytes_uploaded(), counters.bytes_downloaded(),
      static_cast<double>(counters.device_ns()) * 1e-9,
      static_cast<double>(counters.compile_ns()) * 1e-9, counters.byte_seconds());
}

void SessionRegistry::GiveUp(Session& session, const absl::Status& why) {
  const std::string unfinished = session.Unfinished();
  session.Close(why);
  if (!unfinished.empty()) {
    Log("session").warn("gave up unfinished work id={} because=\"{}\" work=\"{}\"",
                        session.identity().id, Message(why), unfinished);
    absl::MutexLock lock(&mu_);
    ++gave_up_;
  }
  session.Abandon(why);
  Close(session);  // if no stream did
}

uint64_t SessionRegistry::Kill(Session& session, const absl::Status& reason) {
  const uint64_t bytes = session.Counters().live_bytes();
  GiveUp(session, reason);
  return bytes;
}

uint64_t SessionRegistry::gave_up() {
  absl::MutexLock lock(&mu_);
  return gave_up_;
}

void SessionRegistry::GoAway(const std::string& reason, absl::Duration grace) {
  {
    absl::MutexLock lock(&mu_);
    going_away_ = reason;
  }
  for (const auto& session : List()) session->GoAway(reason, grace);
}

std::vector<std::shared_ptr<Session>> SessionRegistry::List() {
  std::vector<std::shared_ptr<Session>> result;
  {
    absl::MutexLock lock(&mu_);
    for (const auto& [token, session] : sessions_) result.push_back(session);
  }
  std::sort(result.begin(), result.end(),
            [](const auto& a, const auto& b) { return a->opened() < b->opened(); });
  return result;
}

size_t SessionRegistry::parked() {
  absl::MutexLock lock(&mu_);
  return parked_.size();
}

uint64_t SessionRegistry::total() {
  absl::MutexLock lock(&mu_);
  return total_;
}

v1::CountersReply SessionRegistry::Counters() {
  v1::CountersReply result;
  std::vector<std::shared_ptr<Session>> sessions;
  {
    absl::MutexLock lock(&mu_);
    result = ended_;
    for (const auto& [token, session] : sessions_) sessions.push_back(session);
  }
  // What they have now is gone with them.
  result.set_live_bytes(0);
  result.set_live_handles(0);
  for (const auto& session : sessions) AddCounters(session->Counters(), result);
  return result;
}

void SessionRegistry::SetMaxSessionBytes(uint64_t bytes) {
  absl::MutexLock lock(&mu_);
  limits_.max_session_bytes = bytes;
}

bool SessionRegistry::going_away() {
  absl::MutexLock lock(&mu_);
  return !going_away_.empty();
}

}  // namespace tensord
