// Tensor: shapes, indexing, joining.
#include "client/cc/ops.h"
#include "client/python/bind.h"
#include "core/base/status.h"
#include "core/tensor/index.h"

namespace tensord::python {
namespace {

std::vector<Tensor> Many(const Tensor& x, size_t count, const client::Session::Expressions& make) {
  std::vector<Tensor> tensors;
  for (client::StateRef& state : x.session().ApplyMany({x.state()}, count, make)) {
    tensors.push_back(Checked(Tensor(std::move(state))));
  }
  return tensors;
}

// core/tensor checks bounds too, but Python ends its loops by IndexError.
void CheckIndex(const Tensor& x, int64_t axis, int64_t index) {
  if (axis >= x.rank()) return;
  const int64_t size = x.shape()[static_cast<size_t>(axis)];
  if (index < -size || index >= size) {
    Raise(MakeStatus(absl::StatusCode::kOutOfRange,
                     "index {} is outside of axis {}, which has {} elements", index, axis, size));
  }
}

Tensor GetItem(const Tensor& x, py::handle key) {
  const py::tuple keys =
      py::isinstance<py::tuple>(key) ? py::reinterpret_borrow<py::tuple>(key) : py::make_tuple(key);
  std::vector<IndexItem> items;
  std::vector<client::StateRef> operands = {x.state()};
  std::vector<size_t> places;  // of operands in items
  int64_t used = 0;
  for (py::handle item : keys) {
    used += !item.is_none() && !item.is(py::ellipsis()) ? 1 : 0;
  }
  if (used > x.rank()) {
    Raise(MakeStatus(absl::StatusCode::kOutOfRange, "{} indices for a tensor of {} axes", used,
                     x.rank()));
  }
  int64_t axis = 0;
  auto bound = [](py::handle value) -> std::optional<int64_t> {
    if (value.is_none()) return std::nullopt;
    return value.cast<int64_t>();
  };
  for (py::handle item : keys) {
    if (item.is_none()) {
      items.emplace_back(NewAxis{});
    } else if (item.is(py::ellipsis())) {
      items.emplace_back(Ellipsis{});
      axis += x.rank() - used;
    } else if (PySlice_Check(item.ptr())) {
      const int64_t step = bound(item.attr("step")).value_or(1);
      if (step == 0) Raise(InvalidArgument("the step of a slice is not zero"));
      items.emplace_back(
          Slice{.begin = bound(item.attr("start")), .end = bound(item.attr("stop")), .step = step});
      ++axis;
    } else if (!py::isinstance<Tensor>(item) && !PyBool_Check(item.ptr()) &&
               PyIndex_Check(item.ptr())) {
      const int64_t index = item.cast<int64_t>();
      CheckIndex(x, axis++, index);
      items.emplace_back(index);
    } else {
      const Tensor index = ToTensor(item);
      if (!IsInt(index.dtype())) {
        Raise(MakeStatus(absl::StatusCode::kOutOfRange,
                         "an index is an int, a slice, None, ... or an int tensor, not {}; for a "
                         "mask use where or masked_fill",
                         Name(index.dtype())));
      }
      places.push_back(items.size());
      items.emplace_back(NewAxis{});  // its expression is put here below
      operands.push_back(index.state());
      ++axis;
    }
  }
  return Checked(Tensor(x.session().Apply(operands, [&](Graph&, absl::Span<const Expr> sources) {
    for (size_t i = 0; i < places.size(); ++i) items[places[i]] = sources[i + 1];
    return Index(sources[0], items);
  })));
}

std::vector<client::StateRef> StatesOf(const std::vector<Tensor>& tensors) {
  std::vector<client::StateRef> states;
  for (const Tensor& tensor : tensors) states.push_back(tensor.state());
  return states;
}

template <typename Join>
Tensor Joined(const std::vector<Tensor>& tensors, Join join) {
  if (tensors.empty()) Raise(InvalidArgument("there is nothing to join"));
  return Checked(Tensor(tensors[0].session().Apply(
      StatesOf(tensors),
      [&join](Graph&, absl::Span<const Expr> sources) { return join(sources); })));
}

std::vector<Tensor> SplitSizes(const Tensor& x, py::handle sizes_or_length, int64_t dim) {
  const int64_t axis = dim < 0 ? dim + x.rank() : dim;
  Ints sizes;
  if (PyIndex_Check(sizes_or_length.ptr()) && axis >= 0 && axis < x.rank()) {
    const int64_t length = sizes_or_length.cast<int64_t>();
    if (length <= 0) Raise(InvalidArgument("split: pieces of {} elements", length));
    for (int64_t rest = x.shape()[static_cast<size_t>(axis)]; rest > 0; rest -= length) {
      sizes.push_back(std::min(rest, length));
    }
  } else {
    sizes = ParseInts(sizes_or_length);
  }
  return Many(x, sizes.size(), [&](Graph& graph, absl::Span<const Expr> sources) {
    auto pieces = Split(sources[0], sizes, dim);
    return pieces.ok() ? *pieces : std::vector<Expr>{Expr(&graph, pieces.status())};
  });
}

}  // namespace

void BindMovement(py::class_<Tensor>& tensor) {
  auto lift = [](const Tensor& x, auto function) { return Checked(Lift(function, x)); };
  auto reshape = [lift](const Tensor& x, const py::args& sizes) {
    const Ints dims = ParseSizes(sizes);
    return lift(x, [&dims](const Expr& e) { return Reshape(e, dims); });
  };
  auto permute = [lift](const Tensor& x, const py::args& order) {
    const Ints axes = ParseSizes(order);
    return lift(x, [&axes](const Expr& e) { return Permute(e, axes); });
  };
  auto flip = [lift](const Tensor& x, const py::args& dims) {
    const Ints axes = ParseSizes(dims);
    return lift(x, [&axes](const Expr& e) { return Flip(e, axes); });
  };
  tensor.def("__getitem__", &GetItem)
      .def("__iter__",
           [](const Tensor& x) {
             if (x.rank() == 0) throw py::type_error("a tensor without axes has no rows");
             py::list rows;
             for (int64_t i = 0; i < x.shape()[0]; ++i) {
               rows.append(Checked(Lift([i](const Expr& e) { return Select(e, 0, i); }, x)));
             }
             return py::iter(rows);
           })
      .def("reshape", reshape, "One size may be -1: what remains.")
      .def("view", reshape, "The same as reshape.")
      .def(
          "expand",
          [lift](const Tensor& x, const py::args& sizes) {
            const Ints dims = ParseSizes(sizes);
            return lift(x, [&dims](const Expr& e) { return Expand(e, dims); });
          },
          "Repeats axes of size 1; -1 keeps a size; new axes come in front.")
      .def(
          "broadcast_to",
          [lift](const Tensor& x, py::handle shape) {
            const Ints dims = ParseInts(shape);
            return lift(x, [&dims](const Expr& e) { return BroadcastTo(e, dims); });
          },
          py::arg("shape"))
      .def("permute", permute)
      .def(
          "transpose",
          [lift](const Tensor& x, int64_t dim0, int64_t dim1) {
            return lift(x, [=](const Expr& e) { return Transpose(e, dim0, dim1); });
          },
          py::arg("dim0"), py::arg("dim1"))
      .def_property_readonly("T",
                             [lift](const Tensor& x) {
                               Ints order;
                               for (int64_t i = x.rank(); i-- > 0;) order.push_back(i);
                               return lift(x, [&](const Expr& e) { return Permute(e, order); });
                             })
      .def_property_readonly("mT",
                             [lift](const Tensor& x) {
                               return lift(x, [](const Expr& e) { return Transpose(e, -2, -1); });
                             })
      .def(
          "movedim",
          [lift](const Tensor& x, int64_t source, int64_t destination) {
            return lift(x, [=](const Expr& e) { return MoveAxis(e, source, destination); });
          },
          py::arg("source"), py::arg("destination"))
      .def("flip", flip)
      .def(
          "pad",
          [lift](const Tensor& x, py::handle padding, py::handle value) {
            // As in PyTorch: pairs from the last axis on.
            const Ints flat = ParseInts(padding);
            if (flat.size() % 2 != 0 || static_cast<int64_t>(flat.size()) > 2 * x.rank()) {
              Raise(InvalidArgument("pad: {} numbers are no pairs for up to {} axes", flat.size(),
                                    x.rank()));
            }
            std::vector<PadAmount> amounts(static_cast<size_t>(x.rank()));
            for (size_t i = 0; i < flat.size(); i += 2) {
              amounts[amounts.size() - 1 - i / 2] = {flat[i], flat[i + 1]};
            }
            const std::optional<Number> fill = AsNumber(value);
            if (!fill) Raise(InvalidArgument("pad: the value is not a number"));
            return lift(x, [&](const Expr& e) { return Pad(e, amounts, *fill); });
          },
          py::arg("padding"), py::arg("value") = 0,
          "Pairs (before, after) from the last axis on, as in PyTorch; negative amounts crop.")
      .def(
          "squeeze",
          [lift](const Tensor& x, std::optional<int64_t> dim) {
            return lift(x, [=](const Expr& e) { return dim ? Squeeze(e, *dim) : Squeeze(e); });
          },
          py::arg("dim") = py::none())
      .def(
          "unsqueeze",
          [lift](const Tensor& x, int64_t dim) {
            return lift(x, [=](const Expr& e) { return Unsqueeze(e, dim); });
          },
          py::arg("dim"))
      .def(
          "flatten",
          [lift](const Tensor& x, int64_t start_dim, int64_t end_dim) {
            return lift(x, [=](const Expr& e) { return Flatten(e, start_dim, end_dim); });
          },
          py::arg("start_dim") = 0, py::arg("end_dim") = -1)
      .def(
          "unflatten",
          [lift](const Tensor& x, int64_t dim, py::handle sizes) {
            const Ints dims = ParseInts(sizes);
            return lift(x, [&](const Expr& e) { return Unflatten(e, dim, dims); });
          },
          py::arg("dim"), py::arg("sizes"))
      .def("repeat",
           [lift](const Tensor& x, const py::args& times) {
             const Ints counts = ParseSizes(times);
             return lift(x, [&](const Expr& e) { return Repeat(e, counts); });
           })
      .def(
          "repeat_interleave",
          [lift](const Tensor& x, int64_t repeats, std::optional<int64_t> dim) {
            return lift(x, [=](const Expr& e) {
              return dim ? RepeatInterleave(e, repeats, *dim)
                         : RepeatInterleave(Flatten(e), repeats, 0);
            });
          },
          py::arg("repeats"), py::arg("dim") = py::none())
      .def(
          "roll",
          [lift](const Tensor& x, int64_t shifts, std::optional<int64_t> dims) {
            const Ints shape(x.shape().begin(), x.shape().end());
            return lift(x, [&](const Expr& e) {
              return dims ? Roll(e, shifts, *dims) : Reshape(Roll(Flatten(e), shifts, 0), shape);
            });
          },
          py::arg("shifts"), py::arg("dims") = py::none())
      .def(
          "tril",
          [lift](const Tensor& x, int64_t diagonal) {
            return lift(x, [=](const Expr& e) { return Tril(e, diagonal); });
          },
          py::arg("diagonal") = 0)
      .def(
          "triu",
          [lift](const Tensor& x, int64_t diagonal) {
            return lift(x, [=](const Expr& e) { return Triu(e, diagonal); });
          },
          py::arg("diagonal") = 0)
      .def("split", &SplitSizes, py::arg("split_size_or_sections"), py::arg("dim") = 0)
      .def(
          "chunk",
          [](const Tensor& x, int64_t chunks, int64_t dim) {
            const int64_t axis = dim < 0 ? dim + x.rank() : dim;
            if (axis < 0 || axis >= x.rank() || chunks < 1) {
              Raise(InvalidArgument("chunk: {} pieces along axis {} of a tensor of {} axes", chunks,
                                    dim, x.rank()));
            }
            const int64_t size = x.shape()[static_cast<size_t>(axis)];
            return SplitSizes(x, py::int_(std::max<int64_t>(1, (size + chunks - 1) / chunks)), dim);
          },
          py::arg("chunks"), py::arg("dim") = 0)
      .def(
          "gather",
          [](const Tensor& x, int64_t dim, const Tensor& index) {
            return Checked(Lift(
                [dim](const Expr& e, const Expr& i) { return GatherAlong(e, dim, i); }, x, index));
          },
          py::arg("dim"), py::arg("index"))
      .def(
          "one_hot",
          [lift](const Tensor& x, int64_t num_classes) {
            return lift(x, [=](const Expr& e) { return OneHot(e, num_classes); });
          },
          py::arg("num_classes"), "int32, a new last axis.")
      .def(
          "unfold",
          [lift](const Tensor& x, int64_t dimension, int64_t size, int64_t step) {
            return lift(x, [=](const Expr& e) {
              const Expr windows =
                  Windows(e, dimension, {.taps = size, .stride = step, .dilation = 1});
              const int64_t axis = dimension < 0 ? dimension + e.rank() : dimension;
              return windows.ok() ? MoveAxis(windows, axis + 1, -1) : windows;
            });
          },
          py::arg("dimension"), py::arg("size"), py::arg("step"))
      .def_static(
          "cat",
          [](const std::vector<Tensor>& tensors, int64_t dim) {
            return Joined(tensors, [dim](absl::Span<const Expr> parts) { return Cat(parts, dim); });
          },
          py::arg("tensors"), py::arg("dim") = 0)
      .def_static(
          "stack",
          [](const std::vector<Tensor>& tensors, int64_t dim) {
            return Joined(tensors,
                          [dim](absl::Span<const Expr> parts) { return Stack(parts, dim); });
          },
          py::arg("tensors"), py::arg("dim") = 0);
}

}  // namespace tensord::python
