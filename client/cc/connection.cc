#include "client/cc/connection.h"

#include <grpcpp/grpcpp.h>
#include <openssl/evp.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <utility>

#include "client/cc/interrupt.h"
#include "client/cc/link.h"
#include "client/cc/recorder.h"
#include "core/base/status.h"
#include "core/wire/status.h"
#include "proto/tensord/v1/trace.grpc.pb.h"

namespace tensord::client {
namespace {

constexpr size_t kChunkBytes = 1 << 20;
// For the end of a transfer that was interrupted, if the daemon does not answer.
constexpr absl::Duration kFarewell = absl::Milliseconds(500);
// In a segment, where one side copies a piece while the other does the one before: few enough for
// messages not to count, many enough for the first and the last not to.
constexpr uint64_t kPieces = 16;
constexpr uint64_t kSmallestPiece = 512 << 10, kLargestPiece = 4 << 20;  // bytes
// Tensors up to this size travel in the command: a call of its own costs more than the copy.
constexpr size_t kInlineBytes = 16 << 10;
// From this size on the daemon is asked whether it may have the bytes.
constexpr uint64_t kContentBytes = 1 << 20;

// Whether this process is a fork of one that had opened a connection. relaxed: it is set while the
// process has one thread.
std::atomic<bool> forked = false;

void NoteForks() {
  static const int registered [[maybe_unused]] =
      pthread_atfork(nullptr, nullptr, [] { forked.store(true, std::memory_order_relaxed); });
}

bool IsForked() { return forked.load(std::memory_order_relaxed); }

grpc::ChannelArguments ChannelArguments() {
  grpc::ChannelArguments arguments;
  // A daemon that is restarted is found again within half a second; gRPC's own back-off takes many.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
  // Otherwise a new connection would inherit the back-off of a dead one to the same address.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // A peer that vanished without a word is noticed within 15 s, also while no data flows.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // A call that gRPC makes again by itself tells afterwards of writes that failed and did not.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetMaxReceiveMessageSize(-1);  // the daemon is trusted with its chunk size
  return arguments;
}

absl::StatusOr<std::string> HashOf(const Source& source, uint64_t bytes, size_t chunk_bytes) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        &EVP_MD_CTX_free);
  EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr);
  std::string chunk;
  for (uint64_t offset = 0; offset < bytes; offset += chunk.size()) {
    chunk.resize(std::min<uint64_t>(chunk_bytes, bytes - offset));
    TD_RETURN_IF_ERROR(source(offset, absl::MakeSpan(chunk)));
    EVP_DigestUpdate(context.get(), chunk.data(), chunk.size());
  }
  std::string digest(EVP_MAX_MD_SIZE, '\0');
  unsigned int size = 0;
  EVP_DigestFinal_ex(context.get(), reinterpret_cast<unsigned char*>(digest.data()), &size);
  digest.resize(size);
  return digest;
}

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
  TD_RETURN_IF_ERROR(TlsDisagreement(address, status.error_message()));
  return Unavailable(
      "no daemon answers at {}; start one with: tensord --listen {} (if one runs there with "
      "--tls-cert, connect with tls)",
      address, address);
}

