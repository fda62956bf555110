#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "server/memory/memory_ledger.h"
#include "server/session/fake_runtime.h"
#include "server/sharing/publications.h"

namespace tensord {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class SharingTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/td-XXXXXX";
    folder_ = mkdtemp(name);
  }
  void TearDown() override { fs::remove_all(folder_); }

  BufferRef NewBuffer(const std::vector<float>& values) {
    auto buffer = std::make_shared<Buffer>();
    buffer->dtype = DType::kFloat32;
    buffer->shape = {static_cast<int64_t>(values.size())};
    const size_t bytes = values.size() * sizeof(float);
    buffer->memory = *runtime_.device().allocator().Allocate(bytes);
    if (bytes > 0) std::memcpy(buffer->memory->host_address(), values.data(), bytes);
    return buffer;
  }
  Publications::Draft Draft(const std::string& owner, const std::string& name, BufferRef buffer) {
    Publications::Draft draft{.owner = owner, .name = name, .readers = {}, .tensors = {}};
    draft.tensors.push_back({.key = "", .buffer = std::move(buffer), .published = nullptr});
    return draft;
  }
  static std::vector<float> Values(const PublicationRef& publication, size_t tensor = 0) {
    const DeviceMemory& memory = *publication->tensors[tensor].buffer->buffer()->memory;
    std::vector<float> values(memory.size() / sizeof(float));
    std::memcpy(values.data(), memory.host_address(), memory.size());
    return values;
  }
  std::vector<fs::path> Files() {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder_)) files.push_back(entry.path());
    return files;
  }

  MemoryLedger ledger_{uint64_t{1} << 40};
  FakeRuntime runtime_;
  std::string folder_;
};

TEST_F(SharingTest, ReadersAreTheOwnerAndWhoIsNamed) {
  Publications publications(ledger_);
  const struct {
    const char* name;
    std::vector<std::string> readers;
  } kPublished[] = {{"own", {}}, {"some", {"carol", "bob"}}, {"all", {"*"}}};
  for (const auto& each : kPublished) {
    Publications::Draft draft = Draft("alice", each.name, NewBuffer({1}));
    draft.readers = each.readers;
    ASSERT_TRUE(publications.Publish(std::move(draft)).ok());
  }
  const struct {
    const char* caller;
    std::vector<const char*> may, may_not;
  } kCases[] = {
      {"alice", {"own", "some", "all"}, {}}, {"bob", {"some", "all"}, {"own"}},
      {"dave", {"all"}, {"own", "some"}},    {"*", {"all"}, {"own", "some"}},
      {"", {}, {"own", "some", "all"}},
  };
  for (const auto& test : kCases) {
    for (const char* name : test.may) {
      EXPECT_TRUE(publications.Find(test.caller, "alice", name).ok()) << test.caller << name;
    }
    for (const char* name : test.may_not) {
      EXPECT_FALSE(publications.Find(test.caller, "alice", name).ok()) << test.caller << name;
    }
    EXPECT_EQ(publications.List(test.caller).size(), test.may.size()) << test.caller;
    EXPECT_EQ(publications.List(test.caller, /*all=*/true).size(), 3);
  }
  EXPECT_TRUE(absl::IsNotFound(publications.Unpublish("bob", "all")));
}

