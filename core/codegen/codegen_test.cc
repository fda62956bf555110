#include "core/codegen/codegen.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "core/base/status.h"
#include "core/codegen/linearize.h"
#include "core/codegen/loops.h"
#include "core/codegen/peel.h"
#include "core/codegen/tile.h"
#include "core/ir/text.h"

namespace tensord {
namespace {

Target Avx512() {
  Target target;
  target.vector_bytes = 64;
  target.vector_registers = 32;
  target.has_fma = true;
  target.cores = 1;
  return target;
}

// A kernel from the text of its sink, with the loop ranges in order of their numbers.
Kernel FromText(std::string_view text) {
  Kernel kernel;
  auto roots = Parse(text, kernel.graph);
  EXPECT_TRUE(roots.ok()) << roots.status();
  kernel.name = "test";
  kernel.sink = (*roots)[0];
  for (const Node* node : TopologicalOrder({kernel.sink})) {
    if (node->op == Op::kRange && node->range_kind() == RangeKind::kLoop)
      kernel.loops.push_back(node);
    if (node->op != Op::kParam) continue;
    const size_t slot = static_cast<size_t>(node->slot());
    if (kernel.params.size() <= slot) kernel.params.resize(slot + 1);
    kernel.params[slot] = node;
  }
  std::sort(kernel.loops.begin(), kernel.loops.end(),
            [](const Node* a, const Node* b) { return a->range_id() < b->range_id(); });
  return kernel;
}

LoopNest NestOf(const Kernel& kernel) {
  LoopNest nest;
  std::vector<const Node*> roots = {kernel.sink};
  roots.insert(roots.end(), kernel.loops.begin(), kernel.loops.end());
  const std::vector<const Node*> copies = CopyTo(nest.graph, roots);
  nest.sink = copies[0];
  nest.loops.assign(copies.begin() + 1, copies.end());
  return nest;
}

std::vector<int64_t> Sizes(absl::Span<const Node* const> ranges) {
  std::vector<int64_t> sizes;
  for (const Node* range : ranges) sizes.push_back(range->range_size());
  return sizes;
}

int Count(const LinearProgram& program, Op op) {
  return static_cast<int>(std::count_if(program.body.begin(), program.body.end(),
                                        [&](const Node* node) { return node->op == op; }));
}

// out[i, j] = in[i, j] + 1 over [6, 10], both row-major.
constexpr std::string_view kMap = R"(
%0 = Param float32 [60] slot=0
%1 = Param float32 [60] slot=1
%2 = Range index id=0 size=6 loop
%3 = Range index id=1 size=10 loop
%4 = Const index 10
%5 = Mul index %2 %4
%6 = Add index %5 %3
%7 = Load float32 %0 %6
%8 = Const float32 1
%9 = Add float32 %7 %8
%10 = Store %1 %6 %9
%11 = Sink %10
return %11
)";

// out[i] = sum over k of a[i, k] * b[k], [4, 32].
constexpr std::string_view kDot = R"(
%0 = Param float32 [128] slot=0
%1 = Param float32 [32] slot=1
%2 = Param float32 [4] slot=2
%3 = Range index id=0 size=4 loop
%4 = Range index id=1 size=32 reduce
%5 = Const index 32
%6 = Mul index %3 %5
%7 = Add index %6 %4
%8 = Load float32 %0 %7
%9 = Load float32 %1 %4
%10 = Mul float32 %8 %9
%11 = Fold float32 %10 %4 add
%12 = Store %2 %3 %11
%13 = Sink %12
return %13
)";

// Two sums over 8 of different tensors for each of 4.
constexpr std::string_view kTwoSums = R"(
%0 = Param float32 [32] slot=0
%1 = Param float32 [32] slot=1
%2 = Param float32 [4] slot=2
%3 = Range index id=0 size=4 loop
%4 = Range index id=1 size=8 reduce
%5 = Range index id=2 size=8 reduce
%6 = Const index 8
%7 = Mul index %3 %6
%8 = Add index %7 %4
%9 = Add index %7 %5
%10 = Load float32 %0 %8
%11 = Load float32 %1 %9
%12 = Fold float32 %10 %4 add
%13 = Fold float32 %11 %5 max
%14 = Sub float32 %12 %13
%15 = Store %2 %3 %14
%16 = Sink %15
return %16
)";

