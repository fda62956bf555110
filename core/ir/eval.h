// Eval: what each elementwise op means, on scalars. The one definition: constant folding, the tests
// of rewrite rules and the interpreter all call it, and backends are compared with it.
//
//   Scalar x = Scalar::Int(DType::kUint8, 200), y = Scalar::Int(DType::kUint8, 100);
//   EvalOp(Op::kAdd, DType::kUint8, std::array{x, y})->i == 44;
//
// Rounding: to nearest, ties to even, after every op. NaN is one value: its sign and payload are
// not kept.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "core/ir/dtype.h"
#include "core/ir/op.h"

namespace tensord {

inline constexpr double kLn2 = 0.6931471805599453;

struct Scalar {
  DType dtype = DType::kVoid;
  int64_t i = 0;  // integers, bool (0 or 1) and index; uint64 as two's complement
  double f = 0;   // floats, already rounded to the dtype

  // The value brought into the dtype: integers wrap (bool: not zero), floats round.
  static Scalar Int(DType dtype, int64_t value);
  static Scalar Float(DType dtype, double value);
  // `value` in any dtype, by the rules of Cast.
  static Scalar Of(DType dtype, double value);

  // As an attribute of a Const node and back: the integer, or the bits of the double.
  int64_t attribute() const;
  static Scalar FromAttribute(DType dtype, int64_t attribute);

  // As bytes in memory and back, in the low bits.
  uint64_t ToBits() const;
  static Scalar FromBits(DType dtype, uint64_t bits);
};

// The same dtype and value. NaN is NaN, but 0 is not -0.
bool operator==(const Scalar& a, const Scalar& b);

// The result of `op`, of dtype `result`, on these sources; nullopt if the op isn't elementwise or
// isn't defined on their types (Exp of an integer, Sub of bool).
std::optional<Scalar> EvalOp(Op op, DType result, std::span<const Scalar> src);

// The value that leaves every other unchanged when combined with it.
Scalar ReduceIdentity(ReduceKind kind, DType dtype);

// A running reduction: what it starts from, and what it is after one more value.
Scalar ScanIdentity(ScanKind kind, DType dtype);
Scalar EvalScan(ScanKind kind, const Scalar& total, const Scalar& value);

// log(exp(a) + exp(b)) in primitive ops, the one definition for scalars and for nodes:
// make(op, {operands...}) and number(1.0) give a T.
template <typename T, typename Make, typename Number>
T LogAdd(const T& a, const T& b, const Make& make, const Number& number) {
  const T most = make(Op::kMax, {a, b}), least = make(Op::kMin, {a, b});
  const T ratio = make(Op::kExp, {make(Op::kSub, {least, most})});
  const T more = make(Op::kLog, {make(Op::kAdd, {ratio, number(1.0)})});
  // Equal infinities have no difference.
  return make(Op::kWhere, {make(Op::kCmpEq, {a, b}), make(Op::kAdd, {most, number(kLn2)}),
                           make(Op::kAdd, {most, more})});
}

// Nearest value of a float type, as Scalar::Float.
double RoundTo(DType dtype, double value);
// Value modulo 2^bits, in the range of the type; for bool whether it is not zero.
int64_t WrapTo(DType dtype, int64_t value);

// Bits of a float type in memory (in the low bits) and back. Encoding rounds; float8 types saturate
// finite numbers, and those without infinity turn it into NaN.
uint64_t EncodeFloat(DType dtype, double value);
double DecodeFloat(DType dtype, uint64_t bits);

}  // namespace tensord
