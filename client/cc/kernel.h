// Kernels written by hand: what one launch computes, element by element, in the compiler's IR.
//
//   // y[i] = the sum over k of x[i, k] * w[k]
//   std::vector<Tensor> y = CallKernel(
//       "matvec", {{DType::kFloat32, {rows}}}, {x, w}, [&](KernelCall& kernel) {
//         Tensor i = kernel.Range(rows), k = kernel.ReduceRange(columns);
//         kernel.Store(0, {i}, kernel.Sum(kernel.Load(0, {i, k}) * kernel.Load(1, {k}), {k}));
//       });
//
// Ranges and elements are tensors without axes that have no data: everything elementwise works on
// them. What must hold is said in core/tensor/user_kernel.h; an error is in every result.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "client/cc/tensor.h"
#include "core/tensor/user_kernel.h"

namespace tensord {

// A call while its function runs. Not thread-safe.
class KernelCall {
 public:
  using Operand = UserKernelBody::Operand;

  // The names of operands stand in errors; without any, inputs are called input0, input1, ...
  KernelCall(std::shared_ptr<client::Session> session, std::string name,
             std::vector<Operand> outputs, std::vector<Tensor> inputs,
             std::vector<std::string> input_names = {});

  const std::vector<Tensor>& inputs() const { return inputs_; }
  const std::vector<Operand>& outputs() const { return body_.outputs(); }
  // Whether no output has elements; then there is nothing to compute.
  bool IsEmpty() const { return body_.IsEmpty(); }

  Tensor Range(int64_t size);
  Tensor ReduceRange(int64_t size);
  // The element of an input; with a gate 0 where that is false.
  Tensor Load(size_t input, const std::vector<Tensor>& index,
              const std::optional<Tensor>& gate = std::nullopt);
  Tensor Reduce(ReduceKind kind, const Tensor& value, const std::vector<Tensor>& ranges);
  Tensor Sum(const Tensor& value, const std::vector<Tensor>& ranges) {
    return Reduce(ReduceKind::kAdd, value, ranges);
  }
  Tensor Max(const Tensor& value, const std::vector<Tensor>& ranges) {
    return Reduce(ReduceKind::kMax, value, ranges);
  }
  absl::Status Store(size_t output, const std::vector<Tensor>& index, const Tensor& value);

  // After the function: the outputs.
  std::vector<Tensor> Finish();

 private:
  Tensor Apply(const std::vector<Tensor>& operands, const client::Session::Expression& make);

  std::shared_ptr<client::Session> session_;
  UserKernelBody body_;
  std::vector<Tensor> inputs_, stores_;
  absl::Status error_;  // the first of a Store
};

struct KernelOutput {
  DType dtype;
  std::vector<int64_t> shape;
};

// At least one input, of whose client the results are.
std::vector<Tensor> CallKernel(const std::string& name, const std::vector<KernelOutput>& outputs,
                               const std::vector<Tensor>& inputs,
                               const std::function<void(KernelCall& kernel)>& function);

}  // namespace tensord