TEST(Loops, NeighboursOverOneStretchMerge) {
  LoopNest nest = NestOf(FromText(kMap));
  NormalizeLoops(nest);
  EXPECT_EQ(Sizes(nest.loops), std::vector<int64_t>({60}));
}

TEST(Loops, AlikeReductionsShareALoop) {
  LoopNest nest = NestOf(FromText(kTwoSums));
  NormalizeLoops(nest);
  absl::flat_hash_set<const Node*> ranges;
  for (const Node* node : TopologicalOrder({nest.sink})) {
    if (node->op == Op::kFold) ranges.insert(node->src[1]);
  }
  EXPECT_EQ(ranges.size(), 1u);
}

TEST(Peel, CoversTheLoopInTwoParts) {
  LoopNest nest = NestOf(FromText(kMap));
  RangeNumbers numbers(nest.sink);
  const Peeled peeled = Peel(nest, numbers, nest.loops[0], 4);
  EXPECT_EQ(peeled.main->range_size(), 4);
  EXPECT_EQ(peeled.rest->range_size(), 2);
  EXPECT_EQ(nest.sink->src.size(), 2u);
  // The loop inside is there twice, so that each belongs to one place.
  EXPECT_EQ(Sizes(nest.loops), std::vector<int64_t>({4, 2, 10, 10}));
}

TEST(Peel, OfAReductionCombinesTheParts) {
  LoopNest nest = NestOf(FromText(kDot));
  RangeNumbers numbers(nest.sink);
  const Node* fold = nest.sink->src[0]->src[2];
  Peel(nest, numbers, fold->src[1], 24);
  const Node* sum = nest.sink->src[0]->src[2];
  ASSERT_EQ(sum->op, Op::kAdd);
  EXPECT_EQ(sum->src[0]->src[1]->range_size(), 24);
  EXPECT_EQ(sum->src[1]->src[1]->range_size(), 8);
}

TEST(LowerKernel, VectorsWithARest) {
  const auto lowered = LowerKernel(FromText(kMap), Avx512());
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  const LinearProgram& program = (*lowered)->program;
  // 60 = 3 * 16 + 8 + 4.
  std::vector<int> lanes;
  for (const Node* node : program.body) {
    if (node->op == Op::kStore) lanes.push_back(node->src[2]->lanes);
  }
  std::sort(lanes.begin(), lanes.end());
  EXPECT_EQ(lanes, std::vector<int>({4, 8, 16})) << PrintList(program.body);
  EXPECT_EQ(Count(program, Op::kRange), 1);
}

TEST(LowerKernel, LanesAlongAReductionAreSummedAtTheEnd) {
  const auto lowered = LowerKernel(FromText(kDot), Avx512());
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  EXPECT_GT(Count((*lowered)->program, Op::kHorizontal), 0);
  EXPECT_GT(Count((*lowered)->program, Op::kFma), 0);
}

TEST(LowerKernel, LoadsOnceForAllRows) {
  // The vector b[k] is the same for all four rows, so it is loaded once a step.
  const auto lowered = LowerKernel(FromText(kDot), Avx512());
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  int loads_of_b = 0, steps = 0;
  for (const Node* node : (*lowered)->program.body) {
    loads_of_b += node->op == Op::kLoad && node->src[0]->slot() == 1;
    steps += node->op == Op::kFma;
  }
  EXPECT_EQ(steps, 4 * loads_of_b);
}

TEST(LowerKernel, WithoutFmaMultipliesAndAdds) {
  Target target = Avx512();
  target.has_fma = false;
  const auto lowered = LowerKernel(FromText(kDot), target);
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  EXPECT_EQ(Count((*lowered)->program, Op::kFma), 0);
}

