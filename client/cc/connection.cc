#include "client/cc/connection.h"

#include <absl/base/thread_annotations.h>
#include <absl/container/flat_hash_set.h>
#include <absl/synchronization/mutex.h>
#include <grpcpp/grpcpp.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/wire/status.h"

namespace tensord::client {
namespace {

constexpr size_t kChunkBytes = 1 << 20;
// Tensors up to this size travel in the command: a call of its own costs more than the copy.
constexpr size_t kInlineBytes = 16 << 10;
constexpr size_t kFrameBytes = 256 << 10;
constexpr int kFrameCommands = 256;
constexpr uint64_t kPendingCommands = 4096;
// Releases wait for a command to ride on until they are this many or this large.
constexpr size_t kReleaseCount = 64;
constexpr uint64_t kReleaseBytes = 8 << 20;
// Runs whose failure is remembered.
constexpr size_t kFailures = 4096;

// Whether this process is a fork of one that had opened a connection. relaxed: it is set while the
// process has one thread.
std::atomic<bool> forked = false;

void NoteForks() {
  static const int registered [[maybe_unused]] =
      pthread_atfork(nullptr, nullptr, [] { forked.store(true, std::memory_order_relaxed); });
}

bool IsForked() { return forked.load(std::memory_order_relaxed); }

absl::Status FromGrpc(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

grpc::ChannelArguments ChannelArguments(const std::string& address) {
  grpc::ChannelArguments arguments;
  // A daemon that is restarted is found again within half a second; gRPC's own back-off takes many.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
  // Otherwise a new connection would inherit the back-off of a dead one to the same address.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  if (address.rfind("unix:", 0) != 0) {
    // A peer that vanished without a word is noticed within 30 s. The kernel tells about local
    // ones.
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 20'000);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 8'000);
  }
  arguments.SetMaxReceiveMessageSize(-1);  // the daemon is trusted with its chunk size
  return arguments;
}

std::unique_ptr<grpc::ClientContext> Context(absl::Time deadline) {
  auto context = std::make_unique<grpc::ClientContext>();
  if (deadline != absl::InfiniteFuture()) context->set_deadline(absl::ToChronoTime(deadline));
  return context;
}

}  // namespace

// The session's ordered stream. gRPC calls the On... methods on threads of its own.
class Connection::Stream : public grpc::ClientBidiReactor<v1::ClientFrame, v1::ServerFrame> {
 public:
  explicit Stream(std::string address) : address_(std::move(address)) {}

  void Start(v1::SessionService::Stub& stub, v1::Hello hello) {
    *frame_.mutable_hello() = std::move(hello);
    stub.async()->Session(&context_, this);
    absl::MutexLock lock(&mu_);
    started_ = true;
    // Commands come from other threads at any time: the hold keeps the call until the last of them.
    AddHold();
    writing_ = true;
    StartRead(&received_);
    StartWrite(&frame_);
    StartCall();
  }

  // Waits until gRPC has let go of this object.
  ~Stream() override {
    Cancel();
    absl::MutexLock lock(&mu_);
    if (started_) mu_.Await(absl::Condition(&finished_));
  }

  void Cancel() {
    {
      absl::MutexLock lock(&mu_);
      if (!started_ || finished_) return;
      if (ended_.ok()) ended_ = Cancelled("the client closed its session with {}", address_);
    }
    context_.TryCancel();
  }

