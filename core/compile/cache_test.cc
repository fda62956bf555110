#include "core/compile/cache.h"

#include <absl/synchronization/notification.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

#include "core/base/status.h"

namespace tensord {
namespace {

namespace fs = std::filesystem;
using Outcome = KernelCache::Outcome;

class CacheTest : public testing::Test {
 protected:
  CacheTest() {
    const testing::TestInfo* info = testing::UnitTest::GetInstance()->current_test_info();
    directory_ = fs::path(testing::TempDir()) / fmt::format("cache-{}-{}", getpid(), info->name());
    fs::remove_all(directory_);
  }
  ~CacheTest() override { fs::remove_all(directory_); }

  KernelCache::Options OnDisk(uint64_t limit = 1 << 20) const {
    return {.directory = directory_.string(), .disk_limit_bytes = limit};
  }
  // The kernels in the folder.
  std::vector<fs::path> Files() const {
    std::vector<fs::path> files;
    for (const auto& file : fs::recursive_directory_iterator(directory_)) {
      if (file.is_regular_file()) files.push_back(file.path());
    }
    return files;
  }

  fs::path directory_;
};

KernelKey Key(int n) { return HashKernelKey(fmt::format("kernel {}", n)); }

CompiledKernel Kernel(int n, size_t bytes = 100) {
  std::string binary = fmt::format("binary {} ", n);
  binary.resize(bytes, static_cast<char>('a' + n % 26));
  return {.name = fmt::format("name {}", n),
          .entry = fmt::format("entry_{}", n),
          .binary = std::move(binary),
          .grid = n + 1,
          .source = fmt::format("source {}", n)};
}

void ExpectIs(const absl::StatusOr<KernelCache::KernelRef>& kernel,
              const CompiledKernel& expected) {
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_EQ((*kernel)->name, expected.name);
  EXPECT_EQ((*kernel)->entry, expected.entry);
  EXPECT_EQ((*kernel)->binary, expected.binary);
  EXPECT_EQ((*kernel)->grid, expected.grid);
  EXPECT_EQ((*kernel)->source, expected.source);
}

// Asks for kernel n, and says what it took.
Outcome Get(KernelCache& cache, int n, size_t bytes = 100) {
  Outcome outcome;
  ExpectIs(cache.GetOrCompile(
               Key(n), [&] { return Kernel(n, bytes); }, &outcome),
           Kernel(n, bytes));
  return outcome;
}

TEST_F(CacheTest, ListsWhatIsInMemoryAndShowsWhatIsAnywhere) {
  KernelCache cache(OnDisk());
  Get(cache, 1);
  Get(cache, 2);
  Get(cache, 1);
  const auto listed = cache.List(10);
  ASSERT_EQ(listed.size(), 2u);
  EXPECT_EQ(listed[0].name, "name 1");  // used last
  EXPECT_EQ(listed[1].key, Key(2));
  EXPECT_GT(listed[1].bytes, 100u);
  EXPECT_EQ(cache.List(1).size(), 1u);
  ExpectIs(cache.Peek(Key(2)), Kernel(2));
  EXPECT_EQ(cache.Peek(Key(3)), nullptr);
  KernelCache other(OnDisk());
  ExpectIs(other.Peek(Key(2)), Kernel(2));
  EXPECT_EQ(other.stats().disk_hits + other.stats().misses, 0u);
}

TEST_F(CacheTest, KeysAreReadAsTheyAreWritten) {
  EXPECT_EQ(KernelKey::FromHex(Key(7).Hex()), Key(7));
  const std::string hex = Key(7).Hex();
  for (const std::string& wrong :
       {std::string(), hex + "0", hex.substr(1), "-" + hex.substr(1), "g" + hex.substr(1)}) {
    EXPECT_EQ(KernelKey::FromHex(wrong), std::nullopt) << wrong;
  }
}

TEST_F(CacheTest, CompilesOnceThenRemembers) {
  KernelCache cache({});
  EXPECT_EQ(Get(cache, 1), Outcome::kCompiled);
  EXPECT_EQ(Get(cache, 1), Outcome::kMemory);
  EXPECT_EQ(Get(cache, 2), Outcome::kCompiled);
  EXPECT_EQ(cache.stats().misses, 2u);
  EXPECT_EQ(cache.stats().memory_hits, 1u);
  EXPECT_EQ(cache.stats().memory_entries, 2u);
  EXPECT_EQ(cache.directory(), "");
}

TEST_F(CacheTest, SurvivesOnDisk) {
  {
    KernelCache cache(OnDisk());
    EXPECT_EQ(Get(cache, 1), Outcome::kCompiled);
  }
  KernelCache cache(OnDisk());
  EXPECT_EQ(cache.stats().disk.entries, 1u);
  EXPECT_EQ(Get(cache, 1), Outcome::kDisk);
  EXPECT_EQ(Get(cache, 1), Outcome::kMemory);
  EXPECT_EQ(cache.stats().disk_hits, 1u);
  EXPECT_EQ(cache.stats().misses, 0u);
}

TEST_F(CacheTest, FolderIsOursAlone) {
  KernelCache cache(OnDisk());
  Get(cache, 1);
  for (const fs::path& path : {directory_, Files()[0].parent_path()}) {
    EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_all) << path;
  }
}

TEST_F(CacheTest, RefusesAFolderThatOthersMayWrite) {
  fs::create_directories(directory_);
  fs::permissions(directory_, fs::perms::all);
  KernelCache cache(OnDisk());
  EXPECT_EQ(cache.directory(), "");
  EXPECT_EQ(Get(cache, 1), Outcome::kCompiled);
  EXPECT_TRUE(Files().empty());
}

// A file instead of the folder, as seen by any user, root included.
TEST_F(CacheTest, GoesOnWithoutAFolder) {
  std::ofstream(directory_) << "no folder";
  KernelCache cache(OnDisk());
  EXPECT_EQ(Get(cache, 1), Outcome::kCompiled);
  EXPECT_EQ(Get(cache, 1), Outcome::kMemory);
}

TEST_F(CacheTest, GoesOnWhenWritingFails) {
  KernelCache cache(OnDisk());
  fs::remove_all(directory_);
  std::ofstream(directory_) << "no folder";
  EXPECT_EQ(Get(cache, 1), Outcome::kCompiled);
  EXPECT_EQ(Get(cache, 1), Outcome::kMemory);
}

TEST_F(CacheTest, ErrorsReachTheCallerAndAreNotKept) {
  KernelCache cache(OnDisk());
  Outcome outcome;
  auto failed = cache.GetOrCompile(
      Key(1), []() -> absl::StatusOr<CompiledKernel> { return InvalidArgument("bad kernel"); },
      &outcome);
  EXPECT_EQ(failed.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Get(cache, 1), Outcome::kCompiled);
}

TEST_F(CacheTest, EveryDamagedByteIsNoticedAndRepaired) {
  {
    KernelCache(OnDisk())
        .GetOrCompile(
            Key(1), [] { return Kernel(1); }, nullptr)
        .IgnoreError();
  }
  const fs::path path = Files().at(0);
  std::ifstream stream(path, std::ios::binary);
  const std::string intact((std::istreambuf_iterator<char>(stream)), {});
  auto write = [&](const std::string& content) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
  };
  std::vector<std::string> damaged = {"", intact + "x", intact.substr(0, intact.size() - 1),
                                      intact.substr(0, 20), std::string(intact.size(), '\0')};
  for (size_t i = 0; i < intact.size(); ++i) {
    damaged.push_back(intact);
    damaged.back()[i] ^= 0x10;
  }
  for (const std::string& content : damaged) {
    write(content);
    DiskStore store(directory_.string(), 1 << 20);
    EXPECT_FALSE(store.Read(Key(1)).has_value());
    EXPECT_EQ(store.stats().rejected, 1u);
    EXPECT_FALSE(fs::exists(path));
  }
  write(damaged.back());
  KernelCache cache(OnDisk());
  EXPECT_EQ(Get(cache, 1), Outcome::kCompiled);
  EXPECT_EQ(cache.stats().disk.rejected, 1u);
  KernelCache again(OnDisk());
  EXPECT_EQ(Get(again, 1), Outcome::kDisk);
}

