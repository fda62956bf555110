// Tensors from nothing. The package gives them their signatures.
#include <utility>

#include "client/cc/ops.h"
#include "client/python/bind.h"
#include "core/base/status.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/join.h"
#include "core/tensor/size.h"

namespace tensord::python {
namespace {

Number Needed(const char* what, py::handle value) {
  const std::optional<Number> number = AsNumber(value);
  if (!number) Raise(InvalidArgument("{}: {} is not a number", what, std::string(py::repr(value))));
  return *number;
}

DType Or(py::handle dtype, DType standard) {
  return dtype.is_none() ? standard : ParseStored(dtype);
}

// Both bounds as tensors if one is.
std::optional<std::pair<Tensor, Tensor>> TensorBounds(py::handle start, py::handle stop) {
  if (!py::isinstance<Tensor>(start) && !py::isinstance<Tensor>(stop)) return std::nullopt;
  const auto bound = [](py::handle value) {
    return py::isinstance<Tensor>(value) ? value.cast<Tensor>() : ToTensor(value, DType::kFloat64);
  };
  return std::pair(bound(start), bound(stop));
}

}  // namespace

void BindCreation(py::module_& module) {
  module.def("_full", [](py::handle sizes, py::handle value, py::handle dtype) {
    const Ints shape = ParseInts(sizes);
    const Number number = Needed("full", value);
    return Checked(CurrentClient().Full(shape, number, Or(dtype, number.DefaultDType())));
  });
  module.def("_arange", [](py::handle start, py::handle stop, py::handle step, py::handle dtype) {
    if (py::isinstance<SymInt>(start) || py::isinstance<SymInt>(stop)) {
      const DType type = Or(dtype, DType::kInt32);
      const int64_t from = ParseSize(start);
      if (ParseSize(step) != 1) Raise(InvalidArgument("arange: where sizes vary the step is 1"));
      const int64_t count = ValueOrRaise(SizeMinus(ParseSize(stop), from));
      return Checked(CurrentClient().Make([&](Graph& graph) {
        const Expr counter = ArangeOfSize(graph, count, type);
        return from == 0 ? counter : counter + SizeValue(graph, from, type);
      }));
    }
    const Number a = Needed("arange", start), b = Needed("arange", stop),
                 c = Needed("arange", step);
    const DType type = dtype.is_none() ? ArangeDType(a, b, c) : ParseStored(dtype);
    return Checked(
        CurrentClient().Make([&](Graph& graph) { return Arange(graph, a, b, c, type); }));
  });
  module.def("_linspace", [](py::handle start, py::handle stop, int64_t steps, py::handle dtype) {
    const DType type = Or(dtype, DefaultFloat());
    if (const auto both = TensorBounds(start, stop)) {
      return Checked(Lift([&](const Expr& a, const Expr& b) { return Linspace(a, b, steps, type); },
                          both->first, both->second));
    }
    const Number a = Needed("linspace", start), b = Needed("linspace", stop);
    return Checked(
        CurrentClient().Make([&](Graph& graph) { return Linspace(graph, a, b, steps, type); }));
  });
  module.def("_logspace", [](py::handle start, py::handle stop, int64_t steps, double base,
                             py::handle dtype) {
    const DType type = Or(dtype, DefaultFloat());
    if (const auto both = TensorBounds(start, stop)) {
      return Checked(
          Lift([&](const Expr& a, const Expr& b) { return Logspace(a, b, steps, base, type); },
               both->first, both->second));
    }
    const Number a = Needed("logspace", start), b = Needed("logspace", stop);
    return Checked(CurrentClient().Make(
        [&](Graph& graph) { return Logspace(graph, a, b, steps, base, type); }));
  });
  module.def("_eye", [](int64_t rows, int64_t columns, py::handle dtype) {
    const DType type = Or(dtype, DefaultFloat());
    return Checked(
        CurrentClient().Make([&](Graph& graph) { return Eye(graph, rows, columns, type); }));
  });
  module.def("_tri_indices", [](bool lower, int64_t rows, int64_t columns, int64_t offset,
                                py::handle dtype) {
    if (rows < 0 || columns < 0) {
      Raise(InvalidArgument("{}_indices: size {} x {} is negative", lower ? "tril" : "triu", rows,
                            columns));
    }
    const std::vector<int64_t> indices =
        lower ? TrilIndices(rows, columns, offset) : TriuIndices(rows, columns, offset);
    const Ints shape = {2, static_cast<int64_t>(indices.size()) / 2};
    return Checked(Cast(CurrentClient().FromHost(indices, shape), Or(dtype, DefaultInt())));
  });
  module.def("_window", [](const std::string& name, int64_t n, bool periodic,
                           const std::vector<double>& parameters, std::optional<double> center,
                           py::handle dtype) {
    constexpr std::pair<std::string_view, WindowKind> kKinds[] = {
        {"general_cosine", WindowKind::kCosines},  {"bartlett", WindowKind::kBartlett},
        {"kaiser", WindowKind::kKaiser},           {"cosine", WindowKind::kSine},
        {"exponential", WindowKind::kExponential}, {"gaussian", WindowKind::kGaussian}};
    if (n < 0) Raise(InvalidArgument("{} window: length {} is negative", name, n));
    const DType type = Or(dtype, DefaultFloat());
    if (!IsFloat(type)) Raise(InvalidArgument("{} window: {} is no float", name, Name(type)));
    for (const auto& [known, kind] : kKinds) {
      if (known != name) continue;
      const std::vector<double> window =
          SignalWindow(kind, n, {.periodic = periodic, .parameters = parameters, .center = center});
      return Checked(Cast(CurrentClient().FromHost(window, Ints{n}), type));
    }
    Raise(InvalidArgument("'{}' is no window", name));
  });
  // Over several tensors.
  const auto joined = [&module](const char* name, Expr (*function)(absl::Span<const Expr>)) {
    module.def(name, [function](const std::vector<Tensor>& tensors) {
      if (tensors.empty()) Raise(InvalidArgument("it needs at least one tensor"));
      std::vector<client::StateRef> states;
      for (const Tensor& tensor : tensors) states.push_back(tensor.state());
      return Checked(Tensor(tensors[0].session().Apply(
          states, [&](Graph&, absl::Span<const Expr> operands) { return function(operands); })));
    });
  };
  joined("_cartesian_prod", &CartesianProd);
  joined("_block_diag", &BlockDiag);
  module.def("_vander", [](const Tensor& x, int64_t n, bool increasing) {
    return Checked(Lift([=](const Expr& e) { return Vander(e, n, increasing); }, x));
  });
  module.def(
      "_rand",
      [](py::handle sizes, py::handle dtype, const std::optional<Generator>& generator) {
        const client::GeneratorScope scope(Own(generator));
        const Ints shape = ParseInts(sizes);
        return Checked(CurrentClient().Rand(shape, Or(dtype, DefaultFloat())));
      },
      py::arg("size"), py::arg("dtype") = py::none(), py::arg("generator") = py::none());
  module.def(
      "_randn",
      [](py::handle sizes, py::handle dtype, const std::optional<Generator>& generator) {
        const client::GeneratorScope scope(Own(generator));
        const Ints shape = ParseInts(sizes);
        return Checked(CurrentClient().Randn(shape, Or(dtype, DefaultFloat())));
      },
      py::arg("size"), py::arg("dtype") = py::none(), py::arg("generator") = py::none());
  module.def(
      "_randint",
      [](int64_t low, int64_t high, py::handle sizes, py::handle dtype,
         const std::optional<Generator>& generator) {
        const client::GeneratorScope scope(Own(generator));
        const Ints shape = ParseInts(sizes);
        return Checked(CurrentClient().RandInt(shape, low, high, Or(dtype, DefaultInt())));
      },
      py::arg("low"), py::arg("high"), py::arg("size"), py::arg("dtype") = py::none(),
      py::arg("generator") = py::none());
  module.def("_variable", [](const std::string& name, int64_t min, int64_t max) {
    return Checked(CurrentClient().Variable(name, min, max));
  });
  module.def("_bind",
             [](const std::string& name, int64_t value) { CurrentClient().Bind(name, value); });
  module.def(
      "is_capturing", [] { return CurrentClient().session()->IsTracing(); },
      "Whether a function is being captured by jit on this thread.");
}

// The creation functions are the package's, in Python; the class has them too, those that take a
// tensor as methods.
void BindCreators(py::class_<Tensor>& tensor) {
  const auto creator = [](const char* name) {
    return py::module_::import("tensord.creation").attr(name);
  };
  for (const char* name :
       {"empty", "full", "zeros", "ones", "arange", "linspace", "logspace", "eye", "tril_indices",
        "triu_indices", "cartesian_prod", "block_diag", "from_blob", "from_numpy", "rand", "randn",
        "randint", "uniform", "manual_seed"}) {
    tensor.def_static(
        name,
        [creator, name](const py::args& arguments, const py::kwargs& named) -> py::object {
          return creator(name)(*arguments, **named);
        },
        fmt::format("See tensord.{}.", name).c_str());
  }
  for (const char* name :
       {"empty_like", "full_like", "zeros_like", "ones_like", "vander", "combinations",
        "new_tensor", "new_empty", "new_full", "new_zeros", "new_ones"}) {
    tensor.def(
        name,
        [creator, name](const py::object& self, const py::args& arguments, const py::kwargs& named)
            -> py::object { return creator(name)(self, *arguments, **named); },
        fmt::format("See tensord.{}.", name).c_str());
  }
}

}  // namespace tensord::python
