// Accuracy of Exp, Log and Sin: units in the last place against libm in long double, over special
// values, all magnitudes, and (for sin) arguments next to multiples of pi.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "core/compile/linear_testing.h"

namespace tensord {
namespace {

// One op over a whole array, in vectors of `lanes`.
template <typename T>
std::vector<T> Compute(Op op, DType dtype, int lanes, const Target& target, std::vector<T> x) {
  const auto count = static_cast<int64_t>(x.size());
  LinearBuilder b("math");
  const Node* in = b.Param(dtype, count);
  const Node* out = b.Param(dtype, count);
  const Node* range = b.Range(count / lanes);
  const Node* index = b.Add(Op::kMul, {range, b.graph.Index(lanes)});
  b.Store(out, index, b.Add(op, {b.Load(in, index, lanes)}));
  b.End(range);
  std::vector<T> y(x.size());
  const LoadedLinear kernel(b.program, target);
  if (kernel.ok()) kernel.Run({x.data(), y.data()});
  return y;
}

// glibc's long double functions are within 1 unit of 64 digits, sin by a full reduction.
long double Exact(Op op, long double x) {
  return op == Op::kExp ? std::exp(x) : op == Op::kLog ? std::log(x) : std::sin(x);
}

// |actual - exact| in units of the last place of the nearest T.
template <typename T>
double UlpError(T actual, long double exact) {
  const T nearest = static_cast<T>(exact);
  if (std::isnan(nearest)) return std::isnan(actual) ? 0 : HUGE_VAL;
  if (std::isinf(nearest) || std::isinf(actual) || std::isnan(actual)) {
    return actual == nearest ? 0 : HUGE_VAL;
  }
  if (nearest == 0 && actual == 0) return std::signbit(nearest) == std::signbit(actual) ? 0 : 1;
  int exponent = std::max(std::ilogb(static_cast<long double>(nearest)),
                          std::numeric_limits<T>::min_exponent - 1);
  if (nearest == 0) exponent = std::numeric_limits<T>::min_exponent - 1;
  const long double unit = std::ldexp(1.0L, exponent - std::numeric_limits<T>::digits + 1);
  return static_cast<double>(std::fabs(static_cast<long double>(actual) - exact) / unit);
}

template <typename T, typename Bits>
std::vector<T> Arguments(Op op) {
  using Limits = std::numeric_limits<T>;
  std::vector<T> x = {0,
                      Limits::infinity(),
                      Limits::quiet_NaN(),
                      Limits::denorm_min(),
                      Limits::min(),
                      Limits::min() / 2,
                      Limits::max(),
                      1,
                      std::nextafter(T{1}, T{2}),
                      std::nextafter(T{1}, T{0}),
                      T{0x1p21},
                      std::nextafter(T{0x1p21}, T{0}),
                      std::nextafter(T{0x1p21}, T{0x1p22}),
                      static_cast<T>(88.722839),
                      static_cast<T>(88.72284),
                      static_cast<T>(-87.33655),
                      static_cast<T>(-103.97208),
                      static_cast<T>(-103.97209),
                      static_cast<T>(-104.5),
                      static_cast<T>(709.782712893384),
                      static_cast<T>(709.7827128933841),
                      static_cast<T>(-708.3964185322641),
                      static_cast<T>(-745.1332191019411),
                      static_cast<T>(-745.1332191019412),
                      static_cast<T>(-746.5)};
  // The doubles and floats that are nearest to multiples of pi, from the literature on argument
  // reduction: sin of them needs all the digits there are.
  x.push_back(static_cast<T>(0x1.6ac5b262ca1ffp+849));
  x.push_back(static_cast<T>(16367173.0 * 0x1p72));
  std::mt19937_64 random(11);
  for (int i = 0; i < 30000; ++i) {  // anything
    x.push_back(std::bit_cast<T>(static_cast<Bits>(random())));
  }
  std::uniform_real_distribution<T> near_one(T{0.5}, T{2}), usual(T{-30}, T{30}),
      all(T{-750}, T{750});
  for (int i = 0; i < 30000; ++i) {
    x.push_back(near_one(random));
    x.push_back(usual(random));
    x.push_back(all(random));
    const auto n = static_cast<long double>(random() % (uint64_t{1} << (random() % 40)));
    x.push_back(static_cast<T>(n * 3.14159265358979323846264338327950288L));
  }
  for (size_t i = 0, n = x.size(); i < n; ++i) {
    if (op != Op::kLog) x.push_back(-x[i]);
  }
  while (x.size() % 16 != 0) x.push_back(1);
  return x;
}

template <typename T, typename Bits>
void ExpectAccurate(Op op, DType dtype, int lanes, const Target& target, double bound) {
  const std::vector<T> x = Arguments<T, Bits>(op);
  const std::vector<T> y = Compute(op, dtype, lanes, target, x);
  double worst = 0;
  T at = 0, got = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double error = UlpError(y[i], Exact(op, x[i]));
    if (error > worst) {
      worst = error;
      at = x[i];
      got = y[i];
    }
  }
  EXPECT_LE(worst, bound) << fmt::format("{} {} {} lanes: at {:a} gives {:a}, not {:a}", Name(op),
                                         Name(dtype), lanes, at, got,
                                         static_cast<double>(Exact(op, at)));
  testing::Test::RecordProperty(fmt::format("{}_{}_{}", Name(op), Name(dtype), lanes),
                                fmt::format("{:.3f}", worst));
}

Target WithoutFma() {
  Target target = LlvmHostTarget();
  if (target.arch == "x86-64") {
    target.cpu = "x86-64";
    target.features = "";
    target.vector_bytes = 16;
  }
  target.has_fma = false;
  return target;
}

struct AccuracyCase {
  const char* name;
  Op op;
  double float32_bound, float64_bound;  // units in the last place
};
class MathTest : public testing::TestWithParam<AccuracyCase> {};

TEST_P(MathTest, IsAccurateInEveryWidth) {
  const AccuracyCase& c = GetParam();
  for (int lanes : {1, 16}) {
    ExpectAccurate<float, uint32_t>(c.op, DType::kFloat32, lanes, LlvmHostTarget(),
                                    c.float32_bound);
    ExpectAccurate<double, uint64_t>(c.op, DType::kFloat64, lanes, LlvmHostTarget(),
                                     c.float64_bound);
  }
}

TEST_P(MathTest, IsAccurateWithoutFma) {
  const AccuracyCase& c = GetParam();
  ExpectAccurate<float, uint32_t>(c.op, DType::kFloat32, 4, WithoutFma(), c.float32_bound);
  ExpectAccurate<double, uint64_t>(c.op, DType::kFloat64, 4, WithoutFma(), c.float64_bound);
}

INSTANTIATE_TEST_SUITE_P(Ops, MathTest,
                         testing::Values(AccuracyCase{"Exp", Op::kExp, 1.1, 1.1},
                                         AccuracyCase{"Log", Op::kLog, 1, 1},
                                         AccuracyCase{"Sin", Op::kSin, 0.6, 2}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tensord
