#include "core/runtime/executable.h"

#include "core/base/status.h"

namespace tensord {
namespace {

// What one run needs until it is done.
struct RunState {
  std::shared_ptr<const Executable> executable;
  std::vector<KernelArgs> args;  // by step
  std::shared_ptr<DeviceMemory> scratch;
  std::vector<BufferRef> buffers;
  RunTimes times;
};

std::string Text(absl::Span<const int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace

std::vector<std::string> CompiledExecutable::kernel_names() const { return step_names_; }

absl::Status CompiledExecutable::Check(
    absl::Span<const BufferRef> inputs,
    const absl::flat_hash_map<std::string, int64_t>& variables) const {
  if (inputs.size() != inputs_.size()) {
    return InvalidArgument("program '{}': {} inputs given, takes {}", name_, inputs.size(),
                           inputs_.size());
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Buffer& buffer = *inputs[i];
    if (buffer.dtype != inputs_[i].dtype || buffer.shape != inputs_[i].shape) {
      return InvalidArgument("program '{}': input {} is {} {}, takes {} {}", name_, i,
                             Name(buffer.dtype), Text(buffer.shape), Name(inputs_[i].dtype),
                             Text(inputs_[i].shape));
    }
    if (&buffer.memory->device() != device_) {
      return InvalidArgument("program '{}': input {} is on {}, the program on {}; copy it first",
                             name_, i, buffer.memory->device().name(), device_->name());
    }
  }
  for (int output : schedule_.outputs) {
    if (schedule_.buffers[output].kind != Schedule::Kind::kInput) continue;
    const BufferRef& overwritten = inputs[output];
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (static_cast<int>(i) != output && overwritten->memory->size() > 0 &&
          inputs[i]->memory == overwritten->memory) {
        return InvalidArgument("program '{}': input {} is overwritten and is input {} as well",
                               name_, output, i);
      }
    }
  }
  for (const Variable& variable : variables_) {
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
    DeviceState& shared) const {
  absl::MutexLock lock(&shared.mu);
  std::shared_ptr<DeviceMemory> scratch = shared.scratch.lock();
  if (scratch != nullptr && scratch->size() >= schedule_.scratch_bytes) return scratch;
  TD_ASSIGN_OR_RETURN(scratch, device_->allocator().Allocate(schedule_.scratch_bytes));
  shared.scratch = scratch;
  return scratch;
}

template <typename Address>
void CompiledExecutable::Record(size_t begin, size_t end, absl::Span<const KernelArgs> args,
                                Address address, CommandList& list) const {
  for (size_t i = begin; i < end; ++i) {
    const Schedule::Step& step = schedule_.steps[i];
    if (step.kernel == Schedule::Step::kCopy) {
      list.Copy(address(step.buffers[0]), address(step.buffers[1]),
                schedule_.buffers[step.buffers[0]].bytes());
    } else if (step.kernel == Schedule::Step::kLoop) {
      auto body = std::make_shared<CommandList>();
      Record(i + 1, i + 1 + step.body, args, address, *body);
      list.Loop(address(step.buffers[0]), static_cast<uint64_t>(step.most), std::move(body));
      i += step.body;
    } else {
      const LaunchKernel& kernel = kernels_[step.kernel];
      list.Exec(kernel.loaded.get(), &args[i], kernel.grid);
    }
  }
}

absl::StatusOr<Run> CompiledExecutable::Launch(
    std::shared_ptr<const Executable> self, DeviceState& shared, absl::Span<const BufferRef> inputs,
    const absl::flat_hash_map<std::string, int64_t>& variables) const {
  TD_RETURN_IF_ERROR(Check(inputs, variables));
  auto state = std::make_shared<RunState>();
  state->executable = std::move(self);
  Allocator& allocator = device_->allocator();
  state->buffers.assign(inputs.begin(), inputs.end());
  if (schedule_.scratch_bytes > 0) {
    TD_ASSIGN_OR_RETURN(state->scratch, Scratch(shared), "program '{}': scratch", name_);
  }
  Run run;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const int at = schedule_.outputs[i];
    auto buffer = std::make_shared<Buffer>(Buffer{outputs_[i].dtype, outputs_[i].shape, nullptr});
    if (schedule_.buffers[at].kind == Schedule::Kind::kInput) {
      buffer->memory = inputs[at]->memory;
    } else {
      TD_ASSIGN_OR_RETURN(buffer->memory, allocator.Allocate(schedule_.buffers[at].bytes()),
                          "program '{}': output {}", name_, i);
    }
    run.outputs.push_back(buffer);
    state->buffers.push_back(std::move(buffer));
  }

  const auto address = [&](int index) -> void* {
    const Schedule::Buffer& buffer = schedule_.buffers[index];
    switch (buffer.kind) {
      case Schedule::Kind::kInput:
        return inputs[buffer.index]->memory->address();
      case Schedule::Kind::kOutput:
        return run.outputs[buffer.index]->memory->address();
      case Schedule::Kind::kTemporary:
        return static_cast<std::byte*>(state->scratch->address()) + buffer.offset;
    }
    return nullptr;
  };

  CommandList list;
  list.Keep(state);
  Timeline& timeline = device_->timeline();
  state->args.resize(schedule_.steps.size());
  for (size_t i = 0; i < schedule_.steps.size(); ++i) {
    const Schedule::Step& step = schedule_.steps[i];
    if (step.kernel < 0) continue;
    KernelArgs& args = state->args[i];
    args.buffers.reserve(step.buffers.size());
    for (int buffer : step.buffers) args.buffers.push_back(address(buffer));
    for (const std::string& variable : kernels_[step.kernel].variables) {
      args.variables.push_back(variables.at(variable));
    }
  }
  {
    absl::MutexLock lock(&shared.submitting);
    run.done = timeline.Reserve();
    list.Wait(timeline.signal(), run.done - 1);
    list.Timestamp(&state->times.begin);
    Record(0, schedule_.steps.size(), state->args, address, list);
    list.Timestamp(&state->times.end);
    list.Signal(timeline.signal(), run.done);
    for (const BufferRef& output : run.outputs) output->ready = run.done;
    TD_RETURN_IF_ERROR(device_->Submit(std::move(list)), "program '{}'", name_);
  }
  run.kernels = num_kernels();
  run.times = std::shared_ptr<const RunTimes>(state, &state->times);
  return run;
}

}  // namespace tensord
