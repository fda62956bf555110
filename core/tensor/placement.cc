#include "core/tensor/placement.h"

#include "core/tensor/build.h"

namespace tensord {

// The attribute: axis and number of devices of the target, those of the source, the devices of
// both.
Expr Place(const Expr& x, const Placement& from, const Placement& to) {
  if (!x.ok()) return x;
  Dims ints = {to.axis, static_cast<int64_t>(to.devices.size()), from.axis,
               static_cast<int64_t>(from.devices.size())};
  ints.insert(ints.end(), to.devices.begin(), to.devices.end());
  ints.insert(ints.end(), from.devices.begin(), from.devices.end());
  return Apply(Op::kPlace, {x}, ints);
}

Placement TargetOf(const Node* place) {
  const auto devices = place->ints.subspan(4, static_cast<size_t>(place->ints[1]));
  return {{devices.begin(), devices.end()}, place->ints[0]};
}

Placement SourceOf(const Node* place) {
  const auto devices = place->ints.last(static_cast<size_t>(place->ints[3]));
  return {{devices.begin(), devices.end()}, place->ints[2]};
}

}  // namespace tensord
