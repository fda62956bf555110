// Whose run goes to a device next. Sessions share a device in proportion to their weights, by the
// time that their runs were measured to take there (weighted fair queueing), and only a small
// window of runs is on the device at once, so that a newcomer waits for little more than that.
//
//   std::optional<Scheduler::Turn> turn = scheduler.Ask(flow, devices, expected_ns, weak_listener);
//   if (!turn) return;                     // TurnCame() tells when to ask again
//   ... submit ...
//   turn->Done({device_ns});               // once it has ended on the device; dropped: charges 0
//   scheduler.Rest(flow);                  // when the session has no run that could go now
//
// Each device has a virtual time. It moves with the time that runs take there, over the weight of
// all who want the device: so far has each of them got if all are served alike. A flow's run begins
// at the flow's own time, or at the device's if that is later: who was idle has gained nothing. It
// ends by what it is expected to take over the flow's weight, which becomes the flow's time and is
// corrected by what the run took. Whose run ends first goes first, of equals who asked first: short
// runs wait for less than long ones, and nobody gets more than its part by it.
//
// A run on several devices goes by the one on which its flow is furthest ahead, and takes all of
// them at once. While it is first it holds back all others on its devices, so that it is neither
// overtaken for ever nor waits in a circle.
//
// A flow that has been given a turn and has not yet said whether it wants another is waited for as
// if it did, unless the device would idle: otherwise who asks a moment later would lose its share.
//
// Thread-safe. Costs time in proportion to the flows that wait.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/container/flat_hash_map.h>
#include <absl/container/inlined_vector.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/time.h>
#include <absl/types/span.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/device/device.h"

namespace tensord {

struct SchedulerOptions {
  // Runs are submitted ahead until the device has so much to do by what they are expected to take;
  // more are submitted once half of it is done, several together, because each wake-up costs.
  absl::Duration window = absl::Milliseconds(2);
  // But so many at least: one that runs, and one that the device finds when it has ended.
  int min_runs = 2;
};

class Scheduler {
 public:
  // How long a run takes is not known before it has run once: as good as the whole window.
  static constexpr int64_t kUnknown = -1;
  static constexpr int kMaxWeight = 16;

  // Hears that asking again may be worth it. Called on any thread, a device's among them, without a
  // lock of the scheduler; must do little.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void TurnCame() = 0;
  };

  // The place of one session. Outlives its turns, and dies before the scheduler.
  class Flow {
   public:
    // From 1 to kMaxWeight.
    Flow(Scheduler& scheduler, int weight);
    ~Flow() { scheduler_.Rest(*this); }
    Flow(const Flow&) = delete;
    Flow& operator=(const Flow&) = delete;

   private:
    friend class Scheduler;
    // Guarded by the scheduler's lock, but for the constants.
    enum class State : uint8_t {
      kResting,  // wants nothing now
      kWaiting,  // has asked
      kGranted,  // was given the turn that it waited for, and hasn't fetched it
      kBusy,     // has fetched it, and hasn't said what comes next
    };
    Scheduler& scheduler_;
    const int weight_;
    State state_ = State::kResting;
    uint64_t asked_ = 0;  // when, as a number
    int64_t expected_ns_ = 0;
    absl::InlinedVector<Device*, 1> devices_;  // of the run
    std::weak_ptr<Listener> listener_;         // while it waits
    struct Place {
      int64_t time = 0;         // virtual: when its next run may begin
      int present = 0;          // runs in the window, and one if it wants the device now
      int runs = 0;             // in the window
      int64_t expected_ns = 0;  // of these
    };
    absl::flat_hash_map<Device*, Place> places_;
  };

  // A run's place in the window of its devices. Moved to whoever sees the run end.
  class Turn {
   public:
    Turn(Turn&& other) noexcept { *this = std::move(other); }
    Turn& operator=(Turn&& other) noexcept;
    ~Turn() { Done({}); }

    // How long it took on each of its devices, in their order; of those left out: no time. Once;
    // what comes later does nothing.
    void Done(absl::Span<const int64_t> device_ns);

   private:
    friend class Scheduler;
    explicit Turn(Flow& flow) : flow_(&flow), expected_ns_(flow.expected_ns_) {
      devices_ = flow.devices_;
    }
    Flow* flow_ = nullptr;
    int64_t expected_ns_ = 0;
    absl::InlinedVector<Device*, 1> devices_;
  };

  explicit Scheduler(SchedulerOptions options = {});

  // A turn for the next run of the flow, or none yet. Whoever asks again while the flow waits only
  // looks whether it has come.
  std::optional<Turn> Ask(Flow& flow, absl::Span<Device* const> devices, int64_t expected_ns,
                          std::weak_ptr<Listener> listener) ABSL_LOCKS_EXCLUDED(mu_);
  // The flow has no run that could go now; gives back a turn that was not fetched.
  void Rest(Flow& flow) ABSL_LOCKS_EXCLUDED(mu_);

  // Where the next run of a flow stands on each of its devices; nothing unless it waits.
  struct Position {
    Device* device = nullptr;
    int place = 0;    // in line, from 1
    int waiting = 0;  // how many are in line
    // On the device, and what they are expected to take.
    int own_runs = 0, other_runs = 0;
    int64_t own_ns = 0, other_ns = 0;
    int64_t ns_before = 0;  // what those before it in line are expected to take
  };
  std::vector<Position> Look(const Flow& flow) ABSL_LOCKS_EXCLUDED(mu_);

  // How long all turns that are done took on the device.
  int64_t BusyNs(Device* device) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct DeviceState {
    int64_t time = 0;    // virtual
    int64_t weight = 0;  // of the flows that are present
    int64_t expected_ns = 0;
    int64_t busy_ns = 0;
    int runs = 0;         // in the window
    bool filled = false;  // until half of the window is done
  };
  using Woken = std::vector<std::weak_ptr<Listener>>;

  // The flow wants the devices of its next run, or no longer does.
  void Want(Flow& flow, bool wants) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // One present reason more or less.
  void Count(Flow& flow, Device* device, int more) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // How far the virtual end of the flow's next run is from the device's time.
  int64_t Distance(const Flow& flow) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool HasRoom(DeviceState& device, int64_t expected_ns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool RoomOnAll(const Flow& flow) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The flow's run enters the windows of its devices, and leaves them.
  void Enter(Flow& flow) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Leave(Flow& flow, absl::Span<Device* const> devices, int64_t expected_ns,
             absl::Span<const int64_t> device_ns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void CatchUp() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Lets go whoever may; `woken` are to be told.
  void Dispatch(Woken& woken) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Flow* Next() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  static void Tell(const Woken& woken);

  const int64_t window_ns_;
  const int min_runs_;
  absl::Mutex mu_;
  absl::flat_hash_map<Device*, DeviceState> devices_ ABSL_GUARDED_BY(mu_);
  std::vector<Flow*> waiting_ ABSL_GUARDED_BY(mu_);
  std::vector<Flow*> busy_ ABSL_GUARDED_BY(mu_);  // and granted
  uint64_t asked_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tensord
