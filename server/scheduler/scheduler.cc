#include "server/scheduler/scheduler.h"

#include <absl/algorithm/container.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "core/base/check.h"

namespace tensord {
namespace {

// What a run of that length adds to a virtual time. A run costs something at least, so
// that flows of runs that take no time at all take turns as well.
int64_t Cost(int64_t ns, int64_t weight) {
  return std::max<int64_t>(ns, 1) * Scheduler::kMaxWeight / weight;
}

template <typename T>
void Erase(std::vector<T>& from, const T& value) {
  const auto found = absl::c_find(from, value);
  if (found == from.end()) return;
  *found = from.back();
  from.pop_back();
}

}  // namespace

Scheduler::Flow::Flow(Scheduler& scheduler, int weight) : scheduler_(scheduler), weight_(weight) {
  TD_CHECK(weight >= 1 && weight <= kMaxWeight, "a weight");
}

Scheduler::Turn& Scheduler::Turn::operator=(Turn&& other) noexcept {
  if (this == &other) return *this;
  Done({});
  flow_ = std::exchange(other.flow_, nullptr);
  expected_ns_ = other.expected_ns_;
  devices_ = std::move(other.devices_);
  return *this;
}

void Scheduler::Turn::Done(absl::Span<const int64_t> device_ns) {
  if (flow_ == nullptr) return;
  Flow& flow = *std::exchange(flow_, nullptr);
  Scheduler& scheduler = flow.scheduler_;
  Woken woken;
  {
    absl::MutexLock lock(&scheduler.mu_);
    scheduler.Leave(flow, devices_, expected_ns_, device_ns);
    scheduler.Dispatch(woken);
  }
  Tell(woken);
}

Scheduler::Scheduler(SchedulerOptions options)
    : window_ns_(absl::ToInt64Nanoseconds(options.window)), min_runs_(options.min_runs) {}

std::optional<Scheduler::Turn> Scheduler::Ask(Flow& flow, absl::Span<Device* const> devices,
                                              int64_t expected_ns,
                                              std::weak_ptr<Listener> listener) {
  using State = Flow::State;
  Woken woken;
  std::optional<Turn> turn;
  {
    absl::MutexLock lock(&mu_);
    if (flow.state_ == State::kWaiting) return std::nullopt;
    if (flow.state_ == State::kGranted) {
      flow.state_ = State::kBusy;
      return Turn(flow);
    }
    const bool was_busy = flow.state_ == State::kBusy;
    if (was_busy) {
      Erase(busy_, &flow);
      Want(flow, false);
    }
    flow.devices_.assign(devices.begin(), devices.end());
    flow.expected_ns_ = expected_ns == kUnknown ? window_ns_ : expected_ns;
    Want(flow, true);
    // Whoever was waited for has lost nothing by being slow to ask, but gains no more than this
    // run: on a device where the flow had no part it could save up time otherwise.
    const int64_t credit = was_busy ? Cost(flow.expected_ns_, flow.weight_) : 0;
    for (Device* device : flow.devices_) {
      int64_t& time = flow.places_[device].time;
      time = std::max(time, devices_[device].time - credit);
    }
    flow.asked_ = ++asked_;
    if (waiting_.empty() && busy_.empty() && RoomOnAll(flow)) {
      Enter(flow);
      busy_.push_back(&flow);
      flow.state_ = State::kBusy;
      return Turn(flow);
    }
    flow.state_ = State::kWaiting;
    waiting_.push_back(&flow);
    Dispatch(woken);
    if (flow.state_ == State::kGranted) {  // whom `woken` does not know how to tell
      flow.state_ = State::kBusy;
      turn.emplace(Turn(flow));
    } else {
      flow.listener_ = std::move(listener);
    }
  }
  Tell(woken);
  return turn;
}

void Scheduler::Rest(Flow& flow) {
  using State = Flow::State;
  Woken woken;
  {
    absl::MutexLock lock(&mu_);
    if (flow.state_ == State::kResting) return;
    if (flow.state_ == State::kGranted) Leave(flow, flow.devices_, flow.expected_ns_, {});
    Erase(flow.state_ == State::kWaiting ? waiting_ : busy_, &flow);
    Want(flow, false);
    flow.state_ = State::kResting;
    flow.listener_.reset();
    Dispatch(woken);
  }
  Tell(woken);
}

std::vector<Scheduler::Position> Scheduler::Look(const Flow& flow) {
  std::vector<Position> positions;
  absl::MutexLock lock(&mu_);
  if (flow.state_ != Flow::State::kWaiting) return positions;
  const auto order = [this](const Flow& each) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return std::pair(Distance(each), each.asked_);
  };
  for (Device* device : flow.devices_) {
    const DeviceState& state = devices_[device];
    const Flow::Place& place = flow.places_.at(device);
    Position& position = positions.emplace_back();
    position.device = device;
    position.place = 1;
    position.own_runs = place.runs;
    position.own_ns = place.expected_ns;
    position.other_runs = state.runs - place.runs;
    position.other_ns = state.expected_ns - place.expected_ns;
    for (const Flow* other : waiting_) {
      if (!absl::c_linear_search(other->devices_, device)) continue;
      ++position.waiting;
      if (other == &flow || order(flow) < order(*other)) continue;
      ++position.place;
      position.ns_before += other->expected_ns_;
    }
  }
  return positions;
}

