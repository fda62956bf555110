// Attention.
#pragma once

#include <optional>

#include "core/tensor/build.h"
#include "core/tensor/expr.h"

namespace tensord {

struct AttentionOptions {
  std::optional<Expr> mask = std::nullopt;     // bool: what to keep; float: added to the scores
  bool is_causal = false;                      // aligned at the first query and key
  bool grouped_heads = false;                  // fewer key and value heads, each serving a group
  std::optional<double> scale = std::nullopt;  // 1 / sqrt(size of a head)
  // Uniform in [0, 1), of the shape of the scores, for a dropout of them with probability p.
  std::optional<Expr> random = std::nullopt;
  double dropout_p = 0;
};
// query [.., heads, queries, dim], key [.., heads, keys, dim], value [.., heads, keys, size]. A
// query that may see nothing gives NaN.
Expr ScaledDotProductAttention(const Expr& query, const Expr& key, const Expr& value,
                               const AttentionOptions& options = {});
// Of the scores, which AttentionOptions::random must have; empty if query and key do not fit.
Dims AttentionScoresShape(Shape query, Shape key, bool grouped_heads = false);

}  // namespace tensord
