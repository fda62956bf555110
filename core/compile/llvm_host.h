// The Target of the machine that this process runs on, as LLVM and the operating system see it.
#pragma once

#include "core/device/target.h"

namespace tensord {

// Detected once, then the same for the life of the process. Thread-safe.
const Target& LlvmHostTarget();

}  // namespace tensord
