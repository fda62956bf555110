#include "server/session/spiller.h"

#include <absl/algorithm/container.h>
#include <pthread.h>

#include <algorithm>
#include <tuple>

#include "core/base/status.h"

namespace tensord {
namespace {

// Not all that ends tells: a device lets go of a run's memory a little after its end.
constexpr absl::Duration kLookAgain = absl::Milliseconds(3);
// So long nothing is found that might end before that is believed.
constexpr absl::Duration kHopeless = absl::Milliseconds(500);
// How long clients may hold up a request.
constexpr absl::Duration kPatience = absl::Seconds(30);
// How long runs that need no room may go on beside a request that waits for their end.
constexpr absl::Duration kSlice = absl::Milliseconds(50);

using Devices = absl::InlinedVector<Device*, 2>;

bool Has(absl::Span<Device* const> devices, Device* device) {
  return absl::c_linear_search(devices, device);
}

}  // namespace

Spiller::Grant& Spiller::Grant::operator=(Grant&& other) noexcept {
  std::swap(memory, other.memory);
  std::swap(spiller_, other.spiller_);
  return *this;
}

void Spiller::Grant::End() {
  memory.clear();
  if (spiller_ == nullptr) return;
  spiller_->grants_.fetch_sub(1, std::memory_order_relaxed);
  std::exchange(spiller_, nullptr)->Wake();
}

Spiller::Spiller(SpillStore& store, MemoryLedger& ledger)
    : store_(store), ledger_(ledger), thread_([this] {
        pthread_setname_np(pthread_self(), "td-spill");
        Run();
      }) {}

void Spiller::Stop() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  wake_.Notify();
  if (thread_.joinable()) thread_.join();
}

void Spiller::Join(std::weak_ptr<Holder> holder) {
  absl::MutexLock lock(&mu_);
  std::erase_if(holders_, [](const auto& each) { return each.expired(); });
  holders_.push_back(std::move(holder));
}

void Spiller::Ask(std::weak_ptr<Holder> holder, Request request) {
  auto waiting = std::make_shared<Waiting>();
  waiting->holder = std::move(holder);
  waiting->request = std::move(request);
  {
    absl::MutexLock lock(&mu_);
    queue_.insert(waiting->request.again ? queue_.begin() : queue_.end(), waiting);
    waiting_.store(static_cast<int>(queue_.size()), std::memory_order_relaxed);
  }
  wake_.Notify();
}

void Spiller::Wake() {
  if (waiting_.load(std::memory_order_relaxed) > 0) wake_.Notify();
}

Spiller::Stats Spiller::stats() {
  absl::MutexLock lock(&mu_);
  stats_.waiting = queue_.size();
  return stats_;
}

std::vector<std::shared_ptr<Spiller::Holder>> Spiller::Holders() {
  std::vector<std::shared_ptr<Holder>> holders;
  absl::MutexLock lock(&mu_);
  for (const auto& each : holders_) {
    if (std::shared_ptr<Holder> holder = each.lock()) holders.push_back(std::move(holder));
  }
  return holders;
}

void Spiller::Run() {
  for (;;) {
    std::vector<std::shared_ptr<Waiting>> queue;
    {
      absl::MutexLock lock(&mu_);
      if (stopping_) return;
      queue.assign(queue_.begin(), queue_.end());
    }
    Devices held;  // by those who come next there
    Devices closed;
    bool served = false;
    for (const auto& waiting : queue) {
      if (Serve(*waiting, held)) {
        absl::MutexLock lock(&mu_);
        queue_.remove(waiting);
        waiting_.store(static_cast<int>(queue_.size()), std::memory_order_relaxed);
        served = true;
        break;  // one that asks again goes before the rest
      }
      if (waiting->obstacle != Obstacle::kRuns) continue;
      held.insert(held.end(), waiting->devices.begin(), waiting->devices.end());
      if (SteadyNow() - waiting->since < kSlice) continue;
      closed.insert(closed.end(), waiting->devices.begin(), waiting->devices.end());
    }
    closed_.store(!closed.empty(), std::memory_order_relaxed);
    {
      absl::MutexLock lock(&mu_);
      closed_devices_ = std::move(closed);
    }
    if (!served) wake_.WaitFor(queue.empty() ? absl::InfiniteDuration() : kLookAgain);
  }
}

bool Spiller::Closed(absl::Span<Device* const> devices) {
  if (!closed_.load(std::memory_order_relaxed)) return false;
  absl::MutexLock lock(&mu_);
  for (Device* device : devices) {
    if (Has(closed_devices_, device)) return true;
  }
  return false;
}

