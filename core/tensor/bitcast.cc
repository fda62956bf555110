#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/movement.h"
#include "core/tensor/reduce.h"

namespace tensord {
namespace {

DType UnsignedOfSize(int bytes) {
  return bytes == 1   ? DType::kUint8
         : bytes == 2 ? DType::kUint16
         : bytes == 4 ? DType::kUint32
                      : DType::kUint64;
}

Expr BitcastSameSize(const Expr& x, DType dtype) {
  if (!x.ok() || x.dtype() == dtype) return x;
  const Node* const src[] = {x.node()};
  return Expr(&x.graph(), x.graph().TryMake({.op = Op::kBitcast, .src = src, .dtype = dtype}));
}

// How far up each of `parts` pieces of `bits` bits stands in a whole.
Expr Places(Graph& graph, int64_t parts, int bits, DType dtype) {
  return Arange(graph, 0, parts * bits, bits, dtype);
}

}  // namespace

Expr Bitcast(const Expr& x, DType dtype) {
  if (!x.ok() || x.dtype() == dtype) return x;
  if (IsWeak(x.dtype()) || IsWeak(dtype)) {
    return Fail(x, "bitcast: {} has no storage, hence no bits; cast it first",
                Name(IsWeak(dtype) ? dtype : x.dtype()));
  }
  const int from = ItemSize(x.dtype()), to = ItemSize(dtype);
  if (from == 0 || to == 0) {
    return Fail(x, "bitcast: {} to {}: one has no bits", Name(x.dtype()), Name(dtype));
  }
  if (from == to) return BitcastSameSize(x, dtype);
  if (x.rank() == 0) {
    return Fail(x, "bitcast: {} has {} bytes, {} has {}, and there is no last axis to change",
                Name(x.dtype()), from, Name(dtype), to);
  }
  const Expr bits = BitcastSameSize(x, UnsignedOfSize(from));
  Dims dims(x.shape().begin(), x.shape().end());
  if (from > to) {
    const int64_t parts = from / to;
    const Expr places = Places(x.graph(), parts, 8 * to, bits.dtype());
    const Expr pieces = Cast(ShiftRight(Unsqueeze(bits, -1), places), UnsignedOfSize(to));
    dims.back() *= parts;
    return BitcastSameSize(Reshape(pieces, dims), dtype);
  }
  const int64_t parts = to / from;
  if (dims.back() % parts != 0) {
    return Fail(x,
                "bitcast: the last axis of {} has {} elements of {} bytes, no multiple of the {} "
                "bytes of {}",
                ShapeText(x.shape()), dims.back(), from, to, Name(dtype));
  }
  dims.back() /= parts;
  dims.push_back(parts);
  const DType whole = UnsignedOfSize(to);
  const Expr places = Places(x.graph(), parts, 8 * from, whole);
  // The pieces have no bit in common, so that their sum is their union.
  const Expr sum = Sum(ShiftLeft(Cast(Reshape(bits, dims), whole), places), {-1});
  return BitcastSameSize(Cast(sum, whole), dtype);
}

}  // namespace tensord
