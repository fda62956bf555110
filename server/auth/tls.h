// TLS for the daemon's TCP listeners, from PEM files.
#pragma once

#include <absl/status/statusor.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

namespace tensord {

struct TlsFiles {
  std::string certificate;  // the daemon's, and those that sign it up to its root
  std::string key;          // of the certificate; for the daemon's user only
  std::string client_ca;    // signs the certificates of clients; empty: clients have none
  // Else a client may go without one, because it can prove in another way who it is.
  bool client_certificate_required = true;
};

// InvalidArgument names the file that can't be used; the key's for others to read is
// FailedPrecondition.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> TlsCredentials(const TlsFiles& files);

}  // namespace tensord
