// Reading and writing by index.
//
//   Expr y = Index(x, {3, Slice{.step = -1}, NewAxis{}, Ellipsis{}});  // x[3, ::-1, None, ...]
//   Expr z = SetIndex(x, {Slice{1}, rows}, 0.5);                       // x[1:, rows] = 0.5
#pragma once

#include <string_view>
#include <variant>

#include "core/tensor/build.h"
#include "core/tensor/expr.h"
#include "core/tensor/movement.h"

namespace tensord {

struct NewAxis {};
struct Ellipsis {};
// An integer tensor picks elements: its shape takes the place of the axis. Several broadcast
// together and take the place of the first, or the front if other axes lie between. Negative
// entries count from the end once; entries outside read as zero. A number, or a tensor without
// axes, takes its axis away before the others are looked at.
using IndexItem = std::variant<int64_t, Slice, NewAxis, Ellipsis, Expr>;
Expr Index(const Expr& x, absl::Span<const IndexItem> items);

// `x` with `value`, cast and broadcast, where Index reads. Of several values for one element the
// last stays; entries outside write nothing.
Expr SetIndex(const Expr& x, absl::Span<const IndexItem> items, const Expr& value);
// `x` with `value`, of its shape, in the place of `view`, which is movement of x's elements.
Expr WriteView(std::string_view name, const Expr& x, const Expr& view, const Expr& value);

// Rows of `table` [n, ..]: the result has the shape of `index` and then the rest. Rows outside are
// zero.
Expr Embedding(const Expr& table, const Expr& index);

// result[i][j][k] = x[i][index[i][j][k]][k] for axis 1. Indices outside of the axis, negative ones
// included, read as zero.
Expr GatherAlong(const Expr& x, int64_t axis, const Expr& index);
// The same where x and index broadcast on the other axes, and negative indices count from the end.
Expr TakeAlong(const Expr& x, int64_t axis, const Expr& index);
// Slices x[.., index[k], ..]; `index` has one axis, or none.
Expr IndexSelect(const Expr& x, int64_t axis, const Expr& index);
// x as one row of elements; the result has the shape of `index`, whose negative entries count from
// the end once.
Expr Take(const Expr& x, const Expr& index);

// x at positions along several axes (distinct, from the start): `indices` broadcast together to I;
// the result has the shape I and then the other axes of x in their order. Negative entries count
// from the end once; entries outside read as zero. Writing: ScatterAt in scatter.h.
Expr GatherAt(const Expr& x, absl::Span<const int64_t> axes, absl::Span<const Expr> indices);

// int32, a new last axis of `classes`; a label outside gives all zeros.
Expr OneHot(const Expr& labels, int64_t classes);

// ---- for files that make functions of these

// `axes` and then the others in order; the place in those axes as one, -1 for what
// is outside; an integer that counts `elements` and holds every value of the index.
Dims AxesFirst(const Expr& x, absl::Span<const int64_t> axes);
Expr PositionAt(const Expr& x, absl::Span<const int64_t> axes, absl::Span<const Expr> indices);
DType PositionDType(int64_t elements, DType index);

}  // namespace tensord
