// absl::Status <-> tensord.v1.Status: the codes are the same numbers. The details of google.rpc are
// the payload of a Status.
#pragma once

#include <absl/status/status.h>

#include "proto/tensord/v1/session.pb.h"

namespace tensord {

void Encode(const absl::Status& status, v1::Status* out);
absl::Status Decode(const v1::Status& status);  // a code that does not exist becomes Unknown
// The details of `from` become those of the status, if it is an error.
void SetDetails(const v1::Status& from, absl::Status& status);

}  // namespace tensord
