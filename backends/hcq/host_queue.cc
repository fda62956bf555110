#include "backends/hcq/host_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "backends/hcq/signal.h"
#include "backends/hcq/thread_name.h"
#include "core/base/status.h"

namespace tensord::hcq {
namespace {

// Devices and SetSignal wake the queue at once; a plain store by the host is seen this late.
constexpr absl::Duration kSignalPoll = absl::Milliseconds(1);

// The last value of that signal that the list sets; 0 if it sets none.
uint64_t ValueOf(const CommandList& list, const Signal* timeline) {
  for (auto command = list.commands().rbegin(); command != list.commands().rend(); ++command) {
    const auto* signal = std::get_if<SignalCommand>(&*command);
    if (signal != nullptr && signal->signal == timeline) return signal->value;
  }
  return 0;
}

std::string Describe(const ExecCommand& command) {
  return fmt::format("kernel '{}'", command.kernel->name());
}
std::string Describe(const CopyCommand& command) {
  return fmt::format("a copy of {} bytes", command.bytes);
}

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
  {
    absl::MutexLock lock(&mu_);
    executor_.Stop();
  }
  submitted_.Notify();
  thread_.join();
}

absl::Status HostQueue::Submit(CommandList list) {
  const uint64_t value = ValueOf(list, timeline_.signal());
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
    items_.push_back({std::move(list), value});
    submitted_value_ = std::max(submitted_value_, value);
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
    items_.push_back({CommandList(), 0, last});
    queued_.store(items_.size(), std::memory_order_relaxed);
  }
}

Progress HostQueue::progress() const {
  const uint64_t steps = steps_.load(std::memory_order_relaxed);
  return {
      .list = running_.load(std::memory_order_relaxed), .steps = steps, .works = steps % 2 == 1};
}

void HostQueue::Abandon(uint64_t value, const absl::Status& why) {
  absl::MutexLock lock(&mu_);
  if (value == 0 || value > submitted_value_ || Reached(*timeline_.signal(), value)) return;
  abandoned_.emplace(value, why);
  if (running_.load(std::memory_order_relaxed) != value) return;
  running_abandoned_.store(true, std::memory_order_relaxed);
  executor_stopped_ = true;
  executor_.Stop();
}

absl::Status HostQueue::WhyAbandoned() {
  if (!running_abandoned_.load(std::memory_order_relaxed)) return absl::OkStatus();
  absl::MutexLock lock(&mu_);
  return abandoned_.at(running_.load(std::memory_order_relaxed));
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
      running_.store(item.value, std::memory_order_relaxed);
      running_abandoned_.store(abandoned_.contains(item.value), std::memory_order_relaxed);
    }
    if (item.refused != 0) {
      SetSignal(*timeline_.signal(), item.refused);
    } else {
      RunList(item);
    }
  }
}

void HostQueue::RunList(const Item& item) {
  absl::Status status;
  RunCommands(item.list, status);
  absl::MutexLock lock(&mu_);
  running_.store(0, std::memory_order_relaxed);
  running_abandoned_.store(false, std::memory_order_relaxed);
  abandoned_.erase(abandoned_.begin(), abandoned_.upper_bound(item.value));
  if (std::exchange(executor_stopped_, false) && !stop_.load(std::memory_order_relaxed)) {
    executor_.Restart();
  }
}

bool HostQueue::MayWork(absl::Status& status) {
  if (status.ok() && stop_.load(std::memory_order_relaxed)) {
    status = Cancelled("{}: closed before the work was done", options_.device_name);
  }
  if (status.ok()) {
    const absl::Status why = WhyAbandoned();
    if (!why.ok()) status = Annotate(why, "{}", options_.device_name);
  }
  return status.ok();
}

template <typename Command>
void HostQueue::Work(const Command& command, absl::Status (Executor::*verb)(const Command&),
                     absl::Status& status) {
  if (!MayWork(status)) return;
  const uint64_t steps = steps_.load(std::memory_order_relaxed);
  steps_.store(steps + 1, std::memory_order_relaxed);
  status = (executor_.*verb)(command);
  steps_.store(steps + 2, std::memory_order_relaxed);
  if (status.ok()) return;
  if (const absl::Status why = WhyAbandoned(); !why.ok()) {
    status = Annotate(why, "{}: {} was stopped", options_.device_name, Describe(command));
  } else if (stop_.load(std::memory_order_relaxed)) {
    status = Cancelled("{}: closed while {} ran", options_.device_name, Describe(command));
  }
}

void HostQueue::RunCommands(const CommandList& list, absl::Status& status) {
  for (const Command& command : list.commands()) {
    if (const auto* exec = std::get_if<ExecCommand>(&command)) {
      Work(*exec, &Executor::Exec, status);
    } else if (const auto* wait = std::get_if<WaitCommand>(&command)) {
      status.Update(Wait(*wait));
    } else if (const auto* signal = std::get_if<SignalCommand>(&command)) {
      if (!status.ok() && signal->signal == timeline_.signal()) {
        timeline_.Fail(signal->value, status);
      }
      SetSignal(*signal->signal, signal->value);
    } else if (const auto* copy = std::get_if<CopyCommand>(&command)) {
      Work(*copy, &Executor::Copy, status);
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
