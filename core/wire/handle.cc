#include "core/wire/handle.h"

#include <fmt/format.h>

namespace tensord {

std::string ToString(Handle handle) {
  switch (handle.type) {
    case Handle::kTensor:
      return fmt::format("tensor {}.{}", handle.slot, handle.generation);
    case Handle::kProgram:
      return fmt::format("program {}.{}", handle.slot, handle.generation);
    default:
      return fmt::format("handle {:#x}", handle.Pack());
  }
}

}  // namespace tensord
