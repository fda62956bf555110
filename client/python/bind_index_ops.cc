// Tensor: reading and writing by index, and picking by a condition.
#include <numeric>

#include "client/cc/ops.h"
#include "client/python/bind.h"
#include "core/base/status.h"
#include "core/tensor/compact.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/histogram.h"
#include "core/tensor/index.h"
#include "core/tensor/movement.h"
#include "core/tensor/order.h"
#include "core/tensor/reduce.h"
#include "core/tensor/scatter.h"

namespace tensord::python {
namespace {

ReduceMode ParseMode(std::string_view name, const std::string& reduce, std::string_view known,
                     bool has_sum) {
  const std::optional<ReduceMode> mode = ReduceModeOf(reduce);
  if (!mode || (*mode == ReduceMode::kSum && !has_sum)) {
    Raise(InvalidArgument("{}: reduce is '{}', not one of {}", name, reduce, known));
  }
  return *mode;
}

// A number or data becomes a tensor of x's dtype, as does a weak one that fits; others stay.
Tensor Beside(const Tensor& x, py::handle value) {
  if (!py::isinstance<Tensor>(value)) return ToTensor(value, x.dtype());
  const Tensor given = value.cast<Tensor>();
  const bool fits = IsWeak(given.dtype()) && Promote(x.dtype(), given.dtype()) == x.dtype();
  return fits ? Checked(Cast(given, x.dtype())) : given;
}

Tensor ScatterOf(const Tensor& x, int64_t dim, const Tensor& index, py::handle src,
                 py::handle reduce) {
  const bool is_tensor = py::isinstance<Tensor>(src);
  ScatterKind kind = ScatterKind::kSet;
  if (!reduce.is_none()) {
    const std::string name = reduce.cast<std::string>();
    if (name != "add" && name != "multiply") {
      Raise(InvalidArgument("scatter: reduce is '{}', not one of add, multiply", name));
    }
    if (is_tensor) {
      throw py::type_error(
          "scatter: reduce takes a number as src; scatter_reduce and scatter_add take tensors");
    }
    kind = name == "add" ? ScatterKind::kAdd : ScatterKind::kMul;
  }
  if (is_tensor) {
    return Checked(Lift([=](const Expr& e, const Expr& i,
                            const Expr& s) { return ScatterAlong(e, dim, i, s, kind); },
                        x, index, src.cast<Tensor>()));
  }
  const std::optional<Number> number = AsNumber(src);
  if (!number) throw py::type_error("scatter: src is a tensor or a number");
  return Checked(Lift(
      [&](const Expr& e, const Expr& i) {
        return ScatterAlong(e, dim, i, Full(e.graph(), i.shape(), *number, e.dtype()), kind);
      },
      x, index));
}

// How many elements hold, read back.
int64_t CountTrue(const Tensor& x) {
  return CountOf(
      Checked(Lift([](const Expr& e) { return Sum(tensord::Cast(AsBool(e), DType::kInt64)); }, x)));
}

// The places of elements that are not 0, an index for each axis.
std::vector<Tensor> NonZeroColumns(const Tensor& x, std::optional<int64_t> size, Number fill) {
  if (!size) size = CountTrue(x);
  const int64_t axes = std::max<int64_t>(x.rank(), 1);  // a number is a row of one
  return LiftMany({x}, static_cast<size_t>(axes), [&](absl::Span<const Expr> e) {
    const Expr places = NonZero(e[0].rank() == 0 ? Reshape(e[0], {1}) : e[0], *size, fill);
    std::vector<Expr> columns;
    for (int64_t axis = 0; axis < axes; ++axis) columns.push_back(Select(places, 1, axis));
    return columns;
  });
}

// The index of each axis of a bool mask over axes of x from `first` on: where it holds, read back.
std::vector<Tensor> PlacesOf(const Tensor& x, int64_t first, const Tensor& mask) {
  bool fits = first + mask.rank() <= x.rank();
  for (int64_t i = 0; fits && i < mask.rank(); ++i) fits = mask.shape()[i] == x.shape()[first + i];
  if (!fits || mask.rank() == 0) {
    Raise(MakeStatus(absl::StatusCode::kOutOfRange,
                     "index_put: a mask {} does not fit axes of {} from axis {} on",
                     client::TextOf(mask.shape()), client::TextOf(x.shape()), first));
  }
  return NonZeroColumns(mask, std::nullopt, 0);
}

Tensor IndexPut(const Tensor& x, const py::sequence& indices, py::handle values, bool accumulate) {
  std::vector<Tensor> operands = {x, Beside(x, values)};
  // A list of its own holds what a sequence makes only when it is asked.
  for (py::handle item : py::list(indices)) {
    const Tensor index = ToTensor(item);
    if (index.dtype() != DType::kBool) {
      operands.push_back(index);
      continue;
    }
    for (Tensor& each : PlacesOf(x, static_cast<int64_t>(operands.size()) - 2, index)) {
      operands.push_back(std::move(each));
    }
  }
  Ints axes(operands.size() - 2);
  std::iota(axes.begin(), axes.end(), 0);
  const ScatterKind kind = accumulate ? ScatterKind::kAdd : ScatterKind::kSet;
  return LiftMany(operands, 1, [&](absl::Span<const Expr> e) -> std::vector<Expr> {
    return {ScatterAt(e[0], axes, e.subspan(2), e[1], kind)};
  })[0];
}

Tensor MaskedSelectOf(const Tensor& x, const Tensor& mask, std::optional<int64_t> size,
                      py::handle fill_value) {
  const std::optional<Number> fill = AsNumber(fill_value);
  if (!fill) throw py::type_error("masked_select: fill_value is a number");
  if (!size) {
    // What counts is the mask as it is broadcast.
    size = CountTrue(Checked(Lift(
        [](const Expr& e, const Expr& m) {
          return LogicalAnd(m, LogicalOr(AsBool(e), LogicalNot(AsBool(e))));
        },
        x, mask)));
  }
  return Checked(Lift(
      [&](const Expr& e, const Expr& m) { return MaskedSelect(e, m, *size, *fill); }, x, mask));
}

py::object NonZeroOf(const Tensor& x, std::optional<int64_t> size, py::handle fill_value,
                     bool as_tuple) {
  const std::optional<Number> fill = AsNumber(fill_value);
  if (!fill) throw py::type_error("nonzero: fill_value is a number");
  if (as_tuple) return py::tuple(py::cast(NonZeroColumns(x, size, *fill)));
  if (!size) size = CountTrue(x);
  return py::cast(Checked(Lift([&](const Expr& e) { return NonZero(e, *size, *fill); }, x)));
}

Tensor BinCountOf(const Tensor& x, py::handle weights, int64_t minlength) {
  if (x.rank() != 1) Raise(InvalidArgument("bincount: x has {} axes, it must have one", x.rank()));
  int64_t size = minlength;
  if (x.num_elements() > 0) {
    const auto extremes = LiftMany({x}, 2, [](absl::Span<const Expr> e) -> std::vector<Expr> {
      return {tensord::Cast(Min(e[0]), DType::kInt64), tensord::Cast(Max(e[0]), DType::kInt64)};
    });
    if (CountOf(extremes[0]) < 0) Raise(InvalidArgument("bincount: x has negative elements"));
    size = std::max(size, CountOf(extremes[1]) + 1);
  }
  if (weights.is_none()) return Checked(Lift([=](const Expr& e) { return BinCount(e, size); }, x));
  return Checked(Lift([=](const Expr& e, const Expr& w) { return BinCount(e, size, w); }, x,
                      ToTensor(weights)));
}

py::tuple HistogramOf(const Tensor& x, py::handle bins, py::handle range, py::handle weight,
                      bool density) {
  std::vector<Tensor> operands = {x};
  int64_t count = 0;
  std::optional<std::pair<double, double>> ends;
  const bool has_edges = py::isinstance<Tensor>(bins) || !PyIndex_Check(bins.ptr());
  if (has_edges) {
    operands.push_back(Checked(Cast(ToTensor(bins), x.dtype())));
  } else {
    count = bins.cast<int64_t>();
    if (!range.is_none()) ends = range.cast<std::pair<double, double>>();
  }
  if (!weight.is_none()) operands.push_back(ToTensor(weight));
  const std::vector<Tensor> both =
      LiftMany(operands, 2, [&](absl::Span<const Expr> e) -> std::vector<Expr> {
        std::optional<Expr> edges, weights;
        if (has_edges) edges = e[1];
        if (!weight.is_none()) weights = e.back();
        if (!edges) edges = HistogramEdges(e[0], count, ends);
        return {Histogram(e[0], *edges, weights, density), *edges};
      });
  return Named("histogram", py::make_tuple(both[0], both[1]));
}

// bins: a number for all axes, one for each, or the edges of each.
py::tuple HistogramOfPointsOf(const Tensor& x, py::handle bins, py::handle range, py::handle weight,
                              bool density) {
  const int64_t axes = x.rank() == 0 ? 0 : x.shape().back();
  std::vector<Tensor> operands = {x};
  Ints counts;
  const bool one = !py::isinstance<Tensor>(bins) && PyIndex_Check(bins.ptr());
  if (one) {
    counts.assign(static_cast<size_t>(axes), bins.cast<int64_t>());
  } else {
    for (py::handle item : py::list(py::reinterpret_borrow<py::object>(bins))) {
      if (!py::isinstance<Tensor>(item) && PyIndex_Check(item.ptr())) {
        counts.push_back(item.cast<int64_t>());
      } else {
        operands.push_back(Checked(Cast(ToTensor(item), x.dtype())));
      }
    }
  }
  const size_t given = operands.size() - 1, all = given + counts.size();
  if (static_cast<int64_t>(all) != axes || (given > 0 && !counts.empty()) || axes == 0) {
    Raise(InvalidArgument(
        "histogramdd: bins for {} axes and points {}; give one number, or a number or edges for "
        "each axis",
        all, client::TextOf(x.shape())));
  }
  std::vector<double> ends;
  if (!range.is_none()) ends = range.cast<std::vector<double>>();
  if (!ends.empty() && ends.size() != 2 * all) {
    Raise(InvalidArgument("histogramdd: range has {} numbers, it needs two for each of {} axes",
                          ends.size(), all));
  }
  if (!weight.is_none()) operands.push_back(ToTensor(weight));
  const std::vector<Tensor> made =
      LiftMany(operands, all + 1, [&](absl::Span<const Expr> e) -> std::vector<Expr> {
        std::vector<Expr> edges(e.begin() + 1, e.begin() + 1 + static_cast<ptrdiff_t>(given));
        for (size_t i = 0; i < counts.size(); ++i) {
          std::optional<std::pair<double, double>> each;
          if (!ends.empty()) each = {ends[2 * i], ends[2 * i + 1]};
          edges.push_back(
              HistogramEdges(Select(e[0], -1, static_cast<int64_t>(i)), counts[i], each));
        }
        std::optional<Expr> weights;
        if (!weight.is_none()) weights = e.back();
        std::vector<Expr> results = {HistogramOfPoints(e[0], edges, weights, density)};
        results.insert(results.end(), edges.begin(), edges.end());
        return results;
      });
  return Named("histogramdd", py::make_tuple(made[0], py::tuple(py::cast(std::vector<Tensor>(
                                                          made.begin() + 1, made.end())))));
}

}  // namespace

void BindIndexOps(py::class_<Tensor>& tensor) {
  tensor
      .def(
          "gather",
          [](const Tensor& x, int64_t dim, const Tensor& index) {
            return Checked(Lift(
                [dim](const Expr& e, const Expr& i) { return GatherAlong(e, dim, i); }, x, index));
          },
          py::arg("dim"), py::arg("index"),
          "x[i][index[i][j]] for dim 1; `index` has x's rank and is no larger on the other axes. "
          "An "
          "index outside, negative ones included, reads as 0.")
      .def(
          "take",
          [](const Tensor& x, const Tensor& index) {
            return Checked(Lift([](const Expr& e, const Expr& i) { return Take(e, i); }, x, index));
          },
          py::arg("index"),
          "Elements of x as one row, in the shape of `index`; negative ones count from the end.")
      .def(
          "take_along_dim",
          [](const Tensor& x, const Tensor& indices, py::handle dim) {
            // Before the operation, inside of which no tensor can be read.
            const std::optional<int64_t> axis =
                dim.is_none() ? std::nullopt : std::optional(dim.cast<int64_t>());
            return Checked(Lift(
                [&](const Expr& e, const Expr& i) {
                  return axis ? TakeAlong(e, *axis, i) : TakeAlong(Flatten(e), 0, Flatten(i));
                },
                x, indices));
          },
          py::arg("indices"), py::arg("dim") = py::none(),
          "gather that broadcasts; negative indices count from the end.")
      .def(
          "index_select",
          [](const Tensor& x, int64_t dim, const Tensor& index) {
            return Checked(Lift(
                [dim](const Expr& e, const Expr& i) { return IndexSelect(e, dim, i); }, x, index));
          },
          py::arg("dim"), py::arg("index"), "The slices of an axis that a row of integers names.")
      .def("scatter", &ScatterOf, py::arg("dim"), py::arg("index"), py::arg("src"),
           py::arg("reduce") = py::none(),
           "x with x[i][index[i][j]] = src[i][j] for dim 1; of several the last wins, indices "
           "outside are left out. src is a tensor of x's dtype or a number; reduce is None, or "
           "'add' or 'multiply' with a number (TypeError with a tensor).")
      .def(
          "scatter_add",
          [](const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src) {
            return Checked(
                Lift([=](const Expr& e, const Expr& i,
                         const Expr& s) { return ScatterAlong(e, dim, i, s, ScatterKind::kAdd); },
                     x, index, src));
          },
          py::arg("dim"), py::arg("index"), py::arg("src"), "scatter that adds.")
      .def(
          "scatter_reduce",
          [](const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src,
             const std::string& reduce, bool include_self) {
            const ReduceMode mode =
                ParseMode("scatter_reduce", reduce, "sum, prod, mean, amax, amin", true);
            return Checked(
                Lift([=](const Expr& e, const Expr& i,
                         const Expr& s) { return ScatterReduce(e, dim, i, s, mode, include_self); },
                     x, index, src));
          },
          py::arg("dim"), py::arg("index"), py::arg("src"), py::arg("reduce"), py::kw_only(),
          py::arg("include_self") = true,
          "scatter by sum, prod, mean, amax or amin. Without include_self, x counts only where "
          "nothing is written.")
      .def(
          "index_add",
          [](const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source,
             py::handle alpha) {
            const std::optional<Number> factor = AsNumber(alpha);
            if (!factor) throw py::type_error("index_add: alpha is a number");
            return Checked(Lift([&](const Expr& e, const Expr& i,
                                    const Expr& s) { return IndexAdd(e, dim, i, s, *factor); },
                                x, index, source));
          },
          py::arg("dim"), py::arg("index"), py::arg("source"), py::kw_only(), py::arg("alpha") = 1,
          "Adds slices of `source` to those of x that `index` [k] names.")
      .def(
          "index_copy",
          [](const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source) {
            return Checked(Lift([=](const Expr& e, const Expr& i,
                                    const Expr& s) { return IndexCopy(e, dim, i, s); },
                                x, index, source));
          },
          py::arg("dim"), py::arg("index"), py::arg("source"),
          "Puts slices of `source` in place of those of x that `index` [k] names.")
      .def(
          "index_fill",
          [](const Tensor& x, int64_t dim, const Tensor& index, py::handle value) {
            return Checked(Lift([=](const Expr& e, const Expr& i,
                                    const Expr& v) { return IndexFill(e, dim, i, v); },
                                x, index, Beside(x, value)));
          },
          py::arg("dim"), py::arg("index"), py::arg("value"),
          "Fills the slices that `index` [k] names with one number.")
      .def(
          "index_reduce",
          [](const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source,
             const std::string& reduce, bool include_self) {
            const ReduceMode mode =
                ParseMode("index_reduce", reduce, "prod, mean, amax, amin", false);
            return Checked(
                Lift([=](const Expr& e, const Expr& i,
                         const Expr& s) { return IndexReduce(e, dim, i, s, mode, include_self); },
                     x, index, source));
          },
          py::arg("dim"), py::arg("index"), py::arg("source"), py::arg("reduce"), py::kw_only(),
          py::arg("include_self") = true, "scatter_reduce of whole slices.")
      .def("index_put", &IndexPut, py::arg("indices"), py::arg("values"),
           py::arg("accumulate") = false,
           "x with x[indices] = values, or += with accumulate; `indices` is one integer tensor an "
           "axis, from the first, and they broadcast. A bool mask over some axes stands for the "
           "places where it holds, which computes: they are read back.")
      .def(
          "put",
          [](const Tensor& x, const Tensor& index, const Tensor& source, bool accumulate) {
            return Checked(Lift([=](const Expr& e, const Expr& i,
                                    const Expr& s) { return Put(e, i, s, accumulate); },
                                x, index, source));
          },
          py::arg("index"), py::arg("source"), py::arg("accumulate") = false,
          "Writes into x as one row of elements; negative indices count from the end.")
      .def(
          "masked_scatter",
          [](const Tensor& x, const Tensor& mask, const Tensor& source) {
            return Checked(Lift(
                [](const Expr& e, const Expr& m, const Expr& s) { return MaskedScatter(e, m, s); },
                x, mask, source));
          },
          py::arg("mask"), py::arg("source"),
          "Where the mask holds, the next element of `source`; 0 when none is left.")
      .def("masked_select", &MaskedSelectOf, py::arg("mask"), py::arg("size") = py::none(),
           py::arg("fill_value") = 0,
           "The elements where a bool mask holds, as one row. Without `size` their number is read "
           "back, which computes; with it the row has that size, cut or filled.")
      .def("nonzero", &NonZeroOf, py::arg("size") = py::none(), py::arg("fill_value") = 0,
           py::kw_only(), py::arg("as_tuple") = false,
           "int32 [n, ndim], the indices of elements that are not 0; `size` as in masked_select. "
           "With as_tuple a row for each axis, and for a tensor without axes one.")
      .def(
          "nonzero_static",
          [](const Tensor& x, int64_t size, py::handle fill_value) {
            return NonZeroOf(x, size, fill_value, false);
          },
          py::kw_only(), py::arg("size"), py::arg("fill_value") = -1,
          "nonzero with a size that is known: cut, or filled.")
      .def(
          "argwhere",
          [](const Tensor& x) { return NonZeroOf(x, std::nullopt, py::int_(0), false); },
          "nonzero.")
      .def("bincount", &BinCountOf, py::arg("weights") = py::none(), py::arg("minlength") = 0,
           "int32, how often each number from 0 occurs in one row of integers; the sum of its "
           "weights if given. Computes: the largest is read back.")
      .def(
          "histc",
          [](const Tensor& x, int64_t bins, double min, double max) {
            return Checked(Lift([=](const Expr& e) { return HistC(e, bins, min, max); }, x));
          },
          py::arg("bins") = 100, py::arg("min") = 0.0, py::arg("max") = 0.0,
          "How many elements lie in each of `bins` equal parts of [min, max], in x's dtype; "
          "between "
          "the extremes of x if both are equal.")
      .def("histogram", &HistogramOf, py::arg("bins"), py::kw_only(), py::arg("range") = py::none(),
           py::arg("weight") = py::none(), py::arg("density") = false,
           "(counts, edges); `bins` is a number or the edges in order. The last bin holds its end.")
      .def(
          "histogramdd", &HistogramOfPointsOf, py::arg("bins"), py::kw_only(),
          py::arg("range") = py::none(), py::arg("weight") = py::none(), py::arg("density") = false,
          "(counts, edges of each axis) of points [.., d]: counts [bins of axis 0, bins of axis 1, "
          "..]. `bins` is a number, one for each axis, or the edges of each; `range` has the ends "
          "of "
          "all axes in a row, `weight` [..] a number a point.");
}

}  // namespace tensord::python
