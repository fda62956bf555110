// Distributions made of uniform numbers.
#include <cmath>
#include <numbers>

#include "core/tensor/build.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/movement.h"
#include "core/tensor/random.h"
#include "core/tensor/reduce.h"

namespace tensord {
namespace {

// log(k!) for whole k >= 0: Stirling's series, from k + 8 down where k is small.
Expr LogFactorial(const Expr& k) {
  const Expr small = Lt(k, 8);
  const Expr x = Where(small, k + 8, k) + 1;
  const Expr r = 1 / x, r2 = r * r;
  const Expr series = ((r2 * (1.0 / 1260) - 1.0 / 360) * r2 + 1.0 / 12) * r;
  const Expr stirling = (x - 0.5) * Log(x) - x + 0.5 * std::log(2 * std::numbers::pi) + series;
  Expr product = k + 1;
  for (int i = 2; i <= 8; ++i) product = product * (k + i);
  return stirling - Where(small, Log(Where(small, product, 1)), 0);
}

// Counts how many sums of probabilities lie below u: exact up to the digits of u.
Expr PoissonByInversion(const Expr& rate, const Expr& u) {
  constexpr int kTerms = 48;  // beyond them lies less than 2^-53 at a rate of 10
  Expr term = Exp(-rate), sum = term;
  Expr count = Cast(Ge(u, sum), rate.dtype());
  for (int k = 1; k < kTerms; ++k) {
    term = term * rate * (1.0 / k);
    sum = sum + term;
    count = count + Cast(Ge(u, sum), rate.dtype());
  }
  return count;
}

}  // namespace

Expr BernoulliFrom(const Expr& p, const Expr& uniform) {
  if (!p.ok()) return p;
  return Detach(Cast(Lt(uniform, p), p.dtype()));
}

Expr ExponentialFrom(const Expr& uniform, const Expr& rate) { return -Log(1 - uniform) / rate; }

Expr GeometricFrom(const Expr& uniform, const Expr& p) {
  return Maximum(Ceil(Log(1 - uniform) / Log(1 - p)), 1);
}

Expr CauchyFrom(const Expr& uniform, const Expr& median, const Expr& scale) {
  return median + scale * Tan((uniform - 0.5) * std::numbers::pi);
}

Expr PoissonFrom(const Expr& rate, const Expr& uniform) {
  if (!rate.ok()) return rate;
  if (!uniform.ok()) return uniform;
  Dims wanted = {kPoissonDraws};
  wanted.insert(wanted.end(), rate.shape().begin(), rate.shape().end());
  if (!IsFloat(rate.dtype()) || uniform.shape() != Shape(wanted)) {
    return Fail(rate, "poisson: rate {} {} and uniform numbers {}; it needs floats and {}",
                Name(rate.dtype()), ShapeText(rate.shape()), ShapeText(uniform.shape()),
                ShapeText(wanted));
  }
  const DType compute = ComputeDType(rate.dtype());
  const Expr mean = Cast(rate, compute), u = Cast(uniform, compute);
  const Expr low = Lt(mean, 10), large = Where(low, 10, mean);
  const Expr b = Sqrt(large) * 2.53 + 0.931, a = b * 0.02483 - 0.059;
  const Expr inverse_alpha = 1.1328 / (b - 3.4) + 1.1239;
  const Expr v_r = 0.9277 - 3.6224 / (b - 2);
  const Expr log_mean = Log(large);
  // A rounded normal number where every try is rejected; the first try that is not goes last.
  const Expr angle = Cos(Select(u, 0, 1) * (2 * std::numbers::pi));
  const Expr normal = Sqrt(Log(1 - Select(u, 0, 0)) * -2) * angle;
  Expr found = Maximum(Floor(large + Sqrt(large) * normal + 0.5), 0);
  for (int64_t i = kPoissonDraws / 2 - 1; i >= 0; --i) {
    const Expr centred = Select(u, 0, 2 * i) - 0.5, v = Select(u, 0, 2 * i + 1);
    const Expr distance = 0.5 - Abs(centred);
    const Expr safe = Maximum(distance, 1e-7);
    const Expr k = Floor((a * 2 / safe + b) * centred + large + 0.43);
    const Expr quick = LogicalAnd(Ge(distance, 0.07), Le(v, v_r));
    const Expr possible = LogicalAnd(Ge(k, 0), LogicalOr(Ge(distance, 0.013), Le(v, distance)));
    const Expr left = Log(Maximum(v, 1e-30) * inverse_alpha / (a / (safe * safe) + b));
    const Expr right = k * log_mean - large - LogFactorial(Maximum(k, 0));
    found = Where(LogicalOr(quick, LogicalAnd(possible, Le(left, right))), k, found);
  }
  const Expr exact = PoissonByInversion(Where(low, mean, 1), Select(u, 0, kPoissonDraws - 1));
  const Expr result = Where(low, exact, found);
  return Detach(Cast(Where(IsFinite(mean), result, mean), rate.dtype()));
}

Expr Threefry(const Expr& x, const Expr& seed) {
  Expr counter = x, key = seed;
  if (auto error = UnifyShapes("threefry", {&counter, &key})) return *error;
  if (x.dtype() != DType::kUint64 || seed.dtype() != DType::kUint64) {
    return Fail(x, "threefry: operands are {} and {}, they must be uint64", Name(x.dtype()),
                Name(seed.dtype()));
  }
  const auto low = [](const Expr& e) { return Cast(e, DType::kUint32); };
  const auto high = [](const Expr& e) { return Cast(ShiftRight(e, 32), DType::kUint32); };
  const auto [r0, r1] = Threefry2x32(low(key), high(key), low(counter), high(counter));
  return BitwiseOr(ShiftLeft(Cast(r1, DType::kUint64), 32), Cast(r0, DType::kUint64));
}

}  // namespace tensord
