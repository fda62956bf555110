// Several sessions on one device that does a run when the test says so. Runs are counted, nothing
// is timed: before each step the test waits until the window is full again.
#include <absl/synchronization/barrier.h>
#include <absl/synchronization/mutex.h>
#include <absl/synchronization/notification.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/ir/program.h"
#include "core/wire/handle.h"
#include "core/wire/program.h"
#include "proto/tensord/v1/session.pb.h"
#include "server/memory/memory_ledger.h"
#include "server/scheduler/scheduler.h"
#include "server/session/content_index.h"
#include "server/session/fake_runtime.h"
#include "server/session/program_index.h"
#include "server/session/session.h"
#include "server/session/worker_pool.h"
#include "server/sharing/publications.h"

namespace tensord {
namespace {

constexpr int64_t kRunNs = 1000;  // of each run of the fake
constexpr size_t kWindow = 2;     // runs
constexpr int kWorkers = 2;

// Returns once all that was scheduled has been done.
void AwaitWork(WorkerPool& pool) {
  auto* barrier = new absl::Barrier(kWorkers + 1);
  const auto meet = [barrier] {
    if (barrier->Block()) delete barrier;
  };
  for (int i = 0; i < kWorkers; ++i) pool.Schedule(meet);
  meet();
}

uint64_t TensorHandle(uint32_t slot) {
  return Handle{.type = Handle::kTensor, .generation = 1, .slot = slot}.Pack();
}

v1::Program Double() {
  Program program;
  program.name = "double";
  const Node* x = program.graph.Param(0, DType::kFloat32, {1});
  program.inputs = {x};
  program.outputs = {{.value = program.graph.Make(Op::kAdd, {x, x})}};
  return Encode(program);
}

class FairnessTest : public testing::Test {
 protected:
  // A session with a tensor and a program.
  class Client {
   public:
    Client(SessionEngine engine, int weight)
        : session(
              std::make_shared<Session>(SessionIdentity{.id = "test", .weight = weight}, engine)) {
      v1::UploadCommand& upload = *Add().mutable_upload();
      upload.set_handle(TensorHandle(0));
      upload.set_dtype(static_cast<uint32_t>(DType::kFloat32));
      upload.add_shape(1);
      upload.set_inline_data(std::string(sizeof(float), '\0'));
      v1::RegisterProgram& program = *Add().mutable_register_program();
      program.set_handle(kProgram);
      *program.mutable_program() = Double();
      Send();
      absl::Notification compiled;
      session->Await({.sequence = sequence_, .handle = kProgram},
                     [&](const absl::StatusOr<Awaited>& result) {
                       EXPECT_TRUE(result.ok()) << result.status();
                       compiled.Notify();
                     });
      compiled.WaitForNotification();
    }

    void Listen(const std::shared_ptr<SessionListener>& listener) {
      attachment_ = session->Attach(listener, 0)->number;
    }

    // All at once; when this returns the session has asked for its turn.
    void Run(int runs) {
      for (int i = 0; i < runs; ++i) {
        v1::RunProgram& run = *Add().mutable_run();
        run.set_program(kProgram);
        run.add_inputs(TensorHandle(0));
        run.add_outputs(TensorHandle(++results_));
        run.set_notify(true);
      }
      Send();
    }

    // Runs that have ended on the device.
    int Ended() { return static_cast<int>(session->Counters().device_ns() / kRunNs); }

    // Those whose end the client was told, with how, in order.
    std::vector<v1::Completion> Completions() {
      v1::ServerFrame frame;
      while (session->TakeFrame(attachment_, &frame)) {
        completions_.insert(completions_.end(), frame.completions().begin(),
                            frame.completions().end());
      }
      return completions_;
    }

    const std::shared_ptr<Session> session;

   private:
    static constexpr uint64_t kProgram =
        Handle{.type = Handle::kProgram, .generation = 1, .slot = 0}.Pack();

    v1::Command& Add() {
      v1::Command& command = *frame_.add_commands();
      command.set_sequence(++sequence_);
      return command;
    }
    void Send() {
      const absl::Status status = session->Receive(attachment_, frame_);
      EXPECT_TRUE(status.ok()) << status;
      frame_.Clear();
    }

    v1::ClientFrame frame_;
    uint64_t attachment_ = 0;
    uint64_t sequence_ = 0;
    uint32_t results_ = 0;
    std::vector<v1::Completion> completions_;
  };

  FairnessTest() { device().Hold(); }
  ~FairnessTest() override {
    for (const auto& session : sessions_) session->End();
    device().Unhold();
    compile_pool_.Stop();
    work_pool_.Stop();
  }

  Client Open(int weight = 4) {
    Client client({.runtime = runtime_,
                   .compile_pool = compile_pool_,
                   .work_pool = work_pool_,
                   .scheduler = scheduler_,
                   .publications = publications_,
                   .ledger = ledger_,
                   .programs = programs_,
                   .contents = contents_,
                   .limits = {}},
                  weight);
    client.Listen(told_);
    sessions_.push_back(client.session);
    return client;
  }
  FakeDevice& device() { return runtime_.device(); }
  // Ends the next run, once the window is full, and waits until its session knows and all have
  // asked for what they want next.
  void Step(const absl::Status& status = absl::OkStatus(), size_t queued = kWindow) {
    device().AwaitQueued(queued);
    const int64_t ended = Ended() + 1;
    ASSERT_TRUE(device().Step(status));
    told_->Await([&] { return Ended() == ended; });
    AwaitWork(work_pool_);
  }
  int64_t Ended() {
    int64_t ended = 0;
    for (const auto& session : sessions_) ended += session->Counters().device_ns() / kRunNs;
    return ended;
  }

