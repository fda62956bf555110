#include "server/session/worker_pool.h"

#include <pthread.h>

#include <utility>

namespace tensord {

WorkerPool::WorkerPool(std::string name, int threads) {
  threads_.reserve(threads);
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this, name] { Run(name); });
}

void WorkerPool::Stop() {
  std::deque<std::function<void()>> dropped;  // dies without the lock: captures may have much to do
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
    dropped.swap(calls_);
  }
  threads_.clear();
}

void WorkerPool::Schedule(std::function<void()> call) {
  absl::MutexLock lock(&mu_);
  if (!stopping_) calls_.push_back(std::move(call));
}

void WorkerPool::Run(const std::string& name) {
  pthread_setname_np(pthread_self(), name.c_str());
  const auto something_to_do = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return stopping_ || !calls_.empty();
  };
  for (;;) {
    std::function<void()> call;
    {
      absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(&something_to_do));
      if (calls_.empty()) return;
      call = std::move(calls_.front());
      calls_.pop_front();
    }
    call();
  }
}

}  // namespace tensord
