// How many kernels things become. A count that grows is a fusion lost; one that shrinks is to be
// written down here.
#include <gtest/gtest.h>

#include "core/ir/program.h"
#include "core/schedule/schedule.h"
#include "core/tensor/activation.h"
#include "core/tensor/compact.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/gradient.h"
#include "core/tensor/index.h"
#include "core/tensor/loss.h"
#include "core/tensor/movement.h"
#include "core/tensor/nn.h"
#include "core/tensor/order.h"
#include "core/tensor/random.h"
#include "core/tensor/reduce.h"
#include "core/tensor/scan.h"
#include "core/tensor/scatter.h"
#include "tools/bench/models.h"

namespace tensord {
namespace {

class Inputs {
 public:
  explicit Inputs(Program& program) : program_(program) {}
  Expr operator()(std::vector<int64_t> shape, DType dtype = DType::kFloat32) {
    const Node* param =
        program_.graph.Param(static_cast<int64_t>(program_.inputs.size()), dtype, shape);
    program_.inputs.push_back(param);
    return Expr(&program_.graph, param);
  }

 private:
  Program& program_;
};

size_t Kernels(const Program& program) {
  absl::StatusOr<Schedule> schedule = MakeSchedule(program);
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  return schedule.ok() ? schedule->steps.size() : 0;
}

struct Case {
  const char* name;
  size_t kernels;
  std::vector<Expr> (*outputs)(Inputs& in);
};

std::vector<Expr> Gradients(const Expr& loss, std::vector<Expr> targets) {
  return Gradient(loss, targets);
}

const Case kCases[] = {
    {"elementwise chain", 1,
     [](Inputs& in) {
       return std::vector{Exp(in({64, 64}) * 2.0) + in({64, 64})};
     }},
    {"movement between elementwise", 1,
     [](Inputs& in) {
       const int64_t swap[] = {1, 0};
       return std::vector{Permute(in({8, 64}) + 1.0, swap) * in({64, 8})};
     }},
    {"softmax", 1,
     [](Inputs& in) {
       return std::vector{Softmax(in({32, 100}), -1)};
     }},
    {"log softmax", 1,
     [](Inputs& in) {
       return std::vector{LogSoftmax(in({32, 100}), -1)};
     }},
    {"cumsum between elementwise", 1,
     [](Inputs& in) {
       return std::vector{Exp(CumSum(in({32, 100}) * 2.0, 1)) + in({32, 100})};
     }},
    {"cumsum backward", 1,
     [](Inputs& in) {
       const Expr x = in({32, 100});
       return Gradients(Sum(CumSum(x, 0) * in({32, 100})), {x});
     }},
    {"running sum and maximum", 1,
     [](Inputs& in) {
       const Expr x = in({32, 100});
       return std::vector{CumSum(x, 1), Scan(ScanKind::kMax, x, 1)};
     }},
    {"softmax, then its distribution", 1,
     [](Inputs& in) {
       return std::vector{CumSum(Softmax(in({32, 100}), -1), -1)};
     }},
    {"cummax with indices", 1,
     [](Inputs& in) {
       const CumExtreme most = CumMax(in({32, 100}), 1);
       return std::vector{most.values, most.indices};
     }},
    {"argmax of an expression", 1,
     [](Inputs& in) {
       return std::vector{ArgMax(in({32, 100}) + in({32, 100}), 1)};
     }},
    // What it starts from and the updates.
    {"scatter of an expression", 2,
     [](Inputs& in) {
       const Expr x = in({64, 16}), values = in({32, 16}) * 2.0;
       return std::vector{
           Scatter(ScatterKind::kAdd, Exp(x), in({32, 1}, DType::kInt32), values, 0)};
     }},
    {"embedding backward", 2,
     [](Inputs& in) {
       const Expr table = in({1000, 64}), index = in({8, 16}, DType::kInt32);
       return Gradients(Sum(Embedding(table, index) * in({8, 16, 64})), {table});
     }},
    // The sum that numbers the elements, what the result starts from and the elements.
    {"masked select", 3,
     [](Inputs& in) {
       const Expr x = in({1000});
       return std::vector{MaskedSelect(x, Lt(0, x), 300)};
     }},
    // The keys, a kernel for each doubling of the runs; the last takes the values too.
    {"sort of 100", 8,
     [](Inputs& in) {
       const Sorted sorted = Sort(in({4, 100}), 1);
       return std::vector{sorted.values, sorted.indices};
     }},
    // A copy of the sequence, and the search.
    {"searchsorted", 2,
     [](Inputs& in) { return std::vector{SearchSorted(in({1000}), in({500}))}; }},
    {"cumprod backward", 2,
     [](Inputs& in) {
       const Expr x = in({32, 100});
       return Gradients(Sum(CumProd(x, 1) * in({32, 100})), {x});
     }},
    {"logsumexp", 1,
     [](Inputs& in) {
       return std::vector{LogSumExp(in({32, 100}), {1})};
     }},
    {"layer norm", 1,
     [](Inputs& in) {
       return std::vector{LayerNorm(in({32, 64}), 1, in({64}), in({64}))};
     }},
    {"rms norm", 1,
     [](Inputs& in) {
       return std::vector{RmsNorm(in({32, 64}), in({64}))};
     }},
    {"mean and variance", 1,
     [](Inputs& in) {
       const Expr x = in({32, 64});
       return std::vector{Mean(x, {1}), Var(x, {1})};
     }},
    {"sum and max of one tensor", 1,
     [](Inputs& in) {
       const Expr x = in({32, 64});
       return std::vector{Sum(x, {1}), Max(x, {1})};
     }},
    {"two outputs from the same inputs", 1,
     [](Inputs& in) {
       const Expr x = in({512}), y = in({512});
       return std::vector{x + y, x * y};
     }},
    {"matmul", 1,
     [](Inputs& in) {
       return std::vector{MatMul(in({64, 64}), in({64, 64}))};
     }},
    {"matmul, bias, relu", 1,
     [](Inputs& in) {
       return std::vector{Relu(MatMul(in({64, 64}), in({64, 64})) + in({64}))};
     }},
    // The weights are packed so that output channels lie side by side.
    {"conv, bias, relu", 2,
     [](Inputs& in) {
       return std::vector{Relu(Conv(in({4, 8, 12, 12}), in({16, 8, 3, 3}), in({16})))};
     }},
    // Besides: the statistics, and what is made with them.
    {"conv, relu, batch norm in training", 4,
     [](Inputs& in) {
       const Expr x = in({64, 8, 34, 34});
       const Expr y = Relu(Conv(x, in({16, 8, 3, 3}), in({16})));
       const BatchNormResult norm = BatchNormTrain(y, in({16}), in({16}));
       return std::vector{norm.y, norm.mean, norm.unbiased_var};
     }},
    {"conv, batch norm in inference, relu", 2,
     [](Inputs& in) {
       const Expr y = Conv(in({4, 8, 12, 12}), in({16, 8, 3, 3}));
       return std::vector{Relu(BatchNorm(y, in({16}), in({16}), in({16}), in({16})))};
     }},
    {"max pool", 1,
     [](Inputs& in) {
       const int64_t two[] = {2, 2};
       return std::vector{MaxPool(in({4, 8, 12, 12}), {.kernel = two})};
     }},
    // The terms of the mean over the batch are sums of their own, which no loop holds yet.
    {"cross entropy", 2,
     [](Inputs& in) {
       return std::vector{CrossEntropy(in({64, 10}), in({64}, DType::kInt32))};
     }},
    {"cross entropy and its gradient", 2,
     [](Inputs& in) {
       const Expr logits = in({64, 10});
       const Expr loss = CrossEntropy(logits, in({64}, DType::kInt32));
       return std::vector{loss, Gradients(loss, {logits})[0]};
     }},
    {"rows by index", 1,
     [](Inputs& in) {
       return std::vector{Embedding(in({1000, 64}), in({32}, DType::kInt32)) * 2.0};
     }},
    {"cat", 1,
     [](Inputs& in) {
       const Expr parts[] = {in({4, 8}), in({3, 8})};
       return std::vector{Cat(parts, 0)};
     }},
    {"normal random numbers", 1,
     [](Inputs& in) {
       const RandomState state{in({2}, DType::kUint32), in({2}, DType::kUint32)};
       return std::vector{Normal(state, {1000}, DType::kFloat32).value};
     }},
    // Scores, softmax, values; and the keys are packed.
    {"attention", 4,
     [](Inputs& in) {
       return std::vector{ScaledDotProductAttention(in({2, 4, 64, 32}), in({2, 4, 64, 32}),
                                                    in({2, 4, 64, 32}), {.is_causal = true})};
     }},
};

TEST(KernelCount, OfOneThing) {
  for (const Case& c : kCases) {
    Program program;
    Inputs in(program);
    for (const Expr& output : c.outputs(in)) {
      ASSERT_TRUE(output.ok()) << c.name << ": " << output.status();
      program.outputs.push_back({output.node()});
    }
    EXPECT_EQ(Kernels(program), c.kernels) << c.name;
  }
}

TEST(KernelCount, OfAnAdamStep) {
  // Parameter, first and second moment in one kernel, in place.
  Program program;
  Inputs in(program);
  const Expr p = in({1000}), m = in({1000}), v = in({1000}), g = in({1000});
  const Expr new_m = m * 0.9 + g * 0.1, new_v = v * 0.999 + g * g * 0.001;
  program.outputs.push_back({(p - new_m / (Sqrt(new_v) + 1e-8) * 0.001).node(), 0});
  program.outputs.push_back({new_m.node(), 1});
  program.outputs.push_back({new_v.node(), 2});
  EXPECT_EQ(Kernels(program), 1u);
}

TEST(KernelCount, OfTheMnistStep) { EXPECT_EQ(Kernels(MnistStep()), 53u); }

TEST(KernelCount, OfResNet50) { EXPECT_EQ(Kernels(ResNet50Forward()), 115u); }

}  // namespace
}  // namespace tensord
