#include "tests/differential/wire_case.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <iterator>
#include <random>

#include "core/base/status.h"
#include "core/ir/dtype.h"
#include "core/ir/op.h"
#include "core/rules/spec.h"
#include "core/wire/program.h"
#include "tests/differential/generate.h"

namespace tensord {
namespace {

// What the reference evaluator has done in a moment.
constexpr WireLimits kLimits = {.max_nodes = 4096, .max_tensor_bytes = 1 << 16};
constexpr int64_t kMostIterations = 64;

class Changer {
 public:
  explicit Changer(uint64_t seed) : random_(seed) {}

  void Change(v1::Program& program) {
    v1::Node& node = *program.mutable_nodes(Below(program.nodes_size()));
    const v1::Node& other = program.nodes(Below(program.nodes_size()));
    switch (Below(11)) {
      case 0:
        node.set_op(Below(2) == 0 ? other.op() : static_cast<uint32_t>(Below(kNumOps + 1)));
        break;
      case 1:
        node.set_dtype(Below(2) == 0 ? other.dtype()
                                     : static_cast<uint32_t>(Below(kNumDTypes + 1)));
        break;
      case 2:
      case 3:
        if (node.src().empty()) break;
        node.set_src(Below(node.src_size()), static_cast<uint32_t>(Below(program.nodes_size())));
        break;
      case 4:
        if (Below(2) == 0 || node.src().empty()) {
          node.add_src(static_cast<uint32_t>(Below(program.nodes_size())));
        } else {
          node.mutable_src()->RemoveLast();
        }
        break;
      case 5:
      case 6:
      case 7:
        if (node.ints().empty()) break;
        node.set_ints(Below(node.ints_size()), Number(other));
        break;
      case 8:
        if (Below(2) == 0 || node.ints().empty()) {
          node.add_ints(Number(other));
        } else {
          node.mutable_ints()->RemoveLast();
        }
        break;
      case 9: {
        v1::Output& output = *program.mutable_outputs(Below(program.outputs_size()));
        if (Below(2) == 0) {
          output.set_node(static_cast<uint32_t>(Below(program.nodes_size())));
        } else {
          output.set_overwrites_plus_one(static_cast<uint32_t>(Below(program.inputs_size() + 2)));
        }
        break;
      }
      case 10:
        if (program.inputs().empty()) break;
        program.set_inputs(Below(program.inputs_size()),
                           static_cast<uint32_t>(Below(program.nodes_size())));
        break;
    }
  }

 private:
  int Below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  int64_t Number(const v1::Node& other) {
    constexpr int64_t kEdges[] = {0,   1,         -1,        2,         7,         32,      63,
                                  255, INT32_MAX, INT64_MAX, INT64_MIN, INT32_MIN, 1 << 20, 3};
    if (Below(2) == 0 && !other.ints().empty()) {
      return other.ints(Below(other.ints_size())) + (Below(3) == 0 ? 1 : 0);
    }
    return kEdges[Below(static_cast<int>(std::size(kEdges)))];
  }

  std::mt19937_64 random_;
};

bool IsForTheEvaluator(const Program& program, absl::Span<const Node* const> outputs) {
  if (program.devices > 1) return false;
  for (const Node* node : TopologicalOrder(outputs)) {
    if (In(node->op,
           OpBit(Op::kExchange) | OpBit(Op::kUserKernel) | OpBit(Op::kUserKernelResult))) {
      return false;
    }
    if (node->op == Op::kLoop && node->ints[1] > kMostIterations) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<Case> GenerateWire(uint64_t seed) {
  Case made = Generate(seed, static_cast<CaseKind>(seed % std::size(kCaseKinds)));
  TD_ASSIGN_OR_RETURN(const Program sent, ProgramOf(made), "of the case itself");
  v1::Program message = Encode(sent);
  Changer changer(seed);
  for (uint64_t changes = 1 + seed % 2; changes > 0; --changes) changer.Change(message);
  v1::Program received;
  if (!received.ParseFromString(message.SerializeAsString())) return Internal("it is no message");

  TD_ASSIGN_OR_RETURN(const Program program, Decode(received, kLimits));
  // What was taken once is taken again, and is the same then.
  const v1::Program again = Encode(program);
  const absl::StatusOr<Program> twice = Decode(again, kLimits);
  if (!twice.ok()) return Internal("it is taken once and not twice: {}", Message(twice.status()));
  if (!google::protobuf::util::MessageDifferencer::Equals(Encode(*twice), again)) {
    return Internal("it is not the same when it was taken twice");
  }

  Case test;
  test.seed = seed;
  test.values = made.values;
  std::vector<const Node*> outputs;
  for (const Program::Output& output : program.outputs) {
    outputs.push_back(output.value);
    test.overwrites.push_back(output.overwrites);
  }
  if (!IsForTheEvaluator(program, outputs)) {
    return MakeStatus(absl::StatusCode::kOutOfRange, "not for the evaluator");
  }
  test.outputs = CopyTo(test.graph, outputs);
  // What Decode leaves to who schedules.
  TD_RETURN_IF_ERROR(VerifyTensor(test.outputs));
  // An input that nothing reads has no place in the text of a case.
  const absl::StatusOr<std::vector<const Node*>> params = ParamsOf(test);
  if (!params.ok() || params->size() != program.inputs.size()) {
    return MakeStatus(absl::StatusCode::kOutOfRange, "it has inputs that nothing reads");
  }
  return test;
}

}  // namespace tensord
