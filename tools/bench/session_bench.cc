// Round trips and bulk data of the session protocol itself, spoken without a client library: what
// the daemon costs. Each run reads and writes 64 bytes.
#include <absl/flags/flag.h>
#include <absl/status/statusor.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/ir/program.h"
#include "core/wire/handle.h"
#include "core/wire/program.h"
#include "proto/tensord/v1/session.grpc.pb.h"
#include "tools/bench/report.h"

ABSL_FLAG(std::string, address, "", "of a daemon");
ABSL_FLAG(int, rounds, 5000, "round trips of each kind");
ABSL_FLAG(bool, only_runs, false, "no uploads and no downloads");
ABSL_FLAG(bool, quick, false, "few rounds, little data: whether the benchmark works");

namespace tensord {
namespace {

constexpr int kWarmup = 20;
constexpr int64_t kElements = 16;
constexpr size_t kChunkBytes = 1 << 20;

uint64_t Tensor(uint32_t slot, uint32_t generation = 1) {
  return Handle{.type = Handle::kTensor, .generation = generation, .slot = slot}.Pack();
}

// Slots 0 and 1 hold what the program adds, 2 the latest result, 3 the latest upload.
class Session {
 public:
  explicit Session(const std::string& address)
      : stub_(v1::SessionService::NewStub(
            grpc::CreateChannel(address, grpc::InsecureChannelCredentials()))),
        stream_(stub_->Session(&context_)) {}

  absl::Status Open() {
    v1::ClientFrame frame;
    frame.mutable_hello()->set_min_version(kMinProtocolVersion);
    frame.mutable_hello()->set_max_version(kMaxProtocolVersion);
    frame.mutable_hello()->set_client_name("session_bench");
    v1::ServerFrame reply;
    if (!stream_->Write(frame) || !stream_->Read(&reply)) return Ended();
    token_ = reply.welcome().session_token();

    frame.Clear();
    for (uint32_t slot : {0, 1}) {
      v1::UploadCommand& upload = *Add(frame).mutable_upload();
      upload.set_handle(Tensor(slot));
      upload.set_dtype(static_cast<uint32_t>(DType::kFloat32));
      upload.add_shape(kElements);
      upload.set_inline_data(std::string(kElements * sizeof(float), '\0'));
    }
    Program program;
    program.name = "add";
    const Node* x = program.graph.Param(0, DType::kFloat32, {kElements});
    const Node* y = program.graph.Param(1, DType::kFloat32, {kElements});
    program.inputs = {x, y};
    program.outputs = {{.value = program.graph.Make(Op::kAdd, {x, y})}};
    v1::RegisterProgram& add = *Add(frame).mutable_register_program();
    add.set_handle(kProgram);
    *add.mutable_program() = Encode(program);
    return stream_->Write(frame) ? absl::OkStatus() : Ended();
  }

  absl::Status RunUntilDone() {
    v1::ClientFrame frame;
    AddRun(frame, /*notify=*/true);
    if (!stream_->Write(frame)) return Ended();
    return AwaitCompletion();
  }

  absl::Status RunAndDownload() {
    v1::ClientFrame frame;
    AddRun(frame, /*notify=*/false);
    if (!stream_->Write(frame)) return Ended();
    return Download(Tensor(2, results_));
  }

  // `frames` of `runs` each; only the last run says when it is done.
  absl::Status Pipelined(int frames, int runs) {
    v1::ClientFrame frame;
    for (int i = 1; i <= frames; ++i) {
      frame.Clear();
      for (int j = 1; j <= runs; ++j) AddRun(frame, /*notify=*/i == frames && j == runs);
      if (!stream_->Write(frame)) return Ended();
    }
    return AwaitCompletion();
  }

  absl::Status Upload(size_t bytes) {
    v1::ClientFrame frame;
    if (uploads_ > 0) Add(frame).mutable_release()->add_handles(Tensor(3, uploads_));
    v1::UploadCommand& upload = *Add(frame).mutable_upload();
    upload.set_handle(Tensor(3, ++uploads_));
    upload.set_dtype(static_cast<uint32_t>(DType::kUint8));
    upload.add_shape(bytes);
    upload.set_transfer_id(uploads_);
    if (!stream_->Write(frame)) return Ended();
    grpc::ClientContext context;
    v1::UploadReply reply;
    const auto writer = stub_->Upload(&context, &reply);
    v1::UploadChunk chunk;
    chunk.set_session_token(token_);
    chunk.set_transfer_id(uploads_);
    chunk.set_total_bytes(bytes);
    chunk.set_data(std::string(kChunkBytes, 'x'));
    for (size_t offset = 0; offset < bytes; offset += kChunkBytes) {
      chunk.set_offset(offset);
      if (!writer->Write(chunk)) break;
    }
    writer->WritesDone();
    const grpc::Status status = writer->Finish();
    return status.ok() ? absl::OkStatus() : Unavailable("upload: {}", status.error_message());
  }
  absl::Status DownloadUploaded() { return Download(Tensor(3, uploads_)); }

