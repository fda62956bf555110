#include "server/health/prober.h"

#include <absl/time/clock.h>
#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/status.h"
#include "core/ir/program.h"

namespace tensord {
namespace {

// How often a probe under way looks whether the daemon ends.
constexpr absl::Duration kGlance = absl::Milliseconds(100);

// Two inputs, which are both 1, and where their sum goes: memory of the probe's own, so that it
// works when others have all the rest.
std::unique_ptr<Program> ProbeProgram() {
  auto program = std::make_unique<Program>();
  program->name = "health";
  const Node* x = program->graph.Param(0, DType::kFloat32, {1});
  const Node* y = program->graph.Param(1, DType::kFloat32, {1});
  program->inputs = {x, y, program->graph.Param(2, DType::kFloat32, {1})};
  program->outputs = {{.value = program->graph.Make(Op::kAdd, {x, y}), .overwrites = 2}};
  return program;
}

}  // namespace

Prober::Prober(Runtime& runtime, ProberOptions options, std::function<void()> changed)
    : runtime_(runtime), options_(options), changed_(std::move(changed)) {
  for (Device* device : runtime_.devices()) {
    probes_.push_back(std::make_unique<Probe>());
    probes_.back()->device = device;
  }
  for (const auto& probe : probes_) {
    probe->thread = std::thread([this, &probe = *probe] {
      pthread_setname_np(pthread_self(), "td-health");
      Loop(probe);
    });
  }
}

void Prober::Check(size_t device, Done done) {
  {
    absl::MutexLock lock(&mu_);
    if (!stopping_) {
      probes_[device]->asked.push_back(std::move(done));
      return;
    }
  }
  done(Cancelled("the daemon is shutting down"));
}

std::optional<absl::Status> Prober::Last(size_t device) const {
  absl::MutexLock lock(&mu_);
  return probes_[device]->last;
}

void Prober::Stop() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  for (const auto& probe : probes_) {
    if (probe->thread.joinable()) probe->thread.join();
    // What belongs to the devices goes before they do.
    probe->executable = nullptr;
    probe->one = probe->result = nullptr;
    std::vector<Done> asked;
    {
      absl::MutexLock lock(&mu_);
      asked.swap(probe->asked);
    }
    for (const Done& done : asked) done(Cancelled("the daemon is shutting down"));
  }
}

void Prober::Loop(Probe& probe) {
  for (;;) {
    std::vector<Done> asked;
    {
      absl::MutexLock lock(&mu_);
      const auto wanted = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
        return stopping_ || !probe.asked.empty();
      };
      const bool timed = options_.interval > absl::ZeroDuration();
      mu_.AwaitWithTimeout(absl::Condition(&wanted),
                           timed ? options_.interval : absl::InfiniteDuration());
      if (stopping_) return;
      asked.swap(probe.asked);
    }
    const absl::Status status = Run(probe);
    bool changed;
    {
      absl::MutexLock lock(&mu_);
      changed = !probe.last || probe.last->ok() != status.ok();
      probe.last = status;
    }
    for (const Done& done : asked) done(status);
    if (changed && changed_) changed_();
  }
}

absl::Status Prober::Run(Probe& probe) {
  Device& device = *probe.device;
  if (probe.pending == 0) TD_RETURN_IF_ERROR(Submit(probe), "{}: health", device.name());
  Timeline& timeline = device.timeline();
  // Runs that end, and within a run launches that begin and end. Relaxed: only whether it moves
  // counts.
  const auto progress = [&] {
    return std::pair(timeline.signal()->value.load(std::memory_order_relaxed),
                     device.progress().steps);
  };
  auto before = progress();
  absl::Time moved = absl::Now();
  absl::Status waited;
  for (;;) {
    waited = timeline.Wait(probe.pending, absl::Now() + std::min(options_.patience, kGlance));
    if (!absl::IsDeadlineExceeded(waited)) break;
    {
      absl::MutexLock lock(&mu_);
      if (stopping_) return Cancelled("the daemon is shutting down");
    }
    if (const auto now = progress(); now != before) {
      before = now;
      moved = absl::Now();
    }
    if (absl::Now() - moved >= options_.patience) {
      return DeadlineExceeded(
          "{}: a probe did not come back, and no launch or run has ended for {}", device.name(),
          absl::FormatDuration(options_.patience));
    }
  }
  probe.pending = 0;
  TD_RETURN_IF_ERROR(waited, "{}: health", device.name());
  void* data = probe.result->memory->host_address();
  if (!device.executes() || data == nullptr) return absl::OkStatus();
  float sum;
  std::memcpy(&sum, data, sizeof(sum));
  std::memset(data, 0, sizeof(sum));  // the next one has to compute it again
  if (sum == 2) return absl::OkStatus();
  return Internal("{}: a probe computed {} for 1 + 1", device.name(), sum);
}

absl::Status Prober::Submit(Probe& probe) {
  if (probe.executable == nullptr) {
    CompileStats unused;
    TD_ASSIGN_OR_RETURN(probe.executable,
                        runtime_.Prepare(*ProbeProgram(), *probe.device, &unused));
  }
  for (const auto& [buffer, value] :
       {std::pair(&probe.one, 1.0f), std::pair(&probe.result, 0.0f)}) {
    if (*buffer != nullptr) continue;
    auto made = std::make_shared<Buffer>();
    made->dtype = DType::kFloat32;
    made->shape = {1};
    TD_ASSIGN_OR_RETURN(made->memory, probe.device->allocator().Allocate(sizeof(value)));
    if (void* to = made->memory->host_address()) std::memcpy(to, &value, sizeof(value));
    *buffer = std::move(made);
  }
  const BufferRef inputs[] = {probe.one, probe.one, probe.result};
  TD_ASSIGN_OR_RETURN(tensord::Run run, runtime_.Submit(probe.executable, inputs, {}));
  probe.pending = run.done;
  return absl::OkStatus();
}

}  // namespace tensord
