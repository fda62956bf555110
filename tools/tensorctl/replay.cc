#include "tools/tensorctl/replay.h"

#include <absl/base/thread_annotations.h>
#include <absl/strings/str_join.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/clock.h>

#include <algorithm>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "client/cc/security.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "core/wire/handle.h"
#include "proto/tensord/v1/session.grpc.pb.h"
#include "tools/tensorctl/recorded_calls.h"
#include "tools/tensorctl/table.h"

namespace tensord {
namespace {

// How long the daemon may take for each answer, unless --timeout is longer: it may have to compile.
constexpr absl::Duration kPatience = absl::Minutes(1);

std::string CodeName(uint32_t code) {
  return absl::StatusCodeToString(static_cast<absl::StatusCode>(code));
}

// What the daemon has said on one session's stream.
struct Heard {
  std::optional<v1::Welcome> welcome;
  std::map<uint64_t, v1::Status> completions, errors;  // by command
  bool over = false;
  grpc::Status status;  // once it is over
};

// One recorded session, played: its stream, with a thread that listens, and the names of what the
// daemon makes. The thread apart, not thread-safe.
class PlayedSession {
 public:
  explicit PlayedSession(std::unique_ptr<v1::SessionService::Stub> stub) : stub_(std::move(stub)) {}
  ~PlayedSession() {
    context_.TryCancel();
    Close();
  }

  v1::SessionService::Stub& stub() { return *stub_; }

  void Open(const v1::ClientFrame& frame) {
    stream_ = stub_->Session(&context_);
    Write(frame);
    listener_ = std::thread([this] { Listen(); });
  }
  bool is_open() const { return stream_ != nullptr; }
  void Write(const v1::ClientFrame& frame) { stream_->Write(frame); }  // its end says why not
  void Close() {
    if (!listener_.joinable()) return;
    stream_->WritesDone();
    listener_.join();
  }

  // Waits for what `ready` looks for, or the stream's end; false if neither comes in time.
  template <typename Ready>
  bool Await(absl::Duration timeout, const Ready& ready) {
    absl::MutexLock lock(&mu_);
    const auto done = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return heard_.over || ready(heard_);
    };
    return mu_.AwaitWithTimeout(absl::Condition(&done), timeout);
  }
  Heard heard() {
    absl::MutexLock lock(&mu_);
    return heard_;
  }

  uint64_t sent = 0;                           // number of the last command
  std::map<std::string, std::string> devices;  // of the recording, to those of the daemon
  std::map<uint64_t, DType> transfers;
  std::set<uint64_t> uploaded;  // transfers that were played

 private:
  void Listen() {
    v1::ServerFrame frame;
    while (stream_->Read(&frame)) {
      absl::MutexLock lock(&mu_);
      if (frame.has_welcome()) heard_.welcome = frame.welcome();
      for (const auto& each : frame.completions()) {
        heard_.completions[each.sequence()] = each.status();
      }
      for (const auto& each : frame.errors()) heard_.errors[each.sequence()] = each.status();
    }
    const grpc::Status status = stream_->Finish();
    absl::MutexLock lock(&mu_);
    heard_.status = status;
    heard_.over = true;
  }

  const std::unique_ptr<v1::SessionService::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::ClientFrame, v1::ServerFrame>> stream_;
  std::thread listener_;
  absl::Mutex mu_;
  Heard heard_ ABSL_GUARDED_BY(mu_);
};

// A call beside the stream that is being played.
struct PlayedCall {
  ~PlayedCall() { context->TryCancel(); }  // its future waits for its end

  std::unique_ptr<grpc::ClientContext> context = std::make_unique<grpc::ClientContext>();
  // How it differs from the recorded one; empty if it doesn't.
  std::future<std::string> difference;
};

class Player {
 public:
  Player(const ControlOptions& options, std::shared_ptr<grpc::Channel> channel, Recording recording)
      : speed_(options.speed),
        patience_(std::max(options.timeout, kPatience)),
        channel_(std::move(channel)),
        recording_(std::move(recording)),
        calls_(CallsOf(recording_)) {}

