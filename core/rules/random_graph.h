// Random tensor graphs and inputs for tests of rules: small, and rich in the values, shapes and
// attributes at which rules go wrong. The same seed gives the same graph.
#pragma once

#include <optional>
#include <random>
#include <vector>

#include "core/rewrite/pattern.h"
#include "core/rules/reference_eval.h"

namespace tensord {

class RandomGraph {
 public:
  struct Limits {
    int64_t dim = 3;
    int64_t elements = 200;           // of one tensor
    std::vector<int64_t> shape = {};  // of all tensors; empty: any
    std::vector<DType> dtypes = {};   // of all tensors; empty: any
  };

  RandomGraph(Graph& graph, uint32_t seed) : RandomGraph(graph, seed, Limits()) {}
  RandomGraph(Graph& graph, uint32_t seed, Limits limits);

  // An instance of a left side; null if the choices made didn't fit together: try again. Nodes are
  // made as the pattern has them, past the smart constructor.
  const Node* Instance(const Pattern& pattern);

  // A graph of about `size` nodes on top of a few inputs; its last node.
  const Node* Any(int size);

  // Values for all leaves made so far.
  ReferenceInputs Inputs();
  // All combinations of values of the leaves of 8 bits, one an element: number `first` in front.
  // Other leaves get values as above.
  ReferenceInputs Combinations(int64_t first);
  // How many combinations there are.
  int64_t NumCombinations() const;

 private:
  using Dims = std::vector<int64_t>;

  size_t Below(size_t n) { return random_() % n; }
  bool OneIn(size_t n) { return Below(n) == 0; }
  template <typename Container>
  auto Pick(const Container& values) {
    return *(std::begin(values) + Below(std::size(values)));
  }

  void AddInput(const Node* leaf, ReferenceInputs& inputs);
  Dims AnyShape();
  Scalar AnyValue(DType dtype);
  // A leaf: a parameter, at times bounded or a variable or a constant.
  const Node* Leaf(DType dtype, const Dims& shape);
  std::vector<int64_t> AnyAttribute(Op op, Shape shape);
  const Node* TryIntern(const NodeSpec& spec);

  const Node* Generate(const Pattern& pattern, DType dtype, const Dims& shape);
  const Node* GenerateVar(Var var, DType dtype, const Dims& shape);
  const Node* GenerateOp(const Pattern& pattern, DType dtype, const Dims& shape);

  Graph& graph_;
  std::mt19937 random_;
  const Limits limits_;
  const std::vector<DType> dtypes_;
  int64_t params_ = 0;
  std::vector<const Node*> leaves_;
  std::vector<const Node*> bound_;  // by slot of the letter, while an instance is made
};

}  // namespace tensord
