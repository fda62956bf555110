#include "client/cc/client.h"

#include <gtest/gtest.h>

#include <thread>

#include "client/cc/fake_daemon.h"
#include "client/cc/kernel.h"
#include "client/cc/ops.h"
#include "core/tensor/create.h"

namespace tensord {
namespace {

using Floats = std::vector<float>;

class ClientTest : public ::testing::Test {
 protected:
  ClientTest() {
    auto connected = Client::Connect(daemon_.address());
    EXPECT_TRUE(connected.ok()) << connected.status();
    client_ = *std::move(connected);
  }
  ~ClientTest() override {
    EXPECT_TRUE(client_->Wait().ok());
    EXPECT_EQ(daemon_.violations(), std::vector<std::string>{});
  }

  Tensor Vector(const Floats& data) {
    return client_->FromHost(data, {static_cast<int64_t>(data.size())});
  }
  static Floats Data(const Tensor& tensor) {
    absl::StatusOr<Floats> data = tensor.ToHost<float>();
    EXPECT_TRUE(data.ok()) << data.status();
    return data.ok() ? *data : Floats{};
  }
  int Runs() {
    EXPECT_TRUE(client_->Wait().ok());
    return daemon_.count(v1::Command::kRun);
  }
  int Programs() {
    EXPECT_TRUE(client_->Wait().ok());
    return daemon_.count(v1::Command::kRegisterProgram);
  }

