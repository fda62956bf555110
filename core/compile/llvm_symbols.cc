#include "core/compile/llvm_symbols.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tensord {

absl::Span<const ExternalSymbol> ExternalSymbols() {
  static const ExternalSymbol symbols[] = {
      {"memcpy", reinterpret_cast<void*>(&std::memcpy)},
      {"memmove", reinterpret_cast<void*>(&std::memmove)},
      {"memset", reinterpret_cast<void*>(&std::memset)},
      // LLVM makes maxnum and minnum of a comparison and a selection, of floats below float32 too.
      {"fmax", reinterpret_cast<void*>(static_cast<double (*)(double, double)>(&std::fmax))},
      {"fmaxf", reinterpret_cast<void*>(static_cast<float (*)(float, float)>(&std::fmax))},
      {"fmin", reinterpret_cast<void*>(static_cast<double (*)(double, double)>(&std::fmin))},
      {"fminf", reinterpret_cast<void*>(static_cast<float (*)(float, float)>(&std::fmin))},
      {"fma", reinterpret_cast<void*>(static_cast<double (*)(double, double, double)>(&std::fma))},
      {"fmaf", reinterpret_cast<void*>(static_cast<float (*)(float, float, float)>(&std::fma))},
      {"trunc", reinterpret_cast<void*>(static_cast<double (*)(double)>(&std::trunc))},
      {"truncf", reinterpret_cast<void*>(static_cast<float (*)(float)>(&std::trunc))},
  };
  return symbols;
}

bool IsExternalSymbol(std::string_view name) {
  const auto symbols = ExternalSymbols();
  return std::any_of(symbols.begin(), symbols.end(),
                     [&](const ExternalSymbol& symbol) { return symbol.name == name; });
}

}  // namespace tensord
