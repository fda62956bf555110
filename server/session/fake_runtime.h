// A runtime and a device for tests of the daemon, under the test's control: nothing is compiled, a
// run adds up, and both compilations and the device can be held.
//
// Each output of a run is, element by element as float32, the sum of the inputs that have as many
// elements, plus the sum of the variables. Thread-safe.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/strings/match.h>
#include <absl/synchronization/mutex.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/runtime/runtime.h"

namespace tensord {

class FakeTimeline final : public Timeline {
 public:
  tensord::Signal* signal() override { return &signal_; }
  uint64_t Reserve() override {
    absl::MutexLock lock(&mu_);
    return ++reserved_;
  }
  uint64_t last_reserved() const override {
    absl::MutexLock lock(&mu_);
    return reserved_;
  }
  bool Reached(uint64_t value) const override {
    return signal_.value.load(std::memory_order_acquire) >= value;
  }
  absl::Status Wait(uint64_t value, absl::Time deadline) override {
    absl::MutexLock lock(&mu_);
    const auto reached = [this, value] { return Reached(value); };
    return mu_.AwaitWithDeadline(absl::Condition(&reached), deadline)
               ? absl::OkStatus()
               : DeadlineExceeded("value {} was not reached", value);
  }
  void OnReached(uint64_t value, std::function<void(absl::Status)> done) override {
    {
      absl::MutexLock lock(&mu_);
      if (!Reached(value)) {
        waiters_.push_back({value, std::move(done)});
        return;
      }
    }
    done(absl::OkStatus());
  }

  void Reach(uint64_t value, const absl::Status& status) {
    std::vector<std::function<void(absl::Status)>> ready;
    {
      absl::MutexLock lock(&mu_);
      signal_.value.store(value, std::memory_order_release);
      for (auto it = waiters_.begin(); it != waiters_.end();) {
        if (it->first > value) {
          ++it;
          continue;
        }
        ready.push_back(std::move(it->second));
        it = waiters_.erase(it);
      }
    }
    for (auto& done : ready) done(status);
  }

 private:
  mutable absl::Mutex mu_;
  tensord::Signal signal_;
  uint64_t reserved_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<std::pair<uint64_t, std::function<void(absl::Status)>>> waiters_ ABSL_GUARDED_BY(mu_);
};

class FakeDevice final : public Device, private Allocator {
 public:
  explicit FakeDevice(std::string name) : name_(std::move(name)) { target_.arch = "fake"; }

  const std::string& name() const override { return name_; }
  const Target& target() const override { return target_; }
  Allocator& allocator() override { return *this; }
  Timeline& timeline() override { return timeline_; }
  absl::StatusOr<std::unique_ptr<LoadedKernel>> Load(const std::string&,
                                                     const std::string&) override {
    return Unimplemented("the fake has no kernels");
  }
  absl::Status Submit(CommandList) override { return Unimplemented("the fake has no commands"); }
  Progress progress() override {
    absl::MutexLock lock(&mu_);
    ++looks_;
    if (busy_) ++steps_;
    return {.steps = steps_};
  }
  // From look to look it has begun or ended a launch.
  void SetBusy(bool busy) {
    absl::MutexLock lock(&mu_);
    busy_ = busy;
  }
  void AwaitLooks(uint64_t looks) {
    absl::MutexLock lock(&mu_);
    const auto looked = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return looks_ >= looks; };
    mu_.Await(absl::Condition(&looked));
  }
  // Once it is the oldest.
  void Abandon(uint64_t value, const absl::Status& why) override {
    {
      absl::MutexLock lock(&mu_);
      abandoned_.emplace(value, why);
    }
    const auto first = [this] {
      absl::MutexLock lock(&mu_);
      const auto found = work_.empty() ? abandoned_.end() : abandoned_.find(work_.front().first);
      return found == abandoned_.end() ? absl::OkStatus() : found->second;
    };
    for (absl::Status status = first(); !status.ok(); status = first()) Step(status);
  }

