#include "core/render/llvm.h"

#include <absl/container/flat_hash_map.h>
#include <absl/container/inlined_vector.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/base/status.h"
#include "core/render/llvm_ops.h"

namespace tensord {
namespace llvm_ir {
namespace {

// What a gated load reads instead of a place that it must not touch.
constexpr int kZeroBytes = 512;
constexpr int kMaxLanes = kZeroBytes / 8;
// The lists of other buffers grow with the square of the buffers: a kernel with more goes without.
constexpr int kMaxScopes = 64;

bool IsIdentifier(std::string_view name) {
  auto is_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !name.empty() && (name[0] < '0' || name[0] > '9') &&
         std::all_of(name.begin(), name.end(), is_word);
}

class Renderer {
 public:
  Renderer(const LinearProgram& program, const Target& target)
      : program_(program), target_(target), e_(target.has_fma), ops_(e_, target) {}

  absl::StatusOr<std::string> Render() {
    TD_RETURN_IF_ERROR(Arguments());
    for (const Node* node : program_.body) {
      TD_RETURN_IF_ERROR(Emit(node), "kernel '{}', node {} {}", program_.name, node->id,
                         Name(node->op));
    }
    if (!loops_.empty()) {
      return InvalidArgument("kernel '{}': the loop of range {} is not closed", program_.name,
                             loops_.back().range->range_id());
    }
    return Text();
  }

 private:
  struct Loop {
    const Node* range;
    std::string latch;  // empty when the loop has one turn and therefore no blocks
    std::string head, exit;
  };
  using Function = absl::StatusOr<Value> (Renderer::*)(const Node*);
  struct Row {
    Op op;
    Function function;
  };
  static const Row kRows[];

  absl::Status Arguments();
  absl::Status Emit(const Node* node);
  absl::StatusOr<Value> ValueOf(const Node* node);

  absl::StatusOr<Value> Leaf(const Node* node);
  absl::StatusOr<Value> Elementwise(const Node* node);
  absl::StatusOr<Value> Load(const Node* node);
  absl::StatusOr<Value> Store(const Node* node);
  absl::StatusOr<Value> Range(const Node* node);
  absl::StatusOr<Value> End(const Node* node);
  absl::StatusOr<Value> GridIndex(const Node* node);
  absl::StatusOr<Value> Accumulator(const Node* node);
  absl::StatusOr<Value> Update(const Node* node);
  absl::StatusOr<Value> Read(const Node* node);
  absl::StatusOr<Value> Broadcast(const Node* node);
  absl::StatusOr<Value> Ramp(const Node* node);
  absl::StatusOr<Value> Stack(const Node* node);
  absl::StatusOr<Value> Extract(const Node* node);
  absl::StatusOr<Value> Horizontal(const Node* node);

  // A load or store's place: a pointer, or one per lane where the index is a vector.
  absl::StatusOr<Value> Address(const Node* access);
  // What LLVM may assume of an access: other buffers are other memory, some are never written.
  std::string MemoryFacts(const Node* access);
  std::string Text();

