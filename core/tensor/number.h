// Number: a plain scalar argument, such as the 2 in `x * 2`. It is weak (ir/dtype.h): it takes the
// tensor's dtype as long as the kind allows it.
//
//   half tensor and 2.5 -> half;  int tensor and 2.5 -> weakfloat;  bool tensor and 2 -> weakint
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <string>
#include <string_view>
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
      if constexpr (std::is_unsigned_v<T> && sizeof(T) == 8) is_large_ = int_ < 0;
    }
  }

  Kind kind() const { return kind_; }
  // The value if the kind is not float. A uint64 is kept as two's complement.
  int64_t AsInt() const { return int_; }
  double AsDouble() const {
    if (kind_ == Kind::kFloat) return float_;
    return is_large_ ? static_cast<double>(static_cast<uint64_t>(int_)) : static_cast<double>(int_);
  }
  // Whether it is an integer beyond int64.
  bool is_large() const { return is_large_; }

  DType dtype() const {
    return kind_ == Kind::kBool  ? DType::kBool
           : kind_ == Kind::kInt ? DType::kWeakInt
                                 : DType::kWeakFloat;
  }
  // The dtype of an array made of this number: bool, or a default.
  DType DefaultDType() const { return Strong(dtype()); }
  // The dtype it takes beside a tensor of that dtype.
  DType DTypeBeside(DType tensor) const { return Promote(tensor, dtype()); }

  std::string ToString() const;  // "2", "2.5", "true"

 private:
  Kind kind_;
  bool is_large_ = false;
  int64_t int_ = 0;
  double float_ = 0;
};

// OK if the dtype has the number; of a float beside an integer dtype, if it has the whole part.
// bool and floats have every number: it is compared with 0, or rounded.
absl::Status CheckFits(Number value, DType dtype);
// The error of a number that is too large or too small, with its own message. An InvalidArgument
// which IsOverflow knows from others, for languages that tell them apart.
absl::Status Overflow(std::string_view message);
bool IsOverflow(const absl::Status& status);

}  // namespace tensord
