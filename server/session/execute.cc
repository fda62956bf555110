// Session: what each command does.
#include <absl/algorithm/container.h>
#include <absl/container/flat_hash_set.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>

#include "core/base/log.h"
#include "core/base/status.h"
#include "core/base/steady_clock.h"
#include "core/base/text.h"
#include "core/base/version.h"
#include "core/wire/status.h"
#include "server/session/session.h"
#include "server/session/updates.h"

namespace tensord {
namespace {

Signature SignatureOf(const Program& program) {
  Signature signature;
  for (int64_t device = 0; device < program.devices; ++device) {
    const auto before = static_cast<int64_t>(signature.num_inputs);
    signature.num_inputs += program.inputs.size();
    for (const Program::Output& output : program.outputs) {
      const uint64_t bytes = NumElements(output.value->shape) * ItemSize(output.value->dtype);
      const bool fresh = output.overwrites == Program::kFresh;
      signature.outputs.push_back(
          {.bytes = bytes, .overwrites = fresh ? Program::kFresh : before + output.overwrites});
    }
  }
  return signature;
}

// What a command asks for by fields that this build doesn't know must not be left undone silently:
// a client may send them only if the daemon offers the feature.
bool HasUnknownFields(const v1::Command& command) {
  const auto unknown = [](const google::protobuf::Message& message) {
    return !message.GetReflection()->GetUnknownFields(message).empty();
  };
  static const auto* const verbs = v1::Command::descriptor()->FindOneofByName("verb");
  const auto& reflection = *command.GetReflection();
  const auto* verb = reflection.GetOneofFieldDescriptor(command, verbs);
  return unknown(command) || (verb != nullptr && unknown(reflection.GetMessage(command, verb))) ||
         unknown(command.register_program().program());
}

}  // namespace

Session::Outcome Session::Execute(v1::Command& command) {
  const uint64_t sequence = command.sequence();
  bool accepted;
  {
    absl::MutexLock lock(&mu_);
    accepted = !accept_until_ || sequence <= *accept_until_;
  }
  if (accepted && !HasUnknownFields(command)) {
    switch (command.verb_case()) {
      case v1::Command::kUpload:
        return ExecuteUpload(sequence, command.upload());
      case v1::Command::kRegisterProgram:
        return ExecuteRegister(sequence, *command.mutable_register_program());
      case v1::Command::kRun:
        return ExecuteRun(sequence, *command.mutable_run());
      case v1::Command::kRelease:
        return ExecuteRelease(sequence, command.release());
      case v1::Command::kCopy:
        return ExecuteCopy(sequence, command.copy());
      case v1::Command::kAttach:
        return ExecuteAttach(sequence, command.attach());
      case v1::Command::VERB_NOT_SET:
        break;
    }
  }
  Handles results;
  if (command.has_upload()) results.push_back(command.upload().handle());
  if (command.has_register_program()) results.push_back(command.register_program().handle());
  if (command.has_copy()) results.push_back(command.copy().handle());
  if (command.has_attach()) results.push_back(command.attach().handle());
  results.insert(results.end(), command.run().outputs().begin(), command.run().outputs().end());
  const absl::Status status =
      accepted
          ? Unimplemented(
                "command {}: this daemon (tensord {}) doesn't know {}: the client uses what "
                "Welcome.features doesn't offer; upgrade the daemon",
                sequence, kVersion,
                command.verb_case() == v1::Command::VERB_NOT_SET ? "its verb" : "all of its fields")
          : Unavailable("command {}: the daemon is shutting down", sequence);
  absl::MutexLock lock(&mu_);
  Fail(sequence, results, status, /*refused=*/true);
  if (command.run().notify()) Complete(sequence, status, 0, 0);
  return Outcome::kDone;
}

Session::Outcome Session::Blocked(uint64_t sequence, v1::ExplainReply::Cause cause, int input) {
  if (obstacle_.sequence != sequence) obstacle_ = {.sequence = sequence, .since = absl::Now()};
  obstacle_.cause = cause;
  obstacle_.input = input;
  return cause == v1::ExplainReply::CAUSE_TURN ? Outcome::kAwaitsTurn : Outcome::kBlocked;
}

absl::StatusOr<std::vector<Device*>> Session::FindDevices(const v1::RegisterProgram& command) {
  std::vector<Device*> devices;
  if (command.devices().empty()) {
    TD_ASSIGN_OR_RETURN(devices.emplace_back(), engine_.runtime.FindDevice(command.device()));
    return devices;
  }
  if (command.devices_size() > kMaxDevices) {
    return ResourceExhausted("{} devices, more than the limit of {}", command.devices_size(),
                             kMaxDevices);
  }
  for (const std::string& name : command.devices()) {
    TD_ASSIGN_OR_RETURN(devices.emplace_back(), engine_.runtime.FindDevice(name));
  }
  return devices;
}

Session::Outcome Session::ExecuteRegister(uint64_t sequence, v1::RegisterProgram& command) {
  auto program = std::make_shared<LoadedProgram>();
  program->name = Prefix(command.program().name(), 200);  // it stands in every error
  absl::StatusOr<std::vector<Device*>> devices = FindDevices(command);
  {
    absl::MutexLock lock(&mu_);
    if (compiling_ >= limits().max_compiles) {
      return Blocked(sequence, v1::ExplainReply::CAUSE_COMPILES);
    }
    absl::Status status = programs_.CheckNew(command.handle());
    if (status.ok()) status = devices.status();
    if (!status.ok()) {
      Fail(sequence, {command.handle()}, Annotate(status, "register '{}'", program->name), true);
      return Outcome::kDone;
    }
    program->devices = *std::move(devices);
    program->sent_ns = queue_.front().sent_ns;
    program->received_ns = queue_.front().received_ns;
    programs_.Insert(command.handle(), program);
    ++compiling_;
  }
  auto message = std::make_shared<v1::Program>(std::move(*command.mutable_program()));
  engine_.compile_pool.Schedule([self = shared_from_this(), sequence, program, message] {
    self->Compile(
        sequence, program, [&] { return Decode(*message, self->limits().graph); }, message.get());
  });
  return Outcome::kDone;
}

std::optional<v1::ExplainReply::Miss> Session::Index(const v1::Program& message,
                                                     const Program& program,
                                                     absl::Span<Device* const> devices,
                                                     const CompileStats& stats) {
  const std::string& user = Owner();
  std::vector<std::string> names;
  for (const Device* device : devices) names.push_back(device->name());
  ProgramSketch sketch = SketchOf(message, program, names);
  std::optional<v1::ExplainReply::Miss> miss;
  if (!stats.plan_cached) {
    miss = engine_.programs.Explain(user, sketch);
    miss->set_kernels(static_cast<uint32_t>(stats.kernels));
    miss->set_compiled(static_cast<uint32_t>(stats.kernels_compiled));
    miss->set_text(fmt::format("{}; {} of {} kernels were compiled, {} were in memory, {} on disk",
                               miss->text(), stats.kernels_compiled, stats.kernels,
                               stats.kernel_memory_hits, stats.kernel_disk_hits));
  }
  // What was known of the user's programs before is forgotten with the daemon that knew them.
  if (miss && stats.other_build && miss->nearest().empty()) {
    miss->add_differs("compiler");
    miss->set_text(miss->text() + "; those on disk are of another build, and are not taken");
  }
  engine_.programs.Add(user, std::move(sketch));
  return miss;
}

void Session::Compile(uint64_t sequence, const std::shared_ptr<LoadedProgram>& program,
                      const std::function<absl::StatusOr<Program>()>& source,
                      const v1::Program* message) {
  {
    absl::MutexLock lock(&mu_);
    if (ended_) return;  // nobody waits for it any more
  }
  auto traced = std::make_shared<TracedProgram>();
  traced->name = program->name;
  traced->compile.begin_ns = SteadyNs();
  Signature signature;
  CompileStats stats;
  std::optional<v1::ExplainReply::Miss> miss;
  absl::StatusOr<std::shared_ptr<const Executable>> executable;
  std::shared_ptr<const Program> whole;
  {
    absl::StatusOr<Program> made = source();
    if (made.ok()) {
      signature = SignatureOf(*made);
      traced->hash = StructuralHash(*made);
      executable = engine_.runtime.Prepare(*made, program->devices, &stats);
      if (message != nullptr) miss = Index(*message, *made, program->devices, stats);
      if (HasUpdatesApart(*made)) whole = std::make_shared<const Program>(*std::move(made));
    } else {
      executable = made.status();
    }
  }
  traced->compile.end_ns = SteadyNs();
  traced->compile.plan_cached = stats.plan_cached;
  traced->compile.kernels_compiled = stats.kernels_compiled;
  traced->compile.kernel_memory_hits = stats.kernel_memory_hits;
  traced->compile.kernel_disk_hits = stats.kernel_disk_hits;
  {
    absl::MutexLock lock(&mu_);
    --compiling_;
    v1::CountersReply& c = counters_;
    c.set_kernels_compiled(c.kernels_compiled() + stats.kernels_compiled);
    c.set_kernel_memory_hits(c.kernel_memory_hits() + stats.kernel_memory_hits);
    c.set_kernel_disk_hits(c.kernel_disk_hits() + stats.kernel_disk_hits);
    c.set_schedule_ns(c.schedule_ns() + absl::ToInt64Nanoseconds(stats.schedule));
    c.set_compile_ns(c.compile_ns() + absl::ToInt64Nanoseconds(stats.lower + stats.compile));
    program->signature = std::move(signature);
    program->whole = std::move(whole);
    if (executable.ok()) {
      stats.plan_cached ? c.set_plan_hits(c.plan_hits() + 1)
                        : c.set_plan_misses(c.plan_misses() + 1);
      if (miss) misses_.push_back(*std::move(miss));
      if (misses_.size() > limits().max_misses) misses_.pop_front();
      program->state = ObjectState::kValue;
      program->executable = *std::move(executable);
    } else {
      program->state = ObjectState::kError;
      program->error = Annotate(executable.status(), "program '{}'", program->name);
      if (sequence != 0) Fail(sequence, {}, program->error, /*refused=*/true);
    }
    program->traced = std::move(traced);
    NoteCompile(sequence, *program);
  }
  Drain();
}

struct Session::RunPlan {
  std::shared_ptr<LoadedProgram> program;
  bool poisoned = false;  // the error comes with an operand and was told where it arose
  Tensors inputs;
  Tensors outputs;  // null where a fresh one is to be made
  absl::InlinedVector<BufferRef, 8> buffers;
  absl::InlinedVector<MemoryLedger::Need, 1> needs;  // of its fresh outputs, by device

