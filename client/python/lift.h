// Binding functions of core/tensor as they are: what such a function takes as an Expr is a Tensor
// in Python, Axes are an int, several or None, a Reduction is its name, and so on.
//
//   Method(tensor, "hypot", [](const Expr& x, const Beside& other) { return Hypot(x, other); },
//          "sqrt(x^2 + other^2)", py::arg("other"));
#pragma once

#include <array>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "client/python/bind.h"
#include "core/base/status.h"
#include "core/tensor/build.h"
#include "core/tensor/loss.h"
#include "core/tensor/reduce.h"

namespace tensord::python {

// An operand that may be a plain number, which is weak beside the tensor that the method is of, and
// which its dtype must have.
struct Beside {
  Expr expr;
  operator const Expr&() const { return expr; }  // NOLINT: it is the operand
};
// The same that may be None.
using MaybeBeside = std::optional<Beside>;

// The operands of one call, in the order in which they are given.
class Operands {
 public:
  explicit Operands(const Tensor& self) : states_{self.state()} {}
  size_t Add(const Tensor& tensor) {
    states_.push_back(tensor.state());
    return states_.size() - 1;
  }
  absl::Span<const client::StateRef> states() const { return states_; }

 private:
  std::vector<client::StateRef> states_;
};

// How a parameter of type T is given in Python: what pybind11 hands over, what is kept of it, and
// what the function gets. As it is, unless said otherwise below.
template <typename T>
struct Parameter {
  using Python = T;
  using Held = T;
  static Held Hold(Python value, Operands&) { return value; }
  static T Give(const Held& held, absl::Span<const Expr>) { return held; }
};

template <>
struct Parameter<Expr> {
  using Python = const Tensor&;
  using Held = size_t;
  static Held Hold(const Tensor& value, Operands& operands) { return operands.Add(value); }
  static Expr Give(Held held, absl::Span<const Expr> sources) { return sources[held]; }
};

template <>
struct Parameter<std::optional<Expr>> {
  using Python = std::optional<Tensor>;
  using Held = std::optional<size_t>;
  static Held Hold(const Python& value, Operands& operands) {
    return value ? Held(operands.Add(*value)) : std::nullopt;
  }
  static std::optional<Expr> Give(const Held& held, absl::Span<const Expr> sources) {
    return held ? std::optional<Expr>(sources[*held]) : std::nullopt;
  }
};

template <>
struct Parameter<Beside> {
  using Python = py::handle;
  using Held = std::variant<size_t, Number>;
  static Held Hold(py::handle value, Operands& operands) {
    const std::variant<Tensor, Number> operand = ToOperand(value);
    if (const Number* number = std::get_if<Number>(&operand)) return *number;
    return operands.Add(std::get<Tensor>(operand));
  }
  static Beside Give(const Held& held, absl::Span<const Expr> sources) {
    if (const Number* number = std::get_if<Number>(&held)) {
      return {ValueBeside(sources[0], *number)};
    }
    return {sources[std::get<size_t>(held)]};
  }
};

template <>
struct Parameter<MaybeBeside> {
  using Python = py::handle;
  using Held = std::optional<Parameter<Beside>::Held>;
  static Held Hold(py::handle value, Operands& operands) {
    return value.is_none() ? Held() : Held(Parameter<Beside>::Hold(value, operands));
  }
  static MaybeBeside Give(const Held& held, absl::Span<const Expr> sources) {
    if (!held) return std::nullopt;
    return Parameter<Beside>::Give(*held, sources);
  }
};

template <>
struct Parameter<Number> {
  using Python = py::handle;
  using Held = Number;
  static Held Hold(py::handle value, Operands&) {
    const std::optional<Number> number = AsNumber(value);
    if (!number)
      throw py::type_error("an argument is not a number: " + std::string(py::repr(value)));
    return *number;
  }
  static Number Give(const Held& held, absl::Span<const Expr>) { return held; }
};

template <>
struct Parameter<Axes> {
  using Python = py::handle;
  using Held = Axes;
  static Held Hold(py::handle dim, Operands&) {
    if (dim.is_none()) return Axes();
    const Ints axes = ParseInts(dim, "an axis, or None for all,");
    return axes.empty() ? Axes() : Axes(absl::Span<const int64_t>(axes));  // as in PyTorch
  }
  static const Axes& Give(const Held& held, absl::Span<const Expr>) { return held; }
};

// Axes of which none are none, as PyTorch has it for `any` and `all`.
struct ExactAxes {
  Axes axes;
};
template <>
struct Parameter<ExactAxes> {
  using Python = py::handle;
  using Held = ExactAxes;
  static Held Hold(py::handle dim, Operands&) {
    if (dim.is_none()) return {};
    return {Axes(absl::Span<const int64_t>(ParseInts(dim, "an axis, or None for all,")))};
  }
  static const ExactAxes& Give(const Held& held, absl::Span<const Expr>) { return held; }
};

template <>
struct Parameter<Keep> {
  using Python = bool;
  using Held = Keep;
  static Held Hold(bool keepdim, Operands&) { return keepdim ? kKeepDims : kDropDims; }
  static Keep Give(Held held, absl::Span<const Expr>) { return held; }
};

template <>
struct Parameter<Reduction> {
  using Python = std::string;
  using Held = Reduction;
  static Held Hold(const std::string& name, Operands&) {
    const std::optional<Reduction> reduction = ReductionFromName(name);
    if (!reduction) {
      Raise(InvalidArgument("reduction is 'mean', 'sum' or 'none', not '{}'", name));
    }
    return *reduction;
  }
  static Reduction Give(Held held, absl::Span<const Expr>) { return held; }
};

// Of a dtype argument, where None leaves it to the function.
template <>
struct Parameter<std::optional<DType>> {
  using Python = py::handle;
  using Held = std::optional<DType>;
  static Held Hold(py::handle dtype, Operands&) {
    return dtype.is_none() ? Held() : Held(ParseDType(dtype));
  }
  static Held Give(const Held& held, absl::Span<const Expr>) { return held; }
};

// Results: one tensor, or as many as the tuple has.
template <typename R>
struct Results {
  static constexpr size_t kCount = std::tuple_size_v<R>;
  static std::vector<Expr> List(const R& made) {
    return std::apply([](const auto&... each) { return std::vector<Expr>{each...}; }, made);
  }
};

namespace internal {

template <typename R, typename... Rest, typename Function>
auto LiftAs(Function function, const char* name) {
  return [function, name](const Tensor& self, typename Parameter<Rest>::Python... arguments) {
    static_cast<void>(name);  // one result has none
    Operands operands(self);
    // Braces, so that operands are added from left to right.
    const std::tuple<typename Parameter<Rest>::Held...> held{
        Parameter<Rest>::Hold(arguments, operands)...};
    const auto call = [&](absl::Span<const Expr> sources) {
      return std::apply(
          [&](const auto&... each) {
            return function(sources[0], Parameter<Rest>::Give(each, sources)...);
          },
          held);
    };
    if constexpr (std::is_same_v<R, Expr>) {
      return Checked(Tensor(self.session().Apply(
          operands.states(),
          [&](Graph&, absl::Span<const Expr> sources) { return call(sources); })));
    } else {
      constexpr size_t kCount = Results<R>::kCount;
      const std::vector<client::StateRef> made = self.session().ApplyMany(
          operands.states(), kCount,
          [&](Graph&, absl::Span<const Expr> sources) { return Results<R>::List(call(sources)); });
      std::array<py::object, kCount> tensors;
      for (size_t i = 0; i < kCount; ++i) tensors[i] = py::cast(Checked(Tensor(made[i])));
      return Named(name, py::tuple(py::cast(tensors)));
    }
  };
}

template <typename Function, typename R, typename... Rest>
auto LiftMember(Function function, const char* name, R (Function::*)(const Expr&, Rest...) const) {
  return LiftAs<R, std::decay_t<Rest>...>(function, name);
}

}  // namespace internal

// A callable over tensors from one over expressions, the first of which is the receiver. Several
// results are Named.
template <typename Function>
auto Lifted(Function function, const char* name = "") {
  return internal::LiftMember(function, name, &Function::operator());
}
template <typename R, typename... Rest>
auto Lifted(R (*function)(const Expr&, Rest...), const char* name = "") {
  return internal::LiftAs<R, std::decay_t<Rest>...>(function, name);
}

template <typename Function, typename... Arguments>
void Method(py::class_<Tensor>& tensor, const char* name, Function function, const char* doc,
            const Arguments&... arguments) {
  tensor.def(name, Lifted(function, name), arguments..., doc);
}

}  // namespace tensord::python
