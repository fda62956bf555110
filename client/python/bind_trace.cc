// Traces of a session in a file; see tensord/profiler.py.
#include <memory>
#include <string>

#include "client/cc/run_trace.h"
#include "client/python/bind.h"
#include "client/python/parts.h"

namespace tensord::python {

void BindTrace(py::module_& module) {
  py::class_<RunTrace>(module, "_RunTrace")
      .def(
          "stop",
          [](RunTrace& trace) {
            absl::StatusOr<uint64_t> lost;
            {
              py::gil_scoped_release release;
              lost = trace.Stop();
            }
            return ValueOrRaise(std::move(lost));
          },
          "Writes the file; returns how many records were lost.");
  module.def(
      "_start_trace",
      [](const Client& client, const std::string& path) {
        absl::StatusOr<std::unique_ptr<RunTrace>> trace;
        {
          py::gil_scoped_release release;
          trace = RunTrace::Start(client, path);
        }
        return ValueOrRaise(std::move(trace));
      },
      py::arg("client"), py::arg("path"));
}

}  // namespace tensord::python
