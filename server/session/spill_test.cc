// Sessions that together have more than their device: what they hold leaves it and comes back. The
// device is the fake, so that a test can hold it, and computes sums.
#include <absl/synchronization/notification.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/base/status.h"
#include "core/ir/program.h"
#include "core/wire/handle.h"
#include "core/wire/program.h"
#include "proto/tensord/v1/session.pb.h"
#include "server/memory/memory_ledger.h"
#include "server/memory/spill_store.h"
#include "server/scheduler/scheduler.h"
#include "server/session/content_index.h"
#include "server/session/fake_runtime.h"
#include "server/session/program_index.h"
#include "server/session/session.h"
#include "server/session/spiller.h"
#include "server/session/worker_pool.h"
#include "server/sharing/publications.h"

namespace tensord {
namespace {

constexpr uint64_t kUnit = 64 << 10;  // of each tensor
constexpr int64_t kFloats = kUnit / sizeof(float);

uint64_t HandleOf(Handle::Type type, uint32_t slot) {
  return Handle{.type = type, .generation = 1, .slot = slot}.Pack();
}

// The sum of two tensors, as a new one or in the first one's place.
v1::Program Sum(bool in_place) {
  Program program;
  program.name = in_place ? "update" : "sum";
  const Node* x = program.graph.Param(0, DType::kFloat32, {kFloats});
  const Node* y = program.graph.Param(1, DType::kFloat32, {kFloats});
  program.inputs = {x, y};
  program.outputs = {{.value = program.graph.Make(Op::kAdd, {x, y})}};
  if (in_place) program.outputs[0].overwrites = 0;
  return Encode(program);
}

// What stands first outlives what follows.
struct Daemon {
  explicit Daemon(SpillOptions options = {.host_bytes = 256 * kUnit})
      : store(*SpillStore::Create(std::move(options))) {
    runtime.device().SetCapacity(8 * kUnit);
  }
  ~Daemon() {
    spiller.Stop();
    compile_pool.Stop();
    work_pool.Stop();
  }

  SessionEngine engine() {
    return {.runtime = runtime,
            .compile_pool = compile_pool,
            .work_pool = work_pool,
            .scheduler = scheduler,
            .publications = publications,
            .segment_socket = "",
            .ledger = ledger,
            .programs = programs,
            .contents = contents,
            .limits = {},
            .spiller = &spiller};
  }
  // Nothing is left, neither on the device nor elsewhere.
  void ExpectEmpty() {
    runtime.device().AwaitInUse(0);
    const SpillStore::Stats stats = store->stats();
    EXPECT_EQ(stats.host_bytes + stats.disk_bytes, 0u);
    EXPECT_EQ(ledger.OfDevice(nullptr).bytes, 0u);
    EXPECT_EQ(ledger.OfDevice(&runtime.device()).bytes, 0u);
  }

  WorkerPool compile_pool{"compile", 1}, work_pool{"work", 2};
  Scheduler scheduler;
  MemoryLedger ledger{uint64_t{1} << 40};
  ProgramIndex programs;
  ContentIndex contents;
  FakeRuntime runtime;
  Publications publications{ledger};
  std::unique_ptr<SpillStore> store;
  Spiller spiller{*store, ledger};
};

class Client {
 public:
  explicit Client(Daemon& daemon, const std::string& name = "test")
      : session_(std::make_shared<Session>(
            SessionIdentity{.id = name, .lease = absl::ZeroDuration()}, daemon.engine())),
        listener_(std::make_shared<Deaf>()) {
    daemon.spiller.Join(session_);
    attachment_ = session_->Attach(listener_, 0)->number;
    for (const bool in_place : {false, true}) {
      v1::RegisterProgram& program = *Add().mutable_register_program();
      program.set_handle(HandleOf(Handle::kProgram, in_place ? 1 : 0));
      *program.mutable_program() = Sum(in_place);
    }
  }
  ~Client() { session_->End(); }

