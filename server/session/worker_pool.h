// A few threads for what may block: compiling, waiting. First come, first served.
//
//   pool.Schedule([session] { session->Compile(); });
//
// Thread-safe.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace tensord {

class WorkerPool {
 public:
  WorkerPool(std::string name, int threads);
  ~WorkerPool() { Stop(); }

  // Waits for calls that run and drops those that haven't begun, as well as those that still come.
  void Stop();

  void Schedule(std::function<void()> call);

 private:
  void Run(const std::string& name);

  absl::Mutex mu_;
  std::deque<std::function<void()>> calls_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::jthread> threads_;
};

}  // namespace tensord
