// Kernels that users write, element by element, in the compiler's own IR. A kernel's body computes
// with scalars: ranges, which count loops, and elements of the inputs. All elementwise functions of
// the tensor language work on them; Reduce adds them up. What is stored makes the outputs.
//
//   UserKernelBody body("double", {{DType::kFloat32, {n}}}, inputs);   // inputs: {x}
//   Expr i = body.Range(graph, n);
//   body.Store(0, {i}, body.Load(graph, 0, {i}) * 2);
//   std::vector<Expr> y = body.Call(graph, inputs);
//
// Every read must be shown to be inside of its input and every output to be stored whole and once:
// by how it is written, or for reads by a gate. What can't be shown is an error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/ir/op.h"
#include "core/tensor/expr.h"

namespace tensord {

class UserKernelBody {
 public:
  struct Operand {
    DType dtype;
    std::vector<int64_t> shape;
    std::string name;  // for errors
  };

  // Names are of letters, digits and underscores.
  UserKernelBody(std::string name, std::vector<Operand> outputs, std::vector<Operand> inputs)
      : name_(std::move(name)), outputs_(std::move(outputs)), inputs_(std::move(inputs)) {}

  const std::string& name() const { return name_; }
  const std::vector<Operand>& outputs() const { return outputs_; }
  const std::vector<Operand>& inputs() const { return inputs_; }
  // Whether no output has elements: there is nothing to store then.
  bool IsEmpty() const;

  // 0, 1, ... size-1 as an int64 without axes: a loop around the stores that use it, or one that
  // Reduce closes. Loops may run in any order and in parallel.
  Expr Range(Graph& graph, int64_t size) { return MakeRange(graph, size, RangeKind::kLoop); }
  Expr ReduceRange(Graph& graph, int64_t size) {
    return MakeRange(graph, size, RangeKind::kReduce);
  }

  // The element of an input; 0 where `gate`, a bool, is false. The index has one integer for each
  // axis. An index from data must be of at most 32 bits or be clamped.
  Expr Load(Graph& graph, size_t input, absl::Span<const Expr> index,
            const std::optional<Expr>& gate = std::nullopt) const;

  // The sum (product, ...) of a value over all turns of reduce ranges, in the dtype in which
  // reductions of tensors add up; the identity if there are none.
  Expr Reduce(Graph& graph, ReduceKind kind, const Expr& value,
              absl::Span<const Expr> ranges) const;

  // The value, cast to the output's dtype, becomes the element. The index is made of loop ranges,
  // each once, and reaches all elements; each output is stored by one Store.
  Expr Store(Graph& graph, size_t output, absl::Span<const Expr> index, const Expr& value);

  // The outputs for these inputs, which are as announced. Has no gradient but by custom_gradient.h.
  std::vector<Expr> Call(Graph& graph, absl::Span<const Expr> inputs,
                         absl::Span<const Expr> stored) const;

 private:
  Expr MakeRange(Graph& graph, int64_t size, RangeKind kind);
  // The axes of an index as nodes of dtype index, or the error.
  std::optional<Expr> ReadIndex(Graph& graph, const Operand& operand, absl::Span<const Expr> index,
                                std::vector<const Node*>& axes) const;
  int64_t SlotOf(size_t input) const { return static_cast<int64_t>(outputs_.size() + input); }

  std::string name_;
  std::vector<Operand> outputs_, inputs_;
  int64_t next_range_ = 0;
};

}  // namespace tensord
