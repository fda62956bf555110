#include "core/tensor/fft.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "core/tensor/build.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/movement.h"
#include "core/tensor/product.h"
#include "core/tensor/reduce.h"
#include "core/tensor/windows.h"

namespace tensord {
namespace {

constexpr int64_t kLargestFactor = 32;

// Inside, real and imaginary part are the axis before the last: [.., 2, n].

// cos and sin of 2 pi turns / n, for integers `turns`.
std::pair<Expr, Expr> UnitRoots(const Expr& turns, int64_t n, DType dtype) {
  const Expr angle =
      Cast(Mod(turns, n), DType::kFloat64) * (2 * std::numbers::pi / static_cast<double>(n));
  return {Cast(Cos(angle), dtype), Cast(Sin(angle), dtype)};
}

// x times cos + i sin, which lack the axis of two.
Expr Turned(const Expr& x, const Expr& cosine, const Expr& sine) {
  const Expr re = Select(x, -2, 0), im = Select(x, -2, 1);
  const Expr parts[] = {re * cosine - im * sine, re * sine + im * cosine};
  return Stack(parts, -2);
}

// The matrix of a transform of size n, [2, n, 2, n]: result, then source.
Expr Matrix(Graph& graph, int64_t n, int sign, DType dtype) {
  const Expr k = Arange(graph, 0, n, 1, DType::kInt64);
  const auto [cosine, sine] = UnitRoots(Unsqueeze(k, 1) * k * sign, n, dtype);
  const Expr rows[] = {cosine, -sine}, below[] = {sine, cosine};
  const Expr halves[] = {Stack(rows, 1), Stack(below, 1)};  // [n, 2, n] each
  return Contiguous(Stack(halves, 0));
}

// The largest factor of n that is at most kLargestFactor.
int64_t FactorOf(int64_t n) {
  for (int64_t factor = kLargestFactor; factor > 1; --factor) {
    if (n % factor == 0) return factor;
  }
  return 1;
}

Expr Bluestein(const Expr& x, int sign);

// Along the last axis of [.., 2, n].
Expr Transform(const Expr& x, int sign) {
  if (!x.ok()) return x;
  const int64_t n = x.shape()[x.rank() - 1];
  if (n == 1) return x;
  if (n <= kLargestFactor) {
    return Einsum("...cn,dkcn->...dk", {x, Matrix(x.graph(), n, sign, x.dtype())});
  }
  const int64_t r = FactorOf(n), m = n / r;
  if (r == 1) return Bluestein(x, sign);
  // Element m p + q; result i + r j: transforms over p, twiddles, transforms over q.
  const Expr parts = Einsum("...cpq,dicp->...idq",
                            {Unflatten(x, -1, {r, m}), Matrix(x.graph(), r, sign, x.dtype())});
  const Expr i = Unsqueeze(Arange(x.graph(), 0, r, 1, DType::kInt64), 1);
  const Expr q = Arange(x.graph(), 0, m, 1, DType::kInt64);
  const auto [cosine, sine] = UnitRoots(i * q * sign, n, x.dtype());  // [r, m]
  const Expr inner = Turned(parts, Contiguous(cosine), Contiguous(sine));
  const Expr done = Transform(Contiguous(inner), sign);  // [.., i, 2, j]
  return Flatten(MoveAxis(done, -3, -1), -2, -1);        // [.., 2, j i]
}

// A transform of any size as a convolution: k q = (k^2 + q^2 - (k - q)^2) / 2.
Expr Bluestein(const Expr& x, int sign) {
  const int64_t n = x.shape()[x.rank() - 1];
  int64_t size = 1;
  while (size < 2 * n - 1) size *= 2;
  const Expr k = Arange(x.graph(), 0, n, 1, DType::kInt64);
  const auto roots = UnitRoots(k * k * sign, 2 * n, x.dtype());
  const Expr cosine = Contiguous(roots.first), sine = Contiguous(roots.second);
  const auto longer = [](const Expr& e, int64_t before, int64_t after) {
    std::vector<PadAmount> amounts(e.rank());
    amounts.back() = {before, after};
    return Pad(e, amounts);
  };
  const Expr source = longer(Turned(x, cosine, sine), 0, size - n);
  const Expr chirp_parts[] = {cosine, -sine};
  const Expr chirp = Stack(chirp_parts, 0);
  const int64_t last[] = {-1};
  const Expr back = Flip(Shrink(chirp, -1, 1, n), last);
  const Expr kernel = longer(chirp, 0, size - n) + longer(back, size - n + 1, 0);
  const Expr a = Contiguous(Transform(source, -1)), b = Contiguous(Transform(kernel, -1));
  const Expr product = Turned(a, Select(b, -2, 0), Select(b, -2, 1));
  const Expr convolved = Transform(Contiguous(product), 1) * (1 / static_cast<double>(size));
  return Turned(Shrink(convolved, -1, 0, n), cosine, sine);
}

double Factor(int64_t n, FftNorm norm, bool inverse) {
  const double size = static_cast<double>(n);
  switch (norm) {
    case FftNorm::kOrtho:
      return 1 / std::sqrt(size);
    case FftNorm::kBackward:
      return inverse ? 1 / size : 1;
    case FftNorm::kForward:
      return inverse ? 1 : 1 / size;
  }
  return 1;
}

Expr Scaled(const Expr& x, double factor) { return factor == 1 ? x : x * factor; }

Expr Resize(const Expr& x, int64_t size) {
  std::vector<PadAmount> amounts(x.rank());
  amounts.back() = {0, size - x.shape()[x.rank() - 1]};
  return Pad(x, amounts);
}

// The axis to transform among those before the pair, or the error.
std::optional<Expr> CheckAxis(std::string_view name, const Expr& x, bool complex, int64_t axis,
                              int64_t& at) {
  if (!x.ok()) return x;
  if (complex && (x.rank() < 2 || x.shape()[x.rank() - 1] != 2 || !IsFloat(x.dtype()))) {
    return Fail(x,
                "{}: {} {} holds no complex numbers: floats whose last axis is (real, imaginary)",
                name, Name(x.dtype()), ShapeText(x.shape()));
  }
  const int64_t rank = x.rank() - (complex ? 1 : 0);
  const std::optional<int64_t> resolved = ResolveAxis(axis, rank);
  if (!resolved) return AxisError(name, x, axis);
  at = *resolved;
  return std::nullopt;
}

std::optional<Expr> CheckSize(std::string_view name, const Expr& x, int64_t size) {
  if (size >= 1) return std::nullopt;
  return Fail(x, "{}: a transform of {} elements; it needs at least 1", name, size);
}

Expr ToCompute(const Expr& x) { return Cast(x, ComputeDType(x.dtype())); }

// [.., axis, .., 2] to [.., 2, n] and back.
Expr PairInside(const Expr& x, int64_t at) { return Transpose(MoveAxis(x, at, -2), -1, -2); }
Expr PairOutside(const Expr& x, int64_t at) { return MoveAxis(Transpose(x, -1, -2), -2, at); }

Expr ComplexTransform(std::string_view name, const Expr& x, const FftOptions& options,
                      bool inverse) {
  int64_t at = 0;
  if (auto error = CheckAxis(name, x, true, options.axis, at)) return *error;
  const int64_t n = options.size.value_or(x.shape()[at]);
  if (auto error = CheckSize(name, x, n)) return *error;
  const Expr y = Transform(Resize(PairInside(ToCompute(x), at), n), inverse ? 1 : -1);
  return Cast(PairOutside(Scaled(y, Factor(n, options.norm, inverse)), at), x.dtype());
}

// Real to the first half of the spectrum, with either sign of the exponent.
Expr RealTransform(std::string_view name, const Expr& x, const FftOptions& options, bool inverse) {
  int64_t at = 0;
  if (auto error = CheckAxis(name, x, false, options.axis, at)) return *error;
  const int64_t n = options.size.value_or(x.shape()[at]);
  if (auto error = CheckSize(name, x, n)) return *error;
  const Expr re = Resize(MoveAxis(ToCompute(x), at, -1), n);
  const Expr parts[] = {re, FullLike(re, 0)};
  const Expr y = Shrink(Transform(Stack(parts, -2), inverse ? 1 : -1), -1, 0, n / 2 + 1);
  return Cast(PairOutside(Scaled(y, Factor(n, options.norm, inverse)), at),
              LeastUpperFloat(x.dtype()));
}

Expr HalfTransform(std::string_view name, const Expr& x, const FftOptions& options, bool inverse) {
  int64_t at = 0;
  if (auto error = CheckAxis(name, x, true, options.axis, at)) return *error;
  const int64_t n = options.size.value_or(2 * (x.shape()[at] - 1));
  if (auto error = CheckSize(name, x, n)) return *error;
  const int64_t half = n / 2 + 1, rest = n - half;
  const Expr first = Resize(PairInside(ToCompute(x), at), half);
  Expr whole = first;
  if (rest > 0) {
    // The other half is the conjugate of elements rest, rest - 1, .. 1.
    const int64_t last[] = {-1};
    const Expr mirrored = Flip(Shrink(first, -1, 1, rest + 1), last);
    const Expr parts[] = {Select(mirrored, -2, 0), -Select(mirrored, -2, 1)};
    const Expr halves[] = {first, Stack(parts, -2)};
    whole = Cat(halves, -1);
  }
  const Expr y = Select(Transform(whole, inverse ? 1 : -1), -2, 0);
  return Cast(MoveAxis(Scaled(y, Factor(n, options.norm, inverse)), -1, at), x.dtype());
}

std::optional<Expr> CheckShort(std::string_view name, const Expr& x, const ShortFft& options) {
  if (!x.ok()) return x;
  if (options.size < 1 || options.hop < 1) {
    return Fail(x, "{}: frames of {} elements, {} apart; both must be at least 1", name,
                options.size, options.hop);
  }
  if (!options.window) return std::nullopt;
  if (!options.window->ok()) return *options.window;
  if (options.window->shape() != Shape{options.size}) {
    return Fail(x, "{}: window {} for frames of {}", name, ShapeText(options.window->shape()),
                options.size);
  }
  return std::nullopt;
}

}  // namespace

Expr Fft(const Expr& x, const FftOptions& options) {
  return ComplexTransform("fft", x, options, false);
}
Expr Ifft(const Expr& x, const FftOptions& options) {
  return ComplexTransform("ifft", x, options, true);
}
Expr Rfft(const Expr& x, const FftOptions& options) {
  return RealTransform("rfft", x, options, false);
}
Expr Irfft(const Expr& x, const FftOptions& options) {
  return HalfTransform("irfft", x, options, true);
}
Expr Hfft(const Expr& x, const FftOptions& options) {
  return HalfTransform("hfft", x, options, false);
}
Expr Ihfft(const Expr& x, const FftOptions& options) {
  return RealTransform("ihfft", x, options, true);
}

Expr Stft(const Expr& x, const ShortFft& options) {
  if (auto error = CheckShort("stft", x, options)) return *error;
  if (x.rank() == 0 || x.shape()[x.rank() - 1] < options.size) {
    return Fail(x, "stft: frames of {} elements do not fit signal {}", options.size,
                ShapeText(x.shape()));
  }
  Expr frames = Windows(x, -1, {options.size, options.hop});
  if (options.window) frames = frames * *options.window;
  Expr y = frames;
  const FftNorm norm = options.normalized ? FftNorm::kOrtho : FftNorm::kBackward;
  if (options.onesided) {
    y = Rfft(frames, {.norm = norm});
  } else {
    const Expr parts[] = {frames, FullLike(frames, 0)};
    y = Fft(Stack(parts, -1), {.norm = norm});
  }
  return Transpose(y, -2, -3);
}

Expr Istft(const Expr& x, const ShortFft& options, int64_t begin, std::optional<int64_t> end) {
  if (auto error = CheckShort("istft", x, options)) return *error;
  const int64_t wanted = options.onesided ? options.size / 2 + 1 : options.size;
  if (x.rank() < 3 || x.shape()[x.rank() - 1] != 2 || x.shape()[x.rank() - 3] != wanted ||
      x.shape()[x.rank() - 2] < 1) {
    return Fail(x, "istft: spectra {}; it needs [.., {} frequencies, frames, 2]",
                ShapeText(x.shape()), wanted);
  }
  const FftNorm norm = options.normalized ? FftNorm::kOrtho : FftNorm::kBackward;
  const Expr turned = Transpose(x, -2, -3);
  Expr frames = options.onesided ? Irfft(turned, {.size = options.size, .norm = norm})
                                 : Select(Ifft(turned, {.norm = norm}), -1, 0);
  if (!frames.ok()) return frames;
  const Expr window =
      options.window ? *options.window : Ones(x.graph(), {options.size}, frames.dtype());
  const int64_t count = frames.shape()[frames.rank() - 2];
  const int64_t size = (count - 1) * options.hop + options.size;
  const Window shape = {options.size, options.hop};
  const auto added = [&](const Expr& e) {
    return Sum(Unwindows(e, e.rank() - 2, shape, size), -1);
  };
  const Expr weight = added(BroadcastTo(window * window, {count, options.size}));
  const Expr signal = added(frames * window) / weight;
  const int64_t stop = std::min(end.value_or(size), size);
  if (begin < 0 || begin > stop) {
    return Fail(x, "istft: elements {} to {} of a signal of {}", begin, stop, size);
  }
  const Expr cut = Shrink(signal, -1, begin, stop);
  // What lies behind the last frame is silence.
  return end && *end > size ? Resize(cut, *end - begin) : cut;
}

Expr FftFreq(Graph& graph, int64_t n, double spacing, DType dtype) {
  const Expr k = Arange(graph, 0, n, 1, DType::kInt64);
  const Expr signed_k = Where(Lt(k, (n + 1) / 2), k, k - n);
  return Cast(Cast(signed_k, DType::kFloat64) / (static_cast<double>(n) * spacing), dtype);
}

Expr RfftFreq(Graph& graph, int64_t n, double spacing, DType dtype) {
  const Expr k = Arange(graph, 0, n / 2 + 1, 1, DType::kFloat64);
  return Cast(k / (static_cast<double>(n) * spacing), dtype);
}

}  // namespace tensord