int64_t Scheduler::BusyNs(Device* device) {
  absl::MutexLock lock(&mu_);
  const auto found = devices_.find(device);
  return found == devices_.end() ? 0 : found->second.busy_ns;
}

void Scheduler::Count(Flow& flow, Device* device, int more) {
  int& present = flow.places_[device].present;
  const bool was = present > 0;
  present += more;
  if (was != (present > 0)) devices_[device].weight += was ? -flow.weight_ : flow.weight_;
}

void Scheduler::Want(Flow& flow, bool wants) {
  for (Device* device : flow.devices_) {
    Count(flow, device, wants ? 1 : -1);
  }
}

int64_t Scheduler::Distance(const Flow& flow) {
  int64_t distance = std::numeric_limits<int64_t>::min();
  for (Device* device : flow.devices_) {
    distance = std::max(distance, flow.places_.at(device).time - devices_[device].time);
  }
  return distance + Cost(flow.expected_ns_, flow.weight_);
}

bool Scheduler::HasRoom(DeviceState& device, int64_t expected_ns) {
  if (device.runs < min_runs_) return true;
  if (device.filled) device.filled = device.expected_ns > window_ns_ / 2;
  if (!device.filled) device.filled = device.expected_ns + expected_ns > window_ns_;
  return !device.filled;
}

bool Scheduler::RoomOnAll(const Flow& flow) {
  bool room = true;
  for (Device* device : flow.devices_) {
    room &= HasRoom(devices_[device], flow.expected_ns_);
  }
  return room;
}

void Scheduler::Enter(Flow& flow) {
  for (Device* device : flow.devices_) {
    DeviceState& state = devices_[device];
    state.expected_ns += flow.expected_ns_;
    ++state.runs;
    Flow::Place& place = flow.places_[device];
    place.time += Cost(flow.expected_ns_, flow.weight_);
    place.expected_ns += flow.expected_ns_;
    ++place.runs;
    Count(flow, device, 1);
  }
}

void Scheduler::Leave(Flow& flow, absl::Span<Device* const> devices, int64_t expected_ns,
                      absl::Span<const int64_t> device_ns) {
  for (size_t i = 0; i < devices.size(); ++i) {
    Device* const device = devices[i];
    const int64_t ns = i < device_ns.size() ? device_ns[i] : 0;
    DeviceState& state = devices_[device];
    state.expected_ns -= expected_ns;
    --state.runs;
    state.busy_ns += ns;
    state.time += Cost(ns, state.weight);
    Flow::Place& place = flow.places_[device];
    place.time += Cost(ns, flow.weight_) - Cost(expected_ns, flow.weight_);
    place.expected_ns -= expected_ns;
    --place.runs;
    Count(flow, device, -1);
  }
}

// The time of a device that does nothing moves on to the next run that could be there. Else a flow
// that also waits for another device would stay ahead of this one for ever.
void Scheduler::CatchUp() {
  absl::flat_hash_map<Device*, int64_t> next;
  for (const auto* flows : {&waiting_, &busy_}) {
    for (const Flow* flow : *flows) {
      for (Device* device : flow->devices_) {
        if (devices_[device].runs > 0) continue;
        int64_t& least =
            next.try_emplace(device, std::numeric_limits<int64_t>::max()).first->second;
        least = std::min(least, flow->places_.at(device).time);
      }
    }
  }
  for (const auto& [device, time] : next) {
    devices_[device].time = std::max(devices_[device].time, time);
  }
}

void Scheduler::Dispatch(Woken& woken) {
  while (Flow* flow = Next()) {
    Enter(*flow);
    Erase(waiting_, flow);
    busy_.push_back(flow);
    flow->state_ = Flow::State::kGranted;
    woken.push_back(std::move(flow->listener_));
    flow->listener_.reset();
  }
}

// The first, in the order of the class comment, that may go now; null if none may.
Scheduler::Flow* Scheduler::Next() {
  if (waiting_.empty()) return nullptr;
  CatchUp();
  struct Candidate {
    int64_t distance;
    uint64_t asked;  // those that have not asked come after those that have
    Flow* flow;
    bool operator<(const Candidate& other) const {  // for a heap: the first is the greatest
      return std::tie(distance, asked) > std::tie(other.distance, other.asked);
    }
  };
  std::vector<Candidate> heap;
  for (Flow* flow : waiting_) heap.push_back({Distance(*flow), flow->asked_, flow});
  for (Flow* flow : busy_) {
    heap.push_back({Distance(*flow), std::numeric_limits<uint64_t>::max(), flow});
  }
  absl::InlinedVector<Device*, 4> closed;  // to all who come behind
  const auto is_closed = [&](Device* device) { return absl::c_linear_search(closed, device); };
  std::make_heap(heap.begin(), heap.end());
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end());
    Flow* flow = heap.back().flow;
    heap.pop_back();
    const bool waits = flow->state_ == Flow::State::kWaiting;
    if (waits && absl::c_none_of(flow->devices_, is_closed) && RoomOnAll(*flow)) return flow;
    for (Device* device : flow->devices_) {
      if ((waits || devices_[device].runs > 0) && !is_closed(device)) closed.push_back(device);
    }
  }
  return nullptr;
}

void Scheduler::Tell(const Woken& woken) {
  for (const std::weak_ptr<Listener>& each : woken) {
    if (const std::shared_ptr<Listener> listener = each.lock()) listener->TurnCame();
  }
}

}  // namespace tensord