  // What is allocated for it.
  std::vector<Spiller::Need> Room() const {
    std::vector<Spiller::Need> room;
    const std::vector<Signature::Output>& all = program->signature.outputs;
    const size_t count = all.size() / program->devices.size();  // of each device
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i].overwrites != Program::kFresh) continue;
      room.emplace_back(program->devices[i / count], all[i].bytes);
    }
    const uint64_t scratch = program->executable->scratch_bytes();
    for (Device* device : program->devices) {
      if (scratch > 0) room.emplace_back(device, scratch);
    }
    return room;
  }
};

absl::StatusOr<Session::Outcome> Session::PlanRun(uint64_t sequence, const v1::RunProgram& command,
                                                  RunPlan& plan) {
  if (split_.sequence == sequence) {
    plan.program = split_.program->apart[split_.part].program;
  } else {
    TD_RETURN_IF_ERROR(programs_.Find(command.program()).status());
    plan.program = programs_.Share(command.program());
  }
  if (plan.program->state == ObjectState::kPending) {
    return Blocked(sequence, v1::ExplainReply::CAUSE_PROGRAM);
  }
  plan.poisoned = plan.program->state == ObjectState::kError;
  if (plan.poisoned) return plan.program->error;
  const Signature& signature = plan.program->signature;
  if (static_cast<size_t>(command.inputs_size()) != signature.num_inputs) {
    return InvalidArgument("it has {} inputs, the run names {}", signature.num_inputs,
                           command.inputs_size());
  }
  if (static_cast<size_t>(command.outputs_size()) != signature.outputs.size()) {
    return InvalidArgument("it has {} outputs, the run names {}", signature.outputs.size(),
                           command.outputs_size());
  }
  int pending = -1;
  bool read = false, spilled = false;
  for (int i = 0; i < command.inputs_size(); ++i) {
    TD_ASSIGN_OR_RETURN(const Tensor* tensor, tensors_.Find(command.inputs(i)), "input {}", i);
    plan.poisoned = tensor->state == ObjectState::kError;
    if (plan.poisoned) return tensor->error;
    if (tensor->state == ObjectState::kPending && pending < 0) pending = i;
    spilled |= tensor->state == ObjectState::kSpilled;
    plan.inputs.push_back(tensors_.Share(command.inputs(i)));
    plan.buffers.push_back(tensor->buffer);
  }
  for (Device* device : plan.program->devices) plan.needs.emplace_back(device, 0);
  const size_t outputs = signature.outputs.size() / plan.needs.size();  // of each device
  absl::flat_hash_set<uint64_t> named;
  for (int i = 0; i < command.outputs_size(); ++i) {
    const uint64_t handle = command.outputs(i);
    const Signature::Output& output = signature.outputs[i];
    if (output.overwrites == Program::kFresh) {
      TD_RETURN_IF_ERROR(tensors_.CheckNew(handle), "output {}", i);
      if (command.outputs_size() > 1 && !named.insert(handle).second) {
        return InvalidArgument("output {}: {} names an earlier output as well", i,
                               ToString(Handle::Unpack(handle)));
      }
      plan.needs[static_cast<size_t>(i) / outputs].second += output.bytes;
      plan.outputs.push_back(nullptr);
      continue;
    }
    if (handle != command.inputs(static_cast<int>(output.overwrites))) {
      return InvalidArgument("output {} overwrites input {}: it must have that input's handle, {}",
                             i, output.overwrites,
                             ToString(Handle::Unpack(command.inputs(output.overwrites))));
    }
    plan.outputs.push_back(plan.inputs[output.overwrites]);
    if (plan.outputs.back()->published != nullptr) {
      return FailedPrecondition(
          "output {} overwrites input {}, which is published: others read it, so it stays as it "
          "is; copy it first",
          i, output.overwrites);
    }
    read |= plan.outputs.back()->readers > 0;
  }
  if (pending >= 0) return Blocked(sequence, v1::ExplainReply::CAUSE_TENSOR, pending);
  if (read) return Blocked(sequence, v1::ExplainReply::CAUSE_READERS);
  const bool others_wait = engine_.spiller != nullptr && room_.sequence != sequence &&
                           engine_.spiller->Closed(plan.program->devices);
  if (spilled || others_wait) {
    return AwaitRoom(sequence, plan.inputs, plan.Room(), OthersAreFaster());
  }
  return Outcome::kDone;
}

