// Captured and traced functions. The package gives them their signatures.
#include <memory>
#include <utility>

#include "client/cc/function.h"
#include "client/cc/jit.h"
#include "client/python/bind.h"
#include "core/base/status.h"

namespace tensord::python {
namespace {

// Calls the Python function while the interpreter's lock is held, and keeps what it raises.
class PythonFunction {
 public:
  explicit PythonFunction(py::function function) : function_(std::move(function)) {}
  // Copies and the end of it may happen without the lock.
  PythonFunction(const PythonFunction& other) {
    py::gil_scoped_acquire acquire;
    function_ = other.function_;
  }
  ~PythonFunction() {
    py::gil_scoped_acquire acquire;
    function_ = py::function();
  }

  absl::StatusOr<std::vector<Tensor>> operator()(std::vector<Tensor> arguments) const {
    py::gil_scoped_acquire acquire;
    try {
      return function_(std::move(arguments)).cast<std::vector<Tensor>>();
    } catch (py::error_already_set& error) {
      raised = std::make_unique<py::error_already_set>(std::move(error));
      return Cancelled("the function raised");
    }
  }

  // What the function raised on this thread, for whoever called.
  static thread_local std::unique_ptr<py::error_already_set> raised;

 private:
  py::function function_;
};
thread_local std::unique_ptr<py::error_already_set> PythonFunction::raised;

// The results, and which run of the function they are of.
template <typename Traced>
std::pair<std::vector<Tensor>, int> Call(Traced& traced, const std::vector<Tensor>& arguments) {
  int number = 0;
  absl::StatusOr<std::vector<Tensor>> results = [&] {
    py::gil_scoped_release release;
    return traced(arguments, &number);
  }();
  if (auto raised = std::exchange(PythonFunction::raised, nullptr); raised && !results.ok()) {
    throw py::error_already_set(std::move(*raised));
  }
  return {ValueOrRaise(std::move(results)), number};
}

}  // namespace

void BindJit(py::module_& module) {
  py::class_<Jit>(module, "_Jit")
      .def(py::init([](std::string name, py::function function) {
        return std::make_unique<Jit>(CurrentClient(), std::move(name),
                                     PythonFunction(std::move(function)));
      }))
      .def("__call__", &Call<Jit>)
      .def_property_readonly("captures", &Jit::captures);
  py::class_<TracedFunction>(module, "_TracedFunction")
      .def(py::init([](std::string name, py::function function, bool allow_implicit) {
        return std::make_unique<TracedFunction>(
            CurrentClient(), std::move(name), PythonFunction(std::move(function)),
            TracedFunction::Options{.allow_implicit = allow_implicit});
      }))
      .def("__call__", &Call<TracedFunction>)
      .def_property_readonly("traces", &TracedFunction::traces);
}

}  // namespace tensord::python
