// Errors, dtypes and the client.
#include <absl/time/time.h>

#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/cc/interrupt.h"
#include "client/python/bind.h"
#include "core/base/status.h"
#include "core/wire/address.h"
#include "core/wire/refusal.h"

namespace tensord::python {
namespace {

// What users have published belongs to no session.
std::string HolderName(const std::string& session) {
  return session.empty() ? "published" : session;
}

std::shared_ptr<Client>& Current() {
  // Never destroyed: at exit the interpreter is gone before this would be. The package closes it.
  static auto& current = *new std::shared_ptr<Client>();
  return current;
}

absl::Duration Timeout(const std::optional<double>& seconds) {
  return seconds ? absl::Seconds(*seconds) : absl::InfiniteDuration();
}

std::shared_ptr<Client> Connect(const std::string& address, const std::string& device,
                                const std::string& name, double connect_timeout,
                                const std::optional<double>& timeout, const std::string& priority,
                                const std::optional<double>& lease,
                                const std::map<std::string, std::string>& security) {
  ConnectOptions options;
  const std::pair<const char*, std::string*> fields[] = {
      {"ca", &options.security.ca_file},
      {"cert", &options.security.cert_file},
      {"key", &options.security.key_file},
      {"server_name", &options.security.server_name},
      {"token", &options.security.token}};
  for (const auto& [field, value] : fields) {
    if (const auto found = security.find(field); found != security.end()) *value = found->second;
  }
  if (security.contains("tls")) options.security.tls = true;
  py::gil_scoped_release release;
  absl::StatusOr<std::unique_ptr<Client>> client =
      Client::Connect(address, {.client_name = name,
                                .device = device,
                                .priority = priority,
                                .security = std::move(options.security),
                                .connect_timeout = absl::Seconds(connect_timeout),
                                .lease = Timeout(lease),
                                .timeout = Timeout(timeout)});
  py::gil_scoped_acquire acquire;
  return ValueOrRaise(std::move(client));
}

// Runs the handlers of signals that have come, on the thread whose part that is. One that raised,
// as that of Ctrl-C does, ends the wait; Raise finds its exception.
bool SignalRaised() {
  py::gil_scoped_acquire acquire;
  return PyErr_Occurred() != nullptr || PyErr_CheckSignals() != 0;
}

py::dict Counters(const Client& client) {
  absl::StatusOr<v1::CountersReply> reply;
  {
    py::gil_scoped_release release;
    reply = client.Counters();
  }
  RaiseIfError(reply.status());
  constexpr double kNanosecond = 1e-9;
  py::dict counters;
  counters["programs_run"] = reply->programs_run();
  counters["kernels_launched"] = reply->kernels_launched();
  counters["kernels_compiled"] = reply->kernels_compiled();
  counters["kernel_memory_hits"] = reply->kernel_memory_hits();
  counters["kernel_disk_hits"] = reply->kernel_disk_hits();
  counters["plan_hits"] = reply->plan_hits();
  counters["plan_misses"] = reply->plan_misses();
  counters["bytes_uploaded"] = reply->bytes_uploaded();
  counters["bytes_downloaded"] = reply->bytes_downloaded();
  counters["device_seconds"] = static_cast<double>(reply->device_ns()) * kNanosecond;
  counters["compile_seconds"] = static_cast<double>(reply->compile_ns()) * kNanosecond;
  counters["schedule_seconds"] = static_cast<double>(reply->schedule_ns()) * kNanosecond;
  counters["live_bytes"] = reply->live_bytes();
  counters["live_handles"] = reply->live_handles();
  counters["byte_seconds"] = reply->byte_seconds();
  counters["bytes_not_sent"] = reply->bytes_not_sent();
  counters["bytes_spilled"] = reply->bytes_spilled();
  counters["bytes_restored"] = reply->bytes_restored();
  return counters;
}

const char* CauseName(v1::ExplainReply::Cause cause) {
  constexpr const char* kNames[] = {"nothing", "turn",    "program", "compiles",
                                    "tensor",  "readers", "runs",    "memory"};
  const auto number = static_cast<size_t>(cause);
  return number < std::size(kNames) ? kNames[number] : "unknown";
}

py::dict Explain(const Client& client) {
  absl::StatusOr<v1::ExplainReply> reply;
  {
    py::gil_scoped_release release;
    reply = client.Explain();
  }
  RaiseIfError(reply.status());
  constexpr double kNanosecond = 1e-9;
  const auto seconds = [](uint64_t ns) { return static_cast<double>(ns) * kNanosecond; };
  py::dict explained;
  explained["waits_for"] = CauseName(reply->cause());
  explained["what"] = reply->what();
  explained["waiting_seconds"] = seconds(reply->waiting_ns());
  explained["commands"] = reply->commands();
  explained["compiling"] = reply->compiling();
  py::list queues, misses, memory;
  for (const v1::ExplainReply::Queue& each : reply->queues()) {
    py::dict queue;
    queue["device"] = each.device();
    queue["place"] = each.place();
    queue["waiting"] = each.waiting();
    queue["own_runs"] = each.own_runs();
    queue["own_seconds"] = seconds(each.own_ns());
    queue["other_runs"] = each.other_runs();
    queue["other_seconds"] = seconds(each.other_ns());
    queue["seconds_before"] = seconds(each.ns_before());
    queue["starts_in_seconds"] = seconds(each.starts_in_ns());
    queues.append(queue);
  }
  for (const v1::ExplainReply::Miss& each : reply->misses()) {
    py::dict miss;
    miss["program"] = each.program();
    miss["nearest"] = each.nearest();
    miss["differs"] =
        py::cast(std::vector<std::string>(each.differs().begin(), each.differs().end()));
    miss["text"] = each.text();
    miss["kernels"] = each.kernels();
    miss["compiled"] = each.compiled();
    misses.append(miss);
  }
  for (const v1::DeviceHolders& each : reply->memory()) {
    py::dict device;
    std::map<std::string, uint64_t> holders;
    for (const v1::DeviceHolders::Holder& holder : each.holders()) {
      holders[HolderName(holder.session_id())] += holder.bytes();
    }
    device["device"] = each.device();
    device["capacity_bytes"] = each.capacity_bytes();
    device["in_use_bytes"] = each.in_use_bytes();
    device["tensor_bytes"] = each.tensor_bytes();
    device["holders"] = holders;
    memory.append(device);
  }
  explained["queues"] = queues;
  explained["misses"] = misses;
  explained["memory"] = memory;
  return explained;
}

// What a refusal says to programs.
void SetRefusal(const absl::Status& status, const py::object& error) {
  const std::optional<Refusal> refusal = RefusalOf(status);
  if (!refusal) return;
  error.attr("subject") = refusal->subject;
  error.attr("limit") = refusal->limit;
  error.attr("use") = refusal->used;
  error.attr("needed") = refusal->needed;
  if (refusal->retry_after) {
    error.attr("retry_after") = absl::ToDoubleSeconds(*refusal->retry_after);
  }
  std::map<std::string, uint64_t> holders;
  for (const Refusal::Holder& holder : refusal->holders) {
    holders[HolderName(holder.session)] += holder.bytes;
  }
  error.attr("holders") = holders;
}

}  // namespace

void Raise(const absl::Status& status) {
  if (PyErr_Occurred() != nullptr) throw py::error_already_set();  // see SignalRaised
  const py::module_ errors = py::module_::import("tensord.errors");
  const py::object type = IsOverflow(status)
                              ? py::object(errors.attr("NumberOverflowError"))
                              : errors.attr("error_for")(static_cast<int>(status.code()));
  const py::object error = type(std::string(Message(status)));
  if (absl::IsResourceExhausted(status)) SetRefusal(status, error);
  PyErr_SetObject(type.ptr(), error.ptr());
  throw py::error_already_set();
}

Client& CurrentClient() {
  if (!Current()) py::module_::import("tensord.connection").attr("current")();
  return *Current();
}

void BindClient(py::module_& module) {
  SetInterruptCheck(&SignalRaised);
  py::class_<Client, std::shared_ptr<Client>>(module, "Client",
                                              "A session with a daemon; see tensord.connect.")
      .def_property_readonly("address", &Client::address)
      .def_property_readonly("device", &Client::device)
      .def_property_readonly("devices", &Client::devices)
      .def("counters", &Counters, "What this connection has cost so far.")
      .def("explain", &Explain,
           "What this connection waits for, and who holds memory: what tensord.explain returns.")
      .def_property("fast_math", &Client::fast_math, &Client::SetFastMath,
                    "Whether programs that are built from now on simplify floats as if they were "
                    "real numbers; see tensord.fast_math.")
      .def(
          "synchronize",
          [](const Client& client) {
            absl::Status status;
            {
              py::gil_scoped_release release;
              status = client.Wait();
            }
            RaiseIfError(status);
          },
          "Waits until the device has done everything that was sent to it.")
      .def("close", &Client::Close, py::call_guard<py::gil_scoped_release>(),
           "Ends the session and frees what it owns. Its tensors can no longer be used.")
      .def_property_readonly(
          "graph_nodes", [](const Client& client) { return client.session()->graph_nodes(); },
          "How many nodes the expressions take that were built and not forgotten yet.")
      .def_property_readonly("closed", [](const Client& client) { return !client.status().ok(); })
      .def("__repr__", [](const Client& client) {
        return fmt::format("Client({}, device={}{})", client.address(), client.device(),
                           client.status().ok() ? "" : ", closed");
      });
  module.def("_connect", &Connect);
  module.def(
      "_check_fork", [] { RaiseIfError(client::Connection::CheckFork()); },
      "An error in a process that cannot have a connection.");
  module.def("_set_current", [](std::optional<std::shared_ptr<Client>> client) {
    Current() = client ? std::move(*client) : nullptr;
  });
  module.def("_current", []() -> std::optional<std::shared_ptr<Client>> {
    if (!Current()) return std::nullopt;
    return Current();
  });
  module.def("default_address", &DefaultAddress, "Where daemons of this user listen by default.");
}

}  // namespace tensord::python
