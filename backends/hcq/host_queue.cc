#include "backends/hcq/host_queue.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "backends/hcq/signal.h"
#include "backends/hcq/thread_name.h"
#include "core/base/status.h"

namespace tensord::hcq {
namespace {

// Devices and SetSignal wake the queue at once; a plain store by the host is seen this late.
constexpr absl::Duration kSignalPoll = absl::Milliseconds(1);

}  // namespace

HostQueue::HostQueue(HostQueueOptions options, HostTimeline& timeline, Executor& executor)
    : options_(std::move(options)), timeline_(timeline), executor_(executor) {
  thread_ = std::thread([this] {
    NameThread(options_.device_name + " queue");
    Run();
  });
}

HostQueue::~HostQueue() {
  stop_.store(true, std::memory_order_release);  // to the thread, which ends
  submitted_.Notify();
  thread_.join();
}

absl::Status HostQueue::Submit(CommandList list) {
  {
    absl::MutexLock lock(&mu_);
    if (lists_ >= options_.max_lists) {
      const absl::Status status = ResourceExhausted(
          "{}: {} command lists are waiting, which is the limit; wait for the timeline before "
          "submitting more",
          options_.device_name, lists_);
      Refuse(list, status);
      return status;
    }
    items_.push_back({std::move(list)});
    ++lists_;
    queued_.store(items_.size(), std::memory_order_relaxed);
  }
  submitted_.Notify();
  return absl::OkStatus();
}

void HostQueue::Refuse(const CommandList& list, const absl::Status& status) {
  uint64_t last = 0;
  for (const Command& command : list.commands()) {
    const auto* signal = std::get_if<SignalCommand>(&command);
    if (signal == nullptr || signal->signal != timeline_.signal()) continue;
    timeline_.Fail(signal->value, status);
    last = std::max(last, signal->value);
  }
  if (last == 0) return;
  // Refusals in a row are one item, so that a full queue stays bounded.
  if (!items_.empty() && items_.back().refused != 0) {
    items_.back().refused = last;
  } else {
    items_.push_back({CommandList(), last});
    queued_.store(items_.size(), std::memory_order_relaxed);
  }
}

void HostQueue::Run() {
  const auto stopped = [this] { return stop_.load(std::memory_order_acquire); };
  for (;;) {
    const auto some = [&] { return queued_.load(std::memory_order_relaxed) > 0 || stopped(); };
    if (!some()) {
      submitted_.Wait(some);
      executor_.Resumed();
    }
    Item item;
    {
      absl::MutexLock lock(&mu_);
      if (items_.empty()) return;  // stopped, and all lists have ended
      item = std::move(items_.front());
      items_.pop_front();
      if (item.refused == 0) --lists_;
      queued_.store(items_.size(), std::memory_order_relaxed);
    }
    if (item.refused != 0) {
      SetSignal(*timeline_.signal(), item.refused);
    } else {
      RunList(item.list);
    }
  }
}

void HostQueue::RunList(const CommandList& list) {
  absl::Status status;
  RunCommands(list, status);
}

bool HostQueue::MayWork(absl::Status& status) const {
  if (status.ok() && stop_.load(std::memory_order_relaxed)) {
    status = Cancelled("{}: closed before the work was done", options_.device_name);
  }
  return status.ok();
}

void HostQueue::RunCommands(const CommandList& list, absl::Status& status) {
  for (const Command& command : list.commands()) {
    if (const auto* exec = std::get_if<ExecCommand>(&command)) {
      if (MayWork(status)) status = executor_.Exec(*exec);
    } else if (const auto* wait = std::get_if<WaitCommand>(&command)) {
      status.Update(Wait(*wait));
    } else if (const auto* signal = std::get_if<SignalCommand>(&command)) {
      if (!status.ok() && signal->signal == timeline_.signal()) {
        timeline_.Fail(signal->value, status);
      }
      SetSignal(*signal->signal, signal->value);
    } else if (const auto* copy = std::get_if<CopyCommand>(&command)) {
      if (MayWork(status)) status = executor_.Copy(*copy);
    } else if (const auto* loop = std::get_if<LoopCommand>(&command)) {
      RunLoop(*loop, status);
    } else if (const auto* timestamp = std::get_if<TimestampCommand>(&command)) {
      // Published by the signal that follows it.
      timestamp->signal->timestamp_ns.store(executor_.NowNs(), std::memory_order_release);
    }
    // Nothing to do for a barrier: the host's writes before Submit or before a signal that it set
    // are visible by the locks and atomics of those.
  }
}

void HostQueue::RunLoop(const LoopCommand& loop, absl::Status& status) {
  for (uint64_t i = 0; i < loop.most; ++i) {
    if (!MayWork(status) || !executor_.GoesOn(loop)) return;
    RunCommands(*loop.body, status);
  }
}

absl::Status HostQueue::Wait(const WaitCommand& wait) {
  if (Reached(*wait.signal, wait.value)) return absl::OkStatus();
  const auto stopped = [this] { return stop_.load(std::memory_order_acquire); };
  EventFor(*wait.signal)
      .Wait([&] { return Reached(*wait.signal, wait.value) || stopped(); }, absl::InfiniteFuture(),
            kSignalPoll);
  executor_.Resumed();
  if (Reached(*wait.signal, wait.value)) return absl::OkStatus();
  return Cancelled("{}: closed while it waited for a signal to reach {}", options_.device_name,
                   wait.value);
}

}  // namespace tensord::hcq
