#include "core/wire/status.h"

#include <absl/strings/cord.h>

#include <string>

#include "core/base/status.h"
#include "core/base/text.h"

namespace tensord {
namespace {

// Of the payload: a google.rpc.Status with details and nothing else.
constexpr char kDetails[] = "type.googleapis.com/google.rpc.Status";

}  // namespace

void Encode(const absl::Status& status, v1::Status* out) {
  const absl::optional<absl::Cord> details = status.GetPayload(kDetails);
  // What we did not make ourselves may be anything.
  if (details && !out->ParseFromString(std::string(*details))) out->Clear();
  out->set_code(static_cast<uint32_t>(status.code()));
  out->set_message(Utf8(Message(status)));
}

absl::Status Decode(const v1::Status& status) {
  constexpr uint32_t kLastCode = static_cast<uint32_t>(absl::StatusCode::kUnauthenticated);
  const auto code = status.code() <= kLastCode ? static_cast<absl::StatusCode>(status.code())
                                               : absl::StatusCode::kUnknown;
  absl::Status decoded(code, status.message());
  SetDetails(status, decoded);
  return decoded;
}

void SetDetails(const v1::Status& from, absl::Status& status) {
  if (status.ok() || from.details().empty()) return;
  v1::Status details;
  *details.mutable_details() = from.details();
  status.SetPayload(kDetails, absl::Cord(details.SerializeAsString()));
}

}  // namespace tensord
