#include "tests/compiler/linear_interpreter.h"

#include <absl/container/flat_hash_map.h>

#include <array>

#include "core/base/check.h"
#include "core/base/status.h"
#include "core/ir/text.h"

namespace tensord {
namespace {

using Lanes = std::vector<Scalar>;

class Interpreter {
 public:
  Interpreter(const LinearProgram& program, const std::vector<Elements*>& buffers,
              const std::map<std::string, int64_t, std::less<>>& variables)
      : program_(program), buffers_(buffers), variables_(variables) {}

  absl::Status RunGroup(int64_t group) {
    group_ = group;
    absl::flat_hash_map<const Node*, size_t> loop_starts;
    for (size_t at = 0; at < program_.body.size(); ++at) {
      const Node* node = program_.body[at];
      if (node->op == Op::kRange) {
        loop_starts[node] = at;
        values_[node] = {Scalar::Int(DType::kIndex, 0)};
      } else if (node->op == Op::kEnd) {
        const Node* range = node->src[0];
        int64_t& count = values_.at(range)[0].i;
        if (++count < range->range_size()) at = loop_starts.at(range);
      } else {
        TD_RETURN_IF_ERROR(Execute(*node));
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Execute(const Node& node) {
    switch (node.op) {
      case Op::kGridIndex:
        return Set(node, {Scalar::Int(DType::kIndex, group_)});
      case Op::kLoad:
      case Op::kStore:
        return Access(node);
      case Op::kUpdate:
        return Set(*node.src[0], Of(node.src[1]));
      case Op::kAccumulator:
      case Op::kRead:
        return Set(node, Of(node.src[0]));
      case Op::kBroadcast:
        return Set(node, Lanes(node.lanes, Of(node.src[0])[0]));
      case Op::kRamp: {
        Lanes lanes;
        for (int64_t lane = 0; lane < node.lanes; ++lane) {
          lanes.push_back(Scalar::Int(node.dtype, lane));
        }
        return Set(node, std::move(lanes));
      }
      case Op::kStack: {
        Lanes lanes;
        for (const Node* src : node.src) lanes.push_back(Of(src)[0]);
        return Set(node, std::move(lanes));
      }
      case Op::kExtract:
        return Set(node, {Of(node.src[0])[node.slot()]});
      case Op::kHorizontal: {
        const Lanes lanes = Of(node.src[0]);
        Scalar total = lanes[0];
        for (size_t lane = 1; lane < lanes.size(); ++lane) {
          const Scalar both[] = {total, lanes[lane]};
          total = *EvalOp(CombineOp(node.reduce_kind()), node.dtype, both);
        }
        return Set(node, {total});
      }
      default:
        return Elementwise(node);
    }
  }

  absl::Status Elementwise(const Node& node) {
    Lanes lanes;
    for (int lane = 0; lane < node.lanes; ++lane) {
      std::array<Scalar, 3> src;
      for (size_t s = 0; s < node.src.size(); ++s) src[s] = Of(node.src[s])[lane];
      const auto value = EvalOp(node.op, node.dtype, {src.data(), node.src.size()});
      TD_CHECK(value.has_value(), Name(node.op));
      lanes.push_back(*value);
    }
    return Set(node, std::move(lanes));
  }

  // Lanes of the index, or consecutive elements from a scalar one.
  absl::Status Access(const Node& node) {
    const bool is_load = node.op == Op::kLoad;
    Elements& buffer = *buffers_[node.src[0]->slot()];
    const Lanes index = Of(node.src[1]);
    const size_t gate_at = is_load ? 2 : 3;
    const Lanes gate = node.src.size() > gate_at ? Of(node.src[gate_at]) : Lanes();
    Lanes lanes = is_load ? Lanes(node.lanes, Scalar::Of(node.dtype, 0)) : Of(node.src[2]);
    for (size_t lane = 0; lane < lanes.size(); ++lane) {
      if (!gate.empty() && gate[gate.size() > 1 ? lane : 0].i == 0) continue;
      const int64_t at = index.size() > 1 ? index[lane].i : index[0].i + static_cast<int64_t>(lane);
      if (at < 0 || at >= static_cast<int64_t>(buffer.size())) {
        return InvalidArgument("element {} of {}: {}", at, buffer.size(), PrintNode(&node));
      }
      (is_load ? lanes[lane] : buffer[at]) = is_load ? buffer[at] : lanes[lane];
    }
    return is_load ? Set(node, std::move(lanes)) : absl::OkStatus();
  }

  Lanes Of(const Node* node) const {
    if (node->IsConst()) return {Scalar::FromAttribute(node->dtype, node->ints[0])};
    if (node->op == Op::kVariable) {
      return {Scalar::Int(node->dtype, variables_.find(node->text)->second)};
    }
    return values_.at(node);
  }

  absl::Status Set(const Node& node, Lanes lanes) {
    values_[&node] = std::move(lanes);
    return absl::OkStatus();
  }

  const LinearProgram& program_;
  const std::vector<Elements*>& buffers_;
  const std::map<std::string, int64_t, std::less<>>& variables_;
  absl::flat_hash_map<const Node*, Lanes> values_;
  int64_t group_ = 0;
};

}  // namespace

absl::Status Interpret(const LinearProgram& program, const std::vector<Elements*>& buffers,
                       const std::map<std::string, int64_t, std::less<>>& variables) {
  Interpreter interpreter(program, buffers, variables);
  for (int64_t group = 0; group < program.grid; ++group) {
    TD_RETURN_IF_ERROR(interpreter.RunGroup(group));
  }
  return absl::OkStatus();
}

}  // namespace tensord