  // While held, runs pile up; Step does the oldest, Unhold all and whatever comes.
  void Hold() {
    absl::MutexLock lock(&mu_);
    held_ = true;
  }
  void Unhold() {
    {
      absl::MutexLock lock(&mu_);
      held_ = false;
    }
    while (Step()) {
    }
  }
  bool Step(const absl::Status& status = absl::OkStatus()) {
    absl::MutexLock step(&step_mu_);  // one run at a time, in order
    std::pair<uint64_t, std::function<void()>> work;
    {
      absl::MutexLock lock(&mu_);
      if (work_.empty()) return false;
      work = std::move(work_.front());
      work_.pop_front();
    }
    if (status.ok()) work.second();
    work.second = nullptr;  // lets go of the inputs
    timeline_.Reach(work.first, status);
    return true;
  }
  uint64_t Enqueue(std::function<void()> work) {
    bool held;
    uint64_t value;
    {
      absl::MutexLock lock(&mu_);
      value = timeline_.Reserve();
      work_.emplace_back(value, std::move(work));
      held = held_;
    }
    if (!held) Step();
    return value;
  }
  void SetCapacity(uint64_t bytes) {
    absl::MutexLock lock(&mu_);
    capacity_ = bytes;
  }
  void AwaitQueued(size_t runs) {
    absl::MutexLock lock(&mu_);
    const auto queued = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return work_.size() >= runs; };
    mu_.Await(absl::Condition(&queued));
  }
  void AwaitTrims(int trims) {
    absl::MutexLock lock(&mu_);
    const auto trimmed = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return trims_ >= trims; };
    mu_.Await(absl::Condition(&trimmed));
  }
  void AwaitInUse(uint64_t bytes) {
    absl::MutexLock lock(&mu_);
    const auto same = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return in_use_ == bytes; };
    mu_.Await(absl::Condition(&same));
  }

 private:
  class Memory final : public DeviceMemory {
   public:
    Memory(FakeDevice& device, size_t bytes)
        : device_(device), data_(std::max<size_t>(bytes, 1)), size_(bytes) {}
    ~Memory() override {
      absl::MutexLock lock(&device_.mu_);
      device_.in_use_ -= size_;
    }
    void* address() const override { return host_address(); }
    size_t size() const override { return size_; }
    void* host_address() const override { return const_cast<char*>(data_.data()); }
    Device& device() const override { return device_; }

   private:
    FakeDevice& device_;
    std::vector<char> data_;
    const size_t size_;
  };

  absl::StatusOr<std::shared_ptr<DeviceMemory>> Allocate(size_t bytes) override {
    {
      absl::MutexLock lock(&mu_);
      if (in_use_ + bytes > capacity_) {
        return ResourceExhausted("{} bytes asked for, {} are free", bytes, capacity_ - in_use_);
      }
      in_use_ += bytes;
    }
    return std::make_shared<Memory>(*this, bytes);
  }
  void Trim() override {
    absl::MutexLock lock(&mu_);
    ++trims_;
  }
  MemoryStats stats() const override {
    absl::MutexLock lock(&mu_);
    return {.capacity_bytes = capacity_,
            .in_use_bytes = in_use_,
            .cached_bytes = 0,
            .peak_in_use_bytes = in_use_,
            .allocations = 0};
  }

  const std::string name_;
  Target target_;
  FakeTimeline timeline_;
  absl::Mutex step_mu_;
  mutable absl::Mutex mu_;
  bool held_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t capacity_ ABSL_GUARDED_BY(mu_) = uint64_t{1} << 30;
  uint64_t in_use_ ABSL_GUARDED_BY(mu_) = 0;
  int trims_ ABSL_GUARDED_BY(mu_) = 0;
  bool busy_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t steps_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t looks_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<uint64_t, absl::Status> abandoned_ ABSL_GUARDED_BY(mu_);
  std::deque<std::pair<uint64_t, std::function<void()>>> work_ ABSL_GUARDED_BY(mu_);
};

class FakeRuntime final : public Runtime {
 public:
  absl::Span<Device* const> devices() const override { return pointers_; }
  absl::StatusOr<Device*> FindDevice(std::string_view name) const override {
    if (name.empty()) return pointers_[0];
    for (Device* device : pointers_) {
      if (device->name() == name) return device;
    }
    return NotFound("there is no device '{}'", name);
  }
  FakeDevice& device(int i = 0) { return i == 0 ? first_ : second_; }

