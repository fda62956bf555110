// The spiller with holders of the test's own: who goes, who waits, who is refused.
#include "server/session/spiller.h"

#include <absl/algorithm/container.h>
#include <absl/synchronization/mutex.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/device/device.h"
#include "core/ir/dtype.h"
#include "core/runtime/runtime.h"
#include "server/memory/memory_ledger.h"
#include "server/memory/spill_store.h"
#include "server/session/fake_runtime.h"
#include "server/session/objects.h"

namespace tensord {
namespace {

constexpr uint64_t kUnit = 64 << 10;

// A session of named tensors of whole units. What it does to them is in a log.
class Owner final : public Spiller::Holder {
 public:
  Owner(MemoryLedger& ledger, Device& device, std::string name, std::vector<std::string>& log)
      : account_(ledger, name, "", uint64_t{1} << 40),
        device_(device),
        name_(std::move(name)),
        log_(log) {}

  void Add(const std::string& name, uint64_t units, int used) {
    auto tensor = std::make_shared<Tensor>();
    tensor->state = ObjectState::kValue;
    tensor->buffer = std::make_shared<Buffer>();
    tensor->buffer->memory = *device_.allocator().Allocate(units * kUnit);
    tensor->device = &device_;
    tensor->bytes = units * kUnit;
    tensor->used = absl::UnixEpoch() + absl::Seconds(used);
    account_.Take(&device_, tensor->bytes);
    absl::MutexLock lock(&mu_);
    tensors_[name] = std::move(tensor);
  }
  std::shared_ptr<Tensor> Find(const std::string& name) {
    absl::MutexLock lock(&mu_);
    return tensors_.at(name);
  }
  void Set(bool idle, bool runs = false, bool read = false) {
    absl::MutexLock lock(&mu_);
    idle_ = idle;
    runs_ = runs;
    read_ = read;
  }
  void Stop() {
    absl::MutexLock lock(&mu_);
    wanted_ = false;
  }
  // Of its oldest request that has one: "granted", or why it was refused.
  std::string Answer() {
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(
        +[](std::vector<std::string>* answers) { return !answers->empty(); }, &answers_));
    const std::string answer = answers_.front();
    answers_.erase(answers_.begin());
    return answer;
  }
  bool Answered() {
    absl::MutexLock lock(&mu_);
    return !answers_.empty();
  }
  void Drop() {
    std::vector<Spiller::Grant> grants;
    absl::MutexLock lock(&mu_);
    grants.swap(grants_);
  }
  Spiller::Moved moved() {
    absl::MutexLock lock(&mu_);
    return moved_;
  }

  std::optional<std::vector<Spiller::Operand>> FindOperands(
      const Spiller::Request& request) override {
    absl::MutexLock lock(&mu_);
    if (!wanted_) return std::nullopt;
    std::vector<Spiller::Operand> operands;
    for (const auto& tensor : request.tensors) {
      operands.push_back({.tensor = tensor,
                          .device = &device_,
                          .bytes = tensor->bytes,
                          .spilled = tensor->state == ObjectState::kSpilled});
    }
    return operands;
  }
  void Look(absl::Span<Device* const> /*devices*/, const Spiller::Request* request,
            Spiller::Survey& survey) override {
    absl::MutexLock lock(&mu_);
    for (const auto& [name, tensor] : tensors_) {
      if (tensor->state != ObjectState::kValue) continue;
      if (request != nullptr && absl::c_linear_search(request->tensors, tensor)) continue;
      survey.movable.emplace_back(&device_, tensor->bytes);
      if (read_) survey.by_clients.emplace_back(&device_, tensor->bytes);
      if (runs_ || read_) continue;
      survey.victims.push_back({.holder = self.lock(),
                                .tensor = tensor,
                                .device = &device_,
                                .bytes = tensor->bytes,
                                .idle = idle_,
                                .used = tensor->used});
    }
    survey.runs |= runs_;
  }
  absl::StatusOr<uint64_t> Spill(const std::shared_ptr<Tensor>& tensor,
                                 SpillStore& store) override {
    TD_ASSIGN_OR_RETURN(auto bytes, store.Put(std::string(tensor->bytes, 'x')));
    absl::MutexLock lock(&mu_);
    tensor->buffer = nullptr;
    tensor->state = ObjectState::kSpilled;
    tensor->spilled = std::make_shared<const SpilledValue>(
        SpilledValue{.dtype = DType::kUint8, .shape = {}, .bytes = std::move(bytes)});
    account_.Move(&device_, nullptr, tensor->bytes);
    for (const auto& [name, each] : tensors_) {
      if (each == tensor) log_.push_back(name_ + "." + name);
    }
    return tensor->bytes;
  }
  uint64_t Restore(const std::shared_ptr<Tensor>& tensor,
                   std::shared_ptr<DeviceMemory> memory) override {
    absl::MutexLock lock(&mu_);
    tensor->spilled = nullptr;
    tensor->buffer = std::make_shared<Buffer>();
    tensor->buffer->memory = std::move(memory);
    tensor->state = ObjectState::kValue;
    account_.Move(nullptr, &device_, tensor->bytes);
    return tensor->bytes;
  }
  void Granted(const Spiller::Request& /*request*/, Spiller::Grant grant) override {
    absl::MutexLock lock(&mu_);
    grants_.push_back(std::move(grant));
    answers_.push_back("granted");
  }
  void Refused(const Spiller::Request& /*request*/, const absl::Status& status) override {
    absl::MutexLock lock(&mu_);
    answers_.push_back(status.ToString());
  }
  void Bill(const Spiller::Moved& moved) override {
    absl::MutexLock lock(&mu_);
    moved_.spilled += moved.spilled;
    moved_.restored += moved.restored;
  }
  void Poke() override {}

