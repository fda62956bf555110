// Sizes in the tensor language are int64. One that varies from run to run, an expression over
// variables, is a code: a number far below zero that names the expression, the same in every graph.
// So shapes are compared and copied as ever, and most operations need not know which sizes vary.
// Arithmetic on sizes goes through the functions here; on a code by itself it makes a number that
// is no code, which no operation takes.
//
//   int64_t n = *VariableSize("n", 1, 512);
//   Expr y = Reshape(x, {n, -1});     // x: [n, 3, 4]
//   SizeText(*SizePlus(n, 1));        // "n + 1"
//
// Thread-safe.
#pragma once

#include <absl/status/statusor.h>

#include <limits>
#include <string>
#include <string_view>

#include "core/ir/dims.h"
#include "core/tensor/expr.h"

namespace tensord {

// Everything below this is a code or made from one.
inline constexpr int64_t kLastCode = -(int64_t{1} << 60);
inline bool Varies(int64_t size) { return size < kLastCode; }
bool AnyVaries(Shape shape);

// The code of a variable as a size.
absl::StatusOr<int64_t> VariableSize(std::string_view name, int64_t min, int64_t max);

// The size as a part of a graph, and back.
absl::StatusOr<Dim> DimOfSize(Graph& graph, int64_t size);
absl::StatusOr<Sizes> DimsOfShape(Graph& graph, Shape shape);
int64_t SizeOf(Dim dim);
// Its value in computations.
Expr SizeValue(Graph& graph, int64_t size, DType dtype);

// By intervals; a number is itself.
int64_t SizeLow(int64_t size);
int64_t SizeHigh(int64_t size);
// Whether a <= b for every value of the variables; false if that can't be told.
bool SizeAtMost(int64_t a, int64_t b);

// Add, Sub, Mul, FloorDiv, FloorMod, Max, Min.
absl::StatusOr<int64_t> SizeArithmetic(Op op, int64_t a, int64_t b);
absl::StatusOr<int64_t> SizePlus(int64_t a, int64_t b);
absl::StatusOr<int64_t> SizeMinus(int64_t a, int64_t b);
absl::StatusOr<int64_t> SizeProduct(Shape sizes);

// What the variables are called: {name, min, max}.
struct SizeVariable {
  std::string name;
  int64_t min, max;
  bool operator==(const SizeVariable&) const = default;
};
std::vector<SizeVariable> VariablesOfSize(int64_t size);
// The number for given values of the variables.
int64_t SizeIn(int64_t size, const std::function<int64_t(std::string_view name)>& value_of);

std::string SizeText(int64_t size);  // "n + 1"

// Sources and ints of an op with sizes (Reshape, Pad ...) that may vary.
absl::StatusOr<SizedOp> MakeSizedOp(Graph& graph, Op op, absl::Span<const Node* const> operands,
                                    Shape ints);

}  // namespace tensord
