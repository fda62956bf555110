#include "core/tensor/random.h"

#include <numbers>

#include "core/tensor/build.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/movement.h"

namespace tensord {
namespace {

std::optional<Expr> CheckState(std::string_view name, const RandomState& state, Shape shape) {
  for (const Expr* x : {&state.key, &state.counter}) {
    if (!x->ok()) return *x;
    if (x->dtype() != DType::kUint32 || x->shape() != Shape{2}) {
      return Fail(*x, "{}: key and counter are uint32 [2], not {} {}", name, Name(x->dtype()),
                  ShapeText(x->shape()));
    }
  }
  for (int64_t dim : shape) {
    if (dim < 0) return Fail(state.key, "{}: size {} is negative", name, dim);
  }
  if (NumElements(shape) >= int64_t{1} << 31) {
    return Fail(state.key, "{}: {} numbers at once; draw fewer than 2^31", name,
                NumElements(shape));
  }
  return std::nullopt;
}

Drawn Failed(const Expr& error) { return {error, error}; }

// counter + offset as 64-bit numbers of two words; the offset is one word.
std::pair<Expr, Expr> AddWide(const Expr& counter, const Expr& offset) {
  const Expr low = Select(counter, 0, 0) + offset;
  return {low, Select(counter, 0, 1) + Cast(Lt(low, offset), DType::kUint32)};
}

Expr Advanced(const Expr& counter, int64_t blocks) {
  const auto [low, high] = AddWide(counter, Constant(counter.graph(), blocks, DType::kUint32));
  return Stack({low, high}, 0);
}

// Two random words for each element of `shape`, of the blocks from counter + first on.
std::pair<Expr, Expr> Words(const RandomState& state, Shape shape, int64_t first) {
  Graph& graph = state.key.graph();
  const int64_t n = NumElements(shape);
  const Expr number = Reshape(Arange(graph, first, first + n, 1, DType::kUint32), shape);
  const auto [low, high] = AddWide(state.counter, number);
  return Threefry2x32(Select(state.key, 0, 0), Select(state.key, 0, 1), low, high);
}

// The layout of floats that are filled with random mantissa bits.
struct FloatLayout {
  DType dtype;
  DType bits;
  int mantissa;
  int64_t one;  // bits of 1.0
};
constexpr FloatLayout kLayouts[] = {
    {DType::kFloat16, DType::kUint16, 10, 0x3C00},
    {DType::kBFloat16, DType::kUint16, 7, 0x3F80},
    {DType::kFloat32, DType::kUint32, 23, 0x3F800000},
    {DType::kFloat64, DType::kUint64, 52, 0x3FF0000000000000},
};

const FloatLayout* LayoutOf(DType dtype) {
  for (const FloatLayout& layout : kLayouts) {
    if (layout.dtype == dtype) return &layout;
  }
  return nullptr;
}

// In [1, 2) with random mantissa, minus 1.
Expr UniformFrom(const std::pair<Expr, Expr>& words, const FloatLayout& layout) {
  Expr mantissa = words.first;
  if (layout.mantissa > 32) {
    const Expr wide = ShiftLeft(Cast(words.second, DType::kUint64), 32);
    mantissa = BitwiseOr(wide, Cast(words.first, DType::kUint64));
    mantissa = ShiftRight(mantissa, 64 - layout.mantissa);
  } else {
    mantissa = Cast(ShiftRight(mantissa, 32 - layout.mantissa), layout.bits);
  }
  return Bitcast(BitwiseOr(mantissa, layout.one), layout.dtype) - 1;
}

Drawn NoLayout(std::string_view name, const RandomState& state, DType dtype) {
  return Failed(
      Fail(state.key, "{}: {} is not float16, bfloat16, float32 or float64", name, Name(dtype)));
}

}  // namespace

std::pair<Expr, Expr> Threefry2x32(const Expr& k0, const Expr& k1, const Expr& c0, const Expr& c1) {
  // Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011.
  static constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  constexpr uint32_t kParity = 0x1BD11BDA;
  const Expr keys[] = {k0, k1, BitwiseXor(BitwiseXor(k0, k1), kParity)};
  Expr x0 = c0 + k0, x1 = c1 + k1;
  for (int group = 0; group < 5; ++group) {
    for (int rotation : kRotations[group % 2]) {
      x0 = x0 + x1;
      x1 = BitwiseXor(BitwiseOr(ShiftLeft(x1, rotation), ShiftRight(x1, 32 - rotation)), x0);
    }
    x0 = x0 + keys[(group + 1) % 3];
    x1 = x1 + (keys[(group + 2) % 3] + (group + 1));
  }
  return {x0, x1};
}

Drawn RandomBits(const RandomState& state, Shape shape) {
  if (auto error = CheckState("random_bits", state, shape)) return Failed(*error);
  return {Words(state, shape, 0).first, Advanced(state.counter, NumElements(shape))};
}

Drawn Uniform(const RandomState& state, Shape shape, DType dtype) {
  if (auto error = CheckState("uniform", state, shape)) return Failed(*error);
  const FloatLayout* layout = LayoutOf(dtype);
  if (layout == nullptr) return NoLayout("uniform", state, dtype);
  return {UniformFrom(Words(state, shape, 0), *layout),
          Advanced(state.counter, NumElements(shape))};
}

Drawn Normal(const RandomState& state, Shape shape, DType dtype) {
  if (auto error = CheckState("normal", state, shape)) return Failed(*error);
  if (LayoutOf(dtype) == nullptr) return NoLayout("normal", state, dtype);
  const int64_t n = NumElements(shape);
  const auto words = Words(state, shape, 0);
  // float64 takes both words of a block for one uniform number, the others one each.
  const bool wide = dtype == DType::kFloat64;
  const FloatLayout& layout = *LayoutOf(wide ? dtype : DType::kFloat32);
  const Expr u0 = UniformFrom(words, layout);
  const Expr u1 =
      UniformFrom(wide ? Words(state, shape, n) : std::pair(words.second, words.first), layout);
  const Expr radius = Sqrt(Log(1 - u1) * -2);
  const Expr value = Cos(u0 * (2 * std::numbers::pi)) * radius;
  return {Cast(value, dtype), Advanced(state.counter, wide ? 2 * n : n)};
}

Drawn RandInt(const RandomState& state, Shape shape, int64_t low, int64_t high, DType dtype) {
  if (auto error = CheckState("randint", state, shape)) return Failed(*error);
  if (!IsInt(dtype)) {
    return Failed(Fail(state.key, "randint: {} is not an integer dtype", Name(dtype)));
  }
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  if (low >= high || range > uint64_t{1} << 32) {
    return Failed(Fail(state.key, "randint: [{}, {}) must hold 1 to 2^32 values", low, high));
  }
  if (ItemSize(dtype) < 8 && (low < IntMin(dtype) || high - 1 > IntMax(dtype))) {
    return Failed(Fail(state.key, "randint: [{}, {}) does not fit {}", low, high, Name(dtype)));
  }
  const Expr word = Cast(Words(state, shape, 0).first, DType::kUint64);
  const Expr scaled = ShiftRight(word * static_cast<int64_t>(range), 32);
  return {Cast(scaled, dtype) + Constant(state.key.graph(), low, dtype),
          Advanced(state.counter, NumElements(shape))};
}

}  // namespace tensord
