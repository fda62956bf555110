#include "tools/tensorctl/daemon.h"

#include "core/base/status.h"

namespace tensord {

absl::Status Daemon::Explain(const grpc::Status& status) const {
  if (status.ok()) return absl::OkStatus();
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
    return Unavailable("no daemon at {}: start one with tensord --listen {} ({})", options_.address,
                       options_.address, status.error_message());
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
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

}  // namespace tensord
