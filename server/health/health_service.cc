#include "server/health/health_service.h"

#include <atomic>
#include <numeric>
#include <utility>

#include "core/base/status.h"

namespace tensord {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

constexpr char kDevice[] = "tensord.device.";

}  // namespace

// Tells its client the status of one service, whenever it has become another one.
class HealthServiceImpl::WatchCall final : public grpc::ServerWriteReactor<HealthCheckResponse> {
 public:
  static std::shared_ptr<WatchCall> Start(CallCount& calls, std::string service) {
    auto call = std::shared_ptr<WatchCall>(new WatchCall(calls, std::move(service)));
    call->self_ = call;
    return call;
  }
  const std::string& service() const { return service_; }

  void Tell(HealthServiceImpl::Status status) {
    absl::MutexLock lock(&mu_);
    latest_ = status;
    Write();
  }
  void End(const absl::Status& status) {
    absl::MutexLock lock(&mu_);
    if (!end_) end_ = status;
    Write();
  }

 private:
  WatchCall(CallCount& calls, std::string service) : guard_(calls), service_(std::move(service)) {}

  // gRPC calls back on threads of its own, never from within.
  void Write() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (writing_ || finished_) return;
    if (latest_ && latest_ != told_ && !broken_) {
      told_ = latest_;
      writing_ = true;
      reply_.set_status(*latest_);
      StartWrite(&reply_);
    } else if (end_) {
      finished_ = true;
      guard_.Ended("Watch", begin_, *end_);
      Finish(ToGrpc(*end_));
    }
  }
  void OnWriteDone(bool ok) override {
    absl::MutexLock lock(&mu_);
    writing_ = false;
    broken_ |= !ok;
    if (!ok && !end_) end_ = Cancelled("the client is gone");
    Write();
  }
  void OnCancel() override { End(Cancelled("the call was cancelled")); }
  void OnDone() override { const std::shared_ptr<WatchCall> last = std::move(self_); }

  const CallCount::Guard guard_;
  const std::string service_;
  const absl::Time begin_ = absl::Now();
  std::shared_ptr<WatchCall> self_;  // gRPC's part of it
  absl::Mutex mu_;
  HealthCheckResponse reply_;  // gRPC's while a write is under way
  std::optional<HealthServiceImpl::Status> latest_ ABSL_GUARDED_BY(mu_), told_ ABSL_GUARDED_BY(mu_);
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mu_);
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool broken_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
};

HealthServiceImpl::HealthServiceImpl(Runtime& runtime, CallCount& calls, ProberOptions options)
    : calls_(calls), prober_(runtime, options, [this] { Changed(); }) {}

std::optional<std::vector<size_t>> HealthServiceImpl::DevicesOf(const std::string& service) const {
  std::vector<size_t> devices(prober_.devices());
  std::iota(devices.begin(), devices.end(), size_t{0});
  if (service.empty()) return devices;
  for (size_t device : devices) {
    if (service == kDevice + std::to_string(device)) return std::vector<size_t>{device};
  }
  return std::nullopt;
}

grpc::ServerUnaryReactor* HealthServiceImpl::Check(grpc::CallbackServerContext* context,
                                                   const HealthCheckRequest* request,
                                                   HealthCheckResponse* reply) {
  const std::optional<std::vector<size_t>> devices = DevicesOf(request->service());
  bool draining;
  {
    absl::MutexLock lock(&mu_);
    draining = draining_;
  }
  if (!devices || draining) {
    return AnswerNow(calls_, context, "Check", [&]() -> absl::Status {
      if (!devices) return NotFound("there is no service '{}'", request->service().substr(0, 200));
      reply->set_status(HealthCheckResponse::NOT_SERVING);
      return absl::OkStatus();
    });
  }
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  // Shared by the probes of its devices; the last of them answers.
  struct Pending {
    explicit Pending(CallCount& calls) : guard(calls) {}
    CallCount::Guard guard;
    absl::Time begin = absl::Now();
    // Release and acquire: whoever is last sees what all others have found.
    std::atomic<size_t> left = 0;
    std::atomic<bool> serving = true;
  };
  auto pending = std::make_shared<Pending>(calls_);
  pending->left = devices->size();
  for (size_t device : *devices) {
    prober_.Check(device, [pending, reactor, reply](const absl::Status& status) {
      if (!status.ok()) pending->serving.store(false);
      if (pending->left.fetch_sub(1) > 1) return;
      reply->set_status(pending->serving.load() ? HealthCheckResponse::SERVING
                                                : HealthCheckResponse::NOT_SERVING);
      pending->guard.Ended("Check", pending->begin, absl::OkStatus());
      reactor->Finish(grpc::Status::OK);
    });
  }
  return reactor;
}

