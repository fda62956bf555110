// Reading by index.
//
//   Expr y = Index(x, {3, Slice{.step = -1}, NewAxis{}, Ellipsis{}});  // x[3, ::-1, None, ...]
#pragma once

#include <variant>

#include "core/tensor/expr.h"
#include "core/tensor/movement.h"

namespace tensord {

struct NewAxis {};
struct Ellipsis {};
// An integer tensor picks elements: its shape takes the place of the axis. Several broadcast
// together and take the place of the first, or the front if other axes lie between. Negative
// entries count from the end once; entries outside read as zero.
using IndexItem = std::variant<int64_t, Slice, NewAxis, Ellipsis, Expr>;
Expr Index(const Expr& x, absl::Span<const IndexItem> items);

// Rows of `table` [n, ..]: the result has the shape of `index` and then the rest. Rows outside are
// zero. The gradient compares every row with every index: its work is n times the indices.
Expr Embedding(const Expr& table, const Expr& index);

// result[i][j][k] = x[i][index[i][j][k]][k] for axis 1. Indices outside of the axis, negative ones
// included, read as zero.
Expr GatherAlong(const Expr& x, int64_t axis, const Expr& index);

// int32, a new last axis of `classes`; a label outside gives all zeros.
Expr OneHot(const Expr& labels, int64_t classes);

}  // namespace tensord
