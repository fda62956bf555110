#include "core/rules/random_graph.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <numeric>

#include "core/ir/infer.h"
#include "core/rewrite/constant.h"

namespace tensord {
namespace {

using enum DType;

constexpr DType kAllDTypes[] = {kBool,           kInt8,          kUint8,   kInt16,      kUint16,
                                kInt32,          kUint32,        kInt64,   kUint64,     kFloat16,
                                kBFloat16,       kFloat32,       kFloat64, kFloat8E4M3, kFloat8E5M2,
                                kFloat8E4M3Fnuz, kFloat8E5M2Fnuz};

constexpr OpSet kCompares = OpBit(Op::kCmpLt) | OpBit(Op::kCmpEq) | OpBit(Op::kCmpNe);

bool Fits(Domain domain, DType dtype) {
  switch (domain) {
    case Domain::kAny:
    case Domain::kConstant:
      return true;
    case Domain::kIndex:
      return dtype == kIndex;
    case Domain::kInt:
      return IsInt(dtype);
    case Domain::kFloat:
      return IsFloat(dtype);
    case Domain::kBool:
      return dtype == kBool;
  }
  return false;
}

// Whether an instance of the pattern can have that dtype; a guess that saves most failed tries.
bool CanBe(const Pattern& pattern, DType dtype) {
  if (pattern.kind == Pattern::Kind::kVar) return Fits(pattern.var.domain, dtype);
  if (pattern.kind == Pattern::Kind::kFloat) return IsFloat(dtype);
  if (pattern.kind != Pattern::Kind::kOp || pattern.any_src) return true;
  if ((pattern.ops & ~kCompares) == 0) return dtype == kBool;
  if ((pattern.ops & (OpBit(Op::kCast) | OpBit(Op::kBitcast) | kCompares)) != 0) return true;
  const size_t first = pattern.ops == OpBit(Op::kWhere) ? 1 : 0;
  for (size_t s = first; s < pattern.src.size(); ++s) {
    if (!CanBe(pattern.src[s], dtype)) return false;
  }
  return true;
}

}  // namespace

RandomGraph::RandomGraph(Graph& graph, uint32_t seed, Limits limits)
    : graph_(graph),
      random_(seed),
      limits_(std::move(limits)),
      dtypes_(limits_.dtypes.empty()
                  ? std::vector<DType>(std::begin(kAllDTypes), std::end(kAllDTypes))
                  : limits_.dtypes) {}

const Node* RandomGraph::Instance(const Pattern& pattern) {
  bound_.assign(kMaxVars, nullptr);
  std::vector<DType> dtypes;
  for (DType dtype : dtypes_) {
    if (CanBe(pattern, dtype)) dtypes.push_back(dtype);
  }
  return Generate(pattern, Pick(dtypes), AnyShape());
}

const Node* RandomGraph::Any(int size) {
  std::vector<const Node*> pool;
  const Dims shape = AnyShape();
  for (int i = 0; i < 3; ++i) pool.push_back(Leaf(Pick(dtypes_), shape));
  for (int tries = 0; tries < 20 * size && static_cast<int>(pool.size()) < size + 3; ++tries) {
    const Op op = static_cast<Op>(Below(kNumOps));
    const int arity = Info(op).num_src;
    if ((Info(op).levels & kTensorLevel) == 0 || arity < 1) continue;
    std::vector<const Node*> src = {Pick(pool)};
    for (int t = 0; t < 8 && op == Op::kWhere && src[0]->dtype != kBool; ++t) src[0] = Pick(pool);
    const Dims first(src[0]->shape.begin(), src[0]->shape.end());
    std::vector<int64_t> ints = AnyAttribute(op, src[0]->shape);
    if (op == Op::kScatter) {
      // What targets may lack is only set: nothing is combined in memory (codegen/decompose.h).
      const bool combines = src[0]->dtype == kFloat32 || src[0]->dtype == kInt8 ||
                            src[0]->dtype == kInt32 || src[0]->dtype == DType::kUint8;
      if (!combines) ints[0] = static_cast<int64_t>(ScatterKind::kSet);
      // Values for some rows of each column, and one index for a row or for a value.
      if (first.empty()) continue;
      Dims values = first;
      values[ints[1]] = static_cast<int64_t>(Below(5));
      Dims index = values;
      for (int64_t axis = 0; axis < std::ssize(index); ++axis) {
        if (axis != ints[1] && OneIn(2)) index[axis] = 1;
      }
      src.push_back(Leaf(Pick(std::array{kInt8, kInt32, kInt64}), index));
      src.push_back(Leaf(src[0]->dtype, values));
    }
    while (static_cast<int>(src.size()) < arity) {
      // Sources that fit the first one are rare by chance alone.
      const bool is_index = op == Op::kGather, is_branch = op == Op::kWhere && src.size() == 1;
      const DType dtype = is_index ? kInt32 : is_branch ? Pick(dtypes_) : src.back()->dtype;
      const auto fits = [&](const Node* node) {
        return node->dtype == dtype && (is_index || node->shape == Shape(first));
      };
      const Node* candidate = Pick(pool);
      for (int t = 0; t < 8 && !fits(candidate); ++t) {
        candidate = OneIn(4) ? Leaf(dtype, first) : Pick(pool);
      }
      src.push_back(candidate);
    }
    const NodeSpec spec = {.op = op, .src = src, .ints = ints, .dtype = Pick(dtypes_)};
    Inferred inferred;
    if (!Infer(graph_, spec, inferred).ok() || NumElements(inferred.shape) > limits_.elements)
      continue;
    pool.push_back(OneIn(2) ? graph_.Make(spec) : graph_.Intern(spec));
  }
  return pool.back();
}

ReferenceInputs RandomGraph::Inputs() {
  ReferenceInputs inputs;
  for (const Node* leaf : leaves_) AddInput(leaf, inputs);
  return inputs;
}

void RandomGraph::AddInput(const Node* leaf, ReferenceInputs& inputs) {
  if (leaf->op == Op::kVariable) {
    const auto range = static_cast<uint64_t>(leaf->hi - leaf->lo) + 1;
    inputs.variables[std::string(leaf->text)] =
        leaf->lo + static_cast<int64_t>(Below(static_cast<size_t>(range)));
    return;
  }
  std::vector<Scalar>& values = inputs.params[leaf->slot()];
  for (int64_t e = 0; e < NumElements(leaf->shape); ++e) values.push_back(AnyValue(leaf->dtype));
}

namespace {

bool IsEnumerated(const Node* leaf) { return leaf->op == Op::kParam && ItemSize(leaf->dtype) == 1; }
int64_t NumValues(const Node* leaf) { return leaf->dtype == kBool ? 2 : 256; }

}  // namespace

int64_t RandomGraph::NumCombinations() const {
  int64_t count = 1;
  for (const Node* leaf : leaves_) {
    if (IsEnumerated(leaf)) count *= NumValues(leaf);
  }
  return count;
}

ReferenceInputs RandomGraph::Combinations(int64_t first) {
  ReferenceInputs inputs;
  int64_t combinations = 1;
  for (const Node* leaf : leaves_) {
    if (!IsEnumerated(leaf)) {
      AddInput(leaf, inputs);
      continue;
    }
    std::vector<Scalar>& values = inputs.params[leaf->slot()];
    for (int64_t e = 0; e < NumElements(leaf->shape); ++e) {
      const int64_t number = (first + e) / combinations % NumValues(leaf);
      values.push_back(Scalar::FromBits(leaf->dtype, static_cast<uint64_t>(number)));
    }
    combinations *= NumValues(leaf);
  }
  return inputs;
}

RandomGraph::Dims RandomGraph::AnyShape() {
  if (!limits_.shape.empty()) return limits_.shape;
  Dims shape(Below(4));
  for (int64_t& dim : shape) {
    dim = OneIn(20) ? 0 : 1 + static_cast<int64_t>(Below(static_cast<size_t>(limits_.dim)));
  }
  return shape;
}

Scalar RandomGraph::AnyValue(DType dtype) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  if (IsFloat(dtype)) {
    constexpr double kSpecial[] = {
        0.0, -0.0, 1.0,  -1.0, kInf,   -kInf, std::numeric_limits<double>::quiet_NaN(),
        0.5, 2.0,  -4.0, 1e-5, 1e-300, 0.1,   3.0};
    if (!OneIn(3)) return Scalar::Float(dtype, Pick(kSpecial));
    return Scalar::FromBits(dtype, uint64_t{random_()} << 32 | random_());
  }
  constexpr int64_t kSpecial[] = {0, 1, -1, 2, 3, 4, 6, 8, 12, 127, -128, 255};
  switch (Below(4)) {
    case 0:
      return Scalar::Int(dtype, OneIn(2) ? IntMin(dtype) : IntMax(dtype));
    case 1:
      return Scalar::Int(dtype, static_cast<int64_t>(uint64_t{random_()} << 32 | random_()));
    default:
      return Scalar::Int(dtype, Pick(kSpecial));
  }
}

