#include "backends/interp/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "core/ir/text.h"

namespace tensord::interp {
namespace {

// More than a person would read.
constexpr int kMaxDepth = 12;
constexpr size_t kMaxLength = 600;

std::string_view Infix(Op op) {
  switch (op) {
    // clang-format off
    case Op::kAdd: return "+";
    case Op::kSub: return "-";
    case Op::kMul: return "*";
    case Op::kDiv: return "/";
    case Op::kFloorDiv: return "//";
    case Op::kFloorMod: return "%";
    case Op::kAnd: return "&";
    case Op::kOr: return "|";
    case Op::kXor: return "^";
    case Op::kShl: return "<<";
    case Op::kShr: return ">>";
    case Op::kCmpLt: return "<";
    case Op::kCmpEq: return "==";
    case Op::kCmpNe: return "!=";
    default: return "";
      // clang-format on
  }
}

std::string Text(const Scalar& value) {
  return IsFloat(value.dtype) ? fmt::format("{}", value.f) : fmt::format("{}", value.i);
}

class Writer {
 public:
  // The expression; outside of a sum or product in parentheses.
  std::string Expression(const Node* node, int depth = 0) {
    if (depth > kMaxDepth) return "...";
    switch (node->op) {
      case Op::kConst:
        return Text(Scalar::FromAttribute(node->dtype, node->ints[0]));
      case Op::kVariable:
        Leaf(node);
        return std::string(node->text);
      case Op::kRange:
        Leaf(node);
        return fmt::format("r{}", node->range_id());
      case Op::kGridIndex:
        Leaf(node);
        return "workgroup";
      case Op::kLoad:
        Leaf(node);
        return fmt::format("buffer{}[{}]", node->src[0]->slot(),
                           Expression(node->src[1], depth + 1));
      case Op::kRead:
        Leaf(node);
        return fmt::format("accumulator{}", node->src[0]->slot());
      case Op::kBroadcast:
        return Expression(node->src[0], depth);
      case Op::kRamp:
        return "lane";
      default:
        break;
    }
    if (const std::string_view infix = Infix(node->op); !infix.empty()) {
      const std::string left = Expression(node->src[0], depth + 1);
      return fmt::format("({} {} {})", left, infix, Expression(node->src[1], depth + 1));
    }
    std::string text = fmt::format("{}(", Name(node->op));
    for (const Node* src : node->src) {
      text += fmt::format("{}{}", src == node->src[0] ? "" : ", ", Expression(src, depth + 1));
      if (text.size() > kMaxLength) break;
    }
    return text + ")";
  }

  const std::vector<const Node*>& leaves() const { return leaves_; }

 private:
  void Leaf(const Node* node) {
    if (std::find(leaves_.begin(), leaves_.end(), node) == leaves_.end()) leaves_.push_back(node);
  }
  std::vector<const Node*> leaves_;
};

}  // namespace

std::string Explain(const Node* node,
                    const std::function<std::optional<Scalar>(const Node*)>& value_of) {
  std::string text = PrintNode(node);
  Writer writer;
  const auto part = [&](std::string_view name, const Node* source) {
    std::string expression = writer.Expression(source);
    if (expression.size() > kMaxLength) expression = expression.substr(0, kMaxLength) + "...";
    text += fmt::format("; {} = {}", name, expression);
  };
  if (node->op == Op::kLoad || node->op == Op::kStore) {
    const size_t gate = node->op == Op::kLoad ? 2 : 3;
    part("index", node->src[1]);
    if (node->src.size() > gate) part("gate", node->src[gate]);
    if (node->op == Op::kStore) part("value", node->src[2]);
  } else {
    part("value", node);
  }
  std::string_view separator = ", where ";
  for (const Node* leaf : writer.leaves()) {
    const std::optional<Scalar> value = value_of(leaf);
    if (!value) continue;
    text += fmt::format("{}{}={}", separator, Writer().Expression(leaf), Text(*value));
    separator = ", ";
    if (text.size() > 3 * kMaxLength) break;
  }
  return text;
}

}  // namespace tensord::interp