// A call of one message to and fro.
template <typename Stub, typename Prepare, typename Request, typename Reply>
grpc::Status CallOnce(Stub& stub, Prepare prepare, grpc::ClientContext& context,
                      const Request& request, Reply& reply) {
  CallOperations operations(context);
  const auto call = (stub.*prepare)(&context, request, operations.queue());
  call->StartCall();
  grpc::Status done;
  call->Finish(&reply, &done, operations.tag());
  return operations.Finished(done);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Connection>> Connection::Open(const std::string& address,
                                                             const ConnectOptions& options,
                                                             const Connection* lost) {
  NoteForks();
  TD_RETURN_IF_ERROR(CheckFork());
  v1::Hello hello;
  TD_ASSIGN_OR_RETURN(const v1::Priority priority, ParsePriority(options.priority));
  hello.set_priority(priority);
  auto connection = std::unique_ptr<Connection>(new Connection(address));
  TD_ASSIGN_OR_RETURN(Interceptors interceptors, RecordingInterceptors());
  std::shared_ptr<grpc::Channel> channel;
  // One that is not connected may be waiting to try again, and one to a daemon that is about to end
  // is refused, where who connects anew waits for the next. A recording tells sessions by channels.
  if (lost != nullptr && interceptors.empty() && !lost->link_->went_away() &&
      lost->channel_->GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_READY) {
    channel = lost->channel_;
  } else {
    TD_ASSIGN_OR_RETURN(
        channel, Dial(address, options.security, ChannelArguments(), std::move(interceptors)));
  }
  const absl::Time deadline = absl::Now() + options.connect_timeout;
  const auto connected = [&](absl::Duration patience) {
    return channel->WaitForConnected(
        absl::ToChronoTime(std::min(deadline, absl::Now() + patience)));
  };
  while (!connected(absl::Milliseconds(50))) {
    if (Interrupted()) return InterruptedStatus();
    if (absl::Now() >= deadline) return NoAnswer(channel, address);
  }
  connection->stub_ = v1::SessionService::NewStub(channel);
  connection->channel_ = std::move(channel);
  hello.set_min_version(kMinProtocolVersion);
  hello.set_max_version(kMaxProtocolVersion);
  hello.set_client_name(options.client_name);
  hello.set_lease_ms(static_cast<uint32_t>(std::clamp<int64_t>(
      absl::ToInt64Milliseconds(options.lease), 0, std::numeric_limits<uint32_t>::max())));
  connection->link_ = std::make_unique<Link>(
      address, *connection->stub_, std::move(hello), [channel = connection->channel_] {
        grpc::experimental::ChannelResetConnectionBackoff(channel.get());
      });
  TD_RETURN_IF_ERROR(connection->link_->Open(absl::Now() + options.connect_timeout));
  return connection;
}

Connection::Connection(std::string address) : address_(std::move(address)) {}
Connection::~Connection() {
  if (!IsForked()) return;
  // To end them would be to wait for threads that are not there.
  link_.release();  // NOLINT(bugprone-unused-return-value)
  stub_.release();  // NOLINT(bugprone-unused-return-value)
}

absl::Status Connection::CheckFork() {
  if (!IsForked()) return absl::OkStatus();
  return Unavailable(
      "this process was forked from one that had connected to a daemon: the connection belongs to "
      "the parent, and no other can be opened here; start processes by multiprocessing's 'spawn' "
      "method and call connect() there, or fork before the first use of tensord");
}

const v1::Welcome& Connection::welcome() const { return link_->welcome(); }
void Connection::Close() {
  if (!IsForked()) link_->Close();
}
absl::Status Connection::status() const {
  TD_RETURN_IF_ERROR(CheckFork());
  return link_->ended();
}
// Of a fork, nothing goes to the link, whose lock may be held for ever.
bool Connection::lost() const { return !IsForked() && link_->lost(); }
uint64_t Connection::NewHandle(Handle::Type type) {
  return IsForked() ? 0 : link_->NewHandle(type);
}
bool Connection::WasRefused(uint64_t sequence) const {
  return !IsForked() && link_->WasRefused(sequence);
}
void Connection::Release(uint64_t handle, uint64_t bytes) {
  if (!IsForked()) link_->Release(handle, bytes);
}
uint64_t Connection::Send(v1::Command command) {
  return IsForked() ? 0 : link_->Send(std::move(command));
}

absl::Status Connection::WaitForRoom(absl::Time deadline) {
  TD_RETURN_IF_ERROR(CheckFork());
  return link_->AwaitRoom(deadline);
}

std::optional<absl::Status> Connection::AwaitRun(uint64_t sequence, absl::Time deadline) {
  TD_RETURN_IF_ERROR(CheckFork());
  return link_->AwaitRun(sequence, deadline);
}

absl::Status Connection::FailureOf(uint64_t sequence) const { return link_->FailureOf(sequence); }

absl::Status Connection::Call(absl::Time deadline,
                              const std::function<grpc::Status(grpc::ClientContext&)>& attempt) {
  Link::Attempts attempts = link_->NewAttempts();
  for (;;) {
    const auto context = ContextUntil(deadline);
    const grpc::Status done = attempt(*context);
    if (done.ok()) return absl::OkStatus();
    TD_RETURN_IF_ERROR(link_->AwaitRetry(done, deadline, attempts));
  }
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
  const uint64_t transfer_id = link_->NewTransfer();
  upload.set_transfer_id(transfer_id);
  Send(std::move(command));
  v1::UploadChunk first;
  first.set_session_token(welcome().session_token());
  first.set_transfer_id(transfer_id);
  first.set_total_bytes(bytes);
  return UploadChunks(first, handle, source, deadline);
}

absl::Status Connection::UploadChunks(v1::UploadChunk first, uint64_t handle, const Source& source,
                                      absl::Time deadline) {
  size_t chunk_bytes = kChunkBytes;
  if (const size_t limit = welcome().limits().max_chunk_bytes()) {
    chunk_bytes = std::min(chunk_bytes, limit);
  }
  const uint64_t bytes = first.total_bytes();
  Segments::Lease segment = link_->segments().Take(bytes);
  // Without a lease a call that ends early spoils the tensor, so one has to be enough.
  const bool may_end_early = welcome().lease_ms() > 0;
  if (segment && segment->size() < bytes && !may_end_early) segment = {};
  if (segment) chunk_bytes = std::clamp(bytes / kPieces, kSmallestPiece, kLargestPiece);
  // Through a segment bytes are sent faster than they are hashed. A recording is to be played where
  // they may not be known.
  bool looks = !segment && bytes >= kContentBytes && may_end_early && !IsRecording() &&
               link_->MayBeKnown(bytes);
  bool asks_first = looks;
  absl::Status unreadable;
  // Sends `chunk` without data, or chunks with data from `begin` to `end`. The reply says how many
  // bytes the daemon has.
  v1::UploadReply reply;
  const auto send = [&](CallOperations& operations, grpc::ClientContext& context,
                        v1::UploadChunk chunk, std::optional<uint64_t> begin, uint64_t end) {
    const auto writer = stub_->PrepareAsyncUpload(&context, &reply, operations.queue());
    writer->StartCall(operations.tag());
    bool open = operations.Await();
    if (open && !begin) {
      writer->Write(chunk, operations.tag());
      operations.Await();
    }
    for (uint64_t offset = begin.value_or(end); open && offset < end; offset += chunk_bytes) {
      const uint64_t size = std::min<uint64_t>(chunk_bytes, end - offset);
      chunk.set_offset(offset);
      absl::Span<char> out;
      if (segment) {
        chunk.set_segment(segment->number());
        chunk.set_segment_offset(offset - *begin);
        chunk.set_segment_bytes(size);
        out = {segment->data() + (offset - *begin), size};
      } else {
        chunk.mutable_data()->resize(size);
        out = absl::MakeSpan(*chunk.mutable_data());
      }
      if (unreadable.ok()) unreadable = source(offset, out);
      if (!unreadable.ok()) {
        // The daemon must learn that no more comes, and of which transfer.
        chunk.clear_data();
        chunk.clear_segment();
        chunk.set_abandon(true);
      }
      writer->Write(chunk, operations.tag());
      open = operations.Await() && unreadable.ok();  // Finish says why it is not
      chunk.Clear();
    }
    writer->WritesDone(operations.tag());
    operations.Await();
    grpc::Status done;
    writer->Finish(&done, operations.tag());
    return operations.Finished(done);
  };
  absl::Status sent = Call(deadline, [&](grpc::ClientContext& context) {
    reply.Clear();
    uint64_t begin = 0;
    if (std::exchange(asks_first, true)) {
      // How much has arrived: a call without data tells.
      first.set_handle(handle);
      const auto ask = [&] {
        const auto asking = ContextUntil(deadline);
        CallOperations operations(*asking);
        return send(operations, *asking, first, std::nullopt, 0);
      };
      grpc::Status told = ask();
      if (!told.ok() || reply.bytes() == bytes) return told;
      // Bytes that the daemon may have are worth a hash, by which it finds them.
      if (std::exchange(looks, false) && reply.bytes() == 0 && reply.candidates() > 0) {
        const absl::StatusOr<std::string> sha256 = HashOf(source, bytes, chunk_bytes);
        if (sha256.ok()) {  // else reading fails below as well, which tells the daemon
          first.set_content_sha256(*sha256);
          told = ask();
          first.clear_content_sha256();
          link_->NoteKnown(bytes, told.ok() && reply.bytes() == bytes);
          if (!told.ok() || reply.bytes() == bytes) return told;
        }
      }
      begin = reply.bytes();
    }
    // With a segment as many calls as it has to be filled.
    for (std::unique_ptr<grpc::ClientContext> later;; later = ContextUntil(deadline)) {
      grpc::ClientContext& present = later ? *later : context;
      const uint64_t end = segment ? std::min(bytes, begin + segment->size()) : bytes;
      CallOperations operations(present);
      const grpc::Status done = send(operations, present, first, begin, end);
      if (!done.ok() || !unreadable.ok() || reply.bytes() == bytes) return done;
      if (!segment || reply.bytes() != end) {
        return grpc::Status(
            grpc::StatusCode::UNAVAILABLE,
            fmt::format("the upload ended after {} of {} bytes", reply.bytes(), bytes));
      }
      begin = end;
      first.set_handle(handle);
    }
  });
  if (!unreadable.ok()) return unreadable;  // what the daemon says of it, we know
  if (absl::IsCancelled(sent) && link_->ended().ok()) {
    // Else the transfer would stay open, and hold up the commands behind it.
    const auto context = ContextUntil(std::min(deadline, absl::Now() + kFarewell));
    CallOperations operations(*context, /*interruptible=*/false);
    first.set_handle(handle);
    first.set_abandon(true);
    send(operations, *context, first, std::nullopt, 0)
        .ok();  // it is lost together with the session
  }
  return sent;
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
  request.set_after_sequence(link_->last_sequence());
  uint64_t received = 0;
  absl::Status wrong;
  Segments::Lease segment = link_->segments().Take(bytes);
  // Of one call: what it brings goes to the sink. `anew`: what was there before is void.
  const auto receive = [&](grpc::ClientContext& context, bool& anew) {
    CallOperations operations(context);
    request.set_offset(received);
    request.set_segment(segment ? segment->number() : 0);
    const auto reader = stub_->PrepareAsyncDownload(&context, request, operations.queue());
    reader->StartCall(operations.tag());
    v1::DownloadChunk chunk;
    bool first = true;
    for (bool open = operations.Await(); open;) {
      reader->Read(&chunk, operations.tag());
      open = operations.Await();
      if (!open) break;
      // If it was overwritten before all was here, it comes anew.
      if (std::exchange(first, false)) {
        if (chunk.version() != request.version()) {
          anew = received > 0;
          received = 0;
        }
        request.set_version(chunk.version());
      }
      absl::Span<const char> data = chunk.data();
      if (segment && chunk.segment_bytes() > 0) {
        if (chunk.segment_offset() > segment->size() ||
            chunk.segment_bytes() > segment->size() - chunk.segment_offset()) {
          wrong = Internal("{} put bytes behind the end of a segment", address_);
          break;
        }
        data = {segment->data() + chunk.segment_offset(), chunk.segment_bytes()};
      }
      if (chunk.offset() != received || data.size() > bytes - received) {
        wrong = Internal("{} sent bytes {}+{} of a tensor where {} of {} were expected", address_,
                         chunk.offset(), data.size(), received, bytes);
      } else {
        wrong = sink(received, data);
      }
      if (wrong.ok()) received += data.size();
      open = wrong.ok();
    }
    if (!wrong.ok()) context.TryCancel();
    grpc::Status done;
    reader->Finish(&done, operations.tag());
    return operations.Finished(done);
  };
  const absl::Status done = Call(deadline, [&](grpc::ClientContext& context) {
    for (std::unique_ptr<grpc::ClientContext> later;; later = ContextUntil(deadline)) {
      const uint64_t before = received;
      bool anew = false;
      const grpc::Status status = receive(later ? *later : context, anew);
      if (!wrong.ok()) return grpc::Status::OK;
      // A segment may have been too small for all of it.
      const bool came = anew || received > before;
      if (!status.ok() || !segment || received == bytes || !came) return status;
      // One that is overwritten again and again is kept from that by one call only.
      if (anew) segment = {};
    }
  });
  TD_RETURN_IF_ERROR(wrong);
  TD_RETURN_IF_ERROR(done);
  if (received != bytes) {
    return Internal("{} sent {} bytes of a tensor of {}", address_, received, bytes);
  }
  return absl::OkStatus();
}

absl::Status Connection::Wait(uint64_t handle, absl::Time deadline,
                              std::vector<std::string>* kernels) {
  TD_RETURN_IF_ERROR(status());
  if (handle == 0) link_->FlushReleases();
  v1::WaitRequest request;
  request.set_session_token(welcome().session_token());
  request.set_sequence(link_->last_sequence());
  request.set_handle(handle);
  v1::WaitReply reply;
  TD_RETURN_IF_ERROR(Call(deadline, [&](grpc::ClientContext& context) {
    return CallOnce(*stub_, &v1::SessionService::Stub::PrepareAsyncWait, context, request, reply);
  }));
  if (kernels) kernels->assign(reply.kernels().begin(), reply.kernels().end());
  return Decode(reply.status());
}

template <typename Reply, typename Prepare, typename Request>
absl::StatusOr<Reply> Connection::Ask(Prepare prepare, Request request, absl::Time deadline) {
  TD_RETURN_IF_ERROR(status());
  request.set_session_token(welcome().session_token());
  Reply reply;
  const absl::Status done = Call(deadline, [&](grpc::ClientContext& context) {
    return CallOnce(*stub_, prepare, context, request, reply);
  });
  TD_RETURN_IF_ERROR(done);
  return reply;
}

absl::StatusOr<v1::CountersReply> Connection::Counters(absl::Time deadline) {
  TD_RETURN_IF_ERROR(CheckFork());
  if (const std::optional<v1::CountersReply> bill = link_->bill()) return *bill;
  return Ask<v1::CountersReply>(&v1::SessionService::Stub::PrepareAsyncCounters,
                                v1::CountersRequest(), deadline);
}

absl::StatusOr<v1::PublishReply> Connection::Publish(v1::PublishRequest request,
                                                     absl::Time deadline) {
  TD_RETURN_IF_ERROR(status());
  request.set_after_sequence(link_->last_sequence());
  return Ask<v1::PublishReply>(&v1::SessionService::Stub::PrepareAsyncPublish, std::move(request),
                               deadline);
}

absl::StatusOr<v1::Publication> Connection::FindPublished(const std::string& name,
                                                          const std::string& owner,
                                                          absl::Time deadline) {
  v1::FindPublishedRequest request;
  request.set_name(name);
  request.set_owner(owner);
  return Ask<v1::Publication>(&v1::SessionService::Stub::PrepareAsyncFindPublished,
                              std::move(request), deadline);
}

absl::StatusOr<v1::ListPublishedReply> Connection::ListPublished(absl::Time deadline) {
  return Ask<v1::ListPublishedReply>(&v1::SessionService::Stub::PrepareAsyncListPublished,
                                     v1::ListPublishedRequest(), deadline);
}

absl::Status Connection::Unpublish(const std::string& name, absl::Time deadline) {
  v1::UnpublishRequest request;
  request.set_name(name);
  return Ask<v1::UnpublishReply>(&v1::SessionService::Stub::PrepareAsyncUnpublish,
                                 std::move(request), deadline)
      .status();
}

absl::StatusOr<v1::ExplainReply> Connection::Explain(absl::Time deadline) {
  return Ask<v1::ExplainReply>(&v1::SessionService::Stub::PrepareAsyncExplain, v1::ExplainRequest(),
                               deadline);
}

absl::Status Connection::GetTrace(v1::GetTraceRequest request, v1::GetTraceReply& reply,
                                  absl::Time deadline) {
  TD_RETURN_IF_ERROR(status());
  request.set_session_token(welcome().session_token());
  const auto stub = v1::TraceService::NewStub(channel_);
  return Call(deadline, [&](grpc::ClientContext& context) {
    return CallOnce(*stub, &v1::TraceService::Stub::PrepareAsyncGetTrace, context, request, reply);
  });
}

}  // namespace tensord::client
