// Program: what a client submits. A tensor graph with numbered inputs, outputs, and the inputs that
// an output overwrites. It holds no buffers, so one compiled form serves every session.
//
// The graph is a pure function: every read of Param `slot` sees the input as it was when the run
// began. An effect (assign, an optimiser step) is an output whose `overwrites` names a slot: after
// the run that input's buffer holds the output. Effects are roots like any other output, so none is
// lost, and the scheduler, not the client, decides whether they can be done in place.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/ir/graph.h"

namespace tensord {

// The variable whose value is the number of the device, 0 to devices - 1, that runs a program. Its
// name is none that a user can give.
inline constexpr std::string_view kDeviceIndex = "#device";

struct Program {
  static constexpr int64_t kFresh = -1;

  struct Output {
    const Node* value;
    int64_t overwrites = kFresh;  // an input slot of the same dtype and shape, at most once each
  };

  std::string name;  // for people: "train_step"; no part of the hash
  Graph graph;
  std::vector<const Node*> inputs;     // Param nodes, inputs[i]->slot() == i; unused ones included
  std::vector<const Node*> variables;  // Variable nodes, by name
  std::vector<Output> outputs;
  // On how many devices it runs, the same on each, with inputs and outputs of their own. More than
  // one: the variable kDeviceIndex says which device it is, and Exchange brings values over.
  int64_t devices = 1;
  // Floats may be simplified as if they were real numbers (numerics.md): x * 0 is 0, x / x is 1,
  // sums and products with constants are reordered.
  bool fast_math = false;
};

// Equal exactly for programs that compute the same thing in the same form, whatever process built
// them: the structure as bytes, so that it can be the key of a cache that clients share.
std::string StructuralKey(const Program& program);
// A hash of the same, for clients that look up their own programs.
uint64_t StructuralHash(const Program& program);

}  // namespace tensord
