#include "core/runtime/executable.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/status.h"

namespace tensord {

// What one run needs until it is done.
struct CompiledExecutable::RunState {
  struct OfDevice {
    std::vector<KernelArgs> args;  // by step
    std::shared_ptr<DeviceMemory> scratch;
    RunTimes times;
    StepTimes steps;  // without times unless they are asked for
    // Counts the points at which the devices meet, as this one comes to them.
    Signal meets;
    uint64_t met = 0;  // while commands are recorded: the points so far
  };
  explicit RunState(size_t count) : devices(count) {}

  std::shared_ptr<const Executable> executable;
  std::vector<OfDevice> devices;
  std::vector<BufferRef> inputs, outputs;  // by device, then by number
};

namespace {

std::string Text(absl::Span<const int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace

std::vector<std::string> CompiledExecutable::kernel_names() const { return step_names_; }

absl::Status CompiledExecutable::Check(
    absl::Span<const BufferRef> inputs,
    const absl::flat_hash_map<std::string, int64_t>& variables) const {
  const size_t count = inputs_.size();
  if (inputs.size() != count * devices_.size()) {
    return InvalidArgument("program '{}': {} inputs given, takes {}", name_, inputs.size(),
                           count * devices_.size());
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Buffer& buffer = *inputs[i];
    const TensorType& type = inputs_[i % count];
    const Device* device = devices_[i / count];
    if (buffer.dtype != type.dtype || buffer.shape != type.shape) {
      return InvalidArgument("program '{}': input {} is {} {}, takes {} {}", name_, i,
                             Name(buffer.dtype), Text(buffer.shape), Name(type.dtype),
                             Text(type.shape));
    }
    if (&buffer.memory->device() != device) {
      return InvalidArgument("program '{}': input {} is on {}, the program on {}; copy it first",
                             name_, i, buffer.memory->device().name(), device->name());
    }
  }
  for (int output : schedule_.outputs) {
    if (schedule_.buffers[output].kind != Schedule::Kind::kInput) continue;
    for (size_t at = output; at < inputs.size(); at += count) {
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (i != at && inputs[at]->memory->size() > 0 && inputs[i]->memory == inputs[at]->memory) {
          return InvalidArgument("program '{}': input {} is overwritten and is input {} as well",
                                 name_, at, i);
        }
      }
    }
  }
  for (const Variable& variable : variables_) {
    if (variable.name == kDeviceIndex) continue;
    auto found = variables.find(variable.name);
    if (found == variables.end()) {
      return InvalidArgument("program '{}': variable '{}' has no value", name_, variable.name);
    }
    if (found->second < variable.min || found->second > variable.max) {
      return InvalidArgument("program '{}': variable '{}' is {}, outside of [{}, {}]", name_,
                             variable.name, found->second, variable.min, variable.max);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<DeviceMemory>> CompiledExecutable::Scratch(
    size_t device, DeviceState& shared) const {
  absl::MutexLock lock(&shared.mu);
  std::shared_ptr<DeviceMemory> scratch = shared.scratch.lock();
  if (scratch != nullptr && scratch->size() >= schedule_.scratch_bytes) return scratch;
  TD_ASSIGN_OR_RETURN(scratch, devices_[device]->allocator().Allocate(schedule_.scratch_bytes));
  shared.scratch = scratch;
  return scratch;
}

absl::Status CompiledExecutable::Allocate(absl::Span<DeviceState* const> shared,
                                          RunState& run) const {
  for (size_t d = 0; d < devices_.size(); ++d) {
    if (schedule_.scratch_bytes > 0) {
      TD_ASSIGN_OR_RETURN(run.devices[d].scratch, Scratch(d, *shared[d]), "program '{}': scratch",
                          name_);
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const int at = schedule_.outputs[i];
      auto buffer = std::make_shared<Buffer>(Buffer{outputs_[i].dtype, outputs_[i].shape, nullptr});
      if (schedule_.buffers[at].kind == Schedule::Kind::kInput) {
        buffer->memory = run.inputs[d * inputs_.size() + at]->memory;
      } else {
        TD_ASSIGN_OR_RETURN(buffer->memory,
                            devices_[d]->allocator().Allocate(schedule_.buffers[at].bytes()),
                            "program '{}': output {}", name_, i);
      }
      run.outputs.push_back(std::move(buffer));
    }
  }
  return absl::OkStatus();
}

void* CompiledExecutable::AddressOf(const RunState& run, size_t device, int index) const {
  const Schedule::Buffer& buffer = schedule_.buffers[index];
  switch (buffer.kind) {
    case Schedule::Kind::kInput:
      return run.inputs[device * inputs_.size() + buffer.index]->memory->address();
    case Schedule::Kind::kOutput:
      return run.outputs[device * outputs_.size() + buffer.index]->memory->address();
    case Schedule::Kind::kTemporary:
      return static_cast<std::byte*>(run.devices[device].scratch->address()) + buffer.offset;
  }
  return nullptr;
}

void CompiledExecutable::Record(size_t begin, size_t end, RunState& run, size_t device,
                                CommandList& list, RunTimes* times) const {
  const auto address = [&](int buffer) { return AddressOf(run, device, buffer); };
  for (size_t i = begin; i < end; ++i) {
    const Schedule::Step& step = schedule_.steps[i];
    if (times != nullptr) list.Timestamp(&times->begin);
    if (step.kernel == Schedule::Step::kCopy) {
      list.Copy(address(step.buffers[0]), address(step.buffers[1]),
                schedule_.buffers[step.buffers[0]].bytes());
    } else if (step.kernel == Schedule::Step::kLoop) {
      auto body = std::make_shared<CommandList>();
      // Its steps run many times: they have no one time to note.
      Record(i + 1, i + 1 + step.body, run, device, *body, nullptr);
      list.Loop(address(step.buffers[0]), static_cast<uint64_t>(step.most), std::move(body));
      i += step.body;
    } else if (step.kernel == Schedule::Step::kExchange) {
      RecordExchanges(i, run, device, list);
      i = EndOfExchanges(i) - 1;
    } else {
      const LaunchKernel& kernel = kernels_[step.kernel];
      list.Exec(kernel.loaded[device].get(), &run.devices[device].args[i], kernel.grid);
    }
    if (times != nullptr) list.Timestamp(&(times++)->end);
  }
}

void CompiledExecutable::NameTimedSteps(absl::Span<const Plan::Kernel> kernels) {
  std::vector<std::string> names;
  std::vector<std::vector<std::string>> keys;
  for (size_t i = 0; i < schedule_.steps.size(); ++i) {
    const Schedule::Step& step = schedule_.steps[i];
    std::vector<std::string>& own = keys.emplace_back();
    for (size_t j = i; j <= i + static_cast<size_t>(step.body); ++j) {
      const int kernel = schedule_.steps[j].kernel;
      if (kernel >= 0) own.push_back(kernels_[kernel].key);
    }
    if (step.kernel == Schedule::Step::kCopy) {
      names.emplace_back("copy");
    } else if (step.kernel == Schedule::Step::kLoop) {
      names.emplace_back("loop");
      i += step.body;
    } else if (step.kernel == Schedule::Step::kExchange) {
      names.emplace_back("exchange");
      i = EndOfExchanges(i) - 1;
    } else {
      names.push_back(kernels[step.kernel].name);
    }
  }
  timed_names_ = std::make_shared<const std::vector<std::string>>(std::move(names));
  timed_kernels_ = std::make_shared<const std::vector<std::vector<std::string>>>(std::move(keys));
}

size_t CompiledExecutable::EndOfExchanges(size_t begin) const {
  const auto joins = [](const Schedule::Step& step) {
    return step.kernel == Schedule::Step::kExchange && !step.meets;
  };
  size_t end = begin + 1;
  while (end < schedule_.steps.size() && joins(schedule_.steps[end])) ++end;
  return end;
}

void CompiledExecutable::RecordExchanges(size_t begin, RunState& run, size_t device,
                                         CommandList& list) const {
  const size_t count = devices_.size();
  const auto meet = [&] {
    const uint64_t point = ++run.devices[device].met;
    list.Signal(&run.devices[device].meets, point);
    for (size_t other = 0; other < count; ++other) {
      if (other != device) list.Wait(&run.devices[other].meets, point);
    }
  };
  meet();  // what is read has been computed
  const size_t end = EndOfExchanges(begin);
  for (size_t i = begin; i < end; ++i) {
    const Schedule::Step& step = schedule_.steps[i];
    const uint64_t bytes = schedule_.buffers[step.buffers[0]].bytes();
    if (bytes == 0) continue;
    auto* to = static_cast<std::byte*>(AddressOf(run, device, step.buffers[0]));
    const auto from = [&](size_t other) {
      return static_cast<const std::byte*>(AddressOf(run, other, step.buffers[1]));
    };
    const uint64_t part = bytes / count;
    switch (step.exchange) {
      case ExchangeKind::kGather:
      case ExchangeKind::kSwap:
        // Each begins with its neighbour, so that not all read from one device at once.
        for (size_t k = 1; k <= count; ++k) {
          const size_t other = (device + k) % count;
          const size_t row = step.exchange == ExchangeKind::kSwap ? device : 0;
          list.Copy(to + other * part, from(other) + row * part, part);
        }
        break;
      case ExchangeKind::kShift:
        list.Copy(to, from((device + count - static_cast<size_t>(step.shift)) % count), bytes);
        break;
    }
  }
  meet();  // and is overwritten by nobody before all have read it
}

absl::StatusOr<Run> CompiledExecutable::Launch(
    std::shared_ptr<const Executable> self, absl::Span<DeviceState* const> shared,
    absl::Span<const BufferRef> inputs, const absl::flat_hash_map<std::string, int64_t>& variables,
    const SubmitOptions& options) const {
  TD_RETURN_IF_ERROR(Check(inputs, variables));
  const size_t count = devices_.size();
  auto state = std::make_shared<RunState>(count);
  state->executable = std::move(self);
  state->inputs.assign(inputs.begin(), inputs.end());
  TD_RETURN_IF_ERROR(Allocate(shared, *state));

  std::vector<CommandList> lists(count);
  for (size_t d = 0; d < count; ++d) {
    std::vector<KernelArgs>& all = state->devices[d].args;
    all.resize(schedule_.steps.size());
    for (size_t i = 0; i < schedule_.steps.size(); ++i) {
      const Schedule::Step& step = schedule_.steps[i];
      if (step.kernel < 0) continue;
      KernelArgs& args = all[i];
      args.buffers.reserve(step.buffers.size());
      for (int buffer : step.buffers) args.buffers.push_back(AddressOf(*state, d, buffer));
      for (const std::string& variable : kernels_[step.kernel].variables) {
        args.variables.push_back(variable == kDeviceIndex ? static_cast<int64_t>(d)
                                                          : variables.at(variable));
      }
    }
  }

  // Runs that share devices come to each of them in one order, or they would wait for each other.
  std::vector<DeviceState*> locked(shared.begin(), shared.end());
  std::ranges::sort(locked);
  std::vector<std::unique_ptr<absl::MutexLock>> locks;
  for (DeviceState* each : locked) {
    locks.push_back(std::make_unique<absl::MutexLock>(&each->submitting));
  }
  Run run;
  for (size_t d = 0; d < count; ++d) {
    Timeline& timeline = devices_[d]->timeline();
    RunTimes& times = state->devices[d].times;
    CommandList& list = lists[d];
    StepTimes& steps = state->devices[d].steps;
    if (options.time_steps) {
      steps.names = timed_names_;
      steps.kernels = timed_kernels_;
      steps.times = std::make_unique<RunTimes[]>(timed_names_->size());
    }
    list.Keep(state);
    const uint64_t done = timeline.Reserve();
    list.Wait(timeline.signal(), done - 1);
    list.Timestamp(&times.begin);
    Record(0, schedule_.steps.size(), *state, d, list, steps.times.get());
    list.Timestamp(&times.end);
    list.Signal(timeline.signal(), done);
    for (size_t i = 0; i < outputs_.size(); ++i) {
      state->outputs[d * outputs_.size() + i]->ready = done;
    }
    if (const absl::Status status = devices_[d]->Submit(std::move(list)); !status.ok()) {
      if (d == 0) return Annotate(status, "program '{}'", name_);
      // Those that have it already do not wait for the others; what they compute is lost.
      for (size_t other = d; other < count; ++other) {
        state->devices[other].meets.value.store(std::numeric_limits<uint64_t>::max(),
                                                std::memory_order_release);
      }
      return Internal("program '{}': {} took it, and {} did not: {}", name_, devices_[0]->name(),
                      devices_[d]->name(), Message(status));
    }
    if (d == 0) {
      run.done = done;
    } else {
      run.done_on_others.emplace_back(devices_[d], done);
    }
  }
  run.outputs = state->outputs;
  run.kernels = num_kernels() * static_cast<int>(count);
  run.times_by_device.reserve(count);
  for (size_t d = 0; d < count; ++d) {
    run.times_by_device.emplace_back(
        devices_[d], std::shared_ptr<const RunTimes>(state, &state->devices[d].times));
    if (options.time_steps) {
      run.steps_by_device.push_back(
          std::shared_ptr<const StepTimes>(state, &state->devices[d].steps));
    }
  }
  run.times = run.times_by_device[0].second;
  return run;
}

}  // namespace tensord
