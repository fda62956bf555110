// Tensor: the shape of one tensor. Most results are views (client/cc/tensor.h): what is written to
// them is written to the tensor.
#include "client/python/bind.h"
#include "core/base/status.h"
#include "core/tensor/compact.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/movement.h"
#include "core/tensor/reduce.h"
#include "core/tensor/size.h"

namespace tensord::python {
namespace {

using OptionalInts = std::vector<std::optional<int64_t>>;

template <typename Function>
Tensor Move(const Tensor& x, Function function) {
  return Checked(LiftView(function, x));
}
// The same for what makes new tensors even where nothing moves.
template <typename Function>
Tensor Copy(const Tensor& x, Function function) {
  return Checked(Lift(function, x));
}

// *sizes or one sequence of them, with None for "as it is".
OptionalInts ParseOptional(const py::args& sizes) {
  const bool one = sizes.size() == 1 && !sizes[0].is_none() && !PyIndex_Check(sizes[0].ptr());
  const py::tuple each =
      one ? py::tuple(py::reinterpret_borrow<py::object>(sizes[0])) : py::tuple(sizes);
  OptionalInts result;
  for (py::handle size : each) {
    if (size.is_none()) {
      result.emplace_back(std::nullopt);
    } else {
      result.emplace_back(ParseInts(size).at(0));
    }
  }
  return result;
}

// The same where a size stands for None.
Ints ParseShape(std::string_view name, const Tensor& x, const py::args& sizes) {
  Ints dims;
  for (const std::optional<int64_t>& size : ParseOptional(sizes)) {
    if (!size && static_cast<int64_t>(dims.size()) >= x.rank()) {
      Raise(InvalidArgument("{}: None keeps the size of an axis, and the tensor has only {}", name,
                            x.rank()));
    }
    dims.push_back(size ? *size : x.shape()[dims.size()]);
  }
  return dims;
}

Tensor ReshapeTo(const Tensor& x, const py::args& sizes) {
  const Ints dims = ParseShape("reshape", x, sizes);
  return Move(x, [&dims](const Expr& e) { return Reshape(e, dims); });
}

Tensor ExpandTo(const Tensor& x, const py::args& sizes) {
  Ints dims;
  for (const std::optional<int64_t>& size : ParseOptional(sizes)) dims.push_back(size.value_or(-1));
  return Move(x, [&dims](const Expr& e) { return Expand(e, dims); });
}

// *dims, one sequence of them, or dims=.
Ints ParseDims(const char* name, const py::args& dims, const py::kwargs& named) {
  if (named.empty()) return ParseSizes(dims);
  const bool one = named.size() == 1 && dims.empty();
  for (const char* key : {"dims", "dim", "axis"}) {
    if (one && named.contains(key)) return ParseInts(named[key]);
  }
  throw py::type_error(
      fmt::format("{}: give the axes one by one, as a sequence, or as dims=", name));
}

Tensor FlipOver(const Tensor& x, const py::args& dims, const py::kwargs& named) {
  const Ints axes = ParseDims("flip", dims, named);
  return Move(x, [&axes](const Expr& e) { return Flip(e, axes); });
}

Tensor MoveDims(const Tensor& x, py::handle source, py::handle destination) {
  const Ints from = ParseInts(source), to = ParseInts(destination);
  return Move(x, [&](const Expr& e) { return MoveAxes(e, from, to); });
}

// repeat_interleave with a number for each slice; reads back what they add up to, unless it is
// given.
Tensor RepeatSlices(const Tensor& x, const Tensor& repeats, int64_t axis,
                    std::optional<int64_t> size) {
  if (!size) {
    const std::vector<Tensor> read =
        LiftMany({x, repeats}, 2, [axis](absl::Span<const Expr> e) -> std::vector<Expr> {
          const Expr each = Cast(RepeatsOfSlices(e[0], e[1], axis), DType::kInt64);
          return {Sum(each), Sum(Cast(Lt(each, 0), DType::kInt64))};
        });
    if (CountOf(read[1]) > 0) Raise(InvalidArgument("repeat_interleave: repeats are negative"));
    size = CountOf(read[0]);
  }
  return Checked(
      Lift([&](const Expr& e, const Expr& r) { return RepeatInterleave(e, r, axis, *size); }, x,
           repeats));
}

Tensor RepeatInterleaveOf(const Tensor& x, py::handle repeats, std::optional<int64_t> dim,
                          std::optional<int64_t> size) {
  if (repeats.is_none()) {
    if (x.rank() != 1) {
      Raise(InvalidArgument("repeat_interleave: repeats {}, they must be in one row",
                            client::TextOf(x.shape())));
    }
    const Tensor places = Checked(Lift([](const Expr& e) { return IndexAlong(e, 0); }, x));
    return RepeatSlices(places, x, 0, size);
  }
  const Tensor from = dim ? x : Checked(Lift([](const Expr& e) { return Flatten(e); }, x));
  if (py::isinstance<Tensor>(repeats) || !PyIndex_Check(repeats.ptr())) {
    return RepeatSlices(from, ToTensor(repeats), dim.value_or(0), size);
  }
  return Copy(from, [axis = dim.value_or(0), times = repeats.cast<int64_t>()](const Expr& e) {
    return RepeatInterleave(e, times, axis);
  });
}

Tensor Swap(const Tensor& x, int64_t dim0, int64_t dim1) {
  return Move(x, [=](const Expr& e) { return Transpose(e, dim0, dim1); });
}

// A matrix turned, or anything smaller as it is.
Tensor TransposeMatrix(const Tensor& x) {
  if (x.rank() > 2) Raise(InvalidArgument("t: a tensor of {} axes; use transpose or mT", x.rank()));
  return x.rank() == 2 ? Swap(x, 0, 1) : Move(x, [](const Expr& e) { return e; });
}

// What a sequence of ints (pairs from the last axis on) or of pairs (one an axis) says of each
// axis.
std::vector<PadAmount> ParsePadding(const Tensor& x, py::handle padding) {
  std::vector<PadAmount> amounts(static_cast<size_t>(x.rank()));
  if (PyIndex_Check(padding.ptr())) {
    const int64_t each = padding.cast<int64_t>();
    for (PadAmount& amount : amounts) amount = {each, each};
    return amounts;
  }
  const py::tuple items(py::reinterpret_borrow<py::object>(padding));
  bool flat = true;
  for (py::handle item : items) flat = flat && PyIndex_Check(item.ptr());
  if (flat) {
    const Ints numbers = ParseInts(items);
    if (numbers.size() % 2 != 0 || numbers.size() > 2 * amounts.size()) {
      Raise(InvalidArgument("pad: {} numbers are no pairs for up to {} axes", numbers.size(),
                            x.rank()));
    }
    for (size_t i = 0; i < numbers.size(); i += 2) {
      amounts[amounts.size() - 1 - i / 2] = {numbers[i], numbers[i + 1]};
    }
    return amounts;
  }
  if (items.size() != amounts.size()) {
    Raise(InvalidArgument("pad: {} pairs for {} axes; give one (or None) for each", items.size(),
                          x.rank()));
  }
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].is_none()) continue;
    const Ints pair = PyIndex_Check(items[i].ptr()) ? Ints{} : ParseInts(items[i]);
    if (pair.size() != 2) {
      Raise(InvalidArgument("pad: axis {} has no pair (before, after) or None", i));
    }
    amounts[i] = {pair[0], pair[1]};
  }
  return amounts;
}

