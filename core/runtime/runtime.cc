#include "core/runtime/runtime.h"

#include <absl/base/thread_annotations.h>
#include <absl/container/inlined_vector.h>
#include <absl/synchronization/mutex.h>

#include <algorithm>
#include <list>
#include <thread>

#include "core/base/status.h"
#include "core/compile/compiler.h"
#include "core/compile/source.h"
#include "core/runtime/build_id.h"
#include "core/runtime/executable.h"
#include "core/runtime/plan_compiler.h"
#include "core/runtime/thread_pool.h"

namespace tensord {

// Plans that the cache keeps; the least recently used goes first.
constexpr size_t kMaxPlans = 1024;

class RuntimeImpl : public Runtime {
 public:
  RuntimeImpl(RuntimeOptions options, std::vector<std::unique_ptr<Device>> devices)
      : options_(std::move(options)),
        compiler_(options_.compiler != nullptr ? options_.compiler : CompileInProcess()),
        devices_(std::move(devices)),
        kernels_({.directory = options_.cache_dir, .disk_limit_bytes = options_.disk_cache_bytes}),
        other_build_(LastUsedByOtherBuild(kernels_.directory())),
        pool_("compile", options_.compile_threads > 0
                             ? options_.compile_threads
                             : static_cast<int>(std::thread::hardware_concurrency())) {
    for (const auto& device : devices_) {
      device_pointers_.push_back(device.get());
      shared_[device.get()] = std::make_unique<DeviceState>();
    }
  }

  ~RuntimeImpl() override {
    // Loaded kernels die before their device.
    absl::MutexLock lock(&mu_);
    plans_.clear();
  }

  absl::Span<Device* const> devices() const override { return device_pointers_; }

  absl::StatusOr<Device*> FindDevice(std::string_view name) const override {
    std::vector<std::string> names;
    for (Device* device : device_pointers_) {
      if (name.empty() || device->name() == name) return device;
      names.push_back(device->name());
    }
    return InvalidArgument("there is no device '{}'; there are {}", name, fmt::join(names, ", "));
  }

  using Runtime::Prepare;
  absl::StatusOr<std::shared_ptr<const Executable>> Prepare(const Program& program,
                                                            absl::Span<Device* const> devices,
                                                            CompileStats* stats) override {
    CompileStats unused;
    if (stats == nullptr) stats = &unused;
    *stats = {};
    TD_RETURN_IF_ERROR(CheckDevices(program, devices));
    std::string key;
    for (Device* device : devices) key += device->name() + '\0';
    key += StructuralKey(program);
    std::shared_ptr<CachedPlan> plan;
    bool mine = false;
    {
      absl::MutexLock lock(&mu_);
      auto found = plans_.find(key);
      if (found == plans_.end()) {
        found = plans_.emplace(key, std::make_shared<CachedPlan>()).first;
        uses_.push_front(key);
        found->second->use = uses_.begin();
        ++plan_misses_;
        mine = true;
        Evict();
      } else {
        uses_.splice(uses_.begin(), uses_, found->second->use);
        ++plan_hits_;
      }
      plan = found->second;
    }
    if (mine) {
      absl::StatusOr<std::shared_ptr<const Executable>> built = Build(program, devices, *stats);
      absl::MutexLock lock(&mu_);
      plan->result = built;
      plan->done = true;
      if (!built.ok()) Forget(key, plan);
      return built;
    }
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(&plan->done));
    stats->plan_cached = true;
    if (plan->result.ok()) stats->kernels = (*plan->result)->num_kernels();
    return plan->result;
  }

  using Runtime::Submit;
  absl::StatusOr<Run> Submit(const std::shared_ptr<const Executable>& executable,
                             absl::Span<const BufferRef> inputs,
                             const absl::flat_hash_map<std::string, int64_t>& variables,
                             const SubmitOptions& options) override {
    const auto& compiled = static_cast<const CompiledExecutable&>(*executable);
    absl::InlinedVector<DeviceState*, 4> shared;
    for (const Device* device : compiled.devices()) shared.push_back(shared_.at(device).get());
    return compiled.Launch(executable, shared, inputs, variables, options);
  }

  CacheStats cache_stats() const override {
    const KernelCache::Stats kernels = kernels_.stats();
    absl::MutexLock lock(&mu_);
    return {.plans = plans_.size(),
            .plan_hits = plan_hits_,
            .plan_misses = plan_misses_,
            .kernel_memory_hits = kernels.memory_hits,
            .kernel_disk_hits = kernels.disk_hits,
            .kernel_misses = kernels.misses,
            .disk_entries = kernels.disk.entries,
            .disk_bytes = kernels.disk.bytes,
            .disk_limit_bytes = options_.disk_cache_bytes,
            .disk_rejected = kernels.disk.rejected,
            .directory = kernels_.directory()};
  }