  absl::Status AwaitWelcome(absl::Time deadline) {
    absl::MutexLock lock(&mu_);
    auto settled = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return welcomed_ || finished_; };
    const bool in_time = mu_.AwaitWithDeadline(absl::Condition(&settled), deadline);
    if (welcomed_) return absl::OkStatus();
    if (!ended_.ok()) return ended_;
    return in_time ? Unavailable("{} ended the session", address_)
                   : DeadlineExceeded("{} did not answer in time", address_);
  }

  const v1::Welcome& welcome() const { return welcome_; }

  uint64_t Send(v1::Command command) {
    absl::MutexLock lock(&mu_);
    return SendLocked(std::move(command));
  }

  // A run takes the waiting releases along.
  uint64_t SendRun(v1::Command command) {
    absl::MutexLock lock(&mu_);
    std::vector<uint64_t> handles = TakeReleases();
    command.mutable_run()->mutable_release()->Add(handles.begin(), handles.end());
    command.mutable_run()->set_notify(true);
    const uint64_t sequence = SendLocked(std::move(command));
    running_.insert(sequence);
    Recycle(handles);
    return sequence;
  }

  void Release(uint64_t handle, uint64_t bytes) {
    absl::MutexLock lock(&mu_);
    releases_.push_back(handle);
    release_bytes_ += bytes;
    if (releases_.size() >= kReleaseCount || release_bytes_ >= kReleaseBytes) SendReleases();
  }

  void FlushReleases() {
    absl::MutexLock lock(&mu_);
    if (!releases_.empty()) SendReleases();
  }

  uint64_t NewHandle(Handle::Type type) {
    absl::MutexLock lock(&mu_);
    Handle handle{.type = static_cast<uint8_t>(type), .generation = 1, .slot = next_slot_};
    if (free_.empty()) {
      ++next_slot_;
    } else {
      handle.slot = free_.back().slot;
      handle.generation = free_.back().generation + 1;
      free_.pop_back();
    }
    return handle.Pack();
  }

  uint64_t NewTransfer() {
    absl::MutexLock lock(&mu_);
    return ++last_transfer_;
  }

  uint64_t last_sequence() const {
    absl::MutexLock lock(&mu_);
    return last_sequence_;
  }

  absl::Status AwaitRoom(absl::Time deadline) {
    absl::MutexLock lock(&mu_);
    auto room = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return last_sequence_ - acknowledged_ < max_pending_ || !ended_.ok();
    };
    if (!mu_.AwaitWithDeadline(absl::Condition(&room), deadline)) {
      return DeadlineExceeded("{} has {} commands queued and takes no more in time", address_,
                              last_sequence_ - acknowledged_);
    }
    return ended_;
  }

  std::optional<absl::Status> AwaitRun(uint64_t sequence, absl::Time deadline) {
    absl::MutexLock lock(&mu_);
    auto settled = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return !running_.contains(sequence) || finished_ || !ended_.ok();
    };
    if (!mu_.AwaitWithDeadline(absl::Condition(&settled), deadline)) {
      return DeadlineExceeded("{} did not finish the run in time", address_);
    }
    if (!ended_.ok()) return ended_;
    if (auto it = failures_.find(sequence); it != failures_.end()) return it->second;
    if (sequence < forgotten_) return std::nullopt;
    return absl::OkStatus();
  }

  bool WasRefused(uint64_t sequence) const {
    absl::MutexLock lock(&mu_);
    return refused_.contains(sequence);
  }

  // Why the session is over. A stream that is about to end is waited for, so that the reason is the
  // same for all who ask.
  absl::Status ended() const {
    absl::MutexLock lock(&mu_);
    if (closed_) mu_.Await(absl::Condition(&finished_));
    return ended_;
  }

  // The same, when a call beside the stream has lost its connection, which is the stream's as well.
  absl::Status EndedSoon() const {
    absl::MutexLock lock(&mu_);
    auto over = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return finished_ || !ended_.ok(); };
    mu_.AwaitWithTimeout(absl::Condition(&over), absl::Seconds(1));
    return ended_;
  }

  void OnWriteDone(bool ok) override {
    absl::MutexLock lock(&mu_);
    writing_ = false;
    if (ok) WriteNext();
  }

  void OnReadDone(bool ok) override {
    {
      absl::MutexLock lock(&mu_);
      if (ok) {
        Receive();
        StartRead(&received_);
        return;
      }
      closed_ = true;  // nothing is started on the call after this
    }
    RemoveHold();
  }

  void OnDone(const grpc::Status& status) override {
    absl::MutexLock lock(&mu_);
    closed_ = true;
    if (ended_.ok()) {
      std::string reason = status.error_message();
      if (reason.empty()) reason = go_away_.empty() ? "it closed the stream" : go_away_;
      const auto code = status.ok() ? absl::StatusCode::kUnavailable
                                    : static_cast<absl::StatusCode>(status.error_code());
      ended_ = MakeStatus(code, "the session with {} is over, connect again: {}", address_, reason);
    }
    finished_ = true;
  }

 private:
  uint64_t SendLocked(v1::Command command) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    command.set_sequence(++last_sequence_);
    if (closed_) return last_sequence_;  // who waits for its results learns why
    queue_.push_back(std::move(command));
    if (!writing_) WriteNext();
    return last_sequence_;
  }

  // Starting an operation under the lock is what keeps it in order before RemoveHold; gRPC never
  // calls back from within.
  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (closed_ || !welcomed_ || queue_.empty()) return;
    frame_.Clear();
    size_t bytes = 0;
    while (!queue_.empty() && frame_.commands_size() < max_frame_commands_) {
      bytes += queue_.front().ByteSizeLong();
      if (bytes > kFrameBytes && frame_.commands_size() > 0) break;
      frame_.add_commands()->Swap(&queue_.front());
      queue_.pop_front();
    }
    writing_ = true;
    StartWrite(&frame_);
  }

  void Receive() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (received_.has_welcome() && !welcomed_) {
      welcome_ = received_.welcome();
      welcomed_ = true;
      if (const uint32_t limit = welcome_.limits().max_commands_per_frame()) {
        max_frame_commands_ = static_cast<int>(std::min<uint32_t>(limit, kFrameCommands));
      }
      // Half of the limit, because those who have seen room send without looking again.
      if (const uint32_t limit = welcome_.limits().max_pending_commands()) {
        max_pending_ = std::clamp<uint64_t>(limit / 2, 1, kPendingCommands);
      }
      if (!writing_) WriteNext();
    }
    acknowledged_ = std::max(acknowledged_, received_.acknowledged());
    for (const v1::CommandError& error : received_.errors()) refused_.insert(error.sequence());
    for (const v1::Completion& completion : received_.completions()) {
      running_.erase(completion.sequence());
      if (completion.status().code() == 0) continue;
      failures_[completion.sequence()] = Decode(completion.status());
      if (failures_.size() > kFailures) {
        forgotten_ = failures_.begin()->first + 1;
        failures_.erase(failures_.begin());
      }
    }
    if (received_.has_go_away()) go_away_ = received_.go_away().reason();
  }

  std::vector<uint64_t> TakeReleases() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    release_bytes_ = 0;
    return std::exchange(releases_, {});
  }

  void SendReleases() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    std::vector<uint64_t> handles = TakeReleases();
    v1::Command command;
    command.mutable_release()->mutable_handles()->Add(handles.begin(), handles.end());
    SendLocked(std::move(command));
    Recycle(handles);
  }

  // A slot is used again only by commands that follow the one that releases it.
  void Recycle(const std::vector<uint64_t>& handles) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    for (uint64_t bits : handles) {
      const Handle handle = Handle::Unpack(bits);
      if (handle.generation < Handle::kMaxGeneration) free_.push_back(handle);
    }
  }

  const std::string address_;
  grpc::ClientContext context_;
  v1::ClientFrame frame_;     // gRPC's while a write is under way, ours otherwise
  v1::ServerFrame received_;  // gRPC's while a read is under way
  v1::Welcome welcome_;       // fixed once AwaitWelcome has returned

  mutable absl::Mutex mu_;
  bool started_ ABSL_GUARDED_BY(mu_) = false;
  bool welcomed_ ABSL_GUARDED_BY(mu_) = false;
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;    // nothing more can be sent
  bool finished_ ABSL_GUARDED_BY(mu_) = false;  // gRPC is done with this object
  absl::Status ended_ ABSL_GUARDED_BY(mu_);
  std::string go_away_ ABSL_GUARDED_BY(mu_);
  std::deque<v1::Command> queue_ ABSL_GUARDED_BY(mu_);
  uint64_t last_sequence_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t acknowledged_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t max_pending_ ABSL_GUARDED_BY(mu_) = kPendingCommands;
  int max_frame_commands_ ABSL_GUARDED_BY(mu_) = kFrameCommands;
  absl::flat_hash_set<uint64_t> refused_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_set<uint64_t> running_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, absl::Status> failures_ ABSL_GUARDED_BY(mu_);  // of runs
  uint64_t forgotten_ ABSL_GUARDED_BY(mu_) = 0;  // failures of runs before this may be lost
  std::vector<uint64_t> releases_ ABSL_GUARDED_BY(mu_);
  uint64_t release_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  uint32_t next_slot_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<Handle> free_ ABSL_GUARDED_BY(mu_);
  uint64_t last_transfer_ ABSL_GUARDED_BY(mu_) = 0;
};

