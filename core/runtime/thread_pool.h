// A fixed set of named threads that run tasks in the order they came.
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

class ThreadPool {
 public:
  ThreadPool(const std::string& name, int threads);
  ~ThreadPool();  // runs what was added before

  void Add(std::function<void()> task);
  // Runs all tasks, on the pool's threads and on this one, and waits for them. May be called from
  // several threads, but not from a task.
  void RunAll(std::vector<std::function<void()>> tasks);

 private:
  void Work();

  absl::Mutex mu_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace tensord
