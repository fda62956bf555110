#include "server/compiler/compiler.h"

#include <absl/base/thread_annotations.h>
#include <absl/container/btree_set.h>
#include <absl/container/flat_hash_map.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/clock.h>
#include <sys/wait.h>

#include <csignal>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "core/base/log.h"
#include "core/base/status.h"
#include "core/wire/program.h"
#include "core/wire/status.h"
#include "server/compiler/messages.h"
#include "server/compiler/process.h"

namespace tensord::compiler {
namespace {

// After so many programs a process makes way for a new one: what it has leaked goes with it.
constexpr int kProgramsPerProcess = 1000;
constexpr size_t kMostNames = 4;  // in an error

class Pool {
 public:
  struct Worker {
    std::unique_ptr<Process> process;
    int programs = 0;
  };

  explicit Pool(Limits limits) : limits_(std::move(limits)) {}

  const Limits& limits() const { return limits_; }

  absl::StatusOr<Worker> Take() {
    {
      absl::MutexLock lock(&mu_);
      const auto free = [this]()
                            ABSL_SHARED_LOCKS_REQUIRED(mu_) { return busy_ < limits_.processes; };
      mu_.Await(absl::Condition(&free));
      ++busy_;
      while (!idle_.empty()) {
        Worker worker = std::move(idle_.back());
        idle_.pop_back();
        if (worker.process->IsIdle()) return worker;
      }
    }
    absl::StatusOr<std::unique_ptr<Process>> process =
        Process::Start(limits_.arguments, limits_.memory_bytes);
    if (!process.ok()) {
      absl::MutexLock lock(&mu_);
      --busy_;
      return process.status();
    }
    return Worker{.process = *std::move(process)};
  }

  void GiveBack(Worker worker) {
    const bool is_good = worker.process != nullptr && ++worker.programs < kProgramsPerProcess;
    absl::MutexLock lock(&mu_);
    --busy_;
    if (is_good) idle_.push_back(std::move(worker));
  }

 private:
  const Limits limits_;
  absl::Mutex mu_;
  int busy_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<Worker> idle_ ABSL_GUARDED_BY(mu_);
};

class RemoteJob : public PlanCompiler::Job {
 public:
  RemoteJob(std::shared_ptr<Pool> pool, Pool::Worker worker, std::string program)
      : pool_(std::move(pool)),
        worker_(std::move(worker)),
        program_(std::move(program)),
        deadline_(absl::Now() + pool_->limits().timeout) {}

  ~RemoteJob() override {
    absl::MutexLock lock(&mu_);
    if (lost_) worker_.process.reset();
    pool_->GiveBack(std::move(worker_));
  }

  absl::Status Begin(const Program& program, const tensord::Target& target) {
    worker_.process->LimitProcessorTime(pool_->limits().timeout *
                                        static_cast<int>(std::thread::hardware_concurrency()));
    Request request;
    *request.mutable_begin()->mutable_program() = tensord::Encode(program);
    Encode(target, request.mutable_begin()->mutable_target());
    Reply reply;
    if (!worker_.process->Send(request, deadline_) || !worker_.process->Receive(reply, deadline_) ||
        !(reply.has_failure() || reply.has_plan())) {
      absl::MutexLock lock(&mu_);
      return Lose();
    }
    if (reply.has_failure()) return Refusal(reply);
    TD_ASSIGN_OR_RETURN(plan_, Decode(reply.plan(), program.inputs.size(), program.outputs.size()));
    return absl::OkStatus();
  }

  tensord::Plan& plan() override { return plan_; }

  absl::StatusOr<CompiledKernel> Compile(size_t kernel, PlanCompiler::Times* times) override {
    {
      absl::MutexLock lock(&mu_);
      if (lost_) return *lost_;
      in_work_.insert(kernel);
    }
    Request request;
    request.set_compile(static_cast<uint32_t>(kernel));
    const bool sent = worker_.process->Send(request, deadline_);
    absl::MutexLock lock(&mu_);
    if (!sent) return Lose();
    for (;;) {
      if (lost_) return *lost_;
      if (auto found = replies_.find(kernel); found != replies_.end()) {
        Reply reply = std::move(found->second);
        replies_.erase(found);
        in_work_.erase(kernel);
        if (reply.has_failure()) return Refusal(reply);
        return Decode(std::move(*reply.mutable_compiled()), times);
      }
      if (std::exchange(reading_, true)) {
        changed_.Wait(&mu_);
        continue;
      }
      mu_.Unlock();
      Reply reply;
      const bool received = worker_.process->Receive(reply, deadline_);
      mu_.Lock();
      reading_ = false;
      const size_t number = reply.kernel();
      // One that answers what it was not asked has run wild.
      if (received && in_work_.contains(number) && (reply.has_failure() || reply.has_compiled())) {
        replies_[number] = std::move(reply);
      } else {
        Lose().IgnoreError();
      }
      changed_.SignalAll();
    }
  }

