#include "client/cc/security.h"

#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <grpc/grpc.h>
#include <grpc/support/log.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>

#include "core/base/status.h"

namespace tensord {
namespace {

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// The text of a PEM file; empty for no file.
absl::StatusOr<std::string> Pem(std::string_view what, const std::string& path) {
  if (path.empty()) return std::string();
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return InvalidArgument("connect: cannot read {} {}: {}", what, path, std::strerror(errno));
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (text.find("-----BEGIN ") == std::string::npos) {
    return InvalidArgument("connect: {} {} is no PEM file", what, path);
  }
  return text;
}

// gRPC's own lines are for who asks for them: what fails is in the status of a call. And it stays
// for good: with the last channel it would end itself, which may wait for a poller of its own that
// sleeps for 10 s.
void SetUpGrpc() {
  static const bool once [[maybe_unused]] = [] {
    if (std::getenv("GRPC_VERBOSITY") == nullptr) gpr_set_log_function([](gpr_log_func_args*) {});
    grpc_init();
    return true;
  }();
}

}  // namespace

Security Security::FromEnvironment() {
  Security security{.tls = false,
                    .ca_file = Variable("TENSORD_TLS_CA"),
                    .cert_file = Variable("TENSORD_TLS_CERT"),
                    .key_file = Variable("TENSORD_TLS_KEY"),
                    .server_name = Variable("TENSORD_TLS_SERVER_NAME"),
                    .token = Variable("TENSORD_TOKEN"),
                    .status = absl::OkStatus()};
  const std::string tls = Variable("TENSORD_TLS");
  if (!tls.empty() && !absl::SimpleAtob(tls, &security.tls)) {
    security.status = InvalidArgument("TENSORD_TLS={}: takes true or false", tls);
  }
  return security;
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> Dial(const std::string& address,
                                                    const Security& security,
                                                    const grpc::ChannelArguments& arguments,
                                                    Interceptors interceptors) {
  TD_RETURN_IF_ERROR(security.status);
  SetUpGrpc();
  const bool tls = security.tls || !security.ca_file.empty() || !security.cert_file.empty() ||
                   !security.key_file.empty() || !security.server_name.empty() ||
                   !security.token.empty();
  if (!tls || absl::StartsWith(address, "unix:")) {
    return grpc::experimental::CreateCustomChannelWithInterceptors(
        address, grpc::InsecureChannelCredentials(), arguments, std::move(interceptors));
  }
  if (security.cert_file.empty() != security.key_file.empty()) {
    return InvalidArgument("connect: a client certificate and its key go together");
  }
  grpc::SslCredentialsOptions options;
  TD_ASSIGN_OR_RETURN(options.pem_root_certs, Pem("the CA's certificate", security.ca_file));
  TD_ASSIGN_OR_RETURN(options.pem_cert_chain, Pem("the client's certificate", security.cert_file));
  TD_ASSIGN_OR_RETURN(options.pem_private_key, Pem("the client's key", security.key_file));
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::SslCredentials(options);
  if (!security.token.empty()) {
    // It becomes the value of a header.
    for (const char c : security.token) {
      if (c <= 0x20 || c >= 0x7f) {
        return InvalidArgument("connect: the token has a space or a character that no token has");
      }
    }
    credentials = grpc::CompositeChannelCredentials(credentials,
                                                    grpc::AccessTokenCredentials(security.token));
  }
  grpc::ChannelArguments all = arguments;
  if (!security.server_name.empty()) all.SetSslTargetNameOverride(security.server_name);
  return grpc::experimental::CreateCustomChannelWithInterceptors(address, credentials, all,
                                                                 std::move(interceptors));
}

absl::Status TlsDisagreement(const std::string& address, std::string_view why) {
  for (const std::string_view word : {"andshake", "SSL", "certificate"}) {
    if (why.find(word) == why.npos) continue;
    return Unavailable(
        "the daemon at {} and this client don't agree on TLS: check the CA's certificate, the name "
        "in the daemon's, and whether it wants one of the client ({})",
        address, why);
  }
  return absl::OkStatus();
}

}  // namespace tensord