namespace {

absl::StatusOr<v1::Priority> ParsePriority(std::string_view name) {
  constexpr std::pair<std::string_view, v1::Priority> kPriorities[] = {
      {"interactive", v1::PRIORITY_INTERACTIVE},
      {"normal", v1::PRIORITY_NORMAL},
      {"batch", v1::PRIORITY_BATCH}};
  for (const auto& [each, priority] : kPriorities) {
    if (each == name) return priority;
  }
  return InvalidArgument("connect: priority '{}' is none of interactive, normal and batch", name);
}

// A call on a channel that did not connect says why: nobody is there, or the two don't agree on
// encryption.
absl::Status NoAnswer(const std::shared_ptr<grpc::Channel>& channel, const std::string& address) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(1)));
  v1::CountersReply reply;
  const grpc::Status status = v1::SessionService::NewStub(channel)->Counters(&context, {}, &reply);
  const std::string& why = status.error_message();
  const auto says = [&](const char* text) { return why.find(text) != std::string::npos; };
  if (says("andshake") || says("SSL") || says("certificate")) {
    return Unavailable(
        "the daemon at {} and this client don't agree on TLS: check the CA's certificate, the name "
        "in the daemon's, and whether it wants one of the client ({})",
        address, why);
  }
  return Unavailable(
      "no daemon answers at {}; start one with: tensord --listen {} (if one runs there with "
      "--tls-cert, connect with tls)",
      address, address);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Connection>> Connection::Open(const std::string& address,
                                                             const ConnectOptions& options) {
  NoteForks();
  TD_RETURN_IF_ERROR(CheckFork());
  v1::Hello hello;
  TD_ASSIGN_OR_RETURN(const v1::Priority priority, ParsePriority(options.priority));
  hello.set_priority(priority);
  auto connection = std::unique_ptr<Connection>(new Connection(address));
  TD_ASSIGN_OR_RETURN(const auto channel,
                      Dial(address, options.security, ChannelArguments(address)));
  if (!channel->WaitForConnected(absl::ToChronoTime(absl::Now() + options.connect_timeout))) {
    return NoAnswer(channel, address);
  }
  connection->stub_ = v1::SessionService::NewStub(channel);
  connection->stream_ = std::make_unique<Stream>(address);

  hello.set_min_version(kMinProtocolVersion);
  hello.set_max_version(kMaxProtocolVersion);
  hello.set_client_name(options.client_name);
  connection->stream_->Start(*connection->stub_, std::move(hello));
  TD_RETURN_IF_ERROR(connection->stream_->AwaitWelcome(absl::Now() + options.connect_timeout));
  return connection;
}

