// Executes linear programs and schedules on scalars, with EvalOp, one instruction after the other:
// an oracle for what happens before a renderer, in which every access is checked.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <string>
#include <vector>

#include "core/device/target.h"
#include "core/ir/eval.h"
#include "core/ir/linear.h"
#include "core/schedule/schedule.h"

namespace tensord {

// A buffer's elements; one that nothing has been written to has the dtype void.
using Memory = std::vector<Scalar>;
using Variables = absl::flat_hash_map<std::string, int64_t>;

// Runs the program on `buffers`, one per slot (a buffer may stand in several). "" if all went well,
// else the first access that is out of bounds, reads what nothing has written or, but for reading
// and storing in place, stores an element twice.
std::string Interpret(const LinearProgram& program, absl::Span<Memory* const> buffers,
                      const Variables& variables);

// Runs the schedule's steps on memory with the inputs in it; `memory` has an entry per buffer.
std::string Interpret(const Schedule& schedule, const Target& target, std::vector<Memory>& memory,
                      const Variables& variables);

}  // namespace tensord
