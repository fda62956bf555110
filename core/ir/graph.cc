#include "core/ir/graph.h"

#include <absl/container/inlined_vector.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>

#include "core/base/check.h"
#include "core/base/status.h"
#include "core/ir/dims.h"
#include "core/ir/eval.h"
#include "core/ir/fold.h"
#include "core/ir/infer.h"

namespace tensord {
namespace {

uint64_t HashOf(const Node& node) {
  absl::InlinedVector<uint64_t, 16> words;
  words.push_back(static_cast<uint64_t>(node.op) | static_cast<uint64_t>(node.dtype) << 8 |
                  static_cast<uint64_t>(node.lanes) << 16 |
                  static_cast<uint64_t>(node.src.size()) << 32);
  for (const Node* src : node.src) words.push_back(src->hash);
  for (int64_t value : node.ints) words.push_back(static_cast<uint64_t>(value));
  const uint64_t seed = node.text.empty() ? 0 : XXH3_64bits(node.text.data(), node.text.size());
  return XXH3_64bits_withSeed(words.data(), words.size() * sizeof(uint64_t), seed);
}

struct Hasher {
  size_t operator()(const Node* node) const { return node->hash; }
};
struct Equal {
  bool operator()(const Node* a, const Node* b) const {
    return a->hash == b->hash && a->op == b->op && a->dtype == b->dtype && a->lanes == b->lanes &&
           a->src == b->src && a->ints == b->ints && a->text == b->text;
  }
};

}  // namespace

struct Graph::Storage {
  // A block is never moved, so nodes and their spans stay where they are.
  static constexpr size_t kBlockBytes = 1 << 16;
  std::vector<std::unique_ptr<std::byte[]>> blocks;
  size_t used = kBlockBytes;
  size_t bytes = 0;
  std::vector<const Node*> nodes;
  absl::flat_hash_set<const Node*, Hasher, Equal> interned;

  std::byte* Allocate(size_t size) {
    size = (size + 7) & ~size_t{7};
    if (used + size > kBlockBytes) {
      const size_t block = std::max(size, kBlockBytes);
      blocks.push_back(std::make_unique<std::byte[]>(block));
      bytes += block;
      if (size >= kBlockBytes) {
        // An outsize piece gets a block of its own; the current block stays in use.
        if (blocks.size() > 1) std::swap(blocks.back(), blocks[blocks.size() - 2]);
        return blocks.size() > 1 ? blocks[blocks.size() - 2].get() : blocks.back().get();
      }
      used = 0;
    }
    std::byte* result = blocks.back().get() + used;
    used += size;
    return result;
  }

  template <typename T>
  absl::Span<const T> Copy(absl::Span<const T> values) {
    if (values.empty()) return {};
    std::byte* place = Allocate(values.size() * sizeof(T));
    std::memcpy(place, values.data(), values.size() * sizeof(T));
    return {reinterpret_cast<const T*>(place), values.size()};
  }

