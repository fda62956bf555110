// A client that does anything in any order: commands, calls beside the stream with and without
// deadlines, faults of the device. The input is a script, a byte for each choice.
//
// Whatever it does: each run that asked for a completion gets exactly one, each call ends, and
// when the session has ended all memory is back.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "proto/tensord/v1/admin.grpc.pb.h"
#include "server/test_client.h"
#include "tests/fuzz/fuzz.h"

namespace tensord::fuzz {
namespace {

using google::protobuf::FieldDescriptor;
using std::chrono::milliseconds;
using std::chrono::system_clock;

constexpr uint64_t kEdges[] = {0,       1,          2,          31,         0xff,
                               1 << 20, 0xffffffff, 1ull << 32, 1ull << 63, ~0ull};
constexpr auto kPatience = std::chrono::seconds(20);  // of what has to come

// On a socket: a write to a channel in this process returns when the other side reads.
struct World {
  World() {
    spdlog::set_level(spdlog::level::off);
    std::string name = (std::filesystem::temp_directory_path() / "td-fuzz-XXXXXX").string();
    folder = mkdtemp(name.data());
    auto made = std::make_unique<FakeRuntime>();
    runtime = made.get();
    for (int i = 0; i < 2; ++i) runtime->device(i).SetCapacity(1 << 20);
    runtime->ReleaseCompiles();
    const std::string address = "unix:" + folder + "/t.sock";
    auto started =
        Server::Start({.listen = {address}, .scheduling = {.min_runs = 1 << 20}}, std::move(made));
    if (!started.ok()) std::abort();
    server = *std::move(started);
    channel = grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
  }
  ~World() {
    channel = nullptr;
    server = nullptr;
    std::filesystem::remove_all(folder);
  }
  std::string folder;
  FakeRuntime* runtime;
  std::unique_ptr<Server> server;
  std::shared_ptr<grpc::Channel> channel;
};
World& TheWorld() {
  static World world;
  return world;
}

class Player {
 public:
  explicit Player(std::string_view script)
      : script_(script), world_(TheWorld()), client_(world_.channel) {}

  std::string Play();

 private:
  uint8_t Next() {
    if (script_.empty()) return 0;
    const char next = script_[0];
    script_.remove_prefix(1);
    return static_cast<uint8_t>(next);
  }
  uint64_t Number() {
    const uint8_t next = Next();
    return next < 200 ? next % 8 : kEdges[next % std::size(kEdges)];
  }
  // Mostly those that there may be, else any.
  uint64_t Tensor() { return Known(tensors_, &TensorHandle); }
  uint64_t Program() { return Known(programs_, &ProgramHandle); }
  uint64_t Known(const std::vector<uint64_t>& known, uint64_t (*handle)(uint32_t, uint32_t)) {
    const uint8_t next = Next();
    if (next >= 252) return Number();
    if (next < 220 && !known.empty()) return known[known.size() - 1 - next % 4 % known.size()];
    return handle(next % 8, 1 + next / 8 % 3);
  }
  // Mostly a slot that was never used, sometimes the next generation of one that was.
  uint64_t FreshTensor() { return Fresh(tensors_, &TensorHandle); }
  uint64_t FreshProgram() { return Fresh(programs_, &ProgramHandle); }
  uint64_t Fresh(std::vector<uint64_t>& known, uint64_t (*handle)(uint32_t, uint32_t)) {
    const uint8_t next = Next();
    if (next >= 240) return Number();
    Handle made = Handle::Unpack(handle(static_cast<uint32_t>(known.size()), 1));
    if (next >= 180 && !known.empty()) {
      made = Handle::Unpack(known[next % known.size()]);
      made.generation += next % 4 == 0 ? 0 : 1;
    }
    known.push_back(made.Pack());
    return made.Pack();
  }
  size_t Count(size_t usual, size_t below) {
    const uint8_t next = Next();
    return next < 200 ? usual : next % below;
  }
  std::vector<uint64_t> Tensors() {
    std::vector<uint64_t> handles(Next() % 4);
    for (uint64_t& handle : handles) handle = Tensor();
    return handles;
  }
  std::string Device() { return Next() % 4 == 0 ? "FAKE:1" : Next() % 16 == 0 ? "MARS" : ""; }
  std::string Text() { return std::string(1, static_cast<char>('a' + Next() % 3)); }

