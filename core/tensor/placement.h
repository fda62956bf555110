// Where tensors are. Not for front ends but the session that sends programs, which keeps it beside
// what a tensor is: programs are over whole tensors until partition.h divides them.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor/expr.h"
#include "core/tensor/partition.h"

namespace tensord {

// The devices that have a tensor, by number; several have it divided along an axis, or whole each.
// None: it goes where it is used.
struct Placement {
  std::vector<int64_t> devices;
  int64_t axis = kWhole;

  bool operator==(const Placement&) const = default;
};

// The value, at another place; its derivative is the derivative at the first.
Expr Place(const Expr& x, const Placement& from, const Placement& to);

// Of a Place node: its target, and where its source is.
Placement TargetOf(const Node* place);
Placement SourceOf(const Node* place);

}  // namespace tensord