TEST_F(SharingTest, BytesAreTheOwnersUntilTheLastHolderIsGone) {
  Publications publications(ledger_, {.max_published_bytes = 16, .max_publications = 2});
  const BufferRef buffer = NewBuffer({1, 2});
  PublicationRef first = *publications.Publish(Draft("alice", "a", buffer));
  // The same memory under another name, known by what the session has of it.
  Publications::Draft again = Draft("alice", "b", buffer);
  again.tensors[0].published = first->tensors[0].buffer;
  ASSERT_TRUE(publications.Publish(std::move(again)).ok());
  EXPECT_EQ(publications.stats().bytes, 8);
  // Another user who publishes it as well keeps it alive, and pays for that.
  Publications::Draft others = Draft("bob", "b", buffer);
  others.tensors[0].published = first->tensors[0].buffer;
  ASSERT_TRUE(publications.Publish(std::move(others)).ok());
  EXPECT_EQ(publications.stats().bytes, 16);
  EXPECT_THAT(publications.Publish(Draft("alice", "c", NewBuffer({1}))).status().ToString(),
              HasSubstr("'alice' has 2 publications, the limit"));
  EXPECT_THAT(publications.Publish(Draft("alice", "b", NewBuffer({1, 2, 3}))).status().ToString(),
              HasSubstr("'alice' has published 8 of the limit of 16"));
  auto held = first->tensors[0].buffer->Hold();
  EXPECT_EQ(first->holders(), 1);
  first = nullptr;
  ASSERT_TRUE(publications.Unpublish("alice", "a").ok());
  ASSERT_TRUE(publications.Unpublish("alice", "b").ok());
  ASSERT_TRUE(publications.Unpublish("bob", "b").ok());
  EXPECT_EQ(publications.stats().bytes, 8);
  held = nullptr;
  EXPECT_EQ(publications.stats().bytes, 0);
  EXPECT_EQ(publications.stats().publications, 0);
}

TEST_F(SharingTest, TheSameAgainChangesNothing) {
  Publications publications(ledger_);
  const BufferRef buffer = NewBuffer({1});
  const PublicationRef first = *publications.Publish(Draft("alice", "a", buffer));
  EXPECT_EQ(*publications.Publish(Draft("alice", "a", buffer)), first);
  Publications::Draft readers = Draft("alice", "a", buffer);
  readers.readers = {"bob", "bob"};
  const PublicationRef second = *publications.Publish(std::move(readers));
  EXPECT_GT(second->version, first->version);
  EXPECT_EQ(second->readers.size(), 1);
}

