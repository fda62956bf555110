// Program <-> tensord.v1.Program.
//
//   v1::Program message = Encode(program);
//   TD_ASSIGN_OR_RETURN(Program program, Decode(message, {.max_nodes = 10'000}));
//
// Decode trusts nothing: whatever bytes a peer sends, the result is a valid tensor-level program
// within the limits, or an InvalidArgument (ResourceExhausted for a limit) that names the node and
// the rule. A decoded node may be another op than was sent, because graphs simplify as they grow.
// One thing is left to who schedules, because it may take memory as the square of the nodes: that
// each Carry is within its Loop (VerifyTensor of core/rules/spec.h).
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>

#include "core/ir/program.h"
#include "proto/tensord/v1/graph.pb.h"

namespace tensord {

struct WireLimits {
  uint64_t max_nodes = 1 << 20;
  uint64_t max_inputs = 1 << 16;                // outputs and variables as well
  int64_t max_tensor_bytes = int64_t{1} << 40;  // of any one value in the graph
  int max_rank = 32;
  size_t max_name_bytes = 1024;
};

v1::Program Encode(const Program& program);
absl::StatusOr<Program> Decode(const v1::Program& message, const WireLimits& limits);

// Whether Decode takes the program with these limits; ResourceExhausted says which one is passed.
absl::Status CheckLimits(const Program& program, const WireLimits& limits);

}  // namespace tensord
