#include "server/console/log_ring.h"

#include <gtest/gtest.h>
#include <spdlog/logger.h>

#include <memory>

namespace tensord {
namespace {

class LogRingTest : public testing::Test {
 protected:
  const std::shared_ptr<LogRing> ring_ = std::make_shared<LogRing>();
  spdlog::logger log_{"session", ring_};
};

TEST_F(LogRingTest, KeepsLinesInOrder) {
  log_.info("opened id={}", 1);
  log_.warn("slow");
  const auto lines = ring_->After(0);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].text, "opened id=1");
  EXPECT_EQ(lines[0].level, "info");
  EXPECT_EQ(lines[0].logger, "session");
  EXPECT_EQ(lines[1].level, "warning");
  EXPECT_EQ(lines[1].number, 2u);
  EXPECT_LE(lines[0].time, lines[1].time);
  EXPECT_EQ(ring_->After(1).size(), 1u);
  EXPECT_TRUE(ring_->After(2).empty());
}

TEST_F(LogRingTest, TheOldestGo) {
  for (size_t i = 0; i < LogRing::kMaxLines + 5; ++i) log_.info("line {}", i);
  const auto lines = ring_->After(0);
  ASSERT_EQ(lines.size(), LogRing::kMaxLines);
  EXPECT_EQ(lines[0].text, "line 5");
}

TEST_F(LogRingTest, LongLinesAreCut) {
  log_.info(std::string(10'000, 'x'));
  EXPECT_EQ(ring_->After(0)[0].text, std::string(LogRing::kMaxLineBytes, 'x'));
}

TEST_F(LogRingTest, WhatIsNoTextIsReplaced) {
  log_.info(
      "a\xff"
      "b");
  EXPECT_EQ(ring_->After(0)[0].text, "a?b");
}

}  // namespace
}  // namespace tensord
