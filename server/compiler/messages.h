// Targets, plans and kernels <-> the messages of worker.proto.
//
// What a worker says is checked before it is used: one that has run wild must not make the daemon
// reach outside of an array.
#pragma once

#include <absl/status/statusor.h>

#include "core/compile/kernel.h"
#include "core/device/target.h"
#include "core/runtime/plan_compiler.h"
#include "server/compiler/worker.pb.h"

namespace tensord::compiler {

void Encode(const tensord::Target& target, Target* out);
tensord::Target Decode(const Target& message);

void Encode(const tensord::Plan& plan, Plan* out);
// `inputs` and `outputs` are the program's.
absl::StatusOr<tensord::Plan> Decode(const Plan& message, size_t inputs, size_t outputs);

void Encode(const CompiledKernel& kernel, const PlanCompiler::Times& times, Kernel* out);
CompiledKernel Decode(Kernel&& message, PlanCompiler::Times* times);

}  // namespace tensord::compiler
