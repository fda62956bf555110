#include "core/tensor/size.h"

#include <gtest/gtest.h>

#include "core/base/status.h"
#include "core/tensor/build.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/gradient.h"
#include "core/tensor/index.h"
#include "core/tensor/movement.h"
#include "core/tensor/nn.h"
#include "core/tensor/reduce.h"
#include "core/tensor/scan.h"

namespace tensord {
namespace {

int64_t At(absl::StatusOr<int64_t> size) { return size.ok() ? *size : -1; }

TEST(Size, ACodeIsTheSameInEveryGraph) {
  const int64_t n = At(VariableSize("n", 1, 8));
  EXPECT_EQ(n, At(VariableSize("n", 1, 8)));
  EXPECT_NE(n, At(VariableSize("n", 1, 9)));
  EXPECT_TRUE(Varies(n));
  Graph a, b;
  b.Variable("other", 0, 1, DType::kInt32);
  const auto in_a = DimOfSize(a, At(SizePlus(n, 1))), in_b = DimOfSize(b, At(SizePlus(n, 1)));
  ASSERT_TRUE(in_a.ok() && in_b.ok());
  EXPECT_EQ(SizeOf(*in_a), SizeOf(*in_b));
  EXPECT_EQ(TextOf(*in_a), "n + 1");
}

TEST(Size, Arithmetic) {
  const int64_t n = At(VariableSize("n", 1, 8)), m = At(VariableSize("m", 0, 3));
  EXPECT_EQ(At(SizeMinus(At(SizePlus(n, 5)), 5)), n);
  EXPECT_EQ(At(SizeMinus(n, n)), 0);
  EXPECT_EQ(At(SizeProduct({2, n, m})), At(SizeProduct({m, 2, n})));
  EXPECT_EQ(At(SizeProduct({2, 3})), 6);
  EXPECT_EQ(SizeHigh(At(SizeProduct({2, n, m}))), 48);
  EXPECT_EQ(SizeLow(At(SizePlus(n, m))), 1);
  EXPECT_TRUE(SizeAtMost(n, 8) && !SizeAtMost(n, 7) && SizeAtMost(3, 3));
  EXPECT_EQ(SizeIn(At(SizeProduct({2, n})), [](std::string_view) { return 4; }), 8);
  ASSERT_EQ(VariablesOfSize(At(SizePlus(n, m))).size(), 2u);
  EXPECT_EQ(VariablesOfSize(n)[0], (SizeVariable{"n", 1, 8}));
  // A number near a code is none.
  EXPECT_FALSE(SizePlus(n - 1, 0).ok());
  EXPECT_FALSE(VariableSize("n", 3, 2).ok());
}

struct ErrorCase {
  std::string_view name;
  Expr (*make)(const Expr& x, const Expr& part, int64_t n);  // [8, 6], [n, 6]
  std::string_view error;
};

const ErrorCase kErrors[] = {
    {"broadcast", [](const Expr& x, const Expr& part, int64_t) { return x + part; },
     "add: shapes [8, 6] and [n, 6] do not broadcast"},
    {"reshape",
     [](const Expr&, const Expr& part, int64_t) {
       return Reshape(part, {8, 6});
     },
     "reshape: [n, 6] does not fit [8, 6]"},
    {"reshape to more",
     [](const Expr& x, const Expr&, int64_t n) {
       return Reshape(x, {n, -1});
     },
     "reshape: [8, 6] does not fit [n, -1]"},
    {"expand",
     [](const Expr& x, const Expr&, int64_t n) {
       return Expand(x, {n, 6});
     },
     "expand: [8, 6] does not become [n, 6]"},
    {"slice outside",
     [](const Expr& x, const Expr&, int64_t n) { return Shrink(x, 0, n, At(SizePlus(n, 1))); },
     "shrink: [n, n + 1) is outside of axis 0 of shape [8, 6], or may be"},
    {"step",
     [](const Expr& x, const Expr&, int64_t n) { return SliceAxis(x, 0, {.end = n, .step = 2}); },
     "slice: step 2 on axis 0"},
    {"cumsum", [](const Expr&, const Expr& part, int64_t) { return CumSum(part, 0); },
     "cumsum: axis 0 of [n, 6] varies"},
    {"split",
     [](const Expr&, const Expr& part, int64_t) {
       auto pieces = Split(part, {2, 2}, 0);
       return pieces.ok() ? (*pieces)[0] : Expr(&part.graph(), pieces.status());
     },
     "split: axis 0 of [n, 6] varies"},
    {"windows",
     [](const Expr&, const Expr& part, int64_t) { return Windows(part, 0, {.taps = 2}); },
     "varies"},
    {"matmul",
     [](const Expr& x, const Expr& part, int64_t) { return MatMul(Transpose(part, 0, 1), x); },
     "matmul: inner sizes differ: [6, n] @ [8, 6]"},
    {"crop",
     [](const Expr&, const Expr& part, int64_t) {
       return Pad(part, {{-1, 0}, {0, 0}});
     },
     "pad: (-1, 0) crops axis 0 of [n, 6]"},
    {"take",
     [](const Expr&, const Expr& part, int64_t) {
       const IndexItem items[] = {Arange(part.graph(), 0, 2, 1, DType::kInt32)};
       return Index(part, items);
     },
     "index: axis 0 of [n, 6] varies"},
};

TEST(Size, ErrorsNameTheOperationAndTheAxis) {
  Graph graph;
  const int64_t n = At(VariableSize("n", 1, 8));
  const Expr x(&graph, graph.Param(0, DType::kFloat32, {8, 6}));
  const Expr part = Shrink(x, 0, 0, n);
  EXPECT_EQ(ShapeText(part.shape()), "[n, 6]");
  for (const ErrorCase& c : kErrors) {
    const Expr y = c.make(x, part, n);
    EXPECT_EQ(y.ok(), c.error.empty()) << c.name << ": " << y.status();
    EXPECT_NE(Message(y.status()).find(c.error), std::string_view::npos)
        << c.name << ": " << y.status();
  }
}

TEST(Size, GradientsHaveTheShapesOfTheirTargets) {
  Graph graph;
  const int64_t n = At(VariableSize("n", 1, 8));
  const Expr x(&graph, graph.Param(0, DType::kFloat32, {8, 6}));
  const Expr part = Shrink(x, 0, 0, n);
  const Expr loss = Mean(Softmax(MatMul(part, Transpose(part, 0, 1)), -1) * 2);
  const std::vector<Expr> gradients = Gradient(loss, {x, part});
  ASSERT_TRUE(gradients[0].ok() && gradients[1].ok());
  EXPECT_EQ(ShapeText(gradients[0].shape()), "[8, 6]");
  EXPECT_EQ(ShapeText(gradients[1].shape()), "[n, 6]");
}

}  // namespace
}  // namespace tensord
