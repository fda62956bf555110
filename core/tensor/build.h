// What the functions of the tensor language share: making a primitive node, and errors phrased for
// a user. Not for front ends.
#pragma once

#include <absl/container/inlined_vector.h>

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/status.h"
#include "core/ir/dtype.h"
#include "core/tensor/expr.h"
#include "core/tensor/number.h"
#include "core/tensor/size.h"

namespace tensord {

using Dims = absl::InlinedVector<int64_t, 8>;

constexpr int64_t kMaxElements = int64_t{1} << 48;  // of a tensor, as the graph allows

std::string ShapeText(Shape shape);  // "[2, 3]"

// The shape with another size of an axis; with one more axis; without one.
Dims WithAxis(Shape shape, int64_t axis, int64_t size);
Dims WithInserted(Shape shape, int64_t axis, int64_t size);
Dims WithoutAxis(Shape shape, int64_t axis);

// The error where the size of an axis varies, for operations that cannot do with one.
std::optional<Expr> NeedsNumber(std::string_view name, const Expr& x, int64_t axis);

// An error in the graph of `at`.
template <typename... Args>
Expr Fail(const Expr& at, fmt::format_string<Args...> format, Args&&... args) {
  return Expr(&at.graph(), InvalidArgument(format, std::forward<Args>(args)...));
}

// A primitive op over operands of fitting shapes and dtypes; the first operand's error if one has.
Expr Apply(Op op, std::initializer_list<Expr> src, absl::Span<const int64_t> ints = {});

// The same for what Python calls an IndexError.
template <typename... Args>
Expr FailIndex(const Expr& at, fmt::format_string<Args...> format, Args&&... args) {
  return Expr(&at.graph(),
              MakeStatus(absl::StatusCode::kOutOfRange, format, std::forward<Args>(args)...));
}

// Whether `axis` counts from the end or the start, as an index below `rank`.
std::optional<int64_t> ResolveAxis(int64_t axis, int64_t rank);
// Whether `axis` means the only element of a tensor without axes, which functions along an axis
// take for a vector of one.
inline bool IsNumberAlong(const Expr& x, int64_t axis) {
  return x.ok() && x.rank() == 0 && (axis == 0 || axis == -1);
}
// The error when it is neither, an IndexError.
Expr AxisError(std::string_view name, const Expr& x, int64_t axis);

// The shape that both broadcast to; nothing if there is none.
std::optional<Dims> BroadcastShapes(Shape a, Shape b);

// Brings operands to one dtype and one shape in place. Returns the error of an operand, or that of
// shapes that do not broadcast, called by `name`.
std::optional<Expr> Unify(std::string_view name, std::initializer_list<Expr*> operands);
// The same without a common dtype.
std::optional<Expr> UnifyShapes(std::string_view name, std::initializer_list<Expr*> operands);

// The same where an operand's elements come out as they went in (Where, Maximum): a weak number
// must be one of the common dtype.
std::optional<Expr> UnifyValues(std::string_view name, std::initializer_list<Expr*> operands);

// A constant beside `like`, as a tensor without axes. For arithmetic, which wraps: an integer
// counts by its bits, 0xFFFFFFFF beside int32 is -1.
Expr NumberBeside(const Expr& like, Number value);
// The same for what is kept as it is: an integer dtype must have the number.
Expr ValueBeside(const Expr& like, Number value);
// The same for comparisons, which are right for numbers that the dtype lacks too.
Expr NumberComparedTo(const Expr& like, Number value);

// The number that a weak tensor is known to be, such as Tensor(300) in Python.
std::optional<Number> KnownNumber(const Expr& x);
// x as elements of `dtype`: a cast, but an integer dtype must have a known number.
Expr AsValueOf(const Expr& x, DType dtype);

// Integers among the operands become the float that all together are promoted to, so that their
// differences and products do not wrap; floats stay. Returns the error of an operand.
std::optional<Expr> AsFloats(std::initializer_list<Expr*> operands);

// In a dtype below float32 sums and transcendental chains lose too much: float32 then, else the
// dtype, and float32 for integers.
DType ComputeDType(DType dtype);

Expr Cast(const Expr& x, DType dtype);  // elementwise.h

// Applies a formula in ComputeDType; the result has the float dtype of x.
template <typename Formula>
Expr InFloat32(const Expr& x, Formula formula) {
  if (!x.ok()) return x;
  return Cast(formula(Cast(x, ComputeDType(x.dtype()))), LeastUpperFloat(x.dtype()));
}

// The same in float64, whatever the dtype.
template <typename Formula>
Expr InFloat64(const Expr& x, Formula formula) {
  if (!x.ok()) return x;
  return Cast(formula(Cast(x, DType::kFloat64)), LeastUpperFloat(x.dtype()));
}
template <typename Formula>
Expr InFloat64(std::string_view name, const Expr& a, const Expr& b, Formula formula) {
  Expr x = a, y = b;
  if (std::optional<Expr> error = Unify(name, {&x, &y})) return *error;
  const DType dtype = LeastUpperFloat(x.dtype());
  return Cast(formula(Cast(x, DType::kFloat64), Cast(y, DType::kFloat64)), dtype);
}

}  // namespace tensord