  void Upload();
  void UploadLater();
  void Register();
  void Run();
  void Attach();
  void Tweak();
  void Send();
  void SendAgain();

  // Calls end at their deadline, which may have passed, or are cancelled from another thread.
  void Limit(grpc::ClientContext& context) {
    const uint8_t next = Next() % 4;
    context.set_deadline(system_clock::now() + (next == 0   ? milliseconds(-1)
                                                : next == 1 ? milliseconds(0)
                                                            : milliseconds(1)));
  }
  template <typename Request, typename Reply>
  void Call(grpc::Status (v1::SessionService::Stub::*method)(grpc::ClientContext*, const Request&,
                                                             Reply*),
            Request request) {
    grpc::ClientContext context;
    Limit(context);
    request.set_session_token(Token());
    Reply reply;
    Judge((client_.stub().*method)(&context, request, &reply));
  }
  std::string Token() { return Next() % 16 == 0 ? Text() : client_.welcome.session_token(); }
  void UploadCall();
  void DownloadCall();
  void WaitCall();
  void PublishCall();
  void FindCall();
  void AdminCall();

  // Faults of ours and of a transport that breaks are neither the client's nor the device's.
  void Judge(const grpc::Status& status) {
    if (status.error_code() == grpc::StatusCode::INTERNAL ||
        status.error_code() == grpc::StatusCode::UNKNOWN) {
      problem_ = "a call ended with " + status.error_message();
    }
  }
  grpc::StatusCode AbandonTransfer(uint64_t transfer);
  grpc::StatusCode WaitForAll();
  std::string Settle();

