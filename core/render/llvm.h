// Renders a linear program as LLVM IR text (LLVM 19) for a CPU. The function is
//
//   void NAME(ptr buffers /* void*[] */, ptr variables /* int64_t[] */, i64 grid_index)
//
// and does one workgroup. Buffers never overlap (the scheduler sees to it), hold at least one
// element and are aligned to it. How each op computes is the table in ops.inc: integers wrap,
// floats are strict IEEE, float16 and bfloat16 are computed in float32 and rounded to nearest even.
//
//   TD_ASSIGN_OR_RETURN(std::string text, RenderLlvm(program, target));
#pragma once

#include <absl/status/statusor.h>

#include <string>

#include "core/device/target.h"
#include "core/ir/linear.h"

namespace tensord {

// The same text for the same program and target on every run. Unimplemented names a dtype that
// can't be computed with; InvalidArgument names a node that a linear program can't have there.
absl::StatusOr<std::string> RenderLlvm(const LinearProgram& program, const Target& target);

}  // namespace tensord