Session::Outcome Session::ExecuteRun(uint64_t sequence, v1::RunProgram& command) {
  RunPlan plan;
  std::shared_ptr<const Executable> executable;
  bool others_in_flight = false, failed = false, goes_on = false;
  int64_t expected_ns = 0, turn_ns = 0;
  SubmitOptions submit;
  bool noted = false, notes_steps = false;
  absl::flat_hash_map<std::string, int64_t> variables(command.variables().begin(),
                                                      command.variables().end());
  std::vector<std::shared_ptr<const void>> dying;  // without the lock
  std::vector<std::shared_ptr<Content>> changing;
  const auto fail = [&](const absl::Status& status,
                        bool refused) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const Handles results(command.outputs().begin(), command.outputs().end());
    Fail(sequence, results, status, refused);
    // Its results are also the inputs that it would have overwritten.
    for (uint64_t handle : command.inputs()) {
      if (absl::c_linear_search(results, handle) && tensors_.Find(handle).ok()) {
        SetError(**tensors_.Find(handle), status);
      }
    }
    if (!IsLastPart(sequence)) return;
    for (uint64_t handle : command.release()) ReleaseOne(handle, dying).IgnoreError();
    if (command.notify()) Complete(sequence, status, 0, 0);
  };
  {
    absl::MutexLock lock(&mu_);
    throttled_ = in_flight_ >= limits().max_runs_in_flight;
    if (throttled_) return Blocked(sequence, v1::ExplainReply::CAUSE_RUNS);
    absl::StatusOr<Outcome> planned = PlanRun(sequence, command, plan);
    if (!planned.ok()) {
      const std::string name =
          plan.program ? fmt::format("program '{}'", plan.program->name) : "a program";
      const absl::Status status =
          plan.poisoned ? planned.status() : Annotate(planned.status(), "run of {}", name);
      if (SplitRun(sequence, plan.program, command, status, !plan.poisoned)) {
        return Outcome::kBlocked;
      }
      fail(status, !plan.poisoned);
      failed = true;
      goes_on = NextPart(sequence, command);
    }
    if (!failed) {
      if (*planned == Outcome::kBlocked) return Outcome::kBlocked;
      others_in_flight = in_flight_ > 0;
      if (Queued& front = queue_.front(); front.received_ns != 0) {
        // One that gets its turn at the first look has waited for none: that saves a look at the
        // clock.
        if (front.ready_ns == 0) turn_ns = front.ready_ns = SteadyNs();
        noted = true;
        submit.time_steps = TimesSteps(front.ready_ns);
      }
      notes_steps = submit.time_steps;
      submit.time_steps |= engine_.kernel_times != nullptr;
      executable = plan.program->executable;
      expected_ns = plan.program->length.expected_ns();
      // Submit changes these buffers: until it is done, nobody may begin to read them.
      for (const auto& output : plan.outputs) {
        if (!output) continue;
        output->state = ObjectState::kPending;
        if (output->content) changing.push_back(std::move(output->content));
      }
    }
  }
  for (const auto& content : changing) content->Drop();
  if (failed) {
    engine_.scheduler.Rest(flow_);  // it may have waited for its turn
    return goes_on ? Outcome::kBlocked : Outcome::kDone;
  }
  const auto readable = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    for (const auto& output : plan.outputs) {
      if (output) Settle(*output, absl::OkStatus());
    }
  };
  // The same from look to look: until this run is executed it stays in front.
  std::optional<Scheduler::Turn> turn =
      engine_.scheduler.Ask(flow_, plan.program->devices, expected_ns, weak_from_this());
  if (!turn) {
    absl::MutexLock lock(&mu_);
    readable();
    return Blocked(sequence, v1::ExplainReply::CAUSE_TURN);
  }
  if (noted && turn_ns == 0) turn_ns = SteadyNs();
  const absl::Status charged = account_.Charge(plan.needs, "the outputs");
  TakeReserve(sequence).clear();
  absl::StatusOr<Run> submitted =
      charged.ok() ? engine_.runtime.Submit(executable, plan.buffers, variables, submit) : charged;
  if (charged.ok() && !submitted.ok()) {
    account_.Release(plan.needs);
    submitted = engine_.ledger.Explain(submitted.status(), plan.needs);
  }
  auto run = std::make_shared<RunInFlight>();
  std::vector<std::pair<Device*, uint64_t>> ends;  // by device
  absl::Status abandoned;
  {
    absl::MutexLock lock(&mu_);
    // Memory, or room in the device's queue, comes back as runs end: then it is tried again, at
    // once if the last has ended meanwhile.
    if (charged.ok() && absl::IsResourceExhausted(submitted.status()) && others_in_flight) {
      throttled_ = in_flight_ > 0;
      poked_ |= !throttled_;
      readable();
      return Blocked(sequence, v1::ExplainReply::CAUSE_RUNS);
    }
    if (charged.ok() && absl::IsResourceExhausted(submitted.status())) {
      const absl::StatusOr<Outcome> waits =
          AwaitRoom(sequence, plan.inputs, plan.Room(), submitted.status());
      if (waits.ok()) {
        readable();
        return *waits;
      }
      submitted = waits.status();
    }
    if (!submitted.ok()) {
      const absl::Status status =
          Annotate(submitted.status(), "run of program '{}'", executable->name());
      if (SplitRun(sequence, plan.program, command, status, true)) {
        readable();
        return Outcome::kBlocked;
      }
      fail(status, true);
      return NextPart(sequence, command) ? Outcome::kBlocked : Outcome::kDone;
    }
    ends = std::move(submitted->done_on_others);
    ends.emplace(ends.begin(), plan.program->devices[0], submitted->done);
    const size_t outputs = plan.outputs.size() / ends.size();  // of each device
    const absl::Time now = SteadyNow();
    for (size_t i = 0; i < plan.outputs.size(); ++i) {
      std::shared_ptr<Tensor> tensor = std::move(plan.outputs[i]);
      if (!tensor) {
        tensor = std::make_shared<Tensor>();
        tensor->bytes = plan.program->signature.outputs[i].bytes;
        tensor->device = ends[i / outputs].first;
        tensors_.Insert(command.outputs(static_cast<int>(i)), tensor);
      }
      // One that got an error meanwhile, from an earlier run that failed on the device, keeps it.
      if (tensor->state != ObjectState::kError) {
        tensor->state = ObjectState::kValue;
        tensor->buffer = std::move(submitted->outputs[i]);
        tensor->ready = ends[i / outputs].second;
      }
      tensor->used = now;
      run->outputs.push_back(std::move(tensor));
    }
    for (const auto& input : plan.inputs) input->used = now;
    const bool last = IsLastPart(sequence);
    for (int i = 0; last && i < command.release_size(); ++i) {
      const absl::Status status = ReleaseOne(command.release(i), dying);
      if (!status.ok()) Fail(sequence, {}, status, true);
    }
    run->sequence = sequence;
    run->notify = command.notify() && last;
    if (split_.sequence == sequence) run->refused = split_.error;
    run->kernels = submitted->kernels;
    run->times = std::move(submitted->times_by_device);
    run->steps = std::move(submitted->steps_by_device);
    run->notes_steps = notes_steps;
    if (const Queued& front = queue_.front(); turn_ns != 0) {
      run->sent_ns = front.sent_ns;
      run->received_ns = front.received_ns;
      run->ready_ns = front.ready_ns;
      run->turn_ns = turn_ns;
    }
    run->program = std::move(plan.program);
    run->turn = std::move(turn);
    run->inputs = std::move(plan.inputs);
    counters_.set_programs_run(counters_.programs_run() + 1);
    counters_.set_kernels_launched(counters_.kernels_launched() + run->kernels);
    for (const auto& [device, done] : ends) last_submitted_[device] = done;
    run->unfinished = ends.size();
    run->ends = ends;
    ++in_flight_;
    runs_.insert(run);
    abandoned = abandoned_;
    // So that a completion that comes at once acknowledges it as well.
    if (last) executed_ = sequence;
    goes_on = NextPart(sequence, command);
  }
  for (const auto& [device, done] : ends) {
    device->timeline().OnReached(done,
                                 [self = shared_from_this(), run](const absl::Status& status) {
                                   self->FinishRun(run, status);
                                 });
    if (!abandoned.ok()) device->Abandon(done, abandoned);
  }
  return goes_on ? Outcome::kBlocked : Outcome::kDone;
}

