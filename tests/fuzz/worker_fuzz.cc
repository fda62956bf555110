// What a process that compiles says, as the daemon reads it: a frame from a socket, and the plan in
// it.
#include <absl/time/clock.h>
#include <google/protobuf/message_lite.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/status.h"
#include "server/compiler/messages.h"
#include "server/compiler/process.h"
#include "server/compiler/worker.pb.h"
#include "tests/fuzz/fuzz.h"

namespace tensord::fuzz {
namespace {

constexpr size_t kInputs = 2, kOutputs = 1;

std::string Frame(const google::protobuf::MessageLite& message) {
  const auto size = static_cast<uint32_t>(message.ByteSizeLong());
  return std::string(reinterpret_cast<const char*>(&size), sizeof(size)) +
         message.SerializeAsString();
}

compiler::Reply PlanReply() {
  compiler::Reply reply;
  compiler::Plan& plan = *reply.mutable_plan();
  plan.add_kernels()->set_name("k");
  plan.mutable_kernels(0)->add_variables("n");
  plan.set_scratch_bytes(128);
  for (int kind : {0, 0, 1, 2}) {
    compiler::Plan::Buffer& buffer = *plan.add_buffers();
    buffer.set_kind(kind);
    buffer.set_index(plan.buffers_size() == 2 ? 1 : 0);
    buffer.set_dtype(11);
    buffer.set_elements(4);
    buffer.set_offset(kind == 2 ? 64 : 0);
  }
  for (int kernel : {-1, 0, -2, -3}) {
    compiler::Plan::Step& step = *plan.add_steps();
    step.set_kernel(kernel);
    step.add_buffers(2);
    step.add_buffers(0);
    step.set_most(kernel == -1 ? 9 : 0);
    step.set_body(kernel == -1 ? 1 : 0);
  }
  plan.add_outputs(2);
  return reply;
}

}  // namespace

std::vector<std::string> Seeds() {
  compiler::Reply kernel, failure;
  kernel.set_kernel(1);
  kernel.mutable_compiled()->set_name("k");
  kernel.mutable_compiled()->set_binary(std::string(100, 'b'));
  failure.mutable_failure()->set_code(3);
  failure.mutable_failure()->set_message("node 3 (Exp): no");
  return {Frame(PlanReply()), Frame(kernel), Frame(failure)};
}

std::string Try(std::string_view input) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return "socketpair";
  // What is larger than a socket holds is cut off, which is an input as well.
  (void)!send(ends[0], input.data(), input.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  close(ends[0]);
  compiler::Reply reply;
  const bool is_frame = compiler::ReadFrame(ends[1], reply, absl::InfiniteFuture());
  close(ends[1]);
  if (!is_frame) return "";
  const absl::StatusOr<Plan> plan = compiler::Decode(reply.plan(), kInputs, kOutputs);
  if (!plan.ok()) return absl::IsInternal(plan.status()) ? "" : plan.status().ToString();
  compiler::Plan again;
  compiler::Encode(*plan, &again);
  const absl::StatusOr<Plan> twice = compiler::Decode(again, kInputs, kOutputs);
  if (!twice.ok()) return "a plan that is taken once and not twice: " + twice.status().ToString();
  const Schedule& schedule = plan->schedule;
  for (const Schedule::Step& step : schedule.steps) {
    for (const int number : step.buffers) {
      const Schedule::Buffer& buffer = schedule.buffers.at(static_cast<size_t>(number));
      if (buffer.kind == Schedule::Kind::kTemporary &&
          buffer.offset + buffer.bytes() > schedule.scratch_bytes) {
        return "a temporary outside of the scratch memory";
      }
    }
  }
  return "";
}

}  // namespace tensord::fuzz
