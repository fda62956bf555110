// The scheduler over devices that are queues and sums: runs and virtual time are counted, nothing
// is waited for.
#include "server/scheduler/scheduler.h"

#include <absl/algorithm/container.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/session/fake_runtime.h"

namespace tensord {
namespace {

constexpr int64_t kMs = 1'000'000;

class Simulation {
 public:
  struct Client : Scheduler::Listener, std::enable_shared_from_this<Client> {
    Client(Simulation& simulation, int weight, std::vector<Device*> devices, int64_t ns,
           int64_t expected_ns)
        : simulation(simulation),
          flow(simulation.scheduler, weight),
          devices(std::move(devices)),
          ns(ns),
          expected_ns(expected_ns) {}
    void TurnCame() override { simulation.woken_.push_back(shared_from_this()); }

    Simulation& simulation;
    Scheduler::Flow flow;
    const std::vector<Device*> devices;
    const int64_t ns, expected_ns;
    int queued = 0;     // runs that it wants
    int submitted = 0;  // those on the device
    int ended = 0;
    int64_t device_ns() const { return ended * ns; }
  };
  using Ref = std::shared_ptr<Client>;

  explicit Simulation(SchedulerOptions options = {}) : scheduler(options) {}

  // A client whose runs take `ns`, and are expected to unless said otherwise.
  Ref Add(int64_t ns, int weight = 4, const std::vector<int>& devices = {0},
          std::optional<int64_t> expected_ns = std::nullopt) {
    std::vector<Device*> pointers;
    for (int device : devices) pointers.push_back(&devices_[device]);
    return std::make_shared<Client>(*this, weight, pointers, ns, expected_ns.value_or(ns));
  }

  // As a session does: it submits while it is given turns, and rests when it has no more runs.
  void Queue(Client& client, int runs) {
    client.queued += runs;
    Submit(client);
  }

  // Ends a run, and lets those submit whose turn came. Each device does its runs in order; of those
  // that could end, each is chosen now and then.
  Client* Step() {
    std::vector<size_t> choice;
    for (size_t i = 0; i < runs_.size(); ++i) {
      const auto behind = [&](const Run& before) {
        return absl::c_any_of(before.client->devices, [&](Device* device) {
          return absl::c_linear_search(runs_[i].client->devices, device);
        });
      };
      if (std::none_of(runs_.begin(), runs_.begin() + i, behind)) choice.push_back(i);
    }
    if (choice.empty()) return nullptr;
    const auto it = runs_.begin() + static_cast<int64_t>(choice[steps_++ % choice.size()]);
    Run run = std::move(*it);
    runs_.erase(it);
    --run.client->submitted;
    ++run.client->ended;
    run.turn.Done(std::vector<int64_t>(run.client->devices.size(), run.client->ns));
    while (!woken_.empty()) {
      const Ref next = std::move(woken_.front());
      woken_.pop_front();
      Submit(*next);
    }
    return run.client.get();
  }
  // Steps until the client has ended so many; how many others have ended meanwhile.
  int OthersUntil(const Client& client, int ended) {
    int others = 0;
    while (client.ended < ended) {
      const Client* stepped = Step();
      if (stepped == nullptr) {
        ADD_FAILURE() << "nothing runs any more";
        break;
      }
      others += stepped != &client;
    }
    return others;
  }

  Scheduler scheduler;

 private:
  struct Run {
    Ref client;
    Scheduler::Turn turn;
  };

  void Submit(Client& client) {
    while (client.queued > 0) {
      auto turn =
          scheduler.Ask(client.flow, client.devices, client.expected_ns, client.weak_from_this());
      if (!turn) return;
      --client.queued;
      ++client.submitted;
      runs_.push_back({client.shared_from_this(), *std::move(turn)});
    }
    scheduler.Rest(client.flow);
  }

