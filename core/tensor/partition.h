// Partition: a program over whole tensors becomes one that each of several devices runs on its part
// of them.
//
//   x: [64, 3] along axis 0, w: [3, 5] whole          on each of 4 devices
//   y = x @ w                                         [16, 3] @ [3, 5], no communication
//   loss = sum(y)                                     a sum of [16, 5], then an all-reduce
//
// How a value is divided follows from its operands, op by op: each op keeps the division that it
// can compute with what a device has, and where it can't the operands are gathered first, so that
// every program can be partitioned. Results are those of the whole program, but for the order in
// which floats are added. Not for front ends but the session that sends programs.
#pragma once

#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <vector>

#include "core/ir/program.h"
#include "core/tensor/collective.h"

namespace tensord {

// Along which axis a tensor is divided among devices, in equal parts; or that each has all of it.
inline constexpr int64_t kWhole = -1;

struct Partitioned {
  Program program;            // its inputs and outputs are the parts
  std::vector<int64_t> axes;  // of the outputs, along which they are divided
};

// InvalidArgument if `devices` does not divide an axis of an input that is divided along it. An
// output that overwrites an input is divided as that is.
absl::StatusOr<Partitioned> Partition(const Program& program, int64_t devices,
                                      absl::Span<const int64_t> input_axes,
                                      AllReduceKind all_reduce = AllReduceKind::kAuto);

}  // namespace tensord
