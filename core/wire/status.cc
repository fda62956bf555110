#include "core/wire/status.h"

#include <string>

#include "core/base/status.h"

namespace tensord {

void Encode(const absl::Status& status, v1::Status* out) {
  out->set_code(static_cast<uint32_t>(status.code()));
  out->set_message(std::string(Message(status)));
}

absl::Status Decode(const v1::Status& status) {
  constexpr uint32_t kLastCode = static_cast<uint32_t>(absl::StatusCode::kUnauthenticated);
  const auto code = status.code() <= kLastCode ? static_cast<absl::StatusCode>(status.code())
                                               : absl::StatusCode::kUnknown;
  return absl::Status(code, status.message());
}

}  // namespace tensord