Tensor PadTensor(const Tensor& x, py::handle padding, std::string_view mode, py::handle value) {
  const std::vector<PadAmount> amounts = ParsePadding(x, padding);
  const std::optional<PadMode> known = PadModeFromName(mode);
  if (!known) {
    Raise(MakeStatus(absl::StatusCode::kUnimplemented,
                     "pad: mode '{}'; there are constant, reflect, replicate and circular", mode));
  }
  const std::optional<Number> fill = value.is_none() ? Number(0) : AsNumber(value);
  if (!fill) throw py::type_error("pad: the value is not a number");
  return Copy(x, [&](const Expr& e) { return PadBy(e, amounts, *known, *fill); });
}

Tensor ShrinkPairs(const Tensor& x, const py::args& pairs) {
  py::tuple items = pairs;
  if (pairs.size() == 1 && !pairs[0].is_none()) {
    const py::tuple inner(py::reinterpret_borrow<py::object>(pairs[0]));
    if (inner.empty() || !PyIndex_Check(inner[0].ptr())) items = inner;
  }
  if (static_cast<int64_t>(items.size()) != x.rank()) {
    Raise(InvalidArgument("shrink: {} pairs for {} axes; give one (or None) for each", items.size(),
                          x.rank()));
  }
  std::vector<Ints> parsed;  // empty: keeps the axis
  for (size_t i = 0; i < items.size(); ++i) {
    parsed.push_back(items[i].is_none() ? Ints() : ParseInts(items[i]));
    if (!items[i].is_none() && parsed[i].size() != 2) {
      Raise(InvalidArgument("shrink: axis {} has no pair (begin, end)", i));
    }
  }
  return Move(x, [&parsed](const Expr& e) {
    Expr result = e;
    for (size_t i = 0; i < parsed.size(); ++i) {
      const Ints& pair = parsed[i];
      if (!pair.empty()) result = Shrink(result, static_cast<int64_t>(i), pair[0], pair[1]);
    }
    return result;
  });
}

