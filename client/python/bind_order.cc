// Tensor: running reductions, sorting, and what follows from sorting.
#include "client/python/bind.h"
#include "core/base/status.h"
#include "core/tensor/compact.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/index.h"
#include "core/tensor/movement.h"
#include "core/tensor/order.h"
#include "core/tensor/scan.h"

namespace tensord::python {
namespace {

py::tuple Pair(const char* name, const Tensor& x,
               const std::function<Sorted(const Expr&)>& function) {
  const std::vector<Tensor> both =
      LiftMany({x}, 2, [&](absl::Span<const Expr> e) -> std::vector<Expr> {
        Sorted sorted = function(e[0]);
        return {sorted.values, sorted.indices};
      });
  return Named(name, py::make_tuple(both[0], both[1]));
}

// Values and indices along an axis; the value alone, of all elements, without one.
template <typename Function>
py::object AlongOrOfAll(const char* name, const Tensor& x, py::handle dim, bool keepdim,
                        Function function) {
  if (dim.is_none()) {
    return py::cast(
        Checked(Lift([&](const Expr& e) { return function(Flatten(e), 0, kDropDims).values; }, x)));
  }
  const int64_t axis = dim.cast<int64_t>();
  return Pair(name, x,
              [&](const Expr& e) { return function(e, axis, keepdim ? kKeepDims : kDropDims); });
}

template <typename Function>
Tensor QuantileOf(const Tensor& x, py::handle q, py::handle dim, bool keepdim,
                  const std::string& interpolation, Function function) {
  const std::optional<Interpolation> how = InterpolationOf(interpolation);
  if (!how) {
    Raise(InvalidArgument(
        "quantile: interpolation '{}' is not one of linear, lower, higher, nearest, midpoint",
        interpolation));
  }
  const Tensor at = ToTensor(q);
  const std::optional<int64_t> axis =
      dim.is_none() ? std::nullopt : std::optional(dim.cast<int64_t>());
  return Checked(Lift(
      [&](const Expr& e, const Expr& places) {
        if (axis) return function(e, places, *axis, keepdim ? kKeepDims : kDropDims, *how);
        const Expr result = function(Flatten(e), places, 0, kDropDims, *how);
        if (!keepdim || !result.ok()) return result;
        std::vector<int64_t> dims(result.shape().begin(), result.shape().end());
        dims.insert(dims.end(), e.rank(), 1);
        return Reshape(result, dims);
      },
      x, at));
}

Tensor SearchSortedOf(const Tensor& sorted, py::handle values, bool right) {
  return Checked(Lift([=](const Expr& s, const Expr& v) { return SearchSorted(s, v, right); },
                      sorted, ToTensor(values)));
}

// PyTorch says `right` in two ways.
bool IsRight(const std::optional<std::string>& side, bool right) {
  if (!side) return right;
  if (*side != "left" && *side != "right") {
    Raise(InvalidArgument("searchsorted: side is 'left' or 'right', not '{}'", *side));
  }
  if (right && *side == "left") {
    Raise(InvalidArgument("searchsorted: side 'left' and right contradict each other"));
  }
  return *side == "right";
}

py::object UniqueOf(const Tensor& x, const UniqueOptions& options, bool return_inverse,
                    bool return_counts) {
  const Tensor number =
      Checked(Lift([&](const Expr& e) { return FindDistinct(e, options).count; }, x));
  const int64_t count = CountOf(number);
  const std::vector<Tensor> parts =
      LiftMany({x}, 3, [&](absl::Span<const Expr> e) -> std::vector<Expr> {
        UniqueResult result = Unique(e[0], count, options);
        return {result.values, result.inverse, result.counts};
      });
  if (!return_inverse && !return_counts) return py::cast(parts[0]);
  if (!return_counts) return Named("unique_inverse", py::make_tuple(parts[0], parts[1]));
  if (!return_inverse) return Named("unique_counts", py::make_tuple(parts[0], parts[2]));
  return Named("unique_all", py::make_tuple(parts[0], parts[1], parts[2]));
}

Tensor MultinomialOf(const Tensor& weights, int64_t count, bool replacement,
                     const std::optional<Generator>& generator) {
  const client::GeneratorScope scope(Own(generator));
  if (weights.rank() < 1 || weights.rank() > 2) {
    Raise(
        InvalidArgument("multinomial: weights have {} axes, they need one or two", weights.rank()));
  }
  const int64_t classes = weights.shape().back();
  if (count < 1 || (!replacement && count > classes)) {
    Raise(InvalidArgument("multinomial: {} samples of {} classes{}", count, classes,
                          replacement ? "" : " without replacement"));
  }
  Ints shape = weights.shape();
  if (replacement) shape.back() = count;
  return Checked(
      Lift([&](const Expr& w, const Expr& u) { return Multinomial(w, u, count, replacement); },
           weights, Checked(CurrentClient().Rand(shape, DType::kFloat32))));
}

}  // namespace

void BindOrder(py::module_& module, py::class_<Tensor>& tensor) {
  const auto along = [&tensor](const char* name, auto function, const char* doc) {
    tensor.def(
        name,
        [function](const Tensor& x, int64_t dim) {
          return Checked(Lift([&](const Expr& e) { return function(e, dim); }, x));
        },
        py::arg("dim") = 0, doc);
  };
  along(
      "cumsum", [](const Expr& e, int64_t dim) { return CumSum(e, dim); },
      "Running sums along an axis, in order. bool and narrow integers are summed as int32 or "
      "uint32; narrow floats in float32, rounded at each element. IndexError for a bad axis.");
  along(
      "cumprod", [](const Expr& e, int64_t dim) { return CumProd(e, dim); },
      "Running products along an axis, in the tensor's dtype.");
  along(
      "logcumsumexp", [](const Expr& e, int64_t dim) { return LogCumSumExp(e, dim); },
      "log(cumsum(exp(x))) without overflow or underflow; float32 of integers.");
  const auto extremes = [&tensor](const char* name, CumExtreme (*function)(const Expr&, int64_t),
                                  const char* doc) {
    tensor.def(
        name,
        [name, function](const Tensor& x, int64_t dim) {
          return Pair(name, x, [&](const Expr& e) {
            const CumExtreme result = function(e, dim);
            return Sorted{result.values, result.indices};
          });
        },
        py::arg("dim") = 0, doc);
  };
  extremes("cummax", &CumMax,
           "(values, int32 indices) of the largest so far, the first of ties. NaN stays.");
  extremes("cummin", &CumMin,
           "(values, int32 indices) of the smallest so far, the first of ties. NaN stays.");

  tensor
      .def(
          "sort",
          [](const Tensor& x, int64_t dim, bool descending, bool) {
            return Pair("sort", x, [&](const Expr& e) { return Sort(e, dim, descending); });
          },
          py::arg("dim") = -1, py::arg("descending") = false, py::arg("stable") = true,
          "(values, int32 indices), always stable. NaN counts as larger than every number.")
      .def(
          "argsort",
          [](const Tensor& x, int64_t dim, bool descending, bool) {
            return Checked(Lift([=](const Expr& e) { return ArgSort(e, dim, descending); }, x));
          },
          py::arg("dim") = -1, py::arg("descending") = false, py::arg("stable") = true,
          "int32 indices that sort along the axis, stably.")
      .def(
          "msort",
          [](const Tensor& x) {
            return Checked(Lift([](const Expr& e) { return Sort(e, 0).values; }, x));
          },
          "Sorted along the first axis.")
      .def(
          "topk",
          [](const Tensor& x, int64_t k, int64_t dim, bool largest, bool) {
            return Pair("topk", x, [&](const Expr& e) { return TopK(e, k, dim, largest); });
          },
          py::arg("k"), py::arg("dim") = -1, py::arg("largest") = true, py::arg("sorted") = true,
          "(values, int32 indices) of the k largest, in order whatever `sorted` says; of ties the "
          "first. ValueError for a k beyond the axis.")
      .def(
          "kthvalue",
          [](const Tensor& x, int64_t k, int64_t dim, bool keepdim) {
            return Pair("kthvalue", x, [&](const Expr& e) {
              return KthValue(e, k, dim, keepdim ? kKeepDims : kDropDims);
            });
          },
          py::arg("k"), py::arg("dim") = -1, py::arg("keepdim") = false,
          "(value, int32 index) of the k-th smallest, counted from 1.")
      .def(
          "mode",
          [](const Tensor& x, int64_t dim, bool keepdim) {
            return Pair("mode", x, [&](const Expr& e) {
              return Mode(e, dim, keepdim ? kKeepDims : kDropDims);
            });
          },
          py::arg("dim") = -1, py::arg("keepdim") = false,
          "(value, int32 index) of the most frequent value, the smallest of several; the index is "
          "that of its last occurrence.")
      .def(
          "median",
          [](const Tensor& x, py::handle dim, bool keepdim) {
            return AlongOrOfAll("median", x, dim, keepdim, &Median);
          },
          py::arg("dim") = py::none(), py::arg("keepdim") = false,
          "(value, int32 index), the lower of two in the middle; NaN if there is one. The value "
          "alone, of all elements, without `dim`.")
      .def(
          "nanmedian",
          [](const Tensor& x, py::handle dim, bool keepdim) {
            return AlongOrOfAll("nanmedian", x, dim, keepdim, &NanMedian);
          },
          py::arg("dim") = py::none(), py::arg("keepdim") = false, "median, leaving NaN out.")
      .def(
          "quantile",
          [](const Tensor& x, py::handle q, py::handle dim, bool keepdim,
             const std::string& interpolation) {
            return QuantileOf(x, q, dim, keepdim, interpolation, &Quantile);
          },
          py::arg("q"), py::arg("dim") = py::none(), py::arg("keepdim") = false, py::kw_only(),
          py::arg("interpolation") = "linear",
          "The value below which a part q in [0, 1] lies; q is a number or one row, whose axis "
          "comes first in the result. Of floats only; NaN if there is one.")
      .def(
          "nanquantile",
          [](const Tensor& x, py::handle q, py::handle dim, bool keepdim,
             const std::string& interpolation) {
            return QuantileOf(x, q, dim, keepdim, interpolation, &NanQuantile);
          },
          py::arg("q"), py::arg("dim") = py::none(), py::arg("keepdim") = false, py::kw_only(),
          py::arg("interpolation") = "linear", "quantile, leaving NaN out.")
      .def(
          "searchsorted",
          [](const Tensor& sorted, py::handle values, bool, bool right,
             const std::optional<std::string>& side, const std::optional<Tensor>& sorter) {
            const bool from_right = IsRight(side, right);
            if (!sorter) return SearchSortedOf(sorted, values, from_right);
            const Tensor inside =
                Checked(Lift([](const Expr& e, const Expr& i) { return GatherAlong(e, -1, i); },
                             sorted, *sorter));
            return SearchSortedOf(inside, values, from_right);
          },
          py::arg("values"), py::kw_only(), py::arg("out_int32") = true, py::arg("right") = false,
          py::arg("side") = py::none(), py::arg("sorter") = py::none(),
          "Called on a sorted sequence [n], or [.., n] with values [.., m]: int32, how many of its "
          "elements are less than each value, with `right` or side 'right' how many are not "
          "greater. "
          "With a sorter, as argsort gives it, the sequence need not be sorted.")
      .def(
          "bucketize",
          [](const Tensor& x, py::handle boundaries, bool, bool right) {
            return SearchSortedOf(ToTensor(boundaries), py::cast(x), right);
          },
          py::arg("boundaries"), py::kw_only(), py::arg("out_int32") = true,
          py::arg("right") = false,
          "int32, between which of the sorted boundaries each element lies.")
      .def(
          "isin",
          [](const Tensor& x, py::handle elements, bool invert) {
            return Checked(Lift(
                [=](const Expr& e, const Expr& of) {
                  const Expr found = IsIn(e, of);
                  return invert ? LogicalNot(found) : found;
                },
                x, ToTensor(elements)));
          },
          py::arg("test_elements"), py::kw_only(), py::arg("invert") = false,
          "bool, whether each element occurs among `test_elements`.")
      .def(
          "unique",
          [](const Tensor& x, bool, bool return_inverse, bool return_counts,
             std::optional<int64_t> dim) {
            return UniqueOf(x, {.axis = dim}, return_inverse, return_counts);
          },
          py::arg("sorted") = true, py::arg("return_inverse") = false,
          py::arg("return_counts") = false, py::arg("dim") = py::none(),
          "The distinct values, or slices of an axis, sorted whatever `sorted` says; also which of "
          "them each element (each slice) is, and how often each occurs (int32). Computes: the "
          "number "
          "of values is read back.")
      .def(
          "unique_consecutive",
          [](const Tensor& x, bool return_inverse, bool return_counts, std::optional<int64_t> dim) {
            return UniqueOf(x, {.consecutive = true, .axis = dim}, return_inverse, return_counts);
          },
          py::arg("return_inverse") = false, py::arg("return_counts") = false,
          py::arg("dim") = py::none(),
          "unique, where only equal neighbours count as one; the order stays.")
      .def("multinomial", &MultinomialOf, py::arg("num_samples") = 1,
           py::arg("replacement") = false, py::kw_only(), py::arg("generator") = py::none(),
           "int32 samples of classes by weights [classes] or [rows, classes]. ValueError for more "
           "samples than classes without replacement.");

  module.def(
      "_randperm",
      [](int64_t n, py::handle dtype, const std::optional<Generator>& generator) {
        const client::GeneratorScope scope(Own(generator));
        if (n < 0) Raise(InvalidArgument("randperm: {} is negative", n));
        const Tensor draws =
            Checked(CurrentClient().RandInt({n}, std::numeric_limits<int32_t>::min(),
                                            std::numeric_limits<int32_t>::max(), DType::kInt32));
        const DType type = dtype.is_none() ? DType::kInt32 : ParseDType(dtype);
        return Checked(
            Lift([=](const Expr& e) { return tensord::Cast(ArgSort(e, 0), type); }, draws));
      },
      py::arg("n"), py::arg("dtype") = py::none(), py::arg("generator") = py::none());
}

}  // namespace tensord::python
