// Where the daemon listens and clients look for it, unless told otherwise.
#pragma once

#include <string>

namespace tensord {

// "unix:$XDG_RUNTIME_DIR/tensord.sock", or "unix:/tmp/tensord-UID/tensord.sock" without that
// folder.
std::string DefaultAddress();

}  // namespace tensord
