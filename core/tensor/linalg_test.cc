#include "core/tensor/linalg.h"

#include <cmath>

#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/gradient.h"
#include "core/tensor/movement.h"
#include "core/tensor/product.h"
#include "core/tensor/reduce.h"
#include "core/tensor/testing.h"

namespace tensord {
namespace {

using Values = std::vector<double>;
using Sizes = std::vector<int64_t>;
using X = absl::Span<const Expr>;

HostTensor Random(Sizes shape, uint64_t seed = 1) {
  return Noise(DType::kFloat64, std::move(shape), -2, 2, seed);
}
Expr T(const Expr& x) { return Transpose(x, -1, -2); }
// A symmetric matrix with eigenvalues well above zero.
Expr Positive(const Expr& x) {
  return MatMul(x, T(x)) +
         Eye(x.graph(), x.shape()[x.rank() - 1], x.shape()[x.rank() - 1], x.dtype());
}
Values Zero(const Values& like) { return Values(like.size(), 0); }

TEST(Linalg, FactorsMultiplyBack) {
  const Sizes shapes[] = {{1, 1}, {3, 3}, {2, 3, 3}, {4, 2},   {2, 4},
                          {5, 4}, {0, 0}, {2, 0, 0}, {0, 3, 3}};
  for (const Sizes& shape : shapes) {
    Bench bench;
    const Expr a = bench.Input(Random(shape, 3));
    const int64_t m = shape[shape.size() - 2], n = shape[shape.size() - 1], k = std::min(m, n);
    const auto vanishes = [&](const Expr& x, const char* what) {
      const Values values = bench.Values(x);
      ExpectNear(values, Zero(values), 1e-10,
                 std::string(what) + " " + std::to_string(m) + " x " + std::to_string(n));
    };
    const auto orthonormal = [&](const Expr& q, const char* what) {
      const int64_t size = q.shape()[q.rank() - 1];
      vanishes(MatMul(T(q), q) - Eye(bench.graph(), size, size, q.dtype()), what);
    };
    for (Completeness completeness : {kReduced, kComplete}) {
      const bool complete = completeness == kComplete;
      const QrParts qr = Qr(a, completeness);
      EXPECT_EQ(qr.q.shape()[qr.q.rank() - 1], complete ? m : k);
      vanishes(MatMul(qr.q, qr.r) - a, "qr");
      vanishes(Tril(qr.r, -1), "r");
      orthonormal(qr.q, "q");
      const SvdParts svd = Svd(a, completeness);
      EXPECT_EQ(svd.u.shape()[svd.u.rank() - 1], complete ? m : k);
      EXPECT_EQ(svd.vh.shape()[svd.vh.rank() - 2], complete ? n : k);
      const Expr u = Shrink(svd.u, -1, 0, k), vh = Shrink(svd.vh, -2, 0, k);
      vanishes(MatMul(u * Unsqueeze(svd.s, -2), vh) - a, "svd");
      orthonormal(svd.u, "u");
      orthonormal(T(svd.vh), "v");
      if (k > 1) vanishes(Maximum(Shrink(svd.s, -1, 1, k) - Shrink(svd.s, -1, 0, k - 1), 0), "s");
    }
    const LuParts lu = Lu(a);
    vanishes(MatMul(lu.p, MatMul(lu.l, lu.u)) - a, "lu");
    const LuParts again = LuUnpack(LuFactor(a));
    vanishes(MatMul(again.p, MatMul(again.l, again.u)) - a, "lu_unpack");
    const Expr pinv = Pinv(a);
    vanishes(MatMul(MatMul(a, pinv), a) - a, "pinv");
    if (m != n) continue;
    const Expr p = Positive(a);
    const Expr l = Cholesky(p);
    vanishes(MatMul(l, T(l)) - p, "cholesky");
    vanishes(Cholesky(p, true) - T(l), "cholesky upper");
    const EighParts eigh = Eigh(p);
    vanishes(MatMul(eigh.vectors * Unsqueeze(eigh.values, -2), T(eigh.vectors)) - p, "eigh");
    orthonormal(eigh.vectors, "eigenvectors");
    const Expr eye = Eye(bench.graph(), n, n, DType::kFloat64);
    vanishes(MatMul(Inverse(a), a) - eye, "inverse");
    vanishes(MatMul(a, Solve(a, p)) - p, "solve");
    vanishes(MatMul(Solve(a, p, false), a) - p, "solve from the right");
    vanishes(MatMul(a, LuSolve(LuFactor(a), p)) - p, "lu_solve");
    vanishes(MatMul(T(a), LuSolve(LuFactor(a), p, true, true)) - p, "lu_solve adjoint");
    vanishes(MatMul(p, CholeskySolve(a, l)) - a, "cholesky_solve");
    vanishes(MatMul(MatrixExp(a * 0.5), MatrixExp(a * -0.5)) - eye, "matrix_exp");
    vanishes(MatrixPower(a, -3) - Inverse(MatMul(a, MatMul(a, a))), "matrix_power");
    vanishes(Det(a) - Exp(SlogDet(a).log) * SlogDet(a).sign, "det");
  }
}

TEST(Linalg, KnownAnswers) {
  Bench bench;
  const Expr a = bench.Input(DType::kFloat64, {2, 2}, {4, 3, 6, 3});
  ExpectNear(bench.Values(Det(a)), {-6}, 1e-14);
  ExpectNear(bench.Values(Inverse(a)), {-0.5, 0.5, 1, -2.0 / 3}, 1e-14);
  EXPECT_EQ(bench.Values(LuFactor(a).pivots), (Values{2, 2}));
  EXPECT_EQ(bench.Values(Trace(a)), (Values{7}));
  const Expr singular = bench.Input(DType::kFloat64, {2, 2}, {1, 2, 2, 4});
  EXPECT_EQ(bench.Values(Det(singular)), (Values{0}));
  EXPECT_EQ(bench.Values(SlogDet(singular).sign), (Values{0}));
  EXPECT_EQ(bench.Values(SlogDet(singular).log), (Values{-INFINITY}));
  EXPECT_EQ(bench.Values(MatrixRank(singular)), (Values{1}));
  ExpectNear(bench.Values(SvdVals(singular)), {5, 0}, 1e-14);
  ExpectNear(bench.Values(Eigh(singular).values), {0, 5}, 1e-14);
  ExpectNear(bench.Values(MatrixExp(bench.Input(DType::kFloat64, {2, 2}, {0, 1, 0, 0}))),
             {1, 1, 0, 1}, 1e-14);
  ExpectNear(bench.Values(MatrixExp(bench.Input(DType::kFloat64, {1, 1}, {-50}))), {std::exp(-50)},
             1e-14);
  ExpectNear(bench.Values(Lstsq(bench.Input(DType::kFloat64, {3, 2}, {1, 0, 1, 1, 1, 2}),
                                bench.Input(DType::kFloat64, {3}, {6, 0, 0}))),
             {5, -3}, 1e-13);
  ExpectNear(bench.Values(Cond(bench.Input(DType::kFloat64, {2, 2}, {2, 0, 0, 8}))), {4}, 1e-14);
  using enum MatrixNormKind;
  const std::pair<MatrixNormKind, double> norms[] = {
      {kFrobenius, std::sqrt(70)}, {kInf, 9}, {kMinusInf, 7}, {kOne, 10}, {kMinusOne, 6}};
  for (const auto& [kind, norm] : norms) {
    ExpectNear(bench.Values(MatrixNorm(a, kind)), {norm}, 1e-14);
  }
}

TEST(Linalg, RankDeficientMatricesHaveOrthonormalFactors) {
  Bench bench;
  const Expr zero = bench.Input(DType::kFloat64, {3, 3}, Values(9, 0));
  const Expr flat = bench.Input(DType::kFloat64, {3, 2}, {1, 2, 2, 4, 3, 6});
  for (const Expr& a : {zero, flat}) {
    for (const Expr& q : {Qr(a).q, Svd(a).u, T(Svd(a).vh)}) {
      const int64_t n = q.shape()[1];
      const Values gram = bench.Values(MatMul(T(q), q));
      ExpectNear(gram, bench.Values(Eye(bench.graph(), n, n, DType::kFloat64)), 1e-13);
    }
  }
}

struct Differentiable {
  const char* name;
  Function f;
  std::vector<HostTensor> inputs;
};

std::vector<Differentiable> Differentiables() {
  return {
      {"inverse", [](X x) { return Inverse(x[0]); }, {Random({2, 2, 2})}},
      {"solve", [](X x) { return Solve(x[0], x[1]); }, {Random({3, 3}), Random({3, 2}, 2)}},
      {"solve vector", [](X x) { return Solve(x[0], x[1]); }, {Random({3, 3}), Random({3}, 2)}},
      {"triangular",
       [](X x) { return SolveTriangular(x[0], x[1], {.upper = true}); },
       {Random({3, 3}), Random({3, 2}, 2)}},
      {"unit",
       [](X x) { return SolveTriangular(x[0], x[1], {.left = false, .unit = true}); },
       {Random({3, 3}), Random({2, 3}, 2)}},
      {"det", [](X x) { return Det(x[0]); }, {Random({3, 3})}},
      {"slogdet", [](X x) { return SlogDet(x[0]).log; }, {Random({2, 3, 3})}},
      {"cholesky", [](X x) { return Cholesky(Positive(x[0])); }, {Random({3, 3})}},
      {"lu l", [](X x) { return Lu(x[0]).l; }, {Random({3, 3})}},
      {"lu u", [](X x) { return Lu(x[0]).u; }, {Random({3, 3})}},
      {"lu tall", [](X x) { return Lu(x[0]).l; }, {Random({4, 2})}},
      {"lu wide", [](X x) { return LuFactor(x[0]).lu; }, {Random({2, 4})}},
      {"qr q", [](X x) { return Qr(x[0]).q; }, {Random({3, 2})}},
      {"qr r", [](X x) { return Qr(x[0]).r; }, {Random({3, 2})}},
      {"qr wide", [](X x) { return Qr(x[0]).r; }, {Random({2, 4})}},
      {"householder_product",
       [](X x) {
         return HouseholderProduct({x[0], x[1]});
       },
       {Random({4, 3}), Random({2}, 2)}},
      {"ormqr",
       [](X x) {
         return Reflect({x[0], x[1]}, x[2], true);
       },
       {Random({3, 2}), Random({2}, 2), Random({3, 2}, 3)}},
      {"symmetric", [](X x) { return Symmetric(Positive(x[0]), true); }, {Random({3, 3})}},
      {"eigenvalues", [](X x) { return Eigh(Positive(x[0])).values; }, {Random({3, 3})}},
      {"eigenvectors", [](X x) { return Eigh(Positive(x[0])).vectors; }, {Random({3, 3})}},
      {"svd u", [](X x) { return Svd(x[0]).u; }, {Random({3, 2})}},
      {"svd s", [](X x) { return Svd(x[0]).s; }, {Random({3, 3})}},
      {"svd vh", [](X x) { return Svd(x[0]).vh; }, {Random({2, 3})}},
      {"pinv", [](X x) { return Pinv(x[0]); }, {Random({3, 2})}},
      {"lstsq", [](X x) { return Lstsq(x[0], x[1]); }, {Random({3, 2}), Random({3}, 2)}},
      {"matrix_exp", [](X x) { return MatrixExp(x[0]); }, {Random({3, 3})}},
      {"matrix_power", [](X x) { return MatrixPower(x[0], 3); }, {Random({2, 2})}},
      {"newton_schulz",
       [](X x) {
         return NewtonSchulz(x[0], 2, {1.5, -0.5});
       },
       {Random({3, 2})}},
      {"nuclear", [](X x) { return MatrixNorm(x[0], MatrixNormKind::kNuclear); }, {Random({3, 2})}},
      {"cond", [](X x) { return Cond(x[0]); }, {Random({3, 3})}},
  };
}

TEST(Linalg, GradientsAgreeWithDifferences) {
  for (const auto& c : Differentiables()) ExpectGradient(c.name, c.f, c.inputs, 1e-5);
}

TEST(Linalg, SecondDerivativesAgreeWithDifferences) {
  for (const auto& c : Differentiables()) {
    // Of a sum with unequal weights: that of the squares of an orthogonal matrix is constant.
    const auto slope = [&c](X x) {
      const Expr y = c.f(x);
      const Expr weights =
          Reshape(Arange(y.graph(), 1, NumElements(y.shape()) + 1, 1, y.dtype()), y.shape());
      return Gradient(Sum(y * y * weights), {x[0]})[0];
    };
    ExpectGradient(std::string(c.name) + " twice", slope, c.inputs, 1e-4);
  }
}

TEST(Linalg, ErrorsNameTheRule) {
  Bench bench;
  const Expr v = bench.Counting({3}), m = bench.Counting({2, 3}), s = bench.Counting({2, 2});
  const std::pair<Expr, const char*> cases[] = {
      {Inverse(m), "inverse: [2, 3] is no square matrix"},
      {Qr(v).q, "qr: shape [3] is no matrix; it needs two axes or more"},
      {Solve(s, v), "solve: [2, 2] and [3, 1] do not fit"},
      {EigVals(s),
       "eig: the eigenvalues of a general real matrix are complex, and there is no complex dtype; "
       "use eigh for symmetric matrices"},
      {CholeskySolve(v, s), "cholesky_solve: [2, 2] and [3] do not fit"},
      {MatrixNorm(m, MatrixNormKind::kOne, Axes{0, 0}),
       "matrix_norm: 2 axes of [2, 3]; name the two of the matrices"},
  };
  for (const auto& [expr, message] : cases) EXPECT_EQ(ErrorOf(expr), message);
}

}  // namespace
}  // namespace tensord
