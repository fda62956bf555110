#include "client/cc/jit.h"

#include <gtest/gtest.h>

#include "client/cc/fake_daemon.h"
#include "client/cc/function.h"
#include "client/cc/ops.h"
#include "core/base/status.h"

namespace tensord {
namespace {

using Floats = std::vector<float>;
using Tensors = std::vector<Tensor>;
using Results = absl::StatusOr<Tensors>;

class JitTest : public ::testing::Test {
 protected:
  JitTest() : client_(*Client::Connect(daemon_.address())) {}
  ~JitTest() override {
    EXPECT_TRUE(client_->Wait().ok());
    EXPECT_EQ(daemon_.violations(), std::vector<std::string>{});
  }

  Tensor Vector(const Floats& data) {
    return client_->FromHost(data, {static_cast<int64_t>(data.size())});
  }
  static Floats Data(const Tensor& tensor) { return tensor.ToHost<float>().value(); }

  FakeDaemon daemon_;
  std::unique_ptr<Client> client_;
};

TEST_F(JitTest, LaterCallsSendOnlyTheNamesOfTheirInputs) {
  const Tensor weight = Vector({1, 2});
  Jit step(*client_, "step", [&](Tensors in) -> Results {
    return Tensors{Sum(Exp(in[0] * weight) / (in[0] + 2.0)), in[0] + 1.0};
  });
  ASSERT_TRUE(step({Vector({1, 2})}).ok());
  for (int i = 0; i < 3; ++i) {
    const Tensor x = Vector({0, static_cast<float>(i)});
    ASSERT_TRUE(client_->Wait().ok());
    const size_t commands = daemon_.commands().size();
    const Results out = step({x});
    ASSERT_TRUE(out.ok());
    EXPECT_EQ(Data((*out)[1]), (Floats{1, static_cast<float>(i + 1)}));
    EXPECT_EQ(daemon_.commands()[commands].verb_case(), v1::Command::kRun);
    EXPECT_LT(daemon_.last_frame_bytes(), 200u);
  }
  EXPECT_EQ(step.captures(), 1);
  EXPECT_EQ(daemon_.count(v1::Command::kRegisterProgram), 1);
}

TEST_F(JitTest, StateIsOverwrittenByEachCall) {
  const Tensor count = Vector({0});
  Jit step(*client_, "step", [&](Tensors in) -> Results {
    TD_RETURN_IF_ERROR(count.Assign(count + in[0]));
    return Tensors{count * 10.0};
  });
  for (float i = 1; i <= 3; ++i) {
    const Results out = step({Vector({1})});
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_EQ(Data((*out)[0]), Floats{10 * i});
    EXPECT_EQ(Data(count), Floats{i});
  }
  EXPECT_EQ(daemon_.count(v1::Command::kCopy), 0);
}

TEST_F(JitTest, ReadersOfAnOlderVersionKeepIt) {
  const Tensor count = Vector({1});
  Jit step(*client_, "step", [&](Tensors) -> Results {
    TD_RETURN_IF_ERROR(count.Assign(count + 1.0));
    return Tensors{};
  });
  ASSERT_TRUE(step({}).ok());
  const Tensor lazy = count * 10.0;
  ASSERT_TRUE(step({}).ok());
  ASSERT_TRUE(step({}).ok());
  EXPECT_EQ(Data(lazy), Floats{20});
  EXPECT_EQ(Data(count), Floats{4});
  EXPECT_EQ(Data(count * 10.0), Floats{40});
}

TEST_F(JitTest, StepsBetweenAssignmentsAreRepeatedByEachCall) {
  const Tensor count = Vector({1});
  Jit step(*client_, "step", [&](Tensors) -> Results {
    TD_RETURN_IF_ERROR(count.Assign(count + 1.0));
    TD_RETURN_IF_ERROR(count.Assign(count * 2.0));
    return Tensors{};
  });
  for (float expected : {4.0f, 10.0f, 22.0f}) {
    ASSERT_TRUE(step({}).ok());
    EXPECT_EQ(Data(count), Floats{expected});
  }
}

TEST_F(JitTest, EachSignatureHasAProgram) {
  Jit total(*client_, "total", [](Tensors in) -> Results { return Tensors{Sum(in[0])}; });
  EXPECT_EQ(Data((*total({Vector({1, 2})}))[0]), Floats{3});
  EXPECT_EQ(Data((*total({Vector({1, 2, 3})}))[0]), Floats{6});
  EXPECT_EQ(Data((*total({Vector({3, 4})}))[0]), Floats{7});
  EXPECT_EQ(total.captures(), 2);
}

TEST_F(JitTest, AsksForDataInsideAreRefusedAndLeaveStateAlone) {
  const Tensor state = Vector({1});
  Jit bad(*client_, "bad", [&](Tensors in) -> Results {
    TD_RETURN_IF_ERROR(state.Assign(state + 1.0));
    TD_RETURN_IF_ERROR(in[0].ToHost<float>().status());
    return in;
  });
  const Results out = bad({Vector({1})});
  EXPECT_EQ(out.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Data(state), Floats{1});
}

TEST_F(JitTest, RandomNumbersAreDrawnAnew) {
  Jit draw(*client_, "draw", [&](Tensors) -> Results { return Tensors{client_->Rand({2})}; });
  ASSERT_TRUE(client_->ManualSeed(3).ok());
  const Floats a = Data((*draw({}))[0]), b = Data((*draw({}))[0]);
  EXPECT_NE(a, b);
  ASSERT_TRUE(client_->ManualSeed(3).ok());
  EXPECT_EQ(Data((*draw({}))[0]), a);
  EXPECT_EQ(Data((*draw({}))[0]), b);
  EXPECT_EQ(draw.captures(), 1);
}

TEST_F(JitTest, LazyTensorsFromOutsideAreComputedOnce) {
  const Tensor table = Exp(Vector({0, 0}));
  Jit use(*client_, "use", [&](Tensors in) -> Results { return Tensors{in[0] + table}; });
  for (float i = 0; i < 3; ++i) {
    EXPECT_EQ(Data((*use({Vector({i, i})}))[0]), (Floats{i + 1, i + 1}));
  }
  EXPECT_EQ(daemon_.count(v1::Command::kRegisterProgram), 2);
}

TEST_F(JitTest, AnArgumentMayBeTheStateItself) {
  const Tensor state = Vector({1});
  Jit step(*client_, "step", [&](Tensors in) -> Results {
    TD_RETURN_IF_ERROR(state.Assign(state + in[0]));
    return Tensors{in[0] * 2.0};
  });
  EXPECT_EQ(Data((*step({state}))[0]), Floats{2});
  EXPECT_EQ(Data((*step({state}))[0]), Floats{4});
  EXPECT_EQ(Data(state), Floats{4});
}

TEST_F(JitTest, GradientsThatAreLeftAreThereAfterEachCall) {
  const Tensor weight = Vector({2});
  ASSERT_TRUE(weight.SetRequiresGrad(true).ok());
  Jit step(*client_, "step", [&](Tensors) -> Results {
    weight.SetGrad(std::nullopt);
    TD_RETURN_IF_ERROR(Sum(weight * weight).Backward());
    TD_RETURN_IF_ERROR(weight.Assign(Detach(weight) - 0.25 * *weight.grad()));
    return Tensors{};
  });
  for (float expected : {1.0f, 0.5f, 0.25f}) {
    ASSERT_TRUE(step({}).ok());
    ASSERT_TRUE(weight.grad().has_value());
    EXPECT_EQ(Data(*weight.grad()), Floats{4 * expected});
    EXPECT_EQ(Data(weight), Floats{expected});
  }
  EXPECT_EQ(step.captures(), 1);
  EXPECT_EQ(daemon_.count(v1::Command::kCopy), 0);
}

TEST_F(JitTest, WhetherThereIsAGradientDecidesWhichProgramRuns) {
  const Tensor weight = Vector({3});
  ASSERT_TRUE(weight.SetRequiresGrad(true).ok());
  Jit step(*client_, "step", [&](Tensors in) -> Results {
    TD_RETURN_IF_ERROR(Sum(weight * in[0]).Backward());
    return Tensors{};
  });
  for (float expected : {2.0f, 4.0f, 6.0f}) {
    ASSERT_TRUE(step({Vector({2})}).ok());
    EXPECT_EQ(Data(*weight.grad()), Floats{expected});
  }
  weight.SetGrad(std::nullopt);
  ASSERT_TRUE(step({Vector({5})}).ok());
  EXPECT_EQ(Data(*weight.grad()), Floats{5});
  EXPECT_EQ(step.captures(), 2);
}

TEST_F(JitTest, AnArgumentThatIsAssignedChangesForTheCaller) {
  Jit add(*client_, "add", [](Tensors in) -> Results {
    TD_RETURN_IF_ERROR(in[0].Assign(in[0] + 1.0));
    return Tensors{in[0] * 10.0, in[0]};
  });
  const Tensor x = Vector({1, 2});
  for (float i = 2; i <= 3; ++i) {
    const Results out = add({x});
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_EQ(Data((*out)[0]), (Floats{10 * i, 10 * i + 10}));
    EXPECT_EQ((*out)[1].state(), x.state());
    EXPECT_EQ(Data(x), (Floats{i, i + 1}));
  }
  EXPECT_EQ(daemon_.count(v1::Command::kCopy), 0);
  const Tensor base = Vector({1, 2, 3});
  ASSERT_TRUE(add({SliceAxis(base, 0, {.begin = 1})}).ok());
  EXPECT_EQ(Data(base), (Floats{1, 3, 4}));
}

TEST_F(JitTest, WhatIsAssignedHasOneName) {
  Jit add(*client_, "add", [](Tensors in) -> Results {
    TD_RETURN_IF_ERROR(in[0].Assign(in[0] + in[1]));
    return Tensors{};
  });
  const Tensor base = Vector({1, 2, 3});
  const Tensor head = SliceAxis(base, 0, {.end = 2}), tail = SliceAxis(base, 0, {.begin = 1});
  const Results out = add({head, tail});
  EXPECT_EQ(out.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Data(base), (Floats{1, 2, 3}));
  ASSERT_TRUE(add({head, head}).ok());
  EXPECT_EQ(Data(base), (Floats{2, 4, 3}));
}

TEST_F(JitTest, DerivativesGoThroughOrAreErrors) {
  const Tensor weight = Vector({2}), count = Vector({0}), x = Vector({3});
  ASSERT_TRUE(weight.SetRequiresGrad(true).ok());
  Jit square(*client_, "square",
             [&](Tensors in) -> Results { return Tensors{weight * weight * in[0]}; });
  Jit counted(*client_, "counted", [&](Tensors in) -> Results {
    TD_RETURN_IF_ERROR(count.Assign(count + 1.0));
    return Tensors{weight * in[0]};
  });
  const Tensor doubled = weight * 1.0;
  const Tensor y = (*square({doubled}))[0];
  EXPECT_EQ(Data(y), Floats{8});
  const Tensor targets[] = {weight};
  EXPECT_EQ(Data((*Sum(y).Gradient(targets))[0]), Floats{12});
  const Tensor z = (*counted({x}))[0] + weight;
  EXPECT_EQ(Sum(z).Gradient(targets).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Sum(z).Backward().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(JitTest, ATracedFunctionRunsOnce) {
  int runs = 0;
  TracedFunction scale(*client_, "scale",
                       [&runs](Tensors in) -> Results {
                         ++runs;
                         return Tensors{Exp(in[0] * in[1]), in[0]};
                       },
                       {});
  const Tensor x = Vector({0, 0}), y = Vector({1, 2});
  Tensor z = Vector({0, 0});
  for (int i = 0; i < 3; ++i) {
    const Results out = scale({z, x});
    ASSERT_TRUE(out.ok()) << out.status();
    z = (*out)[0] * y;
    EXPECT_EQ(Data((*out)[0]), (Floats{1, 1}));
  }
  const Tensor targets[] = {y};
  EXPECT_EQ(Data((*Sum((*scale({y, Vector({2, 0})}))[0]).Gradient(targets))[0])[1], 0);
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(scale.traces(), 1);
  TracedFunction uses(*client_, "uses", [&](Tensors in) -> Results { return Tensors{in[0] + y}; },
                      {});
  EXPECT_EQ(uses({x}).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(JitTest, ViewsFromOutsideFollowTheirBase) {
  const Tensor t = Vector({1, 2, 3});
  const Tensor head = SliceAxis(t, 0, {.end = 2});
  ASSERT_TRUE(head.Wait().ok());  // has data of its own when the function is captured
  Jit step(*client_, "step", [&](Tensors in) -> Results {
    const Tensor before = head * 1.0;
    TD_RETURN_IF_ERROR(t.Assign(t + in[0]));
    TD_RETURN_IF_ERROR(head.Assign(head * 10.0));
    return Tensors{before, Sum(t)};
  });
  Results out = step({Vector({1})});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(Data((*out)[0]), (Floats{1, 2}));
  EXPECT_EQ(Data((*out)[1]), (Floats{20 + 30 + 4}));
  EXPECT_EQ(Data(head), (Floats{20, 30}));
  ASSERT_TRUE(head.Assign(Vector({0, 1})).ok());
  out = step({Vector({2})});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(Data((*out)[0]), (Floats{0, 1}));
  EXPECT_EQ(Data(t), (Floats{20, 30, 6}));
  EXPECT_EQ(Data(head), (Floats{20, 30}));
  EXPECT_EQ(step.captures(), 1);
}

}  // namespace
}  // namespace tensord
