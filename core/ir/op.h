// The ops, as an enum and a table of their properties, both generated from ops.inc.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/ir/op_set.h"

namespace tensord {

enum class Op : uint8_t {
#define OP(name, ...) k##name,
#include "core/ir/ops.inc"
#undef OP
};

inline constexpr int kNumOps = 0
#define OP(...) +1
#include "core/ir/ops.inc"
#undef OP
    ;
static_assert(kNumOps <= 128, "OpSet has room for so many");

inline constexpr OpSet OpBit(Op op) { return OpSet::Of(static_cast<int>(op)); }

// The three levels of the IR, as bits. A graph is at one of them; each has a spec (rules/spec.h).
enum Level : uint8_t { kTensorLevel = 1, kKernelLevel = 2, kLinearLevel = 4 };

enum class AttrKind : uint8_t {
  kNone,
  kValue,     // ints = {bits}: int64, or bit_cast of a double when the dtype is a float
  kShape,     // ints = dims
  kAxes,      // ints = axes
  kPairs,     // ints = two per axis
  kSlide,     // ints = axis, along, stride, dilation, size
  kReduce,    // ints = ReduceKind, axes...
  kParam,     // ints = slot, dims...
  kVariable,  // text = name, ints = min, max
  kRange,     // ints = id, size, RangeKind
  kFold,      // ints = ReduceKind
  kScan,      // ints = ScanKind, axis, reverse, exclusive
  kRunning,   // ints = ScanKind, exclusive
  kScatter,   // ints = ScatterKind, axis
  kModify,    // ints = ScatterKind
  kSlot,      // ints = one number
  kCarry,     // ints = level, number
  kLoop,      // ints = level, most iterations
  kExchange,  // ints = ExchangeKind, number of devices, shift
  kPlace,     // ints = two placements
  kUserKernel,  // ints = dtype, rank, dims... of each output; text = name, line break, body
};

enum class DTypeRule : uint8_t {
  kDeclared,  // given when the node is made
  kSame,      // all sources have one dtype, and it is the result's
  kFirst,     // the first source's
  kSecond,    // the second source's
  kBool,      // bool; the sources have one dtype
  kIndex,     // index
  kVoid,      // none
};

enum class ReduceKind : uint8_t { kAdd = 0, kMul = 1, kMax = 2, kMin = 3 };
// What a scan adds up with; the first four are those of a reduction. kLogAdd: log(exp(a) + exp(b)).
enum class ScanKind : uint8_t { kAdd = 0, kMul = 1, kMax = 2, kMin = 3, kLogAdd = 4 };
// How a scattered value meets what is there; the first four are those of a reduction. kSet: the
// last one stays.
enum class ScatterKind : uint8_t { kAdd = 0, kMul = 1, kMax = 2, kMin = 3, kSet = 4 };
// How many devices a program may run on.
inline constexpr int64_t kMaxDevices = 64;
// What device d of n gets. kGather: y[p] = x of device p. kSwap: y[p] = x[d] of device p, where x
// has n rows. kShift: y = x of device (d - shift) mod n.
enum class ExchangeKind : uint8_t { kGather = 0, kSwap = 1, kShift = 2 };
enum class RangeKind : uint8_t {
  kLoop = 0,    // counts an axis of an output
  kReduce = 1,  // counts a reduced axis
  kGrid = 2,    // one workgroup per value, run in parallel
  kUnroll = 3,  // replicated, becomes a register tile
  kVector = 4,  // becomes the lanes of vectors
};

struct OpInfo {
  std::string_view name;
  int num_src;  // kAnySources when it varies
  AttrKind attr;
  DTypeRule dtype;
  uint8_t levels;  // Level bits
};
inline constexpr int kAnySources = -1;

const OpInfo& Info(Op op);
inline std::string_view Name(Op op) { return Info(op).name; }
std::optional<Op> OpFromName(std::string_view name);

std::string_view Name(ReduceKind kind);
std::string_view Name(ScanKind kind);
std::string_view Name(ScatterKind kind);
std::string_view Name(RangeKind kind);
std::string_view Name(ExchangeKind kind);

// Sets of ops by what they do.
OpSet UnaryOps();        // Cast, Bitcast, Neg ... Trunc
OpSet BinaryOps();       // Add ... CmpNe
OpSet ElementwiseOps();  // unary, binary, Where, Fma
OpSet MovementOps();     // Reshape ... Unslide
OpSet CommutativeOps();  // Add, Mul, Max, Min, And, Or, Xor, CmpEq, CmpNe
inline bool In(Op op, OpSet set) { return (OpBit(op) & set) != 0; }

// The binary op that combines two partial results of a reduction.
Op CombineOp(ReduceKind kind);

}  // namespace tensord