 private:
  static absl::Status Refusal(const Reply& reply) {
    const absl::Status status = tensord::Decode(reply.failure());
    return status.ok() ? Internal("the compiler failed without an error") : status;
  }

  // The process is of no more use: the error for all that it was asked for.
  absl::Status Lose() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (lost_) return *lost_;
    const Limits& limits = pool_->limits();
    const bool late = absl::Now() >= deadline_;
    const std::optional<int> status = worker_.process->End();
    std::vector<std::string> kernels;
    for (const size_t kernel : in_work_) {
      if (kernels.size() < kMostNames) kernels.push_back(plan_.kernels[kernel].name);
    }
    const std::string what =
        kernels.empty() ? "scheduling" : fmt::format("compiling {}", fmt::join(kernels, ", "));
    absl::Status error;
    std::string why;
    if (status && WIFEXITED(*status) && WEXITSTATUS(*status) == kOutOfMemory) {
      why = "out of memory";
      error = ResourceExhausted(
          "{} took more than {} bytes of memory, --compile-memory-bytes; use a smaller program, or "
          "ask the operator for a larger limit",
          what, limits.memory_bytes);
    } else if (late || (status && WIFSIGNALED(*status) && WTERMSIG(*status) == SIGXCPU)) {
      why = "timeout";
      error = DeadlineExceeded(
          "{} took more than {}, --compile-timeout; use a smaller program, or ask the operator for "
          "a larger limit",
          what, absl::FormatDuration(limits.timeout));
    } else {
      why = status && WIFSIGNALED(*status)
                ? fmt::format("signal {} ({})", WTERMSIG(*status), strsignal(WTERMSIG(*status)))
            : status ? fmt::format("exit status {}", WEXITSTATUS(*status))
                     : "its connection broke";
      const bool killed = status && WIFSIGNALED(*status) && WTERMSIG(*status) == SIGKILL;
      error = killed ? Unavailable(
                           "{}: the compiler's process was killed, as a system does that is out of "
                           "memory; try again",
                           what)
                     : Internal(
                           "{} ended the compiler's process, {}: a fault of tensord, please report "
                           "it with the program. Other work goes on",
                           what, why);
    }
    Log("compiler")
        .error("lost a process pid={} program='{}' while='{}' because={}", worker_.process->pid(),
               program_, what, why);
    lost_ = CompilerLost(std::move(error));
    return *lost_;
  }

  const std::shared_ptr<Pool> pool_;
  Pool::Worker worker_;
  const std::string program_;
  const absl::Time deadline_;
  tensord::Plan plan_;
  absl::Mutex mu_;
  absl::CondVar changed_;
  bool reading_ ABSL_GUARDED_BY(mu_) = false;  // one of the threads that wait, for all of them
  absl::btree_set<size_t> in_work_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<size_t, Reply> replies_ ABSL_GUARDED_BY(mu_);
  std::optional<absl::Status> lost_ ABSL_GUARDED_BY(mu_);
};

class ProcessCompiler : public PlanCompiler {
 public:
  explicit ProcessCompiler(Limits limits) : pool_(std::make_shared<Pool>(std::move(limits))) {
    // The first program need not wait for a process to start.
    if (absl::StatusOr<Pool::Worker> worker = pool_->Take(); worker.ok()) {
      pool_->GiveBack(*std::move(worker));
    }
  }

  absl::StatusOr<std::unique_ptr<Job>> Begin(const Program& program,
                                             const tensord::Target& target) override {
    for (bool first = true;; first = false) {
      TD_ASSIGN_OR_RETURN(Pool::Worker worker, pool_->Take());
      auto job = std::make_unique<RemoteJob>(pool_, std::move(worker), program.name);
      const absl::Status status = job->Begin(program, target);
      if (status.ok()) return job;
      // Somebody killed it, perhaps before it had the program.
      if (!first || !absl::IsUnavailable(status) || !IsCompilerLost(status)) return status;
    }
  }

 private:
  const std::shared_ptr<Pool> pool_;
};

}  // namespace

std::shared_ptr<PlanCompiler> InProcesses(Limits limits) {
  return std::make_shared<ProcessCompiler>(std::move(limits));
}

}  // namespace tensord::compiler
