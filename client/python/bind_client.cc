// Errors, dtypes and the client.
#include <absl/time/time.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "client/cc/interrupt.h"
#include "client/python/bind.h"
#include "core/base/status.h"
#include "core/wire/address.h"

namespace tensord::python {
namespace {

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
  return counters;
}

}  // namespace

void Raise(const absl::Status& status) {
  if (PyErr_Occurred() != nullptr) throw py::error_already_set();  // see SignalRaised
  const py::module_ errors = py::module_::import("tensord.errors");
  const py::object type = IsOverflow(status)
                              ? py::object(errors.attr("NumberOverflowError"))
                              : errors.attr("error_for")(static_cast<int>(status.code()));
  PyErr_SetObject(type.ptr(), py::str(std::string(Message(status))).ptr());
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
