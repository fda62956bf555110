// Round trips of a running daemon, beside a bare unary call of the same run, so that the ratio says
// what the session protocol and the runtime add:
//
//   bazel-bin/server/run_bench unix:./t.sock [rounds]
#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "core/ir/program.h"
#include "core/wire/handle.h"
#include "core/wire/program.h"
#include "proto/tensord/v1/admin.grpc.pb.h"
#include "proto/tensord/v1/session.grpc.pb.h"

namespace tensord {
namespace {

using Clock = std::chrono::steady_clock;

double Microseconds(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

void Report(const char* what, std::vector<double> us, double base) {
  std::sort(us.begin(), us.end());
  const double median = us[us.size() / 2];
  fmt::print("{:<34} p50 {:7.1f} us  p99 {:7.1f} us  {:.2f} x unary\n", what, median,
             us[us.size() * 99 / 100], median / base);
}

// 16 floats plus 16 floats: 64 bytes each way.
v1::Program AddProgram() {
  Program program;
  program.name = "add";
  const Node* x = program.graph.Param(0, DType::kFloat32, {16});
  const Node* y = program.graph.Param(1, DType::kFloat32, {16});
  program.inputs = {x, y};
  program.outputs = {{.value = program.graph.Make(Op::kAdd, {x, y})}};
  return Encode(program);
}

uint64_t Tensor(uint32_t slot, uint32_t generation = 1) {
  return Handle{.type = Handle::kTensor, .generation = generation, .slot = slot}.Pack();
}

class Bench {
 public:
  explicit Bench(const std::string& address)
      : channel_(grpc::CreateChannel(address, grpc::InsecureChannelCredentials())),
        sessions_(v1::SessionService::NewStub(channel_)),
        admin_(v1::AdminService::NewStub(channel_)),
        stream_(sessions_->Session(&context_)) {}

  bool Open() {
    v1::ClientFrame frame;
    frame.mutable_hello()->set_min_version(kMinProtocolVersion);
    frame.mutable_hello()->set_max_version(kMaxProtocolVersion);
    frame.mutable_hello()->set_client_name("run_bench");
    v1::ServerFrame reply;
    if (!stream_->Write(frame) || !stream_->Read(&reply)) {
      fmt::print(stderr, "no session: {}\n", stream_->Finish().error_message());
      return false;
    }
    token_ = reply.welcome().session_token();
    frame.Clear();
    for (uint32_t slot : {0, 1}) {
      v1::UploadCommand* upload = Add(frame)->mutable_upload();
      upload->set_handle(Tensor(slot));
      upload->set_dtype(static_cast<uint32_t>(DType::kFloat32));
      upload->add_shape(16);
      upload->set_inline_data(std::string(64, '\0'));
    }
    v1::RegisterProgram* program = Add(frame)->mutable_register_program();
    program->set_handle(program_);
    *program->mutable_program() = AddProgram();
    return stream_->Write(frame);
  }

  double Ping() {
    const auto begin = Clock::now();
    grpc::ClientContext context;
    v1::PingReply reply;
    if (!admin_->Ping(&context, {}, &reply).ok()) std::exit(1);
    return Microseconds(begin);
  }

  double RunAndWait() {
    const auto begin = Clock::now();
    v1::ClientFrame frame;
    AddRun(frame, /*notify=*/true);
    stream_->Write(frame);
    ReadCompletion();
    return Microseconds(begin);
  }

  double RunAndDownload() {
    const auto begin = Clock::now();
    v1::ClientFrame frame;
    AddRun(frame, /*notify=*/false);
    stream_->Write(frame);
    grpc::ClientContext context;
    v1::DownloadRequest request;
    request.set_session_token(token_);
    request.set_handle(Tensor(2, generation_));
    request.set_after_sequence(sequence_);
    const auto reader = sessions_->Download(&context, request);
    v1::DownloadChunk chunk;
    while (reader->Read(&chunk)) {
    }
    if (const grpc::Status status = reader->Finish(); !status.ok()) {
      fmt::print(stderr, "download: {}\n", status.error_message());
      std::exit(1);
    }
    return Microseconds(begin);
  }

  // Runs a second, with `batch` runs in each frame.
  double Pipelined(int frames, int batch) {
    const auto begin = Clock::now();
    v1::ClientFrame frame;
    for (int i = 0; i < frames; ++i) {
      frame.Clear();
      for (int j = 0; j < batch; ++j) AddRun(frame, i + 1 == frames && j + 1 == batch);
      stream_->Write(frame);
    }
    ReadCompletion();
    return frames * batch / (Microseconds(begin) / 1e6);
  }

  double UploadRate(size_t bytes) {
    v1::ClientFrame frame;
    v1::UploadCommand* upload = Add(frame)->mutable_upload();
    upload->set_handle(Tensor(3, ++upload_generation_));
    upload->set_dtype(static_cast<uint32_t>(DType::kUint8));
    upload->add_shape(bytes);
    upload->set_transfer_id(upload_generation_);
    stream_->Write(frame);
    const auto begin = Clock::now();
    grpc::ClientContext context;
    v1::UploadReply reply;
    const auto writer = sessions_->Upload(&context, &reply);
    v1::UploadChunk chunk;
    chunk.set_session_token(token_);
    chunk.set_transfer_id(upload_generation_);
    chunk.set_total_bytes(bytes);
    chunk.set_data(std::string(1 << 20, 'x'));
    for (size_t offset = 0; offset < bytes; offset += 1 << 20) {
      chunk.set_offset(offset);
      writer->Write(chunk);
    }
    writer->WritesDone();
    if (!writer->Finish().ok()) std::exit(1);
    return static_cast<double>(bytes) / Microseconds(begin) / 1e3;
  }

  double DownloadRate(size_t bytes) {
    const auto begin = Clock::now();
    grpc::ClientContext context;
    v1::DownloadRequest request;
    request.set_session_token(token_);
    request.set_handle(Tensor(3, upload_generation_));
    request.set_after_sequence(sequence_);
    const auto reader = sessions_->Download(&context, request);
    v1::DownloadChunk chunk;
    while (reader->Read(&chunk)) {
    }
    const double us = Microseconds(begin);
    v1::ClientFrame frame;
    Add(frame)->mutable_release()->add_handles(Tensor(3, upload_generation_));
    stream_->Write(frame);
    return static_cast<double>(bytes) / us / 1e3;
  }

 private:
  v1::Command* Add(v1::ClientFrame& frame) {
    v1::Command* command = frame.add_commands();
    command->set_sequence(++sequence_);
    return command;
  }

  // Frees the last run's result first, so that memory and slots stay as they are.
  void AddRun(v1::ClientFrame& frame, bool notify) {
    if (generation_ > 0) {
      Add(frame)->mutable_release()->add_handles(Tensor(2, generation_));
    }
    v1::RunProgram* run = Add(frame)->mutable_run();
    run->set_program(program_);
    run->add_inputs(Tensor(0));
    run->add_inputs(Tensor(1));
    run->add_outputs(Tensor(2, ++generation_));
    run->set_notify(notify);
  }

  void ReadCompletion() {
    v1::ServerFrame reply;
    do {
      if (!stream_->Read(&reply)) {
        fmt::print(stderr, "the stream ended: {}\n", stream_->Finish().error_message());
        std::exit(1);
      }
      for (const v1::CommandError& error : reply.errors()) {
        fmt::print(stderr, "{}\n", error.status().message());
        std::exit(1);
      }
    } while (reply.completions_size() == 0);
  }

  std::shared_ptr<grpc::Channel> channel_;
  grpc::ClientContext context_;
  std::unique_ptr<v1::SessionService::Stub> sessions_;
  std::unique_ptr<v1::AdminService::Stub> admin_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::ClientFrame, v1::ServerFrame>> stream_;
  std::string token_;
  const uint64_t program_ = Handle{.type = Handle::kProgram, .generation = 1, .slot = 0}.Pack();
  uint64_t sequence_ = 0;
  uint32_t generation_ = 0;
  uint32_t upload_generation_ = 0;
};

int Main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: run_bench ADDRESS [ROUNDS]\n");
    return 2;
  }
  const int rounds = argc > 2 ? std::max(1, std::atoi(argv[2])) : 5000;
  Bench bench(argv[1]);
  if (!bench.Open()) return 1;
  for (int i = 0; i < 200; ++i) bench.RunAndWait();
  std::vector<double> ping, run, download;
  for (int i = 0; i < rounds; ++i) {
    ping.push_back(bench.Ping());
    run.push_back(bench.RunAndWait());
    download.push_back(bench.RunAndDownload());
  }
  std::vector<double> sorted = ping;
  std::sort(sorted.begin(), sorted.end());
  const double base = sorted[sorted.size() / 2];
  Report("unary call (ping)", ping, base);
  Report("run until done", run, base);
  Report("run and download of 64 bytes", download, base);
  fmt::print("pipelined, 1 run a frame:  {:8.0f} runs/s\n", bench.Pipelined(rounds, 1));
  fmt::print("pipelined, 16 runs a frame: {:7.0f} runs/s\n", bench.Pipelined(rounds / 16 + 1, 16));
  constexpr size_t kBytes = 256 << 20;
  for (int i = 0; i < 3; ++i) {
    const double up = bench.UploadRate(kBytes);
    fmt::print("256 MiB in 1 MiB chunks: up {:.2f} GB/s, down {:.2f} GB/s\n", up,
               bench.DownloadRate(kBytes));
  }
  return 0;
}

}  // namespace
}  // namespace tensord

int main(int argc, char** argv) { return tensord::Main(argc, argv); }
