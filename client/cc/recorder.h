// Recorder: writes what this process says to daemons, and hears from them, to the file that the
// environment names in TENSORD_RECORD; docs/protocol.md. TENSORD_RECORD_CONTENTS=true keeps the
// tensors' bytes, which are left out otherwise. Tokens never get there.
//
//   TD_ASSIGN_OR_RETURN(Interceptors interceptors, RecordingInterceptors());
//   Dial(address, security, arguments, std::move(interceptors));
#pragma once

#include <absl/status/statusor.h>

#include "client/cc/security.h"

namespace tensord::client {

// For the channel of one session; none unless TENSORD_RECORD is set. InvalidArgument or
// FailedPrecondition if that file can't be written.
absl::StatusOr<Interceptors> RecordingInterceptors();

// Whether there are any: then all bytes have to be in messages.
bool IsRecording();

}  // namespace tensord::client
