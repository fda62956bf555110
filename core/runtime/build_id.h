// Which build of the compiler this is, so that a kernel that another build cached is not taken for
// one of this.
#pragma once

#include <string>

namespace tensord {

// A hash of this process's executable file, computed once; of the time of start if it can't be
// read.
const std::string& BuildId();

}  // namespace tensord
