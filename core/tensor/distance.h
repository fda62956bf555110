// Distances of vectors, and rows of tables: embeddings and bags of them.
#pragma once

#include <optional>
#include <string_view>

#include "core/tensor/expr.h"
#include "core/tensor/reduce.h"

namespace tensord {

// The cosine of the angle between vectors along an axis; a shorter one counts as of length eps.
Expr CosineSimilarity(const Expr& a, const Expr& b, int64_t axis = 1, double eps = 1e-8);
// The norm of a - b + eps along the last axis.
Expr PairwiseDistance(const Expr& a, const Expr& b, double p = 2, double eps = 1e-6,
                      Keep keep = kDropDims);
// The norms of the differences of all pairs of rows of x [n, m], in order: [n (n - 1) / 2].
Expr Pdist(const Expr& x, double p = 2);

struct EmbeddingOptions {
  std::optional<int64_t> padding_index = std::nullopt;  // a row that gets no gradient
  std::optional<double> max_norm = std::nullopt;        // longer rows are scaled down to it
  double norm_type = 2;
  bool scale_by_frequency = false;  // a row's gradient, by how often `index` has the row
};
// Rows of `table` [n, ..]; zeros for an index outside.
Expr EmbeddingRows(const Expr& table, const Expr& index, const EmbeddingOptions& options);

enum class BagMode { kSum, kMean, kMax };
std::optional<BagMode> BagModeFromName(std::string_view name);  // "sum", "mean", "max"
struct BagOptions {
  BagMode mode = BagMode::kMean;
  std::optional<Expr> weights = std::nullopt;  // of each index; kSum only
  EmbeddingOptions rows;                       // the padding row is not in any bag
};
// Rows of `table` [n, m], reduced over the second axis of `index` [bags, size].
Expr EmbeddingBag(const Expr& table, const Expr& index, const BagOptions& options);
// The same for index [count] and the place at which each bag starts, [bags].
Expr EmbeddingBag(const Expr& table, const Expr& index, const Expr& offsets,
                  const BagOptions& options);

}  // namespace tensord
