// Growing and cropping at the ends of axes.
#pragma once

#include <optional>
#include <string_view>

#include "core/tensor/expr.h"
#include "core/tensor/number.h"

namespace tensord {

struct PadAmount {
  int64_t before = 0;  // a negative amount crops
  int64_t after = 0;
};
// One amount per axis.
Expr Pad(const Expr& x, absl::Span<const PadAmount> amounts, Number value = 0);

// What the padding holds: one value; the elements mirrored at the ends, without these; those at the
// ends; or those from the other end. All but the first need elements to take: at most one less than
// the axis has, at least one, at most as many as it has.
enum class PadMode : uint8_t { kConstant, kReflect, kReplicate, kCircular };
std::optional<PadMode> PadModeFromName(std::string_view name);  // "constant", "reflect", ...
// A negative amount crops after the other end has been padded.
Expr PadBy(const Expr& x, absl::Span<const PadAmount> amounts, PadMode mode, Number value = 0);

// Grows at the end of each axis to that size; nothing keeps it.
Expr PadTo(const Expr& x, absl::Span<const std::optional<int64_t>> dims, Number value = 0);

}  // namespace tensord
