#include "core/ir/dtype.h"

#include <gtest/gtest.h>

#include <limits>
#include <string_view>

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

// b bool, w weakint; 1 2 4 8 signed and A B C D unsigned integers of so many bytes; f weakfloat;
// p q r s float8 (e4m3fn, e4m3fnuz, e5m2, e5m2fnuz), h half, g bfloat16, S float32, L float64.
TEST(DTypeTest, PromotesToTheLeastUpperBound) {
  constexpr DType kAll[] = {kBool,      kWeakInt,    kInt8,           kUint8,      kInt16,
                            kUint16,    kInt32,      kUint32,         kInt64,      kUint64,
                            kWeakFloat, kFloat8E4M3, kFloat8E4M3Fnuz, kFloat8E5M2, kFloat8E5M2Fnuz,
                            kFloat16,   kBFloat16,   kFloat32,        kFloat64};
  constexpr std::string_view kLetters = "bw1A2B4C8DfpqrshgSL";
  constexpr std::string_view kTable[] = {
      "bw1A2B4C8DfpqrshgSL", "ww1A2B4C8DfpqrshgSL", "111224488ffpqrshgSL", "AA2A2B4C8DfpqrshgSL",
      "222224488ffpqrshgSL", "BB4B4B4C8DfpqrshgSL", "444444488ffpqrshgSL", "CC8C8C8C8DfpqrshgSL",
      "888888888ffpqrshgSL", "DDfDfDfDfDfpqrshgSL", "fffffffffffpqrshgSL", "pppppppppppphhhhgSL",
      "qqqqqqqqqqqhqhhhgSL", "rrrrrrrrrrrhhrhhgSL", "ssssssssssshhhshgSL", "hhhhhhhhhhhhhhhhSSL",
      "gggggggggggggggSgSL", "SSSSSSSSSSSSSSSSSSL", "LLLLLLLLLLLLLLLLLLL",
  };
  for (size_t a = 0; a < kLetters.size(); ++a) {
    for (size_t b = 0; b < kLetters.size(); ++b) {
      EXPECT_EQ(Promote(kAll[a], kAll[b]), kAll[kLetters.find(kTable[a][b])])
          << kLetters[a] << kLetters[b];
    }
    EXPECT_EQ(Priority(kAll[a]), static_cast<int>(a) + 1);
  }
  EXPECT_EQ(Promote(kIndex, kInt32), kInt64);
  EXPECT_EQ(Promote(kIndex, kIndex), kIndex);
  EXPECT_EQ(Promote(kVoid, kInt32), kVoid);
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
  EXPECT_EQ(LeastUpperFloat(kWeakInt), kWeakFloat);
  EXPECT_EQ(SumAccumulator(kWeakInt), kInt32);
  EXPECT_EQ(SumAccumulator(kWeakFloat), kFloat32);
}

TEST(DTypeTest, DefaultsAreWhatWeakTypesBecome) {
  EXPECT_EQ(Strong(kWeakFloat), kFloat32);
  EXPECT_EQ(Strong(kWeakInt), kInt32);
  EXPECT_EQ(Strong(kFloat16), kFloat16);
  SetDefaultFloat(kFloat16);
  SetDefaultInt(kInt64);
  EXPECT_EQ(Strong(kWeakFloat), kFloat16);
  EXPECT_EQ(Strong(kWeakInt), kInt64);
  EXPECT_EQ(LeastUpperFloat(kInt8), kFloat16);
  SetDefaultFloat(kFloat32);
  SetDefaultInt(kInt32);
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