TEST_F(CacheTest, AnEntryUnderAnotherKeyIsForeign) {
  DiskStore store(directory_.string(), 1 << 20);
  store.Write(Key(1), Kernel(1));
  const fs::path from = Files().at(0);
  store.Write(Key(2), Kernel(2));
  for (const fs::path& to : Files()) {
    if (to != from) fs::copy_file(from, to, fs::copy_options::overwrite_existing);
  }
  EXPECT_FALSE(store.Read(Key(2)).has_value());
  EXPECT_TRUE(store.Read(Key(1)).has_value());
}

TEST_F(CacheTest, EvictsTheLeastRecentlyUsed) {
  constexpr size_t kBytes = 1000;
  DiskStore store(directory_.string(), 10 * 1100);
  auto set_age = [&](int n, int hours) {
    for (const fs::path& path : Files()) {
      if (path.parent_path().filename().string() + path.filename().string() == Key(n).Hex()) {
        fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(hours));
      }
    }
  };
  for (int n = 0; n < 9; ++n) {
    store.Write(Key(n), Kernel(n, kBytes));
    set_age(n, 20 - n);
  }
  EXPECT_EQ(store.stats().evicted, 0u);
  ASSERT_TRUE(store.Read(Key(0)).has_value());  // now the latest used
  store.Write(Key(9), Kernel(9, kBytes));
  store.Write(Key(10), Kernel(10, kBytes));
  EXPECT_GT(store.stats().evicted, 0u);
  EXPECT_LE(store.stats().bytes, store.stats().limit_bytes);
  EXPECT_TRUE(store.Read(Key(0)).has_value());
  EXPECT_FALSE(store.Read(Key(1)).has_value());
  EXPECT_TRUE(store.Read(Key(10)).has_value());

  // A smaller limit holds from the start.
  DiskStore smaller(directory_.string(), 2 * 1100);
  EXPECT_LE(smaller.stats().bytes, 2u * 1100);
  EXPECT_EQ(smaller.stats().entries, Files().size());
}

