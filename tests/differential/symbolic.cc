#include "tests/differential/symbolic.h"

#include <cmath>
#include <limits>
#include <random>

#include "core/base/status.h"
#include "core/ir/dims.h"
#include "core/ir/substitute.h"
#include "core/rules/spec.h"
#include "core/schedule/schedule.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/loop.h"
#include "tests/differential/expect.h"
#include "tests/differential/interpret.h"

namespace tensord {
namespace {

// The case with numbers for its variables.
Case AtFixedSizes(const Case& test, const Variables& variables) {
  Case fixed;
  fixed.seed = test.seed;
  fixed.overwrites = test.overwrites;
  fixed.outputs = CopyTo(fixed.graph, test.outputs);
  ReplacementMap values;
  for (const Node* node : TopologicalOrder(fixed.outputs)) {
    if (node->op != Op::kVariable) continue;
    values[node] = {fixed.graph.Int(node->dtype, variables.at(std::string(node->text)))};
  }
  fixed.outputs = Substitute(fixed.graph, fixed.outputs, values);
  return fixed;
}

// Where in memory, which has room for `bounds`, the elements of a tensor of `shape` lie.
std::vector<size_t> Places(Shape bounds, Shape shape) {
  std::vector<size_t> places;
  std::vector<int64_t> index(shape.size());
  for (int64_t e = 0; e < NumElements(shape); ++e) {
    int64_t offset = 0;
    for (size_t axis = 0; axis < shape.size(); ++axis) offset = offset * bounds[axis] + index[axis];
    places.push_back(static_cast<size_t>(offset));
    for (size_t axis = shape.size(); axis-- > 0 && ++index[axis] == shape[axis];) index[axis] = 0;
  }
  return places;
}

std::vector<int64_t> ActualShape(const Node* node, const Variables& variables) {
  std::vector<int64_t> shape;
  for (const Dim& dim : ShapeOf(node)) {
    shape.push_back(dim.node == nullptr ? dim.size : Evaluate(dim.node, [&](const Node* variable) {
      return variables.at(std::string(variable->text));
    }));
  }
  return shape;
}

Variables ValuesFor(const Case& test, int run) {
  Variables values;
  std::mt19937_64 random(test.seed + static_cast<uint64_t>(run) * 77);
  for (const Node* node : TopologicalOrder(test.outputs)) {
    if (node->op != Op::kVariable) continue;
    const int64_t count = node->ints[1] - node->ints[0] + 1;
    int64_t above = static_cast<int64_t>(random() % static_cast<uint64_t>(count));
    if (run < 2) above = run == 0 ? 0 : count - 1;
    values[std::string(node->text)] = node->ints[0] + above;
  }
  return values;
}

absl::StatusOr<std::string> TryCheckSymbolic(Case& test, ProgramRunner& runner, int runs) {
  TD_ASSIGN_OR_RETURN(const std::vector<const Node*> params, ParamsOf(test));
  TD_RETURN_IF_ERROR(VerifyTensor(test.outputs));
  TD_ASSIGN_OR_RETURN(const Program program, ProgramOf(test));
  TD_ASSIGN_OR_RETURN(const Schedule schedule, MakeSchedule(program));
  TD_ASSIGN_OR_RETURN(const std::shared_ptr<const Executable> executable,
                      runner.runtime().Prepare(program, runner.device(), nullptr));
  for (int run = 0; run < runs; ++run) {
    const Variables variables = ValuesFor(test, run);
    std::string at;
    for (const auto& [name, value] : variables) at += fmt::format("{}={} ", name, value);

    Case fixed = AtFixedSizes(test, variables);
    ReferenceInputs reference;
    std::vector<HostTensor> inputs;
    for (const Node* param : params) {
      const std::vector<int64_t> shape = ActualShape(param, variables);
      Graph graph;
      const HostTensor values =
          InputsOf(fixed, {graph.Param(param->slot(), param->dtype, shape)})[0];
      reference.params[param->slot()] = values.values;
      // What lies behind the elements must not be read.
      HostTensor input{param->dtype, {param->shape.begin(), param->shape.end()}, {}};
      input.values.resize(static_cast<size_t>(NumElements(param->shape)));
      const std::vector<size_t> places = Places(param->shape, shape);
      for (size_t e = 0; e < places.size(); ++e) input.values[places[e]] = values.values[e];
      inputs.push_back(std::move(input));
    }
    const std::vector<Expected> expected = Expect(fixed.outputs, reference);
    const auto compare = [&](size_t output, const Memory& memory) {
      const Node* node = test.outputs[output];
      Memory actual;
      for (size_t place : Places(node->shape, ActualShape(node, variables))) {
        actual.push_back(memory[place]);
      }
      return Compare(actual, expected[output]);
    };

    Target other = runner.device().target();
    other.vector_bytes = test.seed % 2 == 0 ? 16 : 64;
    other.vector_registers = test.seed % 2 == 0 ? 16 : 32;
    other.cores = test.seed % 5 == 0 ? 1 : 64;
    for (const Target& target : {runner.device().target(), other}) {
      std::vector<Memory> memory;
      for (const Schedule::Buffer& buffer : schedule.buffers) {
        memory.push_back(buffer.kind == Schedule::Kind::kInput
                             ? inputs[static_cast<size_t>(buffer.index)].values
                             : Memory(static_cast<size_t>(buffer.elements)));
      }
      std::string problem = Interpret(schedule, target, memory, variables);
      for (size_t i = 0; problem.empty() && i < test.outputs.size(); ++i) {
        problem = compare(i, memory[static_cast<size_t>(schedule.outputs[i])]);
      }
      if (!problem.empty()) return fmt::format("interpreted at {}: {}", at, problem);
    }

    std::vector<BufferRef> buffers;
    for (HostTensor& input : inputs) {
      for (Scalar& value : input.values) {
        if (value.dtype == DType::kVoid) {
          value = Scalar::Of(input.dtype, IsFloat(input.dtype) ? std::nan("") : 99);
        }
      }
      buffers.push_back(Upload(runner.device(), input));
    }
    TD_ASSIGN_OR_RETURN(const Run done, runner.runtime().Submit(executable, buffers, variables));
    TD_RETURN_IF_ERROR(runner.device().timeline().Wait(done.done, absl::InfiniteFuture()));
    for (size_t i = 0; i < test.outputs.size(); ++i) {
      const std::string problem = compare(i, Download(*done.outputs[i]).values);
      if (!problem.empty()) return fmt::format("output {} at {}: {}", i, at, problem);
    }
  }
  return "";
}

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) { test_.seed = seed; }

