#include "server/service/admin_service.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/log.h"
#include "core/base/status.h"
#include "core/base/steady_clock.h"
#include "core/base/text.h"
#include "core/base/version.h"
#include "server/service/describe.h"

namespace tensord {
namespace {

constexpr uint32_t kTensorsListed = 100;
constexpr uint32_t kMaxTensorsListed = 10'000;

const char* StateName(ObjectState state) {
  switch (state) {
    case ObjectState::kPending:
      return "pending";
    case ObjectState::kValue:
      return "value";
    case ObjectState::kSpilled:
      return "spilled";
    case ObjectState::kError:
      return "error";
  }
  return "";
}

bool MayKnow(const Caller& caller, const SessionIdentity& session) {
  return caller.MayKnow(session.user);
}

absl::Status NotAllowed(std::string_view what, const Caller& caller) {
  return MakeStatus(absl::StatusCode::kPermissionDenied,
                    "{} is for administrators, and {} is none: see --admin-users", what,
                    caller.user.empty() ? "a caller without a name" : "'" + caller.user + "'");
}

}  // namespace

grpc::ServerUnaryReactor* AdminServiceImpl::Ping(grpc::CallbackServerContext* context,
                                                 const v1::PingRequest* /*request*/,
                                                 v1::PingReply* reply) {
  return AnswerNow(calls_, context, "Ping", [&] {
    reply->set_server_version(std::string(kVersion));
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* AdminServiceImpl::GetStatus(grpc::CallbackServerContext* context,
                                                      const v1::GetStatusRequest* /*request*/,
                                                      v1::GetStatusReply* reply) {
  return AnswerNow(calls_, context, "GetStatus", [&]() -> absl::Status {
    TD_RETURN_IF_ERROR(authenticator_.Identify(*context).status());
    Status(reply);
    return absl::OkStatus();
  });
}

void AdminServiceImpl::Status(v1::GetStatusReply* reply) {
  reply->set_server_version(std::string(kVersion));
  reply->set_pid(getpid());
  reply->set_uptime_ms(absl::ToInt64Milliseconds(absl::Now() - started_));
  reply->set_draining(registry_.going_away());
  {
    absl::MutexLock lock(&mu_);
    reply->mutable_listening()->Add(listening_.begin(), listening_.end());
  }
  reply->set_sessions(registry_.List().size());
  reply->set_sessions_parked(registry_.parked());
  reply->set_sessions_total(registry_.total());
  reply->set_programs_run(registry_.Counters().programs_run());
  uint64_t resident = 0;
  for (Device* device : registry_.engine().runtime.devices()) {
    resident += device->allocator().stats().in_use_bytes;
  }
  reply->set_resident_bytes(resident);
}

grpc::ServerUnaryReactor* AdminServiceImpl::ListDevices(grpc::CallbackServerContext* context,
                                                        const v1::ListDevicesRequest* /*request*/,
                                                        v1::ListDevicesReply* reply) {
  return AnswerNow(calls_, context, "ListDevices", [&]() -> absl::Status {
    TD_RETURN_IF_ERROR(authenticator_.Identify(*context).status());
    Devices(reply);
    return absl::OkStatus();
  });
}

void AdminServiceImpl::Devices(v1::ListDevicesReply* reply) {
  for (Device* device : registry_.engine().runtime.devices()) {
    v1::ListDevicesReply::Device* out = reply->add_devices();
    *out->mutable_info() = Describe(*device);
    const MemoryStats stats = device->allocator().stats();
    out->set_in_use_bytes(stats.in_use_bytes);
    out->set_cached_bytes(stats.cached_bytes);
    out->set_peak_in_use_bytes(stats.peak_in_use_bytes);
    out->set_busy_ns(registry_.engine().scheduler.BusyNs(device));
    out->set_submitted(device->timeline().last_reserved());
    out->set_completed(device->timeline().signal()->value.load(std::memory_order_relaxed));
  }
}

grpc::ServerUnaryReactor* AdminServiceImpl::ListSessions(grpc::CallbackServerContext* context,
                                                         const v1::ListSessionsRequest* /*request*/,
                                                         v1::ListSessionsReply* reply) {
  return AnswerNow(calls_, context, "ListSessions", [&]() -> absl::Status {
    TD_ASSIGN_OR_RETURN(const Caller caller, authenticator_.Identify(*context));
    Sessions(caller, reply);
    return absl::OkStatus();
  });
}

void AdminServiceImpl::Sessions(const Caller& caller, v1::ListSessionsReply* reply) {
  const absl::Time now = absl::Now(), steady_now = SteadyNow();
  for (const auto& session : registry_.List()) {
    v1::ListSessionsReply::Session* out = reply->add_sessions();
    const SessionIdentity& identity = session->identity();
    out->set_session_id(identity.id);
    if (MayKnow(caller, identity)) {
      out->set_client_name(identity.client_name);
      out->set_peer(identity.peer);
      out->set_user(identity.user);
    }
    out->set_age_ms(absl::ToInt64Milliseconds(now - session->opened()));
    out->set_last_command_ms_ago(absl::ToInt64Milliseconds(now - session->last_command()));
    *out->mutable_counters() = session->Counters();
    out->set_weight(static_cast<uint32_t>(identity.weight));
    const Session::Load load = session->load();
    out->set_queued(load.queued);
    out->set_in_flight(load.in_flight);
    if (const std::optional<absl::Time> until = session->parked_until()) {
      out->set_parked(true);
      out->set_lease_ms_left(absl::ToInt64Milliseconds(std::max(*until - steady_now, {})));
    }
  }
}

grpc::ServerUnaryReactor* AdminServiceImpl::KillSession(grpc::CallbackServerContext* context,
                                                        const v1::KillSessionRequest* request,
                                                        v1::KillSessionReply* reply) {
  return AnswerNow(calls_, context, "KillSession", [&]() -> absl::Status {
    TD_ASSIGN_OR_RETURN(const Caller caller, authenticator_.Identify(*context));
    return Kill(caller, *request, reply);
  });
}

absl::Status AdminServiceImpl::Kill(const Caller& caller, const v1::KillSessionRequest& request,
                                    v1::KillSessionReply* reply) {
  TD_ASSIGN_OR_RETURN(const auto session, registry_.FindById(request.session_id()));
  const SessionIdentity& identity = session->identity();
  if (!MayKnow(caller, identity)) return NotAllowed("ending a session of another user", caller);
  const std::string reason = Printable(request.reason());
  Log("service").warn("killing id={} asked_by='{}' reason='{}'", identity.id, caller.user, reason);
  reply->set_bytes_freed(
      registry_.Kill(*session, Cancelled("{} was ended by '{}'{}{}", identity.id, caller.user,
                                         reason.empty() ? "" : ": ", reason)));
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* AdminServiceImpl::ListTensors(grpc::CallbackServerContext* context,
                                                        const v1::ListTensorsRequest* request,
                                                        v1::ListTensorsReply* reply) {
  return AnswerNow(calls_, context, "ListTensors", [&]() -> absl::Status {
    TD_ASSIGN_OR_RETURN(const Caller caller, authenticator_.Identify(*context));
    return Tensors(caller, *request, reply);
  });
}

absl::Status AdminServiceImpl::Tensors(const Caller& caller, const v1::ListTensorsRequest& request,
                                       v1::ListTensorsReply* reply) {
  const uint32_t limit = request.limit() == 0 ? kTensorsListed : request.limit();
  if (limit > kMaxTensorsListed) {
    return InvalidArgument("limit {}: at most {} tensors can be listed", limit, kMaxTensorsListed);
  }
  std::vector<std::shared_ptr<Session>> sessions;
  if (request.session_id().empty()) {
    sessions = registry_.List();
    std::erase_if(sessions,
                  [&caller](const auto& session) { return !MayKnow(caller, session->identity()); });
  } else {
    TD_ASSIGN_OR_RETURN(sessions.emplace_back(), registry_.FindById(request.session_id()));
    if (!MayKnow(caller, sessions[0]->identity())) {
      return NotAllowed("seeing what another user holds", caller);
    }
  }
  std::vector<std::pair<std::string, HeldTensor>> held;
  for (const auto& session : sessions) {
    for (HeldTensor& tensor : session->HeldTensors()) {
      held.emplace_back(session->identity().id, std::move(tensor));
    }
  }
  uint64_t bytes = 0;
  for (const auto& [id, tensor] : held) bytes += tensor.bytes;
  const size_t listed = std::min<size_t>(limit, held.size());
  std::partial_sort(held.begin(), held.begin() + static_cast<ptrdiff_t>(listed), held.end(),
                    [](const auto& a, const auto& b) {
                      return std::tie(b.second.bytes, a.first, a.second.handle) <
                             std::tie(a.second.bytes, b.first, b.second.handle);
                    });
  reply->set_count(held.size());
  reply->set_bytes(bytes);
  for (size_t i = 0; i < listed; ++i) {
    const HeldTensor& tensor = held[i].second;
    v1::ListTensorsReply::Tensor& out = *reply->add_tensors();
    out.set_session_id(held[i].first);
    out.set_handle(tensor.handle);
    out.set_state(StateName(tensor.state));
    out.set_bytes(tensor.bytes);
    if (tensor.state == ObjectState::kError) out.set_error(Utf8(Message(tensor.error)));
    if (tensor.device.empty()) continue;
    out.set_dtype(std::string(Name(tensor.dtype)));
    out.mutable_shape()->Add(tensor.shape.begin(), tensor.shape.end());
    out.set_device(tensor.device);
  }
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* AdminServiceImpl::ListPublished(
    grpc::CallbackServerContext* context, const v1::ListPublishedRequest* /*request*/,
    v1::ListPublishedReply* reply) {
  return AnswerNow(calls_, context, "ListPublished", [&]() -> absl::Status {
    TD_ASSIGN_OR_RETURN(const Caller caller, authenticator_.Identify(*context));
    for (const PublicationRef& each :
         registry_.engine().publications.List(caller.user, caller.admin)) {
      *reply->add_publications() = Describe(*each, caller.user, caller.admin);
    }
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* AdminServiceImpl::Unpublish(grpc::CallbackServerContext* context,
                                                      const v1::UnpublishRequest* request,
                                                      v1::UnpublishReply* /*reply*/) {
  absl::StatusOr<Caller> caller = authenticator_.Identify(*context);
  return AnswerLater(calls_, context, files_, "Unpublish",
                     [this, request, caller = std::move(caller)]() -> absl::Status {
                       TD_RETURN_IF_ERROR(caller.status());
                       const std::string& owner =
                           request->owner().empty() ? caller->user : request->owner();
                       if (owner != caller->user && !caller->admin) {
                         return NotAllowed("taking back what another user has published", *caller);
                       }
                       return registry_.engine().publications.Unpublish(owner, request->name());
                     });
}

grpc::ServerUnaryReactor* AdminServiceImpl::ExplainSession(grpc::CallbackServerContext* context,
                                                           const v1::ExplainSessionRequest* request,
                                                           v1::ExplainReply* reply) {
  return AnswerNow(calls_, context, "ExplainSession", [&]() -> absl::Status {
    TD_ASSIGN_OR_RETURN(const Caller caller, authenticator_.Identify(*context));
    return Explain(caller, *request, reply);
  });
}

absl::Status AdminServiceImpl::Explain(const Caller& caller,
                                       const v1::ExplainSessionRequest& request,
                                       v1::ExplainReply* reply) {
  TD_ASSIGN_OR_RETURN(const auto session, registry_.FindById(request.session_id()));
  if (!MayKnow(caller, session->identity())) {
    return NotAllowed("seeing what a session of another user does", caller);
  }
  *reply = session->Explain();
  DescribeMemory(
      registry_.engine(), [&](const std::string& user) { return caller.MayKnow(user); },
      reply->mutable_memory());
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* AdminServiceImpl::GetMemory(grpc::CallbackServerContext* context,
                                                      const v1::GetMemoryRequest* /*request*/,
                                                      v1::GetMemoryReply* reply) {
  return AnswerNow(calls_, context, "GetMemory", [&]() -> absl::Status {
    TD_ASSIGN_OR_RETURN(const Caller caller, authenticator_.Identify(*context));
    Memory(caller, reply);
    return absl::OkStatus();
  });
}

void AdminServiceImpl::Memory(const Caller& caller, v1::GetMemoryReply* reply) {
  const auto may_know = [&](const std::string& user) { return caller.MayKnow(user); };
  DescribeMemory(registry_.engine(), may_know, reply->mutable_devices());
  if (registry_.engine().spiller != nullptr) {
    *reply->mutable_spilled() = DescribeSpilled(registry_.engine(), may_know);
  }
}

grpc::ServerUnaryReactor* AdminServiceImpl::Drain(grpc::CallbackServerContext* context,
                                                  const v1::DrainRequest* /*request*/,
                                                  v1::DrainReply* /*reply*/) {
  return AnswerNow(calls_, context, "Drain", [&]() -> absl::Status {
    TD_ASSIGN_OR_RETURN(const Caller caller, authenticator_.Identify(*context));
    if (!caller.admin) return NotAllowed("draining the daemon", caller);
    if (!drain_) return absl::UnimplementedError("this server is part of another process");
    Log("service").info("drain asked_by='{}'", caller.user);
    drain_();
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* AdminServiceImpl::GetCacheStats(
    grpc::CallbackServerContext* context, const v1::GetCacheStatsRequest* /*request*/,
    v1::GetCacheStatsReply* reply) {
  return AnswerNow(calls_, context, "GetCacheStats", [&]() -> absl::Status {
    TD_RETURN_IF_ERROR(authenticator_.Identify(*context).status());
    Cache(reply);
    return absl::OkStatus();
  });
}

void AdminServiceImpl::Cache(v1::GetCacheStatsReply* reply) {
  const CacheStats stats = registry_.engine().runtime.cache_stats();
  reply->set_plans(stats.plans);
  reply->set_plan_hits(stats.plan_hits);
  reply->set_plan_misses(stats.plan_misses);
  reply->set_kernel_memory_hits(stats.kernel_memory_hits);
  reply->set_kernel_disk_hits(stats.kernel_disk_hits);
  reply->set_kernel_misses(stats.kernel_misses);
  reply->set_disk_entries(stats.disk_entries);
  reply->set_disk_bytes(stats.disk_bytes);
  reply->set_disk_limit_bytes(stats.disk_limit_bytes);
  reply->set_disk_rejected(stats.disk_rejected);
  reply->set_directory(stats.directory);
}

grpc::ServerUnaryReactor* AdminServiceImpl::OpenConsole(grpc::CallbackServerContext* context,
                                                        const v1::OpenConsoleRequest* /*request*/,
                                                        v1::OpenConsoleReply* reply) {
  return AnswerNow(calls_, context, "OpenConsole", [&]() -> absl::Status {
    TD_ASSIGN_OR_RETURN(const Caller caller, authenticator_.Identify(*context));
    if (!console_link_) {
      return FailedPrecondition(
          "this daemon serves no console: start it with --console-listen localhost:7080");
    }
    reply->set_url(console_link_(caller));
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* AdminServiceImpl::ClearCache(grpc::CallbackServerContext* context,
                                                       const v1::ClearCacheRequest* /*request*/,
                                                       v1::ClearCacheReply* reply) {
  const absl::StatusOr<Caller> caller = authenticator_.Identify(*context);
  if (!caller.ok() || !caller->admin) {
    return AnswerNow(calls_, context, "ClearCache", [&] {
      return caller.ok() ? NotAllowed("clearing the caches", *caller) : caller.status();
    });
  }
  // Removing files may take a while, and this thread serves others.
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  registry_.engine().work_pool.Schedule([this, reply, reactor] {
    const absl::Time begin = absl::Now();
    Runtime& runtime = registry_.engine().runtime;
    const CacheStats before = runtime.cache_stats();
    const absl::Status status = runtime.ClearCache();
    const CacheStats after = runtime.cache_stats();
    reply->set_entries_removed(before.disk_entries -
                               std::min(before.disk_entries, after.disk_entries));
    reply->set_bytes_removed(before.disk_bytes - std::min(before.disk_bytes, after.disk_bytes));
    calls_.Ended("ClearCache", begin, status);
    reactor->Finish(ToGrpc(status));
  });
  return reactor;
}

}  // namespace tensord
