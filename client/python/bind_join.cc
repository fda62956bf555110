// Tensor: several tensors as one, and one as several.
#include "client/python/bind.h"
#include "core/base/status.h"
#include "core/tensor/join.h"

namespace tensord::python {
namespace {

using Pieces = absl::StatusOr<std::vector<Expr>>;

std::vector<Expr> OrError(Graph& graph, Pieces pieces) {
  return pieces.ok() ? *std::move(pieces) : std::vector<Expr>{Expr(&graph, pieces.status())};
}

// Views of one tensor, `count` of them unless there is an error.
template <typename Function>
std::vector<Tensor> Cut(const Tensor& x, size_t count, Function function) {
  std::vector<Tensor> tensors;
  const auto make = [&function](Graph& graph, absl::Span<const Expr> sources) {
    return OrError(graph, function(sources[0]));
  };
  // Where there is nothing to cut, there may still be an error.
  if (count == 0) {
    Checked(Tensor(x.session().Views(x.state(), 1, [&](Graph& graph, absl::Span<const Expr> s) {
      std::vector<Expr> none = make(graph, s);
      return none.empty() ? std::vector<Expr>{s[0]} : none;
    })[0]));
  }
  for (client::StateRef& state : x.session().Views(x.state(), count, make)) {
    tensors.push_back(Checked(Tensor(std::move(state))));
  }
  return tensors;
}

// The size of an axis; 1 if there is none, for which core/tensor has the error.
int64_t SizeOf(const Tensor& x, int64_t dim) {
  const int64_t axis = dim < 0 ? dim + x.rank() : dim;
  return axis < 0 || axis >= x.rank() ? 1 : x.shape()[static_cast<size_t>(axis)];
}

py::tuple SplitTensor(const Tensor& x, py::handle sizes_or_length, int64_t dim) {
  if (!PyIndex_Check(sizes_or_length.ptr())) {
    const Ints sizes = ParseInts(sizes_or_length);
    return py::tuple(
        py::cast(Cut(x, sizes.size(), [&](const Expr& e) { return Split(e, sizes, dim); })));
  }
  const int64_t length = sizes_or_length.cast<int64_t>();
  const int64_t size = SizeOf(x, dim);
  const int64_t count = length > 0 && size > 0 ? (size + length - 1) / length : 1;
  return py::tuple(py::cast(Cut(x, static_cast<size_t>(count),
                                [&](const Expr& e) { return SplitEvery(e, length, dim); })));
}

py::list ChunkTensor(const Tensor& x, int64_t chunks, int64_t dim) {
  const int64_t size = SizeOf(x, dim);
  const int64_t each = chunks > 0 ? std::max<int64_t>((size + chunks - 1) / chunks, 1) : 1;
  const int64_t count = chunks > 0 ? std::max<int64_t>((size + each - 1) / each, 1) : 1;
  return py::cast(
      Cut(x, static_cast<size_t>(count), [&](const Expr& e) { return Chunk(e, chunks, dim); }));
}

py::tuple TensorSplitAt(const Tensor& x, py::handle indices_or_sections, int64_t dim) {
  if (py::isinstance<Tensor>(indices_or_sections)) {  // is read back
    const Tensor given = indices_or_sections.cast<Tensor>();
    if (!IsInt(given.dtype()) || given.rank() > 1) {
      Raise(InvalidArgument("tensor_split: indices {} {}, they must be integers in one row",
                            Name(given.dtype()), client::TextOf(given.shape())));
    }
    return TensorSplitAt(x, ToNumpy(given).attr("tolist")(), dim);
  }
  if (PyIndex_Check(indices_or_sections.ptr())) {
    const int64_t count = indices_or_sections.cast<int64_t>();
    return py::tuple(py::cast(Cut(x, static_cast<size_t>(std::max<int64_t>(count, 1)),
                                  [&](const Expr& e) { return TensorSplit(e, count, dim); })));
  }
  const Ints indices = ParseInts(indices_or_sections);
  return py::tuple(py::cast(
      Cut(x, indices.size() + 1, [&](const Expr& e) { return TensorSplit(e, indices, dim); })));
}

// hsplit and its kin: equal pieces only.
auto SplitAlong(const char* name, int64_t rank, int64_t dim) {
  return [=](const Tensor& x, py::handle indices_or_sections) {
    const int64_t axis = dim == 1 && x.rank() == 1 ? 0 : dim;
    if (x.rank() < rank) {
      Raise(InvalidArgument("{}: a tensor of {} axes, it takes at least {}", name, x.rank(), rank));
    }
    if (PyIndex_Check(indices_or_sections.ptr())) {
      const int64_t count = indices_or_sections.cast<int64_t>();
      if (count < 1 || SizeOf(x, axis) % count != 0) {
        Raise(InvalidArgument("{}: {} equal pieces of an axis of {}; use tensor_split", name, count,
                              SizeOf(x, axis)));
      }
    }
    return TensorSplitAt(x, indices_or_sections, axis);
  };
}

py::tuple UnbindTensor(const Tensor& x, int64_t dim) {
  return py::tuple(py::cast(
      Cut(x, static_cast<size_t>(SizeOf(x, dim)), [&](const Expr& e) { return Unbind(e, dim); })));
}

void AddTensors(py::handle value, std::vector<Tensor>& tensors) {
  if (!py::isinstance<py::list>(value) && !py::isinstance<py::tuple>(value)) {
    tensors.push_back(ToTensor(value));
    return;
  }
  for (py::handle item : value) tensors.push_back(ToTensor(item));
}

// f(tensors), f(tensors, number), f(*tensors), tensor.f(*others)
std::vector<Tensor> ParseTensors(std::string_view name, py::handle first, const py::args& rest,
                                 int64_t* number = nullptr) {
  std::vector<Tensor> tensors;
  AddTensors(first, tensors);
  const bool sequence = !py::isinstance<Tensor>(first);
  for (py::handle item : rest) {
    if (number && PyIndex_Check(item.ptr()) && !py::isinstance<Tensor>(item)) {
      *number = item.cast<int64_t>();
    } else if (sequence) {
      Raise(InvalidArgument("{}: a sequence of tensors, and then more tensors", name));
    } else {
      AddTensors(item, tensors);
    }
  }
  if (tensors.empty()) Raise(InvalidArgument("{}: there are no tensors", name));
  return tensors;
}

std::vector<client::StateRef> StatesOf(const std::vector<Tensor>& tensors) {
  std::vector<client::StateRef> states;
  for (const Tensor& tensor : tensors) states.push_back(tensor.state());
  return states;
}

template <typename Join>
Tensor Joined(const std::vector<Tensor>& tensors, Join join) {
  return Checked(Tensor(tensors[0].session().Apply(
      StatesOf(tensors),
      [&join](Graph&, absl::Span<const Expr> sources) { return join(sources); })));
}

// Along an axis that is the last number or a keyword.
template <typename Join>
auto JoinAlong(const char* name, Join join) {
  return [=](py::object self, const py::args& others, int64_t dim) {
    const std::vector<Tensor> tensors = ParseTensors(name, self, others, &dim);
    return Joined(tensors, [&](absl::Span<const Expr> parts) { return join(parts, dim); });
  };
}

template <typename Join>
auto JoinAll(const char* name, Join join) {
  return [=](py::object self, const py::args& others) {
    return Joined(ParseTensors(name, self, others), join);
  };
}

template <typename Function>
py::tuple Together(const std::vector<Tensor>& tensors, Function function) {
  py::tuple results(tensors.size());
  size_t i = 0;
  for (client::StateRef& state : tensors[0].session().ApplyMany(
           StatesOf(tensors), tensors.size(), [&](Graph&graph, absl::Span<const Expr> sources) {
             return OrError(graph, function(sources));
           })) {
    results[i++] = Checked(Tensor(std::move(state)));
  }
  return results;
}

// One tensor, or a tuple for several.
template <typename Function>
auto AtLeast(Function function) {
  return [=](py::object self, const py::args& others) -> py::object {
    const std::vector<Tensor> tensors = ParseTensors("atleast", self, others);
    if (py::isinstance<Tensor>(self) && others.empty()) {
      return py::cast(Checked(LiftView(function, tensors[0])));
    }
    py::tuple results(tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i) {
      results[i] = Checked(LiftView(function, tensors[i]));
    }
    return results;
  };
}

}  // namespace

void BindJoin(py::class_<Tensor>& tensor) {
  const auto cat =
      JoinAlong("cat", [](absl::Span<const Expr> parts, int64_t dim) { return Cat(parts, dim); });
  const char* cat_doc =
      "One after the other along an axis: t.cat(u, v, dim=1) or tensord.cat([t, u, v], 1). The "
      "other axes\nare equal; dtypes are promoted; vectors without elements are left out.";
  tensor.def("cat", cat, py::arg("dim") = 0, cat_doc)
      .def("concat", cat, py::arg("dim") = 0, cat_doc)
      .def("concatenate", cat, py::arg("dim") = 0, cat_doc)
      .def("stack",
           JoinAlong("stack",
                     [](absl::Span<const Expr> parts, int64_t dim) { return Stack(parts, dim); }),
           py::arg("dim") = 0,
           "As slices of a new axis: t.stack(u, dim=1) or tensord.stack([t, u], 1). All of one "
           "shape.")
      .def("hstack", JoinAll("hstack", [](absl::Span<const Expr> x) { return HStack(x); }),
           "Side by side: along axis 1, vectors along axis 0.")
      .def("vstack", JoinAll("vstack", [](absl::Span<const Expr> x) { return VStack(x); }),
           "One below the other; vectors are rows.")
      .def("row_stack", JoinAll("row_stack", [](absl::Span<const Expr> x) { return VStack(x); }),
           "vstack")
      .def("dstack", JoinAll("dstack", [](absl::Span<const Expr> x) { return DStack(x); }),
           "Along axis 2, after atleast_3d.")
      .def("column_stack",
           JoinAll("column_stack", [](absl::Span<const Expr> x) { return ColumnStack(x); }),
           "Side by side; vectors are columns.")
      .def("atleast_1d", AtLeast(AtLeast1d), "With an axis if there is none.")
      .def("atleast_2d", AtLeast(AtLeast2d), "A vector as a row.")
      .def("atleast_3d", AtLeast(AtLeast3d), "A matrix with a last axis of 1.")
      .def(
          "meshgrid",
          [](py::object self, const py::args& others, std::string_view indexing) {
            if (indexing != "ij" && indexing != "xy") {
              Raise(InvalidArgument("meshgrid: indexing '{}' is neither 'ij' nor 'xy'", indexing));
            }
            return Together(ParseTensors("meshgrid", self, others),
                            [&](absl::Span<const Expr> sources) {
                              return Meshgrid(sources, indexing == "xy");
                            });
          },
          py::arg("indexing") = "ij",
          "Vectors as the axes of a grid: result k varies along axis k; with 'xy' the first two "
          "swap.")
      .def(
          "broadcast_tensors",
          [](py::object self, const py::args& others) {
            return Together(ParseTensors("broadcast_tensors", self, others), BroadcastTensors);
          },
          "All expanded to the shape that they broadcast to.")
      .def("split", &SplitTensor, py::arg("split_size_or_sections"), py::arg("dim") = 0,
           "Pieces of one size, the last may be shorter, or of sizes that add up. Views.")
      .def("chunk", &ChunkTensor, py::arg("chunks"), py::arg("dim") = 0,
           "At most so many pieces of one size; the last may be shorter. Views.")
      .def("tensor_split", &TensorSplitAt, py::arg("indices_or_sections"), py::arg("dim") = 0,
           "Exactly so many pieces, the longer ones first, or cut before indices. Views.")
      .def("hsplit", SplitAlong("hsplit", 1, 1), py::arg("indices_or_sections"),
           "tensor_split along axis 1 (0 of a vector) into equal pieces. Views.")
      .def("vsplit", SplitAlong("vsplit", 2, 0), py::arg("indices_or_sections"),
           "tensor_split along axis 0 into equal pieces. Views.")
      .def("dsplit", SplitAlong("dsplit", 3, 2), py::arg("indices_or_sections"),
           "tensor_split along axis 2 into equal pieces. Views.")
      .def("unbind", &UnbindTensor, py::arg("dim") = 0,
           "The slices of an axis, without it. Views.");
}

}  // namespace tensord::python
