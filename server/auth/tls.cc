#include "server/auth/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "core/base/status.h"

namespace tensord {
namespace {

// What OpenSSL says went wrong first.
std::string Reason() {
  const unsigned long error = ERR_get_error();
  ERR_clear_error();
  const char* reason = ERR_reason_error_string(error);
  return reason != nullptr ? reason : "it is no PEM file";
}

absl::StatusOr<std::string> Read(std::string_view flag, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file.good() && !file.eof()) {
    return InvalidArgument("{}: cannot read {}: {}", flag, path, std::strerror(errno));
  }
  return text;
}

// gRPC would only say that it cannot listen.
absl::Status Check(const TlsFiles& files) {
  struct stat info;
  if (stat(files.key.c_str(), &info) == 0 && (info.st_mode & 0077) != 0) {
    return FailedPrecondition(
        "--tls-key: others may read or change {}: make it its owner's only, by chmod 600",
        files.key);
  }
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_server_method()),
                                                                  SSL_CTX_free);
  if (SSL_CTX_use_certificate_chain_file(context.get(), files.certificate.c_str()) != 1) {
    return InvalidArgument("--tls-cert: {} has no certificate: {}", files.certificate, Reason());
  }
  // Also compares it with the certificate.
  if (SSL_CTX_use_PrivateKey_file(context.get(), files.key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return InvalidArgument("--tls-key: {} has no key for the certificate in {}: {}", files.key,
                           files.certificate, Reason());
  }
  if (!files.client_ca.empty() &&
      SSL_CTX_load_verify_locations(context.get(), files.client_ca.c_str(), nullptr) != 1) {
    return InvalidArgument("--tls-client-ca: {} has no certificate: {}", files.client_ca, Reason());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> TlsCredentials(const TlsFiles& files) {
  TD_ASSIGN_OR_RETURN(std::string certificate, Read("--tls-cert", files.certificate));
  TD_ASSIGN_OR_RETURN(std::string key, Read("--tls-key", files.key));
  grpc::SslServerCredentialsOptions options(GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  if (!files.client_ca.empty()) {
    TD_ASSIGN_OR_RETURN(options.pem_root_certs, Read("--tls-client-ca", files.client_ca));
    options.client_certificate_request =
        files.client_certificate_required
            ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
            : GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY;
  }
  TD_RETURN_IF_ERROR(Check(files));
  options.pem_key_cert_pairs.push_back({std::move(key), std::move(certificate)});
  return grpc::SslServerCredentials(options);
}

}  // namespace tensord
