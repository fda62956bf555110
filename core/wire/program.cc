#include "core/wire/program.h"

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>
#include <absl/container/inlined_vector.h>
#include <absl/numeric/int128.h>
#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>

#include <bit>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "core/ir/dims.h"
#include "core/rules/user_kernel.h"

namespace tensord {
namespace {

using MadeNodes = std::vector<const Node*>;  // by index on the wire

std::string_view OpText(uint32_t op) {
  return op < kNumOps ? Name(static_cast<Op>(op)) : std::string_view("?");
}

absl::StatusOr<Op> DecodeOp(uint32_t number) {
  if (number >= kNumOps) {
    return InvalidArgument("op number {} is unknown: this build knows 0 to {}", number,
                           kNumOps - 1);
  }
  const Op op = static_cast<Op>(number);
  // Sink groups roots inside the compiler; on the wire the outputs are the roots.
  if ((Info(op).levels & kTensorLevel) == 0 || op == Op::kSink) {
    return InvalidArgument("the op is not legal in a tensor graph");
  }
  return op;
}

absl::StatusOr<DType> DecodeDType(Op op, uint32_t number) {
  const bool declared = Info(op).dtype == DTypeRule::kDeclared;
  if (!declared) {
    if (number != 0) return InvalidArgument("the dtype follows from the operands: send none");
    return DType::kVoid;
  }
  if (number >= kNumDTypes) {
    return InvalidArgument("dtype number {} is unknown: this build knows 1 to {}", number,
                           kNumDTypes - 1);
  }
  const DType dtype = static_cast<DType>(number);
  // Sizes that vary are indices: CheckIndex says which.
  const bool is_size = dtype == DType::kIndex && (op == Op::kConst || op == Op::kCast);
  if (ItemSize(dtype) == 0 && !is_size) {
    return InvalidArgument("dtype {} is not legal in a tensor graph", Name(dtype));
  }
  return dtype;
}

absl::StatusOr<const Node*> DecodeConst(Graph& graph, DType dtype, const v1::Node& message) {
  if (message.src_size() != 0 || message.ints_size() != 1) {
    return InvalidArgument("{} operands and {} numbers, needs 0 and 1", message.src_size(),
                           message.ints_size());
  }
  const int64_t bits = message.ints(0);
  if (IsFloat(dtype)) return graph.Float(dtype, std::bit_cast<double>(bits));
  if (dtype == DType::kIndex) TD_RETURN_IF_ERROR(CheckDim(graph.Index(bits)));
  // Values are canonical in a graph (an int8 lies in [-128, 127]); Int brings them there.
  return graph.Int(dtype, bits);
}

absl::Status CheckVariable(DType dtype, const v1::Node& message, const WireLimits& limits) {
  if (message.text().size() > limits.max_name_bytes) {
    return InvalidArgument("its name has {} bytes, more than {}", message.text().size(),
                           limits.max_name_bytes);
  }
  if (!IsInt(dtype) || message.ints_size() != 2) return absl::OkStatus();  // TryMake says so
  if (dtype != DType::kUint64 &&
      (message.ints(0) < IntMin(dtype) || message.ints(1) > IntMax(dtype))) {
    return InvalidArgument("bounds [{}, {}] are outside of {}", message.ints(0), message.ints(1),
                           Name(dtype));
  }
  return absl::OkStatus();
}

absl::Status CheckSize(const Node* node, const WireLimits& limits) {
  if (node->rank() > limits.max_rank) {
    return InvalidArgument("rank {} is above the limit of {}", node->rank(), limits.max_rank);
  }
  absl::int128 bytes = ItemSize(node->dtype);
  bool empty = false;
  for (int64_t dim : node->shape) {
    empty |= dim == 0;
    bytes *= dim > 0 ? dim : 1;
    if (bytes > limits.max_tensor_bytes && !empty) {
      return ResourceExhausted("{}[{}] is larger than the limit of {} bytes for one tensor",
                               Name(node->dtype), fmt::join(node->shape, ", "),
                               limits.max_tensor_bytes);
    }
  }
  return absl::OkStatus();
}

// Indices at tensor level are the sizes of tensors and what those are made of. Arithmetic on them
// takes for granted that nothing overflows, so it is checked before it is done.
absl::Status CheckIndex(Op op, DType dtype, absl::Span<const Node* const> src) {
  bool any = dtype == DType::kIndex;
  for (const Node* operand : src) any |= operand->dtype == DType::kIndex;
  if (!any || HasSizes(op)) return absl::OkStatus();
  if (!In(op, kDimOps) || (!src.empty() && !src[0]->shape.empty())) {
    return InvalidArgument("an index serves as a size and in arithmetic of scalars only");
  }
  if (op == Op::kCast && !src.empty() && !IsInt(src[0]->dtype) && src[0]->dtype != DType::kIndex) {
    return InvalidArgument("a {} does not become an index", Name(src[0]->dtype));
  }
  if (src.size() == 2 && src[0]->dtype == DType::kIndex && src[1]->dtype == DType::kIndex) {
    return CheckDimOp(op, src[0], src[1]);
  }
  return absl::OkStatus();
}

absl::StatusOr<const Node*> DecodeNode(Graph& graph, const v1::Node& message, uint32_t index,
                                       size_t total, const MadeNodes& made,
                                       const WireLimits& limits) {
  if (!message.GetReflection()->GetUnknownFields(message).empty()) {
    return InvalidArgument("it has fields that this build doesn't know: upgrade the daemon");
  }
  TD_ASSIGN_OR_RETURN(const Op op, DecodeOp(message.op()));
  TD_ASSIGN_OR_RETURN(const DType dtype, DecodeDType(op, message.dtype()));
  absl::InlinedVector<const Node*, 4> src;
  for (uint32_t from : message.src()) {
    if (from >= total) {
      return InvalidArgument("source {} does not exist: the graph has {} nodes", from, total);
    }
    if (from >= index) {
      return InvalidArgument(
          "source {} does not come before it: the graph has a cycle or is out of order", from);
    }
    src.push_back(made[from]);
  }
  if (!message.text().empty() && op != Op::kVariable && op != Op::kUserKernel) {
    return InvalidArgument("only a Variable and a UserKernel have a text");
  }
  if (message.ints_size() > 2 * limits.max_rank + 2 && op != Op::kUserKernel) {
    return InvalidArgument("{} numbers in the attribute: rank is limited to {}",
                           message.ints_size(), limits.max_rank);
  }
  if (op == Op::kConst) return DecodeConst(graph, dtype, message);
  if (op == Op::kVariable) TD_RETURN_IF_ERROR(CheckVariable(dtype, message, limits));
  TD_RETURN_IF_ERROR(CheckIndex(op, dtype, src));
  const absl::Span<const int64_t> ints(message.ints().data(), message.ints_size());
  TD_ASSIGN_OR_RETURN(
      const Node* node,
      graph.TryMake({.op = op, .src = src, .ints = ints, .text = message.text(), .dtype = dtype}));
  if (node->dtype == DType::kIndex) {
    if (!IsDim(node)) return InvalidArgument("an index that is not made of variables");
    TD_RETURN_IF_ERROR(CheckDim(node));
  }
  if (node->op == Op::kUserKernel) TD_RETURN_IF_ERROR(ReadUserKernel(node).status());
  TD_RETURN_IF_ERROR(CheckSize(node, limits));
  return node;
}

absl::Status DecodeNodes(const v1::Program& message, const WireLimits& limits, Graph& graph,
                         MadeNodes& made) {
  const size_t total = message.nodes_size();
  if (total > limits.max_nodes) {
    return ResourceExhausted("the graph has {} nodes, more than the limit of {}", total,
                             limits.max_nodes);
  }
  made.reserve(total);
  for (uint32_t i = 0; i < total; ++i) {
    const v1::Node& node = message.nodes(i);
    TD_ASSIGN_OR_RETURN(const Node* result, DecodeNode(graph, node, i, total, made, limits),
                        "node {} ({})", i, OpText(node.op()));
    made.push_back(result);
  }
  return absl::OkStatus();
}

absl::StatusOr<const Node*> Lookup(const MadeNodes& made, uint32_t index) {
  if (index < made.size()) return made[index];
  return InvalidArgument("node {} does not exist: the graph has {} nodes", index, made.size());
}

absl::Status DecodeInputs(const v1::Program& message, const MadeNodes& made, Program& program) {
  for (int slot = 0; slot < message.inputs_size(); ++slot) {
    TD_ASSIGN_OR_RETURN(const Node* node, Lookup(made, message.inputs(slot)), "input {}", slot);
    if (node->op != Op::kParam) {
      return InvalidArgument("input {}: node {} is a {}, needs a Param", slot, message.inputs(slot),
                             Name(node->op));
    }
    if (node->slot() != slot) {
      return InvalidArgument("input {}: node {} has slot {}: each slot must stand once, in order",
                             slot, message.inputs(slot), node->slot());
    }
    program.inputs.push_back(node);
  }
  for (size_t i = 0; i < made.size(); ++i) {
    const Node* node = made[i];
    if (node->op != Op::kParam) continue;
    if (node->slot() >= static_cast<int64_t>(program.inputs.size())) {
      return InvalidArgument("node {} (Param): slot {} is not among the {} inputs", i, node->slot(),
                             program.inputs.size());
    }
    if (program.inputs[node->slot()] != node) {
      return InvalidArgument("node {} (Param): input {} is {}[{}], not {}[{}]", i, node->slot(),
                             Name(program.inputs[node->slot()]->dtype),
                             fmt::join(program.inputs[node->slot()]->shape, ", "),
                             Name(node->dtype), fmt::join(node->shape, ", "));
    }
  }
  return absl::OkStatus();
}

absl::Status DecodeVariables(const v1::Program& message, const MadeNodes& made, Program& program) {
  absl::flat_hash_map<std::string, const Node*> by_name;
  for (int i = 0; i < message.variables_size(); ++i) {
    TD_ASSIGN_OR_RETURN(const Node* node, Lookup(made, message.variables(i)), "variable {}", i);
    if (node->op != Op::kVariable) {
      return InvalidArgument("variable {}: node {} is a {}, needs a Variable", i,
                             message.variables(i), Name(node->op));
    }
    if (!by_name.emplace(std::string(node->text), node).second) {
      return InvalidArgument("variable {}: the name '{}' stands twice", i, node->text);
    }
    program.variables.push_back(node);
  }
  for (size_t i = 0; i < made.size(); ++i) {
    const Node* node = made[i];
    if (node->op != Op::kVariable) continue;
    const auto found = by_name.find(std::string(node->text));
    if (found == by_name.end()) {
      return InvalidArgument("node {} (Variable): '{}' is not among the program's variables", i,
                             node->text);
    }
    if (found->second != node) {
      return InvalidArgument("node {} (Variable): '{}' has other bounds or another dtype elsewhere",
                             i, node->text);
    }
  }
  return absl::OkStatus();
}

absl::Status DecodeOutputs(const v1::Program& message, const MadeNodes& made, Program& program) {
  if (message.outputs_size() == 0) return InvalidArgument("the program has no outputs");
  absl::flat_hash_set<int64_t> overwritten;
  for (int i = 0; i < message.outputs_size(); ++i) {
    const v1::Output& output = message.outputs(i);
    TD_ASSIGN_OR_RETURN(const Node* node, Lookup(made, output.node()), "output {}", i);
    if (ItemSize(node->dtype) == 0) {
      return InvalidArgument("output {}: {} is not legal in memory", i, Name(node->dtype));
    }
    const int64_t slot = int64_t{output.overwrites_plus_one()} - 1;
    if (slot == Program::kFresh) {
      program.outputs.push_back({.value = node});
      continue;
    }
    if (slot >= static_cast<int64_t>(program.inputs.size())) {
      return InvalidArgument("output {}: overwrites input {}, but there are {} inputs", i, slot,
                             program.inputs.size());
    }
    const Node* input = program.inputs[slot];
    if (input->dtype != node->dtype || !SameShape(input, node)) {
      return InvalidArgument("output {}: {}{} cannot overwrite input {}, which is {}{}", i,
                             Name(node->dtype), ShapeText(node), slot, Name(input->dtype),
                             ShapeText(input));
    }
    if (!overwritten.insert(slot).second) {
      return InvalidArgument("output {}: input {} is overwritten by an earlier output already", i,
                             slot);
    }
    program.outputs.push_back({.value = node, .overwrites = slot});
  }
  return absl::OkStatus();
}

// Of how many devices the program is, and that all of it agrees.
absl::Status DecodeDevices(const v1::Program& message, const MadeNodes& made, Program& program) {
  program.devices = message.devices() == 0 ? 1 : message.devices();
  if (program.devices > kMaxDevices) {
    return ResourceExhausted("the program is for {} devices, more than the limit of {}",
                             program.devices, kMaxDevices);
  }
  for (size_t i = 0; i < made.size(); ++i) {
    const Node* node = made[i];
    if (node->op == Op::kExchange && node->exchange_devices() != program.devices) {
      return InvalidArgument("node {} (Exchange): it is among {} devices, the program is for {}", i,
                             node->exchange_devices(), program.devices);
    }
    if (node->op == Op::kVariable && node->text == kDeviceIndex &&
        (program.devices < 2 || node->ints[0] != 0 || node->ints[1] != program.devices - 1)) {
      return InvalidArgument("node {} (Variable): '{}' of a program for {} devices is in [{}, {}]",
                             i, kDeviceIndex, program.devices, node->ints[0], node->ints[1]);
    }
  }
  return absl::OkStatus();
}

// As they are sent.
std::vector<const Node*> NodesOf(const Program& program) {
  std::vector<const Node*> roots(program.inputs);
  roots.insert(roots.end(), program.variables.begin(), program.variables.end());
  for (const Program::Output& output : program.outputs) roots.push_back(output.value);
  return TopologicalOrder(roots);
}

// Either form of a program.
template <typename Inputs, typename Variables, typename Outputs>
absl::Status CheckCounts(std::string_view name, const Inputs& inputs, const Variables& variables,
                         const Outputs& outputs, const WireLimits& limits) {
  if (name.size() > limits.max_name_bytes) {
    return InvalidArgument("the program's name has {} bytes, more than {}", name.size(),
                           limits.max_name_bytes);
  }
  const std::pair<const char*, size_t> counts[] = {
      {"inputs", static_cast<size_t>(inputs.size())},
      {"variables", static_cast<size_t>(variables.size())},
      {"outputs", static_cast<size_t>(outputs.size())}};
  for (const auto& [what, count] : counts) {
    if (count > limits.max_inputs) {
      return ResourceExhausted("the program has {} {}, more than the limit of {}", count, what,
                               limits.max_inputs);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckLimits(const Program& program, const WireLimits& limits) {
  TD_RETURN_IF_ERROR(
      CheckCounts(program.name, program.inputs, program.variables, program.outputs, limits));
  const std::vector<const Node*> nodes = NodesOf(program);
  if (nodes.size() > limits.max_nodes) {
    return ResourceExhausted("the graph has {} nodes, more than the limit of {}", nodes.size(),
                             limits.max_nodes);
  }
  for (const Node* node : nodes) TD_RETURN_IF_ERROR(CheckSize(node, limits), "{}", Name(node->op));
  return absl::OkStatus();
}

v1::Program Encode(const Program& program) {
  v1::Program message;
  message.set_name(program.name);
  message.set_fast_math(program.fast_math);
  message.set_devices(static_cast<uint32_t>(program.devices));
  absl::flat_hash_map<const Node*, uint32_t> index;
  for (const Node* node : NodesOf(program)) {
    index[node] = static_cast<uint32_t>(message.nodes_size());
    v1::Node* out = message.add_nodes();
    out->set_op(static_cast<uint32_t>(node->op));
    if (Info(node->op).dtype == DTypeRule::kDeclared) {
      out->set_dtype(static_cast<uint32_t>(node->dtype));
    }
    for (const Node* src : node->src) out->add_src(index.at(src));
    out->mutable_ints()->Add(node->ints.begin(), node->ints.end());
    out->set_text(std::string(node->text));
  }
  for (const Node* input : program.inputs) message.add_inputs(index.at(input));
  for (const Node* variable : program.variables) message.add_variables(index.at(variable));
  for (const Program::Output& output : program.outputs) {
    v1::Output* out = message.add_outputs();
    out->set_node(index.at(output.value));
    out->set_overwrites_plus_one(static_cast<uint32_t>(output.overwrites + 1));
  }
  return message;
}

absl::StatusOr<Program> Decode(const v1::Program& message, const WireLimits& limits) {
  TD_RETURN_IF_ERROR(CheckCounts(message.name(), message.inputs(), message.variables(),
                                 message.outputs(), limits));
  Program program;
  program.name = message.name();
  program.fast_math = message.fast_math();
  MadeNodes made;
  TD_RETURN_IF_ERROR(DecodeNodes(message, limits, program.graph, made));
  TD_RETURN_IF_ERROR(DecodeInputs(message, made, program));
  TD_RETURN_IF_ERROR(DecodeVariables(message, made, program));
  TD_RETURN_IF_ERROR(DecodeOutputs(message, made, program));
  TD_RETURN_IF_ERROR(DecodeDevices(message, made, program));
  return program;
}

}  // namespace tensord
