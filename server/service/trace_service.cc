#include "server/service/trace_service.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "core/base/steady_clock.h"

namespace tensord {
namespace {

// More comes by another call. Clients that set no limit of their own take 4 MiB.
constexpr size_t kReplyBytes = 2 << 20;
// Taken from a ring at once, while nobody else can note anything.
constexpr size_t kAtOnce = 128;
// For which kernels are timed by one call.
constexpr uint32_t kMaxKernelsMs = 60'000;
// That are traced by themselves, at once: each may keep some ten MB.
constexpr size_t kMaxTraced = 16;

v1::TraceRecord::Kind KindOf(TraceRecord::Kind kind) {
  switch (kind) {
    case TraceRecord::Kind::kRun:
      return v1::TraceRecord::KIND_RUN;
    case TraceRecord::Kind::kUpload:
      return v1::TraceRecord::KIND_UPLOAD;
    case TraceRecord::Kind::kDownload:
      return v1::TraceRecord::KIND_DOWNLOAD;
    case TraceRecord::Kind::kCompile:
      return v1::TraceRecord::KIND_COMPILE;
  }
  return v1::TraceRecord::KIND_UNSPECIFIED;
}

v1::TraceRecord Encode(const TraceRecord& record) {
  v1::TraceRecord out;
  out.set_number(record.number);
  out.set_kind(KindOf(record.kind));
  out.set_session_id(record.session->id);
  out.set_user(record.session->user);
  out.set_client_name(record.session->client_name);
  out.set_same_clock(record.session->same_clock);
  out.set_sequence(record.sequence);
  out.set_bytes(record.bytes);
  out.set_code(static_cast<uint32_t>(record.code));
  out.set_sent_ns(record.sent_ns);
  out.set_received_ns(record.received_ns);
  out.set_ready_ns(record.ready_ns);
  out.set_turn_ns(record.turn_ns);
  out.set_done_ns(record.done_ns);
  out.set_told_ns(record.told_ns);
  if (record.program) {
    out.set_program(record.program->name);
    out.set_program_hash(record.program->hash);
    const TracedCompile& compile = record.program->compile;
    const bool is_compile = record.kind == TraceRecord::Kind::kCompile;
    if (is_compile || compile.end_ns > record.received_ns) {
      v1::TraceRecord::Compile& to = *out.mutable_compile();
      to.set_begin_ns(compile.begin_ns);
      to.set_end_ns(compile.end_ns);
      to.set_plan_cached(compile.plan_cached);
      to.set_kernels_compiled(compile.kernels_compiled);
      to.set_kernel_memory_hits(compile.kernel_memory_hits);
      to.set_kernel_disk_hits(compile.kernel_disk_hits);
    }
  }
  for (const TraceRecord::OnDevice& on : record.devices) {
    v1::TraceRecord::OnDevice& to = *out.add_devices();
    to.set_device(on.device->name());
    to.set_begin_ns(on.begin_ns);
    to.set_end_ns(on.end_ns);
    for (size_t i = 0; i < on.steps.size(); ++i) {
      v1::TraceRecord::Step& step = *to.add_steps();
      step.set_name((*on.names)[i]);
      step.set_begin_ns(on.steps[i].begin_ns);
      step.set_end_ns(on.steps[i].end_ns);
    }
  }
  return out;
}

void Fill(const TraceRing& ring, uint64_t after, v1::GetTraceReply& reply,
          absl::FunctionRef<bool(const TraceRecord&)> wanted) {
  reply.set_last(after);
  reply.set_more(true);
  size_t bytes = 0;
  while (reply.more() && bytes < kReplyBytes) {
    TraceRing::Found found = ring.Read(reply.last(), kAtOnce, wanted);
    reply.set_last(found.last);
    reply.set_more(found.more);
    reply.set_lost(reply.lost() + found.lost);
    for (const TraceRecord& record : found.records) {
      v1::TraceRecord encoded = Encode(record);
      const size_t size = encoded.ByteSizeLong();
      if (bytes > 0 && bytes + size > kReplyBytes) {
        reply.set_last(record.number - 1);
        reply.set_more(true);
        return;
      }
      bytes += size;
      *reply.add_records() = std::move(encoded);
    }
  }
}

}  // namespace

grpc::ServerUnaryReactor* TraceServiceImpl::GetTrace(grpc::CallbackServerContext* context,
                                                     const v1::GetTraceRequest* request,
                                                     v1::GetTraceReply* reply) {
  return AnswerNow(calls_, context, "GetTrace", [&]() -> absl::Status {
    TD_ASSIGN_OR_RETURN(const Caller caller, authenticator_.Identify(*context));
    TD_RETURN_IF_ERROR(request->session_token().empty() ? OfAll(caller, *request, *reply)
                                                        : OfOwnSession(caller, *request, *reply));
    reply->set_now_ns(SteadyNs());
    return absl::OkStatus();
  });
}

absl::Status TraceServiceImpl::OfOwnSession(const Caller& caller,
                                            const v1::GetTraceRequest& request,
                                            v1::GetTraceReply& reply) {
  if (!request.session_id().empty() || request.kernels_ms() != 0) {
    return InvalidArgument(
        "a trace by a session's token takes neither session_id nor kernels_ms: kernels are timed "
        "as long as it is on");
  }
  TD_ASSIGN_OR_RETURN(const auto session, registry_.Find(request.session_token(), caller.user));
  if (request.has_recording() && request.recording()) {
    TD_RETURN_IF_ERROR(StartTrace(*session));
  }
  const std::shared_ptr<TraceRing> ring = session->own_trace();
  if (ring == nullptr) {
    return FailedPrecondition("{} is not traced: begin with recording", session->identity().id);
  }
  Fill(*ring, request.after(), reply, [](const TraceRecord&) { return true; });
  if (request.has_recording() && !request.recording()) session->StopTrace();
  return absl::OkStatus();
}

absl::Status TraceServiceImpl::StartTrace(Session& session) {
  absl::MutexLock lock(&starting_);
  size_t others = 0;
  for (const auto& each : registry_.List()) {
    others += each.get() != &session && each->own_trace() != nullptr;
  }
  if (others >= kMaxTraced) {
    return ResourceExhausted("{} sessions are traced by themselves, the limit: try again later",
                             others);
  }
  session.StartTrace();
  return absl::OkStatus();
}

absl::Status TraceServiceImpl::OfAll(const Caller& caller, const v1::GetTraceRequest& request,
                                     v1::GetTraceReply& reply) {
  if (request.has_recording()) {
    return InvalidArgument("a session is traced by itself for its own client only: by its token");
  }
  if (request.kernels_ms() > kMaxKernelsMs) {
    return InvalidArgument("kernels_ms {}: at most {} by one call", request.kernels_ms(),
                           kMaxKernelsMs);
  }
  const TraceRing* ring = registry_.engine().trace;
  if (ring == nullptr) {
    return FailedPrecondition("the daemon keeps no traces: start it with --trace-runs above 0");
  }
  TD_ASSIGN_OR_RETURN(const auto sessions, SessionsOf(caller, request.session_id()));
  if (request.kernels_ms() > 0) {
    const int64_t until = SteadyNs() + int64_t{request.kernels_ms()} * 1'000'000;
    for (const auto& session : sessions) session->TimeStepsUntil(until);
  }
  Fill(*ring, request.after(), reply, [&](const TraceRecord& record) {
    return caller.MayKnow(record.session->user) &&
           (request.session_id().empty() || request.session_id() == record.session->id);
  });
  const bool nothing = reply.records_size() == 0 && !reply.more() && request.after() == 0;
  if (!request.session_id().empty() && sessions.empty() && nothing) {
    return NotFound("there is no session '{}', and no record of it: tensorctl sessions lists them",
                    request.session_id());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::shared_ptr<Session>>> TraceServiceImpl::SessionsOf(
    const Caller& caller, const std::string& id) {
  std::vector<std::shared_ptr<Session>> sessions = registry_.List();
  if (!id.empty()) {
    std::erase_if(sessions, [&](const auto& session) { return session->identity().id != id; });
    // One that has ended may have left records.
    if (!sessions.empty() && !caller.MayKnow(sessions[0]->identity().user)) {
      return MakeStatus(absl::StatusCode::kPermissionDenied,
                        "{} is another user's: its trace is for administrators, see --admin-users",
                        id);
    }
  }
  std::erase_if(sessions,
                [&](const auto& session) { return !caller.MayKnow(session->identity().user); });
  return sessions;
}

}  // namespace tensord
