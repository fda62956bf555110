#include "core/ir/dtype.h"

#include <gtest/gtest.h>

#include <limits>

namespace tensord {
namespace {

using enum DType;

DType At(int i) { return static_cast<DType>(i); }

TEST(DTypeTest, NamesReadBack) {
  for (int i = 0; i < kNumDTypes; ++i) EXPECT_EQ(DTypeFromName(Name(At(i))), At(i));
  EXPECT_EQ(DTypeFromName("half"), kFloat16);
  EXPECT_EQ(DTypeFromName("long"), kInt64);
  EXPECT_EQ(DTypeFromName("Float32"), std::nullopt);
  EXPECT_EQ(DTypeFromName(""), std::nullopt);
}

TEST(DTypeTest, PromotesToTheLeastUpperBound) {
  const struct {
    DType a, b, expected;
  } kCases[] = {
      {kBool, kInt8, kInt8},
      {kBool, kFloat16, kFloat16},
      {kInt8, kUint8, kInt16},
      {kInt8, kUint16, kInt32},
      {kInt32, kUint32, kInt64},
      {kInt64, kUint32, kInt64},
      {kUint8, kUint64, kUint64},
      {kInt64, kUint64, kFloat32},
      {kInt8, kUint64, kFloat32},
      {kInt64, kFloat16, kFloat16},
      {kUint64, kFloat8E5M2, kFloat8E5M2},
      {kFloat8E4M3, kFloat8E5M2, kFloat16},
      {kFloat8E4M3Fnuz, kBFloat16, kBFloat16},
      {kFloat16, kBFloat16, kFloat32},
      {kFloat32, kFloat64, kFloat64},
      {kIndex, kInt32, kInt64},
      {kIndex, kIndex, kIndex},
      {kVoid, kInt32, kVoid},
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(Promote(c.a, c.b), c.expected) << Name(c.a) << " " << Name(c.b);
    EXPECT_EQ(Promote(c.b, c.a), c.expected) << Name(c.b) << " " << Name(c.a);
  }
}

TEST(DTypeTest, PromotionIsCommutativeAndIdempotent) {
  for (int i = 0; i < kNumDTypes; ++i) {
    EXPECT_EQ(Promote(At(i), At(i)), At(i));
    for (int j = 0; j < kNumDTypes; ++j) EXPECT_EQ(Promote(At(i), At(j)), Promote(At(j), At(i)));
  }
}

TEST(DTypeTest, AccumulatesSumsInWiderTypes) {
  EXPECT_EQ(SumAccumulator(kBool), kInt32);
  EXPECT_EQ(SumAccumulator(kInt16), kInt32);
  EXPECT_EQ(SumAccumulator(kUint8), kUint32);
  EXPECT_EQ(SumAccumulator(kUint64), kUint64);
  EXPECT_EQ(SumAccumulator(kBFloat16), kFloat32);
  EXPECT_EQ(SumAccumulator(kFloat64), kFloat64);
  EXPECT_EQ(LeastUpperFloat(kInt64), kFloat32);
  EXPECT_EQ(LeastUpperFloat(kFloat16), kFloat16);
}

TEST(DTypeTest, KnowsLosslessCasts) {
  const struct {
    DType from, to;
    bool expected;
  } kCases[] = {
      {kBool, kFloat8E4M3, true},
      {kInt8, kBool, false},
      {kInt8, kInt16, true},
      {kInt8, kUint16, false},
      {kUint8, kInt16, true},
      {kUint8, kInt8, false},
      {kUint32, kInt64, true},
      {kInt64, kIndex, true},
      {kUint64, kIndex, false},
      {kIndex, kInt64, true},
      {kIndex, kInt32, false},
      {kInt16, kFloat32, true},
      {kInt32, kFloat32, false},
      {kInt32, kFloat64, true},
      {kInt64, kFloat64, false},
      {kUint8, kBFloat16, true},
      {kUint8, kFloat8E4M3, false},
      {kFloat16, kBFloat16, false},
      {kBFloat16, kFloat16, false},
      {kFloat16, kFloat32, true},
      {kFloat32, kFloat16, false},
      {kFloat8E5M2, kFloat16, true},
      {kFloat8E4M3, kFloat8E5M2, false},
      {kFloat8E5M2Fnuz, kFloat16, true},
      {kFloat32, kInt64, false},
      {kFloat32, kFloat64, true},
      {kFloat8E4M3Fnuz, kFloat8E4M3, false},
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(IsLosslessCast(c.from, c.to), c.expected) << Name(c.from) << " " << Name(c.to);
  }
}

TEST(DTypeTest, LimitsAreTwosComplement) {
  EXPECT_EQ(IntMin(kInt8), -128);
  EXPECT_EQ(IntMax(kInt8), 127);
  EXPECT_EQ(IntMax(kUint16), 65535);
  EXPECT_EQ(IntMin(kUint64), 0);
  EXPECT_EQ(IntMax(kUint64), -1);
  EXPECT_EQ(IntMin(kInt64), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(IntMax(kIndex), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(IntMin(kBool), 0);
  EXPECT_EQ(IntMax(kBool), 1);
}

}  // namespace
}  // namespace tensord
