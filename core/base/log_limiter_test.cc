#include "core/base/log_limiter.h"

#include <absl/time/time.h>
#include <gtest/gtest.h>

#include <optional>

namespace tensord {
namespace {

TEST(LogLimiterTest, WritesABurstThenOneAnIntervalAndCountsTheRest) {
  LogLimiter limiter(/*burst=*/3, absl::Seconds(5));
  struct Case {
    int second;
    std::optional<uint64_t> expected;
  };
  for (const Case& c : {Case{100, 0},
                        {100, 0},
                        {100, 0},
                        {100, std::nullopt},
                        {104, std::nullopt},
                        {105, 2},
                        {106, std::nullopt},
                        {1000, 1},
                        {1000, 0},
                        {1000, 0},
                        {1000, std::nullopt}}) {
    EXPECT_EQ(limiter.TakeAt(absl::UnixEpoch() + absl::Seconds(c.second)), c.expected) << c.second;
  }
}

}  // namespace
}  // namespace tensord
