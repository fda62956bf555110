#include "server/auth/authenticator.h"

#include <absl/algorithm/container.h>
#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/strip.h>
#include <pwd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <string_view>
#include <utility>

#include "core/base/log.h"

namespace tensord {
namespace {

// gRPC's names for peers: of channels in this process, and of connections that it was handed as a
// descriptor, which ours on unix sockets are.
constexpr std::string_view kInProcess = "unknown";
constexpr absl::string_view kDescriptor = "fd:";
constexpr size_t kMaxNames = 1024;

// The descriptor is open, and that of this call, because a call keeps its connection.
std::optional<uid_t> UserBehind(const std::string& peer) {
  absl::string_view digits = peer;
  int fd;
  if (!absl::ConsumePrefix(&digits, kDescriptor) || !absl::SimpleAtoi(digits, &fd)) {
    return std::nullopt;
  }
  ucred credentials;
  socklen_t size = sizeof(credentials);
  constexpr auto kNobody = static_cast<uid_t>(-1);  // of what is no unix socket
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0 ||
      credentials.uid == kNobody) {
    return std::nullopt;
  }
  return credentials.uid;
}

// The name in a certificate that was checked; empty if there is none.
std::string CertificateUser(const grpc::CallbackServerContext& context) {
  const auto auth = context.auth_context();
  if (auth == nullptr || !auth->IsPeerAuthenticated()) return "";
  std::vector<grpc::string_ref> names = auth->FindPropertyValues(GRPC_X509_CN_PROPERTY_NAME);
  if (names.empty()) names = auth->GetPeerIdentity();
  return names.empty() ? "" : std::string(names[0].data(), names[0].size());
}

std::optional<std::string> Token(const grpc::CallbackServerContext& context) {
  const auto found = context.client_metadata().find("authorization");
  if (found == context.client_metadata().end()) return std::nullopt;
  absl::string_view value(found->second.data(), found->second.size());
  if (!absl::ConsumePrefix(&value, "Bearer ")) return "";
  return std::string(value);
}

}  // namespace

std::string UserName(uid_t uid) {
  passwd entry;
  passwd* found = nullptr;
  char buffer[4096];
  getpwuid_r(uid, &entry, buffer, sizeof(buffer), &found);
  return found != nullptr ? found->pw_name : fmt::format("uid-{}", uid);
}

Authenticator::Authenticator(AuthOptions options)
    : admin_users_(std::move(options.admin_users)),
      proof_required_(options.proof_required),
      tokens_(std::move(options.tokens)) {}

absl::StatusOr<Caller> Authenticator::Identify(const grpc::CallbackServerContext& context) const {
  const std::string peer = context.peer();
  if (peer == kInProcess) {
    return Caller{.user = UserName(geteuid()), .admin = true, .local = true};
  }
  if (const std::optional<uid_t> uid = UserBehind(peer)) {
    Caller caller = Named(NameOf(*uid));
    caller.admin |= *uid == 0 || *uid == geteuid();
    caller.local = true;
    return caller;
  }
  if (std::string user = CertificateUser(context); !user.empty()) return Named(std::move(user));
  return IdentifyRemote(peer, Token(context), proof_required_);
}

absl::StatusOr<Caller> Authenticator::Identify(const std::string& peer,
                                               const std::optional<std::string>& token) const {
  return IdentifyRemote(peer, token, /*proof_required=*/true);
}

absl::StatusOr<Caller> Authenticator::IdentifyRemote(const std::string& peer,
                                                     const std::optional<std::string>& token,
                                                     bool proof_required) const {
  if (token) {
    std::string user;
    {
      absl::MutexLock lock(&mu_);
      user = tokens_.Find(*token);
    }
    if (!user.empty()) return Named(std::move(user));
    return Refuse(peer, "the daemon does not know this token: ask its operator for another");
  }
  if (!proof_required) return Caller();
  return Refuse(peer,
                "the daemon wants to know who calls: connect with a token or a client certificate");
}

absl::Status Authenticator::Refuse(const std::string& peer, const char* why) const {
  if (const std::optional<uint64_t> left_out = refusals_.Take()) {
    Log("auth").warn("refused peer={} left_out={} because=\"{}\"", peer, *left_out, why);
  }
  return absl::UnauthenticatedError(why);
}

// Each call of a client asks for it, and to look it up reads files.
std::string Authenticator::NameOf(uid_t uid) const {
  {
    absl::MutexLock lock(&mu_);
    const auto found = names_.find(uid);
    if (found != names_.end()) return found->second;
  }
  std::string name = UserName(uid);
  absl::MutexLock lock(&mu_);
  if (names_.size() >= kMaxNames) names_.clear();
  names_[uid] = name;
  return name;
}

Caller Authenticator::Named(std::string user) const {
  const bool admin = absl::c_linear_search(admin_users_, user);
  return {.user = std::move(user), .admin = admin};
}

void Authenticator::SetTokens(TokenTable tokens) {
  absl::MutexLock lock(&mu_);
  tokens_ = std::move(tokens);
}

}  // namespace tensord
