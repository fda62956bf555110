// Round trips of a daemon beside those of a bare echo, taken in turn, so that the ratio says what
// the session protocol and the runtime add to gRPC. 64 bytes go each way.
//
//   roundtrip_bench --daemon=unix:./t.sock --echo=unix:./echo.sock
#include <absl/flags/flag.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <vector>

#include "client/cc/client.h"
#include "client/cc/jit.h"
#include "client/cc/ops.h"
#include "core/base/status.h"
#include "tools/bench/echo.grpc.pb.h"
#include "tools/bench/report.h"

ABSL_FLAG(std::string, daemon, "", "address of tensord");
ABSL_FLAG(std::string, echo, "", "address of echo_server");
ABSL_FLAG(int, rounds, 5000, "of each kind of round trip");
ABSL_FLAG(bool, quick, false, "few rounds: whether the benchmark works");

namespace tensord {
namespace {

constexpr int64_t kElements = 16;

class EchoClient {
 public:
  static absl::StatusOr<std::unique_ptr<EchoClient>> Connect(const std::string& address) {
    auto channel = grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
    if (!channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(10))) {
      return Unavailable("no echo_server answers at '{}'", address);
    }
    return std::make_unique<EchoClient>(bench::EchoService::NewStub(channel));
  }
  explicit EchoClient(std::unique_ptr<bench::EchoService::Stub> stub)
      : stub_(std::move(stub)), stream_(stub_->Stream(&context_)) {
    message_.set_data(std::string(kElements * sizeof(float), 'x'));
  }
  ~EchoClient() {
    stream_->WritesDone();
    stream_->Finish().IgnoreError();
  }

  absl::Status Unary() {
    grpc::ClientContext context;
    bench::Echo reply;
    const grpc::Status status = stub_->Unary(&context, message_, &reply);
    return status.ok() ? absl::OkStatus() : Unavailable("echo: {}", status.error_message());
  }
  absl::Status Stream() {
    bench::Echo reply;
    if (!stream_->Write(message_) || !stream_->Read(&reply)) {
      return Unavailable("echo: the stream ended");
    }
    return absl::OkStatus();
  }

 private:
  bench::Echo message_;
  const std::unique_ptr<bench::EchoService::Stub> stub_;
  grpc::ClientContext context_;
  const std::unique_ptr<grpc::ClientReaderWriter<bench::Echo, bench::Echo>> stream_;
};

struct Kind {
  std::string name;
  std::function<absl::Status()> trip;
  std::vector<double> microseconds = {};
};

absl::Status Measure(Report& report) {
  const int rounds = absl::GetFlag(FLAGS_quick) ? 50 : absl::GetFlag(FLAGS_rounds);
  TD_ASSIGN_OR_RETURN(const auto echo, EchoClient::Connect(absl::GetFlag(FLAGS_echo)));
  TD_ASSIGN_OR_RETURN(const auto client, Client::Connect(absl::GetFlag(FLAGS_daemon)));
  const std::vector<float> ones(kElements, 1.0f);
  const Tensor x = client->FromHost<float>(ones, {kElements});
  Jit add(*client, "add", [](std::vector<Tensor> in) -> absl::StatusOr<std::vector<Tensor>> {
    return std::vector<Tensor>{in[0] + in[0]};
  });
  std::vector<Kind> kinds;
  kinds.push_back({"gRPC echo, unary", [&] { return echo->Unary(); }});
  kinds.push_back({"gRPC echo, stream", [&] { return echo->Stream(); }});
  kinds.push_back({"run until done", [&]() -> absl::Status {
                     TD_ASSIGN_OR_RETURN(const std::vector<Tensor> y, add({x}));
                     return y[0].Wait();
                   }});
  kinds.push_back({"run and download", [&]() -> absl::Status {
                     TD_ASSIGN_OR_RETURN(const std::vector<Tensor> y, add({x}));
                     return y[0].ToHost<float>().status();
                   }});
  constexpr int kWarmup = 20;
  for (int i = -kWarmup; i < rounds; ++i) {
    for (Kind& kind : kinds) {
      const Stopwatch stopwatch;
      TD_RETURN_IF_ERROR(kind.trip(), "{}", kind.name);
      if (i >= 0) kind.microseconds.push_back(stopwatch.Microseconds());
    }
  }
  for (Kind& kind : kinds) report.Add(kind.name, "us", std::move(kind.microseconds));

  // The client sends run after run without waiting for replies.
  std::vector<double> rates;
  constexpr int kRuns = 500;
  for (int i = 0; i < std::max(1, rounds / kRuns); ++i) {
    const Stopwatch stopwatch;
    std::vector<Tensor> last;
    for (int j = 0; j < kRuns; ++j) {
      TD_ASSIGN_OR_RETURN(last, add({x}));
    }
    TD_RETURN_IF_ERROR(last[0].Wait());
    rates.push_back(kRuns / stopwatch.Seconds());
  }
  report.Add("pipelined runs", "1/s", std::move(rates));
  return absl::OkStatus();
}

}  // namespace
}  // namespace tensord

int main(int argc, char** argv) {
  return tensord::RunBenchmark(argc, argv, "times round trips of a daemon", tensord::Measure);
}
