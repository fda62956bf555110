#include "server/console/logins.h"

#include <absl/algorithm/container.h>
#include <absl/strings/escaping.h>
#include <openssl/sha.h>
#include <sys/random.h>

#include "core/base/check.h"
#include "core/base/status.h"

namespace tensord {
namespace {

std::string RandomSecret() {
  std::string bytes(16, '\0');
  const ssize_t got = getrandom(bytes.data(), bytes.size(), 0);
  TD_CHECK(got == static_cast<ssize_t>(bytes.size()), "getrandom");
  return absl::BytesToHexString(bytes);
}

std::string HashOf(std::string_view secret) {
  std::string hash(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(secret.data()), secret.size(),
         reinterpret_cast<unsigned char*>(hash.data()));
  return hash;
}

}  // namespace

std::string Logins::Add(Kind& kind, const Caller& caller, absl::Time now) {
  Secrets& all = kind.all;
  std::erase_if(all, [now](const Secret& secret) { return secret.end <= now; });
  const auto of_user = [&](const Secret& secret) { return secret.caller.user == caller.user; };
  if (static_cast<size_t>(absl::c_count_if(all, of_user)) >= kind.max_of_user) {
    all.erase(absl::c_find_if(all, of_user));
  } else if (all.size() >= kMaxOfAll) {
    all.pop_front();
  }
  std::string secret = RandomSecret();
  all.push_back({.hash = HashOf(secret), .caller = caller, .end = now + kind.life});
  return secret;
}

const Logins::Secret* Logins::Look(Kind& kind, std::string_view secret, absl::Time now) {
  const std::string hash = HashOf(secret);
  const auto found = absl::c_find_if(
      kind.all, [&](const Secret& each) { return each.hash == hash && each.end > now; });
  return found == kind.all.end() ? nullptr : &*found;
}

void Logins::Remove(Kind& kind, std::string_view secret) {
  const std::string hash = HashOf(secret);
  std::erase_if(kind.all, [&](const Secret& each) { return each.hash == hash; });
}

std::string Logins::NewCodeAt(const Caller& caller, absl::Time now) {
  absl::MutexLock lock(&mu_);
  return Add(codes_, caller, now);
}

absl::StatusOr<Logins::Login> Logins::RedeemAt(std::string_view code, absl::Time now) {
  absl::MutexLock lock(&mu_);
  const Secret* found = Look(codes_, code, now);
  if (found == nullptr) {
    return absl::UnauthenticatedError(
        "this link was used before, or is too old: tensorctl console makes another");
  }
  const Caller caller = found->caller;
  Remove(codes_, code);
  return Login{.token = Add(tokens_, caller, now), .caller = caller};
}

std::optional<Caller> Logins::FindAt(std::string_view token, absl::Time now) {
  absl::MutexLock lock(&mu_);
  const Secret* found = Look(tokens_, token, now);
  return found == nullptr ? std::nullopt : std::optional<Caller>(found->caller);
}

void Logins::End(std::string_view token) {
  absl::MutexLock lock(&mu_);
  Remove(tokens_, token);
}

}  // namespace tensord
