// Case: one test of the compiler as a value: a tensor graph, what its outputs overwrite, and a seed
// from which the inputs' values follow. As text it is the form of core/ir/text.h below a header:
//
//   # seed 7 nice
//   # overwrites 0 -1
//   %0 = Param float32 [3] slot=0
//   %1 = Exp float32 [3] %0
//   return %1 %0
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/ir/eval.h"
#include "core/ir/program.h"
#include "core/tensor/testing.h"

namespace tensord {

enum class ValueKind {
  kNice,     // floats of moderate size, small integers
  kSpecial,  // also infinities, NaN, signed zeros, subnormals, limits of integers
  kEdges,    // those around which conversions and roundings change, one after the other
  kBits,     // random bits
};

struct Case {
  Graph graph;
  std::vector<const Node*> outputs;
  std::vector<int64_t> overwrites;  // per output: a slot or Program::kFresh
  uint64_t seed = 0;
  ValueKind values = ValueKind::kNice;
};

// What ValueKind::kEdges goes through.
const std::vector<Scalar>& EdgeValues(DType dtype);

std::string PrintCase(const Case& test);
// Errors name line and column, or what the header lacks.
absl::StatusOr<Case> ParseCase(std::string_view text);

// Params by slot; one that no output reads has the type of the output that overwrites it.
// InvalidArgument if a slot is left out or two Params share one.
absl::StatusOr<std::vector<const Node*>> ParamsOf(Case& test);
absl::StatusOr<Program> ProgramOf(Case& test);
std::vector<HostTensor> InputsOf(const Case& test, absl::Span<const Node* const> params);
absl::flat_hash_map<std::string, int64_t> VariablesOf(const Case& test);

}  // namespace tensord
