#include "core/schedule/exchange.h"

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include <algorithm>

#include "core/base/status.h"
#include "core/ir/loop.h"
#include "core/schedule/parts.h"

namespace tensord {
namespace {

// What is dear enough to be kept: the rest costs less to compute again than to store.
constexpr OpSet kDear = OpBit(Op::kReduce) | OpBit(Op::kGather) | OpBit(Op::kScan) |
                        OpBit(Op::kScatter) | OpBit(Op::kLoopResult) | OpBit(Op::kContiguous) |
                        OpBit(Op::kUserKernelResult);

class ExchangeScheduler {
 public:
  explicit ExchangeScheduler(const Program& program) : parts_(program) {}

  absl::StatusOr<Schedule> Run() {
    TD_ASSIGN_OR_RETURN(const std::vector<const Node*> roots, parts_.Begin());
    order_ = TopologicalOrder(roots);
    in_loops_ = loop::Inside(order_);
    const int last = SetLevels(roots);
    for (int level = 0; level < last; ++level) TD_RETURN_IF_ERROR(AddLevel(level));
    TD_RETURN_IF_ERROR(parts_.AddOutputs(roots));
    return std::move(parts_.schedule());
  }

 private:
  // A node's level: the most Exchanges on a path down from it. Returns how many levels end in
  // Exchanges.
  int SetLevels(absl::Span<const Node* const> roots) {
    int last = 0;
    for (const Node* node : order_) {
      int level = 0;
      for (const Node* src : node->src) {
        level = std::max(level, level_[src] + (src->op == Op::kExchange ? 1 : 0));
      }
      level_[node] = level;
      if (node->op == Op::kExchange) last = std::max(last, level + 1);
    }
    for (const Node* node : order_) {
      for (const Node* src : node->src) {
        if (node->op != Op::kExchange) Use(src, level_[node]);
      }
    }
    for (const Node* root : roots) Use(root, last);
    return last;
  }
  void Use(const Node* node, int level) {
    int& used = last_use_[node];
    used = std::max(used, level);
  }

  // The part of one level, with the Exchanges that end it.
  absl::Status AddLevel(int level) {
    absl::flat_hash_set<const Node*> dear;
    std::vector<const Node*> exchanges, values;
    absl::flat_hash_set<const Node*> taken;
    const auto take = [&](const Node* value) {
      if (!parts_.IsComputed(value) && taken.insert(value).second) values.push_back(value);
    };
    for (const Node* node : order_) {
      if (level_[node] > level || node->op == Op::kExchange || parts_.IsComputed(node)) continue;
      const bool is_dear =
          In(node->op, kDear) ||
          std::ranges::any_of(node->src, [&](const Node* src) { return dear.contains(src); });
      if (is_dear) dear.insert(node);
    }
    for (const Node* node : order_) {
      if (level_[node] > level) continue;
      if (node->op == Op::kExchange) {
        if (level_[node] == level) exchanges.push_back(node);
        continue;
      }
      if (last_use_[node] <= level) continue;
      // Movement may repeat elements, and costs nothing: what it moves is kept.
      const Node* kept = node;
      while (In(kept->op, MovementOps())) kept = kept->src[0];
      if (dear.contains(kept) && kept->dtype != DType::kVoid && !in_loops_.contains(kept))
        take(kept);
    }
    const size_t frontier = values.size();
    for (const Node* exchange : exchanges) take(exchange->src[0]);

    std::vector<int> buffers;
    for (const Node* value : values) {
      buffers.push_back(parts_.AddBuffer(Schedule::Kind::kTemporary, -1, value));
    }
    TD_RETURN_IF_ERROR(parts_.AddPart(values, buffers));
    for (size_t i = 0; i < values.size(); ++i) {
      if (i < frontier) parts_.AddInput(values[i], buffers[i]);
    }
    for (const Node* exchange : exchanges) {
      const Node* source = exchange->src[0];
      const auto place = std::ranges::find(values, source);
      const int from =
          place != values.end() ? buffers[place - values.begin()] : parts_.BufferOf(source);
      const int to = parts_.AddBuffer(Schedule::Kind::kTemporary, -1, exchange);
      parts_.schedule().steps.push_back({.kernel = Schedule::Step::kExchange,
                                         .buffers = {to, from},
                                         .exchange = exchange->exchange_kind(),
                                         .shift = exchange->exchange_shift(),
                                         .meets = exchange == exchanges.front()});
      parts_.AddInput(exchange, to);
    }
    return absl::OkStatus();
  }

  Parts parts_;
  std::vector<const Node*> order_;
  absl::flat_hash_map<const Node*, int> level_, last_use_;
  absl::flat_hash_set<const Node*> in_loops_;
};

}  // namespace

bool HasExchanges(const Program& program) {
  return std::ranges::any_of(program.outputs, [](const Program::Output& output) {
    return (output.value->below_ops & OpBit(Op::kExchange)) != 0;
  });
}

absl::StatusOr<Schedule> ScheduleExchanges(const Program& program) {
  return ExchangeScheduler(program).Run();
}

}  // namespace tensord
