// Who has logged in to the console. A code that was made for a caller elsewhere, on a unix socket
// say, is exchanged for a token, once and soon; the browser shows that from then on.
//
//   const std::string code = logins.NewCode(caller);             // for a link
//   TD_ASSIGN_OR_RETURN(Logins::Login login, logins.Redeem(code));
//   std::optional<Caller> caller = logins.Find(login.token);
//
// Codes and tokens are 128 random bits. Each user has so many at most; the oldest goes.
//
// Thread-safe.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/status/statusor.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/time.h>

#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/steady_clock.h"
#include "server/auth/authenticator.h"

namespace tensord {

class Logins {
 public:
  static constexpr size_t kMaxCodes = 8;     // of a user, not redeemed
  static constexpr size_t kMaxTokens = 16;   // of a user
  static constexpr size_t kMaxOfAll = 1024;  // of each, of all users
  static constexpr absl::Duration kCodeLife = absl::Minutes(2);
  static constexpr absl::Duration kTokenLife = absl::Hours(12);

  struct Login {
    std::string token;
    Caller caller;
  };

  std::string NewCode(const Caller& caller) { return NewCodeAt(caller, SteadyNow()); }
  // Unauthenticated if nobody has it: it was used, it is too old, or it never was.
  absl::StatusOr<Login> Redeem(std::string_view code) { return RedeemAt(code, SteadyNow()); }
  std::optional<Caller> Find(std::string_view token) { return FindAt(token, SteadyNow()); }
  void End(std::string_view token);

  std::string NewCodeAt(const Caller& caller, absl::Time now);
  absl::StatusOr<Login> RedeemAt(std::string_view code, absl::Time now);
  std::optional<Caller> FindAt(std::string_view token, absl::Time now);

 private:
  struct Secret {
    std::string hash;  // SHA-256: to look for one tells nothing by the time that it takes
    Caller caller;
    absl::Time end;
  };
  using Secrets = std::deque<Secret>;  // the oldest first
  struct Kind {
    size_t max_of_user;
    absl::Duration life;
    Secrets all;
  };

  static std::string Add(Kind& kind, const Caller& caller, absl::Time now);
  // Null if it is not there any more.
  static const Secret* Look(Kind& kind, std::string_view secret, absl::Time now);
  static void Remove(Kind& kind, std::string_view secret);

  absl::Mutex mu_;
  Kind codes_ ABSL_GUARDED_BY(mu_){kMaxCodes, kCodeLife, {}};
  Kind tokens_ ABSL_GUARDED_BY(mu_){kMaxTokens, kTokenLife, {}};
};

}  // namespace tensord