const Node* RandomGraph::Leaf(DType dtype, const Dims& shape) {
  if (OneIn(8)) return MakeConstant(graph_, AnyValue(dtype), shape);
  if (IsInt(dtype) && OneIn(4)) {
    // A variable of narrow bounds in that shape.
    const int64_t low =
        IsSigned(dtype) ? static_cast<int64_t>(Below(9)) - 4 : static_cast<int64_t>(Below(5));
    const Node* variable = graph_.Variable("v" + std::to_string(params_++), low,
                                           low + static_cast<int64_t>(Below(5)), dtype);
    leaves_.push_back(variable);
    const Dims ones(shape.size(), 1);
    return graph_.Make(Op::kExpand, {graph_.Make(Op::kReshape, {variable}, ones)}, shape);
  }
  if (!IsFloat(dtype) && dtype != kBool && OneIn(4)) {
    const Node* narrow = graph_.Param(params_++, OneIn(2) ? kUint8 : kBool, shape);
    leaves_.push_back(narrow);
    return graph_.Cast(narrow, dtype);
  }
  leaves_.push_back(graph_.Param(params_++, dtype, shape));
  return leaves_.back();
}

std::vector<int64_t> RandomGraph::AnyAttribute(Op op, Shape shape) {
  const auto below = [&](int64_t n) { return static_cast<int64_t>(Below(static_cast<size_t>(n))); };
  const int64_t rank = static_cast<int64_t>(shape.size());
  std::vector<int64_t> ints(shape.begin(), shape.end());
  switch (Info(op).attr) {
    case AttrKind::kShape:
      if (op == Op::kReshape) {
        if (OneIn(3)) return {NumElements(shape)};
        if (OneIn(3)) ints.insert(ints.begin() + below(rank + 1), 1);
        if (OneIn(2)) std::ranges::shuffle(ints, random_);
      } else {
        for (int64_t& dim : ints) {
          if (dim == 1) dim = below(4);
        }
      }
      return ints;
    case AttrKind::kAxes:
      std::iota(ints.begin(), ints.end(), 0);
      if (op == Op::kPermute) {
        if (!OneIn(4)) std::ranges::shuffle(ints, random_);
      } else {
        std::erase_if(ints, [&](int64_t) { return OneIn(2); });
      }
      return ints;
    case AttrKind::kPairs:
      ints.clear();
      for (const int64_t dim : shape) {
        if (op == Op::kPad) {
          ints.insert(ints.end(), {below(3) / 2, below(4) / 2});
        } else {
          const int64_t begin = OneIn(2) ? 0 : below(dim + 1);
          ints.insert(ints.end(), {begin, OneIn(2) ? dim : begin + below(dim - begin + 1)});
        }
      }
      return ints;
    case AttrKind::kSlide: {
      if (rank < 2) return {0, 0, 1, 1, 1};
      const int64_t axis = below(rank), along = (axis + 1 + below(rank - 1)) % rank;
      return {axis, along, 1 + below(2), 1 + below(2), 1 + below(4)};
    }
    case AttrKind::kReduce:
      std::iota(ints.begin(), ints.end(), 0);
      std::erase_if(ints, [&](int64_t) { return OneIn(2); });
      ints.insert(ints.begin(), below(4));
      return ints;
    case AttrKind::kScan:
      return {below(5), rank > 0 ? below(rank) : 0, below(2), below(2)};
    case AttrKind::kScatter:
      return {below(5), rank > 0 ? below(rank) : 0};
    default:
      return {};
  }
}