  // Plays in the order of the recording: what the client sent after it had received something is
  // sent after that has been received again.
  absl::Status Play() {
    const absl::Time begin = absl::Now();
    for (const v1::RecordedEvent& event : recording_.events) {
      if (speed_ > 0 && event.has_sent()) {
        absl::SleepFor(begin + absl::Microseconds(event.time_us()) / speed_ - absl::Now());
      }
      TD_RETURN_IF_ERROR(calls_[event.call()].method == "Session" ? PlayStream(event)
                                                                  : PlayCall(event));
    }
    // Calls whose end was not recorded: nobody knows what it was.
    played_.clear();
    for (auto& [number, session] : sessions_) FinishSession(number, session);
    took_ = absl::Now() - begin;
    return absl::OkStatus();
  }

  const std::vector<std::string>& differences() const { return differences_; }

  std::string Summary() const {
    const absl::Duration recorded =
        absl::Microseconds(recording_.events.empty() ? 0 : recording_.events.back().time_us());
    std::vector<std::pair<std::string, std::string>> pairs = {
        {"recorded",
         fmt::format("by tensord {}, protocol {} to {}, in {}",
                     recording_.header.software_version(), recording_.header.min_protocol_version(),
                     recording_.header.max_protocol_version(),
                     absl::FormatDuration(absl::Trunc(recorded, absl::Milliseconds(1))))},
        {"played", fmt::format("{} sessions, {} commands, {} uploads, {} downloads, in {}",
                               sessions_.size(), commands_, uploads_, downloads_,
                               absl::FormatDuration(absl::Trunc(took_, absl::Milliseconds(1))))},
        {"results", recording_.header.contents()
                        ? "compared byte by byte"
                        : "not compared: their bytes are not in the recording "
                          "(TENSORD_RECORD_CONTENTS=true)"}};
    if (recording_.cut_off) pairs.emplace_back("cut off", "the file ends amid an event");
    for (const auto& [from, to] : moved_)
      pairs.emplace_back("device", from + " is played by " + to);
    for (const std::string& method : not_played_) pairs.emplace_back("not played", method);
    return FormatPairs(pairs);
  }

 private:
  void Differs(uint32_t session, std::string_view what) {
    differences_.push_back(OneLine(fmt::format("session {}: {}", session, what)));
  }

  // ---- the stream

  PlayedSession& SessionOf(uint32_t number) {
    std::unique_ptr<PlayedSession>& session = sessions_[number];
    if (session == nullptr) {
      session = std::make_unique<PlayedSession>(v1::SessionService::NewStub(channel_));
    }
    return *session;
  }

  absl::Status PlayStream(const v1::RecordedEvent& event) {
    PlayedSession& session = SessionOf(event.session());
    if (event.has_sent()) {
      TD_ASSIGN_OR_RETURN(v1::ClientFrame frame, Parse<v1::ClientFrame>(event.sent()));
      return SendFrame(session, std::move(frame));
    }
    if (event.has_received()) {
      TD_ASSIGN_OR_RETURN(const v1::ServerFrame frame, Parse<v1::ServerFrame>(event.received()));
      HearFrame(event.session(), session, frame);
    }
    if (event.has_ended()) HearEnd(event.session(), session, event.ended());
    return absl::OkStatus();
  }

  absl::Status SendFrame(PlayedSession& session, v1::ClientFrame frame) {
    if (frame.has_hello()) {
      if (session.is_open()) return absl::OkStatus();  // it was resumed; here it goes on
      // Nothing breaks here that would have to be survived.
      frame.mutable_hello()->clear_lease_ms();
      session.Open(frame);
      return absl::OkStatus();
    }
    frame.clear_acknowledged();
    // Some may have been sent again.
    auto* commands = frame.mutable_commands();
    commands->erase(
        std::remove_if(commands->begin(), commands->end(),
                       [&](const auto& each) { return each.sequence() <= session.sent; }),
        commands->end());
    for (v1::Command& command : *commands) {
      session.sent = command.sequence();
      Adapt(session, command);
      ++commands_;
    }
    if (!commands->empty() && session.is_open()) session.Write(frame);
    return absl::OkStatus();
  }