// On a thread of the device: does little, and executes nothing.
void Session::FinishRun(const std::shared_ptr<RunInFlight>& run, const absl::Status& status) {
  bool resume;
  const int64_t done_ns = run->received_ns != 0 ? SteadyNs() : 0;
  absl::InlinedVector<int64_t, 4> device_ns;  // one that failed may have no end
  absl::Status fault;
  {
    absl::MutexLock lock(&mu_);
    run->status.Update(status);
    if (!status.ok()) faulted_ = true;
    if (--run->unfinished > 0) return;
    absl::Status result = run->status;
    absl::Status first;
    if (faulted_) {
      // Its inputs may come from a run that failed on the device after this one was queued.
      for (const auto& input : run->inputs) {
        if (input->state == ObjectState::kError) first = input->error;
      }
    }
    if (!first.ok()) {
      result = first;
    } else if (!result.ok()) {
      const std::string& name = run->program->name;
      result =
          Annotate(result, "run of {} in {}",
                   name.empty() ? "a program" : fmt::format("program '{}'", name), identity_.id);
      if (abandoned_.ok()) fault = result;
    }
    if (!result.ok()) {
      for (const auto& output : run->outputs) SetError(*output, result);
    }
    for (const auto& [device, times] : run->times) {
      device_ns.push_back(std::max<int64_t>(times->device_ns(), 0));
    }
    const int64_t first_ns = device_ns.empty() ? 0 : device_ns[0];
    run->program->length.Add(first_ns);
    // What each device counts as busy as well, so that the bills add up.
    counters_.set_device_ns(
        std::accumulate(device_ns.begin(), device_ns.end(), counters_.device_ns()));
    if (run->notify) {
      Complete(run->sequence, result.ok() ? run->refused : result, first_ns, run->kernels);
    }
    NoteRun(*run, result, done_ns);
    // Before others see that it has ended, and look for memory again.
    run->inputs.clear();
    run->outputs.clear();
    --in_flight_;
    runs_.erase(run);
    resume = throttled_ && in_flight_ <= limits().max_runs_in_flight / 2;
    if (resume) throttled_ = false;
  }
  if (!fault.ok()) LogFault(fault);
  run->turn->Done(device_ns);
  if (engine_.spiller != nullptr) engine_.spiller->Wake();
  if (engine_.kernel_times != nullptr) {
    // By the session's own name for it: sessions share executables.
    const LoadedProgram& program = *run->program;
    for (const auto& steps : run->steps) {
      engine_.kernel_times->Add(identity_.user, program.name, *steps);
    }
  }
  if (resume) engine_.work_pool.Schedule([self = shared_from_this()] { self->Drain(); });
  Flush();
}

