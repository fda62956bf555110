// Expr: a tensor-level node, or the error that kept it from being made. The tensor language is
// functions from Expr to Expr, so that operations compose without a check at each step; the first
// error sticks and front ends ask for it once per call.
//
//   Expr y = Softmax(MatMul(x, w), -1);
//   if (!y.ok()) return y.status();      // "matmul: inner sizes differ: [2, 3] @ [4, 5]"
//
// A value type, two pointers wide. Not thread-safe: belongs to its graph.
#pragma once

#include <absl/status/status.h>

#include <memory>

#include "core/ir/graph.h"

namespace tensord {

class Expr {
 public:
  Expr(Graph* graph, const Node* node) : graph_(graph), node_(node) {}
  Expr(Graph* graph, absl::Status error)
      : graph_(graph), error_(std::make_shared<const absl::Status>(std::move(error))) {}
  Expr(Graph* graph, absl::StatusOr<const Node*> made) : graph_(graph) {
    if (made.ok()) {
      node_ = *made;
    } else {
      error_ = std::make_shared<const absl::Status>(made.status());
    }
  }

  bool ok() const { return error_ == nullptr; }
  absl::Status status() const { return error_ ? *error_ : absl::OkStatus(); }

  // Valid only if ok().
  const Node* node() const { return node_; }
  // A size that varies is a code, see size.h.
  Shape shape() const { return node_->has_dims() ? CodedShape() : node_->shape; }
  DType dtype() const { return node_->dtype; }
  int64_t rank() const { return node_->rank(); }
  Graph& graph() const { return *graph_; }

 private:
  Shape CodedShape() const;

  Graph* graph_;
  const Node* node_ = nullptr;
  std::shared_ptr<const absl::Status> error_;  // shared by every expression that it spoiled
};

}  // namespace tensord