Tensor RollOver(const Tensor& x, py::handle shifts, py::handle dims) {
  const Ints by = ParseInts(shifts), axes = dims.is_none() ? Ints{} : ParseInts(dims);
  return Copy(x, [&](const Expr& e) { return Roll(e, by, axes); });
}

Tensor SqueezeDims(const Tensor& x, py::handle dim) {
  if (dim.is_none()) return Move(x, [](const Expr& e) { return Squeeze(e); });
  const Ints axes = ParseInts(dim);
  return Move(x, [&axes](const Expr& e) { return Squeeze(e, axes); });
}

// Numbers for two spatial axes, or one for both.
void ParsePair(std::string_view name, py::handle value, int64_t (&pair)[2]) {
  const Ints numbers = ParseInts(value);
  if (numbers.empty() || numbers.size() > 2) {
    Raise(InvalidArgument("{}: {} numbers for two axes", name, numbers.size()));
  }
  pair[0] = numbers.front();
  pair[1] = numbers.back();
}

Patches ParsePatches(std::string_view name, py::handle kernel, py::handle dilation,
                     py::handle padding, py::handle stride) {
  Patches patches{.kernel = {1, 1}};
  ParsePair(name, kernel, patches.kernel);
  ParsePair(name, dilation, patches.dilation);
  ParsePair(name, padding, patches.padding);
  ParsePair(name, stride, patches.stride);
  return patches;
}

Tensor RearrangeBy(const Tensor& x, std::string_view formula, const py::kwargs& sizes) {
  std::map<std::string, int64_t> given;
  for (auto [name, size] : sizes) given[name.cast<std::string>()] = size.cast<int64_t>();
  return Move(x, [&](const Expr& e) { return Rearrange(e, formula, given); });
}

