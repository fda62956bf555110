// For tests: builds a linear program node by node, compiles it for this machine and runs it.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/compile/compiler.h"
#include "core/compile/llvm_host.h"
#include "core/compile/llvm_loader.h"
#include "core/ir/eval.h"
#include "core/ir/graph.h"
#include "core/ir/linear.h"

namespace tensord {

// Elements as they lie in memory, and one of them back.
inline std::vector<uint8_t> Pack(const std::vector<Scalar>& values) {
  const int size = ItemSize(values[0].dtype);
  std::vector<uint8_t> bytes(values.size() * size);
  for (size_t i = 0; i < values.size(); ++i) {
    const uint64_t bits = values[i].ToBits();
    std::memcpy(&bytes[i * size], &bits, size);
  }
  return bytes;
}

inline Scalar Unpack(const std::vector<uint8_t>& bytes, DType dtype, size_t i) {
  uint64_t bits = 0;
  std::memcpy(&bits, &bytes[i * ItemSize(dtype)], ItemSize(dtype));
  return Scalar::FromBits(dtype, bits);
}

class LinearBuilder {
 public:
  explicit LinearBuilder(std::string name) { program.name = std::move(name); }

  const Node* Param(DType dtype, int64_t elements) {
    const auto slot = static_cast<int64_t>(program.params.size());
    program.params.push_back(graph.Param(slot, dtype, {elements}));
    program.written.push_back(false);
    return program.params.back();
  }
  const Node* Variable(const std::string& name, int64_t min, int64_t max) {
    program.variables.push_back(graph.Variable(name, min, max, DType::kIndex));
    return program.variables.back();
  }
  // Makes a node and lets it stand here, with what folding made it from.
  const Node* Add(const NodeSpec& spec) {
    const Node* node = graph.Make(spec);
    Stand(node);
    return node;
  }
  const Node* Add(Op op, std::initializer_list<const Node*> src,
                  std::initializer_list<int64_t> ints = {}) {
    return Add({.op = op, .src = src, .ints = ints});
  }
  const Node* Range(int64_t size) {
    return Add(Op::kRange, {}, {next_id_++, size, static_cast<int64_t>(RangeKind::kLoop)});
  }
  void End(const Node* range) { Add(Op::kEnd, {range}); }
  const Node* Load(const Node* param, const Node* index, int lanes = 1,
                   const Node* gate = nullptr) {
    std::vector<const Node*> src = {param, index};
    if (gate != nullptr) src.push_back(gate);
    return Add({.op = Op::kLoad, .src = src, .lanes = static_cast<uint16_t>(lanes)});
  }
  void Store(const Node* param, const Node* index, const Node* value, const Node* gate = nullptr) {
    std::vector<const Node*> src = {param, index, value};
    if (gate != nullptr) src.push_back(gate);
    program.written[param->slot()] = true;
    Add({.op = Op::kStore, .src = src});
  }
  const Node* Broadcast(const Node* x, int lanes) {
    if (lanes == 1) return x;
    return Add({.op = Op::kBroadcast, .src = {x}, .lanes = static_cast<uint16_t>(lanes)});
  }
  const Node* Accumulator(const Node* start) {
    return Add(Op::kAccumulator, {start}, {next_id_++});
  }
  const Node* Read(const Node* accumulator) { return Add(Op::kRead, {accumulator}, {next_id_++}); }

  Graph graph;
  LinearProgram program;

 private:
  void Stand(const Node* node) {
    if (node->IsConst() || !standing_.insert(node).second) return;
    for (const Node* src : node->src) Stand(src);
    program.body.push_back(node);
  }

  int64_t next_id_ = 0;
  std::set<const Node*> standing_;
};

// out[m, n] = lhs[m, k] * rhs[k, n] in float32, with a register tile of `rows` times `vectors`.
struct MatmulTile {
  int lanes, rows, vectors;
};
inline void BuildMatmul(LinearBuilder& b, const MatmulTile& tile, int64_t m, int64_t n, int64_t k) {
  const Node* lhs = b.Param(DType::kFloat32, m * k);
  const Node* rhs = b.Param(DType::kFloat32, k * n);
  const Node* out = b.Param(DType::kFloat32, m * n);
  // x * scale + y + offset
  auto affine = [&](const Node* x, int64_t scale, const Node* y, int64_t offset) {
    const Node* product = b.Add(Op::kMul, {x, b.graph.Index(scale)});
    return b.Add(Op::kAdd, {b.Add(Op::kAdd, {product, y}), b.graph.Index(offset)});
  };
  const Node* row = b.Range(m / tile.rows);
  const Node* column = b.Range(n / (tile.vectors * tile.lanes));
  const Node* first_row = b.Add(Op::kMul, {row, b.graph.Index(tile.rows * k)});
  const Node* first_column = b.Add(Op::kMul, {column, b.graph.Index(tile.vectors * tile.lanes)});
  std::vector<const Node*> sums;
  for (int i = 0; i < tile.rows * tile.vectors; ++i) {
    sums.push_back(b.Accumulator(b.Broadcast(b.graph.Float(DType::kFloat32, 0), tile.lanes)));
  }
  const Node* inner = b.Range(k);
  std::vector<const Node*> right;
  for (int j = 0; j < tile.vectors; ++j) {
    right.push_back(b.Load(rhs, affine(inner, n, first_column, j * tile.lanes), tile.lanes));
  }
  for (int i = 0; i < tile.rows; ++i) {
    const Node* left = b.Broadcast(b.Load(lhs, affine(inner, 1, first_row, i * k)), tile.lanes);
    for (int j = 0; j < tile.vectors; ++j) {
      const Node* sum = sums[i * tile.vectors + j];
      b.Add(Op::kUpdate, {sum, b.Add(Op::kFma, {left, right[j], b.Read(sum)})});
    }
  }
  b.End(inner);
  for (int i = 0; i < tile.rows; ++i) {
    for (int j = 0; j < tile.vectors; ++j) {
      const Node* index = affine(row, tile.rows * n, first_column, i * n + j * tile.lanes);
      b.Store(out, index, b.Read(sums[i * tile.vectors + j]));
    }
  }
  b.End(column);
  b.End(row);
}

// A compiled and loaded kernel.
class LoadedLinear {
 public:
  explicit LoadedLinear(const LinearProgram& program, const Target& target = LlvmHostTarget()) {
    auto kernel = CompileKernel(program, target);
    if (!kernel.ok()) {
      ADD_FAILURE() << kernel.status();
      return;
    }
    auto object = LlvmObject::Load(kernel->binary, kernel->entry);
    if (!object.ok()) {
      ADD_FAILURE() << object.status();
      return;
    }
    object_ = *std::move(object);
    grid_ = kernel->grid;
  }
  bool ok() const { return object_ != nullptr; }
  void Run(const std::vector<void*>& buffers, const std::vector<int64_t>& variables = {}) const {
    auto* function = reinterpret_cast<LlvmKernelFunction*>(object_->entry());
    for (int64_t i = 0; i < grid_; ++i) function(buffers.data(), variables.data(), i);
  }

 private:
  std::unique_ptr<LlvmObject> object_;
  int64_t grid_ = 0;
};

}  // namespace tensord
