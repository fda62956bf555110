#include "core/ir/op.h"

#include <array>

namespace tensord {
namespace {

constexpr uint8_t T = kTensorLevel, K = kKernelLevel, L = kLinearLevel;
constexpr int kAny = kAnySources;

constexpr std::array<OpInfo, kNumOps> Table() {
#define OP(name, sources, attribute, dtype, levels) \
  OpInfo{#name, sources, AttrKind::attribute, DTypeRule::dtype, levels},
  return {{
#include "core/ir/ops.inc"
  }};
#undef OP
}
constexpr std::array<OpInfo, kNumOps> kTable = Table();

// The ops from `first` to `last` in the table's order.
constexpr OpSet Between(Op first, Op last) {
  OpSet set;
  for (int i = static_cast<int>(first); i <= static_cast<int>(last); ++i) {
    set |= OpBit(static_cast<Op>(i));
  }
  return set;
}

constexpr std::string_view kReduceNames[] = {"add", "mul", "max", "min"};
constexpr std::string_view kScanNames[] = {"add", "mul", "max", "min", "logadd"};
constexpr std::string_view kScatterNames[] = {"add", "mul", "max", "min", "set"};
constexpr std::string_view kExchangeNames[] = {"gather", "swap", "shift"};
constexpr std::string_view kRangeNames[] = {"loop", "reduce", "grid", "unroll", "vector"};

}  // namespace

const OpInfo& Info(Op op) { return kTable[static_cast<int>(op)]; }

std::optional<Op> OpFromName(std::string_view name) {
  for (int i = 0; i < kNumOps; ++i) {
    if (kTable[i].name == name) return static_cast<Op>(i);
  }
  return std::nullopt;
}

std::string_view Name(ReduceKind kind) { return kReduceNames[static_cast<int>(kind)]; }
std::string_view Name(ScanKind kind) { return kScanNames[static_cast<int>(kind)]; }
std::string_view Name(ScatterKind kind) { return kScatterNames[static_cast<int>(kind)]; }
std::string_view Name(RangeKind kind) { return kRangeNames[static_cast<int>(kind)]; }
std::string_view Name(ExchangeKind kind) { return kExchangeNames[static_cast<int>(kind)]; }

OpSet UnaryOps() { return Between(Op::kCast, Op::kTrunc); }
OpSet BinaryOps() { return Between(Op::kAdd, Op::kCmpNe); }
OpSet ElementwiseOps() { return Between(Op::kCast, Op::kFma); }
OpSet MovementOps() { return Between(Op::kReshape, Op::kUnslide); }
OpSet CommutativeOps() {
  return OpBit(Op::kAdd) | OpBit(Op::kMul) | OpBit(Op::kMax) | OpBit(Op::kMin) | OpBit(Op::kAnd) |
         OpBit(Op::kOr) | OpBit(Op::kXor) | OpBit(Op::kCmpEq) | OpBit(Op::kCmpNe);
}

Op CombineOp(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::kAdd:
      return Op::kAdd;
    case ReduceKind::kMul:
      return Op::kMul;
    case ReduceKind::kMax:
      return Op::kMax;
    case ReduceKind::kMin:
      return Op::kMin;
  }
  return Op::kAdd;  // not reached: the enumeration is complete
}

}  // namespace tensord
