// Every elementwise op and every cast on every dtype, through the whole pipeline, at sizes around
// the widths of vectors, on moderate values and on those at the limits.
#include <gtest/gtest.h>

#include "core/ir/infer.h"
#include "core/rewrite/constant.h"
#include "tests/differential/check.h"

namespace tensord {
namespace {

using enum DType;

constexpr DType kDTypes[] = {kBool,       kInt8,           kUint8,          kInt16,   kUint16,
                             kInt32,      kUint32,         kInt64,          kUint64,  kFloat8E4M3,
                             kFloat8E5M2, kFloat8E4M3Fnuz, kFloat8E5M2Fnuz, kFloat16, kBFloat16,
                             kFloat32,    kFloat64};
constexpr int64_t kSizes[] = {1, 15, 16, 17, 33};

ProgramRunner& Runner() {
  static ProgramRunner& runner = *new ProgramRunner("cpu,interp");
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
      if (!Infer(test.graph, {.op = op, .src = src}, inferred).ok()) break;  // not on this dtype
      test.outputs.push_back(test.graph.Make({.op = op, .src = src}));
    }
    if (test.outputs.empty()) continue;
    RunCase(test, ValueKind::kNice, 1);
    RunCase(test, ValueKind::kSpecial, 2);
  }
}

// To every dtype at once, from the values at the edges and from random bits.
TEST_P(Operators, CastAndBitcast) {
  const DType from = GetParam();
  for (const ValueKind values : {ValueKind::kEdges, ValueKind::kBits}) {
    Case test;
    int64_t slots = 0;
    for (const int64_t size :
         {static_cast<int64_t>(EdgeValues(from).size()), int64_t{1}, int64_t{33}}) {
      const Node* x = test.graph.Param(slots++, from, {size});
      for (const DType to : kDTypes) {
        test.outputs.push_back(test.graph.Make({.op = Op::kCast, .src = {x}, .dtype = to}));
        if (ItemSize(from) != ItemSize(to) || to == kBool) continue;
        test.outputs.push_back(test.graph.Make({.op = Op::kBitcast, .src = {x}, .dtype = to}));
      }
    }
    RunCase(test, values, 3);
  }
}

// Every number of 8 bits by every other, and by constants, which compile to multiplications.
TEST(Divisions, OfEightBits) {
  for (const DType dtype : {kInt8, kUint8}) {
    Case pairs, constants;
    const auto all = [&](Graph& graph) {
      return graph.Cast(graph.Make({.op = Op::kIota, .ints = {256}, .dtype = kInt32}), dtype);
    };
    const Node* x = pairs.graph.Make(
        Op::kExpand, {pairs.graph.Make(Op::kReshape, {all(pairs.graph)}, {256, 1})}, {256, 256});
    const Node* y = pairs.graph.Make(
        Op::kExpand, {pairs.graph.Make(Op::kReshape, {all(pairs.graph)}, {1, 256})}, {256, 256});
    for (const Op op : {Op::kFloorDiv, Op::kFloorMod, Op::kTruncDiv, Op::kTruncMod}) {
      pairs.outputs.push_back(pairs.graph.Make(op, {x, y}));
      for (const int64_t d : {-128, -127, -100, -7, -3, -2, -1, 0,   1,   2,   3,   5,   6,
                              7,    9,    10,   11, 13, 25, 64, 100, 127, 128, 129, 200, 255}) {
        const Node* divisor = MakeConstant(constants.graph, Scalar::Int(dtype, d), {256});
        constants.outputs.push_back(constants.graph.Make(op, {all(constants.graph), divisor}));
      }
    }
    RunCase(pairs, ValueKind::kNice, 9);
    RunCase(constants, ValueKind::kNice, 9);
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

// Each running reduction along each axis, beside what may or may not share its loop.
TEST_P(Operators, Scans) {
  const DType dtype = GetParam();
  for (int64_t kind = 0; kind < (IsFloat(dtype) ? 5 : 4); ++kind) {
    const int64_t reverse = kind & 1, exclusive = kind >> 1 & 1;
    Case test;
    const Node* x = test.graph.Param(0, dtype, {3, 17, 5});
    const Node* wide = test.graph.Param(1, dtype, {2, 3, 70});
    const Node* previous = x;
    for (int64_t axis = 0; axis < 3; ++axis) {
      const auto scan = [&](const Node* of) {
        return test.graph.Make(Op::kScan, {of}, {kind, axis, reverse, exclusive});
      };
      const Node* y = scan(x);
      test.outputs.push_back(y);
      test.outputs.push_back(scan(previous));
      test.outputs.push_back(test.graph.Make(Op::kMax, {y, previous}));
      test.outputs.push_back(test.graph.Make(Op::kReduce, {y}, {kind % 4, axis}));
      test.outputs.push_back(
          scan(test.graph.Make(Op::kMin, {wide, test.graph.Make(Op::kFlip, {wide}, {axis})})));
      previous = y;
    }
    RunCase(test, exclusive != 0 ? ValueKind::kSpecial : ValueKind::kNice, 9);
  }
}

// Updates of rows and of elements on each axis, some outside, by each way to meet what is there;
// the last output is scattered into in place.
TEST_P(Operators, Scatters) {
  const DType dtype = GetParam();
  for (int64_t kind = 0; kind < 5; ++kind) {
    // Targets that lack a dtype can only set it; the tensor language scatters float8 as float32.
    if (IsFloat8(dtype) && kind != static_cast<int64_t>(ScatterKind::kSet)) continue;
    Case test;
    const Node* x = test.graph.Param(0, dtype, {4, 9, 5});
    const Node* places = test.graph.Param(1, DType::kInt8, {4, 9, 5});
    const Node* rows = test.graph.Param(2, DType::kInt32, {6});
    int64_t slot = 3;
    for (int64_t axis = 0; axis < 3; ++axis) {
      test.outputs.push_back(test.graph.Make(
          Op::kScatter, {x, places, test.graph.Make(Op::kFlip, {x}, {1})}, {kind, axis}));
      std::vector<int64_t> shape = {4, 9, 5}, where = {1, 1, 1};
      shape[axis] = where[axis] = 6;
      const Node* values = test.graph.Param(slot++, dtype, shape);
      const Node* index = test.graph.Make(Op::kReshape, absl::MakeConstSpan({rows}), where);
      test.outputs.push_back(test.graph.Make(Op::kScatter, {x, index, values}, {kind, axis}));
    }
    const Node* grid = test.graph.Param(slot, dtype, {6, 2, 5});
    const Node* pairs = test.graph.Make(
        Op::kExpand,
        absl::MakeConstSpan({test.graph.Make(Op::kReshape, absl::MakeConstSpan({rows}),
                                             std::vector<int64_t>{6, 1, 1})}),
        std::vector<int64_t>{6, 2, 1});
    const Node* table = test.graph.Param(slot + 1, dtype, {7, 5});
    test.outputs.push_back(test.graph.Make(Op::kScatter, {table, pairs, grid}, {kind, 0}));
    test.overwrites.assign(test.outputs.size(), Program::kFresh);
    test.overwrites.back() = slot + 1;
    RunCase(test, ValueKind::kNice, 12);
    RunCase(test, ValueKind::kSpecial, 13);
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
