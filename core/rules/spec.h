// What each level of the IR may contain. Construction checks a node by itself (infer.h); a spec
// checks what only the whole tells: which ops stand at the level, what they are connected to, and
// for linear programs the order. Passes run it on their result; on graphs from the wire it always
// runs.
#pragma once

#include <absl/status/status.h>
#include <absl/types/span.h>

#include "core/ir/node.h"

namespace tensord {

// InvalidArgument names the rule and prints the node that breaks it:
//   kernel spec, load-operands: wants Param, index [, bool gate]: %7 = Load float32 %1 %0
absl::Status VerifyTensor(absl::Span<const Node* const> roots);
absl::Status VerifyKernel(absl::Span<const Node* const> roots);
// The body of a linear program, in execution order.
absl::Status VerifyLinear(absl::Span<const Node* const> body);

}  // namespace tensord
