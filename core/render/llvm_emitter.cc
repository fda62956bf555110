#include "core/render/llvm_emitter.h"

#include <absl/strings/str_join.h>

#include <bit>
#include <utility>

#include "core/base/check.h"

namespace tensord::llvm_ir {
namespace {

struct ScalarRow {
  std::string_view text;
  std::string_view mangled;
  int bits;
};
constexpr ScalarRow kScalars[] = {
    {"i1", "i1", 1},       {"i8", "i8", 8},       {"i16", "i16", 16},  {"i32", "i32", 32},
    {"i64", "i64", 64},    {"i128", "i128", 128}, {"half", "f16", 16}, {"float", "f32", 32},
    {"double", "f64", 64}, {"ptr", "p0", 64},
};
const ScalarRow& Row(Scalar scalar) { return kScalars[static_cast<int>(scalar)]; }

std::string SplatText(Type type, std::string text) {
  if (type.lanes == 1) return text;
  return fmt::format("splat ({} {})", Row(type.scalar).text, text);
}

}  // namespace

int Bits(Scalar scalar) { return Row(scalar).bits; }

std::string Text(Type type) {
  if (type.lanes == 1) return std::string(Row(type.scalar).text);
  return fmt::format("<{} x {}>", type.lanes, Row(type.scalar).text);
}

std::string Mangle(Type type) {
  if (type.lanes == 1) return std::string(Row(type.scalar).mangled);
  return fmt::format("v{}{}", type.lanes, Row(type.scalar).mangled);
}

std::string Emitter::ScalarZero(Type type) {
  if (type.scalar == Scalar::kPtr) return "null";
  return type.IsFloat() ? "0.0" : "0";
}

Value Emitter::Int(Type type, int64_t value) const {
  const int bits = Bits(type.scalar);
  if (bits == 1) return {SplatText(type, value != 0 ? "true" : "false"), type};
  if (bits < 64)
    value = static_cast<int64_t>(static_cast<uint64_t>(value) << (64 - bits)) >> (64 - bits);
  if (value == 0) return Zero(type);
  return {SplatText(type, fmt::format("{}", value)), type};
}

Value Emitter::Float(Type type, double value) const {
  TD_CHECK(type.scalar == Scalar::kFloat || type.scalar == Scalar::kDouble);
  // LLVM spells a float by the bits of the double of the same value.
  return {SplatText(type, fmt::format("0x{:016X}", std::bit_cast<uint64_t>(value))), type};
}

Value Emitter::Raw(Type type, std::string_view text) {
  Value result{NewName(), type};
  Line("{} = {}", result.text, text);
  return result;
}

Value Emitter::Op(std::string_view instruction, const Value& a, const Value& b) {
  TD_CHECK(a.type == b.type, instruction);
  return Raw(a.type, fmt::format("{} {}, {}", instruction, a.Typed(), b.text));
}

Value Emitter::Compare(std::string_view instruction, const Value& a, const Value& b) {
  TD_CHECK(a.type == b.type, instruction);
  return Raw(a.type.With(Scalar::kI1), fmt::format("{} {}, {}", instruction, a.Typed(), b.text));
}

Value Emitter::Select(const Value& condition, const Value& a, const Value& b) {
  TD_CHECK(a.type == b.type, "select");
  return Raw(a.type, fmt::format("select {}, {}, {}", condition.Typed(), a.Typed(), b.Typed()));
}

Value Emitter::Convert(std::string_view instruction, const Value& x, Scalar to) {
  const Type type = x.type.With(to);
  return Raw(type, fmt::format("{} {} to {}", instruction, x.Typed(), Text(type)));
}

Value Emitter::Bitcast(const Value& x, Scalar to) {
  return x.type.scalar == to ? x : Convert("bitcast", x, to);
}

Value Emitter::Negate(const Value& x) { return Raw(x.type, fmt::format("fneg {}", x.Typed())); }

Value Emitter::MulAdd(const Value& a, const Value& b, const Value& c) {
  if (!has_fma_) return Op("fadd", Op("fmul", a, b), c);
  return Intrinsic("fma", a.type, {a, b, c}, {a.type});
}

Value Emitter::NegMulAdd(const Value& a, const Value& b, const Value& c) {
  if (!has_fma_) return Op("fsub", c, Op("fmul", a, b));
  return Intrinsic("fma", a.type, {Negate(a), b, c}, {a.type});
}

Value Emitter::Polynomial(const Value& x, std::initializer_list<double> coefficients) {
  auto coefficient = std::rbegin(coefficients);
  Value sum = Float(x.type, *coefficient);
  for (++coefficient; coefficient != std::rend(coefficients); ++coefficient) {
    sum = MulAdd(sum, x, Float(x.type, *coefficient));
  }
  return sum;
}

Value Emitter::Splat(const Value& scalar, int lanes) {
  if (lanes == 1) return scalar;
  const Type type{scalar.type.scalar, lanes};
  if (!scalar.text.starts_with('%')) return {SplatText(type, scalar.text), type};
  const Value first = Insert({"poison", type}, scalar, 0);
  return Raw(type, fmt::format("shufflevector {}, {} poison, <{} x i32> zeroinitializer",
                               first.Typed(), Text(type), lanes));
}

Value Emitter::Extract(const Value& vector, int lane) {
  if (vector.type.lanes == 1) return vector;
  return Raw(vector.type.Lane(), fmt::format("extractelement {}, i32 {}", vector.Typed(), lane));
}

Value Emitter::Insert(const Value& vector, const Value& scalar, int lane) {
  return Raw(vector.type,
             fmt::format("insertelement {}, {}, i32 {}", vector.Typed(), scalar.Typed(), lane));
}

Value Emitter::Shuffle(const Value& vector, absl::Span<const int> lanes) {
  const Type type{vector.type.scalar, static_cast<int>(lanes.size())};
  const std::string mask = absl::StrJoin(lanes, ", ", [](std::string* out, int lane) {
    fmt::format_to(std::back_inserter(*out), "i32 {}", lane);
  });
  const Value result =
      Raw(type, fmt::format("shufflevector {}, {} poison, <{} x i32> <{}>", vector.Typed(),
                            Text(vector.type), lanes.size(), mask));
  return result;
}

std::string Emitter::Call(std::string_view name, std::string_view result,
                          std::initializer_list<Value> arguments,
                          std::initializer_list<Type> overloads, std::string_view metadata) {
  std::string symbol = fmt::format("@llvm.{}", name);
  for (const Type& type : overloads) symbol += "." + Mangle(type);
  std::string types, values;
  for (const Value& argument : arguments) {
    const std::string_view separator = types.empty() ? "" : ", ";
    fmt::format_to(std::back_inserter(types), "{}{}", separator, Text(argument.type));
    fmt::format_to(std::back_inserter(values), "{}{}", separator, argument.Typed());
  }
  Global(symbol, fmt::format("declare {} {}({})", result, symbol, types));
  return fmt::format("call {} {}({}){}", result, symbol, values, metadata);
}

Value Emitter::Intrinsic(std::string_view name, Type result, std::initializer_list<Value> arguments,
                         std::initializer_list<Type> overloads, std::string_view metadata) {
  return Raw(result, Call(name, Text(result), arguments, overloads, metadata));
}

void Emitter::VoidIntrinsic(std::string_view name, std::initializer_list<Value> arguments,
                            std::initializer_list<Type> overloads, std::string_view metadata) {
  Line("{}", Call(name, "void", arguments, overloads, metadata));
}

void Emitter::FallInto(const std::string& label) {
  Line("br label %{}", label);
  StartBlock(label);
}

void Emitter::StartBlock(const std::string& label) {
  fmt::format_to(std::back_inserter(body_), "{}:\n", label);
  block_ = label;
}

std::string Emitter::Alloca(Type type) {
  const std::string name = NewName();
  fmt::format_to(std::back_inserter(allocas_), "  {} = alloca {}\n", name, Text(type));
  return name;
}

}  // namespace tensord::llvm_ir
