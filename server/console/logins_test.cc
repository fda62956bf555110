#include "server/console/logins.h"

#include <gtest/gtest.h>

#include <vector>

namespace tensord {
namespace {

const Caller kAlice{.user = "alice", .admin = false, .local = true};
const Caller kRoot{.user = "root", .admin = true, .local = true};
const absl::Time kStart = absl::UnixEpoch();

TEST(LoginsTest, ACodeIsGoodOnce) {
  Logins logins;
  const std::string code = logins.NewCodeAt(kRoot, kStart);
  EXPECT_EQ(code.size(), 32u);
  const auto login = logins.RedeemAt(code, kStart);
  ASSERT_TRUE(login.ok()) << login.status();
  EXPECT_EQ(login->caller.user, "root");
  EXPECT_TRUE(login->caller.admin);
  EXPECT_EQ(logins.RedeemAt(code, kStart).status().code(), absl::StatusCode::kUnauthenticated);
  const auto found = logins.FindAt(login->token, kStart);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->user, "root");
  EXPECT_TRUE(found->admin);
  logins.End(login->token);
  EXPECT_FALSE(logins.FindAt(login->token, kStart).has_value());
}

TEST(LoginsTest, ACodeIsNoTokenAndATokenNoCode) {
  Logins logins;
  const std::string code = logins.NewCodeAt(kAlice, kStart);
  EXPECT_FALSE(logins.FindAt(code, kStart).has_value());
  const std::string token = logins.RedeemAt(code, kStart)->token;
  EXPECT_FALSE(logins.RedeemAt(token, kStart).ok());
  for (const char* none : {"", "00000000000000000000000000000000"}) {
    EXPECT_FALSE(logins.FindAt(none, kStart).has_value());
    EXPECT_FALSE(logins.RedeemAt(none, kStart).ok());
  }
}

TEST(LoginsTest, BothEndWithTime) {
  Logins logins;
  const std::string code = logins.NewCodeAt(kAlice, kStart);
  EXPECT_FALSE(logins.RedeemAt(code, kStart + Logins::kCodeLife).ok());
  const std::string token = logins.RedeemAt(logins.NewCodeAt(kAlice, kStart), kStart)->token;
  const absl::Time end = kStart + Logins::kTokenLife;
  EXPECT_TRUE(logins.FindAt(token, end - absl::Seconds(1)).has_value());
  EXPECT_FALSE(logins.FindAt(token, end).has_value());
}

TEST(LoginsTest, AUserHasSoManyAndTakesNothingFromOthers) {
  Logins logins;
  const std::string roots = logins.NewCodeAt(kRoot, kStart);
  std::vector<std::string> codes;
  for (size_t i = 0; i <= Logins::kMaxCodes; ++i) codes.push_back(logins.NewCodeAt(kAlice, kStart));
  EXPECT_FALSE(logins.RedeemAt(codes[0], kStart).ok());
  for (size_t i = 1; i < codes.size(); ++i)
    EXPECT_TRUE(logins.RedeemAt(codes[i], kStart).ok()) << i;
  EXPECT_TRUE(logins.RedeemAt(roots, kStart).ok());
}

TEST(LoginsTest, AllUsersTogetherHaveSoMany) {
  Logins logins;
  const std::string first = logins.NewCodeAt(kRoot, kStart);
  for (size_t i = 0; i < Logins::kMaxOfAll; ++i) {
    logins.NewCodeAt({.user = "user" + std::to_string(i)}, kStart);
  }
  EXPECT_FALSE(logins.RedeemAt(first, kStart).ok());
}

}  // namespace
}  // namespace tensord
