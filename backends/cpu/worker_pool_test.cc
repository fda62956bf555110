#include "backends/cpu/worker_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <thread>
#include <vector>

namespace tensord::cpu {
namespace {

void CountVisit(void* const* buffers, const int64_t*, int64_t grid_index) {
  static_cast<std::atomic<int>*>(buffers[0])[grid_index].fetch_add(1, std::memory_order_relaxed);
}

TEST(WorkerPoolTest, RunsEveryWorkgroupOnce) {
  for (const int threads : {1, 2, 5}) {
    WorkerPool pool("P", threads);
    EXPECT_EQ(pool.threads(), threads);
    for (const int64_t grid : {0, 1, 2, 3, 7, 64, 1000, 12345}) {
      std::vector<std::atomic<int>> visits(grid);
      void* buffers[] = {visits.data()};
      EXPECT_FALSE(pool.Run({.function = CountVisit, .buffers = buffers, .grid = grid}));
      for (int64_t i = 0; i < grid; ++i) EXPECT_EQ(visits[i], 1) << grid << " " << i;
    }
  }
}

// Launches follow one another so closely that workers come late to many of them.
TEST(WorkerPoolTest, LateWorkersMixUpNoLaunches) {
  WorkerPool pool("P", 4);
  for (int round = 0; round < 20000; ++round) {
    std::atomic<int> visits[4] = {};
    void* buffers[] = {visits};
    EXPECT_FALSE(pool.Run({.function = CountVisit, .buffers = buffers, .grid = round % 4 + 1}));
    for (int i = 0; i <= round % 4; ++i) ASSERT_EQ(visits[i], 1) << round;
  }
}

// Both workgroups must be running for either to end.
void Meet(void* const* buffers, const int64_t*, int64_t) {
  auto& arrived = *static_cast<std::atomic<int>*>(buffers[0]);
  arrived.fetch_add(1);
  while (arrived.load() < 2) hcq::CpuRelax();
}

TEST(WorkerPoolTest, WorkgroupsRunAtTheSameTime) {
  WorkerPool pool("P", 2);
  std::atomic<int> arrived{0};
  void* buffers[] = {&arrived};
  EXPECT_FALSE(pool.Run({.function = Meet, .buffers = buffers, .grid = 2}));
}

void FaultAtThree(void* const* buffers, const int64_t* variables, int64_t grid_index) {
  if (grid_index != 3) return CountVisit(buffers, variables, grid_index);
  volatile int* address = reinterpret_cast<int*>(variables[0]);
  *address = 1;
}

TEST(WorkerPoolTest, AFaultIsAValueAndThePoolGoesOn) {
  const int64_t address = 0x10;
  for (const int threads : {1, 3}) {
    WorkerPool pool("P", threads);
    for (int round = 0; round < 20; ++round) {
      std::vector<std::atomic<int>> visits(8);
      void* buffers[] = {visits.data()};
      const auto fault = pool.Run(
          {.function = FaultAtThree, .buffers = buffers, .variables = &address, .grid = 8});
      ASSERT_TRUE(fault);
      EXPECT_EQ(fault->signal, SIGSEGV);
      EXPECT_EQ(fault->Describe(), "segmentation fault at address 0x10 in workgroup 3");
      EXPECT_FALSE(pool.Run({.function = CountVisit, .buffers = buffers, .grid = 8}));
    }
  }
}

// Not undefined behaviour for a sanitizer to find, as a division by zero in C++ would be.
void RaiseIllegalInstruction(void* const*, const int64_t*, int64_t) { __builtin_trap(); }

TEST(WorkerPoolTest, AnIllegalInstructionIsAFault) {
  WorkerPool pool("P", 1);
  const auto fault = pool.Run({.function = RaiseIllegalInstruction});
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->signal, SIGILL);
}

int Recurse(volatile char* caller, int64_t depth) {
  volatile char frame[4096];
  frame[0] = *caller;
  return depth == 0 ? 0 : Recurse(frame, depth - 1) + frame[0];
}
void RunOutOfStack(void* const*, const int64_t* variables, int64_t) {
  volatile char start = 0;
  Recurse(&start, variables[0]);
}

TEST(WorkerPoolTest, AStackOverflowIsAFault) {
  // In a thread of its own, whose stack is bounded even where the main thread's is not.
  std::thread caller([] {
    WorkerPool pool("P", 1);
    const int64_t depth = int64_t{1} << 40;
    const auto fault = pool.Run({.function = RunOutOfStack, .variables = &depth});
    ASSERT_TRUE(fault);
    EXPECT_EQ(fault->signal, SIGSEGV);
  });
  caller.join();
}

TEST(WorkerPoolDeathTest, AFaultOutsideAKernelStillEndsTheProcess) {
  WorkerPool pool("P", 1);
  std::atomic<int> visits{0};
  void* buffers[] = {&visits};
  EXPECT_FALSE(pool.Run({.function = CountVisit, .buffers = buffers}));
  volatile int64_t bad = 0x10;  // volatile, else the compiler sees through it
  const int64_t address = bad;
  EXPECT_DEATH(FaultAtThree(buffers, &address, 3), "");
}

}  // namespace
}  // namespace tensord::cpu
