#include "client/cc/recorder.h"

#include <absl/base/thread_annotations.h>
#include <absl/strings/numbers.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/clock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/client_interceptor.h>
#include <grpcpp/support/slice.h>
#include <openssl/sha.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/cc/link.h"
#include "core/base/status.h"
#include "core/base/version.h"
#include "core/wire/handle.h"
#include "core/wire/recording.h"

namespace tensord::client {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Bytes fields of the protocol by what they hold.
constexpr std::string_view kSecrets[] = {"session_token", "resume_token"};
constexpr std::string_view kContents[] = {"inline_data", "data"};

template <size_t N>
bool IsOneOf(const FieldDescriptor& field, const std::string_view (&names)[N]) {
  return field.type() == FieldDescriptor::TYPE_BYTES &&
         std::find(std::begin(names), std::end(names), field.name()) != std::end(names);
}

// Removes secrets, and contents into `left_out` unless they are to be kept.
void Strip(Message& message, bool keep_contents, v1::RecordedEvent& event) {
  std::vector<const FieldDescriptor*> fields;
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && field->is_repeated()) {
      for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
        Strip(*reflection.MutableRepeatedMessage(&message, field, i), keep_contents, event);
      }
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      Strip(*reflection.MutableMessage(&message, field), keep_contents, event);
    } else if (IsOneOf(*field, kSecrets)) {
      reflection.ClearField(&message, field);
    } else if (IsOneOf(*field, kContents) && !keep_contents) {
      std::string scratch;
      const std::string& bytes = reflection.GetStringReference(message, field, &scratch);
      v1::LeftOut& left_out = *event.add_left_out();
      left_out.set_bytes(bytes.size());
      left_out.mutable_sha256()->resize(SHA256_DIGEST_LENGTH);
      SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
             reinterpret_cast<unsigned char*>(left_out.mutable_sha256()->data()));
      reflection.ClearField(&message, field);
    }
  }
}

// The file of this process. Thread-safe.
class Recorder {
 public:
  Recorder(std::unique_ptr<RecordingFile> file, bool contents)
      : contents_(contents), file_(std::move(file)) {}

  uint32_t NewSession() {
    absl::MutexLock lock(&mu_);
    return ++sessions_;
  }
  uint64_t NewCall(uint32_t session, const std::string& method) {
    absl::MutexLock lock(&mu_);
    const uint64_t call = ++calls_;
    v1::RecordedEvent event;
    event.set_begun(method);
    Append(session, call, event);
    return call;
  }
  void Add(uint32_t session, uint64_t call, v1::RecordedEvent event) {
    absl::MutexLock lock(&mu_);
    Append(session, call, event);
  }
  bool contents() const { return contents_; }

 private:
  void Append(uint32_t session, uint64_t call, v1::RecordedEvent& event)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (file_ == nullptr) return;
    // The clock of the wall may be set back.
    time_us_ = std::max(time_us_, absl::ToInt64Microseconds(absl::Now() - begin_));
    event.set_time_us(static_cast<uint64_t>(time_us_));
    event.set_session(session);
    event.set_call(call);
    const absl::Status written = file_->Append(event);
    if (written.ok()) return;
    file_ = nullptr;
    LogLines(fmt::format("the recording ends here: {}", tensord::Message(written)));
  }

  const bool contents_;
  const absl::Time begin_ = absl::Now();
  absl::Mutex mu_;
  std::unique_ptr<RecordingFile> file_ ABSL_GUARDED_BY(mu_);  // null once it can't be written
  uint32_t sessions_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t calls_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t time_us_ ABSL_GUARDED_BY(mu_) = 0;
};

// Hears one call.
class CallTap final : public grpc::experimental::Interceptor {
 public:
  CallTap(Recorder& recorder, uint32_t session, const grpc::experimental::ClientRpcInfo& call)
      : recorder_(recorder), session_(session), call_(recorder.NewCall(session, call.method())) {
    // "/package.Service/Method"
    std::string name(call.method());
    name.erase(0, 1);
    std::ranges::replace(name, '/', '.');
    method_ = google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(name);
  }

