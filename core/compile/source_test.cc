#include "core/compile/source.h"

#include <gtest/gtest.h>

#include <string>

#include "core/base/status.h"

namespace tensord {
namespace {

std::string Lines(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += fmt::format("%{} = Add float32 %{} %{}\n", i, i, i);
  return text;
}

TEST(SourceTest, GivesBackTheText) {
  for (const std::string& text : {std::string(), std::string("x"), Lines(1000)}) {
    const auto again = UnpackSource(PackSource(text));
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, text);
  }
  EXPECT_LT(PackSource(Lines(1000)).size(), Lines(1000).size() / 3);
}

TEST(SourceTest, ALongTextEndsWithALineThatSaysSo) {
  const std::string text = Lines(100'000);
  ASSERT_GT(text.size(), kMaxSourceBytes);
  const auto again = UnpackSource(PackSource(text));
  ASSERT_TRUE(again.ok()) << again.status();
  const size_t note = again->rfind("# ");
  ASSERT_NE(note, std::string::npos);
  EXPECT_EQ(again->substr(0, note), text.substr(0, note));
  EXPECT_EQ(again->substr(note), fmt::format("# {} bytes more are left out\n", text.size() - note));
  // One line without an end.
  EXPECT_EQ(*UnpackSource(PackSource(std::string(2 << 20, 'x'))),
            fmt::format("# {} bytes more are left out\n", 2 << 20));
}

TEST(SourceTest, WhatIsDamagedIsAnError) {
  const std::string packed = PackSource(Lines(100));
  for (const std::string& damaged : {std::string(), std::string("text"),
                                     packed.substr(0, packed.size() / 2), packed.substr(1)}) {
    EXPECT_EQ(UnpackSource(damaged).status().code(), absl::StatusCode::kDataLoss);
  }
}

}  // namespace
}  // namespace tensord
