// Scheduling and codegen against the definition of every op: random programs are scheduled, lowered
// for several targets and interpreted, and each border is checked by its spec.
#include <absl/container/flat_hash_map.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "core/base/status.h"
#include "core/ir/text.h"
#include "core/ir/user_kernel.h"
#include "core/rewrite/constant.h"
#include "core/rules/random_graph.h"
#include "core/rules/user_kernel.h"
#include "core/schedule/schedule.h"
#include "tests/differential/interpret.h"

namespace tensord {
namespace {

// Sums may be taken in another order than the definition's, each rounding once.
bool IsNear(const Scalar& a, const Scalar& b) {
  if (a == b) return true;
  if (!IsFloat(a.dtype)) return false;
  const double digit = std::ldexp(1.0, -Format(a.dtype).mantissa_bits);
  return std::abs(a.f - b.f) <= 32 * digit * std::max({std::abs(a.f), std::abs(b.f), 1e-3});
}

Target AnyTarget(uint32_t seed) {
  const int vector_bytes[] = {16, 32, 64};
  Target target;
  target.vector_bytes = vector_bytes[seed % 3];
  target.vector_registers = seed % 3 == 2 ? 32 : 16;
  target.has_fma = seed % 2 == 0;
  target.cores = 1 + static_cast<int>(seed % 4);
  if (seed % 5 == 0) {
    target.lacks = {DType::kFloat8E4M3,     DType::kFloat8E5M2, DType::kFloat8E4M3Fnuz,
                    DType::kFloat8E5M2Fnuz, DType::kFloat16,    DType::kBFloat16};
  }
  return target;
}

absl::StatusOr<std::vector<Memory>> RunProgram(const Program& program, const Target& target,
                                               const ReferenceInputs& inputs) {
  TD_ASSIGN_OR_RETURN(const Schedule schedule, MakeSchedule(program));
  std::vector<Memory> memory;
  for (const Schedule::Buffer& buffer : schedule.buffers) {
    memory.emplace_back(buffer.elements);
    if (buffer.kind == Schedule::Kind::kInput) memory.back() = inputs.params.at(buffer.index);
  }
  const Variables variables(inputs.variables.begin(), inputs.variables.end());
  const std::string fault = Interpret(schedule, target, memory, variables);
  if (!fault.empty()) return InvalidArgument("{}", fault);
  std::vector<Memory> outputs;
  for (const int buffer : schedule.outputs) outputs.push_back(memory[buffer]);
  return outputs;
}

void ExpectByDefinition(const Program& program, const ReferenceInputs& inputs, uint32_t seed) {
  std::vector<const Node*> roots;
  for (const Program::Output& output : program.outputs) roots.push_back(output.value);
  const std::string what = fmt::format("seed {}\n{}", seed, Print(roots));
  const auto expected = ReferenceEval(roots, inputs);
  const auto outputs = RunProgram(program, AnyTarget(seed), inputs);
  ASSERT_TRUE(outputs.ok()) << outputs.status() << "\n" << what;
  for (size_t o = 0; o < roots.size(); ++o) {
    ASSERT_EQ((*outputs)[o].size(), expected[o].size()) << what;
    for (size_t e = 0; e < expected[o].size(); ++e) {
      const Scalar &got = (*outputs)[o][e], &want = expected[o][e];
      ASSERT_TRUE(IsNear(got, want))
          << fmt::format("output {}, element {}: {}/{}, by definition {}/{}\n{}", o, e, got.f,
                         got.i, want.f, want.i, what);
    }
  }
}

// The program that computes `root`; its leaves get slots 0, 1, ... in order of their own.
Program ProgramOf(const Node* root, ReferenceInputs& inputs) {
  Program program;
  ReferenceInputs renumbered = {.params = {}, .variables = inputs.variables};
  absl::flat_hash_map<const Node*, const Node*> copies;
  for (const Node* node : TopologicalOrder({root})) {
    std::vector<const Node*> src;
    for (const Node* old : node->src) src.push_back(copies.at(old));
    std::vector<int64_t> ints(node->ints.begin(), node->ints.end());
    if (node->op == Op::kParam) {
      ints[0] = static_cast<int64_t>(program.inputs.size());
      renumbered.params[ints[0]] = inputs.params.at(node->slot());
    }
    const Node* copy = program.graph.Intern(
        {.op = node->op, .src = src, .ints = ints, .text = node->text, .dtype = node->dtype});
    if (node->op == Op::kParam) program.inputs.push_back(copy);
    if (node->op == Op::kVariable) program.variables.push_back(copy);
    copies[node] = copy;
  }
  std::ranges::sort(program.variables, {}, &Node::text);
  program.outputs.push_back({copies.at(root)});
  inputs = renumbered;
  return program;
}

TEST(CompilerTest, SmallRandomGraphs) {
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    Graph graph;
    RandomGraph random(graph, seed);
    const Node* root = random.Any(12);
    ReferenceInputs inputs = random.Inputs();
    ExpectByDefinition(ProgramOf(root, inputs), inputs, seed);
    if (HasFatalFailure()) return;
  }
}

TEST(CompilerTest, RandomGraphsOverLongerAxes) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    Graph graph;
    RandomGraph random(graph, seed, {.dim = 20, .elements = 8000});
    const Node* root = random.Any(10);
    ReferenceInputs inputs = random.Inputs();
    ExpectByDefinition(ProgramOf(root, inputs), inputs, seed);
    if (HasFatalFailure()) return;
  }
}

