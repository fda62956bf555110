#include "backends/cpu/worker_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "backends/hcq/thread_name.h"

namespace tensord::cpu {

WorkerPool::WorkerPool(std::string device_name, int threads) {
  for (int i = 1; i < threads; ++i) {
    workers_.emplace_back([this, name = fmt::format("{} worker{}", device_name, i)] {
      hcq::NameThread(name);
      RunWorker();
    });
  }
}

WorkerPool::~WorkerPool() {
  stop_.store(true, std::memory_order_release);  // to the workers, which end
  opened_.Notify();
  for (std::thread& worker : workers_) worker.join();
}

void WorkerPool::Stop() {
  stop_launch_.store(true, std::memory_order_seq_cst);  // see RunGuarded
  for (std::thread& worker : workers_) Interrupt(worker.native_handle());
  if (const pthread_t runner = runner_.load(std::memory_order_seq_cst)) Interrupt(runner);
}

void WorkerPool::Restart() { stop_launch_.store(false, std::memory_order_seq_cst); }

std::optional<Fault> WorkerPool::Run(const Launch& launch) {
  // Before it looks whether it is to stop.
  runner_.store(pthread_self(), std::memory_order_seq_cst);
  launch_ = launch;
  next_.store(0, std::memory_order_relaxed);
  // Big enough that taking them costs little, small enough that all threads end together.
  chunk_ = std::max<int64_t>(1, launch.grid / (threads() * 16));
  const int64_t helpers = std::min<int64_t>(launch.grid, threads()) - 1;
  if (helpers > 0) {
    gate_.fetch_add(kGeneration + kOpen, std::memory_order_release);  // publishes launch_
    opened_.Notify(static_cast<int>(helpers));
  }
  RunShare();
  if (helpers > 0) {
    gate_.fetch_sub(kOpen, std::memory_order_relaxed);
    // Acquires the workgroups' writes that the workers published as they left.
    left_.Wait([&] { return (gate_.load(std::memory_order_acquire) & (kOpen | kInside)) == 0; });
  }
  absl::MutexLock lock(&mu_);
  return std::exchange(fault_, std::nullopt);
}

void WorkerPool::RunWorker() {
  uint64_t seen = 0;  // generation of the last launch that this worker came to
  const auto is_new = [&](uint64_t gate) { return (gate & kOpen) && gate / kGeneration != seen; };
  for (;;) {
    opened_.Wait([&] {
      return is_new(gate_.load(std::memory_order_relaxed)) || stop_.load(std::memory_order_acquire);
    });
    if (stop_.load(std::memory_order_relaxed)) return;
    // The gate may have closed, and even opened for another launch, since it was looked at.
    const uint64_t entered = gate_.fetch_add(1, std::memory_order_acquire);  // sees launch_
    if (entered & kOpen) {
      seen = entered / kGeneration;
      RunShare();
    }
    const uint64_t left = gate_.fetch_sub(1, std::memory_order_release);  // publishes our writes
    if ((left & (kOpen | kInside)) == 1) left_.Notify();
  }
}

void WorkerPool::RunShare() {
  const auto body = [](void* context, GuardState& guard) {
    auto& pool = *static_cast<WorkerPool*>(context);
    const Launch& launch = pool.launch_;
    for (;;) {
      const int64_t begin = pool.next_.fetch_add(pool.chunk_, std::memory_order_relaxed);
      if (begin >= launch.grid) return;
      const int64_t end = std::min(begin + pool.chunk_, launch.grid);
      for (int64_t i = begin; i < end; ++i) {
        guard.workgroup = i;
        launch.function(launch.buffers, launch.variables, i);
      }
    }
  };
  Fault fault;
  if (RunGuarded(body, this, stop_launch_, &fault)) return;
  next_.store(launch_.grid, std::memory_order_relaxed);  // the others take no more
  absl::MutexLock lock(&mu_);
  if (!fault_) fault_ = fault;
}

}  // namespace tensord::cpu
