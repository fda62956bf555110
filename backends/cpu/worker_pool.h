// Threads that run the workgroups of one launch in parallel; the caller is one of them, so that a
// grid of 1 costs no hand-over. Workers live as long as the pool, spin briefly for the next launch
// and then sleep.
//
//   WorkerPool pool("CPU:0", 8);
//   const std::optional<Fault> fault = pool.Run({.function = f, .buffers = b, .grid = 64});
//
// Run is called by one thread at a time.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "backends/cpu/fault.h"
#include "backends/cpu/kernel.h"
#include "backends/hcq/event_count.h"

namespace tensord::cpu {

struct Launch {
  KernelFunction* function = nullptr;
  void* const* buffers = nullptr;
  const int64_t* variables = nullptr;
  int64_t grid = 1;  // workgroups
};

class WorkerPool {
 public:
  // `threads` counts the caller of Run.
  WorkerPool(std::string device_name, int threads);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Returns when all workgroups have run, or when one faulted and no other runs any more; then the
  // first fault.
  std::optional<Fault> Run(const Launch& launch);

  // Launches, also one that runs now, are stopped where they are and say so, until Restart. On any
  // thread, one at a time.
  void Stop();
  void Restart();

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

 private:
  // The gate through which workers come to a launch: a generation in the upper half, kOpen, and the
  // number of workers inside.
  static constexpr uint64_t kGeneration = uint64_t{1} << 32;
  static constexpr uint64_t kOpen = uint64_t{1} << 31;
  static constexpr uint64_t kInside = kOpen - 1;

  void RunWorker();
  // Takes workgroups until none are left.
  void RunShare();

  // Written by Run while the gate is closed and nobody is inside.
  Launch launch_;
  int64_t chunk_ = 1;  // workgroups taken at once
  alignas(64) std::atomic<uint64_t> gate_{0};
  alignas(64) std::atomic<int64_t> next_{
      0};  // workgroup; only a number, the gate publishes launch_
  alignas(64) std::atomic<bool> stop_{false};
  std::atomic<bool> stop_launch_{false};
  std::atomic<pthread_t> runner_{};  // the thread that has called Run
  hcq::EventCount opened_;           // the gate; also stop_
  hcq::EventCount left_;             // everybody, after the gate was closed
  absl::Mutex mu_;
  std::optional<Fault> fault_ ABSL_GUARDED_BY(mu_);  // the first one of the launch
  std::vector<std::thread> workers_;
};

}  // namespace tensord::cpu
