// Calls of the tensor language with operands that may be absent, or with several results; and
// arguments that say something for each axis. Internal to client/python.
#pragma once

#include <string>
#include <vector>

#include "client/python/bind.h"
#include "core/base/status.h"
#include "core/tensor/movement.h"

namespace tensord::python {

// A function over x and operands that may be absent: fn(x, optionals).
template <typename Function>
Tensor WithOptional(const Tensor& x, const std::vector<std::optional<Tensor>>& optionals,
                    Function function) {
  std::vector<client::StateRef> operands = {x.state()};
  for (const auto& optional : optionals) {
    if (optional) operands.push_back(optional->state());
  }
  return Checked(Tensor(x.session().Apply(operands, [&](Graph&, absl::Span<const Expr> sources) {
    std::vector<std::optional<Expr>> given;
    size_t next = 1;
    for (const auto& optional : optionals) {
      given.push_back(optional ? std::optional<Expr>(sources[next++]) : std::nullopt);
    }
    return function(sources[0], given);
  })));
}

// A function of `count` results.
template <typename Function>
std::vector<Tensor> LiftMany(const std::vector<Tensor>& operands, size_t count, Function function) {
  std::vector<client::StateRef> states, made;
  for (const Tensor& operand : operands) states.push_back(operand.state());
  made = operands[0].session().ApplyMany(
      states, count, [&](Graph&, absl::Span<const Expr> sources) -> std::vector<Expr> {
        return function(sources);
      });
  std::vector<Tensor> results;
  for (client::StateRef& state : made) results.push_back(Checked(Tensor(std::move(state))));
  return results;
}

inline std::optional<DType> OptionalDType(py::handle dtype) {
  return dtype.is_none() ? std::nullopt : std::optional<DType>(ParseDType(dtype));
}

// One number for all axes, or one for each.
inline Ints PerAxis(const std::string& what, py::handle value, size_t axes) {
  Ints ints = ParseInts(value);
  if (ints.size() == 1) ints.resize(axes, ints[0]);
  if (ints.size() != axes) {
    Raise(InvalidArgument("{}: {} numbers for {} axes; give one, or one per axis", what,
                          ints.size(), axes));
  }
  return ints;
}

// As PerAxis, or both sides of each axis beginning with the last.
inline std::vector<PadAmount> ParsePadding(const std::string& what, py::handle value, size_t axes) {
  const Ints ints = ParseInts(value);
  std::vector<PadAmount> amounts(axes);
  if (ints.size() == 2 * axes) {
    for (size_t i = 0; i < axes; ++i) amounts[axes - 1 - i] = {ints[2 * i], ints[2 * i + 1]};
    return amounts;
  }
  if (ints.size() != 1 && ints.size() != axes) {
    Raise(InvalidArgument(
        "{}: {} numbers of padding for {} axes; give one, one per axis, or two per axis", what,
        ints.size(), axes));
  }
  for (size_t i = 0; i < axes; ++i) {
    const int64_t each = ints[ints.size() == 1 ? 0 : i];
    amounts[i] = {each, each};
  }
  return amounts;
}

}  // namespace tensord::python
