#include "core/tensor/random.h"

#include <cmath>

#include "core/tensor/create.h"
#include "core/tensor/testing.h"

namespace tensord {
namespace {

using Values = std::vector<double>;

RandomState StateOf(Bench& bench, double seed = 42, double low = 0, double high = 0) {
  return {bench.Input(DType::kUint32, {2}, {seed, 7}),
          bench.Input(DType::kUint32, {2}, {low, high})};
}

TEST(Threefry, KnownAnswers) {
  // From the Random123 distribution: threefry 2x32, 20 rounds.
  const struct {
    double k0, k1, c0, c1, r0, r1;
  } cases[] = {
      {0, 0, 0, 0, 0x6b200159, 0x99ba4efe},
      {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x1cb996fc, 0xbb002be7},
      {0x13198a2e, 0x03707344, 0x243f6a88, 0x85a308d3, 0xc4923a9c, 0x483df7a0},
  };
  for (const auto& c : cases) {
    Bench bench;
    const auto word = [&](double value) { return bench.Input(DType::kUint32, {}, {value}); };
    const auto [r0, r1] = Threefry2x32(word(c.k0), word(c.k1), word(c.c0), word(c.c1));
    EXPECT_EQ(bench.Values(r0)[0], c.r0);
    EXPECT_EQ(bench.Values(r1)[0], c.r1);
  }
}

TEST(RandomBits, TwoDrawsAreOneLongDraw) {
  Bench bench;
  const RandomState state = StateOf(bench);
  const Drawn first = RandomBits(state, {3});
  const Drawn second = RandomBits({state.key, first.counter}, {2, 2});
  Values joined = bench.Values(first.value);
  for (double value : bench.Values(second.value)) joined.push_back(value);
  const Drawn whole = RandomBits(state, {7});
  EXPECT_EQ(bench.Values(whole.value), joined);
  EXPECT_EQ(bench.Values(second.counter), bench.Values(whole.counter));
}

TEST(RandomBits, TheCounterCarries) {
  Bench bench;
  const RandomState state = StateOf(bench, 1, 0xfffffffe, 5);
  const Drawn drawn = RandomBits(state, {4});
  EXPECT_EQ(bench.Values(drawn.counter), (Values{2, 6}));
  const Drawn after = RandomBits(StateOf(bench, 1, 0, 6), {2});
  const Values all = bench.Values(drawn.value);
  EXPECT_EQ(bench.Values(after.value), (Values{all[2], all[3]}));
}

TEST(Uniform, FillsTheUnitInterval) {
  using enum DType;
  for (DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
    Bench bench;
    const Drawn drawn = Uniform(StateOf(bench), {20, 50}, dtype);
    EXPECT_EQ(drawn.value.dtype(), dtype);
    double sum = 0, squares = 0;
    for (double value : bench.Values(drawn.value)) {
      ASSERT_GE(value, 0);
      ASSERT_LT(value, 1);
      sum += value;
      squares += value * value;
    }
    EXPECT_NEAR(sum / 1000, 0.5, 0.04) << Name(dtype);
    EXPECT_NEAR(squares / 1000, 1.0 / 3, 0.04) << Name(dtype);
  }
}

TEST(Normal, HasMeanZeroAndVarianceOne) {
  using enum DType;
  for (DType dtype : {kFloat16, kFloat32, kFloat64}) {
    Bench bench;
    const Drawn drawn = Normal(StateOf(bench), {1000}, dtype);
    EXPECT_EQ(drawn.value.dtype(), dtype);
    double sum = 0, squares = 0;
    for (double value : bench.Values(drawn.value)) {
      ASSERT_TRUE(std::isfinite(value));
      sum += value;
      squares += value * value;
    }
    EXPECT_NEAR(sum / 1000, 0, 0.12) << Name(dtype);
    EXPECT_NEAR(squares / 1000, 1, 0.15) << Name(dtype);
    EXPECT_EQ(bench.Values(drawn.counter)[0], dtype == kFloat64 ? 2000 : 1000);
  }
}

TEST(RandInt, CoversTheRangeEvenly) {
  Bench bench;
  const Drawn drawn = RandInt(StateOf(bench), {1000}, -2, 3, DType::kInt8);
  std::vector<int> counts(5);
  for (double value : bench.Values(drawn.value)) ++counts.at(static_cast<size_t>(value + 2));
  for (int count : counts) EXPECT_NEAR(count, 200, 60);
  const Drawn wide = RandInt(StateOf(bench), {8}, 0, int64_t{1} << 32, DType::kInt64);
  EXPECT_EQ(bench.Values(wide.value), bench.Values(RandomBits(StateOf(bench), {8}).value));
}

TEST(Random, RefusesWhatItCannotDraw) {
  Bench bench;
  const RandomState state = StateOf(bench);
  EXPECT_EQ(ErrorOf(Uniform(state, {2}, DType::kInt32).value),
            "uniform: int32 is not float16, bfloat16, float32 or float64");
  EXPECT_EQ(ErrorOf(RandInt(state, {2}, 3, 3, DType::kInt32).value),
            "randint: [3, 3) must hold 1 to 2^32 values");
  EXPECT_EQ(ErrorOf(RandInt(state, {2}, 0, 300, DType::kUint8).value),
            "randint: [0, 300) does not fit uint8");
  EXPECT_EQ(ErrorOf(RandomBits({state.key, bench.Counting({2})}, {2}).counter),
            "random_bits: key and counter are uint32 [2], not float32 [2]");
}

}  // namespace
}  // namespace tensord