void BindShapes(py::class_<Tensor>& tensor) {
  tensor
      .def("reshape", &ReshapeTo,
           "Another shape of as many elements: one size may be -1 (what remains), None keeps one.\n"
           "ValueError if the sizes do not fit. A view.")
      .def("view", &ReshapeTo, "The same as reshape; it never fails for the layout in memory.")
      .def(
          "view_as",
          [](const Tensor& x, const Tensor& other) {
            return Move(x, [&](const Expr& e) { return Reshape(e, other.shape()); });
          },
          py::arg("other"), "reshape(other.shape)")
      .def(
          "reshape_as",
          [](const Tensor& x, const Tensor& other) {
            return Move(x, [&](const Expr& e) { return Reshape(e, other.shape()); });
          },
          py::arg("other"), "reshape(other.shape)")
      .def("expand", &ExpandTo,
           "Repeats axes of size 1; -1 or None keeps a size; new axes come in front.")
      .def(
          "expand_as",
          [](const Tensor& x, const Tensor& other) {
            return Move(x, [&](const Expr& e) { return BroadcastTo(e, other.shape()); });
          },
          py::arg("other"), "expand(other.shape)")
      .def(
          "broadcast_to",
          [](const Tensor& x, py::handle shape) {
            const Ints dims = ParseInts(shape);
            return Move(x, [&dims](const Expr& e) { return Expand(e, dims); });
          },
          py::arg("shape"), "expand(shape)")
      .def("squeeze", &SqueezeDims, py::arg("dim") = py::none(),
           "Drops axes of size 1: all, or those named if they have it. A view.")
      .def(
          "unsqueeze",
          [](const Tensor& x, int64_t dim) {
            return Move(x, [=](const Expr& e) { return Unsqueeze(e, dim); });
          },
          py::arg("dim"), "A new axis of size 1 at that place of the result. A view.")
      .def(
          "flatten",
          [](const Tensor& x, int64_t start_dim, int64_t end_dim) {
            return Move(x, [=](const Expr& e) { return Flatten(e, start_dim, end_dim); });
          },
          py::arg("start_dim") = 0, py::arg("end_dim") = -1, "Those axes as one. A view.")
      .def(
          "ravel",
          [](const Tensor& x) { return Move(x, [](const Expr& e) { return Flatten(e); }); },
          "flatten()")
      .def(
          "unflatten",
          [](const Tensor& x, int64_t dim, py::handle sizes) {
            const Ints dims = ParseInts(sizes);
            return Move(x, [&](const Expr& e) { return Unflatten(e, dim, dims); });
          },
          py::arg("dim"), py::arg("sizes"), "One axis as several; a size may be -1. A view.")
      .def("rearrange", &RearrangeBy, py::arg("formula"),
           "As einops does: t.rearrange('b (h w) c -> b c h w', h=4). Names in brackets share an "
           "axis,\n1 is an axis of that size, ... any axes. A view.")
      .def("shrink", &ShrinkPairs,
           "Elements begin <= i < end of each axis, a pair or None for each. A view.")
      .def(
          "shrink_to",
          [](const Tensor& x, const py::args& sizes) {
            const OptionalInts dims = ParseOptional(sizes);
            return Move(x, [&dims](const Expr& e) { return ShrinkTo(e, dims); });
          },
          "The first elements of each axis; None keeps it. A view.")
      .def(
          "narrow",
          [](const Tensor& x, int64_t dim, int64_t start, int64_t length) {
            return Move(x, [=](const Expr& e) { return Narrow(e, dim, start, length); });
          },
          py::arg("dim"), py::arg("start"), py::arg("length"),
          "x[.., start:start + length]. A view.")
      .def(
          "select",
          [](const Tensor& x, int64_t dim, int64_t index) {
            return Move(x, [=](const Expr& e) { return Select(e, dim, index); });
          },
          py::arg("dim"), py::arg("index"), "One slice of an axis, which goes away. A view.");
}

