// absl::Status <-> tensord.v1.Status: the codes are the same numbers.
#pragma once

#include <absl/status/status.h>

#include "proto/tensord/v1/session.pb.h"

namespace tensord {

void Encode(const absl::Status& status, v1::Status* out);
absl::Status Decode(const v1::Status& status);  // a code that does not exist becomes Unknown

}  // namespace tensord
