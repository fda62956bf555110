#include "core/tensor/collective.h"

#include "core/ir/dims.h"
#include "core/ir/program.h"
#include "core/tensor/build.h"
#include "core/tensor/join.h"
#include "core/tensor/movement.h"

namespace tensord {
namespace {

// Below so many bytes, or among two devices, fewer rounds count for more than fewer bytes.
constexpr int64_t kGatherBytes = 256 << 10;
// Above so many, memory for what all others send at once counts for more than time.
constexpr int64_t kRingBytes = int64_t{256} << 20;

Expr Exchange(const Expr& x, ExchangeKind kind, int64_t devices, int64_t shift = 0) {
  return Apply(Op::kExchange, {x}, {static_cast<int64_t>(kind), devices, shift});
}

Expr Reduce(const Expr& x, ReduceKind kind, int64_t axis) {
  return Apply(Op::kReduce, {x}, {static_cast<int64_t>(kind), axis});
}

// `length` elements of an axis, from an index that depends on the device.
Expr ShrinkFrom(const Expr& x, int64_t axis, const Node* begin, int64_t length) {
  Graph& graph = x.graph();
  Sizes pairs;
  for (int64_t i = 0; i < x.rank(); ++i) {
    pairs.push_back(i == axis ? DimOf(begin) : Dim{0});
    pairs.push_back(i == axis ? Plus(graph, DimOf(begin), {length}) : x.node()->dim(i));
  }
  const Node* operand[] = {x.node()};
  const SizedOp sized(operand, pairs);
  return Expr(&graph, graph.TryMake({.op = Op::kShrink, .src = sized.src, .ints = sized.ints}));
}

// An axis as rows of equal parts in front: [.., devices * m, ..] to [devices, .., m, ..].
Expr PartsFirst(const Expr& x, int64_t axis, int64_t devices) {
  Dims dims(x.shape().begin(), x.shape().end());
  dims[axis] /= devices;
  dims.insert(dims.begin() + axis, devices);
  return MoveAxis(Reshape(x, dims), axis, 0);
}

// The inverse.
Expr PartsAlong(const Expr& x, int64_t axis) {
  const Expr moved = MoveAxis(x, 0, axis);
  if (!moved.ok()) return moved;
  Dims dims(moved.shape().begin(), moved.shape().end());
  dims[axis + 1] *= dims[axis];
  dims.erase(dims.begin() + axis);
  return Reshape(moved, dims);
}

// The elements as [devices, n], with zeros behind them.
Expr AsRows(const Expr& x, int64_t devices) {
  const int64_t count = NumElements(x.shape());
  const int64_t each = (count + devices - 1) / devices;
  return Reshape(Apply(Op::kPad, {Reshape(x, {count})}, {0, each * devices - count}),
                 {devices, each});
}

Expr FromRows(const Expr& rows, Shape shape) {
  if (!rows.ok()) return rows;
  const int64_t count = NumElements(shape);
  return Reshape(Shrink(Reshape(rows, {NumElements(rows.shape())}), 0, 0, count), shape);
}

// Each device's part of the reduction, [1, n], of rows for all.
Expr RingReduce(const Expr& rows, ReduceKind reduction, int64_t devices) {
  Graph& graph = rows.graph();
  const Node* device = DeviceIndex(graph, devices).node();
  // The sum that device d passes on in step s is of row d - s.
  const auto row = [&](int64_t step) {
    const Node* ahead = graph.Make(Op::kAdd, {device, graph.Index(devices - step)});
    return ShrinkFrom(rows, 0, graph.Make(Op::kFloorMod, {ahead, graph.Index(devices)}), 1);
  };
  Expr sum = row(0);
  for (int64_t step = 1; step < devices; ++step) {
    sum = Apply(CombineOp(reduction), {Exchange(sum, ExchangeKind::kShift, devices, 1), row(step)});
  }
  return sum;
}

}  // namespace

Expr DeviceIndex(Graph& graph, int64_t devices) {
  const Node* variable = graph.Variable(kDeviceIndex, 0, devices - 1, DType::kInt32);
  return Expr(&graph, graph.Cast(variable, DType::kIndex));
}

Expr AllGather(const Expr& x, int64_t axis, int64_t devices) {
  if (!x.ok()) return x;
  return PartsAlong(Exchange(x, ExchangeKind::kGather, devices), axis);
}

Expr OwnPart(const Expr& x, int64_t axis, int64_t devices) {
  if (!x.ok()) return x;
  Graph& graph = x.graph();
  const int64_t length = x.shape()[axis] / devices;
  const Node* begin =
      graph.Make(Op::kMul, {DeviceIndex(graph, devices).node(), graph.Index(length)});
  return ShrinkFrom(x, axis, begin, length);
}

Expr AllToAll(const Expr& x, int64_t from, int64_t to, int64_t devices) {
  if (!x.ok()) return x;
  const Expr rows = PartsFirst(x, to, devices);
  return PartsAlong(Exchange(rows, ExchangeKind::kSwap, devices), from);
}

Expr AllReduce(const Expr& x, ReduceKind reduction, int64_t devices, AllReduceKind kind) {
  if (!x.ok()) return x;
  const int64_t bytes = NumElements(x.shape()) * ItemSize(x.dtype());
  if (kind == AllReduceKind::kAuto) {
    kind = devices == 2 || bytes < kGatherBytes ? AllReduceKind::kGather
           : bytes < kRingBytes                 ? AllReduceKind::kSwap
                                                : AllReduceKind::kRing;
  }
  if (kind == AllReduceKind::kGather || bytes == 0) {
    const Expr all = Reduce(Exchange(x, ExchangeKind::kGather, devices), reduction, 0);
    return Reshape(all, x.shape());
  }
  const Expr rows = AsRows(x, devices);
  if (!rows.ok()) return rows;
  const int64_t each = rows.shape()[1];
  if (kind == AllReduceKind::kSwap) {
    const Expr part = Reduce(Exchange(rows, ExchangeKind::kSwap, devices), reduction, 0);
    return FromRows(Exchange(Reshape(part, {each}), ExchangeKind::kGather, devices), x.shape());
  }
  // Device d ends with row d + 1.
  const Expr all = Exchange(Reshape(RingReduce(rows, reduction, devices), {each}),
                            ExchangeKind::kGather, devices);
  return FromRows(Cat({Shrink(all, 0, devices - 1, devices), Shrink(all, 0, 0, devices - 1)}, 0),
                  x.shape());
}

}  // namespace tensord