  std::vector<CachedKernel> cached_kernels(size_t most) const override {
    std::vector<CachedKernel> result;
    for (KernelCache::Listed& kernel : kernels_.List(most)) {
      result.push_back({kernel.key.Hex(), std::move(kernel.name), kernel.bytes});
    }
    return result;
  }

  absl::StatusOr<std::string> KernelSource(std::string_view key) override {
    const std::optional<KernelKey> parsed = KernelKey::FromHex(key);
    const KernelCache::KernelRef kernel = parsed ? kernels_.Peek(*parsed) : nullptr;
    if (kernel == nullptr) {
      return NotFound("kernel {} is not in the cache any more: see --cache-bytes", key);
    }
    return UnpackSource(kernel->source);
  }

  absl::Status ClearCache() override {
    kernels_.Clear();
    absl::MutexLock lock(&mu_);
    for (auto plan = plans_.begin(); plan != plans_.end();) {
      if (plan->second->done) {
        uses_.erase(plan->second->use);
        plans_.erase(plan++);
      } else {
        ++plan;
      }
    }
    return absl::OkStatus();
  }

 private:
  // An executable, or one that a thread is building while others wait.
  struct CachedPlan {
    bool done = false;
    absl::StatusOr<std::shared_ptr<const Executable>> result =
        absl::InternalError("the plan is being built");
    std::list<std::string>::iterator use;
  };

  void Evict() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    while (plans_.size() > kMaxPlans) {
      auto oldest = plans_.find(uses_.back());
      if (!oldest->second->done) return;
      uses_.pop_back();
      plans_.erase(oldest);
    }
  }

  void Forget(const std::string& key, const std::shared_ptr<CachedPlan>& plan)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    auto found = plans_.find(key);
    if (found == plans_.end() || found->second != plan) return;
    uses_.erase(plan->use);
    plans_.erase(found);
  }

  static absl::Status CheckDevices(const Program& program, absl::Span<Device* const> devices);
  absl::StatusOr<std::shared_ptr<const Executable>> Build(const Program& program,
                                                          absl::Span<Device* const> devices,
                                                          CompileStats& stats);
  absl::Status BuildKernel(PlanCompiler::Job& job, size_t number, absl::Span<Device* const> devices,
                           CompiledExecutable::LaunchKernel& result, CompileStats& stats);

  const RuntimeOptions options_;
  const std::shared_ptr<PlanCompiler> compiler_;
  const std::vector<std::unique_ptr<Device>> devices_;
  std::vector<Device*> device_pointers_;
  absl::flat_hash_map<const Device*, std::unique_ptr<DeviceState>> shared_;
  KernelCache kernels_;
  const bool other_build_;  // has filled the folder of kernels
  mutable absl::Mutex mu_;
  absl::flat_hash_map<std::string, std::shared_ptr<CachedPlan>> plans_ ABSL_GUARDED_BY(mu_);
  std::list<std::string> uses_ ABSL_GUARDED_BY(mu_);  // keys of plans_, latest first
  uint64_t plan_hits_ ABSL_GUARDED_BY(mu_) = 0, plan_misses_ ABSL_GUARDED_BY(mu_) = 0;
  ThreadPool pool_;  // last: its threads use the rest
};

absl::Status RuntimeImpl::CheckDevices(const Program& program, absl::Span<Device* const> devices) {
  if (static_cast<int64_t>(devices.size()) != program.devices) {
    return InvalidArgument("program '{}' is for {} devices, {} are given", program.name,
                           program.devices, devices.size());
  }
  for (size_t i = 1; i < devices.size(); ++i) {
    if (std::ranges::count(devices.first(i), devices[i]) > 0) {
      return InvalidArgument("program '{}': {} is given twice", program.name, devices[i]->name());
    }
    if (devices[i]->target().CacheKey() != devices[0]->target().CacheKey()) {
      return InvalidArgument("program '{}': {} and {} are devices of two kinds", program.name,
                             devices[0]->name(), devices[i]->name());
    }
  }
  return absl::OkStatus();
}

