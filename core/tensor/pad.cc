#include "core/tensor/pad.h"

#include <algorithm>

#include "core/tensor/build.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/movement.h"

namespace tensord {
namespace {

constexpr std::string_view kModes[] = {"constant", "reflect", "replicate", "circular"};

// The elements of an axis that stand before it (or after it) in that mode.
Expr Beyond(const Expr& x, int64_t axis, PadMode mode, int64_t count, bool before) {
  const int64_t size = x.shape()[axis];
  switch (mode) {
    case PadMode::kReflect: {
      const int64_t begin = before ? 1 : size - 1 - count;
      return Flip(Shrink(x, axis, begin, begin + count), {axis});
    }
    case PadMode::kReplicate: {
      const int64_t end = before ? 0 : size - 1;
      return BroadcastTo(Shrink(x, axis, end, end + 1), WithAxis(x.shape(), axis, count));
    }
    default: {
      const int64_t begin = before ? size - count : 0;
      return Shrink(x, axis, begin, begin + count);
    }
  }
}

Expr PadAxis(const Expr& x, int64_t axis, PadAmount amount, PadMode mode) {
  if (!x.ok()) return x;
  const auto [before, after] = amount;
  if (auto error = NeedsNumber("pad", x, axis)) return *error;
  const int64_t size = x.shape()[axis];
  const int64_t most = std::max(before, after);
  const int64_t limit = mode == PadMode::kReflect    ? size - 1
                        : mode == PadMode::kCircular ? size
                        : size > 0                   ? kMaxElements
                                                     : 0;
  if (most > 0 && most > limit) {
    return Fail(x, "pad: ({}, {}) is more than mode {} finds on axis {} of {}, which is {}", before,
                after, kModes[static_cast<size_t>(mode)], axis, ShapeText(x.shape()),
                std::max<int64_t>(limit, 0));
  }
  if (mode == PadMode::kCircular && std::min(before, after) < 0) {
    // What is cropped does not come round again.
    const Expr kept = PadAxis(x, axis, {std::min<int64_t>(before, 0), std::min<int64_t>(after, 0)},
                              PadMode::kReplicate);
    return PadAxis(kept, axis, {std::max<int64_t>(before, 0), std::max<int64_t>(after, 0)}, mode);
  }
  std::vector<Expr> pieces;
  if (before > 0) pieces.push_back(Beyond(x, axis, mode, before, true));
  pieces.push_back(x);
  if (after > 0) pieces.push_back(Beyond(x, axis, mode, after, false));
  const Expr wide = pieces.size() == 1 ? x : Cat(pieces, axis);
  if (!wide.ok()) return wide;
  const int64_t begin = std::max<int64_t>(-before, 0);
  const int64_t end = wide.shape()[axis] - std::max<int64_t>(-after, 0);
  if (begin > end) {
    return Fail(x, "pad: ({}, {}) crops more than axis {} of {} has", before, after, axis,
                ShapeText(x.shape()));
  }
  return Shrink(wide, axis, begin, end);
}

}  // namespace

Expr Pad(const Expr& x, absl::Span<const PadAmount> amounts, Number value) {
  if (!x.ok()) return x;
  if (static_cast<int64_t>(amounts.size()) != x.rank()) {
    return Fail(x, "pad: {} pairs for shape {}; give one per axis", amounts.size(),
                ShapeText(x.shape()));
  }
  Dims crop, grow;
  bool crops = false, grows = false;
  for (size_t i = 0; i < amounts.size(); ++i) {
    const auto [before, after] = amounts[i];
    const int64_t dim = x.shape()[i];
    if (Varies(before) || Varies(after) || Varies(dim)) {
      // Amounts that vary only grow.
      if ((!Varies(before) && before < 0) || (!Varies(after) && after < 0)) {
        return Fail(x, "pad: ({}, {}) crops axis {} of {}, where sizes vary; use a slice",
                    SizeText(before), SizeText(after), i, ShapeText(x.shape()));
      }
      crop.insert(crop.end(), {0, dim});
      grow.insert(grow.end(), {before, after});
      grows |= before != 0 || after != 0;
      continue;
    }
    const int64_t begin = std::max<int64_t>(-before, 0);
    const int64_t end = dim - std::max<int64_t>(-after, 0);
    if (begin > end) {
      return Fail(x, "pad: ({}, {}) crops more than axis {} of {} has", before, after, i,
                  ShapeText(x.shape()));
    }
    crop.insert(crop.end(), {begin, end});
    grow.insert(grow.end(), {std::max<int64_t>(before, 0), std::max<int64_t>(after, 0)});
    crops |= begin > 0 || end < dim;
    grows |= before > 0 || after > 0;
  }
  const Expr kept = crops ? Apply(Op::kShrink, {x}, crop) : x;
  if (!grows) return kept;
  const Expr padded = Apply(Op::kPad, {kept}, grow);
  if (value.AsDouble() == 0 || !padded.ok()) return padded;
  const Expr inside = Apply(Op::kPad, {Full(x.graph(), kept.shape(), true, DType::kBool)}, grow);
  const Expr filler = Constant(x.graph(), value, x.dtype());
  return Where(inside, padded, BroadcastTo(filler, padded.shape()));
}

std::optional<PadMode> PadModeFromName(std::string_view name) {
  for (size_t i = 0; i < std::size(kModes); ++i) {
    if (name == kModes[i]) return static_cast<PadMode>(i);
  }
  return std::nullopt;
}

Expr PadBy(const Expr& x, absl::Span<const PadAmount> amounts, PadMode mode, Number value) {
  if (!x.ok() || mode == PadMode::kConstant) return Pad(x, amounts, value);
  if (static_cast<int64_t>(amounts.size()) != x.rank()) {
    return Fail(x, "pad: {} pairs for shape {}; give one per axis", amounts.size(),
                ShapeText(x.shape()));
  }
  Expr result = x;
  for (int64_t i = 0; i < x.rank(); ++i) result = PadAxis(result, i, amounts[i], mode);
  return result;
}

Expr PadTo(const Expr& x, absl::Span<const std::optional<int64_t>> dims, Number value) {
  if (!x.ok()) return x;
  if (static_cast<int64_t>(dims.size()) != x.rank()) {
    return Fail(x, "pad_to: {} sizes for shape {}; give one per axis", dims.size(),
                ShapeText(x.shape()));
  }
  std::vector<PadAmount> amounts(x.rank());
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (!dims[i]) continue;
    if (*dims[i] < x.shape()[i]) {
      return Fail(x, "pad_to: axis {} of {} is longer than {}; use shrink_to", i,
                  ShapeText(x.shape()), *dims[i]);
    }
    amounts[i].after = *dims[i] - x.shape()[i];
  }
  return Pad(x, amounts, value);
}

}  // namespace tensord
