// Which build of the compiler this is, so that a kernel that another build cached is not taken for
// one of this.
#pragma once

#include <string>

namespace tensord {

// A hash of this process's executable file, computed once; of the time of start if it can't be
// read.
const std::string& BuildId();

// Whether another build was the last to use that folder of kernels, which this one can't use; notes
// that it is this one now. False for an empty name, and a folder that nobody has used.
bool LastUsedByOtherBuild(const std::string& directory);

}  // namespace tensord
