// Spiller: who gets memory of a device when it is full. It moves tensors that nobody works on to a
// SpillStore, and back before they are used; one thread does so, for one request after the other.
//
//   Spiller spiller(store, ledger);
//   spiller.Join(session);
//   spiller.Ask(session, {.command = 7, .tensors = operands, .needs = {{device, bytes}}});
//   ... session->Granted(...) or Refused(...), on the spiller's thread
//
// A request is met as a whole: all of its tensors come back, and the rest of what it needs is set
// aside. So two that need most of a device each go one after the other and never hold half of it
// each. Who goes: tensors of sessions that do nothing, then those of others, then those of whoever
// asks; of each the least recently used first.
//
// What can't be met now waits. While runs are under way, which end by themselves, nobody passes it
// by, and after a while no run begins that hasn't asked; while only clients hold things up, others
// pass, and it is refused after a time. If nothing that might end is in the way it is refused.
//
// Thread-safe.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/container/inlined_vector.h>
#include <absl/status/status.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/time.h>
#include <absl/types/span.h>

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/steady_clock.h"
#include "core/device/device.h"
#include "server/memory/memory_ledger.h"
#include "server/memory/spill_store.h"
#include "server/session/objects.h"

namespace tensord {

class Spiller {
 public:
  static constexpr uint64_t kMinBytes = 64 << 10;  // smaller tensors stay

  using Need = MemoryLedger::Need;
  struct Request {
    uint64_t command = 0;  // its number; 0: of somebody who reads a tensor
    absl::InlinedVector<std::shared_ptr<Tensor>, 4> tensors;
    std::vector<Need> needs;  // an allocation each
    bool again = false;       // it was granted, and others were faster: goes first
  };
  // A tensor of the request, each one once.
  struct Operand {
    std::shared_ptr<Tensor> tensor;
    Device* device = nullptr;
    uint64_t bytes = 0;
    bool spilled = false;
  };
  struct Moved {
    uint64_t spilled = 0, restored = 0;  // bytes
  };

  // Memory that was set aside for a request. While it lives others wait for its end.
  class Grant {
   public:
    Grant() = default;
    Grant(Grant&& other) noexcept { *this = std::move(other); }
    Grant& operator=(Grant&& other) noexcept;
    ~Grant() { End(); }

    std::vector<std::shared_ptr<DeviceMemory>> memory;

   private:
    friend class Spiller;
    void End();
    Spiller* spiller_ = nullptr;
  };

  class Holder;
  // What holders say of some devices.
  struct Survey {
    struct Victim {
      std::shared_ptr<Holder> holder;
      std::shared_ptr<Tensor> tensor;
      Device* device = nullptr;
      uint64_t bytes = 0;
      bool idle = false;  // its holder
      absl::Time used;
    };
    std::vector<Victim> victims;
    bool runs = false;             // or copies are under way, whose memory comes free
    std::vector<Need> movable;     // may go now or later, but for the request's own tensors
    std::vector<Need> by_clients;  // of these, kept: a download is read, an upload sent
  };

  // A session. Called on the spiller's thread, without a lock.
  class Holder {
   public:
    virtual ~Holder() = default;
    // The request's tensors; nothing if it is no longer wanted.
    virtual std::optional<std::vector<Operand>> FindOperands(const Request& request) = 0;
    // Adds what it has there; `request` is its own, or null.
    virtual void Look(absl::Span<Device* const> devices, const Request* request,
                      Survey& survey) = 0;
    // The bytes that have left the device: 0 if the tensor is in use again.
    virtual absl::StatusOr<uint64_t> Spill(const std::shared_ptr<Tensor>& tensor,
                                           SpillStore& store) = 0;
    // Fills the memory, and has it as the tensor's from then on. Returns the bytes.
    virtual uint64_t Restore(const std::shared_ptr<Tensor>& tensor,
                             std::shared_ptr<DeviceMemory> memory) = 0;
    virtual void Granted(const Request& request, Grant grant) = 0;
    virtual void Refused(const Request& request, const absl::Status& status) = 0;
    // What was moved for its sake.
    virtual void Bill(const Moved& moved) = 0;
    // What it waits for may be there, or be away.
    virtual void Poke() = 0;
  };

  struct Stats {
    uint64_t waiting = 0;  // requests
    uint64_t spills = 0, restores = 0;
    uint64_t spilled_bytes = 0, restored_bytes = 0;
    int64_t spill_ns = 0, restore_ns = 0;
  };

  Spiller(SpillStore& store, MemoryLedger& ledger);
  ~Spiller() { Stop(); }

  // Waits for what is being moved; nobody is served any more.
  void Stop();

  void Join(std::weak_ptr<Holder> holder);
  // Answered by Granted or Refused, but not once the holder has ended.
  void Ask(std::weak_ptr<Holder> holder, Request request);
  // Something has ended that may have kept memory. Cheap.
  void Wake();
  // Whether a request has waited for the runs on one of these long enough: new ones ask as well.
  bool Closed(absl::Span<Device* const> devices);

  const SpillStore& store() const { return store_; }
  Stats stats();

 private:
  // Why a request can't be met: what is in the way, and ends by itself, by clients, or not at all.
  enum class Obstacle : uint8_t { kNone, kRuns, kClients, kNothing };
  struct Waiting {
    std::weak_ptr<Holder> holder;
    Request request;
    absl::InlinedVector<Device*, 2> devices;  // from which it needs something
    Obstacle obstacle = Obstacle::kNone;      // at the last look
    absl::Time since;                         // when that became it
    absl::Time held;                          // when it ceased to be runs
  };
  // A request being served.
  class Service;

  void Run();
  // Whether it is answered, or nobody wants the answer.
  bool Serve(Waiting& waiting, absl::Span<Device* const> held);
  std::vector<std::shared_ptr<Holder>> Holders();

  SpillStore& store_;
  MemoryLedger& ledger_;
  std::atomic<int> grants_ = 0;       // relaxed: looked at again and again
  std::atomic<int> waiting_ = 0;      // relaxed, likewise
  std::atomic<bool> closed_ = false;  // relaxed, likewise: whether any device is

  absl::Mutex mu_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::weak_ptr<Holder>> holders_ ABSL_GUARDED_BY(mu_);
  std::list<std::shared_ptr<Waiting>> queue_ ABSL_GUARDED_BY(mu_);
  absl::InlinedVector<Device*, 2> closed_devices_ ABSL_GUARDED_BY(mu_);
  Stats stats_ ABSL_GUARDED_BY(mu_);
  SteadyWake wake_;
  std::jthread thread_;
};

}  // namespace tensord