// One request, as far as it gets.
class Spiller::Service {
 public:
  Service(Spiller& spiller, Waiting& waiting, std::shared_ptr<Holder> holder,
          std::vector<Operand> operands)
      : spiller_(spiller),
        waiting_(waiting),
        holder_(std::move(holder)),
        operands_(std::move(operands)) {
    absl::c_stable_partition(operands_, [](const Operand& each) { return each.spilled; });
    for (const Operand& each : operands_) {
      if (each.spilled) pieces_.emplace_back(each.device, each.bytes);
    }
    spilled_ = pieces_.size();
    pieces_.insert(pieces_.end(), waiting.request.needs.begin(), waiting.request.needs.end());
    for (const auto& [device, bytes] : pieces_) {
      if (!Has(devices_, device)) devices_.push_back(device);
    }
    waiting.devices = devices_;
  }
  ~Service() {
    // Memory that was taken and not used is free again before anybody looks for it.
    memory_.clear();
    Settle();
  }

  bool Run() {
    for (Device* device : devices_) {
      short_ = device;
      if (Wanted(device) > device->allocator().stats().capacity_bytes) return Refuse();
    }
    for (const auto& [device, bytes] : pieces_) {
      for (;;) {
        auto memory = device->allocator().Allocate(bytes);
        if (memory.ok()) {
          memory_.push_back(*std::move(memory));
          break;
        }
        if (!absl::IsResourceExhausted(memory.status())) return Refuse(memory.status());
        short_ = device;
        if (!MakeRoom(device)) return WaitOrRefuse();
      }
    }
    Finish();
    return true;
  }

 private:
  // What the request has and needs on the device, all together.
  uint64_t Wanted(Device* device) const {
    uint64_t wanted = Missing(device);
    for (size_t i = spilled_; i < operands_.size(); ++i) {
      wanted += operands_[i].device == device ? operands_[i].bytes : 0;
    }
    return wanted;
  }

  // Of that, what is not there yet.
  uint64_t Missing(Device* device) const {
    uint64_t missing = 0;
    for (const auto& [on, bytes] : pieces_) missing += on == device ? bytes : 0;
    return missing;
  }

  // What has to be allocated still.
  uint64_t Rest(Device* device) const {
    uint64_t rest = 0;
    for (size_t i = memory_.size(); i < pieces_.size(); ++i) {
      rest += pieces_[i].first == device ? pieces_[i].second : 0;
    }
    return rest;
  }

  void TakeSurvey() {
    survey_.emplace();
    for (const auto& each : spiller_.Holders()) {
      each->Look(devices_, each == holder_ ? &waiting_.request : nullptr, *survey_);
    }
    for (Device* device : devices_) {
      survey_->runs |= !device->timeline().Reached(device->timeline().last_reserved());
    }
    survey_->runs |= spiller_.grants_.load(std::memory_order_relaxed) > 0;
    // The last one goes first.
    absl::c_sort(survey_->victims, [this](const auto& a, const auto& b) {
      const auto rank = [this](const Survey::Victim& victim) {
        return std::tuple(victim.holder == holder_, !victim.idle, victim.used);
      };
      return rank(a) > rank(b);
    });
  }

  // Whether one more tensor has left the device.
  bool MakeRoom(Device* device) {
    if (!survey_) {
      TakeSurvey();
      // Nobody goes in vain.
      for (Device* each : devices_) {
        const MemoryStats stats = each->allocator().stats();
        uint64_t room = stats.capacity_bytes - std::min(stats.in_use_bytes, stats.capacity_bytes);
        for (const auto& victim : survey_->victims) {
          room += victim.device == each ? victim.bytes : 0;
        }
        if (Rest(each) > room) {
          short_ = each;
          return false;
        }
      }
    }
    for (size_t i = survey_->victims.size(); i-- > 0;) {
      if (survey_->victims[i].device != device) continue;
      const Survey::Victim victim = std::move(survey_->victims[i]);
      survey_->victims.erase(survey_->victims.begin() + static_cast<ptrdiff_t>(i));
      const absl::Time begin = SteadyNow();
      const absl::StatusOr<uint64_t> bytes = victim.holder->Spill(victim.tensor, spiller_.store_);
      if (!absl::c_linear_search(touched_, victim.holder)) touched_.push_back(victim.holder);
      if (!bytes.ok()) {
        full_ = bytes.status();
        return false;
      }
      if (*bytes == 0) continue;
      moved_.spilled += *bytes;
      absl::MutexLock lock(&spiller_.mu_);
      ++spiller_.stats_.spills;
      spiller_.stats_.spilled_bytes += *bytes;
      spiller_.stats_.spill_ns += absl::ToInt64Nanoseconds(SteadyNow() - begin);
      return true;
    }
    return false;
  }

  // Before an answer, so that whoever has it sees the bill.
  void Settle() {
    holder_->Bill(std::exchange(moved_, {}));
    for (const auto& each : std::exchange(touched_, {})) each->Poke();
  }

