// What a program becomes before its kernels are loaded, and who makes it: this process, or a worker
// that may crash without harm to anybody else.
//
//   TD_ASSIGN_OR_RETURN(auto job, compiler.Begin(program, target));
//   for each kernel of job->plan() that the cache lacks:
//     TD_ASSIGN_OR_RETURN(CompiledKernel kernel, job->Compile(number, &times));
//
// Thread-safe.
#pragma once

#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <memory>
#include <string>
#include <vector>

#include "core/compile/kernel.h"
#include "core/device/target.h"
#include "core/ir/program.h"
#include "core/schedule/schedule.h"

namespace tensord {

struct Plan {
  struct Kernel {
    std::string name;
    std::string content;  // a hash of all that determines its code, for the kernel cache
    std::vector<std::string> variables;  // names, in the order of KernelArgs::variables
  };
  Schedule schedule;  // without the graphs of its kernels
  std::vector<Kernel> kernels;
};

class PlanCompiler {
 public:
  struct Times {
    absl::Duration lower, compile;
  };
  // One program on its way.
  class Job {
   public:
    virtual ~Job() = default;
    virtual Plan& plan() = 0;
    // The kernel of that number, for several of them at once.
    virtual absl::StatusOr<CompiledKernel> Compile(size_t kernel, Times* times) = 0;
  };

  virtual ~PlanCompiler() = default;
  // Schedules. Errors of Begin and of Compile name the node, or the limit that was reached.
  virtual absl::StatusOr<std::unique_ptr<Job>> Begin(const Program& program,
                                                     const Target& target) = 0;
};

// In this process, on the threads that call.
std::unique_ptr<PlanCompiler> CompileInProcess();

}  // namespace tensord
