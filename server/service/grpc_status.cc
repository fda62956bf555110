#include "server/service/grpc_status.h"

#include <string>

#include "core/base/status.h"

namespace tensord {
namespace {

// Messages travel in HTTP/2 trailers, whose size clients limit to 8 KiB.
constexpr size_t kMaxMessage = 4096;

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  std::string message(Message(status).substr(0, kMaxMessage));
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::move(message));
}

}  // namespace tensord
