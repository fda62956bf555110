#include "server/memory/spill_store.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace tensord {
namespace {

using Entry = std::shared_ptr<SpillStore::Spilled>;

std::string Folder() {
  static int number = 0;
  return fmt::format("{}/spill-{}-{}", testing::TempDir(), getpid(), ++number);
}

std::string Bytes(size_t size, char seed) {
  std::string bytes(size, seed);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(seed + i * 7 + i / 251);
  return bytes;
}

std::string Back(const SpillStore::Spilled& entry) {
  std::string bytes(entry.size(), '\0');
  const absl::Status status = entry.Get(absl::MakeSpan(bytes));
  EXPECT_TRUE(status.ok()) << status;
  return bytes;
}

std::unique_ptr<SpillStore> Make(SpillOptions options) {
  absl::StatusOr<std::unique_ptr<SpillStore>> store = SpillStore::Create(std::move(options));
  EXPECT_TRUE(store.ok()) << store.status();
  return *std::move(store);
}

Entry Put(SpillStore& store, const std::string& bytes) {
  absl::StatusOr<Entry> entry = store.Put(bytes);
  EXPECT_TRUE(entry.ok()) << entry.status();
  return *std::move(entry);
}

TEST(SpillStoreTest, GivesBackWhatWasPut) {
  const auto store = Make({.host_bytes = 1 << 20, .folder = Folder(), .disk_bytes = 64 << 20});
  for (const size_t size : {0, 1, 4096, 1 << 20, (1 << 20) + 1, 5 << 20}) {  // the last two on disk
    const std::string bytes = Bytes(size, 'a');
    EXPECT_EQ(Back(*Put(*store, bytes)), bytes) << size;
  }
  EXPECT_EQ(store->stats().host_entries + store->stats().disk_entries, 0u);
  EXPECT_EQ(store->stats().host_bytes + store->stats().disk_bytes, 0u);
}

TEST(SpillStoreTest, WhatHasBeenThereLongestGoesToDisk) {
  const std::string folder = Folder();
  const auto store = Make({.host_bytes = 100, .folder = folder, .disk_bytes = 80});
  std::vector<Entry> entries;
  for (char seed = 'a'; seed < 'e'; ++seed) {
    entries.push_back(Put(*store, Bytes(40, seed)));
    EXPECT_LE(store->stats().host_bytes, 100u);
  }
  EXPECT_EQ(store->stats().host_entries, 2u);
  EXPECT_EQ(store->stats().disk_bytes, 80u);
  EXPECT_TRUE(std::filesystem::is_empty(folder));  // the files have no names
  for (char seed = 'a'; seed < 'e'; ++seed) EXPECT_EQ(Back(*entries[seed - 'a']), Bytes(40, seed));
  // Both are full.
  const absl::Status full = store->Put(Bytes(40, 'e')).status();
  EXPECT_TRUE(absl::IsResourceExhausted(full));
  EXPECT_EQ(Message(full),
            "no room to spill 40 bytes: --spill-host-bytes allows 100, of which 80 are taken; "
            "--spill-disk-bytes allows 80, of which 80 are taken");
  for (char seed = 'a'; seed < 'e'; ++seed) EXPECT_EQ(Back(*entries[seed - 'a']), Bytes(40, seed));
  entries.erase(entries.begin());  // is on disk
  entries.push_back(Put(*store, Bytes(40, 'e')));
  EXPECT_EQ(Back(*entries[1]), Bytes(40, 'c'));
  entries.clear();
  EXPECT_EQ(store->stats().host_bytes + store->stats().disk_bytes, 0u);
}

TEST(SpillStoreTest, WithoutAFolderMemoryIsAll) {
  const auto store = Make({.host_bytes = 100, .disk_bytes = 1 << 20});
  const Entry entry = Put(*store, Bytes(60, 'a'));
  const absl::Status full = store->Put(Bytes(60, 'b')).status();
  EXPECT_EQ(
      Message(full),
      "no room to spill 60 bytes: --spill-host-bytes allows 100, of which 60 are taken; there "
      "is no --spill-dir");
  EXPECT_EQ(store->stats().host_bytes, 60u);
  EXPECT_EQ(Back(*entry), Bytes(60, 'a'));
}

TEST(SpillStoreTest, WhatIsSpilledOutlivesTheStore) {
  auto store = Make({.host_bytes = 100, .folder = Folder(), .disk_bytes = 100});
  const Entry disk = Put(*store, Bytes(60, 'a')), host = Put(*store, Bytes(60, 'b'));
  store = nullptr;
  EXPECT_EQ(Back(*disk), Bytes(60, 'a'));
  EXPECT_EQ(Back(*host), Bytes(60, 'b'));
}

// The file, which has no name, through the process's own list of files.
std::string PathOfFile(const std::string& folder) {
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(each.path(), error).string();
    if (!error && target.starts_with(std::filesystem::canonical(folder).string())) {
      return each.path().string();
    }
  }
  return "";
}

TEST(SpillStoreTest, AFileThatChangedIsDataLoss) {
  struct Case {
    const char* name;
    void (*damage)(const std::string& path);
    std::string_view error;
  };
  const Case cases[] = {
      {"short", [](const std::string& path) { std::filesystem::resize_file(path, 10); },
       "the file ends after 10 of 50"},
      {"other",
       [](const std::string& path) {
         ASSERT_EQ(truncate(path.c_str(), 49), 0);
         ASSERT_EQ(truncate(path.c_str(), 50), 0);
       },
       "the file has others than were written"},
  };
  for (const Case& each : cases) {
    const std::string folder = Folder();
    const auto store = Make({.folder = folder, .disk_bytes = 100});
    const Entry entry = Put(*store, Bytes(50, 'a'));
    each.damage(PathOfFile(folder));
    std::string bytes(50, '\0');
    const absl::Status status = entry->Get(absl::MakeSpan(bytes));
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << each.name;
    EXPECT_NE(Message(status).find(each.error), std::string_view::npos) << status;
  }
}

TEST(SpillStoreTest, AFolderThatCanNotBeHasAnError) {
  const std::string folder = Folder();
  EXPECT_TRUE(SpillStore::Create({.folder = folder + "/deep/er", .disk_bytes = 1}).ok());
  EXPECT_TRUE(std::filesystem::is_directory(folder + "/deep/er"));
  const absl::Status status =
      SpillStore::Create({.folder = "/dev/null/x", .disk_bytes = 1}).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
}

}  // namespace
}  // namespace tensord
