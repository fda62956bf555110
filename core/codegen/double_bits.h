// float64 as its bits in a uint64: what can be done without instructions for it. Internal to
// codegen.
#pragma once

#include "core/codegen/value.h"

namespace tensord {

// To float32, rounded to nearest even, or so that a further rounding to fewer digits gives what one
// rounding would have given.
enum class Float32Rounding { kNearest, kOdd };
Val DoubleToFloat32(const Val& bits, Float32Rounding rounding);
Val Float32ToDouble(const Val& x);

// To and from integers of any size, bool and index; out of range saturates, NaN gives 0.
Val DoubleToInt(const Val& bits, DType dtype);
Val IntToDouble(const Val& x);

Val DoubleTrunc(const Val& bits);
Val DoubleIsNan(const Val& bits);
Val DoubleLess(const Val& a, const Val& b);
Val DoubleEqual(const Val& a, const Val& b);

}  // namespace tensord