Connection::Connection(std::string address) : address_(std::move(address)) {}
Connection::~Connection() {
  if (!IsForked()) return;
  // To end them would be to wait for threads that are not there.
  stream_.release();  // NOLINT(bugprone-unused-return-value)
  stub_.release();    // NOLINT(bugprone-unused-return-value)
}

absl::Status Connection::CheckFork() {
  if (!IsForked()) return absl::OkStatus();
  return Unavailable(
      "this process was forked from one that had connected to a daemon: the connection belongs to "
      "the parent, and no other can be opened here; start processes by multiprocessing's 'spawn' "
      "method and call connect() there, or fork before the first use of tensord");
}

const v1::Welcome& Connection::welcome() const { return stream_->welcome(); }
void Connection::Close() {
  if (!IsForked()) stream_->Cancel();
}
absl::Status Connection::status() const {
  TD_RETURN_IF_ERROR(CheckFork());
  return stream_->ended();
}
// Of a fork, nothing goes to the stream, whose lock may be held for ever.
uint64_t Connection::NewHandle(Handle::Type type) {
  return IsForked() ? 0 : stream_->NewHandle(type);
}
bool Connection::WasRefused(uint64_t sequence) const {
  return !IsForked() && stream_->WasRefused(sequence);
}

void Connection::Release(uint64_t handle, uint64_t bytes) {
  if (!IsForked()) stream_->Release(handle, bytes);
}