  void Adapt(PlayedSession& session, v1::Command& command) {
    const auto move = [&](std::string* device) {
      const auto found = session.devices.find(*device);
      if (found != session.devices.end()) *device = found->second;
    };
    if (command.has_upload()) {
      v1::UploadCommand& upload = *command.mutable_upload();
      move(upload.mutable_device());
      const DType dtype =
          upload.dtype() < kNumDTypes ? static_cast<DType>(upload.dtype()) : DType::kVoid;
      if (upload.transfer_id() != 0) {
        session.transfers[upload.transfer_id()] = dtype;
      } else if (upload.inline_data().empty() && !recording_.header.contents()) {
        auto bytes = static_cast<uint64_t>(ItemSize(dtype));
        for (const uint64_t size : upload.shape()) bytes *= size;
        // What was refused need not have had these bytes.
        constexpr uint64_t kMostInline = 64 << 20;
        upload.set_inline_data(MadeUp(dtype, std::min(bytes, kMostInline), command.sequence()));
      }
    }
    if (command.has_copy()) move(command.mutable_copy()->mutable_device());
    if (command.has_register_program()) {
      move(command.mutable_register_program()->mutable_device());
      for (std::string& each : *command.mutable_register_program()->mutable_devices()) move(&each);
    }
  }

  void HearFrame(uint32_t number, PlayedSession& session, const v1::ServerFrame& frame) {
    if (frame.has_welcome() && !frame.welcome().resumed()) HearWelcome(number, session, frame);
    for (const v1::Completion& each : frame.completions()) {
      Compare(number, session, fmt::format("command {}", each.sequence()), each.status(),
              [&](const Heard& heard) { return Find(heard.completions, each.sequence()); });
    }
    for (const v1::CommandError& each : frame.errors()) {
      Compare(number, session, fmt::format("command {}, refused", each.sequence()), each.status(),
              [&](const Heard& heard) { return Find(heard.errors, each.sequence()); });
      refused_[number].insert(each.sequence());
    }
  }

  static const v1::Status* Find(const std::map<uint64_t, v1::Status>& by_command,
                                uint64_t command) {
    const auto found = by_command.find(command);
    return found == by_command.end() ? nullptr : &found->second;
  }

  template <typename Look>
  void Compare(uint32_t number, PlayedSession& session, const std::string& what,
               const v1::Status& recorded, const Look& look) {
    session.Await(patience_, [&](const Heard& heard) { return look(heard) != nullptr; });
    const Heard heard = session.heard();
    const v1::Status* played = look(heard);
    if (played == nullptr) {
      Differs(number, fmt::format("{}: was told {}, now nothing within {}", what,
                                  CodeName(recorded.code()), absl::FormatDuration(patience_)));
    } else if (played->code() != recorded.code()) {
      Differs(number, fmt::format("{}: was {} ({}), is {} ({})", what, CodeName(recorded.code()),
                                  recorded.message(), CodeName(played->code()), played->message()));
    }
  }

  void HearWelcome(uint32_t number, PlayedSession& session, const v1::ServerFrame& frame) {
    session.Await(patience_, [](const Heard& heard) { return heard.welcome.has_value(); });
    const Heard heard = session.heard();
    if (!heard.welcome) {
      Differs(number, fmt::format("was opened, now is not: {}",
                                  heard.over ? heard.status.error_message() : "no answer in time"));
      return;
    }
    const auto& here = heard.welcome->devices();
    for (int i = 0; i < frame.welcome().devices_size() && !here.empty(); ++i) {
      const std::string& name = frame.welcome().devices(i).name();
      const auto same = [&](const v1::DeviceInfo& each) { return each.name() == name; };
      if (std::any_of(here.begin(), here.end(), same)) continue;
      moved_[name] = session.devices[name] = here[i % here.size()].name();
    }
  }

