#include "core/tensor/iterate.h"

#include "core/tensor/transcendental.h"

namespace tensord {

std::vector<Expr> Steps(int64_t count, std::vector<Expr> state, const CountedBody& body) {
  for (Expr& x : state) {
    if (!x.ok()) return std::vector<Expr>(state.size(), x);
    x = Detach(x);
  }
  if (count <= 0) return state;  // an empty matrix, of which a body may ask too much
  std::vector<Expr> results = ForLoop(count, state, body);
  for (Expr& x : results) x = Detach(x);
  return results;
}

Expr WithDerivativeOf(const Expr& value, const Expr& proxy) {
  if (!value.ok() || !proxy.ok()) return value.ok() ? proxy : value;
  return WithSlope(value, proxy, Where(IsFinite(proxy), FullLike(proxy, 1), 0));
}

Expr EyeLike(const Expr& like, int64_t n, int64_t m) {
  Dims dims(like.shape().begin(), like.shape().end() - 2);
  dims.insert(dims.end(), {n, m});
  return BroadcastTo(Eye(like.graph(), n, m, like.dtype()), dims);
}

std::optional<Expr> CheckMatrix(std::string_view name, const Expr& a) {
  if (!a.ok()) return a;
  if (a.rank() >= 2) return std::nullopt;
  return Fail(a, "{}: shape {} is no matrix; it needs two axes or more", name,
              ShapeText(a.shape()));
}

std::optional<Expr> CheckSquare(std::string_view name, const Expr& a) {
  if (auto error = CheckMatrix(name, a)) return error;
  if (Rows(a) == Columns(a)) return std::nullopt;
  return Fail(a, "{}: {} is no square matrix", name, ShapeText(a.shape()));
}

Expr LowerInverse(const Expr& l) {
  if (!l.ok()) return l;
  const int64_t n = Rows(l);
  const Expr row = RowIndex(l.graph(), n), column = ColumnIndex(l.graph(), n);
  const Expr factor = Contiguous(Detach(l));
  return Steps(n, {EyeLike(l, n, n)}, [&](const Expr& k, absl::Span<const Expr> state) {
    const Expr below = Picked(Eq(column, k), factor, -1);  // [n, 1]
    const Expr own = Eq(row, k);
    const Expr solved = Picked(own, state[0], -2) / Picked(own, below, -2);
    const Expr rest = Where(Gt(row, k), state[0] - below * solved, state[0]);
    return std::vector<Expr>{Where(own, solved, rest)};
  })[0];
}

Expr EliminationInverse(const Expr& a) {
  if (!a.ok()) return a;
  const int64_t n = Rows(a);
  if (n == 0) return a;
  const Expr row = RowIndex(a.graph(), n), column = ColumnIndex(a.graph(), 2 * n);
  const Expr beside[] = {a, EyeLike(a, n, n)};
  // Gauss and Jordan: the left half becomes the identity, the right half the inverse.
  const Expr both = Steps(n, {Cat(beside, -1)}, [&](const Expr& k, absl::Span<const Expr> state) {
    const Expr& m = state[0];
    const Expr own = Eq(row, k);
    const Expr pivots = Picked(Eq(column, k), m, -1);  // [n, 1]
    const Expr chosen = ArgMax(Where(Ge(row, k), Abs(pivots), -1), -2, kKeepDims);
    const Expr from = Eq(row, chosen);
    const Expr top = Picked(from, m, -2) / Picked(from, pivots, -2);  // [1, 2 n]
    const Expr moved = Where(from, Picked(own, m, -2), m);
    const Expr factors = Where(from, Picked(own, pivots, -2), pivots);
    return std::vector<Expr>{Where(own, top, moved - factors * top)};
  })[0];
  return Shrink(both, -1, n, 2 * n);
}

}  // namespace tensord