TEST_F(CacheTest, KeepsNothingThatIsLargerThanTheLimit) {
  DiskStore store(directory_.string(), 500);
  store.Write(Key(1), Kernel(1, 1000));
  EXPECT_EQ(store.stats().entries, 0u);
}

TEST_F(CacheTest, MemoryIsBounded) {
  KernelCache cache({.directory = "", .memory_limit_bytes = 5000});
  for (int n = 0; n < 20; ++n) Get(cache, n, 1000);
  EXPECT_LE(cache.stats().memory_bytes, 5000u);
  EXPECT_EQ(Get(cache, 19, 1000), Outcome::kMemory);
  EXPECT_EQ(Get(cache, 0, 1000), Outcome::kCompiled);
}

TEST_F(CacheTest, RemovesOldTemporaryFilesOnly) {
  DiskStore(directory_.string(), 1 << 20).Write(Key(1), Kernel(1));
  const fs::path group = Files().at(0).parent_path();
  const fs::path old = group / ".tmp-1-old", fresh = group / ".tmp-1-new";
  const fs::path other = group / "notes.txt";
  for (const fs::path& path : {old, fresh, other}) std::ofstream(path) << "half a kernel";
  for (const fs::path& path : {old, other}) {
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(2));
  }
  DiskStore store(directory_.string(), 1 << 20);
  EXPECT_EQ(store.stats().entries, 1u);
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(fresh));
  EXPECT_TRUE(fs::exists(other));
}

TEST_F(CacheTest, ClearForgetsMemoryAndDisk) {
  KernelCache cache(OnDisk());
  Get(cache, 1);
  Get(cache, 2);
  cache.Clear();
  EXPECT_TRUE(Files().empty());
  EXPECT_EQ(cache.stats().memory_entries, 0u);
  EXPECT_EQ(cache.stats().disk.entries, 0u);
  EXPECT_EQ(Get(cache, 1), Outcome::kCompiled);
}

// All threads ask before the compilation can end: it waits until the others have joined or, if they
// come later, they find its result; either way it happens once.
TEST_F(CacheTest, EqualRequestsInFlightCompileOnce) {
  constexpr int kThreads = 16;
  KernelCache cache(OnDisk());
  std::atomic<int> compiled{0}, by_this_call{0};
  absl::Notification others_started;
  std::atomic<int> started{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      if (++started == kThreads) others_started.Notify();
      Outcome outcome;
      ExpectIs(cache.GetOrCompile(
                   Key(1),
                   [&] {
                     ++compiled;
                     others_started.WaitForNotification();
                     return Kernel(1);
                   },
                   &outcome),
               Kernel(1));
      if (outcome == Outcome::kCompiled) ++by_this_call;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(compiled, 1);
  EXPECT_EQ(by_this_call, 1);
  EXPECT_EQ(cache.stats().misses, 1u);
  EXPECT_EQ(cache.stats().memory_hits, kThreads - 1u);
}

// As two daemons would: each has its own memory, the folder is small enough that entries are
// evicted while others are read, and now and then all is cleared.
TEST_F(CacheTest, TwoCachesShareAFolder) {
  constexpr int kKernels = 40, kRounds = 300;
  KernelCache::Options options = OnDisk(20 * 300);
  options.memory_limit_bytes = 1000;
  KernelCache first(options), second(options);
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      KernelCache& cache = t % 2 == 0 ? first : second;
      uint32_t random = 12345u + static_cast<uint32_t>(t);
      for (int i = 0; i < kRounds; ++i) {
        random = random * 1664525 + 1013904223;
        if (random >> 24 == 0) cache.Clear();
        Get(cache, static_cast<int>(random >> 8) % kKernels, 200);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(first.stats().disk.rejected, 0u);
  EXPECT_EQ(second.stats().disk.rejected, 0u);
  for (const fs::path& path : Files()) {
    EXPECT_NE(path.filename().string().substr(0, 5), ".tmp-");
  }
}

}  // namespace
}  // namespace tensord