  // The client's doing, or the network's.
  static bool IsBreak(uint32_t code) {
    return code == grpc::StatusCode::CANCELLED || code == grpc::StatusCode::UNAVAILABLE ||
           code == grpc::StatusCode::ABORTED;
  }

  // An end that the daemon chose is compared; one that the client or the network did is not.
  void HearEnd(uint32_t number, PlayedSession& session, const v1::Status& recorded) {
    if (recorded.code() == 0 || IsBreak(recorded.code())) return;
    session.Await(patience_, [](const Heard&) { return false; });
    const Heard heard = session.heard();
    ended_.insert(number);
    if (static_cast<uint32_t>(heard.status.error_code()) != recorded.code()) {
      Differs(number, fmt::format("ended with {} ({}), now with {} ({})", CodeName(recorded.code()),
                                  recorded.message(), CodeName(heard.status.error_code()),
                                  heard.status.error_message()));
    }
  }

  void FinishSession(uint32_t number, const std::unique_ptr<PlayedSession>& session) {
    if (!session->is_open()) return;
    session->Close();
    const Heard heard = session->heard();
    for (const auto& [command, status] : heard.errors) {
      if (refused_[number].contains(command)) continue;
      Differs(number, fmt::format("command {}: is refused with {} ({}), was not", command,
                                  CodeName(status.code()), status.message()));
    }
    const bool wanted = heard.status.ok() || ended_.contains(number) ||
                        heard.status.error_code() == grpc::StatusCode::CANCELLED;
    if (!wanted) {
      Differs(number, fmt::format("ended with {} ({})", CodeName(heard.status.error_code()),
                                  heard.status.error_message()));
    }
  }

  // ---- calls beside the stream

  absl::Status PlayCall(const v1::RecordedEvent& event) {
    const RecordedCall& call = calls_[event.call()];
    if (event.has_sent() && begun_.insert(event.call()).second) {
      return BeginCall(event.call(), call);
    }
    const auto played = played_.find(event.call());
    if (!event.has_ended() || played == played_.end()) return absl::OkStatus();
    if (played->second.difference.wait_for(absl::ToChronoSeconds(patience_)) !=
        std::future_status::ready) {
      played->second.context->TryCancel();
      Differs(call.session,
              fmt::format("{}: no end within {}", call.method, absl::FormatDuration(patience_)));
    }
    const std::string difference = played->second.difference.get();
    if (!difference.empty()) Differs(call.session, call.method + " " + difference);
    played_.erase(played);
    return absl::OkStatus();
  }

  absl::Status BeginCall(uint64_t number, const RecordedCall& call) {
    PlayedSession& session = SessionOf(call.session);
    const std::optional<v1::Welcome> welcome = session.heard().welcome;
    const std::string token = welcome ? welcome->session_token() : "";
    if (call.method == "Upload") return BeginUpload(number, call, session, token);
    // It was made again, when the connection was back.
    if (call.ended && IsBreak(call.ended->code())) return absl::OkStatus();
    if (call.method == "Download") return BeginDownload(number, call, session, token);
    if (call.method == "Wait") {
      TD_ASSIGN_OR_RETURN(auto request, Parse<v1::WaitRequest>(call.sent.front()));
      request.set_session_token(token);
      Begin(number, [&session, &call, request](grpc::ClientContext& context) -> std::string {
        v1::WaitReply reply, recorded;
        const grpc::Status status = session.stub().Wait(&context, request, &reply);
        if (!call.received.empty()) recorded.ParseFromString(call.received.front());
        const std::string what = fmt::format("for {}", NameOf(request.handle()));
        std::string difference = Codes(what, call, status);
        if (difference.empty() && recorded.status().code() != reply.status().code()) {
          difference = fmt::format("{}: was {} ({}), is {} ({})", what,
                                   CodeName(recorded.status().code()), recorded.status().message(),
                                   CodeName(reply.status().code()), reply.status().message());
        }
        return difference;
      });
    } else if (call.method == "Counters") {
      v1::CountersRequest request;
      request.set_session_token(token);
      Begin(number, [&session, &call, request](grpc::ClientContext& context) {
        v1::CountersReply reply;
        return Codes("", call, session.stub().Counters(&context, request, &reply));
      });
    } else if (call.method == "EndSession") {
      v1::EndSessionRequest request;
      request.set_session_token(token);
      Begin(number, [&session, &call, request](grpc::ClientContext& context) {
        v1::EndSessionReply reply;
        return Codes("", call, session.stub().EndSession(&context, request, &reply));
      });
    } else {
      not_played_.insert(call.method);
    }
    return absl::OkStatus();
  }

