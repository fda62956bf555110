#include "core/tensor/sort_key.h"

#include "core/tensor/build.h"
#include "core/tensor/elementwise.h"

namespace tensord {
namespace {

// The bits of a float as an integer of the same size that is ordered as the float is: negative
// numbers have their bits, but the sign, turned around.
Expr OrderedBits(const Expr& x, DType bits_dtype, int64_t nan) {
  const Expr bits = Bitcast(Where(Eq(x, 0), 0, x), bits_dtype);
  const Expr ordered = Where(Lt(bits, 0), BitwiseXor(bits, IntMax(bits_dtype)), bits);
  return Where(IsNan(x), nan, ordered);
}

}  // namespace

Expr NarrowSortKey(const Expr& x, int64_t nan) {
  if (IsFloat(x.dtype())) return OrderedBits(Cast(x, DType::kFloat32), DType::kInt32, nan);
  if (x.dtype() != DType::kUint32) return Cast(x, DType::kInt32);
  return BitwiseXor(Cast(x, DType::kInt32), IntMin(DType::kInt32));
}

SortKey SortKeyOf(const Expr& x, bool descending) {
  const auto direct = [&](const Expr& key) { return descending ? BitwiseNot(key) : key; };
  if (BitSize(x.dtype()) < 64) {
    const Expr key = direct(NarrowSortKey(x, IntMax(DType::kInt32)));
    return {ShiftLeft(Cast(key, DType::kInt64), 32), std::nullopt};
  }
  Expr key = x;
  if (IsFloat(x.dtype())) {
    key = OrderedBits(x, DType::kInt64, IntMax(DType::kInt64));
  } else if (x.dtype() == DType::kUint64) {
    key = BitwiseXor(Cast(x, DType::kInt64), IntMin(DType::kInt64));
  }
  key = direct(key);
  // The lower half is unsigned: with its top bit turned it is ordered as signed.
  const Expr low = BitwiseXor(ShiftLeft(key, 32), IntMin(DType::kInt64));
  return {BitwiseAnd(key, ~int64_t{0xffffffff}), low};
}

}  // namespace tensord
