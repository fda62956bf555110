// TLS for the daemon's TCP listeners, from PEM files.
#pragma once

#include <absl/status/statusor.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <utility>

namespace tensord {

struct TlsFiles {
  std::string certificate;  // the daemon's, and those that sign it up to its root
  std::string key;          // of the certificate; for the daemon's user only
  std::string client_ca;    // signs the certificates of clients; empty: clients have none
  // Else a client may go without one, because it can prove in another way who it is.
  bool client_certificate_required = true;
};

// What the files say, for connections that come: they can be read anew while the daemon runs.
//
// Not thread-safe.
class TlsCertificates {
 public:
  // InvalidArgument names the file that can't be used; the key's for others to read is
  // FailedPrecondition.
  static absl::StatusOr<std::unique_ptr<TlsCertificates>> Read(const TlsFiles& files);
  ~TlsCertificates();
  TlsCertificates(const TlsCertificates&) = delete;
  TlsCertificates& operator=(const TlsCertificates&) = delete;

  // Of connections that begin a second later at most. An error changes nothing.
  absl::Status ReadAgain();

  std::shared_ptr<grpc::ServerCredentials> credentials() const;

 private:
  explicit TlsCertificates(TlsFiles files) : files_(std::move(files)) {}

  const TlsFiles files_;
  // gRPC looks for changes of files by itself, at any time, and so could see the half of one. What
  // it watches are copies in memory, each of which is exchanged at once.
  int certificate_ = -1, key_ = -1, client_ca_ = -1;
};

}  // namespace tensord
