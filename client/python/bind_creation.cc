// Tensors from nothing, and captured functions. The package gives them their signatures.
#include <utility>

#include "client/cc/jit.h"
#include "client/python/bind.h"
#include "core/base/status.h"
#include "core/tensor/create.h"

namespace tensord::python {
namespace {

Number Needed(const char* what, py::handle value) {
  const std::optional<Number> number = AsNumber(value);
  if (!number) Raise(InvalidArgument("{}: {} is not a number", what, std::string(py::repr(value))));
  return *number;
}

DType Or(py::handle dtype, DType standard) {
  return dtype.is_none() ? standard : ParseDType(dtype);
}

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

std::vector<Tensor> Call(Jit& jit, const std::vector<Tensor>& arguments) {
  absl::StatusOr<std::vector<Tensor>> results = [&] {
    py::gil_scoped_release release;
    return jit(arguments);
  }();
  if (auto raised = std::exchange(PythonFunction::raised, nullptr); raised && !results.ok()) {
    throw py::error_already_set(std::move(*raised));
  }
  return ValueOrRaise(std::move(results));
}

}  // namespace

void BindCreation(py::module_& module) {
  module.def("_full", [](const Ints& shape, py::handle value, py::handle dtype) {
    const Number number = Needed("full", value);
    return Checked(CurrentClient().Full(shape, number, Or(dtype, number.DefaultDType())));
  });
  module.def("_arange", [](py::handle start, py::handle stop, py::handle step, py::handle dtype) {
    const Number a = Needed("arange", start), b = Needed("arange", stop),
                 c = Needed("arange", step);
    const bool whole = a.kind() != Number::Kind::kFloat && b.kind() != Number::Kind::kFloat &&
                       c.kind() != Number::Kind::kFloat;
    const DType type = Or(dtype, whole ? DType::kInt32 : DType::kFloat32);
    return Checked(
        CurrentClient().Make([&](Graph& graph) { return Arange(graph, a, b, c, type); }));
  });
  module.def("_linspace", [](py::handle start, py::handle stop, int64_t steps, py::handle dtype) {
    const Number a = Needed("linspace", start), b = Needed("linspace", stop);
    const DType type = Or(dtype, DType::kFloat32);
    return Checked(
        CurrentClient().Make([&](Graph& graph) { return Linspace(graph, a, b, steps, type); }));
  });
  module.def("_eye", [](int64_t rows, int64_t columns, py::handle dtype) {
    const DType type = Or(dtype, DType::kFloat32);
    return Checked(
        CurrentClient().Make([&](Graph& graph) { return Eye(graph, rows, columns, type); }));
  });
  module.def("_rand", [](const Ints& shape, py::handle dtype) {
    return Checked(CurrentClient().Rand(shape, Or(dtype, DType::kFloat32)));
  });
  module.def("_randn", [](const Ints& shape, py::handle dtype) {
    return Checked(CurrentClient().Randn(shape, Or(dtype, DType::kFloat32)));
  });
  module.def("_randint", [](int64_t low, int64_t high, const Ints& shape, py::handle dtype) {
    return Checked(CurrentClient().RandInt(shape, low, high, Or(dtype, DType::kInt32)));
  });
  module.def("_manual_seed", [](uint64_t seed) {
    Client& client = CurrentClient();
    absl::Status status;
    {
      py::gil_scoped_release release;
      status = client.ManualSeed(seed);
    }
    RaiseIfError(status);
  });
  module.def("_variable", [](const std::string& name, int64_t min, int64_t max) {
    return Checked(CurrentClient().Variable(name, min, max));
  });
  module.def("_bind",
             [](const std::string& name, int64_t value) { CurrentClient().Bind(name, value); });
  module.def(
      "is_capturing", [] { return CurrentClient().session()->IsTracing(); },
      "Whether a function is being captured by jit on this thread.");
}

void BindJit(py::module_& module) {
  py::class_<Jit>(module, "_Jit")
      .def(py::init([](std::string name, py::function function) {
        return std::make_unique<Jit>(CurrentClient(), std::move(name),
                                     PythonFunction(std::move(function)));
      }))
      .def("__call__", &Call)
      .def_property_readonly("captures", &Jit::captures);
}

}  // namespace tensord::python