uint64_t Connection::Send(v1::Command command) {
  if (IsForked()) return 0;
  return command.has_run() ? stream_->SendRun(std::move(command))
                           : stream_->Send(std::move(command));
}

std::optional<absl::Status> Connection::AwaitRun(uint64_t sequence, absl::Time deadline) {
  TD_RETURN_IF_ERROR(CheckFork());
  return stream_->AwaitRun(sequence, deadline);
}

absl::Status Connection::WaitForRoom(absl::Time deadline) {
  TD_RETURN_IF_ERROR(CheckFork());
  return stream_->AwaitRoom(deadline);
}

absl::Status Connection::Upload(uint64_t handle, DType dtype, absl::Span<const int64_t> shape,
                                const std::string& device, absl::Span<const char> data,
                                absl::Time deadline) {
  return Upload(
      handle, dtype, shape, device, data.size(),
      [data](uint64_t offset, absl::Span<char> out) {
        std::copy_n(data.begin() + offset, out.size(), out.begin());
        return absl::OkStatus();
      },
      deadline);
}

absl::Status Connection::Upload(uint64_t handle, DType dtype, absl::Span<const int64_t> shape,
                                const std::string& device, uint64_t bytes, const Source& source,
                                absl::Time deadline) {
  TD_RETURN_IF_ERROR(WaitForRoom(deadline));
  v1::Command command;
  v1::UploadCommand& upload = *command.mutable_upload();
  upload.set_handle(handle);
  upload.set_dtype(static_cast<uint32_t>(dtype));
  upload.mutable_shape()->Add(shape.begin(), shape.end());
  upload.set_device(device);
  if (bytes <= kInlineBytes) {
    upload.mutable_inline_data()->resize(bytes);
    if (source(0, absl::MakeSpan(*upload.mutable_inline_data())).ok()) {
      Send(std::move(command));
      return absl::OkStatus();
    }
    // As a transfer it fails again, but the daemon knows the handle, which somebody will release.
    upload.clear_inline_data();
  }
  const uint64_t transfer_id = stream_->NewTransfer();
  upload.set_transfer_id(transfer_id);
  Send(std::move(command));
  return UploadChunks(transfer_id, bytes, source, deadline);
}

absl::Status Connection::UploadChunks(uint64_t transfer_id, uint64_t bytes, const Source& source,
                                      absl::Time deadline) {
  size_t chunk_bytes = kChunkBytes;
  if (const size_t limit = welcome().limits().max_chunk_bytes()) {
    chunk_bytes = std::min(chunk_bytes, limit);
  }
  auto context = Context(deadline);
  v1::UploadReply reply;
  auto writer = stub_->Upload(context.get(), &reply);
  v1::UploadChunk chunk;
  chunk.set_session_token(welcome().session_token());
  chunk.set_transfer_id(transfer_id);
  chunk.set_total_bytes(bytes);
  for (uint64_t offset = 0; offset < bytes; offset += chunk_bytes) {
    chunk.set_offset(offset);
    chunk.mutable_data()->resize(std::min<uint64_t>(chunk_bytes, bytes - offset));
    if (absl::Status read = source(offset, absl::MakeSpan(*chunk.mutable_data())); !read.ok()) {
      // The daemon must learn that no more comes, and of which transfer: it is told by a first
      // chunk if there was none. That the bytes are too few is its reason to spoil the handle.
      chunk.clear_data();
      writer->Write(chunk);
      writer->WritesDone();
      writer->Finish().ok();  // says what we know
      return read;
    }
    if (!writer->Write(chunk)) break;  // Finish says why
    chunk.clear_session_token();
    chunk.clear_transfer_id();
    chunk.clear_total_bytes();
  }
  writer->WritesDone();
  return Explain(writer->Finish());
}

