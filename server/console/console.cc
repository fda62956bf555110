#include "server/console/console.h"

#include <absl/strings/numbers.h>
#include <absl/time/clock.h>
#include <absl/time/time.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/log.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "server/console/api.pb.h"
#include "server/console/page.h"

namespace tensord {
namespace {

constexpr size_t kKernelsListed = 200;
constexpr uint32_t kTensorsListed = 200;
constexpr size_t kCachedListed = 200;
constexpr size_t kMaxMessage = 4096;

double Milliseconds(absl::Time time) {
  return absl::ToDoubleMilliseconds(time - absl::UnixEpoch());
}

std::string Json(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string text;
  if (!google::protobuf::util::MessageToJsonString(message, &text, options).ok()) return "{}";
  return text;
}

template <typename Message>
absl::StatusOr<Message> Read(const std::string& body) {
  Message message;
  if (!google::protobuf::util::JsonStringToMessage(body, &message).ok()) {
    return InvalidArgument("the body is not what is asked for");
  }
  return message;
}

uint64_t After(const HttpRequest& request) {
  uint64_t number = 0;  // of what is no number
  return absl::SimpleAtoi(request.Query("after"), &number) ? number : 0;
}

int HttpCode(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kUnauthenticated:
      return 401;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kInvalidArgument:
      return 400;
    default:
      return 500;
  }
}

HttpResponse Refuse(const absl::Status& status) {
  console::Error error;
  error.set_error(Utf8(Prefix(Message(status), kMaxMessage)));
  return {.status = HttpCode(status.code()), .body = Json(error)};
}

}  // namespace

// Who may ask is the same for all but the login: whoever is somebody. What they see is not.
struct Console::Route {
  const char* path;
  bool post;
  absl::StatusOr<std::string> (Console::*answer)(const Caller&, const HttpRequest&);
};

const Console::Route Console::kRoutes[] = {
    // clang-format off
    {"/api/state",   false, &Console::State},
    {"/api/history", false, &Console::Samples},
    {"/api/memory",  false, &Console::Memory},
    {"/api/kernels", false, &Console::Kernels},
    {"/api/source",  false, &Console::Source},
    {"/api/cache",   false, &Console::Cache},
    {"/api/log",     false, &Console::Lines},
    {"/api/explain", false, &Console::Explain},
    {"/api/kill",    true,  &Console::Kill},
    {"/api/logout",  true,  &Console::Logout},
    // clang-format on
};

Console::Console(const Sources& sources)
    : sources_(sources), history_([this] {
        const SessionEngine& engine = sources_.registry.engine();
        History::Readings readings;
        for (Device* device : engine.runtime.devices()) {
          Timeline& timeline = device->timeline();
          // Completed first, so that the difference is never negative.
          const uint64_t completed = timeline.signal()->value.load(std::memory_order_relaxed);
          readings.push_back({.busy_ns = engine.scheduler.BusyNs(device),
                              .in_use_bytes = device->allocator().stats().in_use_bytes,
                              .queued = timeline.last_reserved() - completed});
        }
        return readings;
      }) {}

absl::StatusOr<std::unique_ptr<Console>> Console::Start(const ListenAddress& address,
                                                        const Sources& sources) {
  auto console = std::unique_ptr<Console>(new Console(sources));
  TD_ASSIGN_OR_RETURN(
      console->http_,
      HttpServer::Start(address, [self = console.get()](const HttpRequest& request) {
        return self->Answer(request);
      }));
  return console;
}

std::string Console::NewLink(const Caller& caller) {
  Log("console").info("link made for='{}' admin={}", caller.user, caller.admin);
  return fmt::format("{}/#{}", url(), logins_.NewCode(caller));
}

HttpResponse Console::Answer(const HttpRequest& request) {
  if (!request.post) {
    if (const PageFile* file = FindPageFile(request.path)) {
      return {.type = std::string(file->type), .body = std::string(file->text)};
    }
  }
  absl::StatusOr<std::string> json = NotFound("there is nothing at {}", request.path);
  if (request.post && request.path == "/api/login") {
    json = Login(request);
  } else {
    for (const Route& route : kRoutes) {
      if (route.path != request.path || route.post != request.post) continue;
      const absl::StatusOr<Caller> caller = Identify(request);
      json = caller.ok() ? (this->*route.answer)(*caller, request) : caller.status();
    }
  }
  if (!json.ok()) return Refuse(json.status());
  return {.body = *std::move(json)};
}

absl::StatusOr<Caller> Console::Identify(const HttpRequest& request) {
  if (request.token) {
    if (std::optional<Caller> caller = logins_.Find(*request.token)) return *std::move(caller);
  }
  return sources_.authenticator.Identify(request.peer, request.token);
}

absl::StatusOr<std::string> Console::Login(const HttpRequest& request) {
  TD_ASSIGN_OR_RETURN(const auto message, Read<console::LoginRequest>(request.body));
  TD_ASSIGN_OR_RETURN(const Logins::Login login, logins_.Redeem(message.code()));
  Log("console").info("logged in user='{}' peer={}", login.caller.user, request.peer);
  console::LoginReply reply;
  reply.set_token(login.token);
  return Json(reply);
}

absl::StatusOr<std::string> Console::Logout(const Caller& /*caller*/, const HttpRequest& request) {
  if (request.token) logins_.End(*request.token);
  return std::string("{}");
}

