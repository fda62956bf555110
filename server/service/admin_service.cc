#include "server/service/admin_service.h"

#include <unistd.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/status.h"
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
    case ObjectState::kError:
      return "error";
  }
  return "";
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
  return AnswerNow(calls_, context, "GetStatus", [&] {
    reply->set_server_version(std::string(kVersion));
    reply->set_pid(getpid());
    reply->set_uptime_ms(absl::ToInt64Milliseconds(absl::Now() - started_));
    reply->set_draining(registry_.going_away());
    reply->mutable_listening()->Add(listening_.begin(), listening_.end());
    reply->set_sessions(registry_.List().size());
    reply->set_sessions_total(registry_.total());
    reply->set_programs_run(registry_.Counters().programs_run());
    uint64_t resident = 0;
    for (Device* device : registry_.engine().runtime.devices()) {
      resident += device->allocator().stats().in_use_bytes;
    }
    reply->set_resident_bytes(resident);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* AdminServiceImpl::ListDevices(grpc::CallbackServerContext* context,
                                                        const v1::ListDevicesRequest* /*request*/,
                                                        v1::ListDevicesReply* reply) {
  return AnswerNow(calls_, context, "ListDevices", [&] {
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
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* AdminServiceImpl::ListSessions(grpc::CallbackServerContext* context,
                                                         const v1::ListSessionsRequest* /*request*/,
                                                         v1::ListSessionsReply* reply) {
  return AnswerNow(calls_, context, "ListSessions", [&] {
    const absl::Time now = absl::Now();
    for (const auto& session : registry_.List()) {
      v1::ListSessionsReply::Session* out = reply->add_sessions();
      out->set_session_id(session->identity().id);
      out->set_client_name(session->identity().client_name);
      out->set_peer(session->identity().peer);
      out->set_age_ms(absl::ToInt64Milliseconds(now - session->opened()));
      out->set_last_command_ms_ago(absl::ToInt64Milliseconds(now - session->last_command()));
      *out->mutable_counters() = session->Counters();
    }
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* AdminServiceImpl::KillSession(grpc::CallbackServerContext* context,
                                                        const v1::KillSessionRequest* request,
                                                        v1::KillSessionReply* reply) {
  return AnswerNow(calls_, context, "KillSession", [&] {
    TD_ASSIGN_OR_RETURN(const uint64_t bytes,
                        registry_.Kill(request->session_id(), request->reason()));
    reply->set_bytes_freed(bytes);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* AdminServiceImpl::ListTensors(grpc::CallbackServerContext* context,
                                                        const v1::ListTensorsRequest* request,
                                                        v1::ListTensorsReply* reply) {
  return AnswerNow(calls_, context, "ListTensors", [&]() -> absl::Status {
    const uint32_t limit = request->limit() == 0 ? kTensorsListed : request->limit();
    if (limit > kMaxTensorsListed) {
      return InvalidArgument("limit {}: at most {} tensors can be listed", limit,
                             kMaxTensorsListed);
    }
    std::vector<std::pair<std::string, HeldTensor>> held;
    bool found = request->session_id().empty();
    for (const auto& session : registry_.List()) {
      const std::string& id = session->identity().id;
      if (!request->session_id().empty() && id != request->session_id()) continue;
      found = true;
      for (HeldTensor& tensor : session->HeldTensors()) held.emplace_back(id, std::move(tensor));
    }
    if (!found) return NotFound("there is no session '{}'", request->session_id());
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
      if (tensor.state == ObjectState::kError) out.set_error(std::string(Message(tensor.error)));
      if (tensor.device.empty()) continue;
      out.set_dtype(std::string(Name(tensor.dtype)));
      out.mutable_shape()->Add(tensor.shape.begin(), tensor.shape.end());
      out.set_device(tensor.device);
    }
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* AdminServiceImpl::Drain(grpc::CallbackServerContext* context,
                                                  const v1::DrainRequest* /*request*/,
                                                  v1::DrainReply* /*reply*/) {
  return AnswerNow(calls_, context, "Drain", [&]() -> absl::Status {
    if (!drain_) return absl::UnimplementedError("this server is part of another process");
    Log("service").info("drain asked for by peer={}", context->peer());
    drain_();
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* AdminServiceImpl::GetCacheStats(
    grpc::CallbackServerContext* context, const v1::GetCacheStatsRequest* /*request*/,
    v1::GetCacheStatsReply* reply) {
  return AnswerNow(calls_, context, "GetCacheStats", [&] {
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
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* AdminServiceImpl::ClearCache(grpc::CallbackServerContext* context,
                                                       const v1::ClearCacheRequest* /*request*/,
                                                       v1::ClearCacheReply* reply) {
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
