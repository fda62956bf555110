// Tensor: reading and writing by index.
#include "client/cc/ops.h"
#include "client/python/bind.h"
#include "client/python/parts.h"
#include "core/base/status.h"
#include "core/tensor/build.h"
#include "core/tensor/create.h"
#include "core/tensor/index.h"

namespace tensord::python {
namespace {

[[noreturn]] void RaiseIndex(std::string message) {
  Raise(MakeStatus(absl::StatusCode::kOutOfRange, "{}", message));
}

// An index as core/tensor takes it; its tensors are put in when there are expressions for them.
struct Key {
  std::vector<IndexItem> items;
  std::vector<client::StateRef> tensors;
  std::vector<size_t> places;  // of the tensors among the items

  void Add(const Tensor& index) {
    places.push_back(items.size());
    items.emplace_back(NewAxis{});
    tensors.push_back(index.state());
  }
  // `sources` begin with an expression for each tensor.
  std::vector<IndexItem> With(absl::Span<const Expr> sources) const {
    std::vector<IndexItem> result = items;
    for (size_t i = 0; i < places.size(); ++i) result[places[i]] = sources[i];
    return result;
  }
};

bool IsBool(py::handle item) {
  return PyBool_Check(item.ptr()) ||
         (IsNumpyScalar(item) && py::isinstance(item, Numpy().attr("bool_")));
}

// Whether it is a list, or lists in one, of bools only: NumPy makes a mask of that, of bools among
// ints it makes ints.
bool HoldsOnlyBools(py::handle list) {
  bool found = false;
  for (py::handle item : list) {
    const bool nested = py::isinstance<py::list>(item) || py::isinstance<py::tuple>(item);
    if (nested ? !HoldsOnlyBools(item) : !IsBool(item)) return false;
    found = true;
  }
  return found;
}

bool IsMask(py::handle item) {
  if (py::isinstance<Tensor>(item)) return item.cast<const Tensor&>().dtype() == DType::kBool;
  return IsArray(item) && py::reinterpret_borrow<py::array>(item).dtype().kind() == 'b';
}

bool IsPlainInt(py::handle item) {
  return !py::isinstance<Tensor>(item) && !PyBool_Check(item.ptr()) && !IsArray(item) &&
         PyIndex_Check(item.ptr());
}

int64_t PlainInt(py::handle item) {
  const py::ssize_t index = PyNumber_AsSsize_t(item.ptr(), PyExc_IndexError);
  if (index == -1 && PyErr_Occurred()) throw py::error_already_set();
  return index;
}

std::optional<int64_t> Bound(py::handle value) {
  if (value.is_none()) return std::nullopt;
  if (py::isinstance<SymInt>(value)) return ParseSize(value);
  if (!IsPlainInt(value)) {
    throw py::type_error(
        "the bounds and the step of a slice are ints or None; read a tensor first");
  }
  return PyNumber_AsSsize_t(value.ptr(), nullptr);  // beyond 64 bits: the end of the range
}

// The places where a mask holds, a vector of indices for each of its axes. Reads the mask.
std::vector<Tensor> PlacesOf(py::handle mask) {
  const py::object data = py::isinstance<Tensor>(mask)
                              ? py::object(ToNumpy(mask.cast<const Tensor&>()))
                              : py::reinterpret_borrow<py::object>(mask);
  std::vector<Tensor> places;
  for (py::handle axis : Numpy().attr("nonzero")(data)) {
    places.push_back(ToTensor(axis.attr("astype")("int64")));
  }
  return places;
}

Key ParseKey(const Tensor& x, py::handle key) {
  py::list keys = py::isinstance<py::tuple>(key) ? py::list(py::reinterpret_borrow<py::tuple>(key))
                                                 : py::list(py::make_tuple(key));
  for (size_t i = 0; i < keys.size(); ++i) {
    const py::object item = keys[i];
    if (py::isinstance<py::list>(item) && HoldsOnlyBools(item)) {
      keys[i] = Numpy().attr("array")(item);
    }
  }
  Key parsed;
  // Which axis an item is at, to compare the shapes of masks.
  int64_t used = 0, axis = 0;
  const auto axes_of = [](py::handle item) -> int64_t {
    if (item.is_none() || item.is(py::ellipsis())) return 0;
    return IsMask(item) ? item.attr("ndim").cast<int64_t>() : 1;
  };
  for (py::handle item : keys) used += axes_of(item);
  if (used > x.rank()) {
    RaiseIndex(fmt::format("{} indices for a tensor of {} axes", used, x.rank()));
  }
  for (py::handle item : keys) {
    const int64_t at = axis;
    axis += item.is(py::ellipsis()) ? x.rank() - used : axes_of(item);
    if (item.is_none()) {
      parsed.items.emplace_back(NewAxis{});
    } else if (item.is(py::ellipsis())) {
      parsed.items.emplace_back(Ellipsis{});
    } else if (PySlice_Check(item.ptr())) {
      const int64_t step = Bound(item.attr("step")).value_or(1);
      if (step == 0) Raise(InvalidArgument("the step of a slice is not zero"));
      parsed.items.emplace_back(
          Slice{.begin = Bound(item.attr("start")), .end = Bound(item.attr("stop")), .step = step});
    } else if (py::isinstance<SymInt>(item)) {
      parsed.items.emplace_back(ParseSize(item));
    } else if (IsPlainInt(item)) {
      parsed.items.emplace_back(PlainInt(item));
    } else if (IsMask(item)) {
      const py::tuple shape = item.attr("shape");
      for (size_t i = 0; i < shape.size(); ++i) {
        if (shape[i].cast<int64_t>() != x.shape()[static_cast<size_t>(at) + i]) {
          RaiseIndex(fmt::format("a mask of shape {} at axis {} of shape {}",
                                 std::string(py::str(py::handle(shape))), at,
                                 client::TextOf(x.shape())));
        }
      }
      if (shape.empty()) RaiseIndex("a mask without axes; use where");
      for (const Tensor& places : PlacesOf(item)) parsed.Add(places);
    } else if (py::isinstance<Tensor>(item) || py::isinstance<py::list>(item) ||
               py::isinstance<py::tuple>(item) || IsArray(item) ||
               py::isinstance(item, py::handle(reinterpret_cast<PyObject*>(&PyRange_Type)))) {
      const bool range = !py::isinstance<Tensor>(item) && !IsArray(item);
      const py::object data = range ? py::object(py::list(py::reinterpret_borrow<py::object>(item)))
                                    : py::reinterpret_borrow<py::object>(item);
      Tensor index = ToTensor(data);
      if (range && index.num_elements() == 0) index = Checked(Cast(index, DType::kInt32));
      if (!IsInt(index.dtype())) {
        RaiseIndex(fmt::format("a tensor of {} is no index; integers are, and masks of bool",
                               Name(index.dtype())));
      }
      parsed.Add(index);
    } else {
      RaiseIndex(
          fmt::format("an index is an int, a slice, None, ..., a list of ints, or a tensor "
                      "of ints or bool, not {}",
                      Py_TYPE(item.ptr())->tp_name));
    }
  }
  return parsed;
}

Tensor GetItem(const Tensor& x, py::handle index) {
  const Key key = ParseKey(x, index);
  if (key.tensors.empty()) {
    return Checked(LiftView([&key](const Expr& e) { return Index(e, key.items); }, x));
  }
  std::vector<client::StateRef> operands = key.tensors;
  operands.push_back(x.state());
  return Checked(Tensor(x.session().Apply(operands, [&](Graph&, absl::Span<const Expr> sources) {
    return Index(sources.back(), key.With(sources));
  })));
}

// What is to be written, in the dtype of `x`: numbers and lists are converted, tensors must fit.
Tensor ValueFor(const Tensor& x, py::handle value) {
  if (py::isinstance<Tensor>(value)) {
    const Tensor tensor = value.cast<Tensor>();
    if (IsWeak(tensor.dtype())) {
      const DType dtype = x.dtype();
      return Checked(Lift([dtype](const Expr& e) { return AsValueOf(e, dtype); }, tensor));
    }
    if (tensor.dtype() != x.dtype()) {
      Raise(InvalidArgument("the tensor is {}, what is written to it {}; cast it first",
                            Name(x.dtype()), Name(tensor.dtype())));
    }
    return tensor;
  }
  if (const std::optional<Number> number = AsNumber(value)) {
    const DType dtype = x.dtype();
    return Checked(Lift([&](const Expr& e) { return Constant(e.graph(), *number, dtype); }, x));
  }
  return ToTensor(value, x.dtype());
}

void SetItem(const Tensor& x, py::handle index, py::handle value) {
  // A mask alone and one number: no need to know where the mask holds.
  if (py::isinstance<Tensor>(index) && IsMask(index)) {
    const Tensor& mask = index.cast<const Tensor&>();
    const Tensor given = ValueFor(x, value);
    if (given.num_elements() == 1 && mask.rank() > 0 && mask.rank() <= x.rank() &&
        std::equal(mask.shape().begin(), mask.shape().end(), x.shape().begin())) {
      RaiseIfError(x.WriteInPlace(Checked(Lift(
          [](const Expr& e, const Expr& m, const Expr& v) {
            Dims shape(m.shape().begin(), m.shape().end());
            shape.resize(static_cast<size_t>(e.rank()), 1);
            return Where(BroadcastTo(Reshape(m, shape), e.shape()), Reshape(v, {}), e);
          },
          x, mask, given))));
      return;
    }
  }
  const Key key = ParseKey(x, index);
  const Tensor given = ValueFor(x, value);
  if (key.tensors.empty()) {
    const Tensor view = Checked(LiftView([&key](const Expr& e) { return Index(e, key.items); }, x));
    const std::vector<int64_t>& shape = view.shape();
    if (given.shape() == shape) {
      RaiseIfError(view.WriteInPlace(given));
      return;
    }
    RaiseIfError(view.WriteInPlace(Checked(Lift(
        [&shape](const Expr& v) {
          // As in NumPy, axes of size 1 in front of the value do not count.
          Expr narrow = v;
          while (narrow.rank() > static_cast<int64_t>(shape.size()) && narrow.shape()[0] == 1) {
            narrow = Squeeze(narrow, 0);
          }
          return BroadcastTo(narrow, shape);
        },
        given))));
    return;
  }
  std::vector<client::StateRef> operands = key.tensors;
  operands.push_back(given.state());
  operands.push_back(x.state());
  RaiseIfError(x.WriteInPlace(
      Checked(Tensor(x.session().Apply(operands, [&](Graph&, absl::Span<const Expr> sources) {
        return SetIndex(sources.back(), key.With(sources), sources[sources.size() - 2]);
      })))));
}

// `x` with `src` in the place of a view of it.
template <typename Function>
Tensor Scattered(const char* name, const Tensor& x, const Tensor& src, Function view) {
  return Checked(
      Lift([&](const Expr& e, const Expr& s) { return WriteView(name, e, view(e), s); }, x, src));
}

}  // namespace

void BindIndex(py::class_<Tensor>& tensor) {
  tensor
      .def("__getitem__", &GetItem,
           "By ints, slices (negative steps too), None, ..., and tensors or lists of ints, as in "
           "NumPy:\nadjacent ones stay in place, others move to the front. Negative entries count "
           "from the end, entries\nof tensors that are outside read as 0. Masks of bool, lists of "
           "bools among them, are read when they\nare used; bools among ints are 0 and 1.\nWithout "
           "tensors, lists and masks a view. IndexError for too many "
           "indices or one outside.")
      .def(
          "__setitem__", &SetItem,
          "Writes into the tensor (or, through a view, its base). Numbers and lists are converted, "
          "a tensor must\nhave the dtype; the value broadcasts; of several values for an element "
          "the last one stays.")
      .def("__delitem__",
           [](const Tensor&, py::handle) {
             throw py::type_error("elements of a tensor cannot be deleted");
           })
      .def("__iter__",
           [](const Tensor& x) {
             if (x.rank() == 0) throw py::type_error("a tensor without axes has no rows");
             return py::iter(x.shape()[0] == 0 ? py::object(py::tuple())
                                               : py::cast(x).attr("unbind")(0));
           })
      .def(
          "select_scatter",
          [](const Tensor& x, const Tensor& src, int64_t dim, int64_t index) {
            return Scattered("select_scatter", x, src,
                             [=](const Expr& e) { return Select(e, dim, index); });
          },
          py::arg("src"), py::arg("dim"), py::arg("index"), "The tensor with src as one slice.")
      .def(
          "slice_scatter",
          [](const Tensor& x, const Tensor& src, int64_t dim, std::optional<int64_t> start,
             std::optional<int64_t> end, int64_t step) {
            return Scattered("slice_scatter", x, src, [=](const Expr& e) {
              return SliceAxis(e, dim, {.begin = start, .end = end, .step = step});
            });
          },
          py::arg("src"), py::arg("dim") = 0, py::arg("start") = py::none(),
          py::arg("end") = py::none(), py::arg("step") = 1,
          "The tensor with src as x[start:end:step] along an axis.")
      .def(
          "diagonal_scatter",
          [](const Tensor& x, const Tensor& src, int64_t offset, int64_t dim1, int64_t dim2) {
            return Scattered("diagonal_scatter", x, src,
                             [=](const Expr& e) { return Diagonal(e, offset, dim1, dim2); });
          },
          py::arg("src"), py::arg("offset") = 0, py::arg("dim1") = 0, py::arg("dim2") = 1,
          "The tensor with src as a diagonal.")
      .def(
          "one_hot",
          [](const Tensor& x, int64_t num_classes) {
            return Checked(Lift([=](const Expr& e) { return OneHot(e, num_classes); }, x));
          },
          py::arg("num_classes"), "int32, a new last axis.");
}

}  // namespace tensord::python