  template <typename Play>
  void Begin(uint64_t number, Play play) {
    PlayedCall& played = played_[number];
    played.difference =
        std::async(std::launch::async,
                   [context = played.context.get(), play = std::move(play)]() -> std::string {
                     return play(*context);
                   });
  }

  absl::Status BeginUpload(uint64_t number, const RecordedCall& call, PlayedSession& session,
                           const std::string& token) {
    TD_ASSIGN_OR_RETURN(const auto first, Parse<v1::UploadChunk>(call.sent.front()));
    const uint64_t transfer = first.transfer_id();
    // The first call of a transfer brings all of it here, also what later ones brought.
    if (!session.uploaded.insert(transfer).second) return absl::OkStatus();
    std::map<uint64_t, v1::UploadChunk> chunks;  // by offset
    for (const auto& [other_number, other] : calls_) {
      if (other.method != "Upload" || other.session != call.session) continue;
      TD_RETURN_IF_ERROR(AddChunks(session, other, transfer, chunks));
    }
    chunks.begin()->second.set_session_token(token);
    ++uploads_;
    Begin(number,
          [&session, &call, chunks = std::move(chunks), transfer](grpc::ClientContext& context) {
            v1::UploadReply reply;
            const auto writer = session.stub().Upload(&context, &reply);
            for (const auto& [offset, chunk] : chunks) {
              if (!writer->Write(chunk)) break;  // Finish says why
            }
            writer->WritesDone();
            return Codes(fmt::format("{}", transfer), call, writer->Finish());
          });
    return absl::OkStatus();
  }

  static absl::Status AddChunks(const PlayedSession& session, const RecordedCall& call,
                                uint64_t transfer, std::map<uint64_t, v1::UploadChunk>& chunks) {
    const auto dtype = session.transfers.find(transfer);
    size_t next_left_out = 0;
    for (size_t i = 0; i < call.sent.size(); ++i) {
      TD_ASSIGN_OR_RETURN(v1::UploadChunk chunk, Parse<v1::UploadChunk>(call.sent[i]));
      if (i == 0 && chunk.transfer_id() != transfer) return absl::OkStatus();
      if (chunk.data().empty() && next_left_out < call.left_out.size()) {
        chunk.set_data(MadeUp(dtype == session.transfers.end() ? DType::kUint8 : dtype->second,
                              call.left_out[next_left_out++], transfer + chunk.offset()));
      }
      chunks.try_emplace(chunk.offset(), std::move(chunk));
    }
    return absl::OkStatus();
  }