  // All elements are `value`. Returns the slot.
  uint32_t Upload(float value) {
    std::string bytes(kUnit, '\0');
    for (int64_t i = 0; i < kFloats; ++i) std::memcpy(&bytes[i * 4], &value, 4);
    v1::UploadCommand& upload = *Add().mutable_upload();
    upload.set_handle(HandleOf(Handle::kTensor, ++slot_));
    upload.set_dtype(static_cast<uint32_t>(DType::kFloat32));
    upload.add_shape(kFloats);
    upload.set_inline_data(bytes);
    return slot_;
  }
  uint32_t Run(uint32_t x, uint32_t y) {
    v1::RunProgram& run = *Add().mutable_run();
    run.set_program(HandleOf(Handle::kProgram, 0));
    run.add_inputs(HandleOf(Handle::kTensor, x));
    run.add_inputs(HandleOf(Handle::kTensor, y));
    run.add_outputs(HandleOf(Handle::kTensor, ++slot_));
    return slot_;
  }
  void Update(uint32_t x, uint32_t y) {
    v1::RunProgram& run = *Add().mutable_run();
    run.set_program(HandleOf(Handle::kProgram, 1));
    run.add_inputs(HandleOf(Handle::kTensor, x));
    run.add_inputs(HandleOf(Handle::kTensor, y));
    run.add_outputs(HandleOf(Handle::kTensor, x));
  }
  uint32_t Copy(uint32_t x) {
    v1::CopyTensor& copy = *Add().mutable_copy();
    copy.set_source(HandleOf(Handle::kTensor, x));
    copy.set_handle(HandleOf(Handle::kTensor, ++slot_));
    return slot_;
  }
  void Release(uint32_t x) { Add().mutable_release()->add_handles(HandleOf(Handle::kTensor, x)); }

  void Send() {
    const absl::Status status = session_->Receive(attachment_, frame_);
    EXPECT_TRUE(status.ok()) << status;
    frame_.Clear();
  }

  // Waits for it; its elements, which are all the same.
  absl::StatusOr<float> Read(uint32_t slot) {
    if (frame_.commands_size() > 0) Send();
    absl::StatusOr<Awaited> awaited;
    absl::Notification done;
    session_->Await({.sequence = sequence_, .handle = HandleOf(Handle::kTensor, slot), .pin = true},
                    [&](absl::StatusOr<Awaited> result) {
                      awaited = std::move(result);
                      done.Notify();
                    });
    done.WaitForNotification();
    TD_RETURN_IF_ERROR(awaited.status());
    for (const auto& [device, value] : awaited->pending) {
      TD_RETURN_IF_ERROR(device->timeline().Wait(value, absl::InfiniteFuture()));
    }
    const auto* values = static_cast<const float*>(awaited->buffer->memory->host_address());
    for (int64_t i = 1; i < kFloats; ++i) {
      if (values[i] != values[0]) return Internal("element {} is {}", i, values[i]);
    }
    return values[0];
  }
  void Expect(uint32_t slot, float value) {
    const absl::StatusOr<float> read = Read(slot);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, value);
  }
  std::string ErrorOf(uint32_t slot) { return Read(slot).status().ToString(); }

  int CountOf(ObjectState state) {
    int count = 0;
    for (const HeldTensor& tensor : session_->HeldTensors()) count += tensor.state == state;
    return count;
  }
  Session& session() { return *session_; }

 private:
  class Deaf final : public SessionListener {
    void Wake() override {}
    void Close(const absl::Status& /*status*/) override {}
    void Replaced() override {}
  };

  v1::Command& Add() {
    v1::Command& command = *frame_.add_commands();
    command.set_sequence(++sequence_);
    return command;
  }

