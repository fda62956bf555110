#include "server/auth/tls.h"

#include <fcntl.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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

absl::StatusOr<std::string> ReadFile(std::string_view flag, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file.good() && !file.eof()) {
    return InvalidArgument("{}: cannot read {}: {}", flag, path, std::strerror(errno));
  }
  return text;
}

std::string PathOf(int fd) { return fmt::format("/proc/self/fd/{}", fd); }

// `fd` becomes a file in memory with that text, whatever it was before.
absl::Status Exchange(const std::string& text, int& fd) {
  const int fresh = memfd_create("tensord-tls", MFD_CLOEXEC);
  if (fresh < 0 || write(fresh, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    const int error = errno;
    if (fresh >= 0) close(fresh);
    return Internal("cannot keep it in memory: {}", std::strerror(error));
  }
  if (fd < 0) {
    fd = fresh;
    return absl::OkStatus();
  }
  const int result = dup3(fresh, fd, O_CLOEXEC);
  const int error = errno;
  close(fresh);
  return result < 0 ? Internal("cannot exchange it: {}", std::strerror(error)) : absl::OkStatus();
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

absl::StatusOr<std::unique_ptr<TlsCertificates>> TlsCertificates::Read(const TlsFiles& files) {
  auto certificates = std::unique_ptr<TlsCertificates>(new TlsCertificates(files));
  TD_RETURN_IF_ERROR(certificates->ReadAgain());
  return certificates;
}

TlsCertificates::~TlsCertificates() {
  for (const int fd : {certificate_, key_, client_ca_}) {
    if (fd >= 0) close(fd);
  }
}

absl::Status TlsCertificates::ReadAgain() {
  TD_RETURN_IF_ERROR(Check(files_));
  struct Copy {
    std::string_view flag;
    const std::string& path;
    int& fd;
    std::string text;
  };
  Copy copies[] = {{"--tls-cert", files_.certificate, certificate_, ""},
                   {"--tls-key", files_.key, key_, ""},
                   {"--tls-client-ca", files_.client_ca, client_ca_, ""}};
  for (Copy& copy : copies) {
    if (copy.path.empty()) continue;
    TD_ASSIGN_OR_RETURN(copy.text, ReadFile(copy.flag, copy.path));
  }
  for (const Copy& copy : copies) {
    if (!copy.path.empty()) TD_RETURN_IF_ERROR(Exchange(copy.text, copy.fd), "{}", copy.flag);
  }
  return absl::OkStatus();
}

std::shared_ptr<grpc::ServerCredentials> TlsCertificates::credentials() const {
  constexpr unsigned kLookEverySeconds = 1;
  using grpc::experimental::FileWatcherCertificateProvider;
  grpc::experimental::TlsServerCredentialsOptions options(
      std::make_shared<FileWatcherCertificateProvider>(PathOf(key_), PathOf(certificate_),
                                                       client_ca_ < 0 ? "" : PathOf(client_ca_),
                                                       kLookEverySeconds));
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  if (client_ca_ >= 0) {
    options.watch_root_certs();
    options.set_cert_request_type(files_.client_certificate_required
                                      ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                      : GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return grpc::experimental::TlsServerCredentials(options);
}

}  // namespace tensord
