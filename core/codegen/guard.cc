#include "core/codegen/guard.h"

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include <algorithm>
#include <vector>

#include "core/base/status.h"

namespace tensord {
namespace {

constexpr OpSet kUnlisted = OpBit(Op::kConst) | OpBit(Op::kParam) | OpBit(Op::kVariable);

// Where the gate of an access stands among its sources.
size_t GateOf(const Node* access) { return access->op == Op::kLoad ? 2 : 3; }
int64_t LanesOf(const Node* access) {
  return access->op == Op::kLoad ? access->lanes : access->src[2]->lanes;
}

// Makes the body anew. Whether an index is inside is decided where the index is known, and a gate
// is made where that and the old gate are: so whoever sees its parts sees the gate, and none is
// made twice.
class Guarder {
 public:
  Guarder(Graph& graph, absl::Span<const Node* const> accesses, LinearProgram& program)
      : graph_(graph), accesses_(accesses), program_(program) {}

  void Run() {
    std::vector<const Node*> body;
    body.swap(program_.body);
    absl::flat_hash_map<const Node*, size_t> place;  // 1 + position; 0: in front of all
    for (size_t i = 0; i < body.size(); ++i) place[body[i]] = i + 1;
    std::vector<std::vector<const Node*>> known_at(body.size() + 1), gated_at(body.size() + 1);
    for (const Node* access : accesses_) {
      const size_t known = place[access->src[1]];
      known_at[known].push_back(access);
      const size_t gate = GateOf(access);
      const bool gated = access->src.size() > gate;
      gated_at[gated ? std::max(known, place[access->src[gate]]) : known].push_back(access);
    }
    for (size_t at = 0; at <= body.size(); ++at) {
      if (at > 0) List(Remade(body[at - 1]));
      for (const Node* access : known_at[at]) inside_[access] = Inside(access);
      for (const Node* access : gated_at[at]) {
        const Node* gate = inside_.at(access);
        if (access->src.size() > GateOf(access)) {
          const Node* old = New(access->src[GateOf(access)]);
          if (old->lanes < gate->lanes) {
            old = graph_.Make({.op = Op::kBroadcast, .src = {old}, .lanes = gate->lanes});
          }
          gate = graph_.Make(Op::kAnd, {old, gate});
        }
        List(gate);
        gates_[access] = gate;
      }
    }
  }

 private:
  const Node* New(const Node* node) const {
    const auto found = remade_.find(node);
    return found == remade_.end() ? node : found->second;
  }

  // The node over what its sources have become, and with its new gate.
  const Node* Remade(const Node* node) {
    std::vector<const Node*> src;
    for (const Node* s : node->src) src.push_back(New(s));
    if (const auto gate = gates_.find(node); gate != gates_.end()) {
      src.resize(GateOf(node));
      src.push_back(gate->second);
    }
    if (absl::MakeConstSpan(src) == node->src) return node;
    const bool declares_lanes = node->op == Op::kLoad || node->op == Op::kBroadcast;
    return remade_[node] = graph_.Intern({.op = node->op,
                                          .src = src,
                                          .ints = node->ints,
                                          .text = node->text,
                                          .dtype = node->dtype,
                                          .lanes = declares_lanes ? node->lanes : uint16_t{0}});
  }

  // Whether the index of the access is inside of its buffer, for each lane. In int64 rather than
  // index, whose normal form may be made of parts that aren't known here.
  const Node* Inside(const Node* access) {
    const Node* index = graph_.Cast(New(access->src[1]), DType::kInt64);
    const int64_t elements = access->src[0]->ints[1];
    std::vector<const Node*> lanes;
    for (int64_t lane = 0; lane < LanesOf(access); ++lane) {
      const Node* above = graph_.Make(Op::kCmpLt, {graph_.Int(DType::kInt64, -1 - lane), index});
      const Node* below =
          graph_.Make(Op::kCmpLt, {index, graph_.Int(DType::kInt64, elements - lane)});
      lanes.push_back(graph_.Make(Op::kAnd, {above, below}));
    }
    const Node* inside =
        lanes.size() == 1 ? lanes[0] : graph_.Make({.op = Op::kStack, .src = lanes});
    List(inside);
    return inside;
  }

  // Puts the node, and what it is newly made from, into the body.
  void List(const Node* node) {
    if (In(node->op, kUnlisted) || listed_.contains(node)) return;
    for (const Node* src : node->src) List(src);
    listed_.insert(node);
    program_.body.push_back(node);
  }

  Graph& graph_;
  const absl::Span<const Node* const> accesses_;
  LinearProgram& program_;
  absl::flat_hash_map<const Node*, const Node*> remade_, inside_, gates_;
  absl::flat_hash_set<const Node*> listed_;
};

}  // namespace

absl::Status Guard(Graph& graph, absl::Span<const Node* const> accesses, LinearProgram& program) {
  for (const Node* access : accesses) {
    if (access->src[1]->lanes != 1) {
      return InvalidArgument("kernel {}: an index with lanes is not known to be in bounds",
                             program.name);
    }
  }
  if (!accesses.empty()) Guarder(graph, accesses, program).Run();
  return absl::OkStatus();
}

}  // namespace tensord