// The sum of sums of different lengths, each of which is tiled in several pieces.
std::string SumOfSums(int count) {
  std::string text = "%0 = Param float32 [100] slot=0\n%1 = Param float32 [1] slot=1\n";
  std::string total = "%2";
  text += "%2 = Const float32 0\n";
  int next = 3;
  for (int i = 0; i < count; ++i) {
    text += fmt::format(
        "%{0} = Range index id={1} size={2} reduce\n%{3} = Load float32 %0 %{0}\n"
        "%{4} = Fold float32 %{3} %{0} add\n%{5} = Add float32 {6} %{4}\n",
        next, i, 50 + i, next + 1, next + 2, next + 3, total);
    total = fmt::format("%{}", next + 3);
    next += 4;
  }
  return text + fmt::format(
                    "%{0} = Const index 0\n%{1} = Store %1 %{0} {2}\n%{3} = Sink %{1}\n"
                    "return %{3}\n",
                    next, next + 1, total, next + 2);
}

TEST(LowerKernel, IsUntiledWhereTilingMakesTooManyPieces) {
  for (const auto& [sums, name] : {std::pair(1, "test"), std::pair(30, "test_untiled")}) {
    const auto lowered = LowerKernel(FromText(SumOfSums(sums)), Avx512());
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    EXPECT_EQ((*lowered)->program.name, name);
  }
}

TEST(Linearize, SaysWhatIsALimitAndWhatIsAFaultOfTiling) {
  constexpr std::string_view kCopied = R"(
%0 = Param float32 [4096] slot=0
%1 = Range index id=0 size={} {}
%2 = Range index id=1 size=16 vector
%3 = Const index 16
%4 = Mul index %1 %3
%5 = Add index %4 %2
%6 = Const float32 1
%7 = Store %0 %5 %6
%8 = Sink %7
return %8
)";
  const struct {
    std::string text;
    absl::StatusCode code;
  } kCases[] = {
      {fmt::format(fmt::runtime(kCopied), 4, "unroll"), absl::StatusCode::kOk},
      {fmt::format(fmt::runtime(kCopied), 4, "vector"), absl::StatusCode::kInvalidArgument},
      {fmt::format(fmt::runtime(kCopied), 200, "unroll"), absl::StatusCode::kInvalidArgument},
      {SumOfSums(40), absl::StatusCode::kResourceExhausted},
  };
  for (const auto& [text, code] : kCases) {
    LoopNest nest = NestOf(FromText(text));
    if (code == absl::StatusCode::kResourceExhausted) Tile(nest, Avx512());
    LinearProgram program;
    EXPECT_EQ(Linearize(nest, Avx512(), program).code(), code) << text;
  }
}

// What is a fault must not be hidden by code that is slow and right.
TEST(LowerKernel, ReturnsFaultsOfTilingInBuildsWithAssertions) {
  const auto lowered = LowerKernel(FromText(R"(
%0 = Param float32 [64] slot=0
%1 = Range index id=0 size=4 vector
%2 = Range index id=1 size=16 vector
%3 = Const index 16
%4 = Mul index %1 %3
%5 = Add index %4 %2
%6 = Const float32 1
%7 = Store %0 %5 %6
%8 = Sink %7
return %8
)"),
                                   Avx512());
  ASSERT_EQ(lowered.status().code(), absl::StatusCode::kInvalidArgument);
#ifndef NDEBUG
  constexpr bool kIsTriedUntiled = false;
#else
  constexpr bool kIsTriedUntiled = true;
#endif
  EXPECT_EQ(Message(lowered.status()).find("test_untiled") != std::string_view::npos,
            kIsTriedUntiled)
      << lowered.status();
}

TEST(LowerKernel, TheSameTextOnEveryRun) {
  const auto once = LowerKernel(FromText(kTwoSums), Avx512());
  const auto again = LowerKernel(FromText(kTwoSums), Avx512());
  ASSERT_TRUE(once.ok() && again.ok());
  EXPECT_EQ(PrintList((*once)->program.body), PrintList((*again)->program.body));
}

}  // namespace
}  // namespace tensord
