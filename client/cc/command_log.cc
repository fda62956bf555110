#include "client/cc/command_log.h"

#include <algorithm>
#include <utility>

#include "core/base/steady_clock.h"
#include "core/wire/status.h"

namespace tensord::client {
namespace {

constexpr size_t kFrameBytes = 256 << 10;
constexpr int kFrameCommands = 256;
constexpr uint64_t kPendingCommands = 4096;
// Releases wait for a command to ride on until they are this many or this large.
constexpr size_t kReleaseCount = 64;
constexpr uint64_t kReleaseBytes = 8 << 20;
// Runs whose failure is remembered.
constexpr size_t kFailures = 4096;
// Events that are acknowledged by a frame of their own, if there are no commands to ride on.
constexpr uint64_t kAcknowledgeEvery = 64;

}  // namespace

CommandLog::CommandLog() : max_pending_(kPendingCommands), max_frame_commands_(kFrameCommands) {}

void CommandLog::SetLimits(const v1::Limits& limits) {
  if (const uint32_t limit = limits.max_commands_per_frame()) {
    max_frame_commands_ = static_cast<int>(std::min<uint32_t>(limit, kFrameCommands));
  }
  // Half of the limit, because those who have seen room send without looking again.
  if (const uint32_t limit = limits.max_pending_commands()) {
    max_pending_ = std::clamp<uint64_t>(limit / 2, 1, kPendingCommands);
  }
}

uint64_t CommandLog::Add(v1::Command command) {
  if (!command.has_run()) return Queue(std::move(command));
  const std::vector<uint64_t> handles = TakeReleases();
  command.mutable_run()->mutable_release()->Add(handles.begin(), handles.end());
  command.mutable_run()->set_notify(true);
  const uint64_t sequence = Queue(std::move(command));
  running_.insert(sequence);
  Recycle(handles);
  return sequence;
}

void CommandLog::Drop() {
  queue_.clear();
  sent_.clear();
  releases_.clear();
}

uint64_t CommandLog::Queue(v1::Command command) {
  command.set_sequence(++last_);
  queue_.push_back(std::move(command));
  return last_;
}

void CommandLog::Release(uint64_t handle, uint64_t bytes) {
  releases_.push_back(handle);
  release_bytes_ += bytes;
  if (releases_.size() >= kReleaseCount || release_bytes_ >= kReleaseBytes) SendReleases();
}

void CommandLog::FlushReleases() {
  if (!releases_.empty()) SendReleases();
}

uint64_t CommandLog::NewHandle(Handle::Type type) {
  Handle handle{.type = static_cast<uint8_t>(type), .generation = 1, .slot = next_slot_};
  if (free_.empty()) {
    ++next_slot_;
  } else {
    handle.slot = free_.back().slot;
    handle.generation = free_.back().generation + 1;
    free_.pop_back();
  }
  return handle.Pack();
}

bool CommandLog::Fill(v1::ClientFrame& frame) {
  frame.Clear();
  if (queue_.empty() && events_ - told_events_ < kAcknowledgeEvery) return false;
  size_t bytes = 0;
  while (!queue_.empty() && frame.commands_size() < max_frame_commands_) {
    bytes += queue_.front().ByteSizeLong();
    if (bytes > kFrameBytes && frame.commands_size() > 0) break;
    frame.add_commands()->Swap(&queue_.front());
    queue_.pop_front();
  }
  frame.set_acknowledged(events_);
  frame.set_sent_ns(SteadyNs());
  told_events_ = events_;
  return true;
}

void CommandLog::Written(v1::ClientFrame& frame) {
  for (v1::Command& command : *frame.mutable_commands()) {
    if (command.sequence() > acknowledged_) sent_.emplace_back().Swap(&command);
  }
  frame.Clear();
}

void CommandLog::Resume(uint64_t received) {
  // What follows in the queue has later numbers than all that was sent.
  while (!sent_.empty() && sent_.back().sequence() > received) {
    queue_.emplace_front().Swap(&sent_.back());
    sent_.pop_back();
  }
  told_events_ = events_;
}

void CommandLog::Receive(const v1::ServerFrame& frame) {
  acknowledged_ = std::max(acknowledged_, frame.acknowledged());
  while (!sent_.empty() && sent_.front().sequence() <= acknowledged_) sent_.pop_front();
  events_ = std::max(events_, frame.events());
  for (const v1::CommandError& error : frame.errors()) refused_.insert(error.sequence());
  for (const v1::Completion& completion : frame.completions()) {
    running_.erase(completion.sequence());
    if (completion.status().code() == 0) continue;
    failures_[completion.sequence()] = Decode(completion.status());
    if (failures_.size() > kFailures) {
      forgotten_ = failures_.begin()->first + 1;
      failures_.erase(failures_.begin());
    }
  }
}

std::optional<absl::Status> CommandLog::Outcome(uint64_t sequence) const {
  if (const auto it = failures_.find(sequence); it != failures_.end()) return it->second;
  if (sequence < forgotten_) return std::nullopt;
  return absl::OkStatus();
}

std::vector<uint64_t> CommandLog::TakeReleases() {
  release_bytes_ = 0;
  return std::exchange(releases_, {});
}

void CommandLog::SendReleases() {
  const std::vector<uint64_t> handles = TakeReleases();
  v1::Command command;
  command.mutable_release()->mutable_handles()->Add(handles.begin(), handles.end());
  Queue(std::move(command));
  Recycle(handles);
}

// A slot is used again only by commands that follow the one that releases it.
void CommandLog::Recycle(const std::vector<uint64_t>& handles) {
  for (uint64_t bits : handles) {
    const Handle handle = Handle::Unpack(bits);
    if (handle.generation < Handle::kMaxGeneration) free_.push_back(handle);
  }
}

}  // namespace tensord::client