TEST_F(SharingTest, WhatIsSavedIsFoundAgain) {
  const BufferRef tied = NewBuffer({1, 2, 3});
  {
    Publications publications(ledger_);
    ASSERT_TRUE(publications.Restore(folder_, runtime_).ok());
    Publications::Draft draft = Draft("alice", std::string("any\0/\n", 6), tied);
    draft.readers = {"bob"};
    draft.tensors[0].key = "x";
    draft.tensors.push_back({.key = "none", .buffer = NewBuffer({}), .published = nullptr});
    draft.tensors.push_back({.key = "other", .buffer = NewBuffer({7}), .published = nullptr});
    draft.tensors.push_back({.key = "y", .buffer = tied, .published = nullptr});
    EXPECT_TRUE((*publications.Publish(std::move(draft)))->saved);
    ASSERT_TRUE(publications.Publish(Draft("alice", "gone", NewBuffer({1}))).ok());
    ASSERT_TRUE(publications.Publish(Draft("bob", "b", NewBuffer({1}))).ok());
    ASSERT_TRUE(publications.Publish(Draft("bob", "b", NewBuffer({2}))).ok());
    ASSERT_TRUE(publications.Unpublish("alice", "gone").ok());
    Publications second(ledger_);
    EXPECT_THAT(second.Restore(folder_, runtime_).ToString(), HasSubstr("another daemon uses it"));
  }
  EXPECT_EQ(Files().size(), 2);
  Publications publications(ledger_);
  ASSERT_TRUE(publications.Restore(folder_, runtime_).ok());
  ASSERT_EQ(publications.List("", true).size(), 2);
  const PublicationRef found = *publications.Find("bob", "alice", std::string("any\0/\n", 6));
  ASSERT_EQ(found->tensors.size(), 4);
  EXPECT_EQ(Values(found), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(found->tensors[1].buffer->buffer()->shape, (std::vector<int64_t>{0}));
  EXPECT_EQ(Values(found, 2), (std::vector<float>{7}));
  EXPECT_EQ(found->tensors[0].buffer, found->tensors[3].buffer);
  EXPECT_EQ(found->bytes(), 16);
  EXPECT_EQ(Values(*publications.Find("bob", "bob", "b")), (std::vector<float>{2}));
}

TEST_F(SharingTest, AChangedFileIsSetAsideWhereverItIsChanged) {
  {
    Publications publications(ledger_);
    ASSERT_TRUE(publications.Restore(folder_, runtime_).ok());
    ASSERT_TRUE(publications.Publish(Draft("alice", "a", NewBuffer({1, 2, 3}))).ok());
  }
  const fs::path path = Files()[0];
  std::ifstream file(path, std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::string> changed = {whole + "x", std::string(whole.size(), '\0')};
  for (size_t i = 0; i < whole.size(); ++i) {
    changed.push_back(whole.substr(0, i));
    changed.push_back(whole);
    changed.back()[i] = static_cast<char>(changed.back()[i] ^ (1 << (i % 8)));
  }
  for (const std::string& data : changed) {
    fs::remove_all(folder_);
    fs::create_directory(folder_);
    std::ofstream(path, std::ios::binary) << data;
    const MemoryStats before = runtime_.device().allocator().stats();
    Publications publications(ledger_);
    ASSERT_TRUE(publications.Restore(folder_, runtime_).ok());
    EXPECT_EQ(publications.stats().publications, 0);
    EXPECT_EQ(runtime_.device().allocator().stats().in_use_bytes, before.in_use_bytes);
    // Some say what is not there now: another device, for instance. Such a file stays.
    if (publications.stats().rejected == 0) continue;
    ASSERT_EQ(Files().size(), 1);
    EXPECT_EQ(Files()[0], path.string() + ".corrupt");
  }
  // A file that was renamed is not what it says.
  fs::remove_all(folder_);
  fs::create_directory(folder_);
  std::ofstream(folder_ + "/other.published", std::ios::binary) << whole;
  Publications publications(ledger_);
  ASSERT_TRUE(publications.Restore(folder_, runtime_).ok());
  EXPECT_EQ(publications.stats().rejected, 1);
}

TEST_F(SharingTest, WhatIsNoFileIsLeftAlone) {
  {
    Publications publications(ledger_);
    ASSERT_TRUE(publications.Restore(folder_, runtime_).ok());
    ASSERT_TRUE(publications.Publish(Draft("alice", "a", NewBuffer({1}))).ok());
  }
  ASSERT_EQ(mkfifo((folder_ + "/pipe.published").c_str(), 0600), 0);
  fs::create_directory(folder_ + "/folder.published");
  fs::create_directory(folder_ + "/folder.unfinished");
  fs::create_symlink("/dev/zero", folder_ + "/endless.published");
  fs::create_symlink("/nowhere", folder_ + "/nowhere.published");
  Publications publications(ledger_);
  ASSERT_TRUE(publications.Restore(folder_, runtime_).ok());
  EXPECT_EQ(publications.stats().publications, 1);
  EXPECT_EQ(publications.stats().rejected, 0);
  EXPECT_EQ(Files().size(), 6);
}

TEST_F(SharingTest, WhatStaysOnDiskStaysPublished) {
  Publications publications(ledger_);
  ASSERT_TRUE(publications.Restore(folder_, runtime_).ok());
  ASSERT_TRUE(publications.Publish(Draft("alice", "a", NewBuffer({1}))).ok());
  const fs::path path = Files()[0], aside = folder_ + "/aside";
  fs::rename(path, aside);
  fs::create_directory(path);  // which unlink doesn't remove
  EXPECT_THAT(publications.Unpublish("alice", "a").ToString(), HasSubstr("cannot remove"));
  EXPECT_TRUE(publications.Find("alice", "alice", "a").ok());
  fs::remove(path);
  fs::rename(aside, path);
  EXPECT_TRUE(publications.Unpublish("alice", "a").ok());
  EXPECT_EQ(Files().size(), 0);
}

}  // namespace
}  // namespace tensord
