// What is made from nothing, casts of bits, and weak types on their way into programs.
#include "core/tensor/create.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/tensor/elementwise.h"
#include "core/tensor/movement.h"
#include "core/tensor/testing.h"
#include "core/tensor/weak.h"

namespace tensord {
namespace {

using enum DType;
constexpr int64_t kInt64Max = std::numeric_limits<int64_t>::max();

constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(Constant, HasToBeOneOfTheDType) {
  constexpr uint64_t kMax = ~uint64_t{0};
  const struct {
    Number value;
    DType dtype;
    double expected;  // of uint64 as an int64 of the same bits
  } kFits[] = {
      {255, kUint8, 255},
      {-128, kInt8, -128},
      {0, kUint64, 0},
      {kMax, kUint64, -1},
      {std::ldexp(1.0, 63), kUint64, -std::ldexp(1.0, 63)},
      {kInt64Max, kInt64, std::ldexp(1.0, 63)},
      {kMax, kFloat32, std::ldexp(1.0, 64)},
      {300, kBool, 1},
      {255.9, kUint8, 255},  // the whole part counts
      {-0.9, kUint8, 0},
      {1e6, kFloat16, kInf},  // floats round
      {kInf, kBool, 1},
  };
  for (const auto& c : kFits) {
    Bench bench;
    EXPECT_EQ(bench.Values(Constant(bench.graph(), c.value, c.dtype)), std::vector{c.expected})
        << c.value.ToString() << " " << Name(c.dtype);
  }
  const struct {
    Number value;
    DType dtype;
    const char* text;
    const char* range;
  } kRefused[] = {
      {256, kUint8, "256", "0 to 255"},
      {-1, kUint8, "-1", "0 to 255"},
      {128, kInt8, "128", "-128 to 127"},
      {-1, kUint64, "-1", "0 to 18446744073709551615"},
      {kMax, kInt64, "18446744073709551615", "-9223372036854775808 to 9223372036854775807"},
      {kMax, kWeakInt, "18446744073709551615", "-9223372036854775808 to 9223372036854775807"},
      {256.0, kUint8, "256", "0 to 255"},
      {-1.0, kUint8, "-1", "0 to 255"},
      {kInf, kInt32, "inf", "-2147483648 to 2147483647"},
      {std::nan(""), kInt32, "nan", "-2147483648 to 2147483647"},
      {std::ldexp(1.0, 63), kInt64, "9.223372036854776e+18",
       "-9223372036854775808 to 9223372036854775807"},
  };
  for (const auto& c : kRefused) {
    Bench bench;
    const Expr made = Full(bench.graph(), {2}, c.value, c.dtype);
    EXPECT_EQ(ErrorOf(made),
              fmt::format("the number {} does not fit {}, which goes from {}; use a wider dtype",
                          c.text, Name(c.dtype), c.range));
    EXPECT_TRUE(IsOverflow(made.status()));
  }
}

TEST(Arange, PicksADTypeThatHoldsIt) {
  const struct {
    Number start, stop, step;
    DType expected;
  } kCases[] = {
      {0, 5, 1, kInt32},
      {0, int64_t{1} << 31, 1, kInt32},
      {0, (int64_t{1} << 31) + 1, 1, kInt64},
      {-(int64_t{1} << 31) - 1, 0, int64_t{1} << 31, kInt64},
      {0, 5, 0.5, kFloat32},
      {0, 5.0, 1, kFloat32},
      {5, 0, 1, kInt32},
  };
  for (const auto& c : kCases) EXPECT_EQ(ArangeDType(c.start, c.stop, c.step), c.expected);
  EXPECT_TRUE(ArangeFits(-128, 128, 1, kInt8));
  EXPECT_FALSE(ArangeFits(-128, 129, 1, kInt8));
  EXPECT_FALSE(ArangeFits(-129, 0, 1, kInt8));
  EXPECT_FALSE(ArangeFits(-1, 3, 1, kUint64));
  EXPECT_TRUE(ArangeFits(127, -129, -1, kInt8));
}

TEST(Arange, CountsWholeNumbersExactly) {
  Bench bench;
  Graph& g = bench.graph();
  EXPECT_EQ(bench.Values(Arange(g, 0, 10, 3, kInt8)), (std::vector<double>{0, 3, 6, 9}));
  EXPECT_EQ(bench.Values(Arange(g, 5, -5, -4, kInt32)), (std::vector<double>{5, 1, -3}));
  EXPECT_EQ(ShapeOf(Arange(g, kInt64Max - 2, kInt64Max, 1, kInt64)), std::vector<int64_t>{2});
  EXPECT_EQ(ShapeOf(Arange(g, 3, 3, 1, kInt32)), std::vector<int64_t>{0});
}

TEST(Linspace, HasBothEndsExactly) {
  Bench bench;
  Graph& g = bench.graph();
  for (int64_t n : {2, 3, 7, 30, 1001}) {
    const std::vector<double> x = bench.Values(Linspace(g, -3, 0.1, n, kFloat32));
    ASSERT_EQ(static_cast<int64_t>(x.size()), n);
    EXPECT_EQ(x.front(), -3);
    EXPECT_EQ(x.back(), 0.1f);
    for (int64_t i = 0; i < n; ++i) {
      EXPECT_NEAR(x[i], -3 + 3.1 * static_cast<double>(i) / static_cast<double>(n - 1), 1e-6);
    }
  }
  EXPECT_EQ(bench.Values(Linspace(g, 10, 0, 4, kInt32)), (std::vector<double>{10, 6, 3, 0}));
  EXPECT_EQ(bench.Values(Linspace(g, 7, 9, 1, kInt32)), std::vector<double>{7});
  EXPECT_TRUE(bench.Values(Linspace(g, 7, 9, 0, kFloat32)).empty());
  ExpectNear(bench.Values(Logspace(g, 0, 3, 4, 10, kFloat32)), {1, 10, 100, 1000}, 1e-6);
}

TEST(Join, CartesianProductsBlocksAndPowers) {
  Bench bench;
  const Expr x = bench.Input(kInt32, {2}, {1, 2}), y = bench.Input(kInt32, {3}, {5, 6, 7});
  EXPECT_EQ(bench.Values(CartesianProd({{x, y}})),
            (std::vector<double>{1, 5, 1, 6, 1, 7, 2, 5, 2, 6, 2, 7}));
  EXPECT_EQ(bench.Values(BlockDiag({{x, Reshape(y, {3, 1})}})),
            (std::vector<double>{1, 2, 0, 0, 0, 5, 0, 0, 6, 0, 0, 7}));
  EXPECT_EQ(bench.Values(Vander(y, 3, false)), (std::vector<double>{25, 5, 1, 36, 6, 1, 49, 7, 1}));
  EXPECT_EQ(bench.Values(Vander(x, 2, true)), (std::vector<double>{1, 1, 1, 2}));
  EXPECT_EQ(TrilIndices(2, 3, 1), (std::vector<int64_t>{0, 0, 1, 1, 1, 0, 1, 0, 1, 2}));
  EXPECT_EQ(TriuIndices(2, 3, 1), (std::vector<int64_t>{0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(TriuIndices(2, 2, -5).size(), 8u);
}

TEST(Bitcast, ChangesTheLastAxis) {
  Bench bench;
  const Expr bytes = bench.Input(kUint8, {2, 4}, {1, 2, 3, 4, 0, 0, 0x80, 0x3f});
  EXPECT_EQ(bench.Values(Bitcast(bytes, kUint32)), (std::vector<double>{0x04030201, 0x3f800000}));
  EXPECT_EQ(bench.Values(Bitcast(bytes, kFloat32))[1], 1.0);
  EXPECT_EQ(bench.Values(Bitcast(bytes, kInt16)), (std::vector<double>{0x0201, 0x0403, 0, 0x3f80}));
  EXPECT_EQ(bench.Values(Bitcast(Bitcast(bytes, kFloat32), kUint8)), bench.Values(bytes));
  const Expr wide = bench.Input(kInt64, {1}, {-2});
  EXPECT_EQ(bench.Values(Bitcast(wide, kUint16)),
            (std::vector<double>{65534, 65535, 65535, 65535}));
  EXPECT_EQ(bench.Values(Bitcast(Bitcast(wide, kUint16), kInt64)), std::vector<double>{-2});
  EXPECT_EQ(ErrorOf(Bitcast(Reshape(wide, {}), kUint8)),
            "bitcast: int64 has 8 bytes, uint8 has 1, and there is no last axis to change");
  EXPECT_EQ(
      ErrorOf(Bitcast(bench.Input(kUint8, {3}, {1, 2, 3}), kUint16)),
      "bitcast: the last axis of [3] has 3 elements of 1 bytes, no multiple of the 2 bytes of "
      "uint16");
}

// The dtype that each weak expression has in a program.
TEST(Weak, BecomesTheDefaultTypes) {
  Bench bench;
  const Expr i = bench.Input(kInt32, {2}, {1, 2}), b = bench.Input(kBool, {2}, {0, 1}),
             h = bench.Input(kFloat16, {2}, {1, 2}), u = bench.Input(kUint64, {2}, {1, 2});
  Graph& g = bench.graph();
  const Expr three = Constant(g, 3, kWeakInt), tenth = Constant(g, 0.1, kWeakFloat);
  const struct {
    Expr x;
    DType weak, strong;
    std::vector<double> values;
  } kCases[] = {
      {i * 2.5, kWeakFloat, kFloat32, {2.5, 5}},
      {i * tenth, kWeakFloat, kFloat32, {0.1f, 0.2f}},
      {i * 2.5 + h, kFloat16, kFloat16, {3.5, 7}},
      {b + 2, kWeakInt, kInt32, {2, 3}},
      {(b + 2) * 3000000000, kWeakInt, kInt64, {6e9, 9e9}},
      {Where(b, Constant(g, int64_t{1} << 40, kWeakInt), three), kWeakInt, kInt64, {3, 0x1p40}},
      {three + three, kWeakInt, kInt32, {6}},
      {three / three, kWeakFloat, kFloat32, {1}},
      {three * tenth, kWeakFloat, kFloat32, {static_cast<float>(3 * 0.1)}},
      {h * tenth, kFloat16, kFloat16, {0.0999755859375, 0.199951171875}},
      {Cast(h, kFloat64) * tenth, kFloat64, kFloat64, {0.1, 0.2}},
      {u + Cast(i, kInt64), kWeakFloat, kFloat32, {2, 4}},
      {i + three, kInt32, kInt32, {4, 5}},
  };
  for (const auto& c : kCases) {
    ASSERT_TRUE(c.x.ok()) << c.x.status();
    EXPECT_EQ(c.x.dtype(), c.weak) << Name(c.x.dtype());
    Bench program;
    program.inputs() = bench.inputs();
    const Expr strong(&program.graph(),
                      CopyStrong(program.graph(), absl::MakeConstSpan({c.x.node()}))[0]);
    EXPECT_EQ(strong.dtype(), c.strong) << Name(strong.dtype());
    for (const Node* node : TopologicalOrder({strong.node()})) EXPECT_FALSE(IsWeak(node->dtype));
    EXPECT_EQ(program.Values(strong), c.values);
  }
}

}  // namespace
}  // namespace tensord