grpc::ServerUnaryReactor* HealthServiceImpl::List(
    grpc::CallbackServerContext* context, const grpc::health::v1::HealthListRequest* /*request*/,
    grpc::health::v1::HealthListResponse* reply) {
  return AnswerNow(calls_, context, "List", [&]() -> absl::Status {
    std::vector<std::string> services = {""};
    for (size_t device = 0; device < prober_.devices(); ++device) {
      services.push_back(kDevice + std::to_string(device));
    }
    for (const std::string& service : services) {
      (*reply->mutable_statuses())[service].set_status(
          Known(service).value_or(HealthCheckResponse::UNKNOWN));
    }
    return absl::OkStatus();
  });
}

grpc::ServerWriteReactor<HealthCheckResponse>* HealthServiceImpl::Watch(
    grpc::CallbackServerContext* /*context*/, const HealthCheckRequest* request) {
  const auto call = WatchCall::Start(calls_, request->service());
  bool stopped;
  {
    absl::MutexLock lock(&mu_);
    std::erase_if(watchers_, [](const auto& each) { return each.expired(); });
    watchers_.push_back(call);
    stopped = stopped_;
  }
  if (stopped) call->End(Unavailable("the daemon is shutting down"));
  const std::optional<std::vector<size_t>> devices = DevicesOf(call->service());
  if (!devices) {
    call->Tell(HealthCheckResponse::SERVICE_UNKNOWN);
  } else if (const std::optional<Status> known = Known(call->service())) {
    call->Tell(*known);
  } else {
    for (size_t device : *devices) prober_.Check(device, [](const absl::Status&) {});
  }
  return call.get();
}

std::optional<HealthServiceImpl::Status> HealthServiceImpl::Known(const std::string& service) {
  {
    absl::MutexLock lock(&mu_);
    if (draining_) return HealthCheckResponse::NOT_SERVING;
  }
  const std::optional<std::vector<size_t>> devices = DevicesOf(service);
  if (!devices) return HealthCheckResponse::SERVICE_UNKNOWN;
  bool serving = true;
  for (size_t device : *devices) {
    const std::optional<absl::Status> last = prober_.Last(device);
    if (!last) return std::nullopt;
    serving &= last->ok();
  }
  return serving ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
}

void HealthServiceImpl::Changed() {
  std::vector<std::shared_ptr<WatchCall>> watchers;
  {
    absl::MutexLock lock(&mu_);
    for (const auto& each : watchers_) {
      if (auto watcher = each.lock()) watchers.push_back(std::move(watcher));
    }
  }
  for (const auto& watcher : watchers) {
    if (const std::optional<Status> known = Known(watcher->service())) watcher->Tell(*known);
  }
}

void HealthServiceImpl::Drain() {
  {
    absl::MutexLock lock(&mu_);
    draining_ = true;
  }
  Changed();
}

void HealthServiceImpl::Stop() {
  std::vector<std::weak_ptr<WatchCall>> watchers;
  {
    absl::MutexLock lock(&mu_);
    stopped_ = true;
    watchers.swap(watchers_);
  }
  for (const auto& each : watchers) {
    if (const auto watcher = each.lock()) watcher->End(Unavailable("the daemon is shutting down"));
  }
  prober_.Stop();
}

}  // namespace tensord
