#include "server/session/content_index.h"

#include <gtest/gtest.h>
#include <openssl/sha.h>

#include <cstring>

#include "server/session/fake_runtime.h"

namespace tensord {
namespace {

constexpr size_t kBytes = ContentIndex::kMinBytes + 12;

std::string Sha256(const std::string& bytes) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

class ContentIndexTest : public testing::Test {
 protected:
  BufferRef Make(const std::string& bytes) {
    auto buffer = std::make_shared<Buffer>();
    buffer->memory = *static_cast<Device&>(device_).allocator().Allocate(bytes.size());
    std::memcpy(buffer->memory->host_address(), bytes.data(), bytes.size());
    return buffer;
  }
  FakeDevice device_{"FAKE:0"};
  ContentIndex index_;
};

TEST_F(ContentIndexTest, FindsTheBytesOfTheSameUserOnly) {
  const std::string bytes(kBytes, 'x');
  const auto content = index_.Add("alice", Make(bytes));
  ASSERT_NE(content, nullptr);
  EXPECT_TRUE(index_.Find("bob", kBytes).empty());
  EXPECT_TRUE(index_.Find("alice", kBytes + 1).empty());
  ASSERT_EQ(index_.Find("alice", kBytes).size(), 1u);
  std::string copy(kBytes, '\0');
  EXPECT_FALSE(content->CopyIfEqual(Sha256("other"), copy.data()));
  EXPECT_FALSE(content->CopyIfEqual("", copy.data()));
  EXPECT_EQ(copy[0], '\0');
  EXPECT_TRUE(content->CopyIfEqual(Sha256(bytes), copy.data()));
  EXPECT_EQ(copy, bytes);
}

TEST_F(ContentIndexTest, ForgetsWhatIsGoneOrWasChanged) {
  const std::string bytes(kBytes, 'x');
  auto content = index_.Add("alice", Make(bytes));
  std::string copy(kBytes, '\0');
  ASSERT_TRUE(content->CopyIfEqual(Sha256(bytes), copy.data()));
  content->Drop();
  EXPECT_FALSE(content->CopyIfEqual(Sha256(bytes), copy.data()));
  device_.AwaitInUse(0);  // the index holds no memory
  content = nullptr;
  EXPECT_TRUE(index_.Find("alice", kBytes).empty());
  EXPECT_EQ(index_.Add("alice", Make("few bytes")), nullptr);
}

TEST_F(ContentIndexTest, KeepsTheLatestOfALength) {
  std::vector<std::shared_ptr<Content>> held;
  for (int i = 0; i < 10; ++i) {
    held.push_back(index_.Add("alice", Make(std::string(kBytes, static_cast<char>('a' + i)))));
  }
  const auto found = index_.Find("alice", kBytes);
  ASSERT_EQ(found.size(), ContentIndex::kCandidates);
  EXPECT_EQ(found[0], held[9]);
}

}  // namespace
}  // namespace tensord