absl::Status RuntimeImpl::BuildKernel(PlanCompiler::Job& job, size_t number,
                                      absl::Span<Device* const> devices,
                                      CompiledExecutable::LaunchKernel& result,
                                      CompileStats& stats) {
  const Plan::Kernel& kernel = job.plan().kernels[number];
  const KernelKey key =
      KeyOf(BuildId() + kernel.name + '\0' + kernel.content, devices[0]->target());
  KernelCache::Outcome outcome;
  const auto compile = [&]() -> absl::StatusOr<CompiledKernel> {
    PlanCompiler::Times times;
    absl::StatusOr<CompiledKernel> compiled = job.Compile(number, &times);
    stats.lower += times.lower;
    stats.compile += times.compile;
    return compiled;
  };
  TD_ASSIGN_OR_RETURN(const KernelCache::KernelRef compiled,
                      kernels_.GetOrCompile(key, compile, &outcome), "kernel '{}'", kernel.name);
  for (Device* device : devices) {
    TD_ASSIGN_OR_RETURN(result.loaded.emplace_back(),
                        device->Load(compiled->binary, compiled->entry), "kernel '{}'",
                        kernel.name);
  }
  result.key = key.Hex();
  result.grid = compiled->grid;
  result.variables = kernel.variables;
  stats.kernels_compiled += outcome == KernelCache::Outcome::kCompiled;
  stats.kernel_disk_hits += outcome == KernelCache::Outcome::kDisk;
  stats.kernel_memory_hits +=
      outcome == KernelCache::Outcome::kMemory || outcome == KernelCache::Outcome::kJoined;
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Executable>> RuntimeImpl::Build(
    const Program& program, absl::Span<Device* const> devices, CompileStats& stats) {
  const absl::Time start = absl::Now();
  auto executable = std::make_shared<CompiledExecutable>();
  executable->name_ = program.name;
  executable->devices_.assign(devices.begin(), devices.end());
  TD_ASSIGN_OR_RETURN(const std::unique_ptr<PlanCompiler::Job> job,
                      compiler_->Begin(program, devices[0]->target()));
  const std::vector<Plan::Kernel>& kernels = job->plan().kernels;
  executable->schedule_ = std::move(job->plan().schedule);
  const Schedule& schedule = executable->schedule_;
  stats.schedule = absl::Now() - start;
  stats.kernels = executable->num_kernels();

  const size_t count = kernels.size();
  executable->kernels_.resize(count);
  std::vector<CompileStats> kernel_stats(count);
  std::vector<absl::Status> statuses(count);
  std::vector<std::function<void()>> tasks;
  for (size_t i = 0; i < count; ++i) {
    tasks.push_back([&, i] {
      statuses[i] = BuildKernel(*job, i, devices, executable->kernels_[i], kernel_stats[i]);
    });
  }
  pool_.RunAll(std::move(tasks));
  for (size_t i = 0; i < count; ++i) {
    TD_RETURN_IF_ERROR(statuses[i]);
    stats.kernels_compiled += kernel_stats[i].kernels_compiled;
    stats.kernel_disk_hits += kernel_stats[i].kernel_disk_hits;
    stats.kernel_memory_hits += kernel_stats[i].kernel_memory_hits;
    stats.lower += kernel_stats[i].lower;
    stats.compile += kernel_stats[i].compile;
  }

  stats.other_build = other_build_ && stats.kernels_compiled > 0;

  for (const Schedule::Step& step : schedule.steps) {
    if (step.kernel == Schedule::Step::kLoop) continue;
    executable->step_names_.push_back(step.kernel == Schedule::Step::kCopy ? "copy"
                                      : step.kernel == Schedule::Step::kExchange
                                          ? "exchange"
                                          : kernels[step.kernel].name);
  }
  executable->NameTimedSteps(kernels);
  const auto type = [](const Node* node) {
    return CompiledExecutable::TensorType{node->dtype, {node->shape.begin(), node->shape.end()}};
  };
  for (const Node* input : program.inputs) executable->inputs_.push_back(type(input));
  for (const Program::Output& output : program.outputs) {
    executable->outputs_.push_back(type(output.value));
  }
  for (const Node* variable : program.variables) {
    executable->variables_.push_back(
        {std::string(variable->text), variable->ints[0], variable->ints[1]});
  }
  return executable;
}

absl::StatusOr<std::unique_ptr<Runtime>> Runtime::Create(
    RuntimeOptions options, std::vector<std::unique_ptr<Device>> devices) {
  if (devices.empty()) return InvalidArgument("a runtime needs a device");
  return std::make_unique<RuntimeImpl>(std::move(options), std::move(devices));
}

}  // namespace tensord
