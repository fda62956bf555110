#include "tools/tensorctl/daemon.h"

#include "client/cc/security.h"
#include "core/base/status.h"
#include "core/base/text.h"

namespace tensord {

absl::Status Daemon::Explain(const grpc::Status& status) const {
  if (status.ok()) return absl::OkStatus();
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
    TD_RETURN_IF_ERROR(TlsDisagreement(options_.address, status.error_message()));
    return Unavailable("no daemon at {}: start one with tensord --listen {} ({}){}",
                       options_.address, options_.address, status.error_message(),
                       options_.address.starts_with("unix:")
                           ? ""
                           : "; if one runs there with --tls-cert, set TENSORD_TLS");
  }
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return DeadlineExceeded("no answer from {} within {}", options_.address,
                            absl::FormatDuration(options_.timeout));
  }
  // gRPC's own answer to a call of a later version.
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED && status.error_message().empty()) {
    return Unimplemented("the daemon at {} is older than this tensorctl: upgrade the daemon",
                         options_.address);
  }
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      OneLine(status.error_message()));
}

}  // namespace tensord