void Session::LogFault(const absl::Status& fault) {
  const std::optional<uint64_t> left_out = faults_.Take();
  if (!left_out) return;
  engine_.work_pool.Schedule([self = shared_from_this(), fault, left_out = *left_out] {
    Log("session").warn(
        "run failed on its device session={} user='{}' client='{}' left_out={} "
        "error=\"{}\"",
        self->identity_.id, self->identity_.user, self->identity_.client_name, left_out,
        Message(fault));
  });
}

Session::Outcome Session::ExecuteCopy(uint64_t sequence, const v1::CopyTensor& command) {
  const auto refuse = [&](const absl::Status& status, bool refused) {
    absl::MutexLock lock(&mu_);
    Fail(sequence, {command.handle()}, refused ? Annotate(status, "copy") : status, refused);
    return Outcome::kDone;
  };
  BufferRef source;
  uint64_t ready;
  Tensors operands;
  std::shared_ptr<const void> pin;
  const absl::StatusOr<Device*> device = engine_.runtime.FindDevice(command.device());
  {
    absl::ReleasableMutexLock lock(&mu_);
    absl::StatusOr<Tensor*> tensor = tensors_.Find(command.source());
    if (!tensor.ok()) {
      lock.Release();
      return refuse(tensor.status(), true);
    }
    if ((*tensor)->state == ObjectState::kPending) {
      return Blocked(sequence, v1::ExplainReply::CAUSE_TENSOR);
    }
    if ((*tensor)->state == ObjectState::kError) {
      const absl::Status cause = (*tensor)->error;
      lock.Release();
      return refuse(cause, false);
    }
    if (!device.ok()) {
      lock.Release();
      return refuse(device.status(), true);
    }
    operands.push_back(tensors_.Share(command.source()));
    if ((*tensor)->state == ObjectState::kSpilled) {
      const absl::StatusOr<Outcome> waits =
          AwaitRoom(sequence, operands, {{*device, (*tensor)->bytes}}, OthersAreFaster());
      if (waits.ok()) return *waits;
      lock.Release();
      return refuse(waits.status(), true);
    }
    source = (*tensor)->buffer;
    ready = (*tensor)->ready;
    (*tensor)->used = SteadyNow();
    pin = Pin(operands[0]);
  }
  absl::StatusOr<std::shared_ptr<Tensor>> copy =
      NewTensor(sequence, command.handle(), *device, source->dtype, source->shape, operands);
  if (!copy.ok()) return refuse(copy.status(), true);
  if (*copy == nullptr) return Outcome::kBlocked;
  {
    absl::MutexLock lock(&mu_);
    ++copying_;
  }
  // The bytes move on a thread of ours once the source is there; until then the copy is pending.
  // The pin holds back runs that would overwrite the source meanwhile.
  auto move = [self = shared_from_this(), source, target = (*copy)->buffer, copy = *copy,
               pin](const absl::Status& status) {
    void* to = target->memory->host_address();
    const void* from = source->memory->host_address();
    if (status.ok() && to != nullptr && from != nullptr && source->memory->size() > 0) {
      std::memcpy(to, from, source->memory->size());
    }
    {
      absl::MutexLock lock(&self->mu_);
      --self->copying_;
      self->Settle(*copy, status);
    }
    self->Poke();
  };
  source->memory->device().timeline().OnReached(
      ready, [self = shared_from_this(), move = std::move(move)](const absl::Status& status) {
        self->engine_.work_pool.Schedule([move, status] { move(status); });
      });
  return Outcome::kDone;
}

