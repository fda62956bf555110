// UserKernel nodes by part. Such a node is a kernel that a user wrote, as one op of a tensor graph:
// its sources are the inputs, its outputs are read by UserKernelResult.
//
// The kernel stands in the attribute. `ints` are the outputs, `text` is the name and the body: a
// kernel-level graph, a Sink over Stores, as text.h writes it. Param k of the body is output k, the
// Params after those are the inputs, each a row-major buffer. What a body may contain is checked
// where it is read (core/rules/user_kernel.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/ir/node.h"

namespace tensord::user_kernel {

struct Output {
  DType dtype;
  Shape dims;
};

// Nothing if the numbers are no list of outputs.
std::optional<std::vector<Output>> OutputsOf(absl::Span<const int64_t> ints);
std::vector<Output> OutputsOf(const Node* call);
std::vector<int64_t> IntsOf(absl::Span<const Output> outputs);

std::string_view NameOf(const Node* call);
std::string_view BodyOf(const Node* call);
std::string TextOf(std::string_view name, std::string_view body);

}  // namespace tensord::user_kernel