  FakeDevice devices_[3] = {FakeDevice("FAKE:0"), FakeDevice("FAKE:1"), FakeDevice("FAKE:2")};
  std::deque<Ref> woken_;
  std::deque<Run> runs_;
  size_t steps_ = 0;
};
using Ref = Simulation::Ref;

TEST(SchedulerTest, TheWindowIsMeasuredInTimeAndHoldsSomeRunsAtLeast) {
  struct Case {
    std::string name;
    int64_t expected_ns;
    int submitted, after_one, after_half;  // of 200 that wait
  };
  for (const Case& c :
       {Case{"short", kMs / 10, 20, 19, 20}, Case{"long", 5 * kMs, 2, 2, 2},
        Case{"no time at all", 0, 200, 199, 100}, Case{"unknown", Scheduler::kUnknown, 2, 2, 2}}) {
    Simulation simulation({.window = absl::Milliseconds(2), .min_runs = 2});
    const Ref client = simulation.Add(kMs, 4, {0}, c.expected_ns);
    simulation.Queue(*client, 200);
    EXPECT_EQ(client->submitted, c.submitted) << c.name;
    simulation.Step();
    EXPECT_EQ(client->submitted, c.after_one) << c.name;
    simulation.OthersUntil(*client, c.submitted / 2);
    EXPECT_EQ(client->submitted, c.after_half) << c.name;
    simulation.OthersUntil(*client, 200);
    EXPECT_EQ(simulation.Step(), nullptr) << c.name;
  }
}

TEST(SchedulerTest, ANewcomerWaitsForTheWindowOnly) {
  struct Case {
    std::string name;
    int64_t heavy_ns;
    int heavies, runs_ahead;
  };
  for (const Case& c :
       {Case{"one that saturates", 5 * kMs, 1, 2}, Case{"with short runs", kMs / 10, 1, 20},
        Case{"ten that saturate", 5 * kMs, 10, 2}}) {
    Simulation simulation;
    std::vector<Ref> heavies;
    for (int i = 0; i < c.heavies; ++i) {
      heavies.push_back(simulation.Add(c.heavy_ns));
      simulation.Queue(*heavies.back(), 128);
    }
    const Ref light = simulation.Add(kMs / 10);
    for (int i = 1; i <= 10; ++i) {
      simulation.Queue(*light, 1);
      EXPECT_LE(simulation.OthersUntil(*light, i), c.runs_ahead) << c.name << ", run " << i;
      for (int j = 0; j < 3; ++j) simulation.Step();
    }
  }
}

TEST(SchedulerTest, DeviceTimeIsSharedByWeight) {
  struct Of {
    int weight;
    int64_t ns;
    std::optional<int64_t> expected_ns;
  };
  struct Case {
    std::string name;
    std::vector<Of> clients;
  };
  for (const Case& c : std::vector<Case>{
           {"equal", {{4, kMs}, {4, kMs}, {4, kMs}}},
           {"1:4:16", {{1, kMs}, {4, kMs}, {16, kMs}}},
           {"1:16, in short runs", {{1, kMs / 50}, {16, kMs / 50}}},
           {"equal, in runs of other lengths", {{4, 5 * kMs}, {4, kMs}, {4, kMs / 10}}},
           {"1:4, the heavier in longer runs", {{1, kMs / 2}, {4, 7 * kMs}}},
           {"measured, whatever was expected", {{4, kMs, kMs / 100}, {4, kMs, 4 * kMs}}},
           {"of unknown length", {{4, kMs, Scheduler::kUnknown}, {16, 3 * kMs}}}}) {
    Simulation simulation;
    std::vector<Ref> clients;
    int weights = 0;
    for (const Of& of : c.clients) {
      clients.push_back(simulation.Add(of.ns, of.weight, {0}, of.expected_ns));
      simulation.Queue(*clients.back(), 1 << 20);
      weights += of.weight;
    }
    int64_t total = 0;
    while (total < 4'000 * kMs) total += simulation.Step()->ns;
    for (size_t i = 0; i < clients.size(); ++i) {
      const double share =
          static_cast<double>(clients[i]->device_ns()) / static_cast<double>(total);
      EXPECT_NEAR(share * weights / c.clients[i].weight, 1, 0.03) << c.name << ", client " << i;
    }
  }
}

TEST(SchedulerTest, NobodyStarves) {
  Simulation simulation;
  const Ref batch = simulation.Add(kMs, 1);
  simulation.Queue(*batch, 100);
  std::vector<Ref> others;
  for (int i = 0; i < 5; ++i) {
    others.push_back(simulation.Add(kMs, 16));
    simulation.Queue(*others.back(), 1 << 20);
  }
  // 1 of 81 parts, and what is in the window.
  EXPECT_LE(simulation.OthersUntil(*batch, 100), 100 * 80 + 20);
}

TEST(SchedulerTest, NobodyStarvesBehindAStreamOfNewcomers) {
  Simulation simulation;
  const Ref old = simulation.Add(5 * kMs);
  simulation.Queue(*old, 100);
  std::vector<Ref> newcomers;
  int others = 0;
  while (old->ended < 100 && others < 2000) {
    // Each runs once, two come for each run that ends, half of which is all that there is room for.
    if (others % 2 == 0) {
      newcomers.push_back(simulation.Add(kMs));
      simulation.Queue(*newcomers.back(), 1);
    }
    others += simulation.Step() != old.get();
  }
  EXPECT_EQ(old->ended, 100);
}

TEST(SchedulerTest, WhoWasIdleHasGainedNothing) {
  Simulation simulation;
  const Ref idle = simulation.Add(kMs), busy = simulation.Add(kMs);
  simulation.Queue(*idle, 1);
  simulation.OthersUntil(*idle, 1);
  simulation.Queue(*busy, 1 << 20);
  for (int i = 0; i < 1000; ++i) simulation.Step();
  simulation.Queue(*idle, 1 << 20);
  EXPECT_NEAR(simulation.OthersUntil(*idle, 101), 100, 3);
}

TEST(SchedulerTest, WhoHadTheDeviceAloneOwesNothing) {
  Simulation simulation;
  const Ref first = simulation.Add(kMs), second = simulation.Add(kMs);
  simulation.Queue(*first, 1 << 20);
  for (int i = 0; i < 1000; ++i) simulation.Step();
  simulation.Queue(*second, 1 << 20);
  EXPECT_NEAR(simulation.OthersUntil(*first, first->ended + 100), 100, 3);
}

TEST(SchedulerTest, RunsOnSeveralDevicesAreNeitherOvertakenForEverNorStuck) {
  Simulation simulation;
  std::vector<Ref> clients;
  for (const std::vector<int>& devices : std::vector<std::vector<int>>{
           {0}, {1}, {2}, {0, 1}, {1, 0}, {1, 2}, {2, 0}, {0, 1, 2}, {2, 1, 0}}) {
    clients.push_back(simulation.Add(kMs, 4, devices));
    simulation.Queue(*clients.back(), 1 << 20);
  }
  for (int i = 0; i < 5000; ++i) ASSERT_NE(simulation.Step(), nullptr) << i;
  // Device 0 is wanted by six, of which each is held up by others elsewhere: far from equal, yet
  // nobody is left behind.
  for (const Ref& client : clients) {
    EXPECT_GE(client->ended, 5000 / 9 / 3) << client->devices.size();
  }
}

TEST(SchedulerTest, ARunOnSeveralDevicesIsNotHeldUpByItsPastOnOne) {
  Simulation simulation;
  // It is far ahead on device 0, where nobody else wants anything, and the others keep 1 busy.
  const Ref pair = simulation.Add(kMs, 1, {0, 1}), alone = simulation.Add(100 * kMs, 1, {0});
  simulation.Queue(*alone, 3);
  simulation.OthersUntil(*alone, 3);
  simulation.Queue(*pair, 3);
  simulation.OthersUntil(*pair, 3);
  const Ref other = simulation.Add(kMs, 4, {1});
  simulation.Queue(*other, 1 << 20);
  simulation.Queue(*pair, 1);
  EXPECT_LE(simulation.OthersUntil(*pair, 4), 20);
}

TEST(SchedulerTest, WhatIsDroppedFreesItsPlace) {
  Simulation simulation;
  const Ref other = simulation.Add(kMs);
  {
    const Ref fetched = simulation.Add(kMs), waiting = simulation.Add(kMs);
    simulation.Queue(*other, 2);
    // A turn that is dropped was for nothing.
    auto turn = simulation.scheduler.Ask(fetched->flow, fetched->devices, kMs, {});
    EXPECT_FALSE(turn);
    simulation.Queue(*waiting, 1);
    EXPECT_EQ(waiting->submitted, 0);
    simulation.Step();  // grants the turn of `fetched`, who does not fetch it
    EXPECT_EQ(waiting->submitted, 0);
    simulation.scheduler.Rest(fetched->flow);
    simulation.Step();
    EXPECT_EQ(waiting->submitted + waiting->ended, 1);
    while (simulation.Step() != nullptr) {
    }
    turn = simulation.scheduler.Ask(fetched->flow, fetched->devices, kMs, {});
    EXPECT_TRUE(turn);
    turn.reset();
    simulation.scheduler.Rest(fetched->flow);
    // Both die, one of them while it waits.
    simulation.Queue(*other, 2);
    EXPECT_FALSE(simulation.scheduler.Ask(waiting->flow, waiting->devices, kMs, {}));
  }
  simulation.Queue(*other, 10);
  EXPECT_EQ(simulation.OthersUntil(*other, 14), 0);
}

TEST(SchedulerTest, WhoMayWantAnotherTurnIsWaitedFor) {
  Simulation simulation;
  const Ref first = simulation.Add(kMs), heavy = simulation.Add(kMs, 16),
            light = simulation.Add(kMs, 1);
  simulation.Queue(*first, 2);
  Device* const device = first->devices[0];
  EXPECT_FALSE(simulation.scheduler.Ask(heavy->flow, {&device, 1}, kMs, {}));
  simulation.Queue(*light, 2);
  simulation.Step();
  auto turn = simulation.scheduler.Ask(heavy->flow, {&device, 1}, kMs, {});
  ASSERT_TRUE(turn);
  simulation.Step();
  // It has room for another, which is kept for the one that is to get more of the device ...
  EXPECT_EQ(light->submitted, 0);
  auto another = simulation.scheduler.Ask(heavy->flow, {&device, 1}, kMs, {});
  ASSERT_TRUE(another);
  turn->Done({kMs});
  EXPECT_EQ(light->submitted, 0);
  // ... until that one says that it wants no more.
  simulation.scheduler.Rest(heavy->flow);
  another->Done({kMs});
  simulation.Queue(*light, 0);
  EXPECT_EQ(light->submitted, 2);
}

TEST(SchedulerTest, WhoIsSlowToAskAgainKeepsItsPart) {
  Simulation simulation;
  const Ref slow = simulation.Add(kMs, 1);
  std::vector<Ref> others;
  for (int i = 0; i < 2; ++i) others.push_back(simulation.Add(kMs));
  for (const Ref& other : others) simulation.Queue(*other, 1000);
  // Asks for its next run only when so many others have ended since its turn came: it is busy.
  constexpr int kRuns = 40, kLate = 8;
  int steps = 0;
  for (int run = 0; run < kRuns; ++run) {
    std::optional<Scheduler::Turn> turn;
    for (; steps < 1000; ++steps) {
      turn = simulation.scheduler.Ask(slow->flow, slow->devices, kMs, {});
      if (turn) break;
      ASSERT_NE(simulation.Step(), nullptr);
    }
    ASSERT_TRUE(turn);
    for (int i = 0; i < kLate; ++i, ++steps) ASSERT_NE(simulation.Step(), nullptr);
    turn->Done({kMs});
  }
  // A part of one in nine.
  EXPECT_NEAR(steps, kRuns * 8, kRuns / 2);
}

TEST(SchedulerTest, KnowsHowLongEachDeviceWasBusy) {
  Simulation simulation;
  const Ref both = simulation.Add(kMs, 4, {0, 1});
  Device *const first = both->devices[0], *const second = both->devices[1];
  EXPECT_EQ(simulation.scheduler.BusyNs(first), 0);
  simulation.Queue(*both, 2);
  simulation.Step();
  EXPECT_EQ(simulation.scheduler.BusyNs(first), kMs);
  EXPECT_EQ(simulation.scheduler.BusyNs(second), kMs);
  simulation.Step();
  auto turn = simulation.scheduler.Ask(both->flow, both->devices, kMs, {});
  ASSERT_TRUE(turn);
  turn->Done({2 * kMs, 5 * kMs});
  turn->Done({kMs, kMs});  // it is done already
  EXPECT_EQ(simulation.scheduler.BusyNs(first), 4 * kMs);
  EXPECT_EQ(simulation.scheduler.BusyNs(second), 7 * kMs);
  // One that never ran.
  turn = simulation.scheduler.Ask(both->flow, both->devices, kMs, {});
  turn.reset();
  EXPECT_EQ(simulation.scheduler.BusyNs(second), 7 * kMs);
}

}  // namespace
}  // namespace tensord
