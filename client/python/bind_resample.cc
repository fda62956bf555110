// Tensor: resizing and sampling.
#include "client/python/bind.h"
#include "client/python/operands.h"
#include "client/python/parts.h"
#include "core/base/status.h"
#include "core/tensor/resample.h"

namespace tensord::python {
namespace {

ResampleMode ParseMode(const std::string& what, const std::string& name) {
  using enum ResampleMode;
  static constexpr std::pair<std::string_view, ResampleMode> kModes[] = {
      {"nearest", kNearest},  {"nearest-exact", kNearestExact},
      {"linear", kLinear},    {"bilinear", kLinear},
      {"trilinear", kLinear}, {"cubic", kCubic},
      {"bicubic", kCubic},    {"area", kArea},
  };
  for (const auto& [each, mode] : kModes) {
    if (each == name) return mode;
  }
  Raise(InvalidArgument(
      "{}: mode is 'nearest', 'nearest-exact', 'linear', 'cubic' or 'area', not '{}'", what, name));
}

GridPadding ParseGridPadding(const std::string& name) {
  if (name == "zeros") return GridPadding::kZeros;
  if (name == "border") return GridPadding::kBorder;
  if (name == "reflection") return GridPadding::kReflection;
  Raise(
      InvalidArgument("grid_sample: padding is 'zeros', 'border' or 'reflection', not '{}'", name));
}

}  // namespace

void BindResample(py::class_<Tensor>& tensor) {
  tensor
      .def(
          "interpolate",
          [](const Tensor& x, py::handle size, const std::string& mode, bool align_corners,
             bool antialias, const std::vector<double>& scale) {
            const Ints sizes = ParseInts(size);
            const InterpolateOptions options = {.mode = ParseMode("interpolate", mode),
                                                .align_corners = align_corners,
                                                .antialias = antialias,
                                                .scale = scale};
            return Checked(Lift([&](const Expr& e) { return Interpolate(e, sizes, options); }, x));
          },
          py::arg("size"), py::arg("mode") = "linear", py::arg("align_corners") = false,
          py::arg("antialias") = false, py::arg("scale") = std::vector<double>(),
          "The last axes, as many as size has, in another size: 'linear' (also 'bilinear', "
          "'trilinear'), 'cubic', 'nearest', 'nearest-exact' or 'area'. nn.functional.interpolate "
          "takes scale factors.\n"
          "Integers keep their dtype; uint8 is rounded in fixed point after each axis.")
      .def(
          "grid_sample",
          [](const Tensor& x, const Tensor& grid, const std::string& mode,
             const std::string& padding_mode, bool align_corners) {
            const GridSampleOptions options = {.mode = ParseMode("grid_sample", mode),
                                               .padding = ParseGridPadding(padding_mode),
                                               .align_corners = align_corners};
            return Checked(Lift(
                [&](const Expr& e, const Expr& g) { return GridSample(e, g, options); }, x, grid));
          },
          py::arg("grid"), py::arg("mode") = "bilinear", py::arg("padding_mode") = "zeros",
          py::arg("align_corners") = false,
          "self [batch, channels, spatial..] at the places grid [batch, out.., axes] in [-1, 1], "
          "with the last axis first: [batch, channels, out..].")
      .def(
          "affine_grid",
          [](const Tensor& theta, py::handle size, bool align_corners) {
            const Ints sizes = ParseInts(size);
            return Checked(
                Lift([&](const Expr& e) { return AffineGrid(e, sizes, align_corners); }, theta));
          },
          py::arg("size"), py::arg("align_corners") = false,
          "The grid for grid_sample of the map self [batch, axes, axes + 1] and images of that "
          "size (batch, channels, spatial..).");
}

}  // namespace tensord::python