  std::string_view script_;
  World& world_;
  TestClient client_;
  v1::ClientFrame frame_, last_frame_;
  uint64_t sequence_ = 0;
  std::vector<uint64_t> tensors_, programs_;  // that commands have named as results
  std::set<uint64_t> transfers_, notified_;
  bool broken_ = false;  // by a frame that ends the stream
  std::string problem_;
};

void Player::Upload() {
  v1::UploadCommand& upload = *frame_.add_commands()->mutable_upload();
  upload.set_handle(FreshTensor());
  upload.set_dtype(static_cast<uint32_t>(DType::kFloat32));
  const size_t count = Count(2, 5);
  upload.add_shape(count);
  upload.set_inline_data(std::string(4 * count, '\0'));
  upload.set_device(Device());
}

void Player::UploadLater() {
  v1::UploadCommand& upload = *frame_.add_commands()->mutable_upload();
  upload.set_handle(FreshTensor());
  upload.set_dtype(static_cast<uint32_t>(DType::kFloat32));
  upload.add_shape(Count(2, 5));
  upload.set_transfer_id(1 + Next() % 4);
}

void Player::Register() {
  static constexpr const char* kNames[] = {"add", "bad", "half", "slow"};
  v1::RegisterProgram& command = *frame_.add_commands()->mutable_register_program();
  command.set_handle(FreshProgram());
  const uint8_t next = Next();
  *command.mutable_program() =
      AddProgram(kNames[next % 4], static_cast<int64_t>(Count(2, 5)), next / 16 % 2 != 0);
  command.set_device(Device());
}

void Player::Run() {
  v1::RunProgram& run = *frame_.add_commands()->mutable_run();
  run.set_program(Program());
  for (size_t i = Count(2, 4); i > 0; --i) run.add_inputs(Tensor());
  for (size_t i = Count(1, 4); i > 0; --i) {
    run.add_outputs(Next() % 2 == 0 && !run.inputs().empty() ? run.inputs(0) : FreshTensor());
  }
  if (Next() % 8 == 0) (*run.mutable_variables())[Text()] = static_cast<int64_t>(Number());
  run.set_notify(Next() % 2 == 0);
  if (Next() % 8 == 0) run.add_release(Tensor());
}

void Player::Attach() {
  v1::AttachTensor& attach = *frame_.add_commands()->mutable_attach();
  attach.set_handle(FreshTensor());
  attach.set_owner(Next() % 4 == 0 ? Text() : "");
  attach.set_name(Text());
  attach.set_version(Number());
  attach.set_tensor(static_cast<uint32_t>(Number()));
}

// Some field of the last command becomes something else.
void Player::Tweak() {
  if (frame_.commands().empty()) return;
  google::protobuf::Message* message = frame_.mutable_commands(frame_.commands_size() - 1);
  for (int depth = 0; depth < 6; ++depth) {
    const auto& descriptor = *message->GetDescriptor();
    const auto& reflection = *message->GetReflection();
    if (descriptor.field_count() == 0) return;
    const FieldDescriptor* field = descriptor.field(Next() % descriptor.field_count());
    if (field->name() == "sequence" || field->is_map()) return;
    const uint64_t number = Number();
    const bool repeated = field->is_repeated();
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        message = repeated ? reflection.AddMessage(message, field)
                           : reflection.MutableMessage(message, field);
        continue;
      case FieldDescriptor::CPPTYPE_STRING:
        repeated ? reflection.AddString(message, field, Text())
                 : reflection.SetString(message, field, Text());
        return;
      case FieldDescriptor::CPPTYPE_UINT64:
        repeated ? reflection.AddUInt64(message, field, number)
                 : reflection.SetUInt64(message, field, number);
        return;
      case FieldDescriptor::CPPTYPE_INT64:
        repeated ? reflection.AddInt64(message, field, static_cast<int64_t>(number))
                 : reflection.SetInt64(message, field, static_cast<int64_t>(number));
        return;
      case FieldDescriptor::CPPTYPE_UINT32:
        repeated ? reflection.AddUInt32(message, field, static_cast<uint32_t>(number))
                 : reflection.SetUInt32(message, field, static_cast<uint32_t>(number));
        return;
      case FieldDescriptor::CPPTYPE_BOOL:
        if (!repeated) reflection.SetBool(message, field, number % 2 != 0);
        return;
      default:
        return;
    }
  }
}

void Player::Send() {
  for (v1::Command& command : *frame_.mutable_commands()) {
    command.set_sequence(++sequence_);
    if (command.upload().transfer_id() != 0) transfers_.insert(command.upload().transfer_id());
    if (command.run().notify()) notified_.insert(sequence_);
  }
  client_.SendFrame(frame_);
  last_frame_.Swap(&frame_);
  frame_.Clear();
}

void Player::SendAgain() {
  switch (Next() % 8) {
    case 0:  // a gap
      frame_.add_commands()->set_sequence(sequence_ + 2 + Number() % 8);
      broken_ = true;
      client_.SendFrame(frame_);
      frame_.Clear();
      return;
    case 1:
      frame_.mutable_hello();
      broken_ = true;
      client_.SendFrame(frame_);
      frame_.Clear();
      return;
    case 2:  // more than was told
      frame_.Clear();
      frame_.set_acknowledged(Number());
      client_.SendFrame(frame_);
      frame_.Clear();
      return;
    case 3:  // nothing
      client_.SendFrame(v1::ClientFrame());
      return;
    default:  // what has arrived already
      client_.SendFrame(last_frame_);
  }
}

void Player::UploadCall() {
  grpc::ClientContext context;
  Limit(context);
  v1::UploadReply reply;
  const auto writer = client_.stub().Upload(&context, &reply);
  uint64_t offset = 0;
  for (int chunks = Next() % 4; chunks > 0; --chunks) {
    v1::UploadChunk chunk;
    chunk.set_session_token(Token());
    chunk.set_transfer_id(Next() % 5);
    chunk.set_total_bytes(Next() % 2 == 0 ? 4 * (Next() % 5) : Number());
    chunk.set_offset(Next() % 4 == 0 ? Number() : offset);
    chunk.set_data(std::string(4 * (Next() % 4), '\1'));
    offset += chunk.data().size();
    if (Next() % 8 == 0) chunk.set_abandon(true);
    if (Next() % 8 == 0) chunk.set_handle(Tensor());
    if (Next() % 8 == 0) chunk.set_segment(Number());
    if (Next() % 16 == 0) chunk.set_segment_bytes(Number());
    if (!writer->Write(chunk)) break;
  }
  if (Next() % 4 == 0) context.TryCancel();
  writer->WritesDone();
  Judge(writer->Finish());
}

void Player::DownloadCall() {
  grpc::ClientContext context;
  Limit(context);
  v1::DownloadRequest request;
  request.set_session_token(Token());
  request.set_handle(Next() % 8 == 0 ? Program() : Tensor());
  request.set_after_sequence(Next() % 4 == 0 ? Number() : sequence_);
  if (Next() % 4 == 0) request.set_offset(Number());
  if (Next() % 4 == 0) request.set_version(Number());
  if (Next() % 8 == 0) request.set_segment(Number());
  const auto reader = client_.stub().Download(&context, request);
  v1::DownloadChunk chunk;
  while (reader->Read(&chunk)) {
    if (Next() % 8 == 0) context.TryCancel();
  }
  Judge(reader->Finish());
}

void Player::WaitCall() {
  v1::WaitRequest request;
  request.set_sequence(Next() % 4 == 0 ? Number() : sequence_);
  request.set_handle(Next() % 4 == 0 ? Program() : Tensor());
  Call(&v1::SessionService::Stub::Wait, request);
}

void Player::PublishCall() {
  v1::PublishRequest request;
  request.set_name(Text());
  request.set_after_sequence(Next() % 4 == 0 ? Number() : sequence_);
  for (const uint64_t handle : Tensors()) {
    v1::PublishRequest::Tensor& tensor = *request.add_tensors();
    tensor.set_key(Text());
    tensor.set_handle(handle);
  }
  Call(&v1::SessionService::Stub::Publish, request);
}

void Player::FindCall() {
  v1::FindPublishedRequest find;
  find.set_name(Text());
  v1::UnpublishRequest unpublish;
  unpublish.set_name(Text());
  switch (Next() % 4) {
    case 0:
      return Call(&v1::SessionService::Stub::FindPublished, find);
    case 1:
      return Call(&v1::SessionService::Stub::Unpublish, unpublish);
    case 2:
      return Call(&v1::SessionService::Stub::ListPublished, v1::ListPublishedRequest());
    default:
      return Call(&v1::SessionService::Stub::Counters, v1::CountersRequest());
  }
}

void Player::AdminCall() {
  const auto stub = v1::AdminService::NewStub(world_.channel);
  grpc::ClientContext context;
  Limit(context);
  v1::ListTensorsRequest request;
  request.set_limit(static_cast<uint32_t>(Number()));
  v1::ListTensorsReply tensors;
  v1::ListSessionsReply sessions;
  Judge(Next() % 2 == 0 ? stub->ListTensors(&context, request, &tensors)
                        : stub->ListSessions(&context, {}, &sessions));
}

// So that no run waits for what never comes.
grpc::StatusCode Player::AbandonTransfer(uint64_t transfer) {
  grpc::ClientContext context;
  v1::UploadReply reply;
  const auto writer = client_.stub().Upload(&context, &reply);
  v1::UploadChunk chunk;
  chunk.set_session_token(client_.welcome.session_token());
  chunk.set_transfer_id(transfer);
  chunk.set_abandon(true);
  writer->Write(chunk);
  writer->WritesDone();
  return writer->Finish().error_code();
}

grpc::StatusCode Player::WaitForAll() {
  grpc::ClientContext context;
  context.set_deadline(system_clock::now() + milliseconds(50));
  v1::WaitRequest request;
  request.set_session_token(client_.welcome.session_token());
  request.set_sequence(sequence_);
  v1::WaitReply reply;
  return client_.stub().Wait(&context, request, &reply).error_code();
}

// After the script: all that was accepted comes to its end.
std::string Player::Settle() {
  for (int i = 0; i < 2; ++i) world_.runtime->device(i).Unhold();
  if (!frame_.commands().empty()) Send();
  // More than once: a command that waits for one transfer holds up one that names it again, and a
  // call that was cancelled a moment ago may still have it.
  const auto end = std::chrono::steady_clock::now() + kPatience;
  for (;;) {
    for (const uint64_t transfer : transfers_) AbandonTransfer(transfer);
    const grpc::StatusCode code = WaitForAll();
    if (code == grpc::StatusCode::OK) break;
    if (code != grpc::StatusCode::DEADLINE_EXCEEDED) {
      return problem_;  // the session has ended, as it does after some frames
    }
    if (std::chrono::steady_clock::now() > end) {
      return broken_ ? "a frame that ends the session doesn't"
                     : "not all commands come to their end";
    }
  }
  const auto told = [&] {
    std::set<uint64_t> sequences;
    for (const auto& completion : client_.completions) sequences.insert(completion.sequence());
    return std::includes(sequences.begin(), sequences.end(), notified_.begin(), notified_.end());
  };
  bool over = false;
  while ((client_.acknowledged < sequence_ || !told()) && !over) over = !client_.ReadFrame();
  if (broken_) return problem_;  // the end may come at any time from now on
  if (over) return "the stream has ended without a reason";
  std::map<uint64_t, int> times;
  for (const auto& completion : client_.completions) ++times[completion.sequence()];
  for (const uint64_t sequence : notified_) {
    if (times[sequence] != 1) {
      return "command " + std::to_string(sequence) + " was completed " +
             std::to_string(times[sequence]) + " times";
    }
  }
  if (times.size() != notified_.size()) return "a completion that nobody asked for";
  if (client_.Counters().live_bytes() > 1 << 20) return "more bytes are held than there are";
  return problem_;
}

std::string Player::Play() {
  using Step = void (Player::*)();
  static constexpr Step kSteps[] = {
      &Player::Upload,      &Player::Upload,     &Player::Upload,    &Player::UploadLater,
      &Player::Register,    &Player::Register,   &Player::Run,       &Player::Run,
      &Player::Run,         &Player::Attach,     &Player::Tweak,     &Player::Tweak,
      &Player::Send,        &Player::Send,       &Player::Send,      &Player::SendAgain,
      &Player::UploadCall,  &Player::UploadCall, &Player::WaitCall,  &Player::DownloadCall,
      &Player::PublishCall, &Player::FindCall,   &Player::AdminCall,
  };
  if (!client_.Hello()) return "no session";
  while (!script_.empty() && problem_.empty()) {
    const uint8_t next = Next();
    FakeDevice& device = world_.runtime->device(next % 2);
    switch (next / 2 % 16) {
      case 0:
        device.Hold();
        break;
      case 1:
        device.Step();
        break;
      case 2:
        device.Step(absl::DataLossError("the device has a fault"));
        break;
      case 3: {
        v1::Release& release = *frame_.add_commands()->mutable_release();
        for (const uint64_t handle : Tensors()) release.add_handles(handle);
        if (Next() % 4 == 0) release.add_handles(Program());
        break;
      }
      case 4: {
        v1::CopyTensor& copy = *frame_.add_commands()->mutable_copy();
        copy.set_handle(FreshTensor());
        copy.set_source(Tensor());
        copy.set_device(Device());
        break;
      }
      default:
        (this->*kSteps[Next() % std::size(kSteps)])();
    }
  }
  return Settle();
}

// Names that stay published would reach the next script.
void UnpublishAll() {
  const auto stub = v1::AdminService::NewStub(TheWorld().channel);
  for (const char* name : {"a", "b", "c"}) {
    grpc::ClientContext context;
    v1::UnpublishRequest request;
    request.set_name(name);
    v1::UnpublishReply reply;
    stub->Unpublish(&context, request, &reply);
  }
}

std::string WhoIsThere() {
  const auto stub = v1::AdminService::NewStub(TheWorld().channel);
  grpc::ClientContext first, second;
  v1::ListTensorsRequest request;
  v1::ListTensorsReply tensors;
  v1::ListPublishedReply published;
  stub->ListTensors(&first, request, &tensors);
  stub->ListPublished(&second, {}, &published);
  return tensors.ShortDebugString() + published.ShortDebugString();
}

std::string RandomScript(std::mt19937_64& random, size_t bytes) {
  std::string script(bytes, '\0');
  for (char& byte : script) byte = static_cast<char>(random());
  return script;
}

}  // namespace

std::vector<std::string> Seeds() {
  std::mt19937_64 random(1);
  std::vector<std::string> seeds;
  for (const size_t bytes : {20, 60, 60, 150, 150, 300}) {
    seeds.push_back(RandomScript(random, bytes));
  }
  return seeds;
}

std::string Try(std::string_view input) {
  World& world = TheWorld();
  std::string problem = Player(input.substr(0, 2000)).Play();
  UnpublishAll();
  // The end of its stream ends the session; what is under way on the device ends before.
  const auto end = std::chrono::steady_clock::now() + kPatience;
  for (int i = 0; i < 2; ++i) {
    while (world.runtime->device(i).allocator().stats().in_use_bytes > 0 && problem.empty()) {
      if (std::chrono::steady_clock::now() > end) problem = "memory stays: " + WhoIsThere();
      std::this_thread::yield();
    }
  }
  return problem;
}

}  // namespace tensord::fuzz
