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
constexpr uint64_t Between(Op first, Op last) {
  uint64_t set = 0;
  for (int i = static_cast<int>(first); i <= static_cast<int>(last); ++i) {
    set |= OpBit(static_cast<Op>(i));
  }
  return set;
}

constexpr std::string_view kReduceNames[] = {"add", "mul", "max", "min"};
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
std::string_view Name(RangeKind kind) { return kRangeNames[static_cast<int>(kind)]; }

uint64_t UnaryOps() { return Between(Op::kCast, Op::kTrunc); }
uint64_t BinaryOps() { return Between(Op::kAdd, Op::kCmpNe); }
uint64_t ElementwiseOps() { return Between(Op::kCast, Op::kFma); }
uint64_t MovementOps() { return Between(Op::kReshape, Op::kUnslide); }
uint64_t CommutativeOps() {
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
