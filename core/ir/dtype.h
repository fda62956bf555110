// Element types: their names, sizes, limits and promotion.
//
//   DType d = DType::kFloat32;  ItemSize(d) == 4;  Name(d) == "float32"
//
// All types are known to every layer; docs/numerics.md says what they mean.
//
// Promotion is the least upper bound in the lattice
//   bool -> weakint -> {int8, uint8}; int8 -> int16 -> int32 -> int64 -> weakfloat;
//   uint8 -> {int16, uint16}; uint16 -> {int32, uint32}; uint32 -> {int64, uint64};
//   uint64 -> weakfloat; weakfloat -> fp8* -> {float16, bfloat16} -> float32 -> float64
// as in JAX, not torch's category rule.
//
// The weak types are those of plain numbers: they take the type of what stands beside them, and
// exist in the graphs of the tensor language only. As constants they are 64 bits wide; when a
// program is built (tensor/weak.h) they become the default types. They have no storage.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tensord {

// The numeric values travel on the wire and stand in cache keys: never renumber.
enum class DType : uint8_t {
  kVoid = 0,  // no value: SINK, STORE
  kBool = 1,  // one byte in memory, 0 or 1
  kInt8 = 2,
  kUint8 = 3,
  kInt16 = 4,
  kUint16 = 5,
  kInt32 = 6,
  kUint32 = 7,
  kInt64 = 8,
  kUint64 = 9,
  kFloat8E4M3 = 10,
  kFloat8E5M2 = 11,
  kFloat8E4M3Fnuz = 12,
  kFloat8E5M2Fnuz = 13,
  kFloat16 = 14,
  kBFloat16 = 15,
  kFloat32 = 16,
  kFloat64 = 17,
  kIndex = 18,  // index arithmetic inside kernels: 64 bits, proven not to overflow; never in memory
  kWeakInt = 19,    // of a plain integer; not on the wire, as the next one
  kWeakFloat = 20,  // of a plain float
};
inline constexpr int kNumDTypes = 21;

std::string_view Name(DType dtype);  // "float32", as in NumPy and PyTorch
std::optional<DType> DTypeFromName(
    std::string_view name);  // also accepts "half", "float", "long", ...
int ItemSize(DType dtype);   // bytes in memory; 0 for void, index and weak types
int BitSize(DType dtype);    // value bits: bool 1; index and weak types 64

bool IsFloat(DType dtype);
bool IsInt(DType dtype);  // signed or unsigned integer, not bool, not index
bool IsUnsigned(DType dtype);
bool IsSigned(DType dtype);  // signed integers and index
bool IsFloat8(DType dtype);
bool IsWeak(DType dtype);

// How a float is laid out in bits: sign, exponent, mantissa, from the top.
struct FloatFormat {
  int exponent_bits, mantissa_bits, bias;
  bool has_inf;        // else the codes go on to be finite numbers, and infinity becomes NaN
  bool negative_zero;  // else the code of -0 is the only NaN
  bool saturates;      // a finite number out of range becomes the largest one, not infinity

  uint64_t sign_bit() const { return uint64_t{1} << (exponent_bits + mantissa_bits); }
  uint64_t inf_code() const { return ((uint64_t{1} << exponent_bits) - 1) << mantissa_bits; }
  uint64_t nan_code() const;
  uint64_t max_code() const;  // of the largest finite number
};
const FloatFormat& Format(DType dtype);  // floats only

// What a plain float and a plain integer become where nothing else says: float32 and int32, unless
// the environment (TENSORD_DEFAULT_FLOAT, TENSORD_DEFAULT_INT) or the program says otherwise.
// Thread-safe.
DType DefaultFloat();
DType DefaultInt();
void SetDefaultFloat(DType dtype);  // a float, not weak
void SetDefaultInt(DType dtype);    // an integer, not weak

// The default type for a weak one, others unchanged.
DType Strong(DType dtype);

// Least upper bound in the promotion lattice; of two, as for two float8 types, the one with the
// lower priority. Void where there is none.
DType Promote(DType a, DType b);
// Position in the lattice's order: bool, weakint, int8, uint8, ... uint64, weakfloat, float8,
// float16, bfloat16, float32, float64.
int Priority(DType dtype);
// Floats unchanged, weakint becomes weakfloat, other ints and bool the default float.
DType LeastUpperFloat(DType dtype);
// Type in which a sum of `dtype` is accumulated: bool/int8/16 -> int32, uint8/16 -> uint32,
// floats below float32 -> float32, weak types as their default, others unchanged.
DType SumAccumulator(DType dtype);
// True if every value of `from` is exactly a value of `to`.
bool IsLosslessCast(DType from, DType to);

// Inclusive limits of an integer type or bool, as two's complement bits of an int64 (uint64's
// maximum is -1). Undefined for floats.
int64_t IntMin(DType dtype);
int64_t IntMax(DType dtype);

}  // namespace tensord