  std::weak_ptr<Owner> self;

 private:
  MemoryLedger::Account account_;
  Device& device_;
  const std::string name_;
  std::vector<std::string>& log_;  // of the spiller's thread; read when it has answered
  absl::Mutex mu_;
  std::map<std::string, std::shared_ptr<Tensor>> tensors_;
  bool idle_ = true, runs_ = false, read_ = false, wanted_ = true;
  std::vector<std::string> answers_;
  std::vector<Spiller::Grant> grants_;
  Spiller::Moved moved_;
};

class SpillerTest : public testing::Test {
 protected:
  SpillerTest() { device().SetCapacity(8 * kUnit); }
  ~SpillerTest() override { spiller_.Stop(); }

  FakeDevice& device() { return runtime_.device(); }
  std::shared_ptr<Owner> Open(const std::string& name) {
    auto owner = std::make_shared<Owner>(ledger_, device(), name, log_);
    owner->self = owner;
    spiller_.Join(owner);
    return owner;
  }
  void Ask(const std::shared_ptr<Owner>& owner, std::vector<std::string> tensors,
           std::vector<uint64_t> units) {
    Spiller::Request request{.command = 1, .tensors = {}, .needs = {}};
    for (const std::string& name : tensors) request.tensors.push_back(owner->Find(name));
    for (const uint64_t each : units) request.needs.emplace_back(&device(), each * kUnit);
    spiller_.Ask(owner, std::move(request));
  }