// Programs of the shapes that networks have, with sizes around the vector widths and one past them.
class NetworkBuilder {
 public:
  NetworkBuilder(uint32_t seed, DType dtype) : random_(seed), dtype_(dtype) {}

  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  int64_t AnySize() {
    constexpr int64_t kSizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33};
    return kSizes[Below(std::size(kSizes))];
  }
  // Small integers, so that sums are exact in any order.
  const Node* Input(std::vector<int64_t> shape) {
    const auto slot = static_cast<int64_t>(program_.inputs.size());
    program_.inputs.push_back(program_.graph.Param(slot, dtype_, shape));
    for (int64_t e = 0; e < NumElements(shape); ++e) {
      inputs_.params[slot].push_back(Scalar::Of(dtype_, static_cast<double>(Below(7) - 3)));
    }
    inputs_.params.try_emplace(slot);
    return program_.inputs.back();
  }
  void Output(const Node* node) { program_.outputs.push_back({node}); }

  const Node* Make(Op op, const Node* x, std::vector<int64_t> ints) {
    return program_.graph.Make(op, {&x, 1}, ints);
  }
  const Node* Make(Op op, const Node* a, const Node* b) { return program_.graph.Make(op, {a, b}); }
  // Reshapes to `with_ones` and expands to `shape`.
  const Node* Spread(const Node* x, std::vector<int64_t> with_ones, std::vector<int64_t> shape) {
    return Make(Op::kExpand, Make(Op::kReshape, x, std::move(with_ones)), std::move(shape));
  }
  const Node* Reduce(ReduceKind kind, const Node* x, std::vector<int64_t> axes) {
    axes.insert(axes.begin(), static_cast<int64_t>(kind));
    return Make(Op::kReduce, x, std::move(axes));
  }
  const Node* SpreadLike(const Node* x, const Node* like) {
    return Make(Op::kExpand, x, {like->shape.begin(), like->shape.end()});
  }
  const Node* Relu(const Node* x) {
    return Make(Op::kMax, x, MakeConstant(program_.graph, Scalar::Of(dtype_, 0), x->shape));
  }

  // [m, k] @ [n, k] -> [m, n, 1]
  const Node* Contract(const Node* a, const Node* b) {
    const int64_t m = a->shape[0], n = b->shape[0], k = a->shape[1];
    return Reduce(ReduceKind::kAdd,
                  Make(Op::kMul, Spread(a, {m, 1, k}, {m, n, k}), Spread(b, {1, n, k}, {m, n, k})),
                  {2});
  }
  void MatMul() {
    const int64_t m = AnySize(), n = AnySize(), k = AnySize();
    const Node* a = Below(2) ? Input({m, k}) : Make(Op::kPermute, Input({k, m}), {1, 0});
    const Node* b = Below(2) ? Input({n, k}) : Make(Op::kPermute, Input({k, n}), {1, 0});
    const Node* product = Contract(a, b);
    Output(Below(2) ? product : Relu(product));
    if (Below(3) == 0) Output(Reduce(ReduceKind::kAdd, product, {Below(2)}));
  }
  void MatMulChain() {
    const int64_t m = AnySize(), n = AnySize(), k = AnySize();
    const Node* a = Input({m, k});
    const Node* inner = Make(Op::kReshape, Contract(a, Input({n, k})), {m, n});
    const Node* outer = Make(Op::kReshape, Contract(inner, Input({k, n})), {m, k});
    Output(Make(Op::kAdd, outer, a));
  }
  // Reductions in sequence over one axis, as in softmax and layer norm.
  void Normalize() {
    const Node* x = Input({AnySize(), AnySize()});
    const int64_t axis = Below(2);
    const Node* centred = Make(Op::kSub, x, SpreadLike(Reduce(ReduceKind::kMax, x, {axis}), x));
    const Node* square = Make(Op::kMul, centred, centred);
    Output(Make(Op::kAdd, centred, SpreadLike(Reduce(ReduceKind::kAdd, square, {axis}), x)));
    if (Below(2)) Output(Reduce(ReduceKind::kMin, centred, {0, 1}));
  }
  void Convolution() {
    const int64_t batch = 1 + Below(2), in = 1 + Below(3), out = 1 + Below(9);
    const int64_t taps = 1 + Below(3), stride = 1 + Below(2), pad = Below(2);
    const int64_t size = taps + Below(10), padded = size + 2 * pad;
    const int64_t places = (padded - taps) / stride + 1;
    const Node* x = Input({batch, in, size, size});
    x = Make(Op::kPad, x, {0, 0, 0, 0, pad, pad, pad, pad});
    x = Spread(x, {batch, in, padded, padded, 1, 1}, {batch, in, padded, padded, taps, taps});
    x = Make(Op::kSlide, x, {2, 4, stride, 1, places});
    x = Make(Op::kSlide, x, {3, 5, stride, 1, places});
    const std::vector<int64_t> shape = {batch, out, in, places, places, taps, taps};
    x = Spread(x, {batch, 1, in, places, places, taps, taps}, shape);
    const Node* weight =
        Spread(Input({out, in, taps, taps}), {1, out, in, 1, 1, taps, taps}, shape);
    const Node* result = Reduce(ReduceKind::kAdd, Make(Op::kMul, x, weight), {2, 5, 6});
    Output(Below(2) ? result : Relu(result));
    if (Below(2)) Output(Reduce(ReduceKind::kAdd, result, {0, 3, 4}));
  }
  void Transposed() {
    const Node* x = Make(Op::kPermute, Input({AnySize(), AnySize(), 1 + Below(5)}), {2, 0, 1});
    const Node* total = Reduce(Below(2) ? ReduceKind::kAdd : ReduceKind::kMax, x, {Below(3)});
    Output(Make(Op::kSub, x, SpreadLike(total, x)));
  }

  const Program& program() const { return program_; }
  const ReferenceInputs& inputs() const { return inputs_; }

 private:
  std::mt19937 random_;
  DType dtype_;
  Program program_;
  ReferenceInputs inputs_;
};

