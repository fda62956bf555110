// Tensor: activations, normalisation, dropout, embeddings, distances.
#include <algorithm>

#include "client/python/bind.h"
#include "client/python/lift.h"
#include "core/base/status.h"
#include "core/tensor/activation.h"
#include "core/tensor/create.h"
#include "core/tensor/distance.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/index.h"
#include "core/tensor/nn.h"
#include "core/tensor/reduce.h"

namespace tensord::python {
namespace {

struct ActivationRow {
  const char* name;
  Expr (*function)(const Expr&);
  const char* doc;
};
constexpr ActivationRow kActivations[] = {
    // clang-format off
    {"relu",       Relu,       "max(x, 0); NaN stays. The derivative at 0 is 0."},
    {"relu6",      Relu6,      "x brought into [0, 6]."},
    {"sigmoid",    Sigmoid,    "1 / (1 + exp(-x))."},
    {"logsigmoid", LogSigmoid, "log(sigmoid(x)), without underflow."},
    {"hardswish",  HardSwish,  "x * relu6(x + 3) / 6."},
    {"silu",       Silu,       "x * sigmoid(x)."},
    {"quick_gelu", QuickGelu,  "x * sigmoid(1.702 x)."},
    {"mish",       Mish,       "x * tanh(softplus(x))."},
    {"softsign",   Softsign,   "x / (1 + |x|)."},
    {"tanhshrink", TanhShrink, "x - tanh(x)."},
    // clang-format on
};

struct NumberRow {
  const char* name;
  Expr (*function)(const Expr&, double);
  const char* argument;
  double standard;
  const char* doc;
};
constexpr NumberRow kWithNumber[] = {
    // clang-format off
    {"leaky_relu", LeakyRelu,  "negative_slope", 0.01, "x, or x * negative_slope below 0."},
    {"elu",        Elu,        "alpha",  1.0, "x, or alpha * (exp(x) - 1) below 0."},
    {"celu",       Celu,       "alpha",  1.0, "x, or alpha * (exp(x / alpha) - 1) below 0."},
    {"hardshrink", HardShrink, "lambd",  0.5, "x, or 0 within lambd of 0."},
    {"softshrink", SoftShrink, "lambd",  0.5, "x, lambd closer to 0."},
    // clang-format on
};

// Whether layers train, unless the caller says so.
bool IsTraining(std::optional<bool> training) {
  if (training) return *training;
  return py::module_::import("tensord.training").attr("is_training")().cast<bool>();
}

// Uniform numbers in [0, 1) for x, of that shape.
Tensor Random(const Tensor& x, absl::Span<const int64_t> shape) {
  const DType dtype = x.dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  return CurrentClient().Rand(shape, dtype);
}

void BindActivations(py::class_<Tensor>& tensor) {
  for (const ActivationRow& row : kActivations) Method(tensor, row.name, row.function, row.doc);
  for (const NumberRow& row : kWithNumber) {
    Method(tensor, row.name, row.function, row.doc, py::arg(row.argument) = row.standard);
  }
  Method(tensor, "hardsigmoid", HardSigmoid, "alpha x + beta, brought into [0, 1].",
         py::arg("alpha") = 1.0 / 6, py::arg("beta") = 0.5);
  Method(tensor, "hardtanh", HardTanh, "x brought into [min_val, max_val].",
         py::arg("min_val") = -1.0, py::arg("max_val") = 1.0);
  Method(tensor, "selu", Selu, "gamma * elu(x, alpha).",
         py::arg("alpha") = 1.6732632423543772848170429916717,
         py::arg("gamma") = 1.0507009873554804934193349852946);
  Method(
      tensor, "softplus",
      [](const Expr& x, double beta, std::optional<double> threshold) {
        const Expr value = Softplus(x, beta);
        return threshold ? Where(Gt(x * beta, *threshold), x, value) : value;
      },
      "log(1 + exp(beta x)) / beta, for any size; x itself where beta x is above a threshold.",
      py::arg("beta") = 1.0, py::arg("threshold") = py::none());
  Method(tensor, "threshold", Threshold, "x where it is above the threshold, else value.",
         py::arg("threshold"), py::arg("value"));
  Method(
      tensor, "gelu",
      [](const Expr& x, const std::string& approximate) {
        if (approximate != "none" && approximate != "tanh") {
          return Fail(x, "gelu: approximate is 'none' or 'tanh', not '{}'", approximate);
        }
        return Gelu(x, approximate == "tanh" ? GeluForm::kTanh : GeluForm::kErf);
      },
      "x times the normal distribution's share below x: by its approximation with tanh, or by erf "
      "for 'none'.",
      py::arg("approximate") = "tanh");
  Method(tensor, "prelu", Prelu,
         "x, or weight * x below 0. The weight has one element, or one per channel, axis 1.",
         py::arg("weight"));
  Method(tensor, "glu", Glu, "The first half of an axis times the sigmoid of the second.",
         py::arg("dim") = -1);
  tensor
      .def(
          "rrelu",
          [](const Tensor& x, double lower, double upper, std::optional<bool> training) {
            if (!IsTraining(training)) return Lifted(LeakyRelu)(x, (lower + upper) / 2);
            return Lifted(Rrelu)(x, Random(x, x.shape()), lower, upper);
          },
          py::arg("lower") = 1.0 / 8, py::arg("upper") = 1.0 / 3, py::arg("training") = py::none(),
          "x, or x times a random slope below 0; times the middle one when not training.")
      .def(
          "gumbel_softmax",
          [](const Tensor& x, double tau, bool hard, int64_t dim) {
            return Lifted(
                [](const Expr& logits, const Expr& random, double tau, bool hard, int64_t dim) {
                  // The random number may be 0, whose noise would be -inf.
                  const Expr noise = -Log(-Log(Maximum(random, 1e-20)));
                  const Expr soft = Softmax((logits + noise) / tau, dim);
                  if (!hard || !soft.ok()) return soft;
                  const Expr chosen = Eq(IndexAlong(soft, dim), ArgMax(soft, dim, kKeepDims));
                  return WithSlope(Cast(chosen, soft.dtype()), soft, FullLike(soft, 1));
                })(x, Random(x, x.shape()), tau, hard, dim);
          },
          py::arg("tau") = 1.0, py::arg("hard") = false, py::arg("dim") = -1,
          "A random choice by softmax(x), as shares that sharpen as tau goes to 0; hard: as ones "
          "and "
          "zeros, with the gradient of the shares.");
}

bool LastAre(const Expr& x, const Ints& sizes) {
  return static_cast<int64_t>(sizes.size()) <= x.rank() &&
         std::equal(sizes.rbegin(), sizes.rend(), x.shape().rbegin());
}
Expr WrongSizes(const char* name, const Expr& x, const Ints& sizes) {
  return Fail(x, "{}: the last axes of shape {} are not {}", name, ShapeText(x.shape()),
              ShapeText(sizes));
}

void BindNorms(py::class_<Tensor>& tensor) {
  Method(
      tensor, "layernorm",
      [](const Expr& x, const Axes& axes, double eps) { return Standardize(x, axes, eps); },
      "Zero mean and unit variance over axes.", py::arg("dim") = -1, py::arg("eps") = 1e-5);
  // Sizes are parsed first: an object may be a tensor, which can't be read inside of an operation.
  tensor.def(
      "layer_norm",
      [](const Tensor& x, py::object normalized_shape, const std::optional<Tensor>& weight,
         const std::optional<Tensor>& bias, double eps) {
        return Lifted([sizes = ParseInts(normalized_shape), eps](const Expr& e,
                                                                 const std::optional<Expr>& w,
                                                                 const std::optional<Expr>& b) {
          if (!LastAre(e, sizes)) return WrongSizes("layer_norm", e, sizes);
          return LayerNorm(e, static_cast<int64_t>(sizes.size()), w, b, eps);
        })(x, weight, bias);
      },
      py::arg("normalized_shape"), py::arg("weight") = py::none(), py::arg("bias") = py::none(),
      py::arg("eps") = 1e-5,
      "Zero mean and unit variance over the last axes, which have the given sizes.");
  tensor.def(
      "rms_norm",
      [](const Tensor& x, const std::optional<Tensor>& weight, double eps, py::object sizes) {
        const bool last = sizes.is_none();
        return Lifted([last, parsed = last ? Ints() : ParseInts(sizes), eps](
                          const Expr& e, const std::optional<Expr>& w) {
          if (last) return RmsNorm(e, w, eps);
          if (!LastAre(e, parsed)) return WrongSizes("rms_norm", e, parsed);
          return RmsNorm(e, w, eps, static_cast<int64_t>(parsed.size()));
        })(x, weight);
      },
      py::arg("weight") = py::none(), py::arg("eps") = 1e-6,
      py::arg("normalized_shape") = py::none(),
      "x over the root of its mean square, over the last axis or those of the given sizes.");
  Method(
      tensor, "group_norm",
      [](const Expr& x, int64_t groups, const std::optional<Expr>& weight,
         const std::optional<Expr>& bias,
         double eps) { return GroupNorm(x, groups, weight, bias, eps); },
      "Each group of channels of each sample by its own statistics; x [batch, channels, ..].",
      py::arg("num_groups"), py::arg("weight") = py::none(), py::arg("bias") = py::none(),
      py::arg("eps") = 1e-5);
  Method(tensor, "instance_norm", InstanceNorm,
         "Each channel of each sample by its own statistics; x [batch, channels, ..].",
         py::arg("weight") = py::none(), py::arg("bias") = py::none(), py::arg("eps") = 1e-5);
  Method(
      tensor, "local_response_norm",
      [](const Expr& x, int64_t size, double alpha, double beta, double k) {
        return LocalResponseNorm(x, {size, alpha, beta, k});
      },
      "x / (k + alpha * mean of squares)^beta, over `size` channels around each.", py::arg("size"),
      py::arg("alpha") = 1e-4, py::arg("beta") = 0.75, py::arg("k") = 1.0);
  Method(
      tensor, "batch_norm",
      [](const Expr& x, const Expr& mean, const Expr& var, const std::optional<Expr>& weight,
         const std::optional<Expr>& bias,
         double eps) { return BatchNorm(x, mean, var, weight, bias, eps); },
      "By given statistics of each channel, axis 1.", py::arg("mean"), py::arg("var"),
      py::arg("weight") = py::none(), py::arg("bias") = py::none(), py::arg("eps") = 1e-5);
  Method(
      tensor, "batch_norm_train",
      [](const Expr& x, const std::optional<Expr>& weight, const std::optional<Expr>& bias,
         double eps) {
        const BatchNormResult result = BatchNormTrain(x, weight, bias, eps);
        return std::tuple<Expr, Expr, Expr>(result.y, result.mean, result.unbiased_var);
      },
      "By the batch's own statistics of each channel, axis 1; (y, mean, unbiased variance).",
      py::arg("weight") = py::none(), py::arg("bias") = py::none(), py::arg("eps") = 1e-5);
  Method(
      tensor, "batchnorm",
      [](const Expr& x, const std::optional<Expr>& weight, const std::optional<Expr>& bias,
         const Expr& mean, const Expr& invstd,
         int64_t dim) { return NormalizeBy(x, mean, invstd, weight, bias, dim); },
      "(x - mean) * invstd * weight + bias, each a vector along an axis.", py::arg("weight"),
      py::arg("bias"), py::arg("mean"), py::arg("invstd"), py::arg("dim") = 1);
}

using Dropping = Expr (*)(const Expr&, const Expr&, double);

// Elements, or with `channels` whole channels of x [batch, channels, ..], are dropped at random.
void BindDropout(py::class_<Tensor>& tensor, const char* name, Dropping function, bool channels,
                 const char* doc) {
  tensor.def(
      name,
      [=](const Tensor& x, double p, std::optional<bool> training) {
        if (!(p >= 0 && p <= 1)) Raise(InvalidArgument("{}: p is {}, not in [0, 1]", name, p));
        if (!IsTraining(training) || p == 0) return x;
        Ints shape = x.shape();
        for (size_t i = 2; channels && i < shape.size(); ++i) shape[i] = 1;
        return Lifted(function)(x, Random(x, shape), p);
      },
      py::arg("p") = 0.5, py::arg("training") = py::none(), doc);
}

Tensor EmbeddingOf(const Tensor& index, const Tensor& weight, std::optional<int64_t> padding_idx,
                   std::optional<double> max_norm, double norm_type, bool scale_grad_by_freq,
                   bool) {
  if (!IsInt(index.dtype())) {
    throw py::type_error("embedding: the indices are " + std::string(Name(index.dtype())) +
                         ", they must be integers");
  }
  return Lifted([&](const Expr& i, const Expr& table) {
    return EmbeddingRows(table, i, {padding_idx, max_norm, norm_type, scale_grad_by_freq});
  })(index, weight);
}

void BindTables(py::class_<Tensor>& tensor) {
  tensor.def("embedding", &EmbeddingOf, py::arg("weight"), py::arg("padding_idx") = py::none(),
             py::arg("max_norm") = py::none(), py::arg("norm_type") = 2.0,
             py::arg("scale_grad_by_freq") = false, py::arg("sparse") = false,
             "Called on the indices: rows of `weight`; zeros for rows outside. The row padding_idx "
             "gets no gradient. Rows longer than max_norm are scaled down as they are read; the "
             "table stays. With scale_grad_by_freq the gradient of a row is divided by how often "
             "it is read. Gradients are dense, whatever `sparse` says.");
  Method(
      tensor, "embedding_bag",
      [](const Expr& index, const Expr& weight, const std::optional<Expr>& offsets,
         const std::string& mode, const std::optional<Expr>& per_sample_weights,
         std::optional<int64_t> padding_idx, std::optional<double> max_norm, double norm_type,
         bool scale_grad_by_freq) {
        const std::optional<BagMode> parsed = BagModeFromName(mode);
        if (!parsed) {
          return Fail(index, "embedding_bag: mode is 'sum', 'mean' or 'max', not '{}'", mode);
        }
        const BagOptions options = {
            *parsed, per_sample_weights, {padding_idx, max_norm, norm_type, scale_grad_by_freq}};
        return offsets ? EmbeddingBag(weight, index, *offsets, options)
                       : EmbeddingBag(weight, index, options);
      },
      "Called on the indices: rows of `weight` reduced over bags, which are rows of the indices, "
      "or "
      "start at `offsets` of a vector of them.",
      py::arg("weight"), py::arg("offsets") = py::none(), py::arg("mode") = "mean",
      py::arg("per_sample_weights") = py::none(), py::arg("padding_idx") = py::none(),
      py::arg("max_norm") = py::none(), py::arg("norm_type") = 2.0,
      py::arg("scale_grad_by_freq") = false);
  Method(
      tensor, "cosine_similarity",
      [](const Expr& x, const Expr& other, int64_t dim, double eps) {
        return CosineSimilarity(x, other, dim, eps);
      },
      "The cosine of the angle between vectors along an axis.", py::arg("other"),
      py::arg("dim") = 1, py::arg("eps") = 1e-8);
  Method(
      tensor, "pairwise_distance",
      [](const Expr& x, const Expr& other, double p, double eps, Keep keep) {
        return PairwiseDistance(x, other, p, eps, keep);
      },
      "The norm of self - other + eps along the last axis.", py::arg("other"), py::arg("p") = 2.0,
      py::arg("eps") = 1e-6, py::arg("keepdim") = false);
  Method(
      tensor, "pdist", [](const Expr& x, double p) { return Pdist(x, p); },
      "The distances of all pairs of rows, in order.", py::arg("p") = 2.0);
}

}  // namespace

void BindNn(py::class_<Tensor>& tensor) {
  BindActivations(tensor);
  BindNorms(tensor);
  BindDropout(tensor, "dropout", Dropout, false,
              "Elements dropped at random, the others scaled by 1 / (1 - p). Only while training: "
              "inside `with tensord.training()`, unless `training` says so.");
  BindDropout(tensor, "feature_dropout", Dropout, true,
              "dropout of whole channels; x [batch, channels, ..].");
  BindDropout(tensor, "alpha_dropout", AlphaDropout, false,
              "dropout that keeps mean and variance behind selu.");
  BindDropout(tensor, "feature_alpha_dropout", AlphaDropout, true,
              "alpha_dropout of whole channels; x [batch, channels, ..].");
  BindTables(tensor);
  BindLosses(tensor);
}

}  // namespace tensord::python
