// The functions outside of itself that compiled code may call: what LLVM falls back to where a
// processor lacks an instruction. Both the compiler and the loader hold code to this list.
#pragma once

#include <absl/types/span.h>

#include <string_view>

namespace tensord {

struct ExternalSymbol {
  std::string_view name;
  void* address;  // in this process
};
absl::Span<const ExternalSymbol> ExternalSymbols();
bool IsExternalSymbol(std::string_view name);

}  // namespace tensord