  FakeRuntime runtime_;
  MemoryLedger ledger_{uint64_t{1} << 40};
  std::unique_ptr<SpillStore> store_ = *SpillStore::Create({.host_bytes = 16 * kUnit});
  std::vector<std::string> log_;
  Spiller spiller_{*store_, ledger_};
};

TEST_F(SpillerTest, IdleSessionsGoFirstThenOthersThenOneself) {
  const auto idle = Open("idle"), busy = Open("busy"), self = Open("self");
  busy->Set(/*idle=*/false);
  self->Set(/*idle=*/false);
  self->Add("operand", 1, 1);
  self->Add("old", 1, 2);
  busy->Add("new", 1, 9);
  busy->Add("old", 1, 3);
  idle->Add("new", 1, 10);
  idle->Add("old", 1, 5);
  Ask(self, {"operand"}, {1, 1});  // is free
  EXPECT_EQ(self->Answer(), "granted");
  EXPECT_TRUE(log_.empty());
  self->Drop();
  Ask(self, {"operand"}, {2, 5});
  EXPECT_EQ(self->Answer(), "granted");
  EXPECT_EQ(log_,
            (std::vector<std::string>{"idle.old", "idle.new", "busy.old", "busy.new", "self.old"}));
  EXPECT_EQ(device().allocator().stats().in_use_bytes, 8 * kUnit);  // what was set aside
  self->Drop();
  EXPECT_EQ(device().allocator().stats().in_use_bytes, kUnit);
  EXPECT_EQ(ledger_.OfDevice(nullptr).bytes, 5 * kUnit);
  EXPECT_EQ(self->moved().spilled, 5 * kUnit);  // and not those who had them
  EXPECT_EQ(idle->moved().spilled, 0u);
}

TEST_F(SpillerTest, AllOperandsComeBackTogether) {
  const auto first = Open("first"), second = Open("second");
  first->Add("a", 3, 1);
  first->Add("b", 3, 2);
  Ask(second, {}, {8});
  EXPECT_EQ(second->Answer(), "granted");
  // Nobody may go while that is set aside.
  Ask(first, {"a", "b"}, {2});
  EXPECT_EQ(first->Find("a")->buffer, nullptr);
  EXPECT_FALSE(first->Answered());
  second->Drop();
  EXPECT_EQ(first->Answer(), "granted");
  EXPECT_NE(first->Find("a")->buffer, nullptr);
  EXPECT_NE(first->Find("b")->buffer, nullptr);
  EXPECT_EQ(first->moved().restored, 6 * kUnit);
  EXPECT_EQ(store_->stats().host_bytes, 0u);
}

TEST_F(SpillerTest, WhatNeedsMoreThanTheDeviceHasIsRefusedAtOnce) {
  const auto self = Open("self"), other = Open("other");
  other->Add("a", 4, 1);
  self->Add("operand", 4, 1);
  Ask(self, {"operand"}, {5});
  const std::string answer = self->Answer();
  EXPECT_NE(answer.find("589824 bytes are needed at once"), std::string::npos) << answer;
  EXPECT_TRUE(log_.empty());  // nobody goes in vain
}

TEST_F(SpillerTest, WhatTheStoreDoesNotTakeIsRefusedWithItsLimits) {
  const auto self = Open("self"), other = Open("other");
  std::vector<std::shared_ptr<Owner>> owners;
  for (int i = 0; i < 3; ++i) {
    owners.push_back(Open("other"));
    owners.back()->Add("a", 6, i);
    Ask(self, {}, {8});
    const std::string answer = self->Answer();
    if (i < 2) {
      EXPECT_EQ(answer, "granted");
      self->Drop();
    } else {
      EXPECT_NE(answer.find("--spill-host-bytes allows 1048576, of which 786432 are taken"),
                std::string::npos)
          << answer;
    }
  }
  EXPECT_NE(owners[2]->Find("a")->buffer, nullptr);
}

TEST_F(SpillerTest, RunsAreWaitedForAndNobodyPassesBy) {
  const auto busy = Open("busy"), first = Open("first"), second = Open("second");
  busy->Add("a", 6, 1);
  busy->Set(/*idle=*/false, /*runs=*/true);
  Ask(first, {}, {8});
  // Until it has waited for long enough that new runs are to ask as well.
  Device* const devices[] = {&device()};
  while (!spiller_.Closed(devices)) spiller_.Wake();
  Ask(second, {}, {1});
  spiller_.Wake();
  EXPECT_FALSE(first->Answered());
  busy->Set(/*idle=*/true);
  EXPECT_EQ(first->Answer(), "granted");
  EXPECT_FALSE(second->Answered());
  first->Drop();
  EXPECT_EQ(second->Answer(), "granted");
  while (spiller_.Closed(devices)) spiller_.Wake();
}

TEST_F(SpillerTest, WhoIsHeldUpByAClientIsPassedBy) {
  const auto reader = Open("reader"), first = Open("first"), second = Open("second");
  reader->Add("a", 6, 1);
  reader->Set(/*idle=*/true, /*runs=*/false, /*read=*/true);
  Ask(first, {}, {8});
  Ask(second, {}, {2});
  EXPECT_EQ(second->Answer(), "granted");
  EXPECT_FALSE(first->Answered());
  second->Drop();
  reader->Set(/*idle=*/true);
  EXPECT_EQ(first->Answer(), "granted");
}

TEST_F(SpillerTest, RequestsOfSessionsThatEndVanish) {
  const auto busy = Open("busy"), other = Open("other");
  auto first = Open("first");
  const auto second = Open("second");
  busy->Add("a", 6, 1);
  busy->Set(/*idle=*/false, /*runs=*/true);
  Ask(first, {}, {8});
  Ask(second, {}, {8});
  Ask(other, {}, {2});
  first = nullptr;
  second->Stop();
  EXPECT_EQ(other->Answer(), "granted");
  while (spiller_.stats().waiting > 0) {
  }
}

}  // namespace
}  // namespace tensord