const Node* RandomGraph::TryIntern(const NodeSpec& spec) {
  Inferred inferred;
  if (!Infer(graph_, spec, inferred).ok() || NumElements(inferred.shape) > limits_.elements)
    return nullptr;
  return graph_.Intern(spec);
}

const Node* RandomGraph::Generate(const Pattern& pattern, DType dtype, const Dims& shape) {
  switch (pattern.kind) {
    case Pattern::Kind::kVar:
      return GenerateVar(pattern.var, dtype, shape);
    case Pattern::Kind::kInt:
    case Pattern::Kind::kFloat:
      return MakeConstant(graph_, pattern.ValueIn(dtype), shape);
    case Pattern::Kind::kOp:
      return GenerateOp(pattern, dtype, shape);
    case Pattern::Kind::kCall:
      return nullptr;
  }
  return nullptr;
}

const Node* RandomGraph::GenerateVar(Var var, DType dtype, const Dims& shape) {
  const Node*& bound = bound_[var.slot];
  if (bound == nullptr) {
    if (!Fits(var.domain, dtype)) return nullptr;
    bound = var.domain == Domain::kConstant ? MakeConstant(graph_, AnyValue(dtype), shape)
                                            : Leaf(dtype, shape);
  }
  return bound->dtype == dtype && bound->shape == Shape(shape) ? bound : nullptr;
}

