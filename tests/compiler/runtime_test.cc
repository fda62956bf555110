// The runtime on a real device: what is cached, what is refused, what is shared.
#include "core/runtime/runtime.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <thread>

#include "backends/registry.h"
#include "core/base/status.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/movement.h"
#include "core/tensor/testing.h"
#include "tests/compiler/run_program.h"

namespace tensord {
namespace {

std::unique_ptr<Runtime> MakeRuntime(const std::string& cache_dir = "") {
  auto devices = OpenDevices("cpu:2");
  EXPECT_TRUE(devices.ok()) << devices.status();
  auto runtime = Runtime::Create({.cache_dir = cache_dir}, *std::move(devices));
  EXPECT_TRUE(runtime.ok()) << runtime.status();
  return *std::move(runtime);
}

// out = x * factor + y.
Program Line(double factor, int64_t size = 100) {
  Bench bench;
  const Expr x = bench.Counting({size}), y = bench.Counting({size});
  return MakeProgram({x * factor + y}, bench.inputs());
}

std::vector<BufferRef> Uploads(Device& device, int count, int64_t size = 100) {
  std::vector<BufferRef> buffers;
  for (int i = 0; i < count; ++i) {
    buffers.push_back(Upload(device, Noise(DType::kFloat32, {size})));
  }
  return buffers;
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = testing::TempDir() + "/runtime_XXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(Runtime, EqualProgramsShareAPlan) {
  auto runtime = MakeRuntime();
  Device& device = *runtime->devices()[0];
  CompileStats first, second;
  auto a = runtime->Prepare(Line(2), device, &first);
  auto b = runtime->Prepare(Line(2), device, &second);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(*a, *b);
  EXPECT_FALSE(first.plan_cached);
  EXPECT_TRUE(second.plan_cached);
  EXPECT_EQ(first.kernels_compiled, 1);
  EXPECT_EQ(second.kernels_compiled, 0);
}

TEST(Runtime, AnotherDeviceSharesTheKernels) {
  auto runtime = MakeRuntime();
  CompileStats first, second;
  ASSERT_TRUE(runtime->Prepare(Line(2), *runtime->devices()[0], &first).ok());
  ASSERT_TRUE(runtime->Prepare(Line(2), *runtime->devices()[1], &second).ok());
  EXPECT_FALSE(second.plan_cached);
  EXPECT_EQ(second.kernel_memory_hits, 1);
}

TEST(Runtime, ManyThreadsCompileOnce) {
  auto runtime = MakeRuntime();
  Device& device = *runtime->devices()[0];
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([&] { EXPECT_TRUE(runtime->Prepare(Line(3), device, nullptr).ok()); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(runtime->cache_stats().plan_misses, 1u);
  EXPECT_EQ(runtime->cache_stats().kernel_misses, 1u);
}

TEST(Runtime, ARestartFindsItsKernelsOnDisk) {
  TemporaryFolder folder;
  ASSERT_TRUE(
      MakeRuntime(folder.path())->Prepare(Line(4), *MakeRuntime()->devices()[0], nullptr).ok());
  auto runtime = MakeRuntime(folder.path());
  CompileStats stats;
  ASSERT_TRUE(runtime->Prepare(Line(4), *runtime->devices()[0], &stats).ok());
  EXPECT_EQ(stats.kernels_compiled, 0);
  EXPECT_EQ(stats.kernel_disk_hits, 1);
}

TEST(Runtime, ClearForgetsEverything) {
  TemporaryFolder folder;
  auto runtime = MakeRuntime(folder.path());
  Device& device = *runtime->devices()[0];
  ASSERT_TRUE(runtime->Prepare(Line(5), device, nullptr).ok());
  ASSERT_TRUE(runtime->ClearCache().ok());
  EXPECT_EQ(runtime->cache_stats().plans, 0u);
  CompileStats stats;
  ASSERT_TRUE(runtime->Prepare(Line(5), device, &stats).ok());
  EXPECT_EQ(stats.kernels_compiled, 1);
}

TEST(Runtime, ShowsWhatEachTimedKernelComputes) {
  auto runtime = MakeRuntime();
  Device& device = *runtime->devices()[0];
  // Two kernels, of two sizes.
  Bench bench;
  const Expr x = bench.Counting({100}), y = bench.Counting({50});
  auto executable = runtime->Prepare(MakeProgram({x + x, y * y}, bench.inputs()), device, nullptr);
  ASSERT_TRUE(executable.ok()) << executable.status();
  auto run = runtime->Submit(*executable, {Uploads(device, 1)[0], Uploads(device, 1, 50)[0]}, {},
                             {.time_steps = true});
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_TRUE(device.timeline().Wait(run->done, absl::InfiniteFuture()).ok());
  ASSERT_EQ(run->steps_by_device.size(), 1u);
  const StepTimes& steps = *run->steps_by_device[0];
  ASSERT_EQ(steps.names->size(), 2u);
  ASSERT_EQ(steps.kernels->size(), 2u);
  EXPECT_EQ(runtime->cached_kernels(10).size(), 2u);
  EXPECT_EQ(runtime->cached_kernels(1).size(), 1u);
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_EQ((*steps.kernels)[i].size(), 1u);
    const auto source = runtime->KernelSource((*steps.kernels)[i][0]);
    ASSERT_TRUE(source.ok()) << source.status();
    EXPECT_EQ(source->find("# linear " + (*steps.names)[i] + " "), 0u) << *source;
  }
  ASSERT_TRUE(runtime->ClearCache().ok());
  for (const std::string& key : {(*steps.kernels)[0][0], std::string("no key")}) {
    EXPECT_EQ(runtime->KernelSource(key).status().code(), absl::StatusCode::kNotFound);
  }
}

TEST(Runtime, RefusesWhatDoesNotFitTheProgram) {
  auto runtime = MakeRuntime();
  Device& device = *runtime->devices()[0];
  Device& other = *runtime->devices()[1];
  auto executable = runtime->Prepare(Line(2), device, nullptr);
  ASSERT_TRUE(executable.ok());
  const BufferRef good = Uploads(device, 1)[0];
  const struct {
    std::vector<BufferRef> inputs;
    std::string_view message;
  } cases[] = {
      {{good}, "1 inputs given, takes 2"},
      {{good, Uploads(device, 1, 99)[0]}, "input 1 is float32 [99], takes float32 [100]"},
      {{good, Upload(device, Noise(DType::kFloat64, {100}))}, "input 1 is float64"},
      {{good, Uploads(other, 1)[0]}, "input 1 is on CPU:1, the program on CPU:0"},
  };
  for (const auto& c : cases) {
    auto run = runtime->Submit(*executable, c.inputs, {});
    ASSERT_FALSE(run.ok()) << c.message;
    EXPECT_NE(Message(run.status()).find(c.message), std::string_view::npos) << run.status();
  }
  // And goes on.
  auto run = runtime->Submit(*executable, {good, good}, {});
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_TRUE(device.timeline().Wait(run->done, absl::InfiniteFuture()).ok());
}

TEST(Runtime, AnOverwrittenInputMustNotBeReadAsAnother) {
  auto runtime = MakeRuntime();
  Device& device = *runtime->devices()[0];
  Bench bench;
  const Expr x = bench.Counting({10}), y = bench.Counting({10});
  auto executable = runtime->Prepare(MakeProgram({x + y}, bench.inputs(), {0}), device, nullptr);
  ASSERT_TRUE(executable.ok()) << executable.status();
  const std::vector<BufferRef> buffers = Uploads(device, 2, 10);
  auto bad = runtime->Submit(*executable, {buffers[0], buffers[0]}, {});
  ASSERT_FALSE(bad.ok());
  EXPECT_NE(Message(bad.status()).find("is overwritten and is input 1 as well"),
            std::string_view::npos);
  auto good = runtime->Submit(*executable, buffers, {});
  ASSERT_TRUE(good.ok()) << good.status();
  EXPECT_EQ(good->outputs[0]->memory, buffers[0]->memory);
  EXPECT_TRUE(device.timeline().Wait(good->done, absl::InfiniteFuture()).ok());
}

TEST(Runtime, VariablesAreBoundPerRun) {
  auto runtime = MakeRuntime();
  Device& device = *runtime->devices()[0];
  Bench bench;
  const Expr x = bench.Counting({4});
  const Expr n(&bench.graph(), bench.graph().Variable("n", 0, 10, DType::kInt32));
  auto executable = runtime->Prepare(MakeProgram({x + n}, bench.inputs()), device, nullptr);
  ASSERT_TRUE(executable.ok()) << executable.status();
  const std::vector<BufferRef> inputs = {Upload(device, bench.inputs()[0])};
  for (int64_t value : {3, 7}) {
    auto run = runtime->Submit(*executable, inputs, {{"n", value}});
    ASSERT_TRUE(run.ok()) << run.status();
    ASSERT_TRUE(device.timeline().Wait(run->done, absl::InfiniteFuture()).ok());
    EXPECT_EQ(Download(*run->outputs[0]).AsDoubles()[1], 1.0 + static_cast<double>(value));
  }
  EXPECT_NE(Message(runtime->Submit(*executable, inputs, {{"n", 11}}).status()).find("[0, 10]"),
            std::string_view::npos);
  EXPECT_NE(Message(runtime->Submit(*executable, inputs, {}).status()).find("has no value"),
            std::string_view::npos);
}

TEST(Runtime, RunsOfOneDeviceSeeEachOther) {
  auto runtime = MakeRuntime();
  Device& device = *runtime->devices()[0];
  Bench bench;
  const Expr x = bench.Counting({1000});
  auto executable = runtime->Prepare(MakeProgram({x + 1.0}, bench.inputs(), {0}), device, nullptr);
  ASSERT_TRUE(executable.ok());
  BufferRef buffer = Upload(device, bench.inputs()[0]);
  uint64_t done = 0;
  for (int i = 0; i < 200; ++i) {
    auto run = runtime->Submit(*executable, {buffer}, {});
    ASSERT_TRUE(run.ok()) << run.status();
    buffer = run->outputs[0];
    done = run->done;
  }
  ASSERT_TRUE(device.timeline().Wait(done, absl::InfiniteFuture()).ok());
  EXPECT_EQ(Download(*buffer).AsDoubles()[999], 999 + 200);
}

TEST(Runtime, QueuedRunsShareTheirScratch) {
  auto runtime = MakeRuntime();
  Device& device = *runtime->devices()[0];
  Bench bench;
  const Expr x = bench.Counting({1 << 18});
  const Expr y(&bench.graph(), bench.graph().Make(Op::kContiguous, {(x * 2.0).node()}));
  const int64_t flip[] = {0};
  auto executable =
      runtime->Prepare(MakeProgram({Flip(y, flip) + 1.0}, bench.inputs()), device, nullptr);
  ASSERT_TRUE(executable.ok()) << executable.status();
  ASSERT_GE((*executable)->scratch_bytes(), 1u << 20);
  const BufferRef input = Upload(device, bench.inputs()[0]);
  std::vector<tensord::Run> runs;
  for (int i = 0; i < 50; ++i) {
    auto run = runtime->Submit(*executable, {input}, {});
    ASSERT_TRUE(run.ok()) << run.status();
    runs.push_back(*std::move(run));
  }
  ASSERT_TRUE(device.timeline().Wait(runs.back().done, absl::InfiniteFuture()).ok());
  for (const tensord::Run& run : {runs.front(), runs.back()}) {
    EXPECT_EQ(Download(*run.outputs[0]).AsDoubles()[0], 2.0 * ((1 << 18) - 1) + 1);
  }
  // 50 outputs, the input, and far from 50 times the scratch.
  EXPECT_LE(device.allocator().stats().peak_in_use_bytes, (50 + 1 + 20) * (uint64_t{1} << 20));
}

TEST(NullDevice, CompilesAndComputesNothing) {
  ProgramRunner runner("null");
  Bench bench;
  const Expr x = bench.Counting({100});
  auto result = runner.Run({Exp(x)}, bench.inputs());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->kernels, 1);
  EXPECT_FALSE(runner.device().executes());
}

}  // namespace
}  // namespace tensord
