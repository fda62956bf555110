#include "core/wire/address.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

namespace tensord {

std::string DefaultAddress() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && runtime[0] == '/') return fmt::format("unix:{}/tensord.sock", runtime);
  return fmt::format("unix:/tmp/tensord-{}/tensord.sock", getuid());
}

}  // namespace tensord