const Node* RandomGraph::GenerateOp(const Pattern& pattern, DType dtype, const Dims& shape) {
  std::vector<Op> ops;
  for (OpSet rest = pattern.ops; rest != 0; rest = rest.WithoutFirst()) {
    ops.push_back(static_cast<Op>(rest.First()));
  }
  const Op op = Pick(ops);
  const bool moves = In(op, MovementOps()) || op == Op::kReduce;
  Dims source_shape = moves ? AnyShape() : shape;
  DType source_dtype = dtype;
  if (In(op, kCompares) || op == Op::kCast || op == Op::kBitcast) source_dtype = Pick(dtypes_);
  for (int t = 0; t < 50 && !pattern.any_src; ++t) {
    if (In(op, kCompares | OpBit(Op::kCast)) &&
        !std::ranges::all_of(pattern.src,
                             [&](const Pattern& s) { return CanBe(s, source_dtype); })) {
      source_dtype = Pick(dtypes_);
    }
  }
  std::vector<const Node*> src;
  if (pattern.any_src) {
    for (int s = 0; s < Info(op).num_src; ++s) {
      DType type = source_dtype;
      if (op == Op::kWhere && s == 0) type = kBool;
      if (op == Op::kGather && s == 1) type = kInt32;
      src.push_back(Leaf(type, source_shape));
    }
  }
  for (size_t s = 0; s < pattern.src.size(); ++s) {
    const bool condition = op == Op::kWhere && s == 0;
    const Node* node = Generate(pattern.src[s], condition ? kBool : source_dtype, source_shape);
    if (node == nullptr) return nullptr;
    src.push_back(node);
  }
  if (In(op, CommutativeOps()) && OneIn(2)) std::swap(src[0], src[1]);
  std::vector<int64_t> ints = AnyAttribute(op, src.empty() ? Shape() : src[0]->shape);
  if (op == Op::kIota) ints = {static_cast<int64_t>(Below(3))};
  return TryIntern({.op = op, .src = src, .ints = ints, .dtype = dtype});
}

}  // namespace tensord
