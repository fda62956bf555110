// Dtypes that a target lacks, on every op and every conversion: programs compiled for this machine
// with more and more dtypes taken away, against Eval.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "core/codegen/codegen.h"
#include "core/compile/linear_testing.h"
#include "core/ir/eval.h"
#include "core/schedule/schedule.h"

namespace tensord {
namespace {

using enum DType;

constexpr DType kSmall[] = {kFloat8E4M3,     kFloat8E5M2, kFloat8E4M3Fnuz,
                            kFloat8E5M2Fnuz, kFloat16,    kBFloat16};
constexpr DType kOthers[] = {kBool,   kInt8,  kUint8,  kInt16,   kUint16, kInt32,
                             kUint32, kInt64, kUint64, kFloat32, kFloat64};

Target Lacking(DTypeSet lacks) {
  Target target = LlvmHostTarget();
  target.lacks = lacks;
  return target;
}
Target Host() { return LlvmHostTarget(); }
Target WithoutSmallFloats() {
  return Lacking({kFloat8E4M3, kFloat8E5M2, kFloat8E4M3Fnuz, kFloat8E5M2Fnuz, kFloat16, kBFloat16});
}

// All that can be taken away.
Target Least() {
  return Lacking({kFloat8E4M3, kFloat8E5M2, kFloat8E4M3Fnuz, kFloat8E5M2Fnuz, kFloat16, kBFloat16,
                  kFloat64, kInt64, kUint64});
}

struct Case {
  Op op;
  DType result;
};

std::string Show(const Scalar& x) {
  return IsFloat(x.dtype) ? fmt::format("{:a} ({})", x.f, x.f) : fmt::format("{}", x.i);
}

// Exp, Log and Sin of float32 may be wrong in the last place, which can go to the other side of a
// tie; of two zeros Max and Min may return either.
bool Agrees(Op op, const Scalar& actual, const Scalar& expected) {
  if (actual == expected) return true;
  if (!IsFloat(expected.dtype) || std::isnan(actual.f) || std::isnan(expected.f)) return false;
  if (op == Op::kMax || op == Op::kMin) return actual.f == 0 && expected.f == 0;
  if (op != Op::kExp && op != Op::kLog && op != Op::kSin) return false;
  const auto code = [](const Scalar& x) { return static_cast<int64_t>(x.ToBits()); };
  return std::abs(code(actual) - code(expected)) <= 1;
}

// The outputs' bytes; nothing if the test has failed.
std::vector<std::vector<uint8_t>> RunOn(const Target& target, const Program& program,
                                        const std::vector<std::vector<Scalar>>& inputs) {
  const auto schedule = MakeSchedule(program);
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  if (!schedule.ok()) return {};
  std::vector<std::vector<uint8_t>> memory;
  for (const Schedule::Buffer& buffer : schedule->buffers) {
    memory.emplace_back(buffer.bytes(), 0xAA);
    if (buffer.kind == Schedule::Kind::kInput) memory.back() = Pack(inputs[buffer.index]);
  }
  for (const Schedule::Step& step : schedule->steps) {
    EXPECT_NE(step.kernel, Schedule::Step::kCopy);
    const auto linear = LowerKernel(*schedule->kernels[step.kernel], target);
    EXPECT_TRUE(linear.ok()) << linear.status();
    if (!linear.ok()) return {};
    for (const Node* node : (*linear)->program.body) {
      EXPECT_FALSE(target.lacks.contains(node->dtype)) << Name(node->op) << Name(node->dtype);
    }
    const LoadedLinear kernel((*linear)->program, target);
    if (!kernel.ok()) return {};
    std::vector<void*> buffers;
    for (int buffer : step.buffers) buffers.push_back(memory[buffer].data());
    kernel.Run(buffers);
  }
  std::vector<std::vector<uint8_t>> outputs;
  for (int buffer : schedule->outputs) outputs.push_back(memory[buffer]);
  return outputs;
}

// out[i] = op(a[i], b[i], c[i]) for each case, all in one program.
void ExpectAsEval(const Target& target, const std::vector<Case>& cases,
                  const std::vector<std::vector<Scalar>>& operands) {
  const auto count = static_cast<int64_t>(operands[0].size());
  Program program;
  std::vector<const Node*> x;
  for (const auto& values : operands) {
    x.push_back(program.graph.Param(static_cast<int64_t>(x.size()), values[0].dtype, {count}));
    program.inputs.push_back(x.back());
  }
  for (const Case& c : cases) {
    std::vector<const Node*> src(x.begin(), x.begin() + Info(c.op).num_src);
    if (c.op == Op::kWhere) src[0] = program.graph.Cast(x[0], kBool);
    program.outputs.push_back({program.graph.Make({.op = c.op, .src = src, .dtype = c.result})});
  }
  const std::vector<std::vector<uint8_t>> outputs = RunOn(target, program, operands);
  ASSERT_EQ(outputs.size(), cases.size());
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    int failures = 0;
    for (size_t k = 0; k < operands[0].size() && failures < 4; ++k) {
      std::vector<Scalar> src;
      for (int s = 0; s < Info(c.op).num_src; ++s) src.push_back(operands[s][k]);
      if (c.op == Op::kWhere) src[0] = *EvalOp(Op::kCast, kBool, {{src[0]}});
      const std::optional<Scalar> expected = EvalOp(c.op, c.result, src);
      ASSERT_TRUE(expected.has_value());
      const Scalar actual = Unpack(outputs[i], c.result, k);
      if (Agrees(c.op, actual, *expected)) continue;
      ++failures;
      std::string text;
      for (const Scalar& s : src) text += Show(s) + " ";
      ADD_FAILURE() << Name(c.op) << " " << Name(operands[0][0].dtype) << " -> " << Name(c.result)
                    << ": " << text << "gives " << Show(actual) << ", not " << Show(*expected);
    }
  }
}

std::vector<Scalar> AllValues(DType dtype) {
  std::vector<Scalar> values;
  for (uint64_t code = 0; code >> BitSize(dtype) == 0; ++code) {
    values.push_back(Scalar::FromBits(dtype, code));
  }
  return values;
}

std::vector<Scalar> EdgeValues(DType dtype) {
  std::vector<Scalar> values;
  std::mt19937_64 random(7);
  if (IsFloat(dtype)) {
    const double top = DecodeFloat(dtype, Format(dtype).max_code());
    for (double x : {0.0,
                     1.0,
                     0.5,
                     1.5,
                     2.5,
                     3.0,
                     127.5,
                     255.9,
                     448.0,
                     464.0,
                     65504.0,
                     65520.0,
                     1e-5,
                     5.96e-8,
                     1e-40,
                     2147483648.0,
                     0x1p63,
                     0x1p64,
                     top,
                     top * 1.1,
                     1e300,
                     HUGE_VAL,
                     std::nextafter(1.0625, 2.0),
                     std::nextafter(464.0, 500.0),
                     0x1.01000001p0,
                     0x1.00fffffffp0}) {
      values.push_back(Scalar::Float(dtype, x));
      values.push_back(Scalar::Float(dtype, -x));
    }
    values.push_back(Scalar::Float(dtype, std::nan("")));
    std::normal_distribution<double> normal;
    for (int i = 0; i < 9; ++i) values.push_back(Scalar::Float(dtype, normal(random)));
  } else {
    const int64_t lo = IntMin(dtype), hi = IntMax(dtype);
    for (int64_t x : {int64_t{0}, int64_t{1}, int64_t{-1}, int64_t{2}, int64_t{3}, int64_t{-7},
                      int64_t{64}, lo, lo + 1, hi, hi - 1, int64_t{2049}, int64_t{16777217},
                      (int64_t{257} << 40) + 1, (int64_t{1} << 60) + (int64_t{1} << 52) + 1,
                      -((int64_t{257} << 40) + 1), (int64_t{257} << 16) + 1, int64_t{257} << 16}) {
      values.push_back(Scalar::Int(dtype, x));
    }
    for (int i = 0; i < 16; ++i)
      values.push_back(Scalar::Int(dtype, static_cast<int64_t>(random())));
  }
  return values;
}

// Every pair, the third operand running along.
std::vector<std::vector<Scalar>> Triples(const std::vector<Scalar>& values) {
  std::vector<std::vector<Scalar>> operands(3);
  size_t k = 0;
  for (const Scalar& a : values) {
    for (const Scalar& b : values) {
      operands[0].push_back(a);
      operands[1].push_back(b);
      operands[2].push_back(values[++k * 5 % values.size()]);
    }
  }
  return operands;
}

// What Eval defines on the dtype, but for Fma, which tensor programs lack.
std::vector<Case> CasesOf(DType dtype) {
  std::vector<Case> cases;
  const Scalar one = Scalar::Of(dtype, 1);
  for (int i = 0; i < kNumOps; ++i) {
    const Op op = static_cast<Op>(i);
    if (!In(op, ElementwiseOps()) || op == Op::kFma) continue;
    if (op == Op::kTrunc && !IsFloat(dtype)) continue;
    if (op == Op::kCast || op == Op::kBitcast) {
      for (auto range : {absl::MakeSpan(kSmall), absl::MakeSpan(kOthers)}) {
        for (DType to : range) {
          if (op == Op::kCast || ItemSize(to) == ItemSize(dtype)) cases.push_back({op, to});
        }
      }
      continue;
    }
    const bool compares = op == Op::kCmpLt || op == Op::kCmpEq || op == Op::kCmpNe;
    const DType result = compares ? kBool : dtype;
    std::vector<Scalar> src(Info(op).num_src, one);
    if (op == Op::kWhere) src[0] = Scalar::Int(kBool, 1);
    if (EvalOp(op, result, src)) cases.push_back({op, result});
  }
  return cases;
}

class DecomposeTest : public testing::TestWithParam<DType> {};

// All values, and for the wider dtypes all unary ops on all of them.
TEST_P(DecomposeTest, EveryValueConvertsExactly) {
  std::vector<Case> cases;
  for (const Case& c : CasesOf(GetParam())) {
    if (Info(c.op).num_src == 1) cases.push_back(c);
  }
  for (const Target& target : {Host(), WithoutSmallFloats(), Least()}) {
    ExpectAsEval(target, cases, {AllValues(GetParam())});
  }
}

// Every value, the middle between it and the next, and what is next to that middle.
TEST_P(DecomposeTest, RoundsToNearestEven) {
  const DType to = GetParam();
  for (DType from : {kFloat32, kFloat64}) {
    std::vector<Scalar> x;
    const uint64_t stop = Format(to).max_code() + 2;
    for (uint64_t code = 0; code < stop; ++code) {
      const double a = DecodeFloat(to, code), b = DecodeFloat(to, code + 1);
      if (!std::isfinite(a)) continue;
      const double middle = std::isfinite(b) ? a + (b - a) / 2 : a * 1.03;
      for (double value : {a, middle}) {
        for (double sign : {1.0, -1.0}) {
          const Scalar exact = Scalar::Float(from, sign * value);
          x.push_back(exact);
          for (int64_t step : {-1, 1}) {
            x.push_back(Scalar::FromBits(from, exact.ToBits() + static_cast<uint64_t>(step)));
          }
        }
      }
    }
    for (const Target& target : {Host(), WithoutSmallFloats(), Least()}) {
      ExpectAsEval(target, {{Op::kCast, to}}, {x});
    }
  }
}

TEST_P(DecomposeTest, EveryOpAgreesWithEval) {
  const DType dtype = GetParam();
  std::vector<Scalar> values = EdgeValues(dtype);
  for (const Target& target : {Host(), WithoutSmallFloats(), Least()}) {
    ExpectAsEval(target, CasesOf(dtype), Triples(values));
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, DecomposeTest, testing::ValuesIn(kSmall),
                         [](const auto& info) { return std::string(Name(info.param)); });

TEST(DecomposeTest, CastsFromOtherDTypes) {
  for (DType from : kOthers) {
    std::vector<Case> cases;
    for (DType to : kSmall) cases.push_back({Op::kCast, to});
    for (const Target& target : {Host(), WithoutSmallFloats(), Least()}) {
      ExpectAsEval(target, cases, {EdgeValues(from)});
    }
  }
}

class LongTest : public testing::TestWithParam<DType> {};

// What is done without 64 bits: all ops of integers; of float64 all that computes nothing.
TEST_P(LongTest, AgreesWithEval) {
  const DType dtype = GetParam();
  std::vector<Case> cases;
  for (const Case& c : CasesOf(dtype)) {
    const bool computes = c.op == Op::kExp || c.op == Op::kLog || c.op == Op::kSin ||
                          c.op == Op::kSqrt || c.op == Op::kAdd || c.op == Op::kSub ||
                          c.op == Op::kMul || c.op == Op::kDiv;
    if (!IsFloat(dtype) || !computes) cases.push_back(c);
  }
  // A kernel each: a division is long.
  for (const Case& c : cases) ExpectAsEval(Least(), {c}, Triples(EdgeValues(dtype)));
}

INSTANTIATE_TEST_SUITE_P(DTypes, LongTest, testing::Values(kInt64, kUint64, kFloat64),
                         [](const auto& info) { return std::string(Name(info.param)); });

TEST(LongTest, ExtremesOfLongIntegers) {
  for (DType dtype : {kInt64, kUint64}) {
    for (ReduceKind kind : {ReduceKind::kMax, ReduceKind::kMin}) {
      const std::vector<Scalar> values = EdgeValues(dtype);
      const auto count = static_cast<int64_t>(values.size());
      Program program;
      const Node* x = program.graph.Param(0, dtype, {count});
      program.inputs = {x};
      program.outputs = {{program.graph.Make(Op::kReduce, {x}, {static_cast<int64_t>(kind), 0})}};
      const std::vector<std::vector<uint8_t>> memory = RunOn(Least(), program, {values});
      Scalar expected = ReduceIdentity(kind, dtype);
      for (const Scalar& value : values) {
        expected = *EvalOp(CombineOp(kind), dtype, std::array{expected, value});
      }
      ASSERT_EQ(memory.size(), 1u);
      EXPECT_TRUE(Unpack(memory[0], dtype, 0) == expected) << Name(dtype) << Name(kind);
    }
  }
}

TEST(LongTest, WhatCannotBeDoneIsRefused) {
  Program program;
  const Node* x = program.graph.Param(0, kFloat64, {4});
  program.inputs = {x};
  program.outputs = {{program.graph.Make(Op::kExp, {x})}};
  const auto schedule = MakeSchedule(program);
  ASSERT_TRUE(schedule.ok());
  const auto linear = LowerKernel(*schedule->kernels[0], Least());
  EXPECT_EQ(linear.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(linear.status().message().find("Exp of float64, which the target lacks"),
            std::string::npos)
      << linear.status();
}

}  // namespace
}  // namespace tensord
