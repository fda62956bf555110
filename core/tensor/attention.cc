#include "core/tensor/attention.h"

#include <cmath>
#include <limits>

#include "core/tensor/build.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/movement.h"
#include "core/tensor/nn.h"
#include "core/tensor/product.h"
#include "core/tensor/reduce.h"

namespace tensord {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

}  // namespace

Expr ScaledDotProductAttention(const Expr& query, const Expr& key, const Expr& value,
                               const AttentionOptions& options) {
  for (const Expr* x : {&query, &key, &value}) {
    if (!x->ok()) return *x;
  }
  for (const std::optional<Expr>* x : {&options.mask, &options.random}) {
    if (*x && !(*x)->ok()) return **x;
  }
  const auto fail = [&](std::string_view rule) {
    return Fail(query, "attention: query {}, key {}, value {}: {}", ShapeText(query.shape()),
                ShapeText(key.shape()), ShapeText(value.shape()), rule);
  };
  if (query.rank() < 2 || key.rank() < 2 || value.rank() < 2) return fail("needs two axes or more");
  const int64_t queries = query.shape()[query.rank() - 2], keys = key.shape()[key.rank() - 2];
  const int64_t dim = query.shape()[query.rank() - 1];
  if (key.shape()[key.rank() - 1] != dim) return fail("query and key differ in their last size");
  if (value.shape()[value.rank() - 2] != keys) return fail("key and value differ in length");
  if (options.mask && options.is_causal) return fail("give a mask or is_causal, not both");

  const DType promoted = Promote(Promote(query.dtype(), key.dtype()), value.dtype());
  const DType compute = ComputeDType(promoted);
  Expr q = Cast(query, compute), k = Cast(key, compute), v = Cast(value, compute);
  std::optional<Expr> mask = options.mask;
  std::optional<Expr> random = options.random;
  const bool grouped =
      options.grouped_heads && query.rank() >= 3 && key.rank() >= 3 && value.rank() >= 3;
  if (grouped) {
    const int64_t heads = query.shape()[query.rank() - 3];
    const int64_t kv_heads = key.shape()[key.rank() - 3];
    if (kv_heads == 0 || heads % kv_heads != 0 || value.shape()[value.rank() - 3] != kv_heads) {
      return fail("the heads of the query are no multiple of those of key and value");
    }
    // Heads that share a key become an axis that keys and values broadcast over.
    const int64_t group = heads / kv_heads;
    q = Unflatten(q, -3, {kv_heads, group});
    k = Unsqueeze(k, -3);
    v = Unsqueeze(v, -3);
    if (mask && mask->rank() >= 3) {
      const bool per_head = mask->shape()[mask->rank() - 3] == heads;
      mask = per_head ? Unflatten(*mask, -3, {kv_heads, group}) : Unsqueeze(*mask, -3);
    }
    if (random) random = Unflatten(*random, -3, {kv_heads, group});
  }
  const double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(dim)));
  Expr scores = MatMul(q, Transpose(k, -1, -2)) * scale;
  if (!scores.ok()) return scores;
  if (options.is_causal) {
    const Expr keep = Tril(Ones(query.graph(), {queries, keys}, DType::kBool));
    scores = Where(keep, scores, -kInf);
  } else if (mask) {
    scores = mask->dtype() == DType::kBool ? Where(*mask, scores, -kInf) : scores + *mask;
  }
  Expr weights = Softmax(scores, -1);
  if (random) weights = Dropout(weights, *random, options.dropout_p);
  const Expr y = MatMul(weights, v);
  return Cast(grouped ? Flatten(y, -4, -3) : y, LeastUpperFloat(promoted));
}

Dims AttentionScoresShape(Shape query, Shape key, bool grouped_heads) {
  if (query.size() < 2 || key.size() < 2) return {};
  Dims from(query.begin(), query.end() - 2), to(key.begin(), key.end() - 2);
  if (grouped_heads && !from.empty() && !to.empty()) to.back() = from.back();
  std::optional<Dims> shape = BroadcastShapes(from, to);
  if (!shape) return {};
  shape->insert(shape->end(), {query[query.size() - 2], key[key.size() - 2]});
  return *shape;
}

}  // namespace tensord
