#include "server/compiler/worker.h"

#include <absl/base/thread_annotations.h>
#include <absl/strings/match.h>
#include <absl/synchronization/mutex.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/runtime/plan_compiler.h"
#include "core/runtime/thread_pool.h"
#include "core/wire/program.h"
#include "core/wire/status.h"
#include "server/compiler/messages.h"
#include "server/compiler/process.h"

namespace tensord::compiler {
namespace {

// The daemon has applied its limits to the program already.
constexpr WireLimits kAnything = {
    .max_nodes = std::numeric_limits<uint64_t>::max(),
    .max_inputs = std::numeric_limits<uint64_t>::max(),
    .max_tensor_bytes = std::numeric_limits<int64_t>::max(),
    .max_rank = 1 << 16,
    .max_name_bytes = std::numeric_limits<size_t>::max(),
};

void FailIfAsked(const std::string& program) {
  const char* fault = std::getenv("TENSORD_COMPILE_FAULT");
  if (fault == nullptr || !absl::EndsWith(fault, ":" + program)) return;
  if (absl::StartsWith(fault, "crash:")) std::abort();
  if (absl::StartsWith(fault, "loop:")) {
    for (std::atomic<uint64_t> turns = 0;;) turns.fetch_add(1, std::memory_order_relaxed);
  }
  if (absl::StartsWith(fault, "memory:")) {
    for (std::vector<std::unique_ptr<std::string>> all;;) {
      all.push_back(std::make_unique<std::string>(1 << 20, 'x'));
    }
  }
}

class Worker {
 public:
  Worker() : pool_("td-compile", static_cast<int>(std::thread::hardware_concurrency())) {}

  // Reads all the time, so that the end of the daemon ends a compilation that would not end.
  [[noreturn]] void Run() {
    for (;;) {
      auto request = std::make_shared<Request>();
      if (!ReadFrame(kWorkerSocket, *request, absl::InfiniteFuture())) _exit(0);
      pool_.Add([this, request] { Answer(*request); });
    }
  }

 private:
  void Answer(const Request& request) {
    Reply reply;
    absl::Status status;
    if (request.has_begin()) {
      status = Begin(request.begin(), *reply.mutable_plan());
    } else {
      reply.set_kernel(request.compile());
      status = Compile(request.compile(), *reply.mutable_compiled());
    }
    if (!status.ok()) tensord::Encode(status, reply.mutable_failure());
    absl::MutexLock lock(&writing_);
    if (!WriteFrame(kWorkerSocket, reply, absl::InfiniteFuture())) _exit(0);
  }

  absl::Status Begin(const Request::Begin& request, Plan& plan) {
    TD_ASSIGN_OR_RETURN(const Program program, tensord::Decode(request.program(), kAnything));
    FailIfAsked(program.name);
    TD_ASSIGN_OR_RETURN(auto job, compiler_->Begin(program, Decode(request.target())));
    Encode(job->plan(), &plan);
    absl::MutexLock lock(&mu_);
    job_ = std::move(job);
    return absl::OkStatus();
  }

  absl::Status Compile(uint32_t number, Kernel& out) {
    std::shared_ptr<PlanCompiler::Job> job;
    {
      absl::MutexLock lock(&mu_);
      job = job_;
    }
    if (job == nullptr || number >= job->plan().kernels.size()) {
      return Internal("the compiler was asked for kernel {}, which there is not", number);
    }
    PlanCompiler::Times times;
    TD_ASSIGN_OR_RETURN(const CompiledKernel kernel, job->Compile(number, &times));
    Encode(kernel, times, &out);
    return absl::OkStatus();
  }

  const std::unique_ptr<PlanCompiler> compiler_ = CompileInProcess();
  absl::Mutex mu_, writing_;
  // Kernels of one program at a time; the daemon reads their answers before it begins the next.
  std::shared_ptr<PlanCompiler::Job> job_ ABSL_GUARDED_BY(mu_);
  ThreadPool pool_;  // last: its threads use the rest
};

}  // namespace

void RunWorker() {
  std::set_new_handler([] { _exit(kOutOfMemory); });
  Worker().Run();
}

}  // namespace tensord::compiler
