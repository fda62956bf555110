// A worker that has run wild: what it says, or doesn't say, costs its program only.
#include "server/compiler/compiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/device/target.h"
#include "core/ir/dtype.h"
#include "core/ir/op.h"
#include "core/ir/program.h"
#include "core/runtime/plan_compiler.h"
#include "server/compiler/process.h"
#include "server/compiler/worker.pb.h"

namespace tensord::compiler {
namespace {

using testing::HasSubstr;

tensord::Program Doubled() {
  tensord::Program program;
  program.name = "doubled";
  const Node* x = program.graph.Param(0, DType::kFloat32, {4});
  program.inputs = {x};
  program.outputs = {{.value = program.graph.Make(Op::kAdd, {x, x})}};
  return program;
}

void Say(const std::string& bytes) {
  EXPECT_EQ(write(kWorkerSocket, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
}
void Say(const Reply& reply) {
  EXPECT_TRUE(WriteFrame(kWorkerSocket, reply, absl::InfiniteFuture()));
}

std::string Size(uint32_t size) {
  return std::string(reinterpret_cast<const char*>(&size), sizeof(size));
}

// One kernel, which reads the input and writes the output.
Reply GoodPlan() {
  Reply reply;
  Plan& plan = *reply.mutable_plan();
  plan.add_kernels()->set_name("k");
  for (int kind : {0, 1}) {
    Plan::Buffer& buffer = *plan.add_buffers();
    buffer.set_kind(kind);
    buffer.set_dtype(static_cast<int>(DType::kFloat32));
    buffer.set_elements(4);
  }
  Plan::Step& step = *plan.add_steps();
  step.add_buffers(0);
  step.add_buffers(1);
  plan.add_outputs(1);
  return reply;
}
Reply KernelNumber(uint32_t number) {
  Reply reply;
  reply.set_kernel(number);
  reply.mutable_compiled()->set_name("k");
  return reply;
}

struct Wild {
  std::function<void(const Request&)> answer;  // of the worker, to each request
  absl::StatusCode code;
  const char* message;
};

// By name; a worker is this executable, and is told the name.
const std::map<std::string, Wild>& Wilds() {
  static const auto& wilds = *new std::map<std::string, Wild>{
      {"ends", {[](const Request&) { _exit(3); }, absl::StatusCode::kInternal, "exit status 3"}},
      {"faults",
       {[](const Request&) {
          std::signal(SIGSEGV, SIG_DFL);  // a sanitizer's handler would exit
          raise(SIGSEGV);
        },
        absl::StatusCode::kInternal, "signal 11"}},
      {"has-no-memory",
       {[](const Request&) { _exit(kOutOfMemory); }, absl::StatusCode::kResourceExhausted,
        "--compile-memory-bytes"}},
      {"is-killed",  // the second one as well
       {[](const Request&) { raise(SIGKILL); }, absl::StatusCode::kUnavailable, "try again"}},
      {"says-too-large-a-size",
       {[](const Request&) { Say(Size(~uint32_t{0})); }, absl::StatusCode::kInternal,
        "its connection broke"}},
      {"says-what-is-no-message",
       {[](const Request&) { Say(Size(100) + std::string(100, '\xff')); },
        absl::StatusCode::kInternal, "its connection broke"}},
      {"says-half-and-ends",
       {[](const Request&) {
          Say(Size(1 << 30) + "half");
          _exit(0);
        },
        absl::StatusCode::kInternal, "exit status 0"}},
      {"says-half-and-waits",
       {[](const Request&) {
          Say(Size(1 << 30) + "half");
          pause();
        },
        absl::StatusCode::kDeadlineExceeded, "--compile-timeout"}},
      {"says-nothing",
       {[](const Request&) { pause(); }, absl::StatusCode::kDeadlineExceeded, "--compile-timeout"}},
      {"answers-nothing",
       {[](const Request&) { Say(Reply()); }, absl::StatusCode::kInternal, "its connection broke"}},
      {"answers-a-kernel-for-a-plan",
       {[](const Request&) { Say(KernelNumber(0)); }, absl::StatusCode::kInternal,
        "its connection broke"}},
      {"fails-without-an-error",
       {[](const Request&) {
          Reply reply;
          reply.mutable_failure();
          Say(reply);
        },
        absl::StatusCode::kInternal, "without an error"}},
      {"plans-for-outputs-that-are-not",
       {[](const Request&) {
          Reply reply = GoodPlan();
          reply.mutable_plan()->clear_outputs();
          Say(reply);
        },
        absl::StatusCode::kInternal, "output that there is not"}},
      {"ends-later",
       {[](const Request& request) {
          if (!request.has_begin()) _exit(3);
          Say(GoodPlan());
        },
        absl::StatusCode::kInternal, "compiling k"}},
      {"answers-what-was-not-asked",
       {[](const Request& request) { Say(request.has_begin() ? GoodPlan() : KernelNumber(7)); },
        absl::StatusCode::kInternal, "its connection broke"}},
      {"answers-a-plan-for-a-kernel",
       {[](const Request&) { Say(GoodPlan()); }, absl::StatusCode::kInternal,
        "its connection broke"}},
      {"answers-twice",
       {[](const Request& request) {
          if (!request.has_begin()) pause();
          Say(GoodPlan());
          Say(GoodPlan());
        },
        absl::StatusCode::kInternal, "its connection broke"}},
  };
  return wilds;
}

class WildTest : public testing::TestWithParam<std::string> {};

TEST_P(WildTest, CostsItsProgramOnly) {
  const Wild& wild = Wilds().at(GetParam());
  const bool waits = wild.code == absl::StatusCode::kDeadlineExceeded;
  {
    const auto compiler =
        InProcesses({.processes = 1,
                     .timeout = waits ? absl::Milliseconds(100) : absl::InfiniteDuration(),
                     .arguments = {"compiler_test", "--wild", GetParam()}});
    for (int i = 0; i < 2; ++i) {  // the second one has a process as well
      const auto compile = [&]() -> absl::Status {
        TD_ASSIGN_OR_RETURN(const auto job, compiler->Begin(Doubled(), tensord::Target()));
        PlanCompiler::Times times;
        return job->Compile(0, &times).status();
      };
      const absl::Status status = compile();
      EXPECT_EQ(status.code(), wild.code) << status;
      EXPECT_THAT(status.ToString(), HasSubstr(wild.message));
    }
  }
  // All of them have ended, and were waited for.
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const auto& [name, wild] : Wilds()) names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Compiler, WildTest, testing::ValuesIn(Names()), [](const auto& test) {
  std::string name = test.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

[[noreturn]] void RunWild(const std::string& name) {
  const Wild& wild = Wilds().at(name);
  for (;;) {
    Request request;
    if (!ReadFrame(kWorkerSocket, request, absl::InfiniteFuture())) _exit(0);
    wild.answer(request);
  }
}

}  // namespace
}  // namespace tensord::compiler

int main(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "--wild") tensord::compiler::RunWild(argv[2]);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
