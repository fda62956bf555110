// Every elementwise op on every dtype, scalar and in vectors, against Eval.
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "core/compile/linear_testing.h"
#include "core/ir/eval.h"

namespace tensord {
namespace {

constexpr DType kDTypes[] = {
    DType::kBool,     DType::kInt8,    DType::kUint8,   DType::kInt16,  DType::kUint16,
    DType::kInt32,    DType::kUint32,  DType::kInt64,   DType::kUint64, DType::kFloat16,
    DType::kBFloat16, DType::kFloat32, DType::kFloat64,
};

std::vector<Scalar> EdgeValues(DType dtype) {
  std::vector<Scalar> values;
  std::mt19937_64 random(7);
  if (IsFloat(dtype)) {
    for (double x : {0.0,          1.0,          0.5,     1.5,    2.5,     3.0,   127.5,   255.9,
                     32768.0,      65504.0,      65520.0, 1e-5,   5.96e-8, 1e-40, 1.5e-45, 5e-324,
                     2147483648.0, 4294967296.0, 0x1p63,  0x1p64, 3.4e38,  1e300, HUGE_VAL}) {
      values.push_back(Scalar::Float(dtype, x));
      values.push_back(Scalar::Float(dtype, -x));
    }
    values.push_back(Scalar::Float(dtype, std::nan("")));
    std::normal_distribution<double> normal;
    for (int i = 0; i < 9; ++i) values.push_back(Scalar::Float(dtype, normal(random)));
  } else {
    const int64_t lo = IntMin(dtype), hi = IntMax(dtype);
    for (int64_t x : {int64_t{0}, int64_t{1}, int64_t{-1}, int64_t{2}, int64_t{3}, int64_t{-7},
                      int64_t{8}, int64_t{31}, int64_t{63}, int64_t{64}, lo, lo + 1, hi, hi - 1}) {
      values.push_back(Scalar::Int(dtype, x));
    }
    // Ties and near ties of narrower floats, and anything.
    for (int64_t x : {int64_t{2049}, int64_t{16777217}, (int64_t{257} << 40) + 1,
                      (int64_t{1} << 60) + (int64_t{1} << 52) + 1, -((int64_t{257} << 40) + 1)}) {
      values.push_back(Scalar::Int(dtype, x));
    }
    for (int i = 0; i < 8; ++i)
      values.push_back(Scalar::Int(dtype, static_cast<int64_t>(random())));
  }
  return values;
}

// Distance in representable numbers.
int64_t UlpsApart(const Scalar& a, const Scalar& b) {
  auto ordered = [](const Scalar& x) {
    const uint64_t sign = uint64_t{1} << (BitSize(x.dtype) - 1);
    const uint64_t bits = x.ToBits();
    return static_cast<int64_t>(bits & sign ? -(bits - sign) : bits);
  };
  return std::abs(ordered(a) - ordered(b));
}

bool Agrees(Op op, const Scalar& actual, const Scalar& expected) {
  if (actual == expected) return true;
  if (!IsFloat(expected.dtype) || std::isnan(actual.f) || std::isnan(expected.f)) return false;
  if (op == Op::kMax || op == Op::kMin) return actual.f == 0 && expected.f == 0;
  // Stated for Exp, Log and Sin: 2 units in float32 and float64; the small types are rounded from
  // float32, which can go to the other side of a tie.
  if (op == Op::kExp || op == Op::kLog || op == Op::kSin) {
    return std::signbit(actual.f) == std::signbit(expected.f) &&
           UlpsApart(actual, expected) <= (ItemSize(expected.dtype) <= 2 ? 1 : 2);
  }
  return false;
}

std::string Show(const Scalar& x) {
  return IsFloat(x.dtype) ? fmt::format("{:a}", x.f) : fmt::format("{}", x.i);
}

struct Case {
  Op op;
  DType result;
};

// All cases in one kernel: out[i] = op(a[i], b[i], c[i]), one output a case. Operands that a case
// doesn't take are ignored; the condition of Where comes from `a` != 0 by a Cast.
void RunCases(DType dtype, int lanes, const Target& target, const std::vector<Case>& cases,
              const std::vector<std::vector<Scalar>>& operands) {
  const size_t count = operands[0].size();
  ASSERT_EQ(count % lanes, 0u);
  LinearBuilder b("ops");
  std::vector<const Node*> in, out;
  for (size_t i = 0; i < operands.size(); ++i) {
    in.push_back(b.Param(dtype, static_cast<int64_t>(count)));
  }
  for (const Case& c : cases) out.push_back(b.Param(c.result, static_cast<int64_t>(count)));
  const Node* range = b.Range(static_cast<int64_t>(count) / lanes);
  const Node* index = b.Add(Op::kMul, {range, b.graph.Index(lanes)});
  std::vector<const Node*> x;
  for (const Node* param : in) x.push_back(b.Load(param, index, lanes));
  for (size_t i = 0; i < cases.size(); ++i) {
    std::vector<const Node*> src(x.begin(), x.begin() + Info(cases[i].op).num_src);
    if (cases[i].op == Op::kWhere) {
      src = {b.Add({.op = Op::kCast, .src = {x[0]}, .dtype = DType::kBool}), x[1], x[2]};
    }
    b.Store(out[i], index, b.Add({.op = cases[i].op, .src = src, .dtype = cases[i].result}));
  }
  b.End(range);

  std::vector<std::vector<uint8_t>> memory;
  for (const auto& values : operands) memory.push_back(Pack(values));
  for (const Case& c : cases) memory.emplace_back(count * ItemSize(c.result), 0xAA);
  std::vector<void*> buffers;
  for (auto& bytes : memory) buffers.push_back(bytes.data());
  const LoadedLinear kernel(b.program, target);
  ASSERT_TRUE(kernel.ok());
  kernel.Run(buffers);

  for (size_t i = 0; i < cases.size(); ++i) {
    int failures = 0;
    for (size_t k = 0; k < count && failures < 4; ++k) {
      std::vector<Scalar> src;
      for (int s = 0; s < Info(cases[i].op).num_src; ++s) src.push_back(operands[s][k]);
      if (cases[i].op == Op::kWhere) src[0] = *EvalOp(Op::kCast, DType::kBool, {{src[0]}});
      const std::optional<Scalar> expected = EvalOp(cases[i].op, cases[i].result, src);
      ASSERT_TRUE(expected.has_value());
      const Scalar actual = Unpack(memory[operands.size() + i], cases[i].result, k);
      if (Agrees(cases[i].op, actual, *expected)) continue;
      ++failures;
      std::string text;
      for (const Scalar& s : src) text += Show(s) + " ";
      ADD_FAILURE() << Name(cases[i].op) << " " << Name(dtype) << " -> " << Name(cases[i].result)
                    << ", " << lanes << " lanes: " << text << "gives " << Show(actual) << ", not "
                    << Show(*expected);
    }
  }
}

// Every pair of edge values, the third operand running along; padded to whole vectors.
std::vector<std::vector<Scalar>> Triples(DType dtype) {
  const std::vector<Scalar> edges = EdgeValues(dtype);
  std::vector<std::vector<Scalar>> operands(3);
  size_t k = 0;
  for (const Scalar& a : edges) {
    for (const Scalar& b : edges) {
      operands[0].push_back(a);
      operands[1].push_back(b);
      operands[2].push_back(edges[++k * 5 % edges.size()]);
    }
  }
  for (auto& values : operands) {
    while (values.size() % 16 != 0) values.push_back(edges[1]);
  }
  return operands;
}

// What Eval defines on the dtype, with its result.
std::vector<Case> CasesOf(DType dtype) {
  std::vector<Case> cases;
  const Scalar one = Scalar::Of(dtype, 1);
  for (int i = 0; i < kNumOps; ++i) {
    const Op op = static_cast<Op>(i);
    if (!In(op, ElementwiseOps())) continue;
    if (op == Op::kCast || op == Op::kBitcast) {
      for (DType to : kDTypes) {
        if (op == Op::kCast || ItemSize(to) == ItemSize(dtype)) cases.push_back({op, to});
      }
      continue;
    }
    if (op == Op::kTrunc && !IsFloat(dtype)) continue;
    const bool compares = op == Op::kCmpLt || op == Op::kCmpEq || op == Op::kCmpNe;
    const DType result = compares ? DType::kBool : dtype;
    std::vector<Scalar> src(Info(op).num_src, one);
    if (op == Op::kWhere) src[0] = Scalar::Int(DType::kBool, 1);
    if (EvalOp(op, result, src)) cases.push_back({op, result});
  }
  return cases;
}

class OpsTest : public testing::TestWithParam<DType> {};

TEST_P(OpsTest, AgreeWithEvalInEveryWidth) {
  for (int lanes : {1, 4, 16}) {
    RunCases(GetParam(), lanes, LlvmHostTarget(), CasesOf(GetParam()), Triples(GetParam()));
  }
}

// No FMA, no F16C, no AVX: what LLVM and the renderer do without them.
TEST_P(OpsTest, AgreeWithEvalOnABareProcessor) {
  Target target = LlvmHostTarget();
  if (target.arch != "x86-64") GTEST_SKIP() << "bare x86-64 only";
  target.cpu = "x86-64";
  target.features = "";
  target.vector_bytes = 16;
  target.vector_registers = 16;
  target.has_fma = false;
  std::vector<Case> cases;
  for (const Case& c : CasesOf(GetParam())) {
    // Without the instruction, float32 and float64 multiply-adds round twice by contract.
    if (c.op != Op::kFma || ItemSize(c.result) == 2) cases.push_back(c);
  }
  RunCases(GetParam(), 4, target, cases, Triples(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(DTypes, OpsTest, testing::ValuesIn(kDTypes),
                         [](const auto& info) { return std::string(Name(info.param)); });

// Constant operands take paths of their own: divisions, shifts, maxima.
TEST(OpsTest, ConstantOperandsAgreeWithEval) {
  constexpr Op kOps[] = {Op::kFloorDiv, Op::kFloorMod, Op::kTruncDiv, Op::kTruncMod,
                         Op::kShl,      Op::kShr,      Op::kMax,      Op::kMin};
  for (DType dtype : {DType::kInt8, DType::kUint8, DType::kInt32, DType::kUint32, DType::kInt64,
                      DType::kUint64, DType::kFloat16, DType::kFloat32, DType::kFloat64}) {
    for (int lanes : {1, 8}) {
      std::vector<Scalar> x = EdgeValues(dtype);
      while (x.size() % 8 != 0) x.push_back(x[1]);
      const auto count = static_cast<int64_t>(x.size());
      LinearBuilder b("constants");
      const Node* in = b.Param(dtype, count);
      struct Output {
        Op op;
        Scalar constant;
        bool first;
        const Node* param;
      };
      std::vector<Output> outputs;
      for (Op op : kOps) {
        const bool is_max = op == Op::kMax || op == Op::kMin;
        if (IsFloat(dtype) && !is_max) continue;
        for (int64_t c : {0, 1, -1, 2, 3, 8, 10, -7, 31, 100}) {
          const Scalar constant = Scalar::Of(dtype, static_cast<double>(c));
          outputs.push_back({op, constant, false, b.Param(dtype, count)});
          if (is_max) outputs.push_back({op, constant, true, b.Param(dtype, count)});
        }
      }
      const Node* range = b.Range(count / lanes);
      const Node* index = b.Add(Op::kMul, {range, b.graph.Index(lanes)});
      const Node* value = b.Load(in, index, lanes);
      for (const Output& output : outputs) {
        const Node* constant =
            b.graph.Make({.op = Op::kConst, .ints = {output.constant.attribute()}, .dtype = dtype});
        constant = b.Broadcast(constant, lanes);
        const Node* y = output.first ? b.Add(output.op, {constant, value})
                                     : b.Add(output.op, {value, constant});
        b.Store(output.param, index, b.Broadcast(y, y->lanes == lanes ? 1 : lanes));
      }
      b.End(range);
      std::vector<std::vector<uint8_t>> memory = {Pack(x)};
      for (size_t i = 0; i < outputs.size(); ++i) memory.emplace_back(memory[0].size());
      std::vector<void*> buffers;
      for (auto& bytes : memory) buffers.push_back(bytes.data());
      const LoadedLinear kernel(b.program);
      ASSERT_TRUE(kernel.ok());
      kernel.Run(buffers);
      for (size_t i = 0; i < outputs.size(); ++i) {
        const Output& output = outputs[i];
        for (size_t k = 0; k < x.size(); ++k) {
          const Scalar src[] = {output.first ? output.constant : x[k],
                                output.first ? x[k] : output.constant};
          const Scalar expected = *EvalOp(output.op, dtype, src);
          const Scalar actual = Unpack(memory[i + 1], dtype, k);
          EXPECT_TRUE(Agrees(output.op, actual, expected))
              << Name(output.op) << " " << Name(dtype) << " " << lanes << " lanes: " << Show(src[0])
              << " " << Show(src[1]) << " gives " << Show(actual) << ", not " << Show(expected);
        }
      }
    }
  }
}

// Divisions of index expressions, with operands that are known to be >= 0 and others.
TEST(OpsTest, IndexDivisionAgreesWithEval) {
  constexpr int64_t kSize = 200;
  for (int lanes : {1, 8}) {
    for (int64_t offset : {0, -77}) {
      for (int64_t divisor : {1, 2, 3, 7, 16, 25}) {
        LinearBuilder b("index");
        const Node* quotients = b.Param(DType::kInt64, kSize);
        const Node* remainders = b.Param(DType::kInt64, kSize);
        const Node* range = b.Range(kSize / lanes);
        const Node* start = b.Add(Op::kMul, {range, b.graph.Index(lanes)});
        const Node* i = start;
        const Node* d = b.Broadcast(b.graph.Index(divisor), lanes);
        if (lanes > 1) {
          const Node* ramp = b.Add(
              {.op = Op::kRamp, .dtype = DType::kIndex, .lanes = static_cast<uint16_t>(lanes)});
          i = b.Add(Op::kAdd, {b.Broadcast(start, lanes), ramp});
        }
        i = b.Add(Op::kAdd, {i, b.Broadcast(b.graph.Index(offset), lanes)});
        for (auto [op, param] :
             {std::pair{Op::kFloorDiv, quotients}, {Op::kFloorMod, remainders}}) {
          const Node* y = b.Add(op, {i, d});
          if (y->IsConst()) y = b.Broadcast(y, lanes);
          b.Store(param, start, b.Add({.op = Op::kCast, .src = {y}, .dtype = DType::kInt64}));
        }
        b.End(range);
        const LoadedLinear kernel(b.program);
        ASSERT_TRUE(kernel.ok());
        std::vector<int64_t> q(kSize), r(kSize);
        kernel.Run({q.data(), r.data()});
        for (int64_t k = 0; k < kSize; ++k) {
          const Scalar src[] = {Scalar::Int(DType::kInt64, k + offset),
                                Scalar::Int(DType::kInt64, divisor)};
          EXPECT_EQ(q[k], EvalOp(Op::kFloorDiv, DType::kInt64, src)->i) << k + offset << divisor;
          EXPECT_EQ(r[k], EvalOp(Op::kFloorMod, DType::kInt64, src)->i) << k + offset << divisor;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tensord
