// Who calls, by what the connection or the call proves:
//
//   on a unix socket   the user of the process at the other end, by the kernel's word
//   over TLS           the name in the client's certificate, or the user whose token the call
//   brings in this process    the daemon itself
//
// Whoever proves nothing is nobody, and is refused if proof is required.
//
// Thread-safe.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/container/flat_hash_map.h>
#include <absl/status/statusor.h>
#include <absl/synchronization/mutex.h>
#include <grpcpp/grpcpp.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "core/base/log_limiter.h"
#include "server/auth/tokens.h"

namespace tensord {

struct Caller {
  std::string user;    // empty: nobody
  bool admin = false;  // may see and end what others do
  bool local = false;  // a process of this machine, on a unix socket or this one

  // Whether it may see and end what that user does. Nobody in particular may be anybody.
  bool MayKnow(const std::string& owner) const { return admin || (!user.empty() && user == owner); }
};

// Of this machine; "uid-7" for one without a name.
std::string UserName(uid_t uid);

struct AuthOptions {
  // Names of users, of tokens and of certificates. The daemon's own user and root need not be here.
  std::vector<std::string> admin_users;
  bool proof_required = false;  // of who comes by TCP
  TokenTable tokens;
};

class Authenticator {
 public:
  explicit Authenticator(AuthOptions options);

  // Unauthenticated says what is missing. Who is refused is in the log, what they showed is not.
  absl::StatusOr<Caller> Identify(const grpc::CallbackServerContext& context) const;

  // The same of who comes by HTTP and shows a token. Who shows none is refused.
  absl::StatusOr<Caller> Identify(const std::string& peer,
                                  const std::optional<std::string>& token) const;

  // Of calls from now on; streams that are open stay.
  void SetTokens(TokenTable tokens);

 private:
  Caller Named(std::string user) const;
  // By a token, or as nobody where no proof is required; `peer` is for the log.
  absl::StatusOr<Caller> IdentifyRemote(const std::string& peer,
                                        const std::optional<std::string>& token,
                                        bool proof_required) const;
  std::string NameOf(uid_t uid) const;
  absl::Status Refuse(const std::string& peer, const char* why) const;

  const std::vector<std::string> admin_users_;
  const bool proof_required_;
  mutable absl::Mutex mu_;
  TokenTable tokens_ ABSL_GUARDED_BY(mu_);
  mutable absl::flat_hash_map<uid_t, std::string> names_ ABSL_GUARDED_BY(mu_);
  mutable LogLimiter refusals_;
};

}  // namespace tensord
