// Tensor: reductions, and what is made of them.
#include "client/python/bind.h"
#include "client/python/lift.h"
#include "core/base/status.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/join.h"
#include "core/tensor/linalg.h"
#include "core/tensor/movement.h"
#include "core/tensor/order.h"
#include "core/tensor/statistics.h"

namespace tensord::python {
// How PyTorch says the correction: a number, unbiased or not, also in place of the axes, or None.
struct Deviations {
  Axes axes;
  std::optional<bool> unbiased;

  double Correction(std::optional<double> correction, std::optional<bool> flag) const {
    if (const std::optional<bool> either = unbiased ? unbiased : flag) return *either ? 1 : 0;
    return correction.value_or(1);
  }
};

template <>
struct Parameter<Deviations> {
  using Python = py::handle;
  using Held = Deviations;
  static Held Hold(py::handle dim, Operands& operands) {
    if (PyBool_Check(dim.ptr())) return {Axes(), dim.ptr() == Py_True};
    return {Parameter<Axes>::Hold(dim, operands), std::nullopt};
  }
  static const Deviations& Give(const Held& held, absl::Span<const Expr>) { return held; }
};

namespace {

using Reducer = Expr (*)(const Expr&, const Axes&, Keep);
struct ReductionRow {
  const char* name;
  Reducer function;
  bool takes_dtype;  // in which it is computed, and which the result has
  const char* doc;
};

constexpr ReductionRow kReductions[] = {
    // clang-format off
    {"sum",           Sum,          true,  "bool and narrow integers give int32 or uint32; floats below float32 are summed in float32."},
    {"prod",          Prod,         true,  "In the dtype of x."},
    {"mean",          Mean,         true,  "Integers give float32; of no elements it is NaN."},
    {"nansum",        NanSum,       true,  "The sum, where NaN counts as 0."},
    {"nanmean",       NanMean,      true,  "The mean of what is not NaN."},
    {"amax",          Max,          false, "The largest; NaN if there is one. Ties share the derivative. No elements are an error."},
    {"amin",          Min,          false, "The smallest; NaN if there is one. Ties share the derivative. No elements are an error."},
    {"count_nonzero", CountNonzero, false, "int32: how many are not 0."},
    {"logsumexp",     LogSumExp,    false, "log(sum(exp(x))), without overflow on the way."},
    // clang-format on
};

Expr AsDType(const Expr& x, std::optional<DType> dtype) { return dtype ? Cast(x, *dtype) : x; }

// max and min, as PyTorch overloads them: with another tensor, elementwise; with the keyword `dim`
// and one axis, values and places. Else, as in NumPy, the values only.
void BindExtreme(py::class_<Tensor>& tensor, const char* name, Reducer reduce,
                 Expr (*with)(const Expr&, const Expr&), Sorted (*at)(const Expr&, int64_t, Keep),
                 const char* doc) {
  tensor
      .def(
          name,
          [with](const Tensor& x, const Tensor& other) {
            return Checked(
                Lift([&](const Expr& a, const Expr& b) { return with(a, b); }, x, other));
          },
          py::arg("other"), doc)
      .def(name, Lifted(reduce), py::arg("axis") = py::none(), py::arg("keepdim") = false)
      .def(name,
           Lifted(
               [at](const Expr& x, int64_t dim, Keep keep) {
                 const Sorted found = at(x, dim, keep);
                 return std::pair<Expr, Expr>(found.values, found.indices);
               },
               name),
           py::kw_only(), py::arg("dim"), py::arg("keepdim") = false)
      .def(name, Lifted(reduce), py::kw_only(), py::arg("dim"), py::arg("keepdim") = false);
}

// Over one axis, or over all elements as one row.
auto ArgExtreme(Expr (*function)(const Expr&, int64_t, Keep)) {
  return [=](const Expr& x, std::optional<int64_t> dim, Keep keep) -> Expr {
    if (dim || !x.ok()) return dim ? function(x, *dim, keep) : x;
    const Expr flat = function(Flatten(x), 0, kDropDims);
    const Dims ones(x.rank(), 1);
    return keep == kKeepDims ? Reshape(flat, ones) : flat;
  };
}

double NormOrder(const py::object& p) {
  if (py::isinstance<py::str>(p)) {
    const std::string name = p.cast<std::string>();
    if (name == "fro") return 2;
    Raise(InvalidArgument("norm: p is a number, 'fro' or 'nuc', not '{}'", name));
  }
  // It is asked for inside of an operation, where no tensor can be read.
  if (py::isinstance<Tensor>(p)) throw py::type_error("norm: p is a number or 'fro', no tensor");
  return p.is_none() ? 2 : p.cast<double>();
}

void BindMoments(py::class_<Tensor>& tensor) {
  using Pair = std::pair<Expr, Expr>;
  const auto bind = [&tensor](const char* name, auto function, const char* doc) {
    Method(tensor, name, function, doc, py::arg("dim") = py::none(), py::arg("keepdim") = false,
           py::arg("correction") = 1, py::arg("unbiased") = py::none());
  };
  bind(
      "var",
      [](const Expr& x, const Deviations& over, Keep keep, std::optional<double> correction,
         std::optional<bool> unbiased) {
        return Var(x, over.axes, over.Correction(correction, unbiased), keep);
      },
      "The mean square of deviations, divided by max(n - correction, 0). A bool in place of the "
      "axes, "
      "or `unbiased`, is the correction 1 or 0. Integers give float32.");
  bind(
      "std",
      [](const Expr& x, const Deviations& over, Keep keep, std::optional<double> correction,
         std::optional<bool> unbiased) {
        return Std(x, over.axes, over.Correction(correction, unbiased), keep);
      },
      "The root of var.");
  bind(
      "var_mean",
      [](const Expr& x, const Deviations& over, Keep keep, std::optional<double> correction,
         std::optional<bool> unbiased) {
        const Moments moments = VarMean(x, over.axes, over.Correction(correction, unbiased), keep);
        return Pair(moments.var, moments.mean);
      },
      "(var, mean).");
  bind(
      "std_mean",
      [](const Expr& x, const Deviations& over, Keep keep, std::optional<double> correction,
         std::optional<bool> unbiased) {
        const Moments moments = VarMean(x, over.axes, over.Correction(correction, unbiased), keep);
        return Pair(Sqrt(moments.var), moments.mean);
      },
      "(std, mean).");
}

void BindSoftmax(py::class_<Tensor>& tensor) {
  const auto bind = [&tensor](const char* name, auto function, const char* doc) {
    Method(tensor, name, function, doc, py::arg("dim") = -1, py::arg("dtype") = py::none());
  };
  bind(
      "softmax",
      [](const Expr& x, int64_t dim, std::optional<DType> dtype) {
        return Softmax(AsDType(x, dtype), dim);
      },
      "exp(x) over its sum along an axis, without overflow on the way.");
  bind(
      "log_softmax",
      [](const Expr& x, int64_t dim, std::optional<DType> dtype) {
        return LogSoftmax(AsDType(x, dtype), dim);
      },
      "The logarithm of softmax, accurate for small ones.");
  bind(
      "softmin",
      [](const Expr& x, int64_t dim, std::optional<DType> dtype) {
        return Softmax(-AsDType(x, dtype), dim);
      },
      "softmax(-x).");
}

void BindStatistics(py::class_<Tensor>& tensor) {
  Method(
      tensor, "norm",
      [](const Expr& x, py::object p, const Axes& axes, Keep keep, std::optional<DType> dtype) {
        if (py::isinstance<py::str>(p) && p.cast<std::string>() == "nuc") {
          return MatrixNorm(AsDType(x, dtype), MatrixNormKind::kNuclear, axes, keep);
        }
        return VectorNorm(AsDType(x, dtype), NormOrder(p), axes, keep);
      },
      "(sum of |x|^p)^(1/p) over axes, all together; p may be inf, -inf, 0 or 'fro', or "
      "'nuc', the sum of singular values over two axes. Its "
      "derivative "
      "at 0 is 0.",
      py::arg("p") = 2.0, py::arg("dim") = py::none(), py::arg("keepdim") = false,
      py::arg("dtype") = py::none());
  Method(
      tensor, "normalize",
      [](const Expr& x, double p, int64_t dim, double eps) {
        return NormalizeNorm(x, p, dim, eps);
      },
      "x by its norm along an axis, or by eps if that is larger.", py::arg("p") = 2.0,
      py::arg("dim") = 1, py::arg("eps") = 1e-12);
  Method(
      tensor, "dist", [](const Expr& x, const Expr& other, double p) { return Dist(x, other, p); },
      "The norm of the difference.", py::arg("other"), py::arg("p") = 2.0);
  Method(
      tensor, "diff",
      [](const Expr& x, int64_t n, int64_t dim, const std::optional<Expr>& prepend,
         const std::optional<Expr>& append) { return Diff(x, n, dim, prepend, append); },
      "The difference of neighbours along an axis, n times over, with `prepend` before x and "
      "`append` behind it; x itself for n = 0.",
      py::arg("n") = 1, py::arg("dim") = -1, py::arg("prepend") = py::none(),
      py::arg("append") = py::none());
  Method(
      tensor, "trapezoid",
      [](const Expr& y, const std::optional<Expr>& x, double dx, int64_t dim) {
        return Trapezoid(y, x, dx, dim);
      },
      "The integral along an axis by the trapezoidal rule, of values at the points x, or dx apart.",
      py::arg("x") = py::none(), py::kw_only(), py::arg("dx") = 1.0, py::arg("dim") = -1);
  Method(
      tensor, "cumulative_trapezoid",
      [](const Expr& y, const std::optional<Expr>& x, double dx, int64_t dim) {
        return CumulativeTrapezoid(y, x, dx, dim);
      },
      "The integrals up to each point but the first, by the trapezoidal rule.",
      py::arg("x") = py::none(), py::kw_only(), py::arg("dx") = 1.0, py::arg("dim") = -1);
  Method(
      tensor, "renorm",
      [](const Expr& x, double p, int64_t dim, double maxnorm) {
        return Renorm(x, p, dim, maxnorm);
      },
      "x, of which those slices of an axis whose p-norm is larger than maxnorm are scaled down to "
      "it. Floats of two axes or more.",
      py::arg("p"), py::arg("dim"), py::arg("maxnorm"));
  Method(
      tensor, "cov",
      [](const Expr& x, int64_t correction, const std::optional<Expr>& fweights,
         const std::optional<Expr>& aweights) {
        return Covariance(x, {correction, fweights, aweights});
      },
      "The covariance of variables, the rows, over observations, the columns.", py::kw_only(),
      py::arg("correction") = 1, py::arg("fweights") = py::none(),
      py::arg("aweights") = py::none());
  Method(
      tensor, "corrcoef", [](const Expr& x) { return Correlation(x); },
      "The correlation of variables, the rows, over observations, the columns.");
}

}  // namespace

void BindReduce(py::class_<Tensor>& tensor) {
  for (const ReductionRow& row : kReductions) {
    if (row.takes_dtype) {
      Method(
          tensor, row.name,
          [function = row.function](const Expr& x, const Axes& axes, Keep keep,
                                    std::optional<DType> dtype) {
            return AsDType(function(AsDType(x, dtype), axes, keep), dtype);
          },
          row.doc, py::arg("dim") = py::none(), py::arg("keepdim") = false,
          py::arg("dtype") = py::none());
    } else {
      Method(tensor, row.name, row.function, row.doc, py::arg("dim") = py::none(),
             py::arg("keepdim") = false);
    }
  }
  const auto bind_exact = [&tensor](const char* name, Reducer reduce, const char* doc) {
    Method(
        tensor, name,
        [reduce](const Expr& x, const ExactAxes& over, Keep keep) {
          return reduce(x, over.axes, keep);
        },
        doc, py::arg("dim") = py::none(), py::arg("keepdim") = false);
  };
  bind_exact("any", Any, "bool: whether one is not 0. Over no axes, (), each element by itself.");
  bind_exact("all", All, "bool: whether none is 0. Over no axes, (), each element by itself.");
  BindExtreme(
      tensor, "max", Max, Maximum, MaxAt,
      "max(), max(axis): the largest over all elements or axes, alone. max(dim=1), by the "
      "keyword and of\none axis, is PyTorch's: (values, indices), int32 places of the first "
      "of ties, which alone has the\nderivative. max(other) is maximum. NaN if there is one. "
      "No elements are an error.");
  BindExtreme(
      tensor, "min", Min, Minimum, MinAt,
      "min(), min(axis): the smallest over all elements or axes, alone. min(dim=1), by the "
      "keyword and of\none axis, is PyTorch's: (values, indices), int32 places of the first "
      "of ties, which alone has the\nderivative. min(other) is minimum. NaN if there is one. "
      "No elements are an error.");
  tensor.def(
      "sum_to_size",
      [](const Tensor& x, const py::args& size) {
        const Ints shape = ParseSizes(size);
        return Checked(Lift([&](const Expr& e) { return SumTo(e, shape); }, x));
      },
      "The sum over axes that are 1 or absent in a shape which broadcasts to that of self, in that "
      "shape. ValueError\nif it does not.");
  Method(
      tensor, "aminmax",
      [](const Expr& x, const Axes& axes, Keep keep) {
        return std::pair<Expr, Expr>(Min(x, axes, keep), Max(x, axes, keep));
      },
      "(amin, amax).", py::kw_only(), py::arg("dim") = py::none(), py::arg("keepdim") = false);
  Method(tensor, "argmax", ArgExtreme(ArgMax),
         "int32: where the largest is, the first of ties; NaN counts as the largest. Without an "
         "axis, among all elements in order.",
         py::arg("dim") = py::none(), py::arg("keepdim") = false);
  Method(tensor, "argmin", ArgExtreme(ArgMin),
         "int32: where the smallest is, the first of ties; NaN counts as the smallest.",
         py::arg("dim") = py::none(), py::arg("keepdim") = false);
  BindMoments(tensor);
  BindSoftmax(tensor);
  BindStatistics(tensor);
}

}  // namespace tensord::python
