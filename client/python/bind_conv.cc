// Tensor: convolution, pooling, attention.
#include "client/python/bind.h"
#include "client/python/operands.h"
#include "core/base/status.h"
#include "core/tensor/attention.h"
#include "core/tensor/conv.h"
#include "core/tensor/nn.h"
#include "core/tensor/pool.h"

namespace tensord::python {
namespace {

size_t SpatialAxes(const char* what, const Tensor& weight) {
  if (weight.rank() < 3 || weight.rank() > 5) {
    Raise(InvalidArgument("{}: weight {}: it needs two axes and then 1 to 3 spatial ones", what,
                          client::TextOf(weight.shape())));
  }
  return static_cast<size_t>(weight.rank() - 2);
}

Tensor ConvOf(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias,
              int64_t groups, py::handle stride, py::handle dilation, py::handle padding,
              py::handle dtype) {
  const size_t axes = SpatialAxes("conv2d", weight);
  const Ints strides = PerAxis("conv2d: stride", stride, axes);
  const Ints dilations = PerAxis("conv2d: dilation", dilation, axes);
  std::vector<PadAmount> pads;
  if (py::isinstance<py::str>(padding)) {
    const std::string name = padding.cast<std::string>();
    if (name != "same" && name != "valid") {
      Raise(InvalidArgument("conv2d: padding is numbers, 'same' or 'valid', not '{}'", name));
    }
    if (name == "same") {
      for (int64_t each : strides) {
        if (each != 1) Raise(InvalidArgument("conv2d: padding 'same' needs stride 1"));
      }
      pads = SamePadding(weight.shape(), dilations);
    }
  } else {
    pads = ParsePadding("conv2d", padding, axes);
  }
  const std::optional<DType> type = OptionalDType(dtype);
  return WithOptional(x, {weight, bias}, [&](const Expr& e, const auto& given) {
    return Conv(e, *given[0], given[1],
                {.stride = strides,
                 .dilation = dilations,
                 .padding = pads,
                 .groups = groups,
                 .dtype = type});
  });
}

Tensor ConvTransposeOf(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias,
                       int64_t groups, py::handle stride, py::handle dilation, py::handle padding,
                       py::handle output_padding) {
  const size_t axes = SpatialAxes("conv_transpose2d", weight);
  const Ints strides = PerAxis("conv_transpose2d: stride", stride, axes);
  const Ints dilations = PerAxis("conv_transpose2d: dilation", dilation, axes);
  const Ints extra = PerAxis("conv_transpose2d: output_padding", output_padding, axes);
  const std::vector<PadAmount> pads = ParsePadding("conv_transpose2d", padding, axes);
  return WithOptional(x, {weight, bias}, [&](const Expr& e, const auto& given) {
    return ConvTranspose(
        e, *given[0], given[1],
        {.stride = strides, .dilation = dilations, .padding = pads, .groups = groups}, extra);
  });
}

// Owns what PoolOptions only points to.
struct Pooling {
  Ints kernel, stride, dilation;
  std::vector<PadAmount> padding;

