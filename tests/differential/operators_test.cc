// Every elementwise op and every cast on every dtype, through the whole pipeline, at sizes around
// the widths of vectors, on moderate values and on those at the limits.
#include <gtest/gtest.h>

#include "core/ir/infer.h"
#include "tests/differential/check.h"

namespace tensord {
namespace {

using enum DType;

constexpr DType kDTypes[] = {kBool,  kInt8,   kUint8,   kInt16,    kUint16,  kInt32,  kUint32,
                             kInt64, kUint64, kFloat16, kBFloat16, kFloat32, kFloat64};
constexpr int64_t kSizes[] = {1, 15, 16, 17, 33};

ProgramRunner& Runner() {
  static ProgramRunner& runner = *new ProgramRunner;
  return runner;
}

void RunCase(Case& test, ValueKind values, uint64_t seed) {
  test.values = values;
  test.seed = seed;
  test.overwrites.assign(test.outputs.size(), Program::kFresh);
  EXPECT_EQ(Check(test, Runner()), "") << PrintCase(test);
}

class Operators : public testing::TestWithParam<DType> {};

TEST_P(Operators, Elementwise) {
  const DType dtype = GetParam();
  for (int number = 0; number < kNumOps; ++number) {
    const Op op = static_cast<Op>(number);
    const bool fits = In(op, ElementwiseOps()) && (Info(op).levels & kTensorLevel) != 0 &&
                      op != Op::kCast && op != Op::kBitcast;
    if (!fits) continue;
    Case test;
    int64_t slots = 0;
    for (const int64_t size : kSizes) {
      const auto param = [&](DType type) { return test.graph.Param(slots++, type, {size}); };
      std::vector<const Node*> src;
      for (int s = 0; s < Info(op).num_src; ++s) {
        src.push_back(param(op == Op::kWhere && s == 0 ? kBool : dtype));
      }
      Inferred inferred;
      if (!Infer({.op = op, .src = src}, inferred).ok()) break;  // not on this dtype
      test.outputs.push_back(test.graph.Make({.op = op, .src = src}));
    }
    if (test.outputs.empty()) continue;
    RunCase(test, ValueKind::kNice, 1);
    RunCase(test, ValueKind::kSpecial, 2);
  }
}

TEST_P(Operators, CastAndBitcast) {
  const DType from = GetParam();
  for (const DType to : kDTypes) {
    for (const Op op : {Op::kCast, Op::kBitcast}) {
      if (op == Op::kBitcast && (ItemSize(from) != ItemSize(to) || to == kBool)) continue;
      Case test;
      for (size_t i = 0; i < std::size(kSizes); ++i) {
        const Node* x = test.graph.Param(static_cast<int64_t>(i), from, {kSizes[i]});
        test.outputs.push_back(test.graph.Make({.op = op, .src = {x}, .dtype = to}));
      }
      RunCase(test, ValueKind::kNice, 3);
      RunCase(test, ValueKind::kSpecial, 4);
    }
  }
}

// Each reduction over each set of axes all at once, sums and maxima also on their own.
TEST_P(Operators, Reductions) {
  const DType dtype = GetParam();
  const std::vector<std::vector<int64_t>> axes = {{0}, {1}, {2}, {0, 2}, {1, 2}, {0, 1}, {0, 1, 2}};
  for (int64_t kind = 0; kind < 4; ++kind) {
    Case all;
    const Node* shared = all.graph.Param(0, dtype, {3, 17, 5});
    for (const std::vector<int64_t>& set : axes) {
      std::vector<int64_t> ints = {kind};
      ints.insert(ints.end(), set.begin(), set.end());
      all.outputs.push_back(all.graph.Make(Op::kReduce, absl::MakeConstSpan({shared}), ints));
      if (kind != 0 && kind != 2) continue;
      Case one;
      const Node* x = one.graph.Param(0, dtype, {3, 17, 5});
      one.outputs.push_back(one.graph.Make(Op::kReduce, absl::MakeConstSpan({x}), ints));
      RunCase(one, ValueKind::kNice, 5);
    }
    RunCase(all, ValueKind::kNice, 6);
    RunCase(all, ValueKind::kSpecial, 7);
  }
}

TEST_P(Operators, ReductionOfNothing) {
  for (int64_t kind = 0; kind < 4; ++kind) {
    Case test;
    const Node* x = test.graph.Param(0, GetParam(), {3, 0, 2});
    test.outputs = {test.graph.Make(Op::kReduce, {x}, {kind, 1}),
                    test.graph.Make(Op::kReduce, {x}, {kind, 0, 1, 2}),
                    test.graph.Make(Op::kReduce, {x}, {kind, 0})};
    RunCase(test, ValueKind::kNice, 8);
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, Operators, testing::ValuesIn(kDTypes),
                         [](const auto& info) { return std::string(Name(info.param)); });

}  // namespace
}  // namespace tensord