void BindAxes(py::class_<Tensor>& tensor) {
  tensor
      .def(
          "permute",
          [](const Tensor& x, const py::args& order) {
            const Ints axes = ParseSizes(order);
            return Move(x, [&axes](const Expr& e) { return Permute(e, axes); });
          },
          "Axis i of the result is axis order[i]. A view.")
      .def("transpose", &Swap, py::arg("dim0") = 1, py::arg("dim1") = 0, "Swaps two axes. A view.")
      .def("swapaxes", &Swap, py::arg("axis0"), py::arg("axis1"), "transpose")
      .def("swapdims", &Swap, py::arg("dim0"), py::arg("dim1"), "transpose")
      .def("t", &TransposeMatrix, "A matrix transposed; a vector or number as it is. A view.")
      .def_property_readonly(
          "T", [](const Tensor& x) { return Swap(x, 1, 0); },
          "The first two axes swapped, whatever the rank; an error for less than two. A view.")
      .def_property_readonly(
          "mT", [](const Tensor& x) { return Swap(x, -2, -1); },
          "The last two axes swapped. A view.")
      .def_property_readonly(
          "mH", [](const Tensor& x) { return Swap(x, -2, -1); }, "mT: all numbers are real.")
      .def_property_readonly("H", &TransposeMatrix, "t(): all numbers are real.")
      .def(
          "adjoint", [](const Tensor& x) { return Swap(x, -2, -1); }, "mT: all numbers are real.")
      .def("movedim", &MoveDims, py::arg("source"), py::arg("destination"),
           "Brings axes to other places; the rest keep their order. A view.")
      .def("moveaxis", &MoveDims, py::arg("source"), py::arg("destination"), "movedim")
      .def("flip", &FlipOver, "Reverses axes. A view.")
      .def(
          "fliplr",
          [](const Tensor& x) {
            if (x.rank() < 2) Raise(InvalidArgument("fliplr: a tensor of {} axes", x.rank()));
            return Move(x, [](const Expr& e) { return Flip(e, {1}); });
          },
          "flip(1)")
      .def(
          "flipud",
          [](const Tensor& x) {
            if (x.rank() < 1) Raise(InvalidArgument("flipud: a tensor without axes"));
            return Move(x, [](const Expr& e) { return Flip(e, {0}); });
          },
          "flip(0)")
      .def(
          "rot90",
          [](const Tensor& x, int64_t k, py::handle dims) {
            const Ints axes = ParseInts(dims);
            if (axes.size() != 2) Raise(InvalidArgument("rot90: {} axes, not two", axes.size()));
            return Copy(x, [&](const Expr& e) { return Rot90(e, k, axes[0], axes[1]); });
          },
          py::arg("k") = 1, py::arg("dims") = py::make_tuple(0, 1),
          "Turned by k quarters, from the first of the axes towards the second.")
      .def("roll", &RollOver, py::arg("shifts"), py::arg("dims") = py::none(),
           "Shifted along axes, what falls out comes in at the other end; without axes, in "
           "row-major order.")
      .def(
          "diagonal",
          [](const Tensor& x, int64_t offset, int64_t dim1, int64_t dim2) {
            return Move(x, [=](const Expr& e) { return Diagonal(e, offset, dim1, dim2); });
          },
          py::arg("offset") = 0, py::arg("dim1") = 0, py::arg("dim2") = 1,
          "The diagonal of two axes as the last one. A view.")
      .def(
          "diag",
          [](const Tensor& x, int64_t diagonal) {
            return Copy(x, [=](const Expr& e) { return Diag(e, diagonal); });
          },
          py::arg("diagonal") = 0, "A vector as a diagonal, or the diagonal of a matrix.")
      .def(
          "diag_embed",
          [](const Tensor& x, int64_t offset, int64_t dim1, int64_t dim2) {
            return Copy(x, [=](const Expr& e) { return DiagEmbed(e, offset, dim1, dim2); });
          },
          py::arg("offset") = 0, py::arg("dim1") = -2, py::arg("dim2") = -1,
          "The last axis as the diagonal of two new axes, zero elsewhere.")
      .def(
          "diagflat",
          [](const Tensor& x, int64_t offset) {
            return Copy(x, [=](const Expr& e) { return Diag(Reshape(e, {-1}), offset); });
          },
          py::arg("offset") = 0, "All elements as a diagonal.")
      .def(
          "tril",
          [](const Tensor& x, int64_t diagonal) {
            return Copy(x, [=](const Expr& e) { return Tril(e, diagonal); });
          },
          py::arg("diagonal") = 0,
          "What is on or below a diagonal of the last two axes, else zero.")
      .def(
          "triu",
          [](const Tensor& x, int64_t diagonal) {
            return Copy(x, [=](const Expr& e) { return Triu(e, diagonal); });
          },
          py::arg("diagonal") = 0,
          "What is on or above a diagonal of the last two axes, else zero.");
}

