#include "tests/differential/generate.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <random>

#include "core/ir/graph.h"
#include "core/rewrite/constant.h"
#include "core/tensor/activation.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/gradient.h"
#include "core/tensor/index.h"
#include "core/tensor/loop.h"
#include "core/tensor/movement.h"
#include "core/tensor/nn.h"
#include "core/tensor/reduce.h"
#include "core/tensor/scan.h"
#include "core/tensor/weak.h"

namespace tensord {
namespace {

using enum DType;
using Ints = std::vector<int64_t>;

constexpr DType kDTypes[] = {kBool,       kInt8,           kUint8,          kInt16,   kUint16,
                             kInt32,      kUint32,         kInt64,          kUint64,  kFloat8E4M3,
                             kFloat8E5M2, kFloat8E4M3Fnuz, kFloat8E5M2Fnuz, kFloat16, kBFloat16,
                             kFloat32,    kFloat64};
constexpr DType kInts[] = {kInt8, kUint8, kInt16, kUint16, kInt32, kUint32, kInt64, kUint64};
constexpr int64_t kSizes[] = {1,  2,  2,  3,  3,  4,  5,  6,  7,  8,  9,  11, 12,
                              13, 15, 16, 17, 20, 24, 31, 32, 33, 36, 48, 60, 65};

class Generator {
 public:
  Generator(uint64_t seed, CaseKind kind)
      : random_(seed * 0x9E3779B97F4A7C15 + 1), seed_(seed), kind_(kind) {}

  Case Run() {
    test_.seed = seed_;
    test_.values = OneIn(3) ? ValueKind::kSpecial : ValueKind::kNice;
    if (OneIn(12)) max_elements_ = 40000;
    main_dtype_ = OneIn(2) ? kFloat32 : Pick(kDTypes);
    if (kind_ == CaseKind::kDivision) main_dtype_ = Pick(kInts);
    if (kind_ == CaseKind::kDivision || kind_ == CaseKind::kCasts) {
      test_.values = OneIn(2) ? ValueKind::kBits : ValueKind::kEdges;
    }
    const int leaves = 1 + Below(3);
    for (int i = 0; i < leaves; ++i) Add(Leaf(AnyDType(), AnyShape()));
    const int size = OneIn(3) ? 2 + Below(4) : 4 + Below(22);
    for (int tries = 0; tries < 4 * size && static_cast<int>(pool_.size()) < size + leaves;
         ++tries) {
      Step();
    }
    ChooseOutputs();
    return std::move(test_);
  }