// Whatever the data says, nothing outside of a buffer is read.
TEST(CompilerTest, GathersStayInBoundsForEveryIndex) {
  for (const DType dtype : {DType::kInt8, DType::kUint8, DType::kInt32, DType::kUint32,
                            DType::kInt64, DType::kUint64}) {
    Program program;
    program.inputs = {program.graph.Param(0, DType::kFloat32, {3, 2}),
                      program.graph.Param(1, dtype, {8})};
    program.outputs.push_back(
        {program.graph.Make(Op::kGather, {program.inputs[0], program.inputs[1]})});
    ReferenceInputs inputs;
    for (int e = 1; e <= 6; ++e) inputs.params[0].push_back(Scalar::Float(DType::kFloat32, e));
    for (const int64_t index : {IntMin(dtype), IntMax(dtype), IntMin(dtype) + 1, IntMax(dtype) - 1,
                                int64_t{-1}, int64_t{0}, int64_t{2}, int64_t{3}}) {
      inputs.params[1].push_back(Scalar::Int(dtype, index));
    }
    ExpectByDefinition(program, inputs, static_cast<uint32_t>(dtype));
  }
}

// Both sums are outputs, so the inner one can't be merged away into the outer.
TEST(CompilerTest, SumsOfSumsThatAreOutputsToo) {
  for (uint32_t seed = 0; seed < 24; ++seed) {
    NetworkBuilder network(seed, DType::kFloat32);
    const Node* rows =
        network.Contract(network.Input({network.AnySize(), 5}), network.Input({1, 5}));
    network.Output(rows);
    network.Output(network.Reduce(ReduceKind::kAdd, rows, {0}));
    ExpectByDefinition(network.program(), network.inputs(), seed);
  }
}

