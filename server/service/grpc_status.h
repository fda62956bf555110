// The one place where a Status becomes a grpc::Status.
#pragma once

#include <absl/status/status.h>
#include <grpcpp/support/status.h>

namespace tensord {

grpc::Status ToGrpc(const absl::Status& status);

}  // namespace tensord
