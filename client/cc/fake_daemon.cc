#include "client/cc/fake_daemon.h"

#include <stdlib.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>

#include "core/base/check.h"
#include "core/base/status.h"
#include "core/ir/eval.h"
#include "core/rules/reference_eval.h"
#include "core/wire/handle.h"
#include "core/wire/program.h"
#include "core/wire/status.h"

namespace tensord {
namespace {

constexpr char kToken[] = "the session's secret";

std::vector<Scalar> ToScalars(DType dtype, const std::string& data) {
  const auto size = static_cast<size_t>(ItemSize(dtype));
  std::vector<Scalar> scalars;
  for (size_t offset = 0; offset < data.size(); offset += size) {
    uint64_t bits = 0;
    std::memcpy(&bits, data.data() + offset, size);
    scalars.push_back(Scalar::FromBits(dtype, bits));
  }
  return scalars;
}

std::string ToBytes(DType dtype, const std::vector<Scalar>& scalars) {
  const auto size = static_cast<size_t>(ItemSize(dtype));
  std::string data;
  for (const Scalar& scalar : scalars) {
    const uint64_t bits = scalar.ToBits();
    data.append(reinterpret_cast<const char*>(&bits), size);
  }
  return data;
}

grpc::Status ToGrpc(const absl::Status& status) {
  return {static_cast<grpc::StatusCode>(status.code()), std::string(Message(status))};
}

}  // namespace

class FakeDaemon::Service : public v1::SessionService::Service {
 public:
  explicit Service(FakeDaemon& daemon) : daemon_(daemon) {}

  grpc::Status Session(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<v1::ServerFrame, v1::ClientFrame>* stream) override {
    v1::ClientFrame frame;
    if (!stream->Read(&frame)) return grpc::Status::OK;
    if (daemon_.options_.refusal != grpc::StatusCode::OK) return {daemon_.options_.refusal, "full"};
    {
      absl::MutexLock lock(&daemon_.mu_);
      daemon_.priority_ = frame.hello().priority();
    }
    v1::ServerFrame reply;
    reply.mutable_welcome()->set_version(daemon_.options_.version);
    reply.mutable_welcome()->set_server_version("9.8.7");
    reply.mutable_welcome()->set_session_token(kToken);
    reply.mutable_welcome()->add_devices()->set_name("CPU:0");
    reply.mutable_welcome()->mutable_limits()->set_max_chunk_bytes(
        daemon_.options_.max_chunk_bytes);
    stream->Write(reply);
    while (stream->Read(&frame)) {
      reply.Clear();
      {
        absl::MutexLock lock(&daemon_.mu_);
        daemon_.last_frame_bytes_ = frame.ByteSizeLong();
        for (const v1::Command& command : frame.commands()) {
          const absl::Status status = daemon_.Execute(command);
          if (!command.has_run() || !command.run().notify()) continue;
          v1::Completion& completion = *reply.add_completions();
          completion.set_sequence(command.sequence());
          Encode(status, completion.mutable_status());
        }
        reply.set_acknowledged(daemon_.executed_);
      }
      stream->Write(reply);
    }
    return grpc::Status::OK;
  }

  grpc::Status Upload(grpc::ServerContext*, grpc::ServerReader<v1::UploadChunk>* reader,
                      v1::UploadReply* reply) override {
    v1::UploadChunk chunk;
    uint64_t transfer = 0;
    std::string data;
    while (reader->Read(&chunk)) {
      absl::MutexLock lock(&daemon_.mu_);
      if (data.empty()) {
        transfer = chunk.transfer_id();
        if (chunk.session_token() != kToken) daemon_.Violation("upload without the token");
      }
      if (chunk.offset() != data.size()) daemon_.Violation("chunks out of order");
      const uint32_t limit = daemon_.options_.max_chunk_bytes;
      if (limit && chunk.data().size() > limit) daemon_.Violation("a chunk over the limit");
      data += chunk.data();
    }
    reply->set_bytes(data.size());
    absl::MutexLock lock(&daemon_.mu_);
    ++daemon_.upload_calls_;
    // The command may come after its data.
    auto known = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(daemon_.mu_) {
      return daemon_.awaited_.contains(transfer);
    };
    daemon_.mu_.Await(absl::Condition(&known));
    daemon_.tensors_[daemon_.awaited_[transfer]].data = std::move(data);
    daemon_.transfers_[transfer] = "";
    return grpc::Status::OK;
  }

