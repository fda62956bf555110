#include "client/cc/security.h"

#include <absl/strings/match.h>
#include <absl/strings/numbers.h>

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

}  // namespace

Security Security::FromEnvironment() {
  Security security{.tls = false,
                    .ca_file = Variable("TENSORD_TLS_CA"),
                    .cert_file = Variable("TENSORD_TLS_CERT"),
                    .key_file = Variable("TENSORD_TLS_KEY"),
                    .server_name = Variable("TENSORD_TLS_SERVER_NAME"),
                    .token = Variable("TENSORD_TOKEN")};
  // What is neither true nor false is taken for the safe one.
  const std::string tls = Variable("TENSORD_TLS");
  security.tls = !tls.empty() && !(absl::SimpleAtob(tls, &security.tls) && !security.tls);
  return security;
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> Dial(const std::string& address,
                                                    const Security& security,
                                                    const grpc::ChannelArguments& arguments,
                                                    Interceptors interceptors) {
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

}  // namespace tensord
