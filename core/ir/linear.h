// LinearProgram: one kernel as an ordered list of linear-level nodes; what codegen hands to a
// renderer. The nodes live in the kernel's graph, which must outlive this.
//
// `body` is in execution order and a node stands before its users; Const, Param and Variable nodes
// need not stand in it. A Range opens a loop and its End closes it, properly nested; a value that
// is made inside a loop is used inside it only (an Accumulator carries one out).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/ir/node.h"

namespace tensord {

struct LinearProgram {
  std::string name;                 // of the kernel; a C identifier
  std::vector<const Node*> params;  // params[i]->slot() == i, ints = {slot, number of elements}
  std::vector<bool> written;        // per param: some Store names it; such a param may be read too
  std::vector<const Node*> variables;  // in the order of KernelArgs::variables
  std::vector<const Node*> body;
  int64_t grid = 1;  // workgroups: GridIndex counts 0 ... grid-1
};

}  // namespace tensord
