// For tests of the server: a client that speaks the raw session protocol, and a server over a fake
// runtime. Not thread-safe.
#pragma once

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/ir/program.h"
#include "core/wire/handle.h"
#include "core/wire/program.h"
#include "proto/tensord/v1/session.grpc.pb.h"
#include "server/server.h"
#include "server/session/fake_runtime.h"

namespace tensord {

inline uint64_t TensorHandle(uint32_t slot, uint32_t generation = 1) {
  return Handle{.type = Handle::kTensor, .generation = generation, .slot = slot}.Pack();
}
inline uint64_t ProgramHandle(uint32_t slot, uint32_t generation = 1) {
  return Handle{.type = Handle::kProgram, .generation = generation, .slot = slot}.Pack();
}

inline std::string Bytes(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}
inline std::vector<float> Floats(const std::string& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// x + y over float32[n]; the sum is a fresh tensor, or overwrites x.
inline v1::Program AddProgram(const std::string& name, int64_t n, bool overwrite = false) {
  Program program;
  program.name = name;
  const Node* x = program.graph.Param(0, DType::kFloat32, {n});
  const Node* y = program.graph.Param(1, DType::kFloat32, {n});
  program.inputs = {x, y};
  program.outputs = {{.value = program.graph.Make(Op::kAdd, {x, y}),
                      .overwrites = overwrite ? 0 : Program::kFresh}};
  return Encode(program);
}

// One session of a client that waits for every answer.
class TestClient {
 public:
  explicit TestClient(const std::shared_ptr<grpc::Channel>& channel)
      : stub_(v1::SessionService::NewStub(channel)), stream_(stub_->Session(&context_)) {}
  ~TestClient() {
    if (stream_) context_.TryCancel();
    Finish();
  }

  struct HelloOptions {
    uint32_t min_version = 1;
    uint32_t max_version = 1;
    uint32_t lease_ms = 0;
    std::string token;  // of the session to resume
    uint64_t acknowledged = 0;
    std::string client_name = "test";
  };
  bool Hello() { return Hello(HelloOptions{}); }
  bool Hello(const HelloOptions& options) {
    v1::ClientFrame frame;
    frame.mutable_hello()->set_min_version(options.min_version);
    frame.mutable_hello()->set_max_version(options.max_version);
    frame.mutable_hello()->set_client_name(options.client_name);
    frame.mutable_hello()->set_lease_ms(options.lease_ms);
    frame.mutable_hello()->set_resume_token(options.token);
    frame.set_acknowledged(options.acknowledged);
    v1::ServerFrame reply;
    if (!stream_->Write(frame) || !stream_->Read(&reply)) return false;
    welcome = reply.welcome();
    return true;
  }

  v1::Command* Add() {
    v1::Command* command = frame_.add_commands();
    command->set_sequence(++sequence);
    return command;
  }
  v1::Command* Last() { return frame_.mutable_commands(frame_.commands_size() - 1); }
  void Upload(uint64_t handle, const std::vector<float>& values) {
    v1::UploadCommand* upload = Add()->mutable_upload();
    upload->set_handle(handle);
    upload->set_dtype(static_cast<uint32_t>(DType::kFloat32));
    upload->add_shape(values.size());
    upload->set_inline_data(Bytes(values));
  }
  void UploadLater(uint64_t handle, uint64_t count, uint64_t transfer) {
    v1::UploadCommand* upload = Add()->mutable_upload();
    upload->set_handle(handle);
    upload->set_dtype(static_cast<uint32_t>(DType::kFloat32));
    upload->add_shape(count);
    upload->set_transfer_id(transfer);
  }
  void Register(uint64_t handle, v1::Program program) {
    v1::RegisterProgram* command = Add()->mutable_register_program();
    command->set_handle(handle);
    *command->mutable_program() = std::move(program);
  }
  v1::RunProgram* Run(uint64_t program, std::vector<uint64_t> inputs, std::vector<uint64_t> outputs,
                      bool notify = false) {
    v1::RunProgram* run = Add()->mutable_run();
    run->set_program(program);
    run->mutable_inputs()->Add(inputs.begin(), inputs.end());
    run->mutable_outputs()->Add(outputs.begin(), outputs.end());
    run->set_notify(notify);
    return run;
  }
  void Release(std::vector<uint64_t> handles) {
    Add()->mutable_release()->mutable_handles()->Add(handles.begin(), handles.end());
  }
  void Copy(uint64_t handle, uint64_t source, const std::string& device) {
    v1::CopyTensor* copy = Add()->mutable_copy();
    copy->set_handle(handle);
    copy->set_source(source);
    copy->set_device(device);
  }
  void SendFrame(const v1::ClientFrame& frame) { stream_->Write(frame); }
  bool ReadFrame() {
    v1::ServerFrame frame;
    if (!stream_->Read(&frame)) return false;
    Take(frame);
    return true;
  }
  void Send() {
    if (acknowledges) frame_.set_acknowledged(events);
    stream_->Write(frame_);
    frame_.Clear();
  }

  // Reads until command `wanted` is acknowledged.
  void ReadUntil(uint64_t wanted) {
    v1::ServerFrame frame;
    while (acknowledged < wanted && stream_->Read(&frame)) Take(frame);
    EXPECT_GE(acknowledged, wanted);
  }
  void SendAndRead() {
    Send();
    ReadUntil(sequence);
  }
  const v1::Completion* ReadCompletion(uint64_t wanted) {
    v1::ServerFrame frame;
    for (;;) {
      for (const v1::Completion& completion : completions) {
        if (completion.sequence() == wanted) return &completion;
      }
      if (!stream_->Read(&frame)) return nullptr;
      Take(frame);
    }
  }
  const v1::CommandError* ReadError(uint64_t wanted) {
    v1::ServerFrame frame;
    for (;;) {
      for (const v1::CommandError& error : errors) {
        if (error.sequence() == wanted) return &error;
      }
      if (!stream_->Read(&frame)) return nullptr;
      Take(frame);
    }
  }
  bool ReadGoAway() {
    v1::ServerFrame frame;
    while (!go_away && stream_->Read(&frame)) Take(frame);
    return go_away;
  }

  // Breaks the stream off, without a goodbye.
  void Drop() {
    context_.TryCancel();
    Finish();
  }
  grpc::Status EndSession() {
    grpc::ClientContext context;
    v1::EndSessionRequest request;
    request.set_session_token(welcome.session_token());
    v1::EndSessionReply reply;
    return stub_->EndSession(&context, request, &reply);
  }

  // Ends the stream from our side, or takes its end.
  grpc::Status Finish() {
    if (!stream_) return grpc::Status::OK;
    v1::ServerFrame frame;
    stream_->WritesDone();
    while (stream_->Read(&frame)) Take(frame);
    const grpc::Status status = stream_->Finish();
    stream_ = nullptr;
    return status;
  }

  grpc::Status Download(uint64_t handle, std::string* bytes, int* chunks = nullptr) {
    grpc::ClientContext context;
    v1::DownloadRequest request;
    request.set_session_token(welcome.session_token());
    request.set_handle(handle);
    request.set_after_sequence(sequence);
    const auto reader = stub_->Download(&context, request);
    v1::DownloadChunk chunk;
    bytes->clear();
    int count = 0;
    while (reader->Read(&chunk)) {
      EXPECT_EQ(chunk.offset(), bytes->size());
      EXPECT_LE(chunk.data().size(), size_t{1} << 20);
      EXPECT_EQ(chunk.dtype() != 0, count == 0);
      bytes->append(chunk.data());
      ++count;
    }
    if (chunks) *chunks = count;
    return reader->Finish();
  }
  std::vector<float> Values(uint64_t handle) {
    std::string bytes;
    const grpc::Status status = Download(handle, &bytes);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return Floats(bytes);
  }

  grpc::Status Bulk(uint64_t transfer, const std::string& bytes, uint64_t announced,
                    const std::string& token, size_t chunk_bytes = 1 << 20) {
    grpc::ClientContext context;
    v1::UploadReply reply;
    const auto writer = stub_->Upload(&context, &reply);
    size_t offset = 0;
    do {
      v1::UploadChunk chunk;
      if (offset == 0) {
        chunk.set_session_token(token);
        chunk.set_transfer_id(transfer);
        chunk.set_total_bytes(announced);
      }
      chunk.set_offset(offset);
      chunk.set_data(bytes.substr(offset, chunk_bytes));
      offset += chunk.data().size();
      if (!writer->Write(chunk)) break;
    } while (offset < bytes.size());
    writer->WritesDone();
    const grpc::Status status = writer->Finish();
    EXPECT_EQ(reply.bytes(), status.ok() ? bytes.size() : 0);
    return status;
  }
  grpc::Status Bulk(uint64_t transfer, const std::string& bytes) {
    return Bulk(transfer, bytes, bytes.size(), welcome.session_token());
  }

  v1::Status Wait(uint64_t handle = 0, std::vector<std::string>* kernels = nullptr) {
    grpc::ClientContext context;
    v1::WaitRequest request;
    request.set_session_token(welcome.session_token());
    request.set_sequence(sequence);
    request.set_handle(handle);
    v1::WaitReply reply;
    const grpc::Status status = stub_->Wait(&context, request, &reply);
    EXPECT_TRUE(status.ok()) << status.error_message();
    if (kernels) kernels->assign(reply.kernels().begin(), reply.kernels().end());
    return reply.status();
  }
  v1::CountersReply Counters() {
    grpc::ClientContext context;
    v1::CountersRequest request;
    request.set_session_token(welcome.session_token());
    v1::CountersReply reply;
    const grpc::Status status = stub_->Counters(&context, request, &reply);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return reply;
  }

  v1::SessionService::Stub& stub() { return *stub_; }

  v1::Welcome welcome;
  uint64_t sequence = 0;
  uint64_t acknowledged = 0;
  uint64_t events = 0;  // that we have
  bool acknowledges = true;
  std::vector<v1::Completion> completions;
  std::vector<v1::CommandError> errors;
  bool go_away = false;

 private:
  void Take(const v1::ServerFrame& frame) {
    acknowledged = std::max(acknowledged, frame.acknowledged());
    events = std::max(events, frame.events());
    completions.insert(completions.end(), frame.completions().begin(), frame.completions().end());
    errors.insert(errors.end(), frame.errors().begin(), frame.errors().end());
    go_away |= frame.has_go_away();
  }

  grpc::ClientContext context_;
  std::unique_ptr<v1::SessionService::Stub> stub_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::ClientFrame, v1::ServerFrame>> stream_;
  v1::ClientFrame frame_;
};

class ServerTest : public testing::Test {
 protected:
  // Unless a test is about turns, it finds all runs on the device that it has sent.
  static constexpr SchedulerOptions kNoTurns{.min_runs = 1 << 20};
  void StartServer(ServerOptions options = {.scheduling = kNoTurns}) {
    auto runtime = std::make_unique<FakeRuntime>();
    runtime_ = runtime.get();
    auto server = Server::Start(options, std::move(runtime));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = server_->InProcessChannel();
  }
  std::unique_ptr<TestClient> Open() {
    auto client = std::make_unique<TestClient>(channel_);
    EXPECT_TRUE(client->Hello());
    return client;
  }

  FakeRuntime* runtime_ = nullptr;  // the server's
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace tensord