  // Sessions wake it whenever a run has ended.
  class Told : public SessionListener {
   public:
    void Wake() override { absl::MutexLock lock(&mu_); }
    void Close(const absl::Status& /*status*/) override {}
    void Replaced() override {}
    template <typename Condition>
    void Await(const Condition& condition) {
      absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(&condition));
    }

   private:
    absl::Mutex mu_;
  };

  // What stands first outlives what follows.
  WorkerPool compile_pool_{"compile", 1};
  WorkerPool work_pool_{"work", kWorkers};
  Scheduler scheduler_{{.window = absl::Nanoseconds(kWindow * kRunNs), .min_runs = kWindow}};
  MemoryLedger ledger_{uint64_t{1} << 40};
  ProgramIndex programs_;
  ContentIndex contents_;
  FakeRuntime runtime_;
  Publications publications_{ledger_};
  std::shared_ptr<Told> told_ = std::make_shared<Told>();
  std::vector<std::shared_ptr<Session>> sessions_;
};

TEST_F(FairnessTest, ALightSessionWaitsForTheWindowOnly) {
  Client heavy = Open(), light = Open();
  heavy.Run(100);
  for (int i = 1; i <= 10; ++i) {
    light.Run(1);
    const int before = heavy.Ended();
    while (light.Ended() < i) Step();
    // And one of the same length, which had asked before.
    EXPECT_LE(heavy.Ended() - before, static_cast<int>(kWindow) + 1) << "run " << i;
  }
}

TEST_F(FairnessTest, RunsAreSharedByWeight) {
  Client interactive = Open(16), normal = Open(4), batch = Open(1);
  for (Client* each : {&batch, &normal, &interactive}) each->Run(500);
  for (int i = 0; i < 420; ++i) Step();
  EXPECT_NEAR(interactive.Ended(), 320, 6);
  EXPECT_NEAR(normal.Ended(), 80, 4);
  EXPECT_NEAR(batch.Ended(), 20, 3);
}

TEST_F(FairnessTest, NobodyStarvesBesideMany) {
  Client batch = Open(1);
  std::vector<Client> others;
  for (int i = 0; i < 8; ++i) others.push_back(Open(16));
  batch.Run(3);
  for (Client& other : others) other.Run(500);
  int steps = 0;
  for (; batch.Ended() < 3 && steps < 1000; ++steps) Step();
  // Its first is expected to take the whole window, as long as nobody knows.
  EXPECT_LE(steps, static_cast<int>(kWindow + 2) * (8 * 16 + 1));
}

TEST_F(FairnessTest, RunsOfASessionStayInOrder) {
  Client first = Open(), second = Open();
  first.Run(50);
  second.Run(500);
  while (first.Ended() < 50) Step();
  const std::vector<v1::Completion> completions = first.Completions();
  ASSERT_EQ(completions.size(), 50u);
  for (size_t i = 1; i < completions.size(); ++i) {
    EXPECT_EQ(completions[i].sequence(), completions[i - 1].sequence() + 1);
  }
}

TEST_F(FairnessTest, ASessionThatEndsFreesItsPlaces) {
  Client other = Open();
  {
    // One ends with runs on the device and in line, the other while it waits for its first.
    Client running = Open(), waiting = Open();
    running.Run(100);
    waiting.Run(100);
    running.session->End();
    waiting.session->End();
    other.Run(100);
    ASSERT_TRUE(device().Step());
    ASSERT_TRUE(device().Step());
    EXPECT_EQ(other.Ended(), 0);
  }
  for (int i = 1; i <= 99; ++i) {
    Step();
    EXPECT_EQ(other.Ended(), i);
  }
  Step(absl::OkStatus(), 1);
  EXPECT_EQ(other.Ended(), 100);
  other.session->End();
  device().AwaitInUse(0);
}

TEST_F(FairnessTest, AFaultOfOneSessionDisturbsNobodyElse) {
  Client guilty = Open(), other = Open();
  guilty.Run(20);
  other.Run(20);
  while (guilty.Ended() + other.Ended() < 30) {
    // Whose run is next on the device: that of the session that ends one by it.
    const int before = guilty.Ended();
    const bool fault = guilty.Ended() == 0 && other.Ended() == 0;  // the first is of `guilty`
    Step(fault ? Internal("the kernel faulted") : absl::OkStatus());
    if (fault) {
      EXPECT_EQ(guilty.Ended(), before + 1);
    }
  }
  EXPECT_NEAR(guilty.Ended(), 15, 2);
  const std::vector<v1::Completion> guilty_ends = guilty.Completions();
  for (size_t i = 0; i < guilty_ends.size(); ++i) {
    EXPECT_EQ(guilty_ends[i].status().message(),
              i == 0 ? "run of program 'double' in test: the kernel faulted" : "");
  }
  for (const v1::Completion& end : other.Completions()) EXPECT_EQ(end.status().code(), 0u);
}

}  // namespace
}  // namespace tensord