void BindCopies(py::class_<Tensor>& tensor) {
  tensor
      .def("pad", &PadTensor, py::arg("padding"), py::arg("mode") = "constant",
           py::arg("value") = 0.0,
           "`padding` is flat, pairs (before, after) from the last axis on as in PyTorch, or one "
           "pair or\nNone for each axis from the first on. Modes constant, reflect, replicate, "
           "circular, for any rank;\nnegative amounts crop. NotImplementedError for another mode.")
      .def(
          "pad_to",
          [](const Tensor& x, const py::args& sizes, py::handle value) {
            const OptionalInts dims = ParseOptional(sizes);
            const std::optional<Number> fill = AsNumber(value);
            if (!fill) throw py::type_error("pad_to: the value is not a number");
            return Copy(x, [&](const Expr& e) { return PadTo(e, dims, *fill); });
          },
          py::arg("value") = 0, "Grows at the end of each axis to that size; None keeps it.")
      .def(
          "repeat",
          [](const Tensor& x, const py::args& repeats) {
            const Ints counts = ParseSizes(repeats);
            return Copy(x, [&](const Expr& e) { return Repeat(e, counts); });
          },
          "The whole tensor so often along each axis; more numbers than axes make new axes in "
          "front.")
      .def(
          "tile",
          [](const Tensor& x, const py::args& dims) {
            const Ints counts = ParseSizes(dims);
            return Copy(x, [&](const Expr& e) { return Tile(e, counts); });
          },
          "repeat, but fewer numbers than axes are for the last ones.")
      .def("repeat_interleave", &RepeatInterleaveOf, py::arg("repeats") = py::none(),
           py::arg("dim") = py::none(), py::kw_only(), py::arg("output_size") = py::none(),
           "Each element so often in a row, along an axis or of all in row-major order; `repeats` "
           "is a "
           "number, or integers for each slice, whose sum is output_size, or else is read back. "
           "Without "
           "repeats, self are those of the numbers 0, 1, .. .")
      .def(
          "unfold",
          [](const Tensor& x, int64_t dimension, int64_t size, int64_t step) {
            return Move(x, [=](const Expr& e) { return Unfold(e, dimension, size, step); });
          },
          py::arg("dimension"), py::arg("size"), py::arg("step"),
          "Windows of `size` elements, `step` apart, as a new last axis.")
      .def(
          "as_strided",
          [](const Tensor& x, py::handle size, py::handle stride, int64_t storage_offset) {
            const Ints dims = ParseInts(size), strides = ParseInts(stride);
            return Copy(x,
                        [&](const Expr& e) { return AsStrided(e, dims, strides, storage_offset); });
          },
          py::arg("size"), py::arg("stride"), py::arg("storage_offset") = 0,
          "Elements at offset + index * stride, counted in row-major order. A copy, not a view.")
      .def(
          "pixel_shuffle",
          [](const Tensor& x, int64_t upscale_factor) {
            return Copy(x, [=](const Expr& e) { return PixelShuffle(e, upscale_factor); });
          },
          py::arg("upscale_factor"), "[.., c * r * r, h, w] to [.., c, h * r, w * r]")
      .def(
          "pixel_unshuffle",
          [](const Tensor& x, int64_t downscale_factor) {
            return Copy(x, [=](const Expr& e) { return PixelUnshuffle(e, downscale_factor); });
          },
          py::arg("downscale_factor"), "[.., c, h * r, w * r] to [.., c * r * r, h, w]")
      .def(
          "channel_shuffle",
          [](const Tensor& x, int64_t groups) {
            return Copy(x, [=](const Expr& e) { return ChannelShuffle(e, groups); });
          },
          py::arg("groups"), "Axis 1 dealt out to groups.")
      .def(
          "im2col",
          [](const Tensor& x, py::handle kernel_size, py::handle dilation, py::handle padding,
             py::handle stride) {
            const Patches patches = ParsePatches("unfold", kernel_size, dilation, padding, stride);
            return Copy(x, [&](const Expr& e) { return Im2Col(e, patches); });
          },
          py::arg("kernel_size"), py::arg("dilation") = 1, py::arg("padding") = 0,
          py::arg("stride") = 1,
          "torch's F.unfold: [n, c, h, w] to [n, c * taps, patches]; n may be absent.")
      .def(
          "col2im",
          [](const Tensor& x, py::handle output_size, py::handle kernel_size, py::handle dilation,
             py::handle padding, py::handle stride) {
            const Patches patches = ParsePatches("fold", kernel_size, dilation, padding, stride);
            int64_t size[2];
            ParsePair("fold", output_size, size);
            return Copy(x, [&](const Expr& e) { return Col2Im(e, size[0], size[1], patches); });
          },
          py::arg("output_size"), py::arg("kernel_size"), py::arg("dilation") = 1,
          py::arg("padding") = 0, py::arg("stride") = 1,
          "torch's F.fold: the adjoint of im2col, what lies at one place is added.");
}

}  // namespace

void BindMovement(py::class_<Tensor>& tensor) {
  BindShapes(tensor);
  BindAxes(tensor);
  BindCopies(tensor);
}

}  // namespace tensord::python
