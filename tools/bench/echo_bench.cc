// Round trips of a bare gRPC echo with 64 bytes each way: what the daemon's are compared with. In a
// process of its own, as another client's threads in the same one would slow it.
#include <absl/flags/flag.h>
#include <absl/status/statusor.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "tools/bench/echo.grpc.pb.h"
#include "tools/bench/report.h"

ABSL_FLAG(std::string, address, "", "of an echo_server");
ABSL_FLAG(int, rounds, 5000, "round trips of each kind");
ABSL_FLAG(bool, quick, false, "few rounds: whether the benchmark works");

namespace tensord {
namespace {

constexpr int kWarmup = 20;

absl::StatusOr<std::vector<double>> Unary(bench::EchoService::Stub& stub,
                                          const bench::Echo& message, int rounds) {
  std::vector<double> microseconds;
  for (int i = -kWarmup; i < rounds; ++i) {
    const Stopwatch stopwatch;
    grpc::ClientContext context;
    bench::Echo reply;
    const grpc::Status status = stub.Unary(&context, message, &reply);
    if (!status.ok()) return Unavailable("unary echo: {}", status.error_message());
    if (i >= 0) microseconds.push_back(stopwatch.Microseconds());
  }
  return microseconds;
}

absl::StatusOr<std::vector<double>> Stream(bench::EchoService::Stub& stub,
                                           const bench::Echo& message, int rounds) {
  grpc::ClientContext context;
  const auto stream = stub.Stream(&context);
  std::vector<double> microseconds;
  for (int i = -kWarmup; i < rounds; ++i) {
    const Stopwatch stopwatch;
    bench::Echo reply;
    if (!stream->Write(message) || !stream->Read(&reply)) break;
    if (i >= 0) microseconds.push_back(stopwatch.Microseconds());
  }
  stream->WritesDone();
  const grpc::Status status = stream->Finish();
  if (!status.ok()) return Unavailable("stream echo: {}", status.error_message());
  return microseconds;
}

absl::Status Measure(Report& report) {
  const int rounds = absl::GetFlag(FLAGS_quick) ? 50 : absl::GetFlag(FLAGS_rounds);
  const auto stub = bench::EchoService::NewStub(
      grpc::CreateChannel(absl::GetFlag(FLAGS_address), grpc::InsecureChannelCredentials()));
  bench::Echo message;
  message.set_data(std::string(64, 'x'));
  TD_ASSIGN_OR_RETURN(std::vector<double> unary, Unary(*stub, message, rounds));
  report.Add("gRPC echo, unary", "us", std::move(unary));
  TD_ASSIGN_OR_RETURN(std::vector<double> stream, Stream(*stub, message, rounds));
  report.Add("gRPC echo, stream", "us", std::move(stream));
  return absl::OkStatus();
}

}  // namespace
}  // namespace tensord

int main(int argc, char** argv) {
  return tensord::RunBenchmark(argc, argv, "times a bare gRPC echo", tensord::Measure);
}
