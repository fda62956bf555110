#include "core/tensor/distance.h"

#include <limits>
#include <vector>

#include "core/tensor/build.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/index.h"
#include "core/tensor/movement.h"
#include "core/tensor/order.h"
#include "core/tensor/scatter.h"
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
  if (options.rows.scale_by_frequency && options.mode == BagMode::kMax) {
    return Fail(table,
                "embedding_bag: gradients scaled by frequency are for modes 'sum' and 'mean'");
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

// The padding row counted from the start, or the error.
std::optional<Expr> ResolvePadding(const Expr& table, EmbeddingOptions& options) {
  if (!options.padding_index) return std::nullopt;
  const int64_t count = table.shape()[0], given = *options.padding_index;
  options.padding_index = given < 0 ? given + count : given;
  if (*options.padding_index >= 0 && *options.padding_index < count) return std::nullopt;
  return Fail(table, "embedding: padding_idx {} of {} rows", given, count);
}

Expr NotPadding(const Expr& index, const EmbeddingOptions& options) {
  if (options.padding_index) return Ne(index, *options.padding_index);
  return Full(index.graph(), index.shape(), true, DType::kBool);
}

}  // namespace

Expr CosineSimilarity(const Expr& a, const Expr& b, int64_t axis, double eps) {
  Expr x = a, y = b;
  if (std::optional<Expr> error = AsFloats({&x, &y})) return *error;
  if (std::optional<Expr> error = Unify("cosine_similarity", {&x, &y})) return *error;
  const auto unit = [&](const Expr& v) {
    return v / Clamp(VectorNorm(v, 2, axis, kKeepDims), eps, std::nullopt);
  };
  return Sum(unit(x) * unit(y), axis);
}

Expr PairwiseDistance(const Expr& a, const Expr& b, double p, double eps, Keep keep) {
  Expr x = a, y = b;
  if (std::optional<Expr> error = AsFloats({&x, &y})) return *error;
  return VectorNorm(x - y + eps, p, -1, keep);
}

Expr Pdist(const Expr& rows, double p) {
  Expr x = rows;
  if (std::optional<Expr> error = AsFloats({&x})) return *error;
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
  const auto beside_rows = [&](Expr x) {
    for (int64_t i = 0; i < axes; ++i) x = Unsqueeze(x, -1);
    return BroadcastTo(x, rows.shape());
  };
  if (options.scale_by_frequency) {
    const Expr counts = BinCount(Flatten(index), table.shape()[0]);
    const Expr share = 1 / Cast(Maximum(Embedding(counts, index), 1), rows.dtype());
    rows = WithSlope(rows, rows, beside_rows(share));
  }
  EmbeddingOptions resolved = options;
  if (auto error = ResolvePadding(table, resolved)) return *error;
  if (resolved.padding_index) {
    rows = Where(beside_rows(Eq(index, *resolved.padding_index)), Detach(rows), rows);
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
  EmbeddingOptions row_options = options.rows;
  if (auto error = ResolvePadding(table, row_options)) return *error;
  Expr rows = EmbeddingRows(table, index, row_options);
  if (options.weights) rows = rows * Unsqueeze(*options.weights, 2);
  return Bagged(rows, NotPadding(index, row_options), options);
}

Expr EmbeddingBag(const Expr& table, const Expr& index, const Expr& offsets,
                  const BagOptions& options) {
  if (auto error = CheckBag(table, index, options)) return *error;
  if (!offsets.ok()) return offsets;
  if (index.rank() != 1 || offsets.rank() != 1) {
    return Fail(table, "embedding_bag: indices {} and offsets {} are not two vectors",
                ShapeText(index.shape()), ShapeText(offsets.shape()));
  }
  EmbeddingOptions row_options = options.rows;
  if (auto error = ResolvePadding(table, row_options)) return *error;
  Expr rows = EmbeddingRows(table, index, row_options);
  if (options.weights) rows = rows * Unsqueeze(*options.weights, 1);
  if (!rows.ok()) return rows;
  // Index i is in the last bag that starts at i or before.
  const int64_t bags = offsets.shape()[0], m = table.shape()[1];
  const Expr place = IndexAlong(index, 0, DType::kInt64);
  const Expr last =
      Cast(SearchSorted(Cast(offsets, DType::kInt64), place, true), DType::kInt32) - 1;
  const Expr bag = Where(NotPadding(index, row_options), last, -1);  // -1: in none
  const Expr nothing = Zeros(table.graph(), {bags, m}, rows.dtype());
  if (options.mode == BagMode::kMax) {
    return IndexReduce(nothing, 0, bag, rows, ReduceMode::kMax, /*include_self=*/false);
  }
  const Expr sum = IndexAdd(nothing, 0, bag, rows);
  if (options.mode == BagMode::kSum) return sum;
  const Expr one = FullLike(Cast(bag, DType::kInt32), 1);
  const Expr count = IndexAdd(Zeros(table.graph(), {bags}, DType::kInt32), 0, bag, one);
  return sum / Cast(Unsqueeze(Maximum(count, 1), 1), sum.dtype());
}

}  // namespace tensord
