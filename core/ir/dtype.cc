#include "core/ir/dtype.h"

#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <limits>

#include "core/base/check.h"

namespace tensord {
namespace {

enum class Kind : uint8_t { kVoid, kBool, kSigned, kUnsigned, kFloat, kIndex };

struct Row {
  std::string_view name;
  Kind kind;
  int bits;
  int bytes;
};

// Indexed by DType.
constexpr std::array<Row, kNumDTypes> kRows = {{
    {"void", Kind::kVoid, 0, 0},
    {"bool", Kind::kBool, 1, 1},
    {"int8", Kind::kSigned, 8, 1},
    {"uint8", Kind::kUnsigned, 8, 1},
    {"int16", Kind::kSigned, 16, 2},
    {"uint16", Kind::kUnsigned, 16, 2},
    {"int32", Kind::kSigned, 32, 4},
    {"uint32", Kind::kUnsigned, 32, 4},
    {"int64", Kind::kSigned, 64, 8},
    {"uint64", Kind::kUnsigned, 64, 8},
    {"float8_e4m3fn", Kind::kFloat, 8, 1},
    {"float8_e5m2", Kind::kFloat, 8, 1},
    {"float8_e4m3fnuz", Kind::kFloat, 8, 1},
    {"float8_e5m2fnuz", Kind::kFloat, 8, 1},
    {"float16", Kind::kFloat, 16, 2},
    {"bfloat16", Kind::kFloat, 16, 2},
    {"float32", Kind::kFloat, 32, 4},
    {"float64", Kind::kFloat, 64, 8},
    {"index", Kind::kIndex, 64, 0},
    {"weakint", Kind::kSigned, 64, 0},
    {"weakfloat", Kind::kFloat, 64, 0},
}};

struct Alias {
  std::string_view name;
  DType dtype;
};
constexpr Alias kAliases[] = {
    {"char", DType::kInt8},
    {"byte", DType::kUint8},
    {"uchar", DType::kUint8},
    {"short", DType::kInt16},
    {"ushort", DType::kUint16},
    {"int", DType::kInt32},
    {"uint", DType::kUint32},
    {"long", DType::kInt64},
    {"ulong", DType::kUint64},
    {"half", DType::kFloat16},
    {"float", DType::kFloat32},
    {"double", DType::kFloat64},
    {"float8_e4m3", DType::kFloat8E4M3},
    {"fp8e4m3", DType::kFloat8E4M3},
    {"fp8e5m2", DType::kFloat8E5M2},
    {"fp8e4m3fnuz", DType::kFloat8E4M3Fnuz},
    {"fp8e5m2fnuz", DType::kFloat8E5M2Fnuz},
};

// Indexed by DType - kFloat8E4M3. The 8-bit formats are those of the OCP specification (e4m3fn,
// e5m2) and of Graphcore and AMD (fnuz: bias one larger, no infinity, no negative zero).
constexpr FloatFormat kFormats[] = {
    {.exponent_bits = 4,
     .mantissa_bits = 3,
     .bias = 7,
     .has_inf = false,
     .negative_zero = true,
     .saturates = true},
    {.exponent_bits = 5,
     .mantissa_bits = 2,
     .bias = 15,
     .has_inf = true,
     .negative_zero = true,
     .saturates = true},
    {.exponent_bits = 4,
     .mantissa_bits = 3,
     .bias = 8,
     .has_inf = false,
     .negative_zero = false,
     .saturates = true},
    {.exponent_bits = 5,
     .mantissa_bits = 2,
     .bias = 16,
     .has_inf = false,
     .negative_zero = false,
     .saturates = true},
    {.exponent_bits = 5,
     .mantissa_bits = 10,
     .bias = 15,
     .has_inf = true,
     .negative_zero = true,
     .saturates = false},
    {.exponent_bits = 8,
     .mantissa_bits = 7,
     .bias = 127,
     .has_inf = true,
     .negative_zero = true,
     .saturates = false},
    {.exponent_bits = 8,
     .mantissa_bits = 23,
     .bias = 127,
     .has_inf = true,
     .negative_zero = true,
     .saturates = false},
    {.exponent_bits = 11,
     .mantissa_bits = 52,
     .bias = 1023,
     .has_inf = true,
     .negative_zero = true,
     .saturates = false},
};

// The lattice's order, lowest first.
constexpr DType kByPriority[] = {DType::kVoid,           DType::kBool,           DType::kWeakInt,
                                 DType::kInt8,           DType::kUint8,          DType::kInt16,
                                 DType::kUint16,         DType::kInt32,          DType::kUint32,
                                 DType::kInt64,          DType::kUint64,         DType::kWeakFloat,
                                 DType::kFloat8E4M3,     DType::kFloat8E4M3Fnuz, DType::kFloat8E5M2,
                                 DType::kFloat8E5M2Fnuz, DType::kFloat16,        DType::kBFloat16,
                                 DType::kFloat32,        DType::kFloat64,        DType::kIndex};
static_assert(std::size(kByPriority) == kNumDTypes);

constexpr std::array<int, kNumDTypes> PriorityTable() {
  std::array<int, kNumDTypes> table = {};
  for (int i = 0; i < kNumDTypes; ++i) table[static_cast<int>(kByPriority[i])] = i;
  return table;
}
constexpr std::array<int, kNumDTypes> kPriority = PriorityTable();

// Sets of dtypes by priority.
constexpr uint32_t Bit(DType dtype) { return uint32_t{1} << kPriority[static_cast<int>(dtype)]; }

using DTypeSets = std::array<uint32_t, kNumDTypes>;

// For each dtype, by priority, the set of those at or above it in the lattice of dtype.h.
constexpr DTypeSets AtOrAbove() {
  using enum DType;
  constexpr uint32_t kFloat8s =
      Bit(kFloat8E4M3) | Bit(kFloat8E5M2) | Bit(kFloat8E4M3Fnuz) | Bit(kFloat8E5M2Fnuz);
  constexpr uint32_t kHalves = Bit(kFloat16) | Bit(kBFloat16);
  DTypeSets up = {};
  auto edge = [&](DType from, uint32_t to) {
    up[kPriority[static_cast<int>(from)]] |= Bit(from) | to;
  };
  edge(kVoid, 0);
  edge(kIndex, 0);
  edge(kBool, Bit(kWeakInt));
  edge(kWeakInt, Bit(kInt8) | Bit(kUint8));
  edge(kInt8, Bit(kInt16));
  edge(kInt16, Bit(kInt32));
  edge(kInt32, Bit(kInt64));
  edge(kInt64, Bit(kWeakFloat));
  edge(kUint8, Bit(kInt16) | Bit(kUint16));
  edge(kUint16, Bit(kInt32) | Bit(kUint32));
  edge(kUint32, Bit(kInt64) | Bit(kUint64));
  edge(kUint64, Bit(kWeakFloat));
  edge(kWeakFloat, kFloat8s);
  for (DType d : {kFloat8E4M3, kFloat8E5M2, kFloat8E4M3Fnuz, kFloat8E5M2Fnuz}) edge(d, kHalves);
  edge(kFloat16, Bit(kFloat32));
  edge(kBFloat16, Bit(kFloat32));
  edge(kFloat32, Bit(kFloat64));
  edge(kFloat64, 0);
  // Every edge leads to a higher priority, so one sweep from the top closes the relation.
  for (int from = kNumDTypes - 1; from >= 0; --from) {
    for (int to = from + 1; to < kNumDTypes; ++to) {
      if (up[from] >> to & 1) up[from] |= up[to];
    }
  }
  return up;
}
constexpr DTypeSets kAtOrAbove = AtOrAbove();

// The environment's word on a default, if it is one.
DType DefaultFrom(const char* variable, bool (*fits)(DType), DType standard) {
  const char* name = std::getenv(variable);
  if (name == nullptr) return standard;
  const std::optional<DType> dtype = DTypeFromName(name);
  return dtype && fits(*dtype) && !IsWeak(*dtype) ? *dtype : standard;
}
std::atomic<DType>& FloatDefault() {
  static std::atomic<DType> dtype = DefaultFrom("TENSORD_DEFAULT_FLOAT", IsFloat, DType::kFloat32);
  return dtype;
}
std::atomic<DType>& IntDefault() {
  static std::atomic<DType> dtype = DefaultFrom("TENSORD_DEFAULT_INT", IsInt, DType::kInt32);
  return dtype;
}

const Row& RowOf(DType dtype) { return kRows[static_cast<int>(dtype)]; }

// Exponents of the smallest subnormal's bit and of the largest finite number.
int LowestBit(const FloatFormat& f) { return 1 - f.bias - f.mantissa_bits; }
int LargestExponent(const FloatFormat& f) {
  return static_cast<int>(f.max_code() >> f.mantissa_bits) - f.bias;
}

}  // namespace

std::string_view Name(DType dtype) { return RowOf(dtype).name; }

std::optional<DType> DTypeFromName(std::string_view name) {
  for (int i = 0; i < kNumDTypes; ++i) {
    if (kRows[i].name == name) return static_cast<DType>(i);
  }
  for (const Alias& alias : kAliases) {
    if (alias.name == name) return alias.dtype;
  }
  return std::nullopt;
}

int ItemSize(DType dtype) { return RowOf(dtype).bytes; }
int BitSize(DType dtype) { return RowOf(dtype).bits; }

bool IsFloat(DType dtype) { return RowOf(dtype).kind == Kind::kFloat; }
bool IsInt(DType dtype) {
  return RowOf(dtype).kind == Kind::kSigned || RowOf(dtype).kind == Kind::kUnsigned;
}
bool IsUnsigned(DType dtype) { return RowOf(dtype).kind == Kind::kUnsigned; }
bool IsSigned(DType dtype) {
  return RowOf(dtype).kind == Kind::kSigned || RowOf(dtype).kind == Kind::kIndex;
}
bool IsWeak(DType dtype) { return dtype == DType::kWeakInt || dtype == DType::kWeakFloat; }
bool IsFloat8(DType dtype) { return IsFloat(dtype) && RowOf(dtype).bits == 8; }

uint64_t FloatFormat::nan_code() const {
  if (!negative_zero) return sign_bit();
  if (!has_inf) return sign_bit() - 1;
  return inf_code() | uint64_t{1} << (mantissa_bits - 1);  // the quiet one
}

uint64_t FloatFormat::max_code() const {
  if (has_inf) return inf_code() - 1;
  return negative_zero ? nan_code() - 1 : sign_bit() - 1;
}

const FloatFormat& Format(DType dtype) {
  TD_CHECK(IsFloat(dtype), Name(dtype));
  if (dtype == DType::kWeakFloat) dtype = DType::kFloat64;
  return kFormats[static_cast<int>(dtype) - static_cast<int>(DType::kFloat8E4M3)];
}

DType DefaultFloat() { return FloatDefault().load(std::memory_order_relaxed); }
DType DefaultInt() { return IntDefault().load(std::memory_order_relaxed); }
void SetDefaultFloat(DType dtype) {
  TD_CHECK(IsFloat(dtype) && !IsWeak(dtype), Name(dtype));
  FloatDefault().store(dtype, std::memory_order_relaxed);
}
void SetDefaultInt(DType dtype) {
  TD_CHECK(IsInt(dtype) && !IsWeak(dtype), Name(dtype));
  IntDefault().store(dtype, std::memory_order_relaxed);
}

DType Strong(DType dtype) {
  if (dtype == DType::kWeakInt) return DefaultInt();
  return dtype == DType::kWeakFloat ? DefaultFloat() : dtype;
}

int Priority(DType dtype) { return kPriority[static_cast<int>(dtype)]; }

DType Promote(DType a, DType b) {
  // Index stands outside of the lattice: among integers it acts as what it is, 64 bits.
  if (a != b && a == DType::kIndex) a = DType::kInt64;
  if (a != b && b == DType::kIndex) b = DType::kInt64;
  const uint32_t common = kAtOrAbove[Priority(a)] & kAtOrAbove[Priority(b)];
  return common == 0 ? DType::kVoid : kByPriority[std::countr_zero(common)];
}

DType LeastUpperFloat(DType dtype) {
  if (IsFloat(dtype)) return dtype;
  return dtype == DType::kWeakInt ? DType::kWeakFloat : DefaultFloat();
}

DType SumAccumulator(DType dtype) {
  dtype = Strong(dtype);
  if (dtype == DType::kIndex || dtype == DType::kVoid) return dtype;
  if (IsFloat(dtype)) return Promote(dtype, DType::kFloat32);
  return Promote(dtype, IsUnsigned(dtype) ? DType::kUint32 : DType::kInt32);
}

bool IsLosslessCast(DType from, DType to) {
  if (from == to) return true;
  if (from == DType::kVoid || to == DType::kVoid || to == DType::kBool) return false;
  if (from == DType::kBool) return true;
  if (IsFloat(from)) {
    if (!IsFloat(to)) return false;
    const FloatFormat& f = Format(from);
    const FloatFormat& t = Format(to);
    return f.mantissa_bits <= t.mantissa_bits && LowestBit(f) >= LowestBit(t) &&
           LargestExponent(f) <= LargestExponent(t) && f.has_inf <= t.has_inf &&
           f.negative_zero <= t.negative_zero;
  }
  const int magnitude_bits = BitSize(from) - (IsSigned(from) ? 1 : 0);
  if (IsFloat(to)) {
    // All formats that hold the digits of some integer type hold its magnitude too, but for fp8.
    return magnitude_bits <= Format(to).mantissa_bits + 1 && !IsFloat8(to);
  }
  if (IsSigned(from) && !IsSigned(to)) return false;
  return magnitude_bits <= BitSize(to) - (IsSigned(to) ? 1 : 0);
}

int64_t IntMin(DType dtype) {
  if (!IsSigned(dtype)) return 0;
  return std::numeric_limits<int64_t>::min() >> (64 - BitSize(dtype));
}

int64_t IntMax(DType dtype) {
  if (IsSigned(dtype)) return ~IntMin(dtype);
  return static_cast<int64_t>(~uint64_t{0} >> (64 - BitSize(dtype)));
}

}  // namespace tensord
