// A computation of one example made one of a batch: every value that depends on the examples gets a
// leading axis. By a table of rules, one for each op, over ordinary nodes: so it can be
// differentiated, and batched again. Not for front ends, which call a function with stand-ins.
//
//   Expr one = StandIn(Select(x, 0, 0));
//   Expr y = Batch({{f(one)}}, {{one, x}}, 8)[0];  // [8, ...]: f of each row of x
#pragma once

#include <utility>
#include <vector>

#include "core/tensor/expr.h"

namespace tensord {

// `roots` with each `first` replaced by the rows of its `second`, which has `size` of them along
// axis 0. All results have that axis; what depends on no example is repeated along it. An error
// where an op has no rule: kernels of users, and reads of a batch by rows of a varying number.
std::vector<Expr> Batch(absl::Span<const Expr> roots,
                        absl::Span<const std::pair<Expr, Expr>> examples, int64_t size);

}  // namespace tensord