  grpc::Status Download(grpc::ServerContext* context, const v1::DownloadRequest* request,
                        grpc::ServerWriter<v1::DownloadChunk>* writer) override {
    Tensor tensor;
    {
      absl::MutexLock lock(&daemon_.mu_);
      if (!AwaitExecuted(request->after_sequence(), *context)) return grpc::Status::CANCELLED;
      auto it = daemon_.tensors_.find(request->handle());
      if (it == daemon_.tensors_.end()) {
        daemon_.Violation("download of an unknown handle");
        return {grpc::StatusCode::NOT_FOUND, "no such tensor"};
      }
      tensor = it->second;
    }
    if (!tensor.error.ok()) return ToGrpc(tensor.error);
    v1::DownloadChunk chunk;
    constexpr size_t kPart = 1 << 16;
    for (size_t offset = 0; offset < std::max<size_t>(tensor.data.size(), 1); offset += kPart) {
      chunk.set_offset(offset);
      chunk.set_data(tensor.data.substr(offset, kPart));
      writer->Write(chunk);
    }
    return grpc::Status::OK;
  }

  grpc::Status Wait(grpc::ServerContext* context, const v1::WaitRequest* request,
                    v1::WaitReply* reply) override {
    absl::MutexLock lock(&daemon_.mu_);
    if (!AwaitExecuted(request->sequence(), *context)) return grpc::Status::CANCELLED;
    if (request->handle()) {
      Encode(daemon_.tensors_[request->handle()].error, reply->mutable_status());
    }
    return grpc::Status::OK;
  }

  grpc::Status Counters(grpc::ServerContext*, const v1::CountersRequest*,
                        v1::CountersReply* reply) override {
    reply->set_programs_run(static_cast<uint64_t>(daemon_.count(v1::Command::kRun)));
    return grpc::Status::OK;
  }

 private:
  bool AwaitExecuted(uint64_t sequence, grpc::ServerContext& context)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(daemon_.mu_) {
    auto executed = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(daemon_.mu_) {
      return daemon_.executed_ >= sequence;
    };
    while (!daemon_.mu_.AwaitWithTimeout(absl::Condition(&executed), absl::Milliseconds(20))) {
      if (context.IsCancelled()) return false;
    }
    return true;
  }

  FakeDaemon& daemon_;
};

FakeDaemon::FakeDaemon(Options options) : options_(options) {
  std::string pattern = std::filesystem::temp_directory_path() / "fake_daemon.XXXXXX";
  TD_CHECK(mkdtemp(pattern.data()) != nullptr, "a folder for the socket");
  folder_ = pattern;
  address_ = "unix:" + folder_ + "/sock";
  service_ = std::make_unique<Service>(*this);
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address_, grpc::InsecureServerCredentials());
  builder.RegisterService(service_.get());
  server_ = builder.BuildAndStart();
}

FakeDaemon::~FakeDaemon() {
  Stop();
  std::filesystem::remove_all(folder_);
}

void FakeDaemon::Stop() { server_->Shutdown(std::chrono::system_clock::now()); }

std::vector<v1::Command> FakeDaemon::commands() const {
  absl::MutexLock lock(&mu_);
  return commands_;
}

v1::Priority FakeDaemon::priority() const {
  absl::MutexLock lock(&mu_);
  return priority_;
}

int FakeDaemon::count(v1::Command::VerbCase verb) const {
  absl::MutexLock lock(&mu_);
  return static_cast<int>(
      std::count_if(commands_.begin(), commands_.end(),
                    [verb](const v1::Command& command) { return command.verb_case() == verb; }));
}

size_t FakeDaemon::last_frame_bytes() const {
  absl::MutexLock lock(&mu_);
  return last_frame_bytes_;
}

size_t FakeDaemon::live_tensors() const {
  absl::MutexLock lock(&mu_);
  return tensors_.size();
}

int FakeDaemon::upload_calls() const {
  absl::MutexLock lock(&mu_);
  return upload_calls_;
}

std::vector<std::string> FakeDaemon::violations() const {
  absl::MutexLock lock(&mu_);
  return violations_;
}

void FakeDaemon::FailNextRun(absl::Status error) {
  absl::MutexLock lock(&mu_);
  fail_next_ = std::move(error);
}

