// The programs that benchmarks and kernel-count tests compile.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/ir/program.h"

namespace tensord {

// One training step of a convolutional network on MNIST as one program: a random batch is drawn and
// gathered, then forward, backward and Adam. Inputs are the training set, random state, parameters,
// running statistics and optimiser state; what changes is overwritten, the loss is a fresh output.
Program MnistStep(int64_t batch = 512);
// ResNet-50 on [batch, 3, 224, 224], batch norm with given statistics.
Program ResNet50Forward(int64_t batch = 1);
// `layers` transformer blocks, pre-norm, with causal attention.
Program TransformerForward(int64_t layers = 4, int64_t batch = 1, int64_t tokens = 128,
                           int64_t dim = 512, int64_t heads = 8);
Program MatMulProgram(int64_t size);
// `count` elementwise kernels in a row that can't be fused; for the cost of a launch.
Program ChainOfKernels(int count, int64_t elements);

struct Model {
  std::string_view name;
  Program (*make)();
};
const std::vector<Model>& Models();
// InvalidArgument lists the names there are.
absl::StatusOr<const Model*> FindModel(std::string_view name);

}  // namespace tensord
