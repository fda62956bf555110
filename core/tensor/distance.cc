#include "core/tensor/distance.h"

#include <limits>
#include <vector>

#include "core/tensor/build.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/index.h"
#include "core/tensor/movement.h"
#include "core/tensor/statistics.h"

namespace tensord {
namespace {

// Bags over axis 1 of rows [bags, size, m], of which `inside` [bags, size] says which count.
Expr Bagged(const Expr& rows, const Expr& inside, const BagOptions& options) {
  if (!rows.ok()) return rows;
  if (!inside.ok()) return inside;
  const Expr counts = Unsqueeze(inside, 2);
  if (options.mode == BagMode::kMax) {
    if (!rows.ok() || rows.shape()[1] == 0) return Sum(rows, 1);
    const Expr most = Max(Where(counts, rows, -std::numeric_limits<double>::infinity()), 1);
    return Where(Any(counts, 1), most, 0);
  }
  const Expr sum = Sum(Where(counts, rows, 0), 1);
  if (options.mode == BagMode::kSum) return sum;
  return sum / Maximum(Sum(Cast(counts, rows.dtype()), 1), 1);
}

std::optional<Expr> CheckBag(const Expr& table, const Expr& index, const BagOptions& options) {
  if (!table.ok()) return table;
  if (!index.ok()) return index;
  if (table.rank() != 2) {
    return Fail(table, "embedding_bag: the table has shape {}, it needs two axes",
                ShapeText(table.shape()));
  }
  if (!options.weights) return std::nullopt;
  if (!options.weights->ok()) return *options.weights;
  if (options.mode != BagMode::kSum) {
    return Fail(table, "embedding_bag: weights of samples need mode 'sum'");
  }
  if (options.weights->shape() != index.shape()) {
    return Fail(table, "embedding_bag: weights {} for indices {}",
                ShapeText(options.weights->shape()), ShapeText(index.shape()));
  }
  return std::nullopt;
}

Expr NotPadding(const Expr& index, const EmbeddingOptions& options) {
  if (options.padding_index) return Ne(index, *options.padding_index);
  return Full(index.graph(), index.shape(), true, DType::kBool);
}

}  // namespace

Expr CosineSimilarity(const Expr& a, const Expr& b, int64_t axis, double eps) {
  Expr x = a, y = b;
  if (std::optional<Expr> error = Unify("cosine_similarity", {&x, &y})) return *error;
  const auto unit = [&](const Expr& v) {
    return v / Clamp(VectorNorm(v, 2, axis, kKeepDims), eps, std::nullopt);
  };
  return Sum(unit(x) * unit(y), axis);
}

Expr PairwiseDistance(const Expr& a, const Expr& b, double p, double eps, Keep keep) {
  return VectorNorm(a - b + eps, p, -1, keep);
}

Expr Pdist(const Expr& x, double p) {
  if (!x.ok()) return x;
  if (x.rank() != 2) return Fail(x, "pdist: input {} is no matrix", ShapeText(x.shape()));
  const int64_t n = x.shape()[0], pairs = n * (n - 1) / 2;
  // Pair k of (i, j), i < j, from the triangle number that it lies under, counted from the end.
  const Expr back = Arange(x.graph(), pairs - 1, -1, -1, DType::kInt64);
  const Expr guess =
      Cast(Floor((Sqrt(Cast(back, DType::kFloat64) * 8 + 1) - 1) * 0.5), DType::kInt64);
  const Expr i = (n - 2) - guess;
  const Expr j = (n - 1) - (back - FloorDivide(guess * (guess + 1), 2));
  return VectorNorm(Embedding(x, i) - Embedding(x, j), p, -1);
}

Expr EmbeddingRows(const Expr& table, const Expr& index, const EmbeddingOptions& options) {
  Expr rows = Embedding(table, index);
  if (!rows.ok()) return rows;
  const int64_t axes = rows.rank() - index.rank();
  if (options.max_norm) {
    Dims over;
    for (int64_t axis = -axes; axis < 0; ++axis) over.push_back(axis);
    const Expr norm = Detach(
        VectorNorm(rows, options.norm_type, Axes(absl::Span<const int64_t>(over)), kKeepDims));
    const Expr scale = *options.max_norm / (norm + 1e-7);
    rows = rows * Where(Gt(norm, *options.max_norm), scale, 1);
  }
  if (options.padding_index) {
    const int64_t count = table.shape()[0];
    const int64_t padding =
        *options.padding_index < 0 ? *options.padding_index + count : *options.padding_index;
    if (padding < 0 || padding >= count) {
      return Fail(table, "embedding: padding_idx {} of {} rows", *options.padding_index, count);
    }
    Expr mask = Eq(index, padding);
    for (int64_t i = 0; i < axes; ++i) mask = Unsqueeze(mask, -1);
    rows = Where(mask, Detach(rows), rows);
  }
  return rows;
}

std::optional<BagMode> BagModeFromName(std::string_view name) {
  if (name == "sum") return BagMode::kSum;
  if (name == "mean") return BagMode::kMean;
  if (name == "max") return BagMode::kMax;
  return std::nullopt;
}

Expr EmbeddingBag(const Expr& table, const Expr& index, const BagOptions& options) {
  if (auto error = CheckBag(table, index, options)) return *error;
  if (index.rank() != 2) {
    return Fail(table, "embedding_bag: indices {} without offsets are [bags, size]",
                ShapeText(index.shape()));
  }
  Expr rows = EmbeddingRows(table, index, options.rows);
  if (options.weights) rows = rows * Unsqueeze(*options.weights, 2);
  return Bagged(rows, NotPadding(index, options.rows), options);
}

Expr EmbeddingBag(const Expr& table, const Expr& index, const Expr& offsets,
                  const BagOptions& options) {
  if (auto error = CheckBag(table, index, options)) return *error;
  if (!offsets.ok()) return offsets;
  if (index.rank() != 1 || offsets.rank() != 1) {
    return Fail(table, "embedding_bag: indices {} and offsets {} are not two vectors",
                ShapeText(index.shape()), ShapeText(offsets.shape()));
  }
  Expr rows = EmbeddingRows(table, index, options.rows);
  if (options.weights) rows = rows * Unsqueeze(*options.weights, 1);
  // Index i is in the last bag that starts at i or before.
  const int64_t bags = offsets.shape()[0];
  const Expr place = IndexAlong(index, 0, DType::kInt64);
  const Expr started = Le(Unsqueeze(Cast(offsets, DType::kInt64), 1), place);  // [bags, count]
  const Expr bag = Sum(Cast(started, DType::kInt32), 0) - 1;
  const Expr number = Reshape(Arange(table.graph(), 0, bags, 1, DType::kInt32), {bags, 1});
  const Expr inside = LogicalAnd(Eq(bag, number), NotPadding(index, options.rows));
  return Bagged(Unsqueeze(rows, 0), inside, options);
}

}  // namespace tensord