  absl::Status BeginDownload(uint64_t number, const RecordedCall& call, PlayedSession& session,
                             const std::string& token) {
    TD_ASSIGN_OR_RETURN(auto request, Parse<v1::DownloadRequest>(call.sent.front()));
    if (request.offset() > 0) return absl::OkStatus();  // the call before this brings all of it
    request.set_session_token(token);
    ++downloads_;
    const bool contents = recording_.header.contents();
    Begin(number,
          [&session, &call, request, contents](grpc::ClientContext& context) -> std::string {
            const std::string what = fmt::format("of {}", NameOf(request.handle()));
            v1::DownloadChunk recorded, played;
            for (const std::string& received : call.received) {
              v1::DownloadChunk chunk;
              chunk.ParseFromString(received);
              Join(recorded, chunk);
            }
            const auto reader = session.stub().Download(&context, request);
            v1::DownloadChunk chunk;
            while (reader->Read(&chunk)) Join(played, chunk);
            std::string difference = Codes(what, call, reader->Finish());
            if (!difference.empty()) return difference;
            const auto type = [](const v1::DownloadChunk& tensor) {
              const auto dtype = tensor.dtype() < kNumDTypes ? tensor.dtype() : 0;
              return fmt::format("{}[{}]", Name(static_cast<DType>(dtype)),
                                 fmt::join(tensor.shape(), ", "));
            };
            if (type(recorded) != type(played) || recorded.total_bytes() != played.total_bytes()) {
              return fmt::format("{}: was {} of {} bytes, is {} of {}", what, type(recorded),
                                 recorded.total_bytes(), type(played), played.total_bytes());
            }
            if (!contents || recorded.data() == played.data()) return "";
            const size_t end = std::min(recorded.data().size(), played.data().size());
            const auto at = std::mismatch(recorded.data().begin(), recorded.data().begin() + end,
                                          played.data().begin());
            return fmt::format("{}, {}: other bytes than recorded, the first at {}", what,
                               type(played), at.first - recorded.data().begin());
          });
    return absl::OkStatus();
  }

  static void Join(v1::DownloadChunk& whole, const v1::DownloadChunk& chunk) {
    if (whole.dtype() == 0) {
      whole = chunk;
    } else {
      whole.mutable_data()->append(chunk.data());
    }
  }

  static std::string NameOf(uint64_t handle) {
    return handle == 0 ? "all commands" : ToString(Handle::Unpack(handle));
  }

  static std::string Codes(const std::string& what, const RecordedCall& call,
                           const grpc::Status& played) {
    if (!call.ended || call.ended->code() == static_cast<uint32_t>(played.error_code())) return "";
    if (IsBreak(call.ended->code())) return "";
    return fmt::format("{}: ended with {} ({}), now with {} ({})", what,
                       CodeName(call.ended->code()), call.ended->message(),
                       CodeName(static_cast<uint32_t>(played.error_code())),
                       played.error_message());
  }

  const double speed_;  // 0: as fast as the daemon answers
  const absl::Duration patience_;
  const std::shared_ptr<grpc::Channel> channel_;
  const Recording recording_;
  std::map<uint64_t, RecordedCall> calls_;
  std::map<uint32_t, std::unique_ptr<PlayedSession>> sessions_;
  std::map<uint64_t, PlayedCall> played_;  // those under way; they go before the sessions
  std::set<uint64_t> begun_;
  std::map<uint32_t, std::set<uint64_t>> refused_;  // commands, by the recording
  std::set<uint32_t> ended_;                        // sessions, by the daemon
  std::map<std::string, std::string> moved_;
  std::set<std::string> not_played_;
  std::vector<std::string> differences_;
  uint64_t commands_ = 0, uploads_ = 0, downloads_ = 0;
  absl::Duration took_;
};

}  // namespace

absl::StatusOr<std::string> Replay(const Daemon& daemon, absl::Span<const std::string> operands) {
  const ControlOptions& options = daemon.options();
  TD_ASSIGN_OR_RETURN(Recording recording, ReadRecording(operands[0]));
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  TD_ASSIGN_OR_RETURN(const auto channel,
                      Dial(options.address, Security::FromEnvironment(), arguments));
  // Says who isn't there before anything is compared.
  v1::PingReply reply;
  TD_RETURN_IF_ERROR(daemon.Ask(&v1::AdminService::Stub::Ping, &reply));
  Player player(options, channel, std::move(recording));
  TD_RETURN_IF_ERROR(player.Play());
  if (player.differences().empty()) return player.Summary() + "no differences\n";
  return FailedPrecondition("{}\n{}{} differences", absl::StrJoin(player.differences(), "\n"),
                            player.Summary(), player.differences().size());
}

}  // namespace tensord
