#include "server/service/grpc_status.h"

#include <string>

#include "core/base/status.h"
#include "core/base/text.h"
#include "core/wire/status.h"

namespace tensord {
namespace {

// Messages travel in HTTP/2 trailers, whose size clients limit to 8 KiB.
constexpr size_t kMaxMessage = 4096;

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  std::string message = Utf8(Prefix(Message(status), kMaxMessage));
  v1::Status rich;
  Encode(status, &rich);
  std::string details;
  if (!rich.details().empty()) {
    rich.set_message(message);
    details = rich.SerializeAsString();
  }
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::move(message),
                      std::move(details));
}

}  // namespace tensord
