// One call of a function of core/tensor on tensors: which tensors are its operands, and the Expr
// that stands for each inside. Internal to client/cc, for operations.cc and functional.cc.
//
//   Call call("Linear", Call::kCopy);
//   Add(call, x), Add(call, bias);  // a Tensor, a std::optional of one
//   return call.One([&] { return Linear(call(x), call(bias)); });
//
// Not thread-safe.
#pragma once

#include <absl/functional/function_ref.h>
#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <optional>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "client/cc/tensor.h"
#include "core/tensor/expr.h"

namespace tensord::client {

class Call {
 public:
  // Whether results that are movement of the elements of the one operand are views of it.
  enum Kind { kCopy, kView };
  Call(std::string_view name, Kind kind) : name_(name), kind_(kind) {}

  void AddOperand(const Tensor& tensor);
  Expr operator()(const Tensor& tensor) const;  // within the functions below
  template <typename T>
  auto operator()(const T& argument) const;

  Tensor One(absl::FunctionRef<Expr()> function);
  std::vector<Tensor> Many(size_t count, absl::FunctionRef<std::vector<Expr>()> function);
  // As many as the function makes.
  absl::StatusOr<std::vector<Tensor>> Any(
      absl::FunctionRef<absl::StatusOr<std::vector<Expr>>()> function);

 private:
  std::vector<StateRef> Apply(size_t count,
                              absl::FunctionRef<absl::StatusOr<std::vector<Expr>>()> function);

  const std::string_view name_;
  const Kind kind_;
  std::vector<StateRef> operands_;  // each once
  absl::Span<const Expr> exprs_;    // by operand, while a function is called
};

// ---- what holds tensors: how they become operands, and the same of Expr

inline void Add(Call& call, const Tensor& tensor) { call.AddOperand(tensor); }
inline Expr ToExpr(const Call& call, const Tensor& tensor) { return call(tensor); }

// Anything else is as it is.
template <typename T>
void Add(Call&, const T&) {}
template <typename T>
T ToExpr(const Call&, const T& other) {
  return other;
}

template <typename T>
using ExprOf = decltype(ToExpr(std::declval<const Call&>(), std::declval<const T&>()));

template <typename T>
void Add(Call& call, const std::optional<T>& maybe) {
  if (maybe) Add(call, *maybe);
}
template <typename T>
std::optional<ExprOf<T>> ToExpr(const Call& call, const std::optional<T>& maybe) {
  if (!maybe) return std::nullopt;
  return ToExpr(call, *maybe);
}

template <typename... T>
void Add(Call& call, const std::variant<T...>& one_of) {
  std::visit([&call](const auto& value) { Add(call, value); }, one_of);
}
template <typename... T>
std::variant<ExprOf<T>...> ToExpr(const Call& call, const std::variant<T...>& one_of) {
  return std::visit(
      [&call](const auto& value) { return std::variant<ExprOf<T>...>(ToExpr(call, value)); },
      one_of);
}

template <typename T>
void Add(Call& call, absl::Span<const T> several) {
  for (const T& value : several) Add(call, value);
}
template <typename T>
std::vector<ExprOf<T>> ToExpr(const Call& call, absl::Span<const T> several) {
  std::vector<ExprOf<T>> exprs;
  for (const T& value : several) exprs.push_back(ToExpr(call, value));
  return exprs;
}

template <typename T>
auto Call::operator()(const T& argument) const {
  return ToExpr(*this, argument);
}

}  // namespace tensord::client
