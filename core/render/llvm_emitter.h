// Writes LLVM IR instructions as text: knows names, types, lanes and constants, nothing of our ops.
//
//   Value y = e.Op("fadd", x, e.Float(x.type, 1.0));     // %v7 = fadd <4 x float> %v3, splat (...)
//
// Not thread-safe: one per function.
#pragma once

#include <absl/types/span.h>
#include <fmt/format.h>

#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tensord::llvm_ir {

enum class Scalar : uint8_t { kI1, kI8, kI16, kI32, kI64, kI128, kHalf, kFloat, kDouble, kPtr };

struct Type {
  Scalar scalar;
  int lanes = 1;

  Type With(Scalar other) const { return {other, lanes}; }
  Type Lane() const { return {scalar, 1}; }
  bool IsFloat() const {
    return scalar == Scalar::kHalf || scalar == Scalar::kFloat || scalar == Scalar::kDouble;
  }
  friend bool operator==(const Type&, const Type&) = default;
};

int Bits(Scalar scalar);
std::string Text(Type type);    // "<4 x float>"
std::string Mangle(Type type);  // "v4f32", as in the names of intrinsics

struct Value {
  std::string text;  // "%v7", "42", "splat (float 0x3FF0000000000000)"
  Type type;

  std::string Typed() const { return Text(type) + " " + text; }
};

class Emitter {
 public:
  explicit Emitter(bool has_fma) : has_fma_(has_fma) {}

  // Constants in all lanes. A float constant must be exact in its type.
  Value Int(Type type, int64_t value) const;
  Value Float(Type type, double value) const;
  Value Zero(Type type) const {
    return {type.lanes == 1 ? ScalarZero(type) : "zeroinitializer", type};
  }

  // Two operands of one type; the result has it too.
  Value Op(std::string_view instruction, const Value& a, const Value& b);
  // The result is i1 in as many lanes.
  Value Compare(std::string_view instruction, const Value& a, const Value& b);
  // `condition` has as many lanes as the others, or one.
  Value Select(const Value& condition, const Value& a, const Value& b);
  Value Convert(std::string_view instruction, const Value& x, Scalar to);
  // Bits unchanged; nothing is written when the type is already so.
  Value Bitcast(const Value& x, Scalar to);
  Value Negate(const Value& x);  // floats
  // Floats: a * b + c, fused if the target can.
  Value MulAdd(const Value& a, const Value& b, const Value& c);
  // Floats: c - a * b, likewise.
  Value NegMulAdd(const Value& a, const Value& b, const Value& c);
  // c[0] + c[1] * x + c[2] * x^2 ...
  Value Polynomial(const Value& x, std::initializer_list<double> coefficients);

  Value Splat(const Value& scalar, int lanes);
  Value Extract(const Value& vector, int lane);
  Value Insert(const Value& vector, const Value& scalar, int lane);
  // Lanes by number out of one vector.
  Value Shuffle(const Value& vector, absl::Span<const int> lanes);

  // Calls @llvm.NAME.TYPE and declares it. `overloads` are the types in the intrinsic's name,
  // `metadata` stands behind the call.
  Value Intrinsic(std::string_view name, Type result, std::initializer_list<Value> arguments,
                  std::initializer_list<Type> overloads, std::string_view metadata = "");
  void VoidIntrinsic(std::string_view name, std::initializer_list<Value> arguments,
                     std::initializer_list<Type> overloads, std::string_view metadata);
  // A value by any other instruction: its text behind "%v7 = ".
  Value Raw(Type type, std::string_view text);

  template <typename... Args>
  void Line(fmt::format_string<Args...> format, Args&&... args) {
    body_ += "  ";
    fmt::format_to(std::back_inserter(body_), format, std::forward<Args>(args)...);
    body_ += '\n';
  }
  // Ends the current block by a jump to `label` and starts that block.
  void FallInto(const std::string& label);
  void StartBlock(const std::string& label);
  const std::string& block() const { return block_; }
  std::string NewLabel(std::string_view stem) { return fmt::format("{}{}", stem, next_label_++); }

  // Memory for a mutable variable, in the function's first block.
  std::string Alloca(Type type);
  // Text outside the function, once per name.
  void Global(const std::string& name, std::string text) {
    globals_.try_emplace(name, std::move(text));
  }

  const std::string& body() const { return body_; }
  const std::string& allocas() const { return allocas_; }
  const std::map<std::string, std::string>& globals() const { return globals_; }

 private:
  std::string NewName() { return fmt::format("%v{}", next_value_++); }
  static std::string ScalarZero(Type type);
  // "call TYPE @llvm.NAME.TYPE(arguments)metadata"
  std::string Call(std::string_view name, std::string_view result,
                   std::initializer_list<Value> arguments, std::initializer_list<Type> overloads,
                   std::string_view metadata);

  bool has_fma_;
  int next_value_ = 0;
  int next_label_ = 0;
  std::string block_ = "entry";
  std::string body_, allocas_;
  std::map<std::string, std::string> globals_;  // ordered: the text is the same on every run
};

}  // namespace tensord::llvm_ir
