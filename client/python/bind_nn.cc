// Tensor: what layers are made of.
#include "client/cc/ops.h"
#include "client/python/bind.h"
#include "core/base/status.h"
#include "core/tensor/index.h"
#include "core/tensor/loss.h"

namespace tensord::python {
namespace {

// A function over x and operands that may be absent: fn(x, optionals).
template <typename Function>
Tensor WithOptional(const Tensor& x, const std::vector<std::optional<Tensor>>& optionals,
                    Function function) {
  std::vector<client::StateRef> operands = {x.state()};
  for (const auto& optional : optionals) {
    if (optional) operands.push_back(optional->state());
  }
  return Checked(Tensor(x.session().Apply(operands, [&](Graph&, absl::Span<const Expr> sources) {
    std::vector<std::optional<Expr>> given;
    size_t next = 1;
    for (const auto& optional : optionals) {
      given.push_back(optional ? std::optional<Expr>(sources[next++]) : std::nullopt);
    }
    return function(sources[0], given);
  })));
}

// One number for all spatial axes, or one for each.
Ints PerAxis(const char* what, py::handle value, size_t axes) {
  Ints ints = ParseInts(value);
  if (ints.size() == 1) ints.resize(axes, ints[0]);
  if (ints.size() != axes) {
    Raise(InvalidArgument("{}: {} numbers for {} spatial axes", what, ints.size(), axes));
  }
  return ints;
}

std::vector<PadAmount> Symmetric(const Ints& padding) {
  std::vector<PadAmount> amounts;
  for (int64_t amount : padding) amounts.push_back({amount, amount});
  return amounts;
}

size_t SpatialAxes(const char* what, const Tensor& x) {
  if (x.rank() < 3) {
    Raise(InvalidArgument("{}: the input has {} axes; it needs [batch, channels, sizes..]", what,
                          x.rank()));
  }
  return static_cast<size_t>(x.rank() - 2);
}

Tensor ConvOf(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias,
              py::handle stride, py::handle padding, py::handle dilation, int64_t groups) {
  const size_t axes = SpatialAxes("conv2d", x);
  const Ints strides = PerAxis("conv2d stride", stride, axes);
  const Ints dilations = PerAxis("conv2d dilation", dilation, axes);
  const std::vector<PadAmount> pads = Symmetric(PerAxis("conv2d padding", padding, axes));
  return WithOptional(x, {weight, bias}, [&](const Expr& e, const auto& given) {
    return Conv(e, *given[0], given[1],
                {.stride = strides, .dilation = dilations, .padding = pads, .groups = groups});
  });
}

// Owns what PoolOptions only points to.
struct Pooling {
  Ints kernel, stride, dilation;
  std::vector<PadAmount> padding;