absl::StatusOr<std::string> Console::State(const Caller& caller, const HttpRequest& /*request*/) {
  console::State state;
  state.set_user(Utf8(Prefix(caller.user, kMaxMessage)));
  state.set_admin(caller.admin);
  state.set_now_ms(Milliseconds(absl::Now()));
  sources_.admin.Status(state.mutable_status());
  v1::ListDevicesReply devices;
  sources_.admin.Devices(&devices);
  state.mutable_devices()->Swap(devices.mutable_devices());
  v1::ListSessionsReply sessions;
  sources_.admin.Sessions(caller, &sessions);
  state.mutable_sessions()->Swap(sessions.mutable_sessions());
  return Json(state);
}

absl::StatusOr<std::string> Console::Samples(const Caller& /*caller*/, const HttpRequest& request) {
  console::History history;
  history.set_interval_ms(static_cast<uint32_t>(absl::ToInt64Milliseconds(History::kInterval)));
  history.set_samples_kept(History::kMaxSamples);
  for (Device* device : sources_.registry.engine().runtime.devices()) {
    history.add_devices()->set_name(device->name());
  }
  for (const History::Sample& sample : history_.After(After(request))) {
    history.set_last(static_cast<double>(sample.number));
    history.set_end_ms(Milliseconds(sample.time));
    for (size_t i = 0; i < sample.devices.size(); ++i) {
      console::History::Device& row = *history.mutable_devices(static_cast<int>(i));
      const History::OfDevice& device = sample.devices[i];
      row.add_busy_permille(static_cast<uint32_t>(device.busy * 1000 + 0.5));
      row.add_in_use_bytes(static_cast<double>(device.in_use_bytes));
      row.add_queued(static_cast<uint32_t>(std::min<uint64_t>(device.queued, UINT32_MAX)));
    }
  }
  return Json(history);
}

absl::StatusOr<std::string> Console::Memory(const Caller& caller, const HttpRequest& /*request*/) {
  console::Memory memory;
  sources_.admin.Memory(caller, memory.mutable_held());
  v1::ListTensorsRequest wanted;
  wanted.set_limit(kTensorsListed);
  TD_RETURN_IF_ERROR(sources_.admin.Tensors(caller, wanted, memory.mutable_tensors()));
  return Json(memory);
}

absl::StatusOr<std::string> Console::Kernels(const Caller& caller, const HttpRequest& /*request*/) {
  console::Kernels kernels;
  kernels.set_rows_kept(KernelTimes::kMaxRows);
  const auto sees = [&](const std::string& user) { return caller.MayKnow(user); };
  for (const KernelTimes::Row& row : sources_.kernel_times.Largest(kKernelsListed, sees)) {
    console::Kernels::Kernel& out = *kernels.add_kernels();
    out.set_name(row.name);
    out.mutable_keys()->Add(row.kernels.begin(), row.kernels.end());
    out.set_user(row.user);
    for (const std::string& program : row.programs)
      out.add_programs(Utf8(Prefix(program, kMaxMessage)));
    out.set_launches(static_cast<double>(row.launches));
    out.set_device_ns(static_cast<double>(row.device_ns));
  }
  return Json(kernels);
}

absl::StatusOr<std::string> Console::Source(const Caller& caller, const HttpRequest& request) {
  const std::string key = request.Query("kernel");
  const auto sees = [&](const std::string& user) { return caller.MayKnow(user); };
  // What others compute is theirs; of what is not there it says the same.
  if (!caller.admin && !sources_.kernel_times.Has(key, sees)) {
    return NotFound("no run of yours has launched kernel {}", key);
  }
  console::Source source;
  TD_ASSIGN_OR_RETURN(*source.mutable_text(), sources_.registry.engine().runtime.KernelSource(key));
  return Json(source);
}

absl::StatusOr<std::string> Console::Cache(const Caller& caller, const HttpRequest& /*request*/) {
  console::Cache cache;
  sources_.admin.Cache(cache.mutable_stats());
  if (!caller.admin) return Json(cache);
  for (const CachedKernel& kernel :
       sources_.registry.engine().runtime.cached_kernels(kCachedListed)) {
    console::Cache::Kernel& out = *cache.add_kernels();
    out.set_key(kernel.key);
    out.set_name(kernel.name);
    out.set_bytes(static_cast<double>(kernel.bytes));
  }
  return Json(cache);
}

absl::StatusOr<std::string> Console::Lines(const Caller& caller, const HttpRequest& request) {
  if (!caller.admin) {
    return MakeStatus(absl::StatusCode::kPermissionDenied,
                      "the log is for administrators: see --admin-users");
  }
  console::Log log;
  log.set_lines_kept(LogRing::kMaxLines);
  if (sources_.log == nullptr) return Json(log);
  for (const LogRing::Line& line : sources_.log->After(After(request))) {
    console::Log::Line& out = *log.add_lines();
    out.set_number(static_cast<double>(line.number));
    out.set_time_ms(Milliseconds(line.time));
    out.set_level(line.level);
    out.set_logger(line.logger);
    out.set_text(line.text);
  }
  return Json(log);
}

absl::StatusOr<std::string> Console::Explain(const Caller& caller, const HttpRequest& request) {
  v1::ExplainSessionRequest wanted;
  wanted.set_session_id(request.Query("session"));
  v1::ExplainReply reply;
  TD_RETURN_IF_ERROR(sources_.admin.Explain(caller, wanted, &reply));
  return Json(reply);
}

absl::StatusOr<std::string> Console::Kill(const Caller& caller, const HttpRequest& request) {
  TD_ASSIGN_OR_RETURN(const auto message, Read<console::KillRequest>(request.body));
  v1::KillSessionRequest kill;
  kill.set_session_id(message.session_id());
  kill.set_reason("from the console");
  v1::KillSessionReply reply;
  TD_RETURN_IF_ERROR(sources_.admin.Kill(caller, kill, &reply));
  return Json(reply);
}

}  // namespace tensord