void FakeDaemon::Violation(std::string what) { violations_.push_back(std::move(what)); }

absl::Status FakeDaemon::Execute(const v1::Command& command) {
  absl::Status status;
  commands_.push_back(command);
  if (command.sequence() != executed_ + 1) Violation("commands have gaps");
  switch (command.verb_case()) {
    case v1::Command::kUpload: {
      const v1::UploadCommand& upload = command.upload();
      Put(upload.handle(),
          {.dtype = static_cast<DType>(upload.dtype()),
           .shape = {upload.shape().begin(), upload.shape().end()},
           .data = upload.inline_data(),
           .error = {}},
          false);
      if (upload.transfer_id()) awaited_[upload.transfer_id()] = upload.handle();
      break;
    }
    case v1::Command::kRegisterProgram: {
      absl::StatusOr<Program> program = Decode(command.register_program().program(), {});
      if (program.ok()) {
        programs_.emplace(command.register_program().handle(), *std::move(program));
      } else {
        Violation("a program that is none: " + std::string(Message(program.status())));
      }
      break;
    }
    case v1::Command::kRun:
      status = Run(command.run());
      break;
    case v1::Command::kRelease:
      for (uint64_t handle : command.release().handles()) Release(handle);
      break;
    case v1::Command::kCopy:
      Put(command.copy().handle(), tensors_[command.copy().source()], false);
      break;
    default:
      Violation("a command without a verb");
  }
  executed_ = command.sequence();
  return status;
}

absl::Status FakeDaemon::Run(const v1::RunProgram& run) {
  auto it = programs_.find(run.program());
  if (it == programs_.end()) {
    Violation("a run of an unknown program");
    return NotFound("no such program");
  }
  const Program& program = it->second;
  absl::Status error = std::exchange(fail_next_, absl::OkStatus());
  ReferenceInputs inputs;
  for (int slot = 0; slot < run.inputs_size(); ++slot) {
    auto tensor = tensors_.find(run.inputs(slot));
    if (tensor == tensors_.end()) {
      Violation("a run reads an unknown handle");
      return NotFound("no such tensor");
    }
    if (error.ok()) error = tensor->second.error;
    const auto& input = *program.inputs[static_cast<size_t>(slot)];
    if (input.dtype != tensor->second.dtype || Shape(tensor->second.shape) != input.shape) {
      Violation("an input of another type than the program's");
    }
    inputs.params[slot] = ToScalars(tensor->second.dtype, tensor->second.data);
  }
  for (const auto& [name, value] : run.variables()) inputs.variables[name] = value;
  std::vector<const Node*> roots;
  for (const Program::Output& output : program.outputs) roots.push_back(output.value);
  std::vector<std::vector<Scalar>> values;
  if (error.ok()) values = ReferenceEval(roots, inputs);
  for (size_t i = 0; i < roots.size(); ++i) {
    const uint64_t handle = run.outputs(static_cast<int>(i));
    const int64_t overwrites = program.outputs[i].overwrites;
    if (overwrites != Program::kFresh && run.inputs(static_cast<int>(overwrites)) != handle) {
      Violation("an overwriting output has a handle of its own");
    }
    Put(handle,
        {.dtype = roots[i]->dtype,
         .shape = {roots[i]->shape.begin(), roots[i]->shape.end()},
         .data = error.ok() ? ToBytes(roots[i]->dtype, values[i]) : "",
         .error = error},
        overwrites != Program::kFresh);
  }
  for (uint64_t handle : run.release()) Release(handle);
  return error;
}

void FakeDaemon::Put(uint64_t handle, Tensor tensor, bool overwrites) {
  const Handle parts = Handle::Unpack(handle);
  if (parts.type != Handle::kTensor) Violation("a tensor's handle of another type");
  if (!overwrites) {
    if (parts.generation <= generations_[parts.slot]) Violation("a slot used again too early");
    generations_[parts.slot] = parts.generation;
  }
  tensors_[handle] = std::move(tensor);
}

void FakeDaemon::Release(uint64_t handle) {
  if (tensors_.erase(handle) + programs_.erase(handle) != 1) Violation("released twice");
  generations_[Handle::Unpack(handle).slot] = Handle::Unpack(handle).generation;
}

}  // namespace tensord