  void Intercept(grpc::experimental::InterceptorBatchMethods* batch) override {
    using Point = grpc::experimental::InterceptionHookPoints;
    if (batch->QueryInterceptionHookPoint(Point::PRE_SEND_MESSAGE)) {
      v1::RecordedEvent event;
      if (const void* message = batch->GetSendMessage()) {
        event.set_sent(Text(message, event));
        recorder_.Add(session_, call_, std::move(event));
      } else if (const std::unique_ptr<Message> parsed =
                     Parsed(*batch->GetSerializedSendMessage())) {
        event.set_sent(Text(parsed.get(), event));
        recorder_.Add(session_, call_, std::move(event));
      }
    }
    if (batch->QueryInterceptionHookPoint(Point::POST_RECV_MESSAGE)) {
      v1::RecordedEvent event;
      if (const void* message = batch->GetRecvMessage()) {
        event.set_received(Text(message, event));
        recorder_.Add(session_, call_, std::move(event));
      }
    }
    if (batch->QueryInterceptionHookPoint(Point::POST_RECV_STATUS)) {
      v1::RecordedEvent event;
      const grpc::Status& status = *batch->GetRecvStatus();
      event.mutable_ended()->set_code(static_cast<uint32_t>(status.error_code()));
      event.mutable_ended()->set_message(status.error_message());
      recorder_.Add(session_, call_, std::move(event));
    }
    batch->Proceed();
  }

 private:
  // gRPC hands over messages by address only; generated ones all derive from Message, singly.
  std::string Text(const void* address, v1::RecordedEvent& event) const {
    const auto& message = *static_cast<const Message*>(address);
    const std::unique_ptr<Message> copy(message.New());
    copy->CopyFrom(message);
    Strip(*copy, recorder_.contents(), event);
    return copy->SerializeAsString();
  }

  // Of calls on a completion queue there are bytes only. Null: of no method of ours.
  std::unique_ptr<Message> Parsed(grpc::ByteBuffer bytes) const {
    if (method_ == nullptr) return nullptr;
    std::unique_ptr<Message> message(google::protobuf::MessageFactory::generated_factory()
                                         ->GetPrototype(method_->input_type())
                                         ->New());
    std::vector<grpc::Slice> slices;
    std::string text;
    if (!bytes.Dump(&slices).ok()) return nullptr;
    for (const grpc::Slice& slice : slices) {
      text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
    }
    if (!message->ParseFromString(text)) return nullptr;
    return message;
  }

  Recorder& recorder_;
  const uint32_t session_;
  const uint64_t call_;
  const google::protobuf::MethodDescriptor* method_;
};

// Makes a tap for each call of one session's channel.
class SessionTap final : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  explicit SessionTap(Recorder& recorder) : recorder_(recorder), session_(recorder.NewSession()) {}
  grpc::experimental::Interceptor* CreateClientInterceptor(
      grpc::experimental::ClientRpcInfo* call) override {
    return new CallTap(recorder_, session_, *call);
  }

 private:
  Recorder& recorder_;
  const uint32_t session_;
};

// Begins when the first session does, and lasts as long as the process.
absl::StatusOr<Recorder*> RecorderOf(const std::string& path) {
  static absl::Mutex mu(absl::kConstInit);
  static auto& recorders = *new std::map<std::string, std::unique_ptr<Recorder>>;
  absl::MutexLock lock(&mu);
  std::unique_ptr<Recorder>& recorder = recorders[path];
  if (recorder == nullptr) {
    const char* variable = std::getenv("TENSORD_RECORD_CONTENTS");
    bool contents = false;
    if (variable != nullptr && !absl::SimpleAtob(variable, &contents)) {
      return InvalidArgument("connect: TENSORD_RECORD_CONTENTS is '{}': takes true or false",
                             variable);
    }
    v1::RecordingHeader header;
    header.set_software_version(std::string(kVersion));
    header.set_min_protocol_version(kMinProtocolVersion);
    header.set_max_protocol_version(kMaxProtocolVersion);
    header.set_started_unix_ms(static_cast<uint64_t>(absl::ToUnixMillis(absl::Now())));
    header.set_contents(contents);
    TD_ASSIGN_OR_RETURN(auto file, RecordingFile::Create(path, std::move(header)),
                        "connect: TENSORD_RECORD");
    recorder = std::make_unique<Recorder>(std::move(file), contents);
  }
  return recorder.get();
}

}  // namespace

bool IsRecording() {
  const char* path = std::getenv("TENSORD_RECORD");
  return path != nullptr && path[0] != '\0';
}

absl::StatusOr<Interceptors> RecordingInterceptors() {
  Interceptors interceptors;
  if (!IsRecording()) return interceptors;
  TD_ASSIGN_OR_RETURN(Recorder* const recorder, RecorderOf(std::getenv("TENSORD_RECORD")));
  interceptors.push_back(std::make_unique<SessionTap>(*recorder));
  return interceptors;
}

}  // namespace tensord::client
