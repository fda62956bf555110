#include "core/base/text.h"

#include <gtest/gtest.h>

#include <string>

namespace tensord {
namespace {

TEST(TextTest, APrefixEndsWithAWholeCharacter) {
  const struct {
    const char* text;
    size_t bytes;
    const char* expected;
  } kCases[] = {
      {"abc", 3, "abc"},     {"abc", 2, "ab"},
      {"abc", 0, ""},        {"aé", 2, "a"},
      {"aé", 3, "aé"},       {"€", 1, ""},
      {"€", 2, ""},          {"x€y", 4, "x€"},
      {"\U0001f600", 3, ""}, {"a\U0001f600", 4, "a"},
      {"", 5, ""},
  };
  for (const auto& test : kCases) EXPECT_EQ(Prefix(test.text, test.bytes), test.expected);
  // No text at all.
  EXPECT_LE(Prefix(std::string(10, '\x80'), 5).size(), 5u);
}

TEST(TextTest, WhatIsNoCharacterIsAQuestionMark) {
  const struct {
    const char* text;
    const char* utf8;
    const char* one_line;
  } kCases[] = {
      {"plain, é € \U0001f600", "plain, é € \U0001f600", "plain, é € \U0001f600"},
      {"a\nb\tc\r", "a\nb\tc\r", "a?b?c?"},
      {"\x1b[31m\x07\x7f", "\x1b[31m\x07\x7f", "?[31m??"},
      {"a\xc2\x9b"
       "31m",
       "a\xc2\x9b"
       "31m",
       "a?31m"},  // a control of two bytes
      {"a\u202eb\u2066c\u2028d\u200f", "a\u202eb\u2066c\u2028d\u200f", "a?b?c?d?"},
      {"a\xc3", "a?", "a?"},  // cut off
      {"\xc3"
       "b",
       "?b", "?b"},
      {"\xc0\xaf", "??", "??"},  // '/' in too many bytes
      {"\xe0\x80\xaf", "???", "???"},
      {"\xf0\x80\x80\xaf", "????", "????"},
      {"\xed\xa0\x80", "???", "???"},        // half of a pair
      {"\xf4\x90\x80\x80", "????", "????"},  // above the last one
      {"\xff\xfe\x80", "???", "???"},
  };
  for (const auto& test : kCases) {
    EXPECT_EQ(Utf8(test.text), test.utf8);
    EXPECT_EQ(OneLine(test.text), test.one_line);
  }
  EXPECT_EQ(OneLine(std::string("a\0b", 3)), "a?b");
}

}  // namespace
}  // namespace tensord
