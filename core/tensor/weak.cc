#include "core/tensor/weak.h"

#include <absl/container/flat_hash_map.h>
#include <absl/container/inlined_vector.h>

#include <limits>

#include "core/base/check.h"
#include "core/base/status.h"

namespace tensord {

DType StrongDType(const Node* node) {
  const DType dtype = Strong(node->dtype);
  if (node->dtype != DType::kWeakInt) return dtype;
  const int64_t max = dtype == DType::kUint64 ? std::numeric_limits<int64_t>::max() : IntMax(dtype);
  return node->lo >= IntMin(dtype) && node->hi <= max ? dtype : DType::kInt64;
}

absl::StatusOr<const Node*> CopyStrong(Graph& to, const Node* node,
                                       absl::Span<const Node* const> src) {
  const DType dtype = StrongDType(node);
  if (node->IsConst() && dtype != node->dtype) {
    return IsFloat(dtype) ? to.Float(dtype, node->Float()) : to.Int(dtype, node->Int());
  }
  absl::InlinedVector<const Node*, 4> sources(src.begin(), src.end());
  if (In(node->op, ElementwiseOps()) && node->op != Op::kCast) {
    DType common = node->dtype == DType::kWeakInt ? dtype : DType::kBool;
    for (size_t i = 0; i < src.size(); ++i) {
      if (IsWeak(node->src[i]->dtype)) common = Promote(common, src[i]->dtype);
    }
    for (size_t i = 0; i < src.size(); ++i) {
      if (IsWeak(node->src[i]->dtype)) sources[i] = to.Cast(sources[i], common);
    }
  }
  return to.TryMake({.op = node->op,
                     .src = sources,
                     .ints = node->ints,
                     .text = node->text,
                     .dtype = dtype,
                     .lanes = node->lanes});
}

std::vector<const Node*> CopyStrong(Graph& to, absl::Span<const Node* const> roots) {
  absl::flat_hash_map<const Node*, const Node*> copies;
  for (const Node* node : TopologicalOrder(roots)) {
    std::vector<const Node*> src;
    for (const Node* old : node->src) src.push_back(copies.at(old));
    const absl::StatusOr<const Node*> copy = CopyStrong(to, node, src);
    TD_CHECK(copy.ok(), Message(copy.status()));
    copies[node] = *copy;
  }
  std::vector<const Node*> results;
  for (const Node* root : roots) results.push_back(to.Cast(copies.at(root), StrongDType(root)));
  return results;
}

}  // namespace tensord
