#include "core/codegen/instructions.h"

#include <algorithm>

#include "core/base/check.h"

namespace tensord {

Region* Instructions::AddLoop(const Node* range, const Node* linear, Region* parent) {
  regions_.push_back(std::make_unique<Region>());
  Region* region = regions_.back().get();
  region->range = linear;
  region->parent = parent;
  region->depth = parent == nullptr ? 0 : parent->depth + 1;
  if (range != nullptr) region_of_range_[range] = region_of_range_[linear] = region;
  return region;
}

Region* Instructions::LoopOf(const Node* range) const {
  const auto found = region_of_range_.find(range);
  return found == region_of_range_.end() ? nullptr : found->second;
}

Region* Instructions::RegionOf(const Node* linear) const {
  const auto& regions = linear->op == Op::kRange ? region_of_range_ : region_of_;
  auto found = regions.find(linear);
  return found == regions.end() ? root_ : found->second;
}

const Node* Instructions::Emit(const NodeSpec& spec, Region* at_least) {
  const Node* node = graph_.Make(spec);
  Place(node, at_least == nullptr ? root_ : at_least);
  return node;
}

void Instructions::Place(const Node* node, Region* region) {
  constexpr OpSet kEverywhere =
      OpBit(Op::kConst) | OpBit(Op::kParam) | OpBit(Op::kVariable) | OpBit(Op::kRange);
  if (In(node->op, kEverywhere) || region_of_.contains(node)) return;
  // The smart constructor may have made another node than asked for, with parts that are new.
  for (const Node* src : node->src) {
    Place(src, root_);
    region = Deeper(region, RegionOf(src));
  }
  region_of_[node] = region;
  region->items.push_back(node);
}

const Node* Instructions::EmitOp(Op op, std::vector<const Node*> src, std::vector<int64_t> ints) {
  return Emit({.op = op, .src = src, .ints = ints});
}

const Node* Instructions::Widen(const Node* value, int lanes) {
  if (value->lanes == lanes) return value;
  TD_CHECK(value->lanes == 1, "lanes differ");
  return Emit({.op = Op::kBroadcast, .src = {value}, .lanes = static_cast<uint16_t>(lanes)});
}

void Instructions::Flatten(const Region* region, std::vector<const Node*>& body) {
  if (region->range != nullptr) body.push_back(region->range);
  for (const auto& item : region->items) {
    if (const Node* const* node = std::get_if<const Node*>(&item)) {
      body.push_back(*node);
    } else {
      Flatten(std::get<Region*>(item), body);
    }
  }
  if (region->range != nullptr) {
    body.push_back(graph_.Make(Op::kEnd, {region->range}));
  }
}

}  // namespace tensord
