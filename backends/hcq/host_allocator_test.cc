#include "backends/hcq/host_allocator.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "core/base/status.h"

namespace tensord::hcq {
namespace {

// An allocator only hands its device's reference on.
class NoDevice final : public Device {
 public:
  const std::string& name() const override { return name_; }
  const Target& target() const override { return target_; }
  Allocator& allocator() override { std::abort(); }
  Timeline& timeline() override { std::abort(); }
  absl::StatusOr<std::unique_ptr<LoadedKernel>> Load(const std::string&,
                                                     const std::string&) override {
    std::abort();
  }
  absl::Status Submit(CommandList) override { std::abort(); }
  Progress progress() override { std::abort(); }
  void Abandon(uint64_t, const absl::Status&) override { std::abort(); }

 private:
  std::string name_;
  Target target_;
};

class HostAllocatorTest : public testing::Test {
 protected:
  std::unique_ptr<HostAllocator> Make(uint64_t capacity_bytes, uint64_t max_cached_bytes) {
    return std::make_unique<HostAllocator>(
        HostAllocatorOptions{"M:0", capacity_bytes, max_cached_bytes}, device_);
  }

  NoDevice device_;
};

TEST(SizeClassTest, WastesAtMostAnEighthAndGrowsInSteps) {
  struct Case {
    size_t asked, expected;
  };
  for (const Case& c : {Case{0, 64},
                        {1, 64},
                        {64, 64},
                        {65, 128},
                        {512, 512},
                        {513, 576},
                        {1024, 1024},
                        {1025, 1152},
                        {1 << 20, 1 << 20},
                        {(1 << 20) + 1, 9 << 17}}) {
    EXPECT_EQ(SizeClass(c.asked), c.expected) << c.asked;
  }
  for (size_t bytes = 513; bytes < (1 << 24); bytes += bytes / 97 + 1) {
    EXPECT_GE(SizeClass(bytes), bytes);
    EXPECT_LE(SizeClass(bytes) * 8, bytes * 9) << bytes;
    EXPECT_EQ(SizeClass(SizeClass(bytes)), SizeClass(bytes)) << bytes;
    EXPECT_EQ(SizeClass(bytes) % 64, 0) << bytes;
  }
}

TEST_F(HostAllocatorTest, MemoryIsAlignedAndWritable) {
  auto allocator = Make(1 << 30, 1 << 30);
  for (const size_t bytes :
       {size_t{0}, size_t{1}, size_t{63}, size_t{4097}, size_t{300 << 10}, size_t{5 << 20}}) {
    auto memory = allocator->Allocate(bytes);
    ASSERT_TRUE(memory.ok()) << memory.status();
    EXPECT_EQ((*memory)->size(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>((*memory)->address()) % 64, 0);
    EXPECT_NE((*memory)->address(), nullptr);
    EXPECT_EQ((*memory)->host_address(), (*memory)->address());
    EXPECT_EQ(&(*memory)->device(), &device_);
    std::memset((*memory)->host_address(), 0xA5, bytes);
  }
  auto huge = allocator->Allocate(8 << 20);
  EXPECT_EQ(reinterpret_cast<uintptr_t>((*huge)->address()) % (2 << 20), 0);
}

TEST_F(HostAllocatorTest, ReusesWhatWasFreedLast) {
  auto allocator = Make(1 << 20, 1 << 20);
  auto a = *allocator->Allocate(1000);
  auto b = *allocator->Allocate(1000);
  void* const b_address = b->address();
  a.reset();
  b.reset();
  EXPECT_EQ(allocator->stats().cached_bytes, 2048);
  EXPECT_EQ((*allocator->Allocate(961))->address(), b_address);
  EXPECT_EQ(allocator->stats().allocations, 3);
}

TEST_F(HostAllocatorTest, RefusalTellsTheAccount) {
  auto allocator = Make(4096, 4096);
  auto used = *allocator->Allocate(1024);
  EXPECT_TRUE(allocator->Allocate(2048).ok());  // and given back at once
  const absl::Status status = allocator->Allocate(3073).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Message(status),
            "M:0: cannot allocate 3073 bytes: 1024 in use, 2048 cached, capacity 4096; free some "
            "buffers, or raise the device's memory limit");
  EXPECT_EQ(allocator->stats().in_use_bytes, 1024);
  EXPECT_EQ(allocator->Allocate(SIZE_MAX).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(HostAllocatorTest, MakesRoomFromTheCache) {
  auto allocator = Make(4096, 4096);
  { auto freed = *allocator->Allocate(2048); }
  EXPECT_EQ(allocator->stats().cached_bytes, 2048);
  auto big = allocator->Allocate(3072);
  EXPECT_TRUE(big.ok()) << big.status();
  EXPECT_EQ(allocator->stats().cached_bytes, 0);
}

TEST_F(HostAllocatorTest, CacheIsBoundedAndDropsTheOldest) {
  auto allocator = Make(1 << 20, 2048);
  auto a = *allocator->Allocate(1024);
  auto b = *allocator->Allocate(2048);
  a.reset();
  b.reset();
  EXPECT_EQ(allocator->stats().cached_bytes, 2048);
  allocator->Trim();
  EXPECT_EQ(allocator->stats().cached_bytes, 0);
  EXPECT_EQ(allocator->stats().in_use_bytes, 0);
  EXPECT_EQ(allocator->stats().peak_in_use_bytes, 3072);
}

TEST_F(HostAllocatorTest, MemoryMayOutliveTheAllocator) {
  auto allocator = Make(1 << 20, 1 << 20);
  auto memory = *allocator->Allocate(1 << 19);
  allocator.reset();
  std::memset(memory->host_address(), 1, memory->size());
}

// Random allocations and frees against a model of the account; every block carries a pattern that
// another one's use would destroy.
TEST_F(HostAllocatorTest, FuzzAgainstAModel) {
  constexpr uint64_t kCapacity = 8 << 20, kMaxCached = 2 << 20;
  auto allocator = Make(kCapacity, kMaxCached);
  std::mt19937 random(1);
  std::vector<std::shared_ptr<DeviceMemory>> live;
  uint64_t in_use = 0, peak = 0;
  const auto pattern = [](const DeviceMemory& memory) {
    return static_cast<unsigned char>(memory.size() * 31 + 7);
  };
  for (int step = 0; step < 20000; ++step) {
    if (random() % 2 == 0) {
      const size_t bytes = random() % (size_t{1} << (random() % 22));
      auto memory = allocator->Allocate(bytes);
      EXPECT_EQ(memory.ok(), in_use + SizeClass(bytes) <= kCapacity) << "step " << step;
      if (!memory.ok()) continue;
      in_use += SizeClass(bytes);
      peak = std::max(peak, in_use);
      if (bytes > 0) {
        auto* data = static_cast<unsigned char*>((*memory)->host_address());
        data[0] = data[bytes / 2] = data[bytes - 1] = pattern(**memory);
      }
      live.push_back(*std::move(memory));
    } else if (!live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      if (const size_t bytes = live.back()->size(); bytes > 0) {
        const auto* data = static_cast<unsigned char*>(live.back()->host_address());
        for (const size_t i : {size_t{0}, bytes / 2, bytes - 1}) {
          ASSERT_EQ(data[i], pattern(*live.back())) << "step " << step;
        }
      }
      in_use -= SizeClass(live.back()->size());
      live.pop_back();
    }
    const MemoryStats stats = allocator->stats();
    ASSERT_EQ(stats.in_use_bytes, in_use);
    ASSERT_EQ(stats.peak_in_use_bytes, peak);
    ASSERT_LE(stats.cached_bytes, kMaxCached);
    ASSERT_LE(stats.in_use_bytes + stats.cached_bytes, kCapacity);
  }
}

TEST_F(HostAllocatorTest, AccountIsExactUnderConcurrency) {
  auto allocator = Make(1 << 30, 1 << 20);
  constexpr int kThreads = 4, kRounds = 2000;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      std::vector<std::shared_ptr<DeviceMemory>> live;
      for (int i = 0; i < kRounds; ++i) {
        auto memory = *allocator->Allocate(random() % 100'000);
        if (memory->size() > 0) std::memset(memory->host_address(), t, 1);
        live.push_back(std::move(memory));
        if (live.size() > 10) live.erase(live.begin() + random() % live.size());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const MemoryStats stats = allocator->stats();
  EXPECT_EQ(stats.in_use_bytes, 0);
  EXPECT_LE(stats.cached_bytes, 1 << 20);
  EXPECT_EQ(stats.allocations, kThreads * kRounds);
}

}  // namespace
}  // namespace tensord::hcq
