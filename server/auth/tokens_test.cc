#include "server/auth/tokens.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "core/base/status.h"

namespace tensord {
namespace {

// Of "test" and "a long secret".
constexpr char kTest[] = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
constexpr char kOther[] = "69898f54c6762252fc3a57df8c84c6338fcfd51f3bb3de4c3fc31c65feea2622";

class TokensTest : public testing::Test {
 protected:
  absl::StatusOr<TokenTable> Read(const std::string& text) {
    std::ofstream(path_) << text;
    chmod(path_.c_str(), 0600);
    return TokenTable::Read(path_);
  }
  void TearDown() override { std::filesystem::remove(path_); }
  const std::string path_ = testing::TempDir() + "/tokens";
};

TEST_F(TokensTest, FindsWhoHasAToken) {
  const auto table = Read(std::string("# people\n\nalice sha256:") + kOther +
                          "\n bob\tsha256:" + kTest + "  # at home\r\n");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->Find("test"), "bob");
  for (const char* token : {"", "tes", "test ", "Test", kTest, "bob"}) {
    EXPECT_EQ(table->Find(token), "") << token;
  }
}

TEST_F(TokensTest, FaultsAreNamedWithoutWhatStandsThere) {
  for (const std::string& line :
       {std::string("alice secret-token"), std::string("secret-token"),
        "alice sha256:" + std::string(63, 'a'), "alice sha256:" + std::string(64, 'g'),
        std::string("alice ") + kTest, std::string("alice sha256:") + kTest + " secret-token"}) {
    const absl::Status status = Read("# one\n" + line + "\n").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << line;
    EXPECT_NE(Message(status).find(path_ + ":2: a line is a user's name"), std::string_view::npos)
        << status;
    EXPECT_EQ(Message(status).find("secret"), std::string_view::npos) << status;
  }
  EXPECT_NE(Message(TokenTable::Read("/no/such").status()).find("cannot read /no/such"),
            std::string_view::npos);
}

TEST_F(TokensTest, AFileThatOthersMayChangeIsRefused) {
  ASSERT_TRUE(Read("").ok());
  chmod(path_.c_str(), 0620);
  EXPECT_EQ(TokenTable::Read(path_).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace tensord
