// The allocator's contract.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "backends/conformance/suite.h"
#include "core/base/status.h"
#include "core/device/device.h"

namespace tensord::conformance {
namespace {

using MemoryTest = ConformanceTest;

TEST_F(MemoryTest, AddressesAreAligned) {
  for (const size_t bytes : {0, 1, 65, 4097, 3 << 20}) {
    const auto memory = Allocate(bytes);
    EXPECT_EQ(memory->size(), bytes);
    EXPECT_NE(memory->address(), nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory->address()) % 64, 0);
    EXPECT_EQ(&memory->device(), &device());
  }
}

TEST_F(MemoryTest, LiveAllocationsDontOverlap) {
  std::mt19937 random(2);
  std::map<uintptr_t, std::shared_ptr<DeviceMemory>> live;  // by address
  for (int step = 0; step < 5000; ++step) {
    if (random() % 3 != 0 || live.empty()) {
      const auto memory = Allocate(random() % (size_t{1} << (random() % 17)));
      live[reinterpret_cast<uintptr_t>(memory->address())] = memory;
    } else {
      live.erase(std::next(live.begin(), random() % live.size()));
    }
    if (live.size() > 500) live.clear();
    if (step % 100 != 0) continue;
    uintptr_t end = 0;
    for (const auto& [address, memory] : live) {
      ASSERT_GE(address, end) << "step " << step;
      end = address + memory->size();
    }
  }
}

TEST_F(MemoryTest, TheAccountBalances) {
  Allocator& allocator = device().allocator();
  const MemoryStats before = allocator.stats();
  EXPECT_EQ(before.capacity_bytes, 256 << 20);
  {
    const auto a = Allocate(1 << 20), b = Allocate(100);
    const MemoryStats stats = allocator.stats();
    EXPECT_GE(stats.in_use_bytes, before.in_use_bytes + (1 << 20) + 100);
    EXPECT_EQ(stats.allocations, before.allocations + 2);
  }
  const MemoryStats after = allocator.stats();
  EXPECT_EQ(after.in_use_bytes, before.in_use_bytes);
  EXPECT_GE(after.peak_in_use_bytes, before.in_use_bytes + (1 << 20) + 100);
  allocator.Trim();
  EXPECT_EQ(allocator.stats().cached_bytes, 0);
  EXPECT_EQ(device(1).allocator().stats().allocations, 0);  // an account of its own
}

TEST_F(MemoryTest, RefusesWhatDoesNotFitAndGoesOn) {
  const auto most = Allocate(200 << 20);
  const auto refused = device().allocator().Allocate(100 << 20);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  const std::string message(Message(refused.status()));
  EXPECT_NE(message.find(device().name()), std::string::npos) << message;
  EXPECT_NE(message.find("104857600 bytes"), std::string::npos) << message;
  EXPECT_TRUE(device().allocator().Allocate(10 << 20).ok());
}

TEST_F(MemoryTest, TheCacheNeverCausesARefusal) {
  for (size_t bytes = 10 << 20; bytes < (200 << 20); bytes += 17 << 20) {
    EXPECT_TRUE(device().allocator().Allocate(bytes).ok()) << bytes;
  }
}

TEST_F(MemoryTest, AllocationsOfThreadsBalance) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      std::vector<std::shared_ptr<DeviceMemory>> live;
      for (int i = 0; i < 1000; ++i) {
        live.push_back(Allocate(random() % 50'000));
        if (live.size() > 8) live.erase(live.begin() + random() % live.size());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(device().allocator().stats().in_use_bytes, 0);
  EXPECT_EQ(device().allocator().stats().allocations, 8000);
}

// Freed by the host while the device still copies from it: only Keep may protect the bytes.
TEST_F(MemoryTest, KeptMemoryIsNotReusedBeforeItsListHasRun) {
  constexpr size_t kBytes = 1 << 16;
  Signal gate;
  auto memory = Allocate(kBytes);
  const std::vector<uint8_t> sent(kBytes, 0x5A);
  Upload(*memory, sent.data(), kBytes);
  std::vector<uint8_t> received(kBytes);
  OrderedList list = Begin();
  list.commands.Wait(&gate, 1);
  list.commands.Copy(received.data(), memory->address(), kBytes);
  void* const address = memory->address();
  list.commands.Keep(std::move(memory));
  const uint64_t done = Submit(std::move(list));
  const auto other = Allocate(kBytes);
  EXPECT_NE(other->address(), address);
  if (other->host_address() != nullptr) std::memset(other->host_address(), 0, kBytes);
  gate.value.store(1, std::memory_order_release);
  EXPECT_TRUE(WaitFor(done).ok());
  EXPECT_TRUE(received == sent);
}

}  // namespace
}  // namespace tensord::conformance
