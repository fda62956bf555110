#include "core/schedule/lower.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/ir/eval.h"

namespace tensord {

namespace {

std::vector<const Node*> RangesOf(const Index& index) {
  std::vector<const Node*> ranges;
  for (const Node* i : index) {
    if (i->op == Op::kRange) ranges.push_back(i);
  }
  return ranges;
}

void CollectConjuncts(const Node* node, std::vector<const Node*>& conjuncts) {
  if (node->op == Op::kAnd) {
    for (const Node* src : node->src) CollectConjuncts(src, conjuncts);
  } else if (!node->IsConst() || node->Int() == 0) {
    conjuncts.push_back(node);
  }
}

// Whether every condition that `b` is made from is one of those of `a`.
bool Implies(const Node* a, const Node* b) {
  const std::vector<const Node*> given = Conjuncts(a), wanted = Conjuncts(b);
  return std::all_of(wanted.begin(), wanted.end(), [&](const Node* condition) {
    return std::find(given.begin(), given.end(), condition) != given.end();
  });
}

}  // namespace

std::vector<const Node*> Conjuncts(const Node* condition) {
  std::vector<const Node*> conjuncts;
  CollectConjuncts(condition, conjuncts);
  return conjuncts;
}

const Node* Offset(Graph& graph, const Index& index, const Layout& layout) {
  const Node* offset = graph.Index(0);
  const auto add = [&](const Node* part, int64_t stride) {
    offset = graph.Make(Op::kAdd, {offset, graph.Make(Op::kMul, {part, graph.Index(stride)})});
  };
  for (size_t axis = 0; axis < index.size(); ++axis) {
    if (static_cast<int64_t>(axis) == layout.blocked_axis) {
      const Node* block = graph.Index(layout.block);
      add(graph.Make(Op::kFloorDiv, {index[axis], block}), layout.block_stride);
      add(graph.Make(Op::kFloorMod, {index[axis], block}), 1);
    } else {
      add(index[axis], layout.strides[axis]);
    }
  }
  return offset;
}

Lowering::Lowering(Graph& graph, StorageOf storage_of, IsSite is_site)
    : graph_(graph), storage_of_(std::move(storage_of)), is_site_(std::move(is_site)) {}

const Node* Lowering::Range(Dim size, RangeKind kind) {
  if (size.IsOne()) return graph_.Index(0);
  return graph_.Range(next_range_++, Dim{size.size, SizeHere(size.node)}, kind);
}

Index Lowering::OutputRanges(const Node* tensor) {
  Index index;
  for (const Dim& dim : ShapeOf(tensor)) index.push_back(Range(dim, RangeKind::kLoop));
  return index;
}

const Node* Lowering::SizeHere(const Node* size) {
  if (size == nullptr) return nullptr;
  auto [place, is_new] = sizes_.emplace(size, nullptr);
  if (is_new) place->second = CopyTo(graph_, {&size, 1})[0];
  return place->second;
}

const Node* Lowering::Number(Dim size) {
  return size.node == nullptr ? graph_.Index(size.size) : SizeHere(size.node);
}

const Node* Lowering::And(const Node* a, const Node* b) {
  return a == nullptr ? b : graph_.Make(Op::kAnd, {a, b});
}

const Node* Lowering::InBounds(const Node* index, Dim size) {
  const Node* below = graph_.Make(Op::kCmpLt, {index, Number(size)});
  const Node* above = graph_.Make(Op::kCmpLt, {graph_.Index(-1), index});
  return graph_.Make(Op::kAnd, {above, below});
}

const Node* Lowering::Value(const Node* tensor, const Index& index) {
  return Lower(tensor, index, nullptr);
}

const Node* Lowering::Lower(const Node* tensor, const Index& index, const Node* gate) {
  if (gate != nullptr && gate->IsConst() && gate->Int() == 1) gate = nullptr;
  Key key{tensor, gate, index};
  if (auto found = memo_.find(key); found != memo_.end()) return found->second;
  const Node* value =
      is_site_(tensor) ? LowerSite(tensor, index, gate) : LowerNew(tensor, index, gate);
  memo_.emplace(std::move(key), value);
  return value;
}

const Node* Lowering::LowerSite(const Node* tensor, const Index& index, const Node* gate) {
  const std::vector<const Node*> context = context_;
  context_ = RangesOf(index);
  const Node* value = LowerNew(tensor, index, gate);
  context_ = context;
  sites_.push_back({tensor, index, context, gate != nullptr, value});
  return value;
}

const Node* Lowering::LowerNew(const Node* tensor, const Index& index, const Node* gate) {
  // A tensor without elements is read nowhere; whoever would read it is guarded.
  if (NumElements(tensor->shape) == 0) return graph_.Value(tensor->dtype, 0);
  if (const Storage* storage = storage_of_(tensor)) return Load(tensor, *storage, index, gate);
  switch (tensor->op) {
    case Op::kConst:
      return graph_.Intern({.op = Op::kConst, .ints = tensor->ints, .dtype = tensor->dtype});
    case Op::kVariable:
      return graph_.Variable(tensor->text, tensor->ints[0], tensor->ints[1], tensor->dtype);
    case Op::kIota:
      return graph_.Cast(index[0], tensor->dtype);
    case Op::kReduce:
      return LowerReduce(tensor, index, gate);
    case Op::kScan:
      return LowerScan(tensor, index, gate);
    case Op::kScatter:  // what it starts from; a kernel of its own does the rest
      return Lower(tensor->src[0], index, gate);
    case Op::kGather:
      return LowerGather(tensor, index, gate);
    case Op::kContiguous:
    case Op::kDetach:
    case Op::kWithSlope:
      return Lower(tensor->src[0], index, gate);
    default:
      break;
  }
  if (In(tensor->op, MovementOps())) return LowerMovement(tensor, index, gate);
  TD_CHECK(In(tensor->op, ElementwiseOps()), Name(tensor->op));
  std::vector<const Node*> src;
  for (const Node* operand : tensor->src) src.push_back(Lower(operand, index, gate));
  return graph_.Make({.op = tensor->op, .src = src, .dtype = tensor->dtype});
}

const Node* Lowering::Guarded(const Node* source, const Index& index, const Node* inside,
                              const Node* gate) {
  if (inside->IsConst() && inside->Int() == 1) return Lower(source, index, gate);
  const Node* zero = graph_.Value(source->dtype, 0);
  if (inside->IsConst()) return zero;
  const Node* both = And(gate, inside);
  if (both->IsConst() && both->Int() == 0) return zero;
  const Node* value = Lower(source, index, both);
  // A gated Load gives 0 where its gate is false.
  if (value->op == Op::kLoad && value->src.size() == 3 && Implies(value->src[2], inside)) {
    return value;
  }
  return graph_.Make(Op::kWhere, {inside, value, zero});
}

// The index into a tensor of the shape of `to` of the element at `index` in that of `from`. Axes
// that vary are kept apart from what has the same size on both sides, so that most indices stay
// sums.
Index Lowering::ReshapeIndex(const Index& index, const Node* from, const Node* to) {
  ReplacementMap parts;
  Index result(to->shape.size());
  Sizes source = ShapeOf(from), target = ShapeOf(to);
  for (Sizes* sizes : {&source, &target}) {
    for (Dim& dim : *sizes) dim.node = SizeHere(dim.node);
  }
  if (!from->has_dims() && !to->has_dims()) {
    ReshapeAxes(index, source, target, parts, result);
    return Substitute(graph_, result, parts);
  }
  // The runs of axes with equal products, from the last axis.
  Index reversed;
  size_t i = source.size(), j = target.size();
  while (i > 0 || j > 0) {
    size_t first_i = i, first_j = j;
    bool found = false;
    for (size_t taken = 1; !found && taken <= i + j; ++taken) {
      for (size_t left = std::min(taken, i) + 1; !found && left-- > 0;) {
        const size_t right = taken - left;
        if (right > j) continue;
        first_i = i - left;
        first_j = j - right;
        found = SameCount(graph_, absl::MakeConstSpan(source).subspan(first_i, left),
                          absl::MakeConstSpan(target).subspan(first_j, right));
      }
    }
    TD_CHECK(found, "a reshape changes the number of elements");
    Index part(j - first_j);
    ReshapeAxes(absl::MakeConstSpan(index).subspan(first_i, i - first_i),
                absl::MakeConstSpan(source).subspan(first_i, i - first_i),
                absl::MakeConstSpan(target).subspan(first_j, j - first_j), parts, part);
    reversed.insert(reversed.end(), part.rbegin(), part.rend());
    i = first_i;
    j = first_j;
  }
  result.assign(reversed.rbegin(), reversed.rend());
  return Substitute(graph_, result, parts);
}

// Every part of the index is taken to be inside its axis while the divisions are simplified: where
// it isn't, the value does not matter.
void Lowering::ReshapeAxes(absl::Span<const Node* const> index, absl::Span<const Dim> from,
                           absl::Span<const Dim> to, ReplacementMap& parts, Index& result) {
  const Node* stride = graph_.Index(1);
  const Node* flat = graph_.Index(0);
  for (size_t i = from.size(); i-- > 0;) {
    if (from[i].size > 1) {
      const Node* part =
          graph_.Range(-1 - static_cast<int64_t>(parts.size()), from[i].size, RangeKind::kLoop);
      parts[part] = {index[i]};
      flat = graph_.Make(Op::kAdd, {flat, graph_.Make(Op::kMul, {part, stride})});
    }
    stride = graph_.Make(Op::kMul, {stride, NodeOf(graph_, from[i])});
  }
  for (size_t i = to.size(); i-- > 0;) {
    // What is left at the first axis is inside of it; and by zero nothing is divided.
    if (i == 0 && to[0].node != nullptr) {
      result[0] = flat;
      break;
    }
    const Node* dim =
        to[i].node != nullptr ? to[i].node : graph_.Index(std::max<int64_t>(to[i].size, 1));
    result[i] = graph_.Make(Op::kFloorMod, {flat, dim});
    flat = graph_.Make(Op::kFloorDiv, {flat, dim});
  }
}

const Node* Lowering::LowerMovement(const Node* tensor, const Index& index, const Node* gate) {
  const Node* source = tensor->src[0];
  const absl::Span<const int64_t> ints = tensor->ints;
  Index in = index;
  const auto offset = [&](const Node* i, int64_t by) {
    return graph_.Make(Op::kAdd, {i, graph_.Index(by)});
  };
  switch (tensor->op) {
    case Op::kReshape:
      return Lower(source, ReshapeIndex(index, tensor, source), gate);
    case Op::kExpand:
      for (size_t i = 0; i < in.size(); ++i) {
        if (source->dim(i).IsOne()) in[i] = graph_.Index(0);
      }
      return Lower(source, in, gate);
    case Op::kPermute:
      for (size_t i = 0; i < in.size(); ++i) in[ints[i]] = index[i];
      return Lower(source, in, gate);
    case Op::kShrink: {
      const Sizes pairs = AttributeOf(tensor);
      for (size_t i = 0; i < in.size(); ++i) {
        in[i] = graph_.Make(Op::kAdd, {index[i], Number(pairs[2 * i])});
      }
      return Lower(source, in, gate);
    }
    case Op::kFlip:
      for (int64_t axis : ints) {
        in[axis] = graph_.Make(Op::kSub, {offset(Number(tensor->dim(axis)), -1), index[axis]});
      }
      return Lower(source, in, gate);
    case Op::kPad: {
      const Node* inside = graph_.Bool(true);
      const Sizes pairs = AttributeOf(tensor);
      for (size_t i = 0; i < in.size(); ++i) {
        if (pairs[2 * i] == Dim{0} && pairs[2 * i + 1] == Dim{0}) continue;
        in[i] = graph_.Make(Op::kSub, {index[i], Number(pairs[2 * i])});
        inside = graph_.Make(Op::kAnd, {inside, InBounds(in[i], source->dim(i))});
      }
      return Guarded(source, in, inside, gate);
    }
    case Op::kSlide: {
      const int64_t axis = ints[0], along = ints[1], stride = ints[2], dilation = ints[3];
      in[axis] =
          graph_.Make(Op::kAdd, {graph_.Make(Op::kMul, {index[axis], graph_.Index(stride)}),
                                 graph_.Make(Op::kMul, {index[along], graph_.Index(dilation)})});
      return Lower(source, in, gate);
    }
    case Op::kUnslide: {
      const int64_t axis = ints[0], along = ints[1], stride = ints[2], dilation = ints[3];
      const Node* position = graph_.Make(
          Op::kSub, {index[axis], graph_.Make(Op::kMul, {index[along], graph_.Index(dilation)})});
      const Node* step = graph_.Index(stride);
      in[axis] = graph_.Make(Op::kFloorDiv, {position, step});
      const Node* inside = InBounds(in[axis], source->dim(axis));
      inside = graph_.Make(
          Op::kAnd, {inside, graph_.Make(Op::kCmpEq, {graph_.Make(Op::kFloorMod, {position, step}),
                                                      graph_.Index(0)})});
      return Guarded(source, in, inside, gate);
    }
    default:
      TD_CHECK(false, Name(tensor->op));
  }
}

const Node* Lowering::LowerReduce(const Node* tensor, const Index& index, const Node* gate) {
  const Node* source = tensor->src[0];
  const ReduceKind kind = tensor->reduce_kind();
  Index in = index;
  std::vector<const Node*> ranges;
  for (int64_t axis : tensor->reduce_axes()) {
    if (source->shape[axis] == 0) {
      return graph_.Intern({.op = Op::kConst,
                            .ints = {ReduceIdentity(kind, tensor->dtype).attribute()},
                            .dtype = tensor->dtype});
    }
    in[axis] = Range(source->dim(axis), RangeKind::kReduce);
    if (!in[axis]->IsConst()) ranges.push_back(in[axis]);
  }
  if (ranges.empty()) return Lower(source, in, gate);
  const size_t outer = context_.size();
  context_.insert(context_.end(), ranges.begin(), ranges.end());
  const Node* body = Lower(source, in, gate);
  context_.resize(outer);
  return Fold(kind, body, ranges);
}

const Node* Lowering::Fold(ReduceKind kind, const Node* body, std::vector<const Node*> ranges) {
  // A sum of sums is one sum; a guard around the inner sum can guard its terms instead.
  const Node* inner = body;
  const Node* guard = nullptr;
  if (kind == ReduceKind::kAdd && body->op == Op::kWhere && body->src[2]->IsConst() &&
      body->src[2]->ints[0] == 0) {
    guard = body->src[0];
    inner = body->src[1];
  }
  // But for one that is needed by itself: its loops are its own.
  const bool is_site = std::any_of(sites_.begin(), sites_.end(),
                                   [&](const Site& site) { return site.value == inner; });
  if (inner->op == Op::kFold && inner->reduce_kind() == kind && !is_site) {
    ranges.insert(ranges.end(), inner->src.begin() + 1, inner->src.end());
    body = inner->src[0];
    if (guard != nullptr) {
      const Node* zero = graph_.Value(body->dtype, 0);
      if (body->op == Op::kWhere && body->src[2] == zero) {
        guard = And(guard, body->src[0]);
        body = body->src[1];
      }
      body = graph_.Make(Op::kWhere, {guard, body, zero});
    }
  }
  std::vector<const Node*> src = {body};
  src.insert(src.end(), ranges.begin(), ranges.end());
  return graph_.Make(Op::kFold, src, {static_cast<int64_t>(kind)});
}

// The loop of the scanned axis is an output's loop, which codegen runs in order. It counts up; for
// a scan in reverse, LowerUnit turns it around in the end.
const Node* Lowering::LowerScan(const Node* tensor, const Index& index, const Node* gate) {
  const ScanKind kind = tensor->scan_kind();
  const Node* range = index[tensor->scan_axis()];
  const int64_t size = tensor->shape[tensor->scan_axis()];
  if (size == 1) {
    if (!tensor->scan_exclusive()) return Lower(tensor->src[0], index, gate);
    return graph_.Intern({.op = Op::kConst,
                          .ints = {ScanIdentity(kind, tensor->dtype).attribute()},
                          .dtype = tensor->dtype});
  }
  // Each of its elements once, in its turn: not inside of a reduction's loop.
  const bool in_loops = std::all_of(index.begin(), index.end(), [](const Node* part) {
    return part->IsConst() || (part->op == Op::kRange && part->range_kind() == RangeKind::kLoop);
  });
  const bool covers = in_loops && gate == nullptr && range->op == Op::kRange &&
                      range->range_kind() == RangeKind::kLoop && range->range_size() == size;
  if (scan_loop_.range == nullptr) scan_loop_ = {range, tensor->scan_reverse()};
  const bool shares = scan_loop_.range == range && scan_loop_.reverse == tensor->scan_reverse();
  scan_loop_.is_legal &= covers && shares;
  const Node* value = Lower(tensor->src[0], index, gate);
  if (!scan_loop_.is_legal) return value;
  return graph_.Make(Op::kRunning, {value, range},
                     {static_cast<int64_t>(kind), tensor->scan_exclusive() ? 1 : 0});
}

const Node* Lowering::InsideRows(const Node* row, Dim count) {
  // Compared in the type of the data: arithmetic on indices takes for granted that nothing
  // overflows, and data may be anything.
  const Node* inside = graph_.Bool(true);
  if (!IsUnsigned(row->dtype)) {
    inside = graph_.Make(Op::kCmpLt, {graph_.Int(row->dtype, -1), row});
  }
  if (row->dtype == DType::kUint64 || count.size <= IntMax(row->dtype)) {
    const Node* size = graph_.Cast(Number(count), row->dtype);
    inside = graph_.Make(Op::kAnd, {inside, graph_.Make(Op::kCmpLt, {row, size})});
  } else if (count.node != nullptr) {
    const Node* wide = graph_.Cast(row, DType::kIndex);
    inside = graph_.Make(Op::kAnd, {inside, graph_.Make(Op::kCmpLt, {wide, Number(count)})});
  }
  return inside;
}

const Node* Lowering::LowerGather(const Node* tensor, const Index& index, const Node* gate) {
  const Node* source = tensor->src[0];
  const Node* rows = tensor->src[1];
  const Index where(index.begin(), index.begin() + rows->rank());
  const Node* row = Lower(rows, where, gate);
  const Node* inside = InsideRows(row, source->dim(0));
  Index in = {graph_.Cast(row, DType::kIndex)};
  in.insert(in.end(), index.begin() + rows->rank(), index.end());
  return Guarded(source, in, inside, gate);
}

const Node* Lowering::Load(const Node* tensor, const Storage& storage, const Index& index,
                           const Node* gate) {
  const Node* param = graph_.Param(storage.slot, tensor->dtype, {storage.elements});
  Index inside = index;
  for (size_t axis = 0; axis < storage.margin.size(); ++axis) {
    const int64_t margin = storage.margin[axis];
    inside[axis] = graph_.Make(Op::kAdd, {index[axis], graph_.Index(margin)});
    TD_CHECK(inside[axis]->lo >= 0 && inside[axis]->hi < tensor->shape[axis] + 2 * margin,
             "a tensor is read beyond the zeros around it");
  }
  std::vector<const Node*> src = {param, Offset(graph_, inside, storage.layout)};
  // What lies in the margin is the zero that the gate would give.
  if (gate != nullptr && storage.margin.empty()) src.push_back(gate);
  const Node* load = graph_.Make(Op::kLoad, src, {});
  accesses_.push_back({tensor, index, load});
  return load;
}

}  // namespace tensord