Session::Outcome Session::ExecuteRelease(uint64_t sequence, const v1::Release& command) {
  std::vector<std::shared_ptr<const void>> dying;
  absl::MutexLock lock(&mu_);
  for (uint64_t handle : command.handles()) {
    const absl::Status status = ReleaseOne(handle, dying);
    if (!status.ok()) Fail(sequence, {}, Annotate(status, "release"), true);
  }
  return Outcome::kDone;
}

absl::Status Session::ReleaseOne(uint64_t handle, std::vector<std::shared_ptr<const void>>& dying) {
  if (Handle::Unpack(handle).type == Handle::kProgram) {
    TD_ASSIGN_OR_RETURN(auto program, programs_.Remove(handle));
    dying.push_back(std::move(program));
    return absl::OkStatus();
  }
  TD_ASSIGN_OR_RETURN(auto tensor, tensors_.Remove(handle));
  Uncharge(*tensor);
  if (engine_.spiller != nullptr) engine_.spiller->Wake();
  dying.push_back(std::move(tensor));
  return absl::OkStatus();
}

void Session::Fail(uint64_t sequence, const Handles& results, const absl::Status& status,
                   bool refused) {
  for (uint64_t handle : results) {
    if (programs_.CheckNew(handle).ok()) {
      auto program = std::make_shared<LoadedProgram>();
      program->state = ObjectState::kError;
      program->error = status;
      programs_.Insert(handle, std::move(program));
    } else if (tensors_.CheckNew(handle).ok()) {
      auto tensor = std::make_shared<Tensor>();
      SetError(*tensor, status);
      tensors_.Insert(handle, std::move(tensor));
    }
  }
  if (!refused) return;
  v1::CommandError* error = outgoing_.add_errors();
  error->set_sequence(sequence);
  Encode(status, error->mutable_status());
  something_to_tell_ = true;
}

void Session::Complete(uint64_t sequence, const absl::Status& status, int64_t device_ns,
                       int kernels) {
  v1::Completion* completion = outgoing_.add_completions();
  completion->set_sequence(sequence);
  if (!status.ok()) Encode(status, completion->mutable_status());
  completion->set_device_ns(device_ns);
  completion->set_kernels(kernels);
  something_to_tell_ = true;
}

void Session::SetError(Tensor& tensor, const absl::Status& status) {
  if (tensor.state == ObjectState::kError) return;  // the first cause stays
  tensor.state = ObjectState::kError;
  tensor.error = status;
  tensor.buffer = nullptr;
  tensor.published = nullptr;
  tensor.content = nullptr;
  Uncharge(tensor);
  tensor.spilled = nullptr;
}

void Session::Settle(Tensor& tensor, const absl::Status& status) {
  if (!status.ok()) return SetError(tensor, status);
  if (tensor.state == ObjectState::kPending) tensor.state = ObjectState::kValue;
}

void Session::Uncharge(Tensor& tensor) {
  Device* const device = tensor.spilled == nullptr ? tensor.device : nullptr;
  if (tensor.bytes > 0) account_.Release(device, tensor.bytes);
  tensor.bytes = 0;
}

}  // namespace tensord
