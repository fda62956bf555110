#include "tools/bench/models.h"

#include "core/base/check.h"
#include "core/base/status.h"
#include "core/tensor/activation.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/gradient.h"
#include "core/tensor/index.h"
#include "core/tensor/loss.h"
#include "core/tensor/movement.h"
#include "core/tensor/nn.h"
#include "core/tensor/random.h"
#include "core/tensor/reduce.h"

namespace tensord {
namespace {

class Builder {
 public:
  explicit Builder(std::string name) { program_.name = std::move(name); }

  Expr Input(std::vector<int64_t> shape, DType dtype = DType::kFloat32) {
    const Node* param =
        program_.graph.Param(static_cast<int64_t>(program_.inputs.size()), dtype, shape);
    program_.inputs.push_back(param);
    return Expr(&program_.graph, param);
  }
  void Output(const Expr& value) { Add(value, Program::kFresh); }
  void Overwrite(const Expr& input, const Expr& value) { Add(value, input.node()->slot()); }

  Program Take() { return std::move(program_); }
  Graph& graph() { return program_.graph; }

 private:
  void Add(const Expr& value, int64_t overwrites) {
    TD_CHECK(value.ok(), Message(value.status()));
    program_.outputs.push_back({value.node(), overwrites});
  }

  Program program_;
};

constexpr int64_t kTwo[] = {2, 2};

}  // namespace

Program MnistStep(int64_t batch) {
  Builder b("mnist_step");
  const Expr images = b.Input({60000, 1, 28, 28}, DType::kUint8);
  const Expr labels = b.Input({60000}, DType::kUint8);
  const RandomState state{b.Input({2}, DType::kUint32), b.Input({2}, DType::kUint32)};
  const std::vector<std::vector<int64_t>> shapes = {
      {32, 1, 5, 5}, {32},           {32, 32, 5, 5}, {32}, {32}, {32},      {64, 32, 3, 3},
      {64},          {64, 64, 3, 3}, {64},           {64}, {64}, {10, 576}, {10}};
  std::vector<Expr> p, m, v;
  for (const auto& shape : shapes) p.push_back(b.Input(shape));
  for (const auto& shape : shapes) m.push_back(b.Input(shape));
  for (const auto& shape : shapes) v.push_back(b.Input(shape));
  const Expr step = b.Input({});
  std::vector<Expr> running;
  for (int64_t channels : {32, 32, 64, 64}) running.push_back(b.Input({channels}));

  const Drawn rows = RandInt(state, {batch}, 0, 60000, DType::kInt32);
  b.Overwrite(state.counter, rows.counter);
  const Expr x = Cast(Embedding(images, rows.value), DType::kFloat32) / 255.0;
  const Expr y = Embedding(labels, rows.value);
  Expr h = Relu(Conv(x, p[0], p[1]));
  h = Relu(Conv(h, p[2], p[3]));
  const BatchNormResult norm1 = BatchNormTrain(h, p[4], p[5]);
  h = MaxPool(norm1.y, {.kernel = kTwo});
  h = Relu(Conv(h, p[6], p[7]));
  h = Relu(Conv(h, p[8], p[9]));
  const BatchNormResult norm2 = BatchNormTrain(h, p[10], p[11]);
  h = MaxPool(norm2.y, {.kernel = kTwo});
  const Expr logits = Linear(Flatten(h, 1), p[12], p[13]);
  const Expr loss = CrossEntropy(logits, Cast(y, DType::kInt32));
  b.Output(loss);

  const Expr next_step = step + 1.0;
  b.Overwrite(step, next_step);
  const std::vector<Expr> gradients = Gradient(loss, p);
  const Expr correction1 = 1.0 - Pow(FullLike(step, 0.9), next_step);
  const Expr correction2 = 1.0 - Pow(FullLike(step, 0.999), next_step);
  for (size_t i = 0; i < p.size(); ++i) {
    const Expr& g = gradients[i];
    const Expr new_m = m[i] * 0.9 + g * 0.1;
    const Expr new_v = v[i] * 0.999 + g * g * 0.001;
    const Expr update = new_m / correction1 / (Sqrt(new_v / correction2) + 1e-8) * 0.001;
    b.Overwrite(p[i], p[i] - update);
    b.Overwrite(m[i], new_m);
    b.Overwrite(v[i], new_v);
  }
  b.Overwrite(running[0], running[0] * 0.9 + norm1.mean * 0.1);
  b.Overwrite(running[1], running[1] * 0.9 + norm1.unbiased_var * 0.1);
  b.Overwrite(running[2], running[2] * 0.9 + norm2.mean * 0.1);
  b.Overwrite(running[3], running[3] * 0.9 + norm2.unbiased_var * 0.1);
  return b.Take();
}

Program ResNet50Forward(int64_t batch) {
  Builder b("resnet50");
  const auto conv_norm = [&](const Expr& x, int64_t out, int64_t taps, int64_t stride) {
    const Expr weight = b.Input({out, x.shape()[1], taps, taps});
    const int64_t strides[] = {stride};
    const PadAmount padding[] = {{taps / 2, taps / 2}};
    const Expr y = Conv(x, weight, std::nullopt, {.stride = strides, .padding = padding});
    const Expr mean = b.Input({out}), var = b.Input({out});
    const Expr gain = b.Input({out}), bias = b.Input({out});
    return BatchNorm(y, mean, var, gain, bias);
  };
  Expr x = Relu(conv_norm(b.Input({batch, 3, 224, 224}), 64, 7, 2));
  const int64_t kernel[] = {3, 3};
  const int64_t stride[] = {2};
  const PadAmount padding[] = {{1, 1}};
  x = MaxPool(x, {.kernel = kernel, .stride = stride, .padding = padding});
  const int64_t blocks[] = {3, 4, 6, 3};
  for (int stage = 0; stage < 4; ++stage) {
    const int64_t width = int64_t{64} << stage;
    for (int64_t block = 0; block < blocks[stage]; ++block) {
      const int64_t down = block == 0 && stage > 0 ? 2 : 1;
      Expr y = Relu(conv_norm(x, width, 1, 1));
      y = Relu(conv_norm(y, width, 3, down));
      y = conv_norm(y, width * 4, 1, 1);
      const Expr shortcut = block == 0 ? conv_norm(x, width * 4, 1, down) : x;
      x = Relu(y + shortcut);
    }
  }
  x = Mean(x, {2, 3});
  b.Output(Linear(x, b.Input({1000, 2048}), b.Input({1000})));
  return b.Take();
}

Program TransformerForward(int64_t layers, int64_t batch, int64_t tokens, int64_t dim,
                           int64_t heads) {
  Builder b("transformer");
  Expr x = b.Input({batch, tokens, dim});
  const auto linear = [&](const Expr& in, int64_t out) {
    return Linear(in, b.Input({out, in.shape().back()}), b.Input({out}));
  };
  const auto norm = [&](const Expr& in) {
    return LayerNorm(in, 1, b.Input({dim}), b.Input({dim}));
  };
  const int64_t split[] = {batch, tokens, heads, dim / heads};
  const int64_t joined[] = {batch, tokens, dim};
  for (int64_t layer = 0; layer < layers; ++layer) {
    const Expr h = norm(x);
    const auto head = [&] { return Transpose(Reshape(linear(h, dim), split), 1, 2); };
    const Expr q = head(), k = head(), v = head();
    const Expr attended = ScaledDotProductAttention(q, k, v, {.is_causal = true});
    x = x + linear(Reshape(Transpose(attended, 1, 2), joined), dim);
    x = x + linear(Gelu(linear(norm(x), dim * 4)), dim);
  }
  b.Output(x);
  return b.Take();
}

Program MatMulProgram(int64_t size) {
  Builder b("matmul");
  const Expr x = b.Input({size, size}), y = b.Input({size, size});
  b.Output(MatMul(x, y));
  return b.Take();
}

Program ChainOfKernels(int count, int64_t elements) {
  Builder b("chain");
  Expr x = b.Input({elements});
  for (int i = 0; i < count; ++i) {
    // Reversed, so that no element can be computed right after the one that it is made from.
    x = Contiguous(Flip(x, {0}) + 1.0);
  }
  b.Output(x);
  return b.Take();
}

const std::vector<Model>& Models() {
  static const std::vector<Model>& models = *new std::vector<Model>{
      {"mnist_step", [] { return MnistStep(); }},
      {"resnet50", [] { return ResNet50Forward(); }},
      {"transformer", [] { return TransformerForward(); }},
      {"matmul512", [] { return MatMulProgram(512); }},
      {"matmul1024", [] { return MatMulProgram(1024); }},
      {"matmul2048", [] { return MatMulProgram(2048); }},
  };
  return models;
}

absl::StatusOr<const Model*> FindModel(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Model& model : Models()) {
    if (model.name == name) return &model;
    names.push_back(model.name);
  }
  return InvalidArgument("there is no model '{}'; there are {}", name, fmt::join(names, ", "));
}

}  // namespace tensord