  const LinearProgram& program_;
  const Target& target_;
  Emitter e_;
  Ops ops_;
  absl::flat_hash_map<const Node*, Value> values_;
  absl::flat_hash_map<const Node*, std::string> accumulators_;  // their memory
  std::vector<Loop> loops_;
};

// Everything that isn't elementwise. An op without a result returns an empty value.
// clang-format off
const Renderer::Row Renderer::kRows[] = {
    {Op::kConst,       &Renderer::Leaf},
    {Op::kParam,       &Renderer::Leaf},
    {Op::kVariable,    &Renderer::Leaf},
    {Op::kRange,       &Renderer::Range},
    {Op::kEnd,         &Renderer::End},
    {Op::kLoad,        &Renderer::Load},
    {Op::kStore,       &Renderer::Store},
    {Op::kGridIndex,   &Renderer::GridIndex},
    {Op::kAccumulator, &Renderer::Accumulator},
    {Op::kUpdate,      &Renderer::Update},
    {Op::kRead,        &Renderer::Read},
    {Op::kBroadcast,   &Renderer::Broadcast},
    {Op::kRamp,        &Renderer::Ramp},
    {Op::kStack,       &Renderer::Stack},
    {Op::kExtract,     &Renderer::Extract},
    {Op::kHorizontal,  &Renderer::Horizontal},
};
// clang-format on

absl::Status Renderer::Arguments() {
  if (!IsIdentifier(program_.name)) {
    return InvalidArgument("kernel '{}': the name is not a C identifier", program_.name);
  }
  for (size_t i = 0; i < program_.params.size(); ++i) {
    const Node* param = program_.params[i];
    if (IsFloat8(param->dtype)) {
      return InvalidArgument("kernel '{}': parameter {} is {}, for which LLVM has no instructions",
                             program_.name, i, Name(param->dtype));
    }
    Value pointer{fmt::format("%p{}", i), {Scalar::kPtr}};
    e_.Line("{}.at = getelementptr ptr, ptr %buffers, i64 {}", pointer.text, i);
    e_.Line("{0} = load ptr, ptr {0}.at, !invariant.load !1", pointer.text);
    values_.emplace(param, std::move(pointer));
  }
  e_.Global("!1", "!1 = !{}");
  for (size_t i = 0; i < program_.variables.size(); ++i) {
    const Node* variable = program_.variables[i];
    Value value{fmt::format("%n{}", i), {Scalar::kI64}};
    e_.Line("{}.at = getelementptr i64, ptr %variables, i64 {}", value.text, i);
    e_.Line("{0} = load i64, ptr {0}.at, !invariant.load !1", value.text);
    const Scalar scalar = RegisterType(variable->dtype);
    if (Bits(scalar) < 64) value = e_.Convert("trunc", value, scalar);
    values_.emplace(variable, std::move(value));
  }
  return absl::OkStatus();
}

absl::Status Renderer::Emit(const Node* node) {
  if (IsFloat8(node->dtype)) {
    return InvalidArgument("LLVM has no instructions for {}", Name(node->dtype));
  }
  if (node->lanes > kMaxLanes) {
    return InvalidArgument("{} lanes, at most {} are supported", node->lanes, kMaxLanes);
  }
  Function function = In(node->op, ElementwiseOps()) ? &Renderer::Elementwise : nullptr;
  for (const Row& row : kRows) {
    if (row.op == node->op) function = row.function;
  }
  if (function == nullptr) return InvalidArgument("the op is not one of a linear program");
  TD_ASSIGN_OR_RETURN(Value value, (this->*function)(node));
  if (!value.text.empty()) values_.insert_or_assign(node, std::move(value));
  return absl::OkStatus();
}

absl::StatusOr<Value> Renderer::ValueOf(const Node* node) {
  if (node->IsConst()) return ops_.Constant(node->dtype, node->lanes, node->ints[0]);
  if (auto found = values_.find(node); found != values_.end()) return found->second;
  return InvalidArgument("operand {} {} does not stand before it", node->id, Name(node->op));
}

absl::StatusOr<Value> Renderer::Leaf(const Node* node) { return ValueOf(node); }

absl::StatusOr<Value> Renderer::Elementwise(const Node* node) {
  absl::InlinedVector<Value, 3> src;
  for (const Node* source : node->src) {
    TD_ASSIGN_OR_RETURN(Value value, ValueOf(source));
    const bool scalar_condition = node->op == Op::kWhere && src.empty();
    if (value.type.lanes != node->lanes && !scalar_condition) {
      if (value.type.lanes != 1) {
        return InvalidArgument("operands have {} and {} lanes", value.type.lanes, node->lanes);
      }
      value = e_.Splat(value, node->lanes);
    }
    src.push_back(std::move(value));
  }
  return ops_.Elementwise(*node, src);
}

absl::StatusOr<Value> Renderer::Address(const Node* access) {
  TD_ASSIGN_OR_RETURN(const Value base, ValueOf(access->src[0]));
  TD_ASSIGN_OR_RETURN(const Value index, ValueOf(access->src[1]));
  if (access->src[0]->op != Op::kParam || index.type.scalar != Scalar::kI64) {
    return InvalidArgument("needs a Param and an index");
  }
  return e_.Raw(
      index.type.With(Scalar::kPtr),
      fmt::format("getelementptr inbounds {}, {}, {}",
                  llvm_ir::Text({MemoryType(access->src[0]->dtype)}), base.Typed(), index.Typed()));
}

// Metadata numbers: 0 branch weights, 1 the empty node, 2 the domain, then per slot: its scope, the
// list of that scope, the list of all others.
std::string Renderer::MemoryFacts(const Node* access) {
  const int count = static_cast<int>(program_.params.size());
  const int slot = static_cast<int>(access->src[0]->slot());
  const std::string_view read_only = program_.written[slot] ? "" : ", !invariant.load !1";
  if (count > kMaxScopes) return std::string(read_only);
  const int scope = 3 + 3 * slot;
  if (!e_.globals().contains(fmt::format("!{}", scope + 1))) {
    std::string others;
    for (int i = 0; i < count; ++i) {
      const std::string name = fmt::format("!{}", 3 + 3 * i);
      e_.Global(name, fmt::format("{} = distinct !{{{}, !2}}", name, name));
      if (i != slot) others += (others.empty() ? "" : ", ") + name;
    }
    e_.Global("!2", "!2 = distinct !{!2}");
    e_.Global(fmt::format("!{}", scope + 1), fmt::format("!{} = !{{!{}}}", scope + 1, scope));
    e_.Global(fmt::format("!{}", scope + 2), fmt::format("!{} = !{{{}}}", scope + 2, others));
  }
  return fmt::format(", !alias.scope !{}, !noalias !{}{}", scope + 1, scope + 2, read_only);
}

absl::StatusOr<Value> Renderer::Load(const Node* node) {
  TD_ASSIGN_OR_RETURN(Value pointer, Address(node));
  const DType dtype = node->src[0]->dtype;
  const Type type{MemoryType(dtype), node->lanes};
  const int align = ItemSize(dtype);
  const bool gather = pointer.type.lanes > 1;
  Value gate;
  if (node->src.size() > 2) {
    TD_ASSIGN_OR_RETURN(gate, ValueOf(node->src[2]));
  }
  if (gather && pointer.type.lanes != node->lanes) {
    return InvalidArgument("{} lanes at {} indices", node->lanes, pointer.type.lanes);
  }

  Value loaded;
  if (gather || gate.type.lanes > 1) {
    const Type mask_type = type.With(Scalar::kI1);
    const Value mask = gate.text.empty()      ? e_.Int(mask_type, 1)
                       : gate.type.lanes == 1 ? e_.Splat(gate, node->lanes)
                                              : gate;
    loaded = e_.Intrinsic(gather ? "masked.gather" : "masked.load", type,
                          {pointer, e_.Int({Scalar::kI32}, align), mask, e_.Zero(type)},
                          {type, pointer.type}, MemoryFacts(node));
  } else {
    if (!gate.text.empty()) {
      e_.Global("@td.zero", fmt::format("@td.zero = private unnamed_addr constant [{} x i8] "
                                        "zeroinitializer, align 64",
                                        kZeroBytes));
      pointer = e_.Select(gate, pointer, {"@td.zero", pointer.type});
    }
    loaded = e_.Raw(type, fmt::format("load {}, {}, align {}{}", llvm_ir::Text(type),
                                      pointer.Typed(), align, MemoryFacts(node)));
  }
  // Any byte but 0 is true: memory may come from anywhere.
  return dtype == DType::kBool ? e_.Compare("icmp ne", loaded, e_.Zero(type)) : loaded;
}

absl::StatusOr<Value> Renderer::Store(const Node* node) {
  TD_ASSIGN_OR_RETURN(const Value pointer, Address(node));
  TD_ASSIGN_OR_RETURN(Value value, ValueOf(node->src[2]));
  Value gate;
  if (node->src.size() > 3) {
    TD_ASSIGN_OR_RETURN(gate, ValueOf(node->src[3]));
  }
  const DType dtype = node->src[0]->dtype;
  if (node->src[2]->dtype != dtype) {
    return InvalidArgument("a value of {} into a buffer of {}", Name(node->src[2]->dtype),
                           Name(dtype));
  }
  const int lanes = std::max({value.type.lanes, pointer.type.lanes, gate.type.lanes});
  const bool scatter = pointer.type.lanes > 1;
  if (value.type.lanes == 1) value = e_.Splat(value, lanes);
  if (scatter && pointer.type.lanes != lanes) {
    return InvalidArgument("{} lanes at {} indices", lanes, pointer.type.lanes);
  }
  if (dtype == DType::kBool) value = e_.Convert("zext", value, Scalar::kI8);
  const int align = ItemSize(dtype);

  if (scatter || gate.type.lanes > 1) {
    const Type mask_type = value.type.With(Scalar::kI1);
    const Value mask = gate.text.empty()      ? e_.Int(mask_type, 1)
                       : gate.type.lanes == 1 ? e_.Splat(gate, lanes)
                                              : gate;
    e_.VoidIntrinsic(scatter ? "masked.scatter" : "masked.store",
                     {value, pointer, e_.Int({Scalar::kI32}, align), mask},
                     {value.type, pointer.type}, MemoryFacts(node));
    return Value{};
  }
  const std::string skip = e_.NewLabel("skip");
  if (!gate.text.empty()) {
    const std::string store = e_.NewLabel("store");
    e_.Line("br {}, label %{}, label %{}", gate.Typed(), store, skip);
    e_.StartBlock(store);
  }
  e_.Line("store {}, {}, align {}{}", value.Typed(), pointer.Typed(), align, MemoryFacts(node));
  if (!gate.text.empty()) e_.FallInto(skip);
  return Value{};
}

absl::StatusOr<Value> Renderer::Range(const Node* node) {
  const Type type{Scalar::kI64};
  Loop loop{.range = node};
  if (node->range_size() == 1 && !node->is_bounded()) {
    loops_.push_back(loop);
    return e_.Int(type, 0);
  }
  loop.head = e_.NewLabel("loop");
  loop.latch = e_.NewLabel("latch");
  loop.exit = e_.NewLabel("exit");
  const std::string from = e_.block();
  if (node->is_bounded()) {
    // There may be no turn at all.
    TD_ASSIGN_OR_RETURN(const Value bound, ValueOf(node->src[0]));
    const Value enters = e_.Compare("icmp sgt", bound, e_.Zero(type));
    e_.Line("br {}, label %{}, label %{}", enters.Typed(), loop.head, loop.exit);
    e_.StartBlock(loop.head);
  } else {
    e_.FallInto(loop.head);
  }
  const Value index{fmt::format("%{}.i", loop.head), type};
  e_.Line("{} = phi i64 [ 0, %{} ], [ {}.next, %{} ]", index.text, from, index.text, loop.latch);
  loops_.push_back(std::move(loop));
  return index;
}

absl::StatusOr<Value> Renderer::End(const Node* node) {
  if (loops_.empty() || loops_.back().range != node->src[0]) {
    return InvalidArgument("it does not close the innermost loop");
  }
  const Loop loop = std::move(loops_.back());
  loops_.pop_back();
  if (loop.latch.empty()) return Value{};
  const std::string index = fmt::format("%{}.i", loop.head);
  e_.FallInto(loop.latch);
  e_.Line("{0}.next = add nuw nsw i64 {0}, 1", index);
  std::string end = fmt::format("{}", loop.range->range_size());
  if (loop.range->is_bounded()) {
    TD_ASSIGN_OR_RETURN(const Value bound, ValueOf(loop.range->src[0]));
    end = bound.text;
  }
  e_.Line("{0}.more = icmp ult i64 {0}.next, {1}", index, end);
  e_.Line("br i1 {}.more, label %{}, label %{}", index, loop.head, loop.exit);
  e_.StartBlock(loop.exit);
  return Value{};
}

absl::StatusOr<Value> Renderer::GridIndex(const Node* node) {
  if (node->slot() != 0) return InvalidArgument("axis {} of a grid with one", node->slot());
  return Value{"%grid_index", {Scalar::kI64}};
}

absl::StatusOr<Value> Renderer::Accumulator(const Node* node) {
  TD_ASSIGN_OR_RETURN(const Value start, ValueOf(node->src[0]));
  auto [memory, inserted] = accumulators_.try_emplace(node);
  if (inserted) memory->second = e_.Alloca(start.type);
  e_.Line("store {}, ptr {}", start.Typed(), memory->second);
  return Value{};
}

absl::StatusOr<Value> Renderer::Update(const Node* node) {
  TD_ASSIGN_OR_RETURN(const Value value, ValueOf(node->src[1]));
  const auto memory = accumulators_.find(node->src[0]);
  if (memory == accumulators_.end() || node->src[0]->lanes != node->src[1]->lanes ||
      node->src[0]->dtype != node->src[1]->dtype) {
    return InvalidArgument("it needs an Accumulator of the value's dtype and lanes before it");
  }
  e_.Line("store {}, ptr {}", value.Typed(), memory->second);
  return Value{};
}

absl::StatusOr<Value> Renderer::Read(const Node* node) {
  const auto memory = accumulators_.find(node->src[0]);
  if (memory == accumulators_.end()) return InvalidArgument("it needs an Accumulator before it");
  const Type type{RegisterType(node->dtype), node->src[0]->lanes};
  return e_.Raw(type, fmt::format("load {}, ptr {}", llvm_ir::Text(type), memory->second));
}

absl::StatusOr<Value> Renderer::Broadcast(const Node* node) {
  TD_ASSIGN_OR_RETURN(const Value scalar, ValueOf(node->src[0]));
  return e_.Splat(scalar, node->lanes);
}

absl::StatusOr<Value> Renderer::Ramp(const Node* node) {
  const Type type{RegisterType(node->dtype), node->lanes};
  if (node->lanes == 1) return e_.Zero(type);
  std::string lanes;
  for (int i = 0; i < node->lanes; ++i) {
    lanes += fmt::format("{}{} {}", i == 0 ? "" : ", ", llvm_ir::Text(type.Lane()), i);
  }
  return Value{fmt::format("<{}>", lanes), type};
}

absl::StatusOr<Value> Renderer::Stack(const Node* node) {
  const Type type{RegisterType(node->dtype), node->lanes};
  if (node->src.empty()) return InvalidArgument("it needs operands");
  if (node->lanes == 1) return ValueOf(node->src[0]);
  Value result{"poison", type};
  for (int i = 0; i < node->lanes; ++i) {
    TD_ASSIGN_OR_RETURN(const Value lane, ValueOf(node->src[i]));
    if (lane.type != type.Lane()) return InvalidArgument("operand {} has another type", i);
    result = e_.Insert(result, lane, i);
  }
  return result;
}

absl::StatusOr<Value> Renderer::Extract(const Node* node) {
  TD_ASSIGN_OR_RETURN(const Value vector, ValueOf(node->src[0]));
  if (node->slot() < 0 || node->slot() >= vector.type.lanes) {
    return InvalidArgument("lane {} of {}", node->slot(), vector.type.lanes);
  }
  return e_.Extract(vector, static_cast<int>(node->slot()));
}

// Halves are combined lane by lane until one lane is left: fewer steps than lane after lane, and an
// order of rounding that is the same on every machine.
absl::StatusOr<Value> Renderer::Horizontal(const Node* node) {
  TD_ASSIGN_OR_RETURN(Value value, ValueOf(node->src[0]));
  const Op combine = CombineOp(node->reduce_kind());
  while (value.type.lanes > 1) {
    const int half = value.type.lanes / 2;
    std::vector<int> lanes(half);
    auto take = [&](int first) {
      std::iota(lanes.begin(), lanes.end(), first);
      return half == 1 ? e_.Extract(value, first) : e_.Shuffle(value, lanes);
    };
    const Value low = take(0), high = take(half);
    TD_ASSIGN_OR_RETURN(Value combined, ops_.Binary(combine, node->dtype, low, high));
    if (value.type.lanes % 2 != 0) {
      // The odd lane out joins the first.
      TD_ASSIGN_OR_RETURN(
          const Value first,
          ops_.Binary(combine, node->dtype, e_.Extract(combined, 0), e_.Extract(value, 2 * half)));
      combined = half == 1 ? first : e_.Insert(combined, first, 0);
    }
    value = std::move(combined);
  }
  return value;
}

std::string Renderer::Text() {
  e_.Line("ret void");
  std::string text = fmt::format(
      "define void @{}(ptr noalias nocapture readonly %buffers, "
      "ptr noalias nocapture readonly %variables, i64 %grid_index) #0 {{\nentry:\n{}{}}}\n\n",
      program_.name, e_.allocas(), e_.body());
  // No promise of wide vectors would make LLVM split those that codegen chose.
  text += fmt::format("attributes #0 = {{ nounwind \"prefer-vector-width\"=\"{}\" }}\n",
                      8 * target_.vector_bytes);
  for (const auto& [name, global] : e_.globals()) text += global + "\n";
  return text;
}

}  // namespace
}  // namespace llvm_ir

absl::StatusOr<std::string> RenderLlvm(const LinearProgram& program, const Target& target) {
  return llvm_ir::Renderer(program, target).Render();
}

}  // namespace tensord
