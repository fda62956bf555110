// Householder's reflections in LAPACK's form.
#include <algorithm>

#include "core/tensor/iterate.h"
#include "core/tensor/linalg.h"
#include "core/tensor/product.h"

namespace tensord {
namespace {

std::optional<Expr> CheckReflections(std::string_view name, const Reflections& r) {
  if (auto error = CheckMatrix(name, r.a)) return error;
  if (!r.tau.ok()) return r.tau;
  const bool fits = r.tau.rank() == r.a.rank() - 1 &&
                    r.tau.shape().first(r.tau.rank() - 1) == r.a.shape().first(r.a.rank() - 2) &&
                    r.tau.shape().back() <= std::min(Rows(r.a), Columns(r.a));
  if (fits && IsFloat(r.a.dtype()) && r.a.dtype() == r.tau.dtype()) return std::nullopt;
  return Fail(r.a,
              "{}: tau {} {} and vectors {} {}; they are floats of one dtype, tau [.., k] for "
              "[.., m, n], k no larger than m and n",
              name, Name(r.tau.dtype()), ShapeText(r.tau.shape()), Name(r.a.dtype()),
              ShapeText(r.a.shape()));
}

Expr Reflected(const Reflections& reflections, const Expr& x, bool transpose) {
  const DType dtype = x.dtype();
  const Expr a = Cast(reflections.a, ComputeDType(dtype));
  const Expr tau = Cast(reflections.tau, ComputeDType(dtype));
  const int64_t count = tau.shape().back();
  if (count == 0) return x;
  const Expr row = RowIndex(x.graph(), Rows(a)), column = ColumnIndex(x.graph(), Columns(a));
  const Expr turn = ColumnIndex(x.graph(), count);
  const Expr initial[] = {Cast(x, ComputeDType(dtype))};
  // The first reflection is the leftmost factor of q.
  const std::vector<Expr> done =
      ForLoop(count, initial, [&](const Expr& i, absl::Span<const Expr> state) {
        const Expr k = transpose ? i : count - 1 - i;
        const Expr under = Picked(Eq(column, k), a, -1);  // [m, 1]
        const Expr v = Where(Gt(row, k), under, Cast(Eq(row, k), a.dtype()));
        const Expr scale = Unsqueeze(Picked(Eq(turn, k), tau, -1), -1);
        const Expr across = MatMul(Transposed(v), state[0]) * scale;  // [1, p]
        return std::vector<Expr>{state[0] - v * across};
      });
  return Cast(done[0], dtype);
}

}  // namespace

Reflections Geqrf(const Expr& a) {
  if (auto error = CheckMatrix("geqrf", a)) return {*error, *error};
  const DType dtype = LeastUpperFloat(a.dtype());
  const Expr x = Cast(a, ComputeDType(dtype));
  const int64_t m = Rows(a), n = Columns(a), count = std::min(m, n);
  const Expr row = RowIndex(a.graph(), m), column = ColumnIndex(a.graph(), n);
  const Expr turn = ColumnIndex(a.graph(), count);
  Dims taus(a.shape().begin(), a.shape().end() - 2);
  taus.push_back(count);
  const std::vector<Expr> done =
      Steps(count, {x, Zeros(a.graph(), taus, x.dtype())},
            [&](const Expr& k, absl::Span<const Expr> state) {
              const Expr &r = state[0], &tau = state[1];
              const Expr under = Where(Ge(row, k), Picked(Eq(column, k), r, -1), 0);  // [m, 1]
              const Expr own = Picked(Eq(row, k), under, -2);
              const Expr rest = Sum(Where(Gt(row, k), under * under, 0), -2, kKeepDims);
              const Expr norm = Sqrt(own * own + rest), none = Eq(rest, 0);
              // Away from the element on the diagonal, so that nothing cancels.
              const Expr made = Where(none, own, Where(Lt(own, 0), norm, -norm));
              const Expr scale = Where(none, 0, (made - own) / Where(none, 1, made));
              const Expr below = under / Where(none, 1, own - made);
              const Expr v = Where(Gt(row, k), below, Cast(Eq(row, k), r.dtype()));
              const Expr across = MatMul(Transposed(v), r) * scale;  // [1, n]
              const Expr packed = Where(Gt(row, k), v, Where(Eq(row, k), made, r));
              const Expr turned = Where(Gt(column, k), r - v * across, r);
              return std::vector<Expr>{Where(Eq(column, k), packed, turned),
                                       Where(Eq(turn, k), Squeeze(scale, -1), tau)};
            });
  return {Cast(done[0], dtype), Cast(done[1], dtype)};
}

Expr Reflect(const Reflections& reflections, const Expr& x, bool transpose) {
  if (auto error = CheckReflections("ormqr", reflections)) return *error;
  if (auto error = CheckMatrix("ormqr", x)) return *error;
  const Expr& a = reflections.a;
  if (x.dtype() != a.dtype() || Rows(x) != Rows(a) ||
      x.shape().first(x.rank() - 2) != a.shape().first(a.rank() - 2)) {
    return Fail(
        x, "ormqr: {} {} and vectors {} {}; both need {} rows, and equal batches and dtypes",
        Name(x.dtype()), ShapeText(x.shape()), Name(a.dtype()), ShapeText(a.shape()), Rows(a));
  }
  return Reflected(reflections, x, transpose);
}

Expr HouseholderProduct(const Reflections& reflections) {
  constexpr std::string_view kName = "householder_product";
  if (auto error = CheckReflections(kName, reflections)) return *error;
  const Expr& a = reflections.a;
  if (Rows(a) < Columns(a)) {
    return Fail(a, "{}: {} is wider than high", kName, ShapeText(a.shape()));
  }
  return Reflected(reflections, EyeLike(a, Rows(a), Columns(a)), false);
}

}  // namespace tensord