  void Finish() {
    for (size_t i = 0; i < spilled_; ++i) {
      const absl::Time begin = SteadyNow();
      const uint64_t bytes = holder_->Restore(operands_[i].tensor, std::move(memory_[i]));
      moved_.restored += bytes;
      absl::MutexLock lock(&spiller_.mu_);
      spiller_.stats_.restores += bytes > 0;
      spiller_.stats_.restored_bytes += bytes;
      spiller_.stats_.restore_ns += absl::ToInt64Nanoseconds(SteadyNow() - begin);
    }
    Grant grant;
    memory_.erase(memory_.begin(), memory_.begin() + static_cast<ptrdiff_t>(spilled_));
    grant.memory = std::move(memory_);
    memory_.clear();
    grant.spiller_ = &spiller_;
    spiller_.grants_.fetch_add(1, std::memory_order_relaxed);
    Settle();
    holder_->Granted(waiting_.request, std::move(grant));
  }

  // What ends the wait, if anything does.
  Obstacle FindObstacle() const {
    const auto sum = [this](const std::vector<Need>& needs) {
      uint64_t bytes = 0;
      for (const auto& [device, part] : needs) bytes += device == short_ ? part : 0;
      return bytes;
    };
    // Tensors that never go: small ones, and published ones.
    const uint64_t tensors = spiller_.ledger_.OfDevice(short_).bytes;
    const uint64_t movable = sum(survey_->movable);
    const uint64_t operands = Wanted(short_) - Missing(short_);
    const uint64_t fixed = tensors - std::min(movable + operands, tensors);
    const MemoryStats stats = short_->allocator().stats();
    const uint64_t capacity = stats.capacity_bytes;
    uint64_t kept = sum(survey_->by_clients);
    if (!survey_->runs) {
      // Of tensors that are released and still being read. Sizes are rounded up by an eighth.
      const uint64_t known = tensors + Missing(short_) - Rest(short_);
      kept += stats.in_use_bytes - std::min(stats.in_use_bytes, known + known / 8);
    }
    if (Wanted(short_) + fixed > capacity) return Obstacle::kNothing;
    if (kept > 0 && Wanted(short_) + fixed + kept > capacity) return Obstacle::kClients;
    if (!survey_->runs) return Obstacle::kNothing;
    // Others may let go of something, but nothing of theirs can be moved.
    return full_.ok() ? Obstacle::kRuns : Obstacle::kClients;
  }

  bool WaitOrRefuse() {
    const absl::Time now = SteadyNow();
    const Obstacle obstacle = FindObstacle();
    const Obstacle before = std::exchange(waiting_.obstacle, obstacle);
    if (before != obstacle) waiting_.since = now;
    if (obstacle == Obstacle::kRuns) return false;
    if (before == Obstacle::kNone || before == Obstacle::kRuns) waiting_.held = now;
    if (obstacle == Obstacle::kNothing && now - waiting_.since >= kHopeless) return Refuse();
    return now - waiting_.held >= kPatience && Refuse();
  }

  bool Refuse() {
    const MemoryStats stats = short_->allocator().stats();
    const uint64_t wanted = Wanted(short_);
    std::string why;
    if (!full_.ok()) {
      why = fmt::format("; {} are in use, and there is {}", stats.in_use_bytes, Message(full_));
    } else if (wanted <= stats.capacity_bytes) {
      why = fmt::format(
          "; {} are in use, and too little of that can be spilled: what is published, being read "
          "or written, or smaller than {} stays",
          stats.in_use_bytes, kMinBytes);
    }
    const Need need(short_, wanted > stats.capacity_bytes ? wanted : Rest(short_));
    return Refuse(spiller_.ledger_.Explain(
        ResourceExhausted("{}: {} bytes are needed at once, of operands, results and what runs "
                          "need meanwhile; it has {}{}",
                          short_->name(), wanted, stats.capacity_bytes, why),
        {need}));
  }
  bool Refuse(const absl::Status& status) {
    memory_.clear();
    Settle();
    holder_->Refused(waiting_.request, status);
    return true;
  }

  Spiller& spiller_;
  Waiting& waiting_;
  const std::shared_ptr<Holder> holder_;
  std::vector<Operand> operands_;  // the spilled ones first,
  size_t spilled_ = 0;             // so many
  std::vector<Need> pieces_;       // these, then what is needed beside
  Devices devices_;
  std::vector<std::shared_ptr<DeviceMemory>> memory_;  // of the first pieces
  std::optional<Survey> survey_;
  Device* short_ = nullptr;  // which has too little
  absl::Status full_;        // of the store
  Moved moved_;
  std::vector<std::shared_ptr<Holder>> touched_;
};

bool Spiller::Serve(Waiting& waiting, absl::Span<Device* const> held) {
  std::shared_ptr<Holder> holder = waiting.holder.lock();
  if (holder == nullptr) return true;
  std::optional<std::vector<Operand>> operands = holder->FindOperands(waiting.request);
  if (!operands) return true;
  Service service(*this, waiting, std::move(holder), *std::move(operands));
  const bool first =
      absl::c_none_of(waiting.devices, [held](Device* device) { return Has(held, device); });
  return first && service.Run();
}

}  // namespace tensord