  Pooling(const char* what, const Tensor& x, py::handle kernel_size, py::handle stride_size,
          py::handle padding_size, py::handle dilation_size) {
    const size_t axes = SpatialAxes(what, x);
    kernel = PerAxis(what, kernel_size, axes);
    stride = stride_size.is_none() ? kernel : PerAxis(what, stride_size, axes);
    padding = Symmetric(PerAxis(what, padding_size, axes));
    dilation = PerAxis(what, dilation_size, axes);
  }
  PoolOptions options(bool ceil_mode, bool count_include_pad) const {
    return {.kernel = kernel,
            .stride = stride,
            .dilation = dilation,
            .padding = padding,
            .ceil_mode = ceil_mode,
            .count_include_pad = count_include_pad};
  }
};

Reduction ParseReduction(const std::string& name) {
  const std::optional<Reduction> reduction = ReductionFromName(name);
  if (!reduction) Raise(InvalidArgument("reduction is 'mean', 'sum' or 'none', not '{}'", name));
  return *reduction;
}

using PairLoss = Expr (*)(const Expr&, const Expr&, Reduction);
auto BindPairLoss(PairLoss loss) {
  return [loss](const Tensor& x, const Tensor& target, const std::string& reduction) {
    const Reduction parsed = ParseReduction(reduction);
    return Checked(
        Lift([=](const Expr& a, const Expr& b) { return loss(a, b, parsed); }, x, target));
  };
}

std::tuple<Tensor, Tensor, Tensor> BatchNormTrainOf(const Tensor& x,
                                                    const std::optional<Tensor>& weight,
                                                    const std::optional<Tensor>& bias, double eps) {
  std::vector<client::StateRef> operands = {x.state()};
  if (weight) operands.push_back(weight->state());
  if (bias) operands.push_back(bias->state());
  std::vector<client::StateRef> made =
      x.session().ApplyMany(operands, 3, [&](Graph&, absl::Span<const Expr> sources) {
        std::optional<Expr> scale, shift;
        if (weight) scale = sources[1];
        if (bias) shift = sources.back();
        const BatchNormResult result = BatchNormTrain(sources[0], scale, shift, eps);
        return std::vector<Expr>{result.y, result.mean, result.unbiased_var};
      });
  return {Checked(Tensor(made[0])), Checked(Tensor(made[1])), Checked(Tensor(made[2]))};
}

}  // namespace

void BindNn(py::class_<Tensor>& tensor) {
#define TD_ACTIVATION(name, Name)                                            \
  tensor.def(name, [](const Tensor& x) {                                     \
    return Checked(Lift([](const Expr& e) { return tensord::Name(e); }, x)); \
  });
  TD_ACTIVATION("relu", Relu)
  TD_ACTIVATION("relu6", Relu6)
  TD_ACTIVATION("sigmoid", Sigmoid)
  TD_ACTIVATION("logsigmoid", LogSigmoid)
  TD_ACTIVATION("hardsigmoid", HardSigmoid)
  TD_ACTIVATION("hardswish", HardSwish)
  TD_ACTIVATION("silu", Silu)
  TD_ACTIVATION("swish", Silu)
  TD_ACTIVATION("quick_gelu", QuickGelu)
  TD_ACTIVATION("selu", Selu)
  TD_ACTIVATION("mish", Mish)
  TD_ACTIVATION("softsign", Softsign)
#undef TD_ACTIVATION
#define TD_WITH_NUMBER(name, Name, argument, standard)                                    \
  tensor.def(                                                                             \
      name,                                                                               \
      [](const Tensor& x, double number) {                                                \
        return Checked(Lift([=](const Expr& e) { return tensord::Name(e, number); }, x)); \
      },                                                                                  \
      py::arg(argument) = standard);
  TD_WITH_NUMBER("leaky_relu", LeakyRelu, "negative_slope", 0.01)
  TD_WITH_NUMBER("elu", Elu, "alpha", 1.0)
  TD_WITH_NUMBER("celu", Celu, "alpha", 1.0)
  TD_WITH_NUMBER("softplus", Softplus, "beta", 1.0)
#undef TD_WITH_NUMBER
  tensor
      .def(
          "hardtanh",
          [](const Tensor& x, double min_val, double max_val) {
            return Checked(Lift([=](const Expr& e) { return HardTanh(e, min_val, max_val); }, x));
          },
          py::arg("min_val") = -1.0, py::arg("max_val") = 1.0)
      .def(
          "gelu",
          [](const Tensor& x, const std::string& approximate) {
            if (approximate != "none" && approximate != "tanh") {
              Raise(
                  InvalidArgument("gelu: approximate is 'none' or 'tanh', not '{}'", approximate));
            }
            const GeluForm form = approximate == "tanh" ? GeluForm::kTanh : GeluForm::kErf;
            return Checked(Lift([=](const Expr& e) { return Gelu(e, form); }, x));
          },
          py::arg("approximate") = "none")

      .def(
          "linear",
          [](const Tensor& x, const Tensor& weight, std::optional<Tensor> bias) {
            return WithOptional(x, {weight, bias}, [](const Expr& e, const auto& given) {
              return Linear(e, *given[0], given[1]);
            });
          },
          py::arg("weight"), py::arg("bias") = py::none(), "weight is [out, in], as in PyTorch.")
      .def("conv2d", &ConvOf, py::arg("weight"), py::arg("bias") = py::none(),
           py::arg("stride") = 1, py::arg("padding") = 0, py::arg("dilation") = 1,
           py::arg("groups") = 1, "For one to three spatial axes, as the input has.")
      .def(
          "max_pool2d",
          [](const Tensor& x, py::handle kernel_size, py::handle stride, py::handle padding,
             py::handle dilation, bool ceil_mode) {
            const Pooling pooling("max_pool2d", x, kernel_size, stride, padding, dilation);
            return Checked(Lift(
                [&](const Expr& e) { return MaxPool(e, pooling.options(ceil_mode, true)); }, x));
          },
          py::arg("kernel_size"), py::arg("stride") = py::none(), py::arg("padding") = 0,
          py::arg("dilation") = 1, py::arg("ceil_mode") = false)
      .def(
          "avg_pool2d",
          [](const Tensor& x, py::handle kernel_size, py::handle stride, py::handle padding,
             bool ceil_mode, bool count_include_pad) {
            const Pooling pooling("avg_pool2d", x, kernel_size, stride, padding, py::int_(1));
            return Checked(Lift(
                [&](const Expr& e) {
                  return AvgPool(e, pooling.options(ceil_mode, count_include_pad));
                },
                x));
          },
          py::arg("kernel_size"), py::arg("stride") = py::none(), py::arg("padding") = 0,
          py::arg("ceil_mode") = false, py::arg("count_include_pad") = true)

      .def(
          "batch_norm",
          [](const Tensor& x, const Tensor& mean, const Tensor& var, std::optional<Tensor> weight,
             std::optional<Tensor> bias, double eps) {
            return WithOptional(
                x, {mean, var, weight, bias}, [eps](const Expr& e, const auto& given) {
                  return BatchNorm(e, *given[0], *given[1], given[2], given[3], eps);
                });
          },
          py::arg("mean"), py::arg("var"), py::arg("weight") = py::none(),
          py::arg("bias") = py::none(), py::arg("eps") = 1e-5, "By given statistics of axis 1.")
      .def("batch_norm_train", &BatchNormTrainOf, py::arg("weight") = py::none(),
           py::arg("bias") = py::none(), py::arg("eps") = 1e-5,
           "By the batch's own statistics; returns (y, mean, unbiased variance).")
      .def(
          "layer_norm",
          [](const Tensor& x, py::handle normalized_shape, std::optional<Tensor> weight,
             std::optional<Tensor> bias, double eps) {
            const Ints sizes = ParseInts(normalized_shape);
            const auto axes = static_cast<int64_t>(sizes.size());
            if (axes > x.rank() || !std::equal(sizes.rbegin(), sizes.rend(), x.shape().rbegin())) {
              Raise(InvalidArgument("layer_norm: the last axes of shape {} are not {}",
                                    client::TextOf(x.shape()), client::TextOf(sizes)));
            }
            return WithOptional(x, {weight, bias}, [=](const Expr& e, const auto& given) {
              return LayerNorm(e, axes, given[0], given[1], eps);
            });
          },
          py::arg("normalized_shape"), py::arg("weight") = py::none(), py::arg("bias") = py::none(),
          py::arg("eps") = 1e-5)
      .def(
          "group_norm",
          [](const Tensor& x, int64_t num_groups, std::optional<Tensor> weight,
             std::optional<Tensor> bias, double eps) {
            return WithOptional(x, {weight, bias}, [=](const Expr& e, const auto& given) {
              return GroupNorm(e, num_groups, given[0], given[1], eps);
            });
          },
          py::arg("num_groups"), py::arg("weight") = py::none(), py::arg("bias") = py::none(),
          py::arg("eps") = 1e-5)
      .def(
          "rms_norm",
          [](const Tensor& x, std::optional<Tensor> weight, double eps) {
            return WithOptional(x, {weight}, [eps](const Expr& e, const auto& given) {
              return RmsNorm(e, given[0], eps);
            });
          },
          py::arg("weight") = py::none(), py::arg("eps") = 1e-6, "Over the last axis.")
      .def(
          "embedding",
          [](const Tensor& index, const Tensor& weight) {
            return Checked(
                Lift([](const Expr& i, const Expr& w) { return Embedding(w, i); }, index, weight));
          },
          py::arg("weight"), "Called on the indices: rows of `weight`; zeros for rows outside.")
      .def(
          "scaled_dot_product_attention",
          [](const Tensor& query, const Tensor& key, const Tensor& value,
             std::optional<Tensor> attn_mask, bool is_causal, std::optional<double> scale,
             bool enable_gqa) {
            return WithOptional(query, {key, value, attn_mask},
                                [&](const Expr& q, const auto& given) {
                                  return ScaledDotProductAttention(q, *given[0], *given[1],
                                                                   {.mask = given[2],
                                                                    .is_causal = is_causal,
                                                                    .grouped_heads = enable_gqa,
                                                                    .scale = scale});
                                });
          },
          py::arg("key"), py::arg("value"), py::arg("attn_mask") = py::none(),
          py::arg("is_causal") = false, py::arg("scale") = py::none(),
          py::arg("enable_gqa") = false)
      .def(
          "dropout",
          [](const Tensor& x, double p, bool training) {
            if (!(p >= 0 && p <= 1)) Raise(InvalidArgument("dropout: p is {}, not in [0, 1]", p));
            if (!training || p == 0) return x;
            const DType dtype = x.dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
            const Tensor random = CurrentClient().Rand(x.shape(), dtype);
            return Checked(
                Lift([p](const Expr& e, const Expr& r) { return Dropout(e, r, p); }, x, random));
          },
          py::arg("p") = 0.5, py::arg("training") = true)

      .def("mse_loss", BindPairLoss(&MseLoss), py::arg("target"), py::arg("reduction") = "mean")
      .def("l1_loss", BindPairLoss(&L1Loss), py::arg("target"), py::arg("reduction") = "mean")
      .def("binary_cross_entropy", BindPairLoss(&BinaryCrossEntropy), py::arg("target"),
           py::arg("reduction") = "mean")
      .def(
          "binary_cross_entropy_with_logits",
          [](const Tensor& x, const Tensor& target, std::optional<Tensor> pos_weight,
             const std::string& reduction) {
            const Reduction parsed = ParseReduction(reduction);
            return WithOptional(x, {target, pos_weight}, [&](const Expr& e, const auto& given) {
              return BinaryCrossEntropyWithLogits(e, *given[0], given[1], parsed);
            });
          },
          py::arg("target"), py::arg("pos_weight") = py::none(), py::arg("reduction") = "mean")
      .def(
          "cross_entropy",
          [](const Tensor& x, const Tensor& target, std::optional<Tensor> weight,
             std::optional<int64_t> ignore_index, const std::string& reduction,
             double label_smoothing) {
            const Reduction parsed = ParseReduction(reduction);
            return WithOptional(x, {target, weight}, [&](const Expr& e, const auto& given) {
              return CrossEntropy(e, *given[0],
                                  {.label_smoothing = label_smoothing,
                                   .weight = given[1],
                                   .ignore_index = ignore_index,
                                   .reduction = parsed});
            });
          },
          py::arg("target"), py::arg("weight") = py::none(), py::arg("ignore_index") = py::none(),
          py::arg("reduction") = "mean", py::arg("label_smoothing") = 0.0,
          "Labels of axis 1, or probabilities of the shape of the logits.")
      .def(
          "nll_loss",
          [](const Tensor& x, const Tensor& target, std::optional<Tensor> weight,
             std::optional<int64_t> ignore_index, const std::string& reduction) {
            const Reduction parsed = ParseReduction(reduction);
            return WithOptional(x, {target, weight}, [&](const Expr& e, const auto& given) {
              return NllLoss(e, *given[0],
                             {.label_smoothing = 0,
                              .weight = given[1],
                              .ignore_index = ignore_index,
                              .reduction = parsed});
            });
          },
          py::arg("target"), py::arg("weight") = py::none(), py::arg("ignore_index") = py::none(),
          py::arg("reduction") = "mean");
}

}  // namespace tensord::python
