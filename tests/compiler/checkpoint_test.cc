// Checkpoints and the schedule: what is computed again is not kept in memory meanwhile.
#include <gtest/gtest.h>

#include <vector>

#include "core/ir/program.h"
#include "core/ir/substitute.h"
#include "core/schedule/schedule.h"
#include "core/tensor/custom_gradient.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/gradient.h"
#include "core/tensor/nn.h"
#include "core/tensor/reduce.h"

namespace tensord {
namespace {

// As a session does it: what is sent of a value with a derivative of its own is the value.
std::vector<const Node*> Plain(Graph& graph, std::vector<const Node*> roots) {
  while (true) {
    ReplacementMap values;
    for (const Node* node : TopologicalOrder(roots)) {
      if (const auto custom = CustomGradient::Of(node); custom && values.empty()) {
        values[node] = {custom->value};
      }
    }
    if (values.empty()) return roots;
    roots = Substitute(graph, roots, values);
  }
}

// Memory for intermediates of a chain of blocks, forward and backward.
uint64_t ScratchBytes(int blocks, int layers, bool checkpoints) {
  constexpr int64_t kRows = 256, kWidth = 64;
  Program program;
  Graph& graph = program.graph;
  const auto input = [&](int64_t rows) {
    const auto slot = static_cast<int64_t>(program.inputs.size());
    program.inputs.push_back(graph.Param(slot, DType::kFloat32, {rows, kWidth}));
    return Expr(&graph, program.inputs.back());
  };
  Expr x = input(kRows);
  std::vector<Expr> weights;
  for (int block = 0; block < blocks; ++block) {
    const Expr before = x;
    for (int layer = 0; layer < layers; ++layer) {
      weights.push_back(input(kWidth));
      x = Sin(MatMul(x, weights.back()));
    }
    if (checkpoints) x = Checkpoint({x}, {before})[0];
  }
  std::vector<const Node*> roots;
  for (const Expr& gradient : Gradient(Sum(x), weights)) {
    EXPECT_TRUE(gradient.ok()) << gradient.status();
    roots.push_back(gradient.node());
  }
  for (const Node* root : Plain(graph, roots)) program.outputs.push_back({.value = root});
  const absl::StatusOr<Schedule> schedule = MakeSchedule(program);
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  return schedule.ok() ? schedule->scratch_bytes : 0;
}

TEST(Checkpoint, KeepsBlocksAndNotLayers) {
  const uint64_t kept = ScratchBytes(4, 6, false), again = ScratchBytes(4, 6, true);
  EXPECT_LT(again, kept * 2 / 3) << kept;
  // Another block costs what lies between blocks, not the layers in it.
  const uint64_t per_block = (ScratchBytes(8, 6, true) - again) / 4;
  EXPECT_LE(per_block, 3u * 256 * 64 * 4);
}

}  // namespace
}  // namespace tensord