 private:
  int Below(int64_t n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  bool OneIn(int64_t n) { return Below(n) == 0; }
  template <typename T, size_t n>
  T Pick(const T (&values)[n]) {
    return values[Below(n)];
  }

  DType AnyDType() { return OneIn(2) ? main_dtype_ : Pick(kDTypes); }

  Ints AnyShape() {
    for (;;) {
      Ints shape(static_cast<size_t>(OneIn(8) ? 4 + Below(2) : Below(4)));
      for (int64_t& dim : shape) dim = OneIn(60) ? 0 : Pick(kSizes);
      if (NumElements(shape) <= max_elements_) return shape;
    }
  }

  Expr Of(const Node* node) { return Expr(&test_.graph, node); }

  void Add(const Expr& x) {
    if (!x.ok() || NumElements(x.shape()) > max_elements_ || x.rank() > 8) return;
    // What reductions read counts too: the oracle computes it all.
    for (const Node* node : TopologicalOrder({x.node()})) {
      if (NumElements(node->shape) > 50 * max_elements_) return;
    }
    if (std::find(pool_.begin(), pool_.end(), x.node()) == pool_.end()) pool_.push_back(x.node());
  }

  Expr Leaf(DType dtype, const Ints& shape) {
    if (OneIn(10)) {
      const int least = IsInt(dtype) && !IsSigned(dtype) ? 0 : -2;  // what it lacks is refused
      const double value = Below(7) + least + (OneIn(2) ? 0.5 : 0);
      return Full(test_.graph, shape, value, dtype);
    }
    if (IsInt(dtype) && OneIn(6)) {
      const Expr iota = Of(test_.graph.Make({.op = Op::kIota,
                                             .ints = Ints{std::max<int64_t>(NumElements(shape), 0)},
                                             .dtype = kInt64}));
      return Cast(Reshape(iota, shape), dtype);
    }
    if (IsInt(dtype) && OneIn(12)) {
      const int64_t low = IsSigned(dtype) ? Below(9) - 4 : Below(5);
      const Node* variable =
          test_.graph.Variable("v" + std::string(1 + Below(3), 'v'), low, low + 5, dtype);
      // One type and bounds for a name: the first.
      for (const Node* known : variables_) {
        if (known->text == variable->text) variable = known;
      }
      variables_.push_back(variable);
      return BroadcastTo(Cast(Of(variable), dtype), shape);
    }
    return Of(test_.graph.Param(params_++, dtype, shape));
  }

  // An earlier value, the later ones more often.
  Expr Any() {
    const int64_t count = static_cast<int64_t>(pool_.size());
    return Of(pool_[static_cast<size_t>(std::max(Below(count), Below(count)))]);
  }

  Expr AnyWith(bool (*fits)(DType)) {
    for (int i = 0; i < 6; ++i) {
      const Expr x = Any();
      if (fits(x.dtype())) return x;
    }
    return Cast(Any(), fits(kFloat32) ? kFloat32 : kInt32);
  }

  // A value of that dtype and shape, from what there is if possible.
  Expr Partner(DType dtype, Shape shape) {
    const Ints dims(shape.begin(), shape.end());
    for (int i = 0; i < 12; ++i) {
      Expr x = Any();
      if (!BroadcastShapes(x.shape(), shape)) {
        if (NumElements(x.shape()) != NumElements(shape)) continue;
        x = Reshape(x, dims);
      }
      x = Cast(x, dtype);
      if (*BroadcastShapes(x.shape(), shape) != Dims(shape.begin(), shape.end())) continue;
      return BroadcastTo(x, shape);
    }
    // One that broadcasts.
    Ints small = dims;
    for (int64_t& dim : small) {
      if (OneIn(4)) dim = 1;
    }
    return BroadcastTo(Leaf(dtype, small), shape);
  }

  Expr Make(Op op, std::initializer_list<Expr> src, Ints ints = {}) { return Apply(op, src, ints); }

  int64_t AnyAxis(const Expr& x) { return Below(std::max<int64_t>(x.rank(), 1)); }

  Ints SomeAxes(const Expr& x) {
    Ints axes;
    for (int64_t axis = 0; axis < x.rank(); ++axis) {
      if (OneIn(2)) axes.push_back(axis);
    }
    return axes;
  }

  void Step() {
    switch (kind_) {
      case CaseKind::kGraph:
        return AnyStep();
      case CaseKind::kMovement:
        return Add(Movement(Any()));
      case CaseKind::kCasts:
        return Add(OneIn(6) ? Leaf(Pick(kDTypes), {1 + Below(300)}) : Casted());
      case CaseKind::kDivision:
        return Add(Division());
    }
  }

  // Division, or at times what stands around it.
  Expr Division() {
    const Expr a = Any();
    if (!a.ok() || !IsInt(a.dtype()) || OneIn(12)) return Leaf(Pick(kInts), {1 + Below(100)});
    if (OneIn(12)) return Cast(a, Pick(kInts));
    constexpr Op kDivisions[] = {Op::kFloorDiv, Op::kFloorMod, Op::kTruncDiv, Op::kTruncMod};
    constexpr Op kOthers[] = {Op::kShl, Op::kShr, Op::kAdd, Op::kMul, Op::kSub};
    const Op op = OneIn(4) ? Pick(kOthers) : Pick(kDivisions);
    if (OneIn(4)) return Make(op, {a, Partner(a.dtype(), a.shape())});
    const std::vector<Scalar>& edges = EdgeValues(a.dtype());
    const Scalar constant =
        OneIn(2)   ? Scalar::Int(a.dtype(), Below(24) - (IsSigned(a.dtype()) ? 8 : 0))
        : OneIn(2) ? edges[static_cast<size_t>(Below(static_cast<int64_t>(edges.size())))]
                   : Scalar::Int(a.dtype(), static_cast<int64_t>(random_()));
    const Expr b = Of(MakeConstant(test_.graph, constant, a.shape()));
    return OneIn(12) ? Make(op, {b, a}) : Make(op, {a, b});
  }

  void AnyStep() {
    switch (Below(16)) {
      case 15:
        return OneIn(2) ? AddLoop() : Add(Binary());
      case 14: {
        // Views of views, of which only the last is used.
        const size_t before = pool_.size();
        Add(Movement(Any()));
        for (int more = 1 + Below(5); more > 0 && pool_.size() > before; --more) {
          const Expr x = Of(pool_.back());
          pool_.pop_back();
          Add(Movement(x));
        }
        return;
      }
      case 0:
      case 1:
        return Add(Unary());
      case 2:
      case 3:
      case 4:
        return Add(Binary());
      case 5:
      case 6:
      case 7:
        return Add(Movement(Any()));
      case 8:
        return Add(Reduction());
      case 9:
        return Add(Diamond());
      case 10:
        return Add(Product());
      case 11:
        return Add(Indexed());
      case 12:
        return Add(OneIn(2) ? Contiguous(Any()) : Composite());
      default:
        return Add(OneIn(4) ? Leaf(AnyDType(), AnyShape()) : Casted());
    }
  }

  Expr Casted() {
    const Expr x = Any();
    if (OneIn(4)) {
      for (int i = 0; i < 8; ++i) {
        const DType to = Pick(kDTypes);
        // Bits that are no bool have no meaning.
        if (to != kBool && ItemSize(to) == ItemSize(x.dtype())) return Bitcast(x, to);
      }
    }
    return Cast(x, OneIn(2) ? main_dtype_ : Pick(kDTypes));
  }

  Expr Unary() {
    Expr x = Any();
    if (IsFloat(x.dtype())) {
      switch (Below(16)) {
        // clang-format off
        case 0: return Neg(x);
        case 1: return Make(Op::kExp, {x});
        case 2: return Make(Op::kLog, {x});
        case 3: return Make(Op::kSin, {x});
        case 4: return Make(Op::kSqrt, {x});
        case 5: return Trunc(x);
        case 6: return Abs(x);
        case 7: return Sign(x);
        case 8: return Relu(x);
        case 9: return Sigmoid(x);
        case 10: return Floor(x);
        case 11: return Round(x);
        case 12: return Reciprocal(x);
        case 13: return IsNan(x);
        case 14: return Tanh(x);
        default: return Square(x);
          // clang-format on
      }
    }
    switch (Below(5)) {
      case 0:
        return Neg(x);
      case 1:
        return BitwiseNot(x);
      case 2:
        return Abs(x);
      case 3:
        return LogicalNot(x);
      default:
        return Sign(x);
    }
  }

  Expr Binary() {
    const Expr a = Any();
    const Expr b = Partner(a.dtype(), a.shape());
    constexpr Op kFloatOps[] = {Op::kAdd, Op::kSub, Op::kMul,   Op::kDiv,   Op::kMax,
                                Op::kMin, Op::kMul, Op::kCmpLt, Op::kCmpEq, Op::kCmpNe};
    constexpr Op kIntOps[] = {
        Op::kAdd,      Op::kSub,      Op::kMul,      Op::kMax,   Op::kMin,  Op::kFloorDiv,
        Op::kFloorMod, Op::kTruncDiv, Op::kTruncMod, Op::kAnd,   Op::kOr,   Op::kXor,
        Op::kShl,      Op::kShr,      Op::kCmpLt,    Op::kCmpEq, Op::kCmpNe};
    constexpr Op kBoolOps[] = {Op::kAdd, Op::kMul, Op::kMax,   Op::kMin,   Op::kAnd,
                               Op::kOr,  Op::kXor, Op::kCmpLt, Op::kCmpEq, Op::kCmpNe};
    if (OneIn(6)) return Where(AsBool(Partner(AnyDType(), a.shape())), a, b);
    const Op op = IsFloat(a.dtype())   ? Pick(kFloatOps)
                  : a.dtype() == kBool ? Pick(kBoolOps)
                                       : Pick(kIntOps);
    return OneIn(2) ? Make(op, {a, b}) : Make(op, {b, a});
  }

  // Dims with the same number of elements: some axes merged, some split.
  Ints OtherDims(Shape shape) {
    Ints dims;
    for (const int64_t dim : shape) {
      if (!dims.empty() && OneIn(3)) {
        dims.back() *= dim;
      } else {
        dims.push_back(dim);
      }
    }
    Ints result;
    for (const int64_t dim : dims) {
      Ints divisors;
      for (int64_t d = 2; d < dim; ++d) {
        if (dim % d == 0) divisors.push_back(d);
      }
      if (!divisors.empty() && OneIn(2)) {
        const int64_t d =
            divisors[static_cast<size_t>(Below(static_cast<int64_t>(divisors.size())))];
        result.insert(result.end(), {d, dim / d});
      } else {
        result.push_back(dim);
      }
      if (OneIn(6)) result.push_back(1);
    }
    if (OneIn(4)) std::shuffle(result.begin(), result.end(), random_);
    if (OneIn(8)) return {NumElements(shape)};
    return result;
  }

  Expr Movement(const Expr& x) {
    const int64_t rank = x.rank();
    Ints dims(x.shape().begin(), x.shape().end());
    const int64_t axis = AnyAxis(x);
    switch (Below(15)) {
      case 0:
      case 1:
      case 2:
        return Make(Op::kReshape, {x}, OtherDims(x.shape()));
      case 3: {
        for (int64_t& dim : dims) {
          if (dim == 1) dim = Pick(kSizes);
        }
        return Make(Op::kExpand, {x}, dims);
      }
      case 4:
      case 5: {
        std::iota(dims.begin(), dims.end(), 0);
        std::shuffle(dims.begin(), dims.end(), random_);
        return Make(Op::kPermute, {x}, dims);
      }
      case 6:
      case 7: {
        Ints pairs;
        for (int64_t i = 0; i < rank; ++i) {
          pairs.push_back(OneIn(2) ? 0 : Below(4));
          pairs.push_back(OneIn(2) ? 0 : Below(4));
        }
        return Make(Op::kPad, {x}, pairs);
      }
      case 8: {
        Ints pairs;
        for (const int64_t dim : dims) {
          const int64_t begin = OneIn(2) ? 0 : Below(dim + 1);
          pairs.push_back(begin);
          pairs.push_back(OneIn(2) ? dim : begin + Below(dim - begin + 1));
        }
        return Make(Op::kShrink, {x}, pairs);
      }
      case 9:
        return Make(Op::kFlip, {x}, SomeAxes(x));
      case 10: {
        if (rank == 0) return x;
        const Window window = {1 + Below(4), 1 + Below(3), 1 + Below(2)};
        return Windows(x, axis, window);
      }
      case 11: {
        if (rank < 2) return x;
        const int64_t along = (axis + 1 + Below(rank - 1)) % rank;
        const int64_t stride = 1 + Below(3), dilation = 1 + Below(2);
        const int64_t size = (dims[static_cast<size_t>(axis)] - 1) * stride +
                             (dims[static_cast<size_t>(along)] - 1) * dilation + 1 + Below(3);
        return Make(Op::kUnslide, {x}, {axis, along, stride, dilation, std::max<int64_t>(size, 0)});
      }
      case 12: {
        if (rank == 0) return x;
        if (OneIn(2)) return Roll(x, 1 + Below(5), axis);
        return SliceAxis(x, axis, {.step = OneIn(2) ? -1 - Below(2) : 2 + Below(2)});
      }
      case 13: {
        if (rank == 0) return x;
        const Expr y = Any();
        if (y.rank() == rank) return Cat(std::vector<Expr>{x, y}, axis);
        return Cat(std::vector<Expr>{x, Partner(x.dtype(), x.shape())}, axis);
      }
      default: {
        if (rank >= 2 && OneIn(2)) return OneIn(2) ? Tril(x, Below(3) - 1) : Triu(x, Below(3) - 1);
        const Ints times = {1 + Below(3)};
        return rank == 0 ? x : OneIn(2) ? Repeat(x, times) : RepeatInterleave(x, 2, axis);
      }
    }
  }

  Expr Reduction() {
    Expr x = Any();
    const Ints axes = SomeAxes(x);
    switch (Below(10)) {
      case 0:
        return Sum(x, Axes(absl::Span<const int64_t>(axes)), OneIn(2) ? kKeepDims : kDropDims);
      case 1:
        return Max(x, Axes(absl::Span<const int64_t>(axes)));
      case 2:
        return OneIn(2) ? Any_(x, axes) : Mean(x, Axes(absl::Span<const int64_t>(axes)));
      case 3:
        return x.rank() == 0 ? x : OneIn(2) ? ArgMax(x, AnyAxis(x)) : ArgMin(x, AnyAxis(x));
      case 4:
        return Var(x, Axes(absl::Span<const int64_t>(axes)));
      default: {
        Ints ints = {Below(4)};
        ints.insert(ints.end(), axes.begin(), axes.end());
        return Make(Op::kReduce, {x}, ints);
      }
    }
  }

  Expr Any_(const Expr& x, const Ints& axes) {
    return OneIn(2) ? tensord::Any(x, Axes(absl::Span<const int64_t>(axes)))
                    : All(x, Axes(absl::Span<const int64_t>(axes)));
  }

  // What uses a value and its reduction.
  Expr Diamond() {
    const Expr x = OneIn(3) ? Any() : AnyWith(IsFloat);
    if (!x.ok() || x.rank() == 0) return x;
    const int64_t axis = OneIn(2) ? x.rank() - 1 : AnyAxis(x);
    switch (Below(10)) {
      case 8: {
        if (x.rank() < 2) return x;
        const BatchNormResult norm = BatchNormTrain(x, std::nullopt, std::nullopt);
        return OneIn(3) ? norm.mean : OneIn(2) ? norm.unbiased_var : norm.y;
      }
      case 9:
        if (x.rank() < 3) return x;
        return ScaledDotProductAttention(x, OneIn(2) ? x : x * 0.5, x, {.is_causal = OneIn(2)});
      case 0:
        return Softmax(x, axis);
      case 1:
        return LogSoftmax(x, axis);
      case 2:
        return LayerNorm(x);
      case 3:
        return RmsNorm(x);
      case 4:
        return LogSumExp(x, axis);
      case 5:
        return OneIn(2) ? CumSum(x, axis) : CumProd(x, axis);
      case 6:
        if (x.rank() == 0) return x;
        return Make(Op::kScan, {x}, {Below(IsFloat(x.dtype()) ? 5 : 4), axis, Below(2), Below(2)});
      case 7: {
        if (x.rank() == 0 || NumElements(x.shape()) == 0) return x;
        // Rows, or an index for each element.
        Ints updates(x.shape().begin(), x.shape().end()), where = updates;
        updates[axis] = where[axis] = 1 + Below(2 * updates[axis]);
        if (OneIn(2)) std::fill(where.begin() + axis + 1, where.end(), 1);
        if (OneIn(2)) std::fill(where.begin(), where.begin() + axis, 1);
        return Make(Op::kScatter,
                    {x, Partner(OneIn(4) ? kInt64 : kInt32, where), Partner(x.dtype(), updates)},
                    {IsFloat8(x.dtype()) ? 4 : Below(5), axis});  // no more where it is lacking
      }
      default: {
        Ints ints = {Below(4)};
        const Ints axes = SomeAxes(x);
        ints.insert(ints.end(), axes.begin(), axes.end());
        const Expr reduced = Make(Op::kReduce, {x}, ints);
        const Expr back = Make(Op::kExpand, {reduced}, Ints(x.shape().begin(), x.shape().end()));
        if (x.dtype() == kBool) return Make(Op::kXor, {x, back});
        return OneIn(2) ? Make(Op::kSub, {x, back}) : Make(Op::kMul, {x, back});
      }
    }
  }

  Expr Product() {
    const Expr x = OneIn(3) ? Any() : AnyWith(IsFloat);
    if (!x.ok() || x.rank() == 0) return x;
    const int64_t inner = x.shape()[static_cast<size_t>(x.rank() - 1)];
    switch (Below(6)) {
      case 0:
      case 1: {
        const int64_t n = Pick(kSizes);
        return OneIn(2) ? MatMul(x, Leaf(x.dtype(), {inner, n}))
                        : MatMul(x, Transpose(Leaf(x.dtype(), {n, inner}), 0, 1));
      }
      case 2:
        return x.rank() < 2 ? x : MatMul(x, Transpose(x, -1, -2));
      case 3: {
        if (x.rank() < 3 || x.rank() > 4) return x;
        Ints weight = {Pick(kSizes), x.shape()[1]};
        for (int64_t i = 2; i < x.rank(); ++i) weight.push_back(1 + Below(3));
        const int64_t stride[] = {1 + Below(2)}, dilation[] = {1 + Below(2)};
        const PadAmount padding[] = {{Below(2), Below(3)}};
        return Conv(x, Leaf(x.dtype(), weight), std::nullopt,
                    {.stride = stride, .dilation = dilation, .padding = padding});
      }
      case 4: {
        if (x.rank() < 3) return x;
        const int64_t kernel[] = {1 + Below(3), 1 + Below(3)};
        const absl::Span<const int64_t> taps(kernel, x.rank() == 3 ? 1 : 2);
        if (OneIn(2)) return MaxPool(x, {.kernel = taps});
        return AvgPool(x, {.kernel = taps, .ceil_mode = OneIn(2)});
      }
      default: {
        const Expr y = Partner(x.dtype(), x.shape());
        return Sum(x * y, Axes({AnyAxis(x)}));
      }
    }
  }

  Expr Indexed() {
    const Expr table = Any();
    if (table.rank() == 0) return table;
    switch (Below(4)) {
      case 0:
      case 1: {
        const Expr index =
            OneIn(2) ? AnyWith(IsInt) : Leaf(Pick({kInt32, kInt64, kUint8}), AnyShape());
        return !index.ok() || !IsInt(index.dtype()) ? table : Embedding(table, index);
      }
      case 2: {
        const int64_t axis = AnyAxis(table);
        return GatherAlong(table, axis, Partner(kInt32, table.shape()));
      }
      default:
        return IndexAlong(table, AnyAxis(table), OneIn(2) ? kInt32 : kFloat32);
    }
  }

  Expr Composite() {
    const Expr x = AnyWith(IsFloat);
    if (!x.ok() || NumElements(x.shape()) > 2000) return x;
    if (OneIn(3)) return Square(Contiguous(x)) + Neg(x);
    const Expr y = OneIn(2) ? Any() : x;
    if (!y.ok() || !IsFloat(y.dtype()) || NumElements(y.shape()) > 2000) return x;
    return Gradient(Sum(y), std::vector<Expr>{Any()})[0];
  }

  // A loop of one of the three kinds around some steps that use its states and what is outside.
  // What they make is of no use after it.
  void AddLoop() {
    constexpr int kMostDepth = 2;
    constexpr int64_t kMostElements = 400;  // the oracle computes each iteration
    if (loops_around_ == kMostDepth) return;
    std::vector<Expr> initial;
    for (int tries = 1 + Below(4); tries > 0; --tries) {
      const Expr x = Any();
      if (NumElements(x.shape()) <= kMostElements) initial.push_back(x);
    }
    const std::vector<const Node*> around = pool_;
    const int64_t most_elements = max_elements_;
    ++loops_around_;
    max_elements_ = std::min(max_elements_, kMostElements);
    const std::vector<Expr> results = AnyLoop(initial);
    --loops_around_;
    max_elements_ = most_elements;
    pool_ = around;
    for (const Expr& result : results) Add(result);
  }

  std::vector<Expr> AnyLoop(absl::Span<const Expr> initial) {
    using Exprs = absl::Span<const Expr>;
    const int64_t count = Below(5);
    switch (initial.empty() ? 2 : Below(3)) {
      case 0:
        return ForLoop(count, initial, [&](const Expr& i, Exprs states) {
          pool_.push_back(i.node());
          return LoopBody(states);
        });
      case 1:
        return WhileLoop(
            initial,
            [&](Exprs states) {
              const Expr x = states[static_cast<size_t>(Below(std::ssize(states)))];
              const Axes all;
              if (OneIn(3)) return OneIn(2) ? tensord::Any(x, all) : All(x, all);
              return Lt(OneIn(2) ? Sum(x) : Sum(Cast(x, kInt32)), Number(Below(40)));
            },
            [&](Exprs states) { return LoopBody(states); }, count);
      default: {
        std::vector<Expr> xs;
        for (int i = Below(3); i > 0; --i) {
          Ints shape = AnyShape();
          shape.insert(shape.begin(), count);
          xs.push_back(Partner(AnyDType(), shape));
        }
        Scanned result = ScanLoop(
            count, initial, xs,
            [&](const Expr& i, Exprs states, Exprs rows) {
              pool_.push_back(i.node());
              for (const Expr& row : rows) pool_.push_back(row.node());
              ScanStep step;
              step.next = LoopBody(states);
              for (int outs = Below(3); outs > 0; --outs) step.out.push_back(Any());
              return step;
            },
            OneIn(2));
        result.states.insert(result.states.end(), result.stacked.begin(), result.stacked.end());
        return result.states;
      }
    }
  }

  // What the states become.
  std::vector<Expr> LoopBody(absl::Span<const Expr> states) {
    for (const Expr& state : states) pool_.push_back(state.node());
    for (int steps = 1 + Below(6); steps > 0; --steps) AnyStep();
    std::vector<Expr> next;
    for (const Expr& state : states) {
      constexpr Op kOps[] = {Op::kAdd, Op::kMul, Op::kMax, Op::kMin};
      const Expr value = Partner(state.dtype(), state.shape());
      next.push_back(OneIn(8) ? state : OneIn(2) ? value : Make(Pick(kOps), {state, value}));
    }
    return next;
  }

  // The same value by an op that the smart constructor would have left out.
  const Node* Unchanged(Graph& graph, const Node* x) {
    Ints ints(x->shape.begin(), x->shape.end());
    Op op = Op::kReshape;
    switch (Below(6)) {
      case 0:
        op = Op::kExpand;
        break;
      case 1:
        op = Op::kPermute;
        std::iota(ints.begin(), ints.end(), 0);
        break;
      case 2:
        op = Op::kPad;
        ints.assign(2 * ints.size(), 0);
        break;
      case 3:
        op = Op::kFlip;
        ints.clear();
        break;
      case 4:
        op = Op::kDetach;
        ints.clear();
        break;
      default:
        break;
    }
    return graph.Intern({.op = op, .src = {x}, .ints = ints});
  }

  void ChooseOutputs() {
    const int count = 1 + (OneIn(2) ? 0 : Below(4));
    std::vector<const Node*> outputs;
    outputs.push_back(pool_.back());
    for (int i = 1; i < count; ++i) outputs.push_back(Any().node());
    std::vector<const Node*> params;
    for (const Node* node : TopologicalOrder(outputs)) {
      if (node->op == Op::kParam) params.push_back(node);
    }
    std::vector<int64_t> overwrites(outputs.size(), Program::kFresh);
    if (OneIn(3)) {
      for (const Node* param : params) {
        if (OneIn(3)) continue;
        const Node* value = Partner(param->dtype, param->shape).node();
        outputs.push_back(value);
        overwrites.push_back(param->slot());
      }
    } else {
      for (size_t i = 0; i < outputs.size(); ++i) {
        for (const Node* param : params) {
          const bool taken =
              std::find(overwrites.begin(), overwrites.end(), param->slot()) != overwrites.end();
          if (!taken && param->dtype == outputs[i]->dtype && param->shape == outputs[i]->shape &&
              overwrites[i] == Program::kFresh && OneIn(2)) {
            overwrites[i] = param->slot();
          }
        }
      }
    }
    // As a client would send it: without weak types.
    Graph strong;
    outputs = CopyStrong(strong, outputs);
    // Slots without gaps, in the order of first use.
    Graph graph;
    std::vector<const Node*> order = TopologicalOrder(outputs);
    absl::flat_hash_map<const Node*, const Node*> to;
    absl::flat_hash_map<int64_t, int64_t> slots;
    for (const Node* node : order) {
      if (node->op == Op::kParam) {
        const int64_t slot = static_cast<int64_t>(slots.size());
        slots[node->slot()] = slot;
        to[node] = graph.Param(slot, node->dtype, node->shape);
        continue;
      }
      std::vector<const Node*> src;
      for (const Node* s : node->src) src.push_back(to.at(s));
      to[node] = graph.Intern({.op = node->op,
                               .src = src,
                               .ints = node->ints,
                               .text = node->text,
                               .dtype = node->dtype});
      const bool is_part_of_loop = In(node->op, OpBit(Op::kCarry) | OpBit(Op::kLoop));
      if (!is_part_of_loop && OneIn(15)) to[node] = Unchanged(graph, to[node]);
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      test_.outputs.push_back(to.at(outputs[i]));
      test_.overwrites.push_back(overwrites[i] == Program::kFresh ? Program::kFresh
                                                                  : slots.at(overwrites[i]));
    }
    test_.graph = std::move(graph);
  }

  std::mt19937_64 random_;
  const uint64_t seed_;
  const CaseKind kind_;
  Case test_;
  DType main_dtype_ = kFloat32;
  int64_t max_elements_ = 3000;
  int64_t params_ = 0;
  int loops_around_ = 0;
  std::vector<const Node*> pool_;
  std::vector<const Node*> variables_;
};

}  // namespace

Case Generate(uint64_t seed, CaseKind kind) { return Generator(seed, kind).Run(); }

}  // namespace tensord