  // A program whose name begins with "slow" is compiled only after this; one that begins with "bad"
  // is not compiled at all, and one that begins with "half" only if it has no fresh outputs.
  void ReleaseCompiles() {
    absl::MutexLock lock(&mu_);
    released_ = true;
  }
  void AwaitCompiling(int programs) {
    absl::MutexLock lock(&mu_);
    const auto waiting = [&]()
                             ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return compiling_ >= programs; };
    mu_.Await(absl::Condition(&waiting));
  }

  absl::StatusOr<std::shared_ptr<const Executable>> Prepare(const Program& program,
                                                            absl::Span<Device* const> devices,
                                                            CompileStats* stats) override {
    const bool is_fresh =
        std::any_of(program.outputs.begin(), program.outputs.end(),
                    [](const auto& output) { return output.overwrites == Program::kFresh; });
    if (absl::StartsWith(program.name, "bad") ||
        (is_fresh && absl::StartsWith(program.name, "half"))) {
      return Unimplemented("node 3 (Exp): the fake compiles no such program");
    }
    if (absl::StartsWith(program.name, "slow")) {
      absl::MutexLock lock(&mu_);
      ++compiling_;
      mu_.Await(absl::Condition(&released_));
    }
    auto fake = std::make_shared<FakeExecutable>();
    fake->program_name = program.name;
    fake->step_names = std::make_shared<std::vector<std::string>>(1, "kernel of " + program.name);
    fake->step_kernels = std::make_shared<std::vector<std::vector<std::string>>>(
        1, std::vector<std::string>(1, "key of " + program.name));
    fake->device = static_cast<FakeDevice*>(devices[0]);
    for (const Node* input : program.inputs) fake->inputs.push_back(TypeOf(input));
    for (const Program::Output& output : program.outputs) {
      fake->outputs.emplace_back(TypeOf(output.value), output.overwrites);
    }
    stats->kernels = 1;
    stats->kernels_compiled = 1;
    return fake;
  }

  using Runtime::Submit;
  absl::StatusOr<Run> Submit(const std::shared_ptr<const Executable>& executable,
                             absl::Span<const BufferRef> inputs,
                             const absl::flat_hash_map<std::string, int64_t>& variables,
                             const SubmitOptions& options) override {
    auto fake = std::static_pointer_cast<const FakeExecutable>(executable);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i]->dtype != fake->inputs[i].dtype || inputs[i]->shape != fake->inputs[i].shape) {
        return InvalidArgument("input {} has another dtype or shape", i);
      }
      if (&inputs[i]->memory->device() != fake->device) {
        return InvalidArgument("input {} is on another device", i);
      }
    }
    Run run;
    for (const auto& [type, overwrites] : fake->outputs) {
      if (overwrites != Program::kFresh) {
        run.outputs.push_back(inputs[overwrites]);
        continue;
      }
      auto buffer = std::make_shared<Buffer>();
      buffer->dtype = type.dtype;
      buffer->shape = type.shape;
      TD_ASSIGN_OR_RETURN(buffer->memory, fake->device->allocator().Allocate(
                                              NumElements(type.shape) * ItemSize(type.dtype)));
      run.outputs.push_back(std::move(buffer));
    }
    auto times = std::make_shared<RunTimes>();
    times->end.timestamp_ns = 1000;
    std::vector<BufferRef> from(inputs.begin(), inputs.end());
    float offset = 0;
    for (const auto& [name, value] : variables) offset += static_cast<float>(value);
    run.done = fake->device->Enqueue([from, to = run.outputs, offset] { Add(from, to, offset); });
    run.kernels = 1;
    run.times_by_device.emplace_back(fake->device, std::move(times));
    if (options.time_steps) {
      auto steps = std::make_shared<StepTimes>();
      steps->names = fake->step_names;
      steps->kernels = fake->step_kernels;
      steps->times = std::make_unique<RunTimes[]>(1);
      steps->times[0].end.timestamp_ns = 1000;
      run.steps_by_device.push_back(std::move(steps));
    }
    return run;
  }

  CacheStats cache_stats() const override {
    return {.plans = 1,
            .plan_hits = 2,
            .plan_misses = 3,
            .kernel_memory_hits = 4,
            .kernel_disk_hits = 5,
            .kernel_misses = 6,
            .disk_entries = cleared_ ? uint64_t{0} : uint64_t{7},
            .disk_bytes = cleared_ ? uint64_t{0} : uint64_t{8192},
            .disk_limit_bytes = 1 << 20,
            .disk_rejected = 9,
            .directory = "/cache"};
  }
  std::vector<CachedKernel> cached_kernels(size_t most) const override {
    std::vector<CachedKernel> kernels = {{"k1", "matmul", 4096}, {"k2", "<b>add</b>", 1024}};
    kernels.resize(std::min(most, kernels.size()));
    return kernels;
  }
  absl::StatusOr<std::string> KernelSource(std::string_view key) override {
    return fmt::format("source of {}\n", key);
  }
  absl::Status ClearCache() override {
    cleared_ = true;
    return absl::OkStatus();
  }

 private:
  struct Type {
    DType dtype;
    std::vector<int64_t> shape;
  };
  struct FakeExecutable final : public Executable {
    const std::string& name() const override { return program_name; }
    int num_kernels() const override { return 1; }
    uint64_t scratch_bytes() const override { return 0; }
    std::vector<std::string> kernel_names() const override { return {program_name}; }

    std::string program_name;
    std::shared_ptr<const std::vector<std::string>> step_names;
    std::shared_ptr<const std::vector<std::vector<std::string>>> step_kernels;
    FakeDevice* device;
    std::vector<Type> inputs;
    std::vector<std::pair<Type, int64_t>> outputs;
  };

  static Type TypeOf(const Node* node) {
    return {node->dtype, {node->shape.begin(), node->shape.end()}};
  }

  static void Add(const std::vector<BufferRef>& from, const std::vector<BufferRef>& to,
                  float offset) {
    for (const BufferRef& output : to) {
      const size_t count = output->memory->size() / sizeof(float);
      std::vector<float> sum(count, offset);
      for (const BufferRef& input : from) {
        if (input->memory->size() != output->memory->size()) continue;
        const auto* values = static_cast<const float*>(input->memory->host_address());
        for (size_t i = 0; i < count; ++i) sum[i] += values[i];
      }
      if (count > 0) std::memcpy(output->memory->host_address(), sum.data(), count * sizeof(float));
    }
  }

  FakeDevice first_{"FAKE:0"}, second_{"FAKE:1"};
  std::vector<Device*> pointers_{&first_, &second_};
  std::atomic<bool> cleared_{false};
  absl::Mutex mu_;
  bool released_ ABSL_GUARDED_BY(mu_) = false;
  int compiling_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tensord