  const Node* Intern(const NodeSpec& spec, const Inferred& inferred) {
    Node node = {};
    node.op = spec.op;
    node.dtype = inferred.dtype;
    node.lanes = inferred.lanes;
    node.src = spec.src;
    node.ints = spec.ints;
    node.text = spec.text;
    node.hash = HashOf(node);
    if (auto found = interned.find(&node); found != interned.end()) return *found;
    node.id = static_cast<uint32_t>(nodes.size());
    node.below_ops = OpBit(node.op);
    for (const Node* src : node.src) {
      node.src_ops |= OpBit(src->op);
      node.below_ops |= src->below_ops;
    }
    node.src = Copy(spec.src);
    node.ints = Copy(spec.ints);
    node.shape = Copy(absl::MakeConstSpan(inferred.shape));
    node.dims = Copy(absl::MakeConstSpan(inferred.dims));
    const absl::Span<const char> text =
        Copy(absl::MakeConstSpan(spec.text.data(), spec.text.size()));
    node.text = {text.data(), text.size()};
    InferInterval(node, node.lo, node.hi);
    const Node* made = new (Allocate(sizeof(Node))) Node(node);
    nodes.push_back(made);
    interned.insert(made);
    return made;
  }
};

Graph::Graph() : storage_(std::make_unique<Storage>()) {}
Graph::~Graph() = default;
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;

absl::StatusOr<const Node*> Graph::TryMake(const NodeSpec& spec) {
  // The identities below assume a well-formed node, so it is checked before they are tried.
  Inferred inferred;
  TD_RETURN_IF_ERROR(Infer(*this, spec, inferred));
  if (HasSizes(spec.op) && spec.src.size() > static_cast<size_t>(Info(spec.op).num_src)) {
    // A size that has become a number stands among the numbers.
    const SizedOp sized(spec.src.first(Info(spec.op).num_src), AttributeOf(spec),
                        spec.ints.first(FirstSize(spec.op)));
    return storage_->Intern(
        {.op = spec.op, .src = sized.src, .ints = sized.ints, .dtype = spec.dtype}, inferred);
  }
  if (const Node* folded = Fold(*this, spec, inferred.dtype)) return folded;
  return storage_->Intern(spec, inferred);
}

const Node* Graph::Make(const NodeSpec& spec) {
  absl::StatusOr<const Node*> made = TryMake(spec);
  TD_CHECK(made.ok(), Message(made.status()));
  return *made;
}

const Node* Graph::Make(Op op, std::initializer_list<const Node*> src,
                        std::initializer_list<int64_t> ints) {
  return Make({.op = op, .src = src, .ints = ints});
}

const Node* Graph::Make(Op op, absl::Span<const Node* const> src, absl::Span<const int64_t> ints) {
  return Make({.op = op, .src = src, .ints = ints});
}

const Node* Graph::Intern(const NodeSpec& spec) {
  Inferred inferred;
  const absl::Status status = Infer(*this, spec, inferred);
  TD_CHECK(status.ok(), Message(status));
  return storage_->Intern(spec, inferred);
}

const Node* Graph::Int(DType dtype, int64_t value) {
  if (IsFloat(dtype)) return Float(dtype, static_cast<double>(value));
  const int64_t wrapped = dtype == DType::kIndex ? value : WrapTo(dtype, value);
  return Intern({.op = Op::kConst, .ints = {wrapped}, .dtype = dtype});
}

const Node* Graph::Float(DType dtype, double value) {
  const double rounded = RoundTo(dtype, value);
  // All NaNs are one constant.
  const int64_t bits = std::bit_cast<int64_t>(rounded != rounded ? __builtin_nan("") : rounded);
  return Intern({.op = Op::kConst, .ints = {bits}, .dtype = dtype});
}

const Node* Graph::Value(DType dtype, double value) {
  if (IsFloat(dtype)) return Float(dtype, value);
  if (dtype == DType::kBool) return Bool(value != 0);
  return Int(dtype, static_cast<int64_t>(value));
}

const Node* Graph::Param(int64_t slot, DType dtype, Shape shape) {
  absl::InlinedVector<int64_t, 8> ints = {slot};
  ints.insert(ints.end(), shape.begin(), shape.end());
  return Make({.op = Op::kParam, .ints = ints, .dtype = dtype});
}

const Node* Graph::SizedParam(int64_t slot, DType dtype, absl::Span<const Dim> shape) {
  const SizedOp param({}, shape, {slot});
  return Make({.op = Op::kParam, .src = param.src, .ints = param.ints, .dtype = dtype});
}

const Node* Graph::Variable(std::string_view name, int64_t min, int64_t max, DType dtype) {
  return Make({.op = Op::kVariable, .ints = {min, max}, .text = name, .dtype = dtype});
}

const Node* Graph::Range(int64_t id, Dim size, RangeKind kind) {
  if (size.node == nullptr) return Range(id, size.size, kind);
  return Make(Op::kRange, {size.node}, {id, size.size, static_cast<int64_t>(kind)});
}

const Node* Graph::Range(int64_t id, int64_t size, RangeKind kind) {
  return Make(Op::kRange, {}, {id, size, static_cast<int64_t>(kind)});
}

const Node* Graph::Cast(const Node* x, DType dtype) {
  return Make({.op = Op::kCast, .src = {x}, .dtype = dtype});
}

const Node* Graph::WithSources(const Node* node, absl::Span<const Node* const> src) {
  const bool declared_lanes = node->op == Op::kLoad || node->op == Op::kBroadcast;
  return Make({.op = node->op,
               .src = src,
               .ints = node->ints,
               .text = node->text,
               .dtype = node->dtype,
               .lanes = declared_lanes ? node->lanes : uint16_t{0}});
}

size_t Graph::size() const { return storage_->nodes.size(); }
size_t Graph::bytes() const { return storage_->bytes; }
const Node* Graph::node(uint32_t id) const { return storage_->nodes[id]; }

std::vector<const Node*> CopyTo(Graph& to, absl::Span<const Node* const> roots) {
  absl::flat_hash_map<const Node*, const Node*> copies;
  for (const Node* node : TopologicalOrder(roots)) {
    absl::InlinedVector<const Node*, 4> src;
    for (const Node* old : node->src) src.push_back(copies.at(old));
    const NodeSpec spec = {.op = node->op,
                           .src = src,
                           .ints = node->ints,
                           .text = node->text,
                           .dtype = node->dtype,
                           .lanes = node->lanes};
    // The order of terms in a size is that of the graph: else what is equal would not be one node.
    copies[node] = IsDim(node) ? to.Make(spec) : to.Intern(spec);
  }
  std::vector<const Node*> result;
  for (const Node* root : roots) result.push_back(copies.at(root));
  return result;
}

std::vector<const Node*> TopologicalOrder(absl::Span<const Node* const> roots) {
  std::vector<const Node*> order;
  absl::flat_hash_set<const Node*> seen;
  struct Frame {
    const Node* node;
    size_t next;
  };
  std::vector<Frame> stack;
  for (const Node* root : roots) {
    if (seen.insert(root).second) stack.push_back({root, 0});
    while (!stack.empty()) {
      Frame& frame = stack.back();
      if (frame.next == frame.node->src.size()) {
        order.push_back(frame.node);
        stack.pop_back();
      } else if (const Node* src = frame.node->src[frame.next++]; seen.insert(src).second) {
        stack.push_back({src, 0});
      }
    }
  }
  return order;
}

}  // namespace tensord