TEST(CompilerTest, ShapesOfNetworks) {
  constexpr void (NetworkBuilder::*kKinds[])() = {
      &NetworkBuilder::MatMul, &NetworkBuilder::MatMulChain, &NetworkBuilder::Normalize,
      &NetworkBuilder::Convolution, &NetworkBuilder::Transposed};
  constexpr DType kDTypes[] = {DType::kFloat32, DType::kFloat64, DType::kInt32};
  for (uint32_t seed = 0; seed < 400; ++seed) {
    NetworkBuilder network(seed, kDTypes[seed % 3]);
    (network.*kKinds[seed % std::size(kKinds)])();
    ExpectByDefinition(network.program(), network.inputs(), seed);
    if (HasFatalFailure()) return;
  }
}

// Kernels over inputs float32[2,3] and int32[4], with outputs float32[2,3] and float32[2].
constexpr std::string_view kBodies[] = {
    // A stencil behind a gate, and sums of rows.
    R"(%0 = Param float32 [6] slot=0
%1 = Range index id=0 size=2 loop
%2 = Const index 3
%3 = Mul index %1 %2
%4 = Range index id=1 size=3 loop
%5 = Add index %3 %4
%6 = Param float32 [6] slot=2
%7 = Const index -1
%8 = Add index %5 %7
%9 = Const index 0
%10 = CmpLt bool %9 %4
%11 = Load float32 %6 %8 %10
%12 = Load float32 %6 %5
%13 = Mul float32 %11 %12
%14 = Store %0 %5 %13
%15 = Param float32 [2] slot=1
%16 = Range index id=2 size=3 reduce
%17 = Add index %3 %16
%18 = Load float32 %6 %17
%19 = Fold float32 %18 %16 add
%20 = Store %15 %1 %19
%21 = Sink %14 %20
return %21
)",
    // Reductions in reductions, over one range; rows from the last to the first; indices from data.
    R"(%0 = Param float32 [6] slot=0