absl::Status Connection::Download(uint64_t handle, absl::Span<char> out, absl::Time deadline) {
  return Download(
      handle, out.size(),
      [out](uint64_t offset, absl::Span<const char> data) {
        std::copy(data.begin(), data.end(), out.begin() + offset);
        return absl::OkStatus();
      },
      deadline);
}

absl::Status Connection::Download(uint64_t handle, uint64_t bytes, const Sink& sink,
                                  absl::Time deadline) {
  TD_RETURN_IF_ERROR(status());
  v1::DownloadRequest request;
  request.set_session_token(welcome().session_token());
  request.set_handle(handle);
  request.set_after_sequence(stream_->last_sequence());
  auto context = Context(deadline);
  auto reader = stub_->Download(context.get(), request);
  v1::DownloadChunk chunk;
  uint64_t received = 0;
  absl::Status wrong;
  while (reader->Read(&chunk)) {
    const std::string& data = chunk.data();
    if (chunk.offset() != received || data.size() > bytes - received) {
      wrong = Internal("{} sent bytes {}+{} of a tensor where {} of {} were expected", address_,
                       chunk.offset(), data.size(), received, bytes);
    } else {
      wrong = sink(received, data);
    }
    if (!wrong.ok()) {
      context->TryCancel();
      break;
    }
    received += data.size();
  }
  const grpc::Status finished = reader->Finish();
  if (!wrong.ok()) return wrong;
  TD_RETURN_IF_ERROR(Explain(finished));
  if (received != bytes) {
    return Internal("{} sent {} bytes of a tensor of {}", address_, received, bytes);
  }
  return absl::OkStatus();
}

absl::Status Connection::Wait(uint64_t handle, absl::Time deadline,
                              std::vector<std::string>* kernels) {
  TD_RETURN_IF_ERROR(status());
  if (handle == 0) FlushReleases();
  v1::WaitRequest request;
  request.set_session_token(welcome().session_token());
  request.set_sequence(stream_->last_sequence());
  request.set_handle(handle);
  auto context = Context(deadline);
  v1::WaitReply reply;
  TD_RETURN_IF_ERROR(Explain(stub_->Wait(context.get(), request, &reply)));
  if (kernels) kernels->assign(reply.kernels().begin(), reply.kernels().end());
  return Decode(reply.status());
}

absl::StatusOr<v1::CountersReply> Connection::Counters(absl::Time deadline) {
  TD_RETURN_IF_ERROR(status());
  v1::CountersRequest request;
  request.set_session_token(welcome().session_token());
  auto context = Context(deadline);
  v1::CountersReply reply;
  TD_RETURN_IF_ERROR(Explain(stub_->Counters(context.get(), request, &reply)));
  return reply;
}

void Connection::FlushReleases() { stream_->FlushReleases(); }

absl::Status Connection::Explain(const grpc::Status& status) const {
  if (status.ok()) return absl::OkStatus();
  // A call that the end of the session cut off has nothing better to say than the session itself.
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE ||
      status.error_code() == grpc::StatusCode::UNAUTHENTICATED) {
    if (absl::Status ended = stream_->EndedSoon(); !ended.ok()) return ended;
  }
  return FromGrpc(status);
}

}  // namespace tensord::client
