#include <absl/numeric/int128.h>

#include <algorithm>
#include <limits>

#include "core/ir/infer.h"

namespace tensord {
namespace {

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

}  // namespace

void InferInterval(const Node& node, int64_t& lo, int64_t& hi) {
  lo = kMin;
  hi = kMax;
  const auto saturate = [](absl::int128 value) -> int64_t {
    return value < kMin ? kMin : value > kMax ? kMax : static_cast<int64_t>(value);
  };
  const bool integer = IsInt(node.dtype) || node.dtype == DType::kBool;
  if (integer && node.dtype != DType::kUint64) {
    lo = IntMin(node.dtype);
    hi = IntMax(node.dtype);
  }
  if (!integer && node.dtype != DType::kIndex) return;
  const auto narrow = [&](absl::int128 a, absl::int128 b) {
    // An integer that might wrap keeps the limits of its type.
    if (a < lo || b > hi) return;
    lo = saturate(a);
    hi = saturate(b);
  };
  const auto src = [&](int i) { return node.src[i]; };
  switch (node.op) {
    case Op::kConst:
      lo = hi = node.Int();
      return;
    case Op::kVariable:
      lo = node.ints[0];
      hi = node.ints[1];
      return;
    case Op::kRange:
      lo = 0;
      hi = node.range_size() - 1;
      return;
    case Op::kIota:
      narrow(0, std::max<int64_t>(node.shape[0] - 1, 0));
      return;
    case Op::kGridIndex:
      lo = 0;
      return;
    case Op::kRamp:
      narrow(0, node.lanes - 1);
      return;
    case Op::kReshape:
    case Op::kExpand:
    case Op::kPermute:
    case Op::kShrink:
    case Op::kFlip:
    case Op::kSlide:
    case Op::kContiguous:
    case Op::kDetach:
    case Op::kBroadcast:
    case Op::kExtract:
      lo = src(0)->lo;
      hi = src(0)->hi;
      return;
    case Op::kPad:
    case Op::kUnslide:
    case Op::kGather:
      lo = std::min<int64_t>(src(0)->lo, 0);
      hi = std::max<int64_t>(src(0)->hi, 0);
      return;
    case Op::kCast:
      if (IsInt(src(0)->dtype) || src(0)->dtype == DType::kBool || src(0)->dtype == DType::kIndex) {
        if (src(0)->dtype != DType::kUint64) narrow(src(0)->lo, src(0)->hi);
      }
      return;
    case Op::kScan: {
      const bool starts_at_identity = node.scan_exclusive();
      const int64_t n = std::max<int64_t>(node.shape[node.scan_axis()], 1);
      if (node.dtype == DType::kUint64 || node.dtype == DType::kBool) return;
      if (node.scan_kind() == ScanKind::kAdd) {
        // At least one element, or none; at most n.
        const absl::int128 a = src(0)->lo, b = src(0)->hi, least = starts_at_identity ? 0 : 1;
        narrow(std::min(a * least, a * n), std::max(b * least, b * n));
      } else if (node.scan_kind() != ScanKind::kMul && !starts_at_identity) {
        narrow(src(0)->lo, src(0)->hi);
      }
      return;
    }
    case Op::kScatter:
      if (node.dtype == DType::kUint64 || node.scatter_kind() == ScatterKind::kAdd ||
          node.scatter_kind() == ScatterKind::kMul) {
        return;
      }
      narrow(std::min(src(0)->lo, src(2)->lo), std::max(src(0)->hi, src(2)->hi));
      return;
    case Op::kAdd:
      if (node.dtype == DType::kBool) return;
      narrow(absl::int128(src(0)->lo) + src(1)->lo, absl::int128(src(0)->hi) + src(1)->hi);
      return;
    case Op::kSub:
      narrow(absl::int128(src(0)->lo) - src(1)->hi, absl::int128(src(0)->hi) - src(1)->lo);
      return;
    case Op::kNeg:
      narrow(-absl::int128(src(0)->hi), -absl::int128(src(0)->lo));
      return;
    case Op::kMul: {
      if (node.dtype == DType::kBool || node.dtype == DType::kUint64) return;
      const absl::int128 a = absl::int128(src(0)->lo) * src(1)->lo,
                         b = absl::int128(src(0)->lo) * src(1)->hi,
                         c = absl::int128(src(0)->hi) * src(1)->lo,
                         d = absl::int128(src(0)->hi) * src(1)->hi;
      narrow(std::min({a, b, c, d}), std::max({a, b, c, d}));
      return;
    }
    case Op::kFloorDiv:
      if (src(1)->IsConst() && src(1)->Int() > 0 && node.dtype != DType::kUint64) {
        const int64_t c = src(1)->Int();
        const auto floor = [&](int64_t x) { return x / c - (x % c != 0 && x < 0 ? 1 : 0); };
        narrow(floor(src(0)->lo), floor(src(0)->hi));
      } else if (node.dtype == DType::kIndex && src(0)->lo >= 0 && src(1)->lo >= 0) {
        // By zero it gives 0.
        narrow(src(1)->lo > 0 ? src(0)->lo / src(1)->hi : 0,
               src(0)->hi / std::max<int64_t>(src(1)->lo, 1));
      }
      return;
    case Op::kFloorMod:
      if (node.dtype == DType::kIndex && !src(1)->IsConst() && src(1)->lo >= 0) {
        narrow(0, std::max<int64_t>(src(1)->hi - 1, 0));
      } else if (src(1)->IsConst() && src(1)->Int() > 0 && node.dtype != DType::kUint64) {
        narrow(0, src(0)->lo >= 0 ? std::min(src(0)->hi, src(1)->Int() - 1) : src(1)->Int() - 1);
      }
      return;
    case Op::kMax:
    case Op::kMin:
      if (node.dtype == DType::kUint64) return;
      narrow(
          node.op == Op::kMax ? std::max(src(0)->lo, src(1)->lo) : std::min(src(0)->lo, src(1)->lo),
          node.op == Op::kMax ? std::max(src(0)->hi, src(1)->hi)
                              : std::min(src(0)->hi, src(1)->hi));
      return;
    case Op::kWhere:
      if (node.dtype == DType::kUint64) return;
      narrow(std::min(src(1)->lo, src(2)->lo), std::max(src(1)->hi, src(2)->hi));
      return;
    case Op::kAnd:
      if (node.dtype == DType::kUint64) return;
      if (src(0)->lo >= 0 && src(1)->lo >= 0) narrow(0, std::min(src(0)->hi, src(1)->hi));
      return;
    case Op::kShr:
      if (src(1)->IsConst() && src(0)->lo >= 0 && src(1)->Int() >= 0 && src(1)->Int() < 63 &&
          node.dtype != DType::kUint64) {
        narrow(src(0)->lo >> src(1)->Int(), src(0)->hi >> src(1)->Int());
      }
      return;
    default:
      return;
  }
}

}  // namespace tensord
