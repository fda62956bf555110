// The way from a tensor to a view of it: movement by which each element of the view has a place of
// its own in the tensor. It refers to no graph, so it can be taken again from another version of
// the tensor, and backwards, to write.
//
//   auto path = ViewPath::Between(x.node(), x_slice.node());
//   Expr changed = path->Write(x, value);  // x with `value` where x_slice was
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "core/tensor/build.h"
#include "core/tensor/expr.h"

namespace tensord {

class ViewPath {
 public:
  // Nothing if `view` is made of `base` by anything but movement, or has elements more than once,
  // or elements that are none of the base's.
  static std::optional<ViewPath> Between(const Node* base, const Node* view);

  // Goes on from the view.
  void Append(const ViewPath& further);
  // The way up to the last point at which derivatives end, and the rest; nothing if there is none.
  std::optional<std::pair<ViewPath, ViewPath>> AtDetach() const;
  size_t size() const { return steps_.size(); }
  // The view in a tensor that has the base's shape.
  Expr Read(const Expr& base) const;
  // The base with the view's elements replaced by `value`, which has the view's shape.
  Expr Write(const Expr& base, const Expr& value) const;

  friend bool operator==(const ViewPath&, const ViewPath&) = default;

 private:
  struct Step {
    Op op;
    Dims ints;
    Dims source;  // the shape before

    friend bool operator==(const Step&, const Step&) = default;
  };

  // Elements put back where they came from; zeros elsewhere.
  Expr Back(const Expr& view) const;

  std::vector<Step> steps_;
};

}  // namespace tensord