  // One number is the size of two axes, as the default is.
  Pooling(const std::string& what, py::handle kernel_size, py::handle stride_size,
          py::handle padding_size, py::handle dilation_size) {
    kernel = ParseInts(kernel_size);
    if (PyIndex_Check(kernel_size.ptr())) kernel.resize(2, kernel[0]);
    const size_t axes = kernel.size();
    stride = stride_size.is_none() ||
                     (py::isinstance<py::sequence>(stride_size) && py::len(stride_size) == 0)
                 ? kernel
                 : PerAxis(what + ": stride", stride_size, axes);
    padding = ParsePadding(what, padding_size, axes);
    dilation = PerAxis(what + ": dilation", dilation_size, axes);
  }
  PoolOptions options(bool ceil_mode) const {
    return {.kernel = kernel,
            .stride = stride,
            .dilation = dilation,
            .padding = padding,
            .ceil_mode = ceil_mode};
  }
};

py::object ValuesAndIndices(const std::vector<Tensor>& made, bool return_indices) {
  if (!return_indices) return py::cast(made[0]);
  return py::make_tuple(made[0], made[1]);
}

py::object MaxPoolOf(const Tensor& x, py::handle kernel_size, py::handle stride,
                     py::handle dilation, py::handle padding, bool ceil_mode, bool return_indices) {
  const Pooling pooling("max_pool2d", kernel_size, stride, padding, dilation);
  if (!return_indices) {
    return py::cast(
        Checked(Lift([&](const Expr& e) { return MaxPool(e, pooling.options(ceil_mode)); }, x)));
  }
  return ValuesAndIndices(LiftMany({x}, 2,
                                   [&](absl::Span<const Expr> e) {
                                     const PooledMax pooled =
                                         MaxPoolWithIndices(e[0], pooling.options(ceil_mode));
                                     return std::vector<Expr>{pooled.values, pooled.indices};
                                   }),
                          true);
}

Tensor AvgPoolOf(const Tensor& x, py::handle kernel_size, py::handle stride, py::handle dilation,
                 py::handle padding, bool ceil_mode, bool count_include_pad,
                 std::optional<int64_t> divisor_override) {
  const Pooling pooling("avg_pool2d", kernel_size, stride, padding, dilation);
  PoolOptions options = pooling.options(ceil_mode);
  options.count_include_pad = count_include_pad;
  options.divisor = divisor_override;
  return Checked(Lift([&](const Expr& e) { return AvgPool(e, options); }, x));
}

Tensor MaxUnpoolOf(const Tensor& x, const Tensor& indices, py::handle kernel_size,
                   py::handle stride, py::handle dilation, py::handle padding,
                   py::handle output_size) {
  const Pooling pooling("max_unpool2d", kernel_size, stride, padding, dilation);
  const size_t axes = pooling.kernel.size();
  if (x.rank() < static_cast<int64_t>(axes)) {
    Raise(InvalidArgument("max_unpool2d: input {} for a kernel of {} axes",
                          client::TextOf(x.shape()), axes));
  }
  Ints size;
  if (!output_size.is_none()) {
    size = ParseInts(output_size);
    if (size.size() < axes) {
      Raise(
          InvalidArgument("max_unpool2d: output_size has {} sizes for {} axes", size.size(), axes));
    }
    // Sizes of batch and channels, if given, are those of the input.
    size.erase(size.begin(), size.end() - static_cast<std::ptrdiff_t>(axes));
  } else {
    for (size_t i = 0; i < axes; ++i) {
      const int64_t count = x.shape()[x.rank() - axes + i];
      const PadAmount pad = pooling.padding[i];
      size.push_back((count - 1) * pooling.stride[i] - pad.before - pad.after +
                     pooling.dilation[i] * (pooling.kernel[i] - 1) + 1);
    }
  }
  return Checked(
      Lift([&](const Expr& e, const Expr& i) { return MaxUnpool(e, i, size); }, x, indices));
}

bool IsTraining() {
  return py::module_::import("tensord.training").attr("is_training")().cast<bool>();
}

Tensor AttentionOf(const Tensor& query, const Tensor& key, const Tensor& value,
                   const std::optional<Tensor>& attn_mask, double dropout_p, bool is_causal,
                   bool enable_gqa, std::optional<double> scale, std::optional<bool> training) {
  if (!(dropout_p >= 0 && dropout_p <= 1)) {
    Raise(InvalidArgument("attention: dropout_p is {}, not in [0, 1]", dropout_p));
  }
  std::optional<Tensor> random;
  if (dropout_p > 0 && (training ? *training : IsTraining())) {
    const Dims shape = AttentionScoresShape(query.shape(), key.shape(), enable_gqa);
    random = CurrentClient().Rand(
        shape, query.dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32);
  }
  return WithOptional(query, {key, value, attn_mask, random},
                      [&](const Expr& q, const auto& given) {
                        return ScaledDotProductAttention(q, *given[0], *given[1],
                                                         {.mask = given[2],
                                                          .is_causal = is_causal,
                                                          .grouped_heads = enable_gqa,
                                                          .scale = scale,
                                                          .random = given[3],
                                                          .dropout_p = dropout_p});
                      });
}

}  // namespace

void BindConv(py::class_<Tensor>& tensor) {
  tensor
      .def("conv2d", &ConvOf, py::arg("weight"), py::arg("bias") = py::none(),
           py::arg("groups") = 1, py::arg("stride") = 1, py::arg("dilation") = 1,
           py::arg("padding") = 0, py::arg("dtype") = py::none(),
           "x [batch, in, spatial..] (the batch may be left out) by weight [out, in / groups, "
           "taps..]: 1 to 3 spatial axes, as the weight has; bias [out].\n"
           "Beware of the order of arguments, which is not PyTorch's; nn.functional.conv2d has "
           "that.\n"
           "padding is a number, one per axis, or both sides of each axis beginning with the last "
           "(left, right, top, bottom); negative amounts crop; 'same' and 'valid' too.\n"
           "The result has the promoted dtype, or `dtype`; floats below float32 are summed in "
           "float32. ValueError if shapes do not fit.")
      .def("conv_transpose2d", &ConvTransposeOf, py::arg("weight"), py::arg("bias") = py::none(),
           py::arg("groups") = 1, py::arg("stride") = 1, py::arg("dilation") = 1,
           py::arg("padding") = 0, py::arg("output_padding") = 0,
           "The gradient of conv2d in its input, as a layer: weight [in, out / groups, taps..], 1 "
           "to 3 spatial axes.\n"
           "Beware of the order of arguments, which is not PyTorch's; "
           "nn.functional.conv_transpose2d has that.")
      .def("max_pool2d", &MaxPoolOf, py::arg("kernel_size") = py::make_tuple(2, 2),
           py::arg("stride") = py::none(), py::arg("dilation") = 1, py::arg("padding") = 0,
           py::arg("ceil_mode") = false, py::arg("return_indices") = false,
           "The largest element of each window over the last axes, as many as kernel_size has (one "
           "number means two axes), of any dtype; NaN counts as the largest.\n"
           "dilation comes before padding, other than in nn.functional. With return_indices also "
           "the int32 place of the first largest element in the flattened axes.")
      .def("avg_pool2d", &AvgPoolOf, py::arg("kernel_size") = py::make_tuple(2, 2),
           py::arg("stride") = py::none(), py::arg("dilation") = 1, py::arg("padding") = 0,
           py::arg("ceil_mode") = false, py::arg("count_include_pad") = true,
           py::arg("divisor_override") = py::none(),
           "The mean of each window over the last axes, as many as kernel_size has (one number "
           "means two axes). Integers give float32.\n"
           "dilation comes before padding, other than in nn.functional.")
      .def("max_unpool2d", &MaxUnpoolOf, py::arg("indices"),
           py::arg("kernel_size") = py::make_tuple(2, 2), py::arg("stride") = py::none(),
           py::arg("dilation") = 1, py::arg("padding") = 0, py::arg("output_size") = py::none(),
           "Puts the elements that max_pool2d chose back to their places; zeros elsewhere. Of "
           "several elements with one place the last one stays; each gets the derivative of the "
           "place.")
      .def(
          "lp_pool2d",
          [](const Tensor& x, double norm_type, py::handle kernel_size, py::handle stride,
             bool ceil_mode) {
            const Pooling pooling("lp_pool2d", kernel_size, stride, py::int_(0), py::int_(1));
            return Checked(Lift(
                [&](const Expr& e) { return LpPool(e, norm_type, pooling.options(ceil_mode)); },
                x));
          },
          py::arg("norm_type"), py::arg("kernel_size"), py::arg("stride") = py::none(),
          py::arg("ceil_mode") = false,
          "The norm_type-th root of the sum of norm_type-th powers in each window.")
      .def(
          "adaptive_avg_pool",
          [](const Tensor& x, const Ints& size) {
            return Checked(Lift([&](const Expr& e) { return AdaptiveAvgPool(e, size); }, x));
          },
          py::arg("output_size"),
          "Means of windows that share out the last axes into output_size; -1 keeps a size.")
      .def(
          "adaptive_max_pool",
          [](const Tensor& x, const Ints& size) {
            const auto made = LiftMany({x}, 2, [&](absl::Span<const Expr> e) {
              const PooledMax pooled = AdaptiveMaxPool(e[0], size);
              return std::vector<Expr>{pooled.values, pooled.indices};
            });
            return std::make_tuple(made[0], made[1]);
          },
          py::arg("output_size"),
          "Largest elements of windows that share out the last axes into output_size (-1 keeps a "
          "size), and their int32 places in the flattened axes.")
      .def(
          "fractional_max_pool",
          [](const Tensor& x, const Ints& kernel_size, const Ints& output_size,
             const Tensor& random_samples) {
            const auto made = LiftMany({x, random_samples}, 2, [&](absl::Span<const Expr> e) {
              const PooledMax pooled = FractionalMaxPool(e[0], kernel_size, output_size, e[1]);
              return std::vector<Expr>{pooled.values, pooled.indices};
            });
            return std::make_tuple(made[0], made[1]);
          },
          py::arg("kernel_size"), py::arg("output_size"), py::arg("random_samples"),
          "x [batch, channels, axes..] in windows at pseudo-random places, which random_samples "
          "[batch, channels, axes] in [0, 1) decide: the largest elements and their places.")
      .def("scaled_dot_product_attention", &AttentionOf, py::arg("key"), py::arg("value"),
           py::arg("attn_mask") = py::none(), py::arg("dropout_p") = 0.0,
           py::arg("is_causal") = false, py::arg("enable_gqa") = false,
           py::arg("scale") = py::none(), py::arg("training") = py::none(),
           "softmax(query key^T scale + mask) value: query [.., heads, queries, dim], key [.., "
           "heads, keys, dim], value [.., heads, keys, size].\n"
           "attn_mask: bool says what to keep, a float is added to the scores; not together with "
           "is_causal, which aligns the first query with the first key. enable_gqa: each key and "
           "value head serves a group of query heads. scale is 1 / sqrt(dim) unless given.\n"
           "Dropout happens inside `with training():` or if `training` says so. Scores and softmax "
           "are computed in at least float32; a query that may see nothing gives NaN.");
}

}  // namespace tensord::python