  FakeDaemon daemon_;
  std::unique_ptr<Client> client_;
};

TEST_F(ClientTest, ComputesWhenDataIsAskedFor) {
  const Tensor y = Relu(Vector({-1, 2}) * 2.0 + 1.0);
  EXPECT_FALSE(y.is_realized());
  EXPECT_EQ(Runs(), 0);
  EXPECT_EQ(Data(y), (Floats{0, 5}));
  EXPECT_TRUE(y.is_realized());
  EXPECT_EQ(Data(y), (Floats{0, 5}));
  EXPECT_EQ(Runs(), 1);
}

TEST_F(ClientTest, TheSameComputationIsSentOnce) {
  for (float i = 0; i < 4; ++i) {
    EXPECT_EQ(Data((Vector({i, 1}) + 1.0) * Vector({2, 3})), (Floats{2 * i + 2, 6}));
  }
  EXPECT_EQ(Programs(), 1);
  EXPECT_EQ(Runs(), 4);
}

TEST_F(ClientTest, RealizeComputesSeveralByOneProgram) {
  const Tensor x = Vector({1, 2});
  const Tensor y = Exp(x), z = Sum(y), w = y * x;
  ASSERT_TRUE(Realize({{y, z, w}}).ok());
  EXPECT_EQ(Runs(), 1);
  EXPECT_TRUE(z.is_realized());
}

TEST_F(ClientTest, ErrorsStickAndNothingIsSent) {
  const Tensor bad = Vector({1, 2}) + Vector({1, 2, 3});
  EXPECT_EQ(bad.status().code(), absl::StatusCode::kInvalidArgument);
  const Tensor worse = Relu(bad * 2.0);
  EXPECT_EQ(worse.status(), bad.status());
  EXPECT_EQ(worse.ToHost<float>().status(), bad.status());
  EXPECT_EQ(Runs(), 0);
}

TEST_F(ClientTest, DataOfAnotherTypeIsRefused) {
  EXPECT_EQ(Vector({1}).ToHost<int32_t>().status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(client_->FromHost<float>({1, 2, 3}, {2}).ok());
}

TEST_F(ClientTest, AFailedRunReachesWhatDependsOnItWithTheFirstCause) {
  daemon_.FailNextRun(absl::ResourceExhaustedError("no memory for you"));
  const Tensor x = Vector({1}) + 1.0;
  ASSERT_TRUE(x.Realize().ok());
  const Tensor y = x * 2.0;
  for (const absl::Status& status : {y.ToHost<float>().status(), y.Wait(), x.Wait()}) {
    EXPECT_EQ(status, absl::ResourceExhaustedError("no memory for you"));
  }
  EXPECT_EQ(Data(Vector({1}) + 1.0), Floats{2});
}

TEST_F(ClientTest, AnUpdateOutlivesWhatIsTooLargeBesideIt) {
  const Tensor x = Vector({1, 2}), y = Vector({3, 4});
  const Tensor large = Sum(client_->Zeros({int64_t{1} << 45}));
  ASSERT_TRUE(x.Assign(x + 1.0).ok());
  ASSERT_EQ(y.Assign(y + large), absl::OkStatus());
  for (const absl::Status& status : {(Sum(x) + large).Realize(), y.Realize(), y.Realize()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  }
  EXPECT_EQ(Data(x), (Floats{2, 3}));
  ASSERT_TRUE(y.Assign(x * 2.0).ok());
  EXPECT_EQ(Data(y), (Floats{4, 6}));
  EXPECT_EQ(daemon_.count(v1::Command::kCopy), 0);
}

TEST_F(ClientTest, WhatAFailedRunOverwroteIsAnErrorUntilItIsAssigned) {
  const Tensor x = Vector({1, 2});
  ASSERT_TRUE(x.Assign(x + 1.0).ok());
  daemon_.FailNextRun(absl::InternalError("a kernel fell"));
  EXPECT_EQ(Sum(x).Wait(), absl::InternalError("a kernel fell"));
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = x.Wait();
    EXPECT_EQ(status, absl::InternalError("written in place by a run that failed, so its data is "
                                          "lost until it is assigned anew: a kernel fell"));
  }
  ASSERT_TRUE(x.Assign(Vector({5, 6})).ok());
  EXPECT_EQ(Data(x), (Floats{5, 6}));
}

TEST_F(ClientTest, AGeneratorGoesOnAfterARunThatFailed) {
  ASSERT_TRUE(client_->ManualSeed(7).ok());
  const Floats first = Data(client_->Rand({2})), second = Data(client_->Rand({2}));
  ASSERT_TRUE(client_->ManualSeed(7).ok());
  daemon_.FailNextRun(absl::InternalError("a kernel fell"));
  EXPECT_FALSE(client_->Rand({2}).Wait().ok());
  EXPECT_EQ(Data(client_->Rand({2})), second);
  EXPECT_NE(first, second);
}

TEST_F(ClientTest, AssignmentsReuseTheBuffer) {
  const Tensor x = Vector({1, 2});
  ASSERT_TRUE(x.Assign(x + 1.0).ok());
  ASSERT_TRUE(x.Assign(x * 10.0).ok());
  EXPECT_EQ(Data(x), (Floats{20, 30}));
  EXPECT_EQ(Runs(), 1);
  const v1::RunProgram run = daemon_.commands().back().run();
  ASSERT_EQ(run.outputs_size(), 1);
  EXPECT_EQ(run.outputs(0), run.inputs(0));
  EXPECT_EQ(daemon_.count(v1::Command::kCopy), 0);
}

TEST_F(ClientTest, AVersionThatIsStillWantedIsCopiedAside) {
  const Tensor x = Vector({1, 2});
  const Tensor before = x * 10.0;
  ASSERT_TRUE(x.Assign(x + 1.0).ok());
  EXPECT_EQ(Data(x), (Floats{2, 3}));
  EXPECT_EQ(daemon_.count(v1::Command::kCopy), 1);
  EXPECT_EQ(Data(before), (Floats{10, 20}));
}

TEST_F(ClientTest, AVersionThatTheSameRunReadsIsNotCopied) {
  const Tensor x = Vector({1, 2});
  const Tensor before = x * 10.0;
  ASSERT_TRUE(x.Assign(x + 1.0).ok());
  ASSERT_TRUE(Realize({{before, x}}).ok());
  EXPECT_EQ(daemon_.count(v1::Command::kCopy), 0);
  EXPECT_EQ(Data(before), (Floats{10, 20}));
}

TEST_F(ClientTest, AssigningAnotherTypeIsRefused) {
  const Tensor x = Vector({1, 2});
  EXPECT_FALSE(x.Assign(Vector({1})).ok());
  EXPECT_FALSE(x.Assign(Cast(x, DType::kFloat64)).ok());
  EXPECT_EQ(Data(x), (Floats{1, 2}));
}

TEST_F(ClientTest, BuffersAreGivenUpWithTheirLastReader) {
  ASSERT_TRUE(client_->Wait().ok());
  const size_t before = daemon_.live_tensors();
  {
    Tensor x = Vector({1, 2});
    const Tensor y = x + 1.0;
    x = Vector({0});
    EXPECT_EQ(Data(y), (Floats{2, 3}));  // the data of x was needed until here
  }
  ASSERT_TRUE(client_->Wait().ok());
  EXPECT_EQ(daemon_.live_tensors(), before);
}

TEST_F(ClientTest, ParametersWithOneValueHaveGradientsOfTheirOwn) {
  const Tensor a = client_->Ones({2}), b = client_->Ones({2});
  ASSERT_TRUE(a.SetRequiresGrad(true).ok());
  ASSERT_TRUE(b.SetRequiresGrad(true).ok());
  ASSERT_TRUE(Sum(a * 2.0 + b * 3.0).Backward().ok());
  EXPECT_EQ(Data(*a.grad()), (Floats{2, 2}));
  EXPECT_EQ(Data(*b.grad()), (Floats{3, 3}));
  EXPECT_FALSE(Vector({1}).SetRequiresGrad(true).ok() && Sum(Vector({1})).Backward().ok());
}

TEST_F(ClientTest, ParametersAreComputedOnceByAProgramOfTheirOwn) {
  const Tensor a = client_->Full({2}, 3, DType::kFloat32);
  ASSERT_TRUE(a.MakeLeaf().ok());
  for (int i = 1; i <= 3; ++i) {
    EXPECT_EQ(Data(a + Vector({1, 2})), (Floats{4, 5}));
    EXPECT_EQ(Programs(), 2);
  }
}

TEST_F(ClientTest, RandomNumbersDependOnTheSeedAndNotOnReading) {
  auto draw = [this](bool read_between) {
    EXPECT_TRUE(client_->ManualSeed(5).ok());
    const Tensor a = client_->Rand({3});
    if (read_between) Data(a);
    const Tensor b = client_->Rand({3});
    return std::pair(Data(a), Data(b));
  };
  const auto [a, b] = draw(true);
  EXPECT_NE(a, b);
  EXPECT_EQ(draw(false), std::pair(a, b));
}

TEST_F(ClientTest, StepsWithRandomNumbersAreTheSameProgram) {
  for (int i = 0; i < 4; ++i) Data(client_->Rand({3}));
  EXPECT_EQ(Programs(), 1);
}

TEST_F(ClientTest, VariablesAreGivenAnewForEachRun) {
  const Tensor n = client_->Variable("n", 0, 10);
  const Tensor x = Vector({1, 2});
  EXPECT_EQ((x * n).ToHost<float>().status().code(), absl::StatusCode::kFailedPrecondition);
  for (float value : {3.0f, 7.0f}) {
    client_->Bind("n", static_cast<int64_t>(value));
    EXPECT_EQ(Data(x * n), (Floats{value, 2 * value}));
  }
  EXPECT_EQ(Programs(), 1);
}

TEST_F(ClientTest, TheGraphIsCompacted) {
  const Tensor x = Vector({1});
  Tensor y = x;
  for (int i = 0; i < 100'000; ++i) y = x + static_cast<double>(i);
  EXPECT_LT(client_->session()->graph_nodes(), 100'000u);
  EXPECT_EQ(Data(y), Floats{100'000});
}

TEST_F(ClientTest, LongChainsEndWithoutRecursion) {
  Tensor x = Vector({1});
  for (int i = 0; i < 50'000; ++i) x = Contiguous(x + 1.0);
  x = Vector({0});
}

TEST_F(ClientTest, ThreadsShareAClient) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      const auto start = static_cast<float>(t);
      const Tensor x = Vector({start});
      for (int i = 0; i < 50; ++i) {
        ASSERT_TRUE(x.Assign(x + 1.0).ok());
        if (i % 7 == 0) {
          EXPECT_EQ(Data(x), Floats{start + static_cast<float>(i + 1)});
        }
      }
      EXPECT_EQ(Data(x), Floats{start + 50});
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(ClientTest, TensorsOfTwoClientsDoNotMix) {
  FakeDaemon other;
  auto client = Client::Connect(other.address());
  ASSERT_TRUE(client.ok());
  const Tensor theirs = (*client)->FromHost<float>({1}, {1});
  EXPECT_FALSE((Vector({1}) + theirs).ok());
}

TEST_F(ClientTest, KnowsItsDevices) {
  EXPECT_EQ(client_->devices(), std::vector<std::string>{"CPU:0"});
  EXPECT_EQ(client_->device(), "CPU:0");
  const auto other = Client::Connect(daemon_.address(), {.device = "GPU:7"});
  EXPECT_EQ(other.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ClientTest, ViewsAndTheirBaseAreOneMemory) {
  const Tensor t = Vector({0, 1, 2, 3, 4, 5});
  const Tensor computed = t * 1.0;
  const Tensor tail = SliceAxis(t, 0, {.begin = 3});
  const Tensor grid = Reshape(t, {2, 3});
  const Tensor column = SliceAxis(Transpose(grid, 0, 1), 0, {.begin = 1, .end = 2});  // 1, 4
  const Tensor odd = SliceAxis(t, 0, {.begin = 1, .step = 2});
  const Tensor back = SliceAxis(t, 0, {.end = 1, .step = -1});  // 5, 4, 3, 2
  ASSERT_TRUE(tail.Assign(tail + 10.0).ok());
  EXPECT_EQ(Data(t), (Floats{0, 1, 2, 13, 14, 15}));
  EXPECT_EQ(Data(column), (Floats{1, 14}));
  ASSERT_TRUE(column.Assign(column * 0.0).ok());
  EXPECT_EQ(Data(tail), (Floats{13, 0, 15}));
  ASSERT_TRUE(odd.Assign(Vector({7, 8, 9})).ok());
  EXPECT_EQ(Data(grid), (Floats{0, 7, 2, 8, 0, 9}));
  ASSERT_TRUE(back.Assign(Vector({-5, -4, -3, -2})).ok());
  EXPECT_EQ(Data(t), (Floats{0, 7, -2, -3, -4, -5}));
  ASSERT_TRUE(t.Assign(Vector({6, 5, 4, 3, 2, 1})).ok());
  EXPECT_EQ(Data(odd), (Floats{5, 3, 1}));
  EXPECT_EQ(Data(computed), (Floats{0, 1, 2, 3, 4, 5}));  // what was computed keeps its data
}

TEST_F(ClientTest, AViewDoesNotMakeItsBaseMove) {
  const Tensor t = Vector({0, 1, 2, 3});
  const Tensor head = SliceAxis(t, 0, {.end = 2}), tail = SliceAxis(t, 0, {.begin = 2});
  ASSERT_TRUE(head.Wait().ok());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(head.Assign(head + tail).ok());
    ASSERT_TRUE(t.Assign(t + 1.0).ok());
    ASSERT_TRUE(t.Wait().ok());
  }
  EXPECT_EQ(Data(tail), (Floats{5, 6}));
  EXPECT_EQ(Data(head), (Floats{0 + 2 + 1 + 3 + 1 + 4 + 1, 1 + 3 + 1 + 4 + 1 + 5 + 1}));
  EXPECT_EQ(daemon_.count(v1::Command::kCopy), 0);
}

TEST_F(ClientTest, AssigningFromAnOverlappingViewReadsFirst) {
  const Tensor t = Vector({0, 1, 2, 3});
  ASSERT_TRUE(SliceAxis(t, 0, {.begin = 1}).Assign(SliceAxis(t, 0, {.end = -1})).ok());
  EXPECT_EQ(Data(t), (Floats{0, 0, 1, 2}));
}

TEST_F(ClientTest, ViewsOfWhatIsNotYetComputed) {
  const Tensor x = Vector({1, 2, 3});
  const Tensor y = x * 2.0;
  const Tensor middle = SliceAxis(y, 0, {.begin = 1, .end = 2});
  ASSERT_TRUE(middle.Assign(middle * 10.0).ok());
  EXPECT_EQ(Data(y), (Floats{2, 40, 6}));
  EXPECT_EQ(Data(x), (Floats{1, 2, 3}));
  // A constant takes no memory until it is written to.
  const Tensor zeros =
      client_->Make([](Graph& graph) { return Zeros(graph, {3}, DType::kFloat32); });
  ASSERT_TRUE(SliceAxis(zeros, 0, {.begin = 2}).Assign(Vector({4})).ok());
  EXPECT_EQ(Data(zeros), (Floats{0, 0, 4}));
}

TEST_F(ClientTest, GradientsPassWhatWasWrittenThroughAView) {
  const Tensor w = Vector({1, 2, 3});
  ASSERT_TRUE(w.SetRequiresGrad(true).ok());
  const Tensor y = w * w;
  ASSERT_TRUE(SliceAxis(y, 0, {.end = 1}).Assign(Vector({100})).ok());
  ASSERT_TRUE(Sum(y).Backward().ok());
  ASSERT_TRUE(w.grad().has_value());
  EXPECT_EQ(Data(*w.grad()), (Floats{0, 4, 6}));
}

TEST_F(ClientTest, ATensorThatGetsMemoryOfItsOwnIsNoView) {
  const Tensor t = Vector({1, 2});
  const Tensor own = Reshape(t, {2, 1});
  ASSERT_TRUE(own.MakeLeaf().ok());
  ASSERT_TRUE(own.Assign(own + 1.0).ok());
  EXPECT_EQ(Data(t), (Floats{1, 2}));
  EXPECT_EQ(Data(own), (Floats{2, 3}));
}

// A matrix times a vector whose elements before the first are 0, and its rows' largest elements.
TEST_F(ClientTest, CallsKernelsWrittenByHand) {
  const Tensor x = client_->FromHost<float>({1, 2, 3, 4, 5, 6}, {2, 3}), w = Vector({1, 10, 100});
  const auto call = [&] {
    return CallKernel("matvec", {{DType::kFloat32, {2}}, {DType::kFloat32, {2}}}, {x, w},
                      [](KernelCall& kernel) {
                        const Tensor i = kernel.Range(2), k = kernel.ReduceRange(3);
                        const Tensor before = kernel.Load(1, {k - 1}, Gt(k, 0));
                        const Tensor value = kernel.Load(0, {i, k});
                        EXPECT_TRUE(kernel.Store(0, {i}, kernel.Sum(value * before, {k})).ok());
                        EXPECT_TRUE(kernel.Store(1, {i}, kernel.Max(value, {k})).ok());
                      });
  };
  for (int i = 0; i < 2; ++i) {
    const std::vector<Tensor> results = call();
    ASSERT_EQ(results.size(), 2u);
    ASSERT_TRUE(results[0].ok()) << results[0].status();
    EXPECT_EQ(Data(results[0] + results[1]), (Floats{35, 71}));
  }
  EXPECT_EQ(Programs(), 1);
}

TEST_F(ClientTest, KernelsThatMayReadOutsideAreErrors) {
  const std::vector<Tensor> results =
      CallKernel("next", {{DType::kFloat32, {3}}}, {Vector({1, 2, 3})}, [](KernelCall& kernel) {
        const Tensor i = kernel.Range(3);
        EXPECT_FALSE(kernel.Store(0, {i}, kernel.Load(0, {i + i})).ok());
      });
  EXPECT_NE(Message(results[0].status()).find("kernel 'next': input0[2*r0] may be outside"),
            std::string_view::npos)
      << results[0].status();
}

}  // namespace
}  // namespace tensord
