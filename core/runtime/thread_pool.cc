#include "core/runtime/thread_pool.h"

#include <absl/synchronization/blocking_counter.h>
#include <pthread.h>

#include <atomic>
#include <memory>

namespace tensord {

ThreadPool::ThreadPool(const std::string& name, int threads) {
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this] { Work(); });
    // 15 characters are all that the kernel keeps of a name.
    pthread_setname_np(threads_.back().native_handle(), name.substr(0, 15).c_str());
  }
}

ThreadPool::~ThreadPool() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::Add(std::function<void()> task) {
  absl::MutexLock lock(&mu_);
  tasks_.push_back(std::move(task));
}

void ThreadPool::RunAll(std::vector<std::function<void()>> tasks) {
  // Helpers and this thread take the next task that nobody has taken; a helper that starts late
  // finds none left. So a busy pool can't hold this call up.
  struct Batch {
    std::vector<std::function<void()>> tasks;
    std::atomic<size_t> next{0};
    absl::BlockingCounter left;
    explicit Batch(std::vector<std::function<void()>> all)
        : tasks(std::move(all)), left(static_cast<int>(tasks.size())) {}
    void Run() {
      // Relaxed: the counter hands out numbers; the counter `left` publishes the results.
      for (size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < tasks.size();) {
        tasks[i]();
        left.DecrementCount();
      }
    }
  };
  if (tasks.empty()) return;
  auto batch = std::make_shared<Batch>(std::move(tasks));
  const size_t helpers = std::min(threads_.size(), batch->tasks.size() - 1);
  for (size_t i = 0; i < helpers; ++i) Add([batch] { batch->Run(); });
  batch->Run();
  batch->left.Wait();
}

void ThreadPool::Work() {
  while (true) {
    std::function<void()> task;
    {
      absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(
          +[](ThreadPool* pool) {
            pool->mu_.AssertHeld();
            return pool->stopping_ || !pool->tasks_.empty();
          },
          this));
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace tensord