  const std::shared_ptr<Session> session_;
  const std::shared_ptr<Deaf> listener_;
  uint64_t attachment_ = 0, sequence_ = 0;
  uint32_t slot_ = 0;
  v1::ClientFrame frame_;
};

TEST(SpillTest, OneSessionMayHoldMoreThanTheDevice) {
  Daemon daemon;
  {
    Client client(daemon);
    std::vector<uint32_t> tensors, sums;
    for (int i = 0; i < 20; ++i) tensors.push_back(client.Upload(static_cast<float>(i)));
    for (int i = 0; i < 20; ++i) sums.push_back(client.Run(tensors[i], tensors[19 - i]));
    client.Expect(sums[19], 19);
    EXPECT_GE(client.CountOf(ObjectState::kSpilled), 32);
    EXPECT_EQ(client.session().Counters().live_bytes(), 40 * kUnit);
    for (int i = 0; i < 20; ++i) {
      client.Expect(sums[i], 19);
      client.Expect(tensors[i], static_cast<float>(i));
    }
    EXPECT_GE(client.session().Counters().bytes_spilled(), 32 * kUnit);
    EXPECT_GE(client.session().Counters().bytes_restored(), 32 * kUnit);
  }
  daemon.ExpectEmpty();
}

TEST(SpillTest, OthersTensorsGoAndComeBackAndWhoCausedItIsBilled) {
  Daemon daemon;
  {
    Client idle(daemon, "idle"), busy(daemon, "busy");
    std::vector<uint32_t> kept, mine;
    for (int i = 0; i < 6; ++i) kept.push_back(idle.Upload(static_cast<float>(i)));
    idle.Expect(kept[5], 5);
    for (int i = 0; i < 7; ++i) mine.push_back(busy.Upload(static_cast<float>(10 + i)));
    busy.Expect(mine[6], 16);
    EXPECT_EQ(idle.CountOf(ObjectState::kSpilled), 5);
    EXPECT_EQ(busy.CountOf(ObjectState::kSpilled), 0);
    EXPECT_EQ(idle.session().Counters().bytes_spilled(), 0u);
    EXPECT_EQ(busy.session().Counters().bytes_spilled(), 5 * kUnit);
    EXPECT_EQ(daemon.ledger.OfDevice(nullptr).bytes, 5 * kUnit);
    idle.Update(kept[0], kept[1]);
    idle.Expect(kept[0], 1);
    for (int i = 1; i < 6; ++i) idle.Expect(kept[i], static_cast<float>(i));
    for (int i = 0; i < 7; ++i) busy.Expect(mine[i], static_cast<float>(10 + i));
  }
  daemon.ExpectEmpty();
}

TEST(SpillTest, WhatIsReleasedOrEndsWhileItIsSpilledIsGone) {
  Daemon daemon;
  Client other(daemon, "other");
  {
    Client client(daemon, "client");
    std::vector<uint32_t> tensors;
    for (int i = 0; i < 20; ++i) tensors.push_back(client.Upload(static_cast<float>(i)));
    client.Expect(tensors[19], 19);
    EXPECT_EQ(daemon.store->stats().host_entries, 12u);
    for (int i = 0; i < 10; ++i) client.Release(tensors[i]);
    client.Expect(tensors[10], 10);
    EXPECT_LE(daemon.store->stats().host_entries, 3u);
    for (int i = 0; i < 8; ++i) other.Expect(other.Upload(1), 1);
    EXPECT_GE(daemon.store->stats().host_entries, 8u);
  }
  EXPECT_EQ(daemon.store->stats().host_entries, 0u);
}

TEST(SpillTest, WhatCanNotBeIsRefusedAndNothingIsLost) {
  Daemon daemon({.host_bytes = 4 * kUnit});
  {
    Client client(daemon);
    std::vector<uint32_t> tensors;
    for (int i = 0; i < 12; ++i) tensors.push_back(client.Upload(static_cast<float>(i)));
    const uint32_t more = client.Upload(50);
    const std::string error = client.ErrorOf(more);
    EXPECT_NE(error.find("no room to spill 65536 bytes: --spill-host-bytes allows 262144, of which "
                         "262144 are taken; there is no --spill-dir"),
              std::string::npos)
        << error;
    const uint32_t sum = client.Run(tensors[0], tensors[11]);
    EXPECT_FALSE(client.Read(sum).ok());
    client.Release(tensors[5]);
    client.Release(tensors[6]);
    for (int i = 0; i < 12; ++i) {
      if (i != 5 && i != 6) client.Expect(tensors[i], static_cast<float>(i));
    }
    client.Expect(client.Run(tensors[0], tensors[11]), 11);
  }
  daemon.ExpectEmpty();
}

TEST(SpillTest, ACommandThatWaitsForMemorySaysSo) {
  Daemon daemon;
  daemon.runtime.device().SetCapacity(6 * kUnit);
  {
    Client client(daemon);
    std::vector<uint32_t> tensors, sums;
    for (int i = 0; i < 4; ++i) tensors.push_back(client.Upload(static_cast<float>(i)));
    client.Expect(tensors[3], 3);
    daemon.runtime.device().Hold();
    for (int i = 0; i < 2; ++i) sums.push_back(client.Run(tensors[2 * i], tensors[2 * i + 1]));
    client.Send();
    daemon.runtime.device().AwaitQueued(2);  // all memory is in use
    Client other(daemon, "other");
    const uint32_t mine = other.Upload(7);
    other.Send();
    while (other.session().Explain().cause() != v1::ExplainReply::CAUSE_MEMORY) {
    }
    EXPECT_EQ(other.session().Explain().what(), "upload of tensor 1.1");
    EXPECT_FALSE(other.session().Idle());  // a drain waits for it
    daemon.runtime.device().Unhold();
    other.Expect(mine, 7);
    for (int i = 0; i < 2; ++i) client.Expect(sums[i], static_cast<float>(4 * i + 1));
  }
  daemon.ExpectEmpty();
}

// Sessions that do anything, each by a thread, against what floats would be; the device does its
// runs by a thread of its own.
void DoAnything(Daemon& daemon, int seed) {
  std::mt19937 random(seed);
  const auto below = [&random](size_t n) { return static_cast<size_t>(random() % n); };
  Client client(daemon, fmt::format("session-{}", seed));
  std::vector<std::pair<uint32_t, float>> held;
  for (int step = 0; step < 300; ++step) {
    const size_t kind = held.size() < 2 ? 0 : below(7);
    const size_t i = held.empty() ? 0 : below(held.size());
    const size_t j = held.empty() ? 0 : below(held.size());
    if (kind == 0) {
      const auto value = static_cast<float>(below(100));
      held.emplace_back(client.Upload(value), value);
    } else if (kind == 1) {
      held.emplace_back(client.Run(held[i].first, held[j].first), held[i].second + held[j].second);
    } else if (kind == 2 && i != j && held[i].second + held[j].second < 1e6) {
      client.Update(held[i].first, held[j].first);
      held[i].second += held[j].second;
    } else if (kind == 3) {
      held.emplace_back(client.Copy(held[i].first), held[i].second);
    } else if (kind == 4) {
      client.Expect(held[i].first, held[i].second);
    } else if (kind == 5) {
      client.Send();
    }
    if (kind == 6 || held.size() > 12) {
      client.Release(held[i].first);
      held.erase(held.begin() + static_cast<ptrdiff_t>(i));
    }
  }
  for (const auto& [slot, value] : held) client.Expect(slot, value);
}

TEST(SpillTest, AnyWorkOfManySessionsGivesWhatItGivesAlone) {
  const std::string folder = testing::TempDir() + "/spill-anything";
  const SpillOptions stores[] = {
      {.host_bytes = 256 * kUnit},
      {.host_bytes = 4 * kUnit, .folder = folder, .disk_bytes = 256 * kUnit}};
  for (const SpillOptions& options : stores) {
    Daemon daemon(options);
    daemon.runtime.device().Hold();
    std::atomic<bool> ended = false;
    std::thread device([&] {
      while (!ended) {
        if (!daemon.runtime.device().Step()) std::this_thread::yield();
      }
    });
    std::vector<std::thread> threads;
    for (int seed = 0; seed < 4; ++seed) {
      threads.emplace_back([&daemon, seed] { DoAnything(daemon, seed); });
    }
    for (std::thread& each : threads) each.join();
    ended = true;
    device.join();
    daemon.runtime.device().Unhold();
    EXPECT_GT(daemon.spiller.stats().restores, 0u);
    daemon.ExpectEmpty();
  }
}

}  // namespace
}  // namespace tensord
