// Number: a plain scalar argument, such as the 2 in `x * 2`. It is weak: it takes the tensor's
// dtype as long as the kind allows it.
//
//   int tensor and 2.5 -> float32;  half tensor and 2.5 -> half;  bool tensor and 2 -> int32
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include "core/ir/dtype.h"

namespace tensord {

class Number {
 public:
  enum class Kind : uint8_t { kBool, kInt, kFloat };

  template <typename T>
  requires std::is_arithmetic_v<T> Number(
      T value)  // NOLINT: implicit, so that calls read like arithmetic
      : kind_(std::is_same_v<T, bool>       ? Kind::kBool
              : std::is_floating_point_v<T> ? Kind::kFloat
                                            : Kind::kInt) {
    if constexpr (std::is_floating_point_v<T>) {
      float_ = value;
    } else {
      int_ = static_cast<int64_t>(value);
    }
  }

  Kind kind() const { return kind_; }
  // The value if the kind is not float. A uint64 is kept as two's complement.
  int64_t AsInt() const { return int_; }
  double AsDouble() const { return kind_ == Kind::kFloat ? float_ : static_cast<double>(int_); }

  // The dtype of an array made of this number: bool, int32 or float32.
  DType DefaultDType() const {
    return kind_ == Kind::kBool  ? DType::kBool
           : kind_ == Kind::kInt ? DType::kInt32
                                 : DType::kFloat32;
  }
  // The dtype it takes beside a tensor of that dtype.
  DType DTypeBeside(DType tensor) const {
    if (IsFloat(tensor) || kind_ == Kind::kBool) return tensor;
    if (kind_ == Kind::kFloat) return DType::kFloat32;
    return tensor == DType::kBool ? DType::kInt32 : tensor;
  }

  std::string ToString() const;  // "2", "2.5", "true"

 private:
  Kind kind_;
  int64_t int_ = 0;
  double float_ = 0;
};

}  // namespace tensord