%1 = Range index id=0 size=2 loop
%2 = Const index 3
%3 = Mul index %1 %2
%4 = Range index id=1 size=3 loop
%5 = Add index %3 %4
%6 = Const index 5
%7 = Sub index %6 %5
%8 = Param float32 [6] slot=2
%9 = Range index id=2 size=3 reduce
%10 = Add index %3 %9
%11 = Load float32 %8 %10
%12 = Fold float32 %11 %9 max
%13 = Sub float32 %11 %12
%14 = Fold float32 %13 %9 add
%15 = Load float32 %8 %5
%16 = Sub float32 %15 %14
%17 = Store %0 %7 %16
%18 = Param float32 [2] slot=1
%19 = Param int32 [4] slot=3
%20 = Range index id=3 size=4 reduce
%21 = Load int32 %19 %20
%22 = Const int32 0
%23 = Const int32 5
%24 = Max int32 %21 %22
%25 = Min int32 %24 %23
%26 = Cast index %25
%27 = Load float32 %8 %26
%28 = Mul float32 %27 %12
%29 = Fold float32 %28 %20 min
%30 = Store %18 %1 %29
%31 = Sink %17 %30
return %31
)"};

std::string Mutated(std::string text, std::mt19937& random) {
  constexpr std::string_view kOps[] = {"Mul", "Add", "Sub", "Max", "Min", "FloorDiv", "FloorMod"};
  constexpr std::string_view kKinds[] = {" add\n", " mul\n", " max\n", " min\n"};
  const auto pick = [&](size_t n) { return static_cast<size_t>(random() % n); };
  for (size_t change = 0; change <= pick(3); ++change) {
    const size_t at = pick(text.size());
    const auto swap = [&](absl::Span<const std::string_view> words) {
      const std::string_view from = words[pick(words.size())];
      if (const size_t place = text.find(from, at); place != std::string::npos) {
        text.replace(place, from.size(), words[pick(words.size())]);
      }
    };
    switch (pick(3)) {
      case 0:
        if (const size_t digit = text.find_first_of("0123456789", at); digit != std::string::npos) {
          text[digit] = static_cast<char>('0' + pick(10));
        }
        break;
      case 1:
        swap(kOps);
        break;
      case 2:
        swap(kKinds);
        break;
    }
  }
  return text;
}

// Whatever is accepted as a kernel means what it says, on any target, and faults nowhere.
TEST(InterpretedTest, KernelsOfUsersByDefinition) {
  int accepted = 0;
  for (uint32_t seed = 0; seed < 8000 && !HasFatalFailure(); ++seed) {
    std::mt19937 random(seed);
    std::string body(kBodies[seed % 2]);
    if (seed > 1) body = Mutated(std::move(body), random);
    Program program;
    Graph& graph = program.graph;
    program.inputs = {graph.Param(0, DType::kFloat32, {2, 3}), graph.Param(1, DType::kInt32, {4})};
    const int64_t matrix[] = {2, 3}, rows[] = {2};
    const user_kernel::Output outputs[] = {{DType::kFloat32, matrix}, {DType::kFloat32, rows}};
    const std::string text = user_kernel::TextOf("mutated", body);
    const Node* call = graph.Make({.op = Op::kUserKernel,
                                   .src = program.inputs,
                                   .ints = user_kernel::IntsOf(outputs),
                                   .text = text});
    const absl::Status legal = ReadUserKernel(call).status();
    ASSERT_TRUE(legal.ok() || seed > 1) << legal;
    if (!legal.ok()) continue;
    ++accepted;
    for (int64_t k = 0; k < 2; ++k) {
      program.outputs.push_back({graph.Make(
          {.op = Op::kUserKernelResult, .src = {call}, .ints = {k}, .dtype = DType::kFloat32})});
    }
    ReferenceInputs inputs;
    for (int e = 0; e < 6; ++e) {
      inputs.params[0].push_back(
          Scalar::Float(DType::kFloat32, 1 + static_cast<int>(random() % 7)));
    }
    for (int e = 0; e < 4; ++e) {
      inputs.params[1].push_back(
          Scalar::Int(DType::kInt32, static_cast<int64_t>(random() % 12) - 3));
    }
    ExpectByDefinition(program, inputs, seed);
  }
  EXPECT_GT(accepted, 300);
}

}  // namespace
}  // namespace tensord