  Case Run() {
    Graph& graph = test_.graph;
    n_ = Size("n", Below(2), 5 + Below(14));
    m_ = Size("m", 1 - Below(2), 1 + Below(4));
    for (int i = 0; i < 2 + Below(2); ++i) AddParam();
    Add(graph.Cast(Sized(Op::kIota, {}, {AnySize()}, DType::kInt32), DType::kFloat32));
    const int64_t steps = 6 + Below(16);
    for (int i = 0; i < steps; ++i) Step();
    const size_t outputs = 1 + static_cast<size_t>(Below(3));
    for (size_t i = 0; i < outputs && i < pool_.size(); ++i) {
      test_.outputs.push_back(pool_[pool_.size() - 1 - i]);
    }
    test_.overwrites.assign(test_.outputs.size(), Program::kFresh);
    RenumberParams();
    return std::move(test_);
  }

 private:
  int64_t Below(int64_t count) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(count));
  }

  Dim Size(std::string_view name, int64_t min, int64_t max) {
    return DimOf(test_.graph.Cast(
        test_.graph.Variable(name, min, std::max(min, max), DType::kInt32), DType::kIndex));
  }

  Dim AnySize() {
    Graph& graph = test_.graph;
    switch (Below(8)) {
      case 0:
        return m_;
      case 1:
        return Plus(graph, n_, {Below(3)});
      case 2:
        return DimOf(graph.Make(Op::kMul, {n_.node, graph.Index(2)}));
      case 3:
        return {1 + Below(9)};
      case 4:
        return {1};
      default:
        return n_;
    }
  }

  const Node* Sized(Op op, std::vector<const Node*> operands, const Sizes& sizes,
                    DType dtype = DType::kVoid) {
    const SizedOp sized(operands, sizes);
    auto made =
        test_.graph.TryMake({.op = op, .src = sized.src, .ints = sized.ints, .dtype = dtype});
    return made.ok() ? *made : nullptr;
  }

  void Add(const Node* node) {
    constexpr int64_t kMaxElements = 3000;
    if (node != nullptr && NumElements(node->shape) <= kMaxElements) pool_.push_back(node);
  }

  void AddParam() {
    Sizes shape;
    for (int64_t i = 0; i < 1 + Below(3); ++i) {
      shape.push_back(Below(2) == 0 ? AnySize() : Dim{1 + Below(20)});
    }
    Add(test_.graph.SizedParam(slots_++, DType::kFloat32, shape));
  }

  const Node* Any() {
    return pool_[static_cast<size_t>(Below(static_cast<int64_t>(pool_.size())))];
  }

  void Step() {
    Graph& graph = test_.graph;
    const Node* x = Any();
    const Sizes shape = ShapeOf(x);
    const int64_t axis = shape.empty() ? 0 : Below(x->rank());
    switch (Below(13)) {
      case 12:
        return AddLoop(x);
      case 0:
        return Add(graph.Make(Below(3) == 0 ? Op::kExp : Op::kNeg, {x}));
      case 1:
      case 2:
      case 3: {
        // An operand of the same shape, or one that is brought there.
        const Op ops[] = {Op::kAdd, Op::kMul, Op::kSub, Op::kMax};
        const Op op = ops[Below(4)];
        for (int tries = 0; tries < 8; ++tries) {
          const Node* y = Any();
          if (SameShape(x, y)) return Add(graph.Make(op, {x, y}));
        }
        return Add(graph.Make(op, {x, x}));
      }
      case 4: {
        Sizes longer = shape;
        longer.insert(longer.begin() + axis, Dim{1});
        const Node* apart = Sized(Op::kReshape, {x}, longer);
        longer[static_cast<size_t>(axis)] = AnySize();
        return Add(Sized(Op::kExpand, {apart}, longer));
      }
      case 5: {
        if (x->rank() < 2) return;
        // Two axes become one, and perhaps two again.
        const size_t first = static_cast<size_t>(Below(x->rank() - 1));
        Sizes merged(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(first));
        merged.push_back(TimesAll(graph, {shape[first], shape[first + 1]}));
        merged.insert(merged.end(), shape.begin() + static_cast<std::ptrdiff_t>(first) + 2,
                      shape.end());
        const Node* y = Sized(Op::kReshape, {x}, merged);
        Add(y);
        if (y == nullptr || Below(2) == 0) return;
        Sizes split = shape;
        std::swap(split[first], split[first + 1]);
        const Node* stored = Below(2) == 0 ? graph.Make(Op::kContiguous, {y}) : y;
        return Add(Sized(Op::kReshape, {stored}, split));
      }
      case 6: {
        if (x->rank() < 2) return;
        std::vector<int64_t> order(shape.size());
        for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
        std::shuffle(order.begin(), order.end(), random_);
        return Add(graph.Make({.op = Op::kPermute, .src = {x}, .ints = order}));
      }
      case 7: {
        if (shape.empty()) return;
        return Add(graph.Make(Op::kFlip, {x}, {axis}));
      }
      case 8: {
        if (shape.empty()) return;
        Sizes pairs(2 * shape.size(), Dim{0});
        pairs[2 * static_cast<size_t>(axis)] = Below(3) == 0 ? AnySize() : Dim{Below(3)};
        pairs[2 * static_cast<size_t>(axis) + 1] = {Below(3)};
        return Add(Sized(Op::kPad, {x}, pairs));
      }
      case 9: {
        if (shape.empty()) return;
        Sizes pairs;
        for (const Dim& dim : shape) pairs.insert(pairs.end(), {Dim{0}, dim});
        Dim& begin = pairs[2 * static_cast<size_t>(axis)];
        Dim& end = pairs[2 * static_cast<size_t>(axis) + 1];
        if (Below(2) == 0) begin = Below(2) == 0 ? m_ : Dim{Below(3)};
        if (Below(3) > 0) end = Below(2) == 0 ? n_ : Plus(graph, begin, m_);
        return Add(Sized(Op::kShrink, {x}, pairs));
      }
      case 10: {
        if (shape.empty()) return;
        const Node* reduced = graph.Make(Op::kReduce, {x}, {Below(2) * 2, axis});
        Add(reduced);
        // Normalised, so that the reduction and its source share a loop.
        const Node* wide = Sized(Op::kExpand, {reduced}, shape);
        return Add(wide == nullptr ? nullptr : graph.Make(Op::kSub, {x, wide}));
      }
      default: {
        if (Below(2) == 0) return Add(graph.Make(Op::kContiguous, {x}));
        if (shape.empty()) return;
        const Node* rows = Sized(Op::kIota, {}, {AnySize()}, DType::kInt32);
        return Add(graph.Make(Op::kGather, {x, rows}));
      }
    }
  }

  // A few steps over and over, on a state that begins as `x`.
  void AddLoop(const Node* x) {
    if (in_loop_) return;
    const std::vector<const Node*> around = pool_;
    in_loop_ = true;
    const std::vector<Expr> results =
        ForLoop(Below(4), {Expr(&test_.graph, x)}, [&](const Expr& i, absl::Span<const Expr> s) {
          pool_.push_back(Cast(i, DType::kFloat32).node());
          pool_.push_back(s[0].node());
          for (int64_t steps = 1 + Below(4); steps > 0; --steps) Step();
          Expr next = s[0] * 0.5;
          for (const Node* y : pool_) {
            if (SameShape(x, y) && Below(2) == 0) next = next + Expr(&test_.graph, y);
          }
          return std::vector<Expr>{next};
        });
    in_loop_ = false;
    pool_ = around;
    if (results[0].ok()) Add(results[0].node());
  }

  // Those that no output reads are left out.
  void RenumberParams() {
    ReplacementMap map;
    int64_t next = 0;
    for (const Node* node : TopologicalOrder(test_.outputs)) {
      if (node->op == Op::kParam) {
        map[node] = {test_.graph.SizedParam(1000 + next++, node->dtype, ShapeOf(node))};
      }
    }
    for (int64_t offset : {1000, 0}) {
      test_.outputs = Substitute(test_.graph, test_.outputs, map);
      map.clear();
      for (const Node* node : TopologicalOrder(test_.outputs)) {
        if (node->op != Op::kParam || offset == 0) continue;
        map[node] = {test_.graph.SizedParam(node->slot() - offset, node->dtype, ShapeOf(node))};
      }
    }
  }

  Case test_;
  std::mt19937_64 random_;
  Dim n_, m_;
  int64_t slots_ = 0;
  bool in_loop_ = false;
  std::vector<const Node*> pool_;
};

}  // namespace

Case GenerateSymbolic(uint64_t seed) { return Generator(seed).Run(); }

std::string CheckSymbolic(Case& test, ProgramRunner& runner, int runs) {
  absl::StatusOr<std::string> result = TryCheckSymbolic(test, runner, runs);
  return result.ok() ? *result : std::string(Message(result.status()));
}

}  // namespace tensord
