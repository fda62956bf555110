// Executes schedules without a compiler: kernels by the interpreter of backends/interp, each buffer
// in memory of its own, so that a temporary which is read before it is written shows even where the
// memory plan would give it what another one left behind.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <memory>
#include <string>
#include <vector>

#include "core/codegen/codegen.h"
#include "core/device/target.h"
#include "core/ir/eval.h"
#include "core/schedule/schedule.h"

namespace tensord {

// A buffer's elements; one that nothing has been written to has the dtype void.
using Memory = std::vector<Scalar>;
using Variables = absl::flat_hash_map<std::string, int64_t>;

// Lowers the schedule's kernels. "" if each passes its specs and stays within its buffers whatever
// the inputs hold, else what is wrong; `kernels`, if not null, gets the results.
std::string LowerKernels(const Schedule& schedule, const Target& target,
                         std::vector<std::unique_ptr<LinearKernel>>* kernels = nullptr);

// Runs the schedule's steps on memory with the inputs in it; `memory` has an entry per buffer. ""
// if all went well, else the first thing wrong: of LowerKernels, or a fault.
std::string Interpret(const Schedule& schedule, const Target& target, std::vector<Memory>& memory,
                      const Variables& variables);

}  // namespace tensord
