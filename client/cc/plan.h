// What is known while values become a program. Internal to client/cc.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "client/cc/session.h"
#include "core/ir/dims.h"

namespace tensord::client {

struct Session::Plan {
  // Nodes of the session's graph that are not copied, because a value stands for them.
  absl::flat_hash_map<const Node*, Value*> stands_for;
  std::vector<ValueRef> first;  // to be computed before
  std::vector<ValueRef> kept;   // by nobody else

  Program program;
  std::vector<int64_t> devices;                         // that it runs on
  std::vector<Value*> inputs;                           // by slot
  absl::flat_hash_map<const Value*, int64_t> slots;     // its inverse
  absl::flat_hash_map<const Node*, const Node*> built;  // session's graph to program's

  static const Node* ExpressionOf(const Value& value) {
    return value.init ? value.init : value.node;
  }
  // In the dtype that it is stored in: what was weak may be wider.
  const Node* BuiltFor(const Value& value) {
    return program.graph.Cast(built.at(ExpressionOf(value)), value.dtype);
  }

  int64_t SlotOf(Value& value) {
    auto [it, inserted] = slots.emplace(&value, static_cast<int64_t>(inputs.size()));
    if (inserted) {
      inputs.push_back(&value);
      const Node* param = client::ParamOf(program.graph, it->second, value);
      program.inputs.push_back(param);
      std::vector<const Node*> variables;
      for (const Node* size : param->src) CollectVariables(size, variables);
      for (const Node* variable : variables) AddVariable(variable);
    }
    return it->second;
  }
  const Node* ParamOf(Value& value) { return program.inputs[static_cast<size_t>(SlotOf(value))]; }

  void AddVariable(const Node* variable) {
    auto place = std::lower_bound(program.variables.begin(), program.variables.end(), variable,
                                  [](const Node* a, const Node* b) { return a->text < b->text; });
    if (place == program.variables.end() || *place != variable) {
      program.variables.insert(place, variable);
    }
  }
};

}  // namespace tensord::client
