// Compiles in processes of its own, each at work on one program at a time: a compiler that crashes,
// or does not end, or takes all memory, costs the program that it was at work on.
//
//   options.compiler = compiler::InProcesses({.timeout = absl::Minutes(5)});
#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/runtime/plan_compiler.h"

namespace tensord::compiler {

struct Limits {
  int processes = 1;                          // at most; who comes when all are busy waits
  absl::Duration timeout = absl::Minutes(5);  // of one program, from when a process takes it
  uint64_t memory_bytes = uint64_t{4} << 30;  // of one process
  std::vector<std::string> arguments;         // by which this executable becomes a worker
};

// Errors: Internal for a crash, DeadlineExceeded and ResourceExhausted for the limits; each says
// which program and what the way out is.
std::shared_ptr<PlanCompiler> InProcesses(Limits limits);

}  // namespace tensord::compiler
