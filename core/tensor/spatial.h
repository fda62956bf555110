// Numbers per spatial axis, as convolutions and pools take them: none means a default, one serves
// all. Internal to core/tensor.
#pragma once

#include <initializer_list>
#include <optional>
#include <string_view>

#include "core/tensor/build.h"
#include "core/tensor/pad.h"

namespace tensord {

inline int64_t At(absl::Span<const int64_t> values, int64_t axis, int64_t absent) {
  return values.empty() ? absent : values[values.size() == 1 ? 0 : axis];
}
inline PadAmount At(absl::Span<const PadAmount> values, int64_t axis) {
  return values.empty() ? PadAmount{} : values[values.size() == 1 ? 0 : axis];
}

// The error unless each list has nothing, one number, or one per spatial axis.
inline std::optional<Expr> CheckCounts(std::string_view name, const Expr& x, int64_t spatial,
                                       std::initializer_list<size_t> counts) {
  for (size_t count : counts) {
    if (count > 1 && count != static_cast<size_t>(spatial)) {
      return Fail(x, "{}: {} numbers for {} spatial axes; give one, or one per axis", name, count,
                  spatial);
    }
  }
  return std::nullopt;
}

}  // namespace tensord