 private:
  static constexpr uint64_t kProgram =
      Handle{.type = Handle::kProgram, .generation = 1, .slot = 0}.Pack();

  absl::Status Ended() {
    return Unavailable("the session ended: {}", stream_->Finish().error_message());
  }

  v1::Command& Add(v1::ClientFrame& frame) {
    v1::Command& command = *frame.add_commands();
    command.set_sequence(++sequence_);
    return command;
  }

  // Frees the latest result first, so that memory and slots stay as they are.
  void AddRun(v1::ClientFrame& frame, bool notify) {
    if (results_ > 0) Add(frame).mutable_release()->add_handles(Tensor(2, results_));
    v1::RunProgram& run = *Add(frame).mutable_run();
    run.set_program(kProgram);
    run.add_inputs(Tensor(0));
    run.add_inputs(Tensor(1));
    run.add_outputs(Tensor(2, ++results_));
    run.set_notify(notify);
  }

  absl::Status AwaitCompletion() {
    v1::ServerFrame reply;
    do {
      if (!stream_->Read(&reply)) return Ended();
      for (const v1::CommandError& error : reply.errors()) {
        return Internal("command {}: {}", error.sequence(), error.status().message());
      }
    } while (reply.completions_size() == 0);
    return absl::OkStatus();
  }

  absl::Status Download(uint64_t handle) {
    grpc::ClientContext context;
    v1::DownloadRequest request;
    request.set_session_token(token_);
    request.set_handle(handle);
    request.set_after_sequence(sequence_);
    const auto reader = stub_->Download(&context, request);
    v1::DownloadChunk chunk;
    while (reader->Read(&chunk)) {
    }
    const grpc::Status status = reader->Finish();
    return status.ok() ? absl::OkStatus() : Unavailable("download: {}", status.error_message());
  }

  grpc::ClientContext context_;
  const std::unique_ptr<v1::SessionService::Stub> stub_;
  const std::unique_ptr<grpc::ClientReaderWriter<v1::ClientFrame, v1::ServerFrame>> stream_;
  std::string token_;
  uint64_t sequence_ = 0;
  uint32_t results_ = 0;  // generations of slots 2 and 3
  uint32_t uploads_ = 0;
};

absl::Status Measure(Report& report) {
  const bool quick = absl::GetFlag(FLAGS_quick);
  const bool only_runs = absl::GetFlag(FLAGS_only_runs);
  const int rounds = quick ? 50 : absl::GetFlag(FLAGS_rounds);
  const size_t bulk_bytes = (quick ? 4 : 256) * kChunkBytes;
  Session session(absl::GetFlag(FLAGS_address));
  TD_RETURN_IF_ERROR(session.Open());

  std::vector<double> run, download, single, batched, up, down;
  for (int i = -kWarmup; i < rounds; ++i) {
    const Stopwatch stopwatch;
    TD_RETURN_IF_ERROR(session.RunUntilDone());
    if (i >= 0) run.push_back(stopwatch.Microseconds());
  }
  for (int i = -kWarmup; i < rounds && !only_runs; ++i) {
    const Stopwatch stopwatch;
    TD_RETURN_IF_ERROR(session.RunAndDownload());
    if (i >= 0) download.push_back(stopwatch.Microseconds());
  }
  for (int i = 0; i < 3; ++i) {
    const Stopwatch one_by_one;
    TD_RETURN_IF_ERROR(session.Pipelined(rounds, 1));
    single.push_back(rounds / one_by_one.Seconds());
    constexpr int kRuns = 16;
    const int frames = rounds / kRuns + 1;
    const Stopwatch in_batches;
    TD_RETURN_IF_ERROR(session.Pipelined(frames, kRuns));
    batched.push_back(frames * kRuns / in_batches.Seconds());
    if (only_runs) continue;
    const Stopwatch uploading;
    TD_RETURN_IF_ERROR(session.Upload(bulk_bytes));
    up.push_back(static_cast<double>(bulk_bytes) / uploading.Seconds() / 1e9);
    const Stopwatch downloading;
    TD_RETURN_IF_ERROR(session.DownloadUploaded());
    down.push_back(static_cast<double>(bulk_bytes) / downloading.Seconds() / 1e9);
  }
  report.Add("protocol, run until done", "us", std::move(run));
  report.Add("protocol, pipelined runs", "1/s", std::move(single));
  report.Add("protocol, pipelined, 16 a frame", "1/s", std::move(batched));
  if (only_runs) return absl::OkStatus();
  report.Add("protocol, run and download", "us", std::move(download));
  report.Add("protocol, upload", "GB/s", std::move(up));
  report.Add("protocol, download", "GB/s", std::move(down));
  return absl::OkStatus();
}

}  // namespace
}  // namespace tensord

int main(int argc, char** argv) {
  return tensord::RunBenchmark(argc, argv, "times the session protocol", tensord::Measure);
}
