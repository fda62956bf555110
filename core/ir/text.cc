#include "core/ir/text.h"

#include <absl/container/flat_hash_map.h>
#include <absl/container/inlined_vector.h>
#include <absl/strings/ascii.h>

#include <charconv>
#include <optional>

#include "core/base/status.h"
#include "core/ir/dims.h"
#include "core/ir/eval.h"
#include "core/ir/infer.h"
#include "core/ir/user_kernel.h"

namespace tensord {
namespace {

using Numbers = absl::flat_hash_map<const Node*, size_t>;

constexpr std::string_view kSlideFields[] = {"axis", "along", "stride", "dilation", "size"};

// ---- Printing ----

std::string Quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += {'\\', c};
    } else if (c == '\n') {
      result += "\\n";
    } else if (c < ' ' || c > '~') {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      result += c;
    }
  }
  return result + '"';
}

std::string ValueText(DType dtype, int64_t attribute) {
  if (IsFloat(dtype)) return fmt::format("{}", Scalar::FromAttribute(dtype, attribute).f);
  if (dtype == DType::kBool) return attribute != 0 ? "true" : "false";
  if (dtype == DType::kUint64) return fmt::format("{}", static_cast<uint64_t>(attribute));
  return fmt::format("{}", attribute);
}

std::string ListText(std::string_view name, absl::Span<const int64_t> values) {
  return values.empty() ? "" : fmt::format(" {}={}", name, fmt::join(values, ","));
}

std::string AttributeText(const Node& node) {
  const absl::Span<const int64_t> ints = node.ints;
  switch (Info(node.op).attr) {
    case AttrKind::kNone:
    case AttrKind::kShape:
      return "";
    case AttrKind::kValue:
      return " " + ValueText(node.dtype, ints[0]);
    case AttrKind::kAxes:
      return ListText("axes", ints);
    case AttrKind::kPairs: {
      std::string text;
      for (size_t i = 0; i + 1 < ints.size(); i += 2) {
        const auto number = [&](int64_t value) {
          return value == kSymbolic ? "?" : fmt::format("{}", value);
        };
        text +=
            fmt::format("{}{}:{}", i == 0 ? " pairs=" : ",", number(ints[i]), number(ints[i + 1]));
      }
      return text;
    }
    case AttrKind::kSlide: {
      std::string text;
      for (size_t i = 0; i < ints.size(); ++i) {
        text += fmt::format(" {}={}", kSlideFields[i], ints[i]);
      }
      return text;
    }
    case AttrKind::kReduce:
      return fmt::format(" {}{}", Name(node.reduce_kind()), ListText("axes", node.reduce_axes()));
    case AttrKind::kFold:
      return fmt::format(" {}", Name(node.reduce_kind()));
    case AttrKind::kScan:
      return fmt::format(" {} axis={} reverse={} exclusive={}", Name(node.scan_kind()), ints[1],
                         ints[2], ints[3]);
    case AttrKind::kRunning:
      return fmt::format(" {} exclusive={}", Name(node.scan_kind()), ints[1]);
    case AttrKind::kScatter:
      return fmt::format(" {} axis={}", Name(node.scatter_kind()), ints[1]);
    case AttrKind::kModify:
      return fmt::format(" {}", Name(node.scatter_kind()));
    case AttrKind::kVariable:
      return fmt::format(" {} min={} max={}", Quoted(node.text), ints[0], ints[1]);
    case AttrKind::kRange:
      return fmt::format(" id={} size={} {}", ints[0], ints[1], Name(node.range_kind()));
    case AttrKind::kParam:
    case AttrKind::kSlot:
      return fmt::format(" slot={}", ints[0]);
    case AttrKind::kCarry:
      return fmt::format(" level={} number={}", ints[0], ints[1]);
    case AttrKind::kLoop:
      return fmt::format(" level={} most={}", ints[0], ints[1]);
    case AttrKind::kExchange:
      return fmt::format(" {} devices={} shift={}", Name(node.exchange_kind()), ints[1], ints[2]);
    case AttrKind::kPlace:
      return ListText("places", ints);
    case AttrKind::kUserKernel: {
      std::string text;
      for (const user_kernel::Output& output : user_kernel::OutputsOf(&node)) {
        text += fmt::format("{}{}[{}]", text.empty() ? " outputs=" : ",", Name(output.dtype),
                            fmt::join(output.dims, ","));
      }
      return text + " " + Quoted(node.text);
    }
  }
  return "";
}

template <typename NumberOf>
std::string Line(const Node& node, NumberOf number_of) {
  std::string line = fmt::format("%{} = {}", number_of(&node), Name(node.op));
  if (node.dtype != DType::kVoid) line += fmt::format(" {}", Name(node.dtype));
  if (node.lanes != 1) line += fmt::format("x{}", node.lanes);
  if (!node.shape.empty()) {
    std::string dims;
    for (const Dim& dim : ShapeOf(&node)) dims += (dims.empty() ? "" : ",") + TextOf(dim);
    line += " [" + dims + "]";
  }
  for (const Node* src : node.src) line += fmt::format(" %{}", number_of(src));
  return line + AttributeText(node);
}

// ---- Parsing ----

constexpr size_t kMaxSources = 1 << 16;

// Reads one line; remembers where it stands for the error message.
class Cursor {
 public:
  Cursor(std::string_view line, int number) : line_(line), number_(number) {}

  void SkipSpaces() {
    while (at_ < line_.size() && (line_[at_] == ' ' || line_[at_] == '\t' || line_[at_] == '\r')) {
      ++at_;
    }
  }
  bool AtEnd() {
    SkipSpaces();
    return at_ == line_.size() || line_[at_] == '#';
  }
  // Takes `c` if it comes next.
  bool Take(char c) {
    if (at_ == line_.size() || line_[at_] != c) return false;
    ++at_;
    return true;
  }
  char Peek() const { return at_ < line_.size() ? line_[at_] : '\0'; }

  // The letters, digits and underscores that come next.
  std::string_view Word() {
    const size_t begin = at_;
    while (at_ < line_.size() && (absl::ascii_isalnum(line_[at_]) || line_[at_] == '_')) ++at_;
    return line_.substr(begin, at_ - begin);
  }
  // What comes next up to a comma or closing bracket of the list that it stands in.
  std::string_view Expression() {
    const size_t begin = at_;
    for (int depth = 0; at_ < line_.size(); ++at_) {
      const char c = line_[at_];
      if (depth == 0 && (c == ',' || c == ']')) break;
      depth += (c == '(') - (c == ')');
    }
    std::string_view text = line_.substr(begin, at_ - begin);
    while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
    return text;
  }
  // Whether the next word is followed by '=': the name of a field.
  bool AtField() const {
    Cursor ahead = *this;
    return !ahead.Word().empty() && ahead.Peek() == '=';
  }

  template <typename T>
  std::optional<T> Number() {
    T value = {};
    const auto [end, error] =
        std::from_chars(line_.data() + at_, line_.data() + line_.size(), value);
    if (error != std::errc()) return std::nullopt;
    at_ = static_cast<size_t>(end - line_.data());
    return value;
  }

  template <typename... Args>
  absl::Status Error(fmt::format_string<Args...> format, Args&&... args) const {
    return InvalidArgument("line {}, column {}: {}", number_, at_ + 1,
                           fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  std::string_view line_;
  int number_;
  size_t at_ = 0;
};

// What stands on a line of a node, before the op gives it a meaning.
struct Fields {
  DType dtype = DType::kVoid;
  uint16_t lanes = 1;
  std::vector<int64_t> shape;      // kSymbolic where the size is an expression
  std::vector<std::string> sizes;  // as written
  absl::InlinedVector<const Node*, 4> src;
};

class Parser {
 public:
  explicit Parser(Graph& graph) : graph_(graph) {}

  absl::StatusOr<std::vector<const Node*>> Run(std::string_view text) {
    for (int number = 1; !text.empty() || number == 1; ++number) {
      const size_t length = text.find('\n');
      Cursor cursor(text.substr(0, length), number);
      TD_RETURN_IF_ERROR(ParseLine(cursor));
      if (length == std::string_view::npos) break;
      text.remove_prefix(length + 1);
    }
    if (!returned_) return InvalidArgument("no 'return' line names the roots");
    return std::move(roots_);
  }

 private:
  absl::Status ParseLine(Cursor& cursor) {
    if (cursor.AtEnd()) return absl::OkStatus();
    if (returned_) return cursor.Error("nothing may follow 'return'");
    if (cursor.Peek() != '%') return ParseReturn(cursor);
    cursor.Take('%');
    const std::optional<uint32_t> number = cursor.Number<uint32_t>();
    if (!number) return cursor.Error("expected a node's number after '%'");
    if (nodes_.contains(*number)) return cursor.Error("%{} is defined twice", *number);
    cursor.SkipSpaces();
    if (!cursor.Take('=')) return cursor.Error("expected '=' after %{}", *number);
    cursor.SkipSpaces();
    TD_ASSIGN_OR_RETURN(const Node* node, ParseNode(cursor));
    nodes_[*number] = node;
    return absl::OkStatus();
  }

  absl::Status ParseReturn(Cursor& cursor) {
    const Cursor start = cursor;
    if (cursor.Word() != "return") return start.Error("expected '%number = ...' or 'return ...'");
    returned_ = true;
    while (!cursor.AtEnd()) {
      TD_ASSIGN_OR_RETURN(const Node* root, ParseReference(cursor));
      roots_.push_back(root);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<const Node*> ParseReference(Cursor& cursor) {
    const Cursor start = cursor;
    if (!cursor.Take('%')) return cursor.Error("expected a node such as %0");
    const std::optional<uint32_t> number = cursor.Number<uint32_t>();
    if (!number) return cursor.Error("expected a node's number after '%'");
    const auto found = nodes_.find(*number);
    if (found == nodes_.end()) return start.Error("%{} is not defined before this line", *number);
    return found->second;
  }

  absl::StatusOr<const Node*> ParseNode(Cursor& cursor) {
    const Cursor start = cursor;
    const std::string_view name = cursor.Word();
    const std::optional<Op> op = OpFromName(name);
    if (!op) return start.Error("unknown op '{}'", name);
    Fields fields;
    TD_RETURN_IF_ERROR(ParseType(cursor, *op, fields));
    TD_RETURN_IF_ERROR(ParseShape(cursor, fields));
    for (cursor.SkipSpaces(); cursor.Peek() == '%'; cursor.SkipSpaces()) {
      if (fields.src.size() == kMaxSources) return cursor.Error("too many sources");
      TD_ASSIGN_OR_RETURN(const Node* src, ParseReference(cursor));
      fields.src.push_back(src);
    }
    std::vector<int64_t> ints;
    std::string text;
    TD_RETURN_IF_ERROR(ParseAttribute(cursor, *op, fields, ints, text));
    if (!cursor.AtEnd()) return cursor.Error("unexpected text after the node");

    const bool declares_lanes = *op == Op::kLoad || *op == Op::kBroadcast || *op == Op::kRamp;
    const NodeSpec spec = {.op = *op,
                           .src = fields.src,
                           .ints = ints,
                           .text = text,
                           .dtype = fields.dtype,
                           .lanes = declares_lanes ? fields.lanes : uint16_t{0}};
    Inferred inferred;
    if (absl::Status status = Infer(graph_, spec, inferred); !status.ok()) {
      return start.Error("{}", Message(status));
    }
    if (fields.dtype != inferred.dtype || fields.lanes != inferred.lanes) {
      return start.Error("{}: written as {}x{}, but it is {}x{}", name, Name(fields.dtype),
                         fields.lanes, Name(inferred.dtype), inferred.lanes);
    }
    const Node* node = graph_.Intern(spec);
    std::vector<std::string> sizes;
    for (const Dim& dim : ShapeOf(node)) sizes.push_back(TextOf(dim));
    if (fields.sizes != sizes) {
      return start.Error("{}: written with shape [{}], but it is [{}]", name,
                         fmt::join(fields.sizes, ","), fmt::join(sizes, ","));
    }
    return node;
  }

  // "float32" or "float32x16"; absent for ops without a value.
  absl::Status ParseType(Cursor& cursor, Op op, Fields& fields) {
    cursor.SkipSpaces();
    if (Info(op).dtype == DTypeRule::kVoid) return absl::OkStatus();
    const Cursor start = cursor;
    std::string_view word = cursor.Word();
    std::optional<DType> dtype = DTypeFromName(word);
    if (const size_t x = word.rfind('x'); !dtype && x != std::string_view::npos) {
      dtype = DTypeFromName(word.substr(0, x));
      const std::string_view digits = word.substr(x + 1);
      const auto [end, error] =
          std::from_chars(digits.data(), digits.data() + digits.size(), fields.lanes);
      if (error != std::errc() || end != digits.data() + digits.size() || fields.lanes == 0) {
        return start.Error("expected lanes in 1 ... 65535 after 'x' in '{}'", word);
      }
    }
    if (!dtype) return start.Error("unknown dtype '{}'", word);
    fields.dtype = *dtype;
    return absl::OkStatus();
  }

  absl::Status ParseShape(Cursor& cursor, Fields& fields) {
    cursor.SkipSpaces();
    if (!cursor.Take('[')) return absl::OkStatus();
    cursor.SkipSpaces();
    if (cursor.Take(']')) return absl::OkStatus();
    do {
      cursor.SkipSpaces();
      const Cursor start = cursor;
      const std::optional<int64_t> number = cursor.Number<int64_t>();
      cursor.SkipSpaces();
      if (number && std::string_view("+-*/%").find(cursor.Peek()) == std::string_view::npos) {
        fields.shape.push_back(*number);
        fields.sizes.push_back(fmt::format("{}", *number));
        continue;
      }
      cursor = start;
      fields.shape.push_back(kSymbolic);
      fields.sizes.emplace_back(cursor.Expression());
      if (fields.sizes.back().empty()) return cursor.Error("expected a size");
    } while (cursor.Take(','));
    if (!cursor.Take(']')) return cursor.Error("expected ',' or ']' in the shape");
    return absl::OkStatus();
  }

  absl::Status ParseAttribute(Cursor& cursor, Op op, const Fields& fields,
                              std::vector<int64_t>& ints, std::string& text) {
    switch (Info(op).attr) {
      case AttrKind::kNone:
        return absl::OkStatus();
      case AttrKind::kShape:
        ints = fields.shape;
        return absl::OkStatus();
      case AttrKind::kValue:
        return ParseValue(cursor, fields.dtype, ints);
      case AttrKind::kAxes:
        return ParseList(cursor, "axes", ints);
      case AttrKind::kPairs:
        return ParsePairs(cursor, ints);
      case AttrKind::kSlide:
        for (std::string_view field : kSlideFields) {
          TD_RETURN_IF_ERROR(ParseField(cursor, field, ints));
        }
        return absl::OkStatus();
      case AttrKind::kReduce:
        TD_RETURN_IF_ERROR(ParseKind<ReduceKind>(cursor, 4, "kind of reduction", ints));
        return ParseList(cursor, "axes", ints);
      case AttrKind::kFold:
        return ParseKind<ReduceKind>(cursor, 4, "kind of reduction", ints);
      case AttrKind::kScan:
        TD_RETURN_IF_ERROR(ParseKind<ScanKind>(cursor, 5, "kind of scan", ints));
        TD_RETURN_IF_ERROR(ParseField(cursor, "axis", ints));
        TD_RETURN_IF_ERROR(ParseField(cursor, "reverse", ints));
        return ParseField(cursor, "exclusive", ints);
      case AttrKind::kRunning:
        TD_RETURN_IF_ERROR(ParseKind<ScanKind>(cursor, 5, "kind of scan", ints));
        return ParseField(cursor, "exclusive", ints);
      case AttrKind::kScatter:
        TD_RETURN_IF_ERROR(ParseKind<ScatterKind>(cursor, 5, "kind of scatter", ints));
        return ParseField(cursor, "axis", ints);
      case AttrKind::kModify:
        return ParseKind<ScatterKind>(cursor, 5, "kind of scatter", ints);
      case AttrKind::kVariable:
        TD_RETURN_IF_ERROR(ParseQuoted(cursor, text));
        TD_RETURN_IF_ERROR(ParseField(cursor, "min", ints));
        return ParseField(cursor, "max", ints);
      case AttrKind::kRange:
        TD_RETURN_IF_ERROR(ParseField(cursor, "id", ints));
        TD_RETURN_IF_ERROR(ParseField(cursor, "size", ints));
        return ParseKind<RangeKind>(cursor, 5, "kind of range", ints);
      case AttrKind::kParam:
        TD_RETURN_IF_ERROR(ParseField(cursor, "slot", ints));
        ints.insert(ints.end(), fields.shape.begin(), fields.shape.end());
        return absl::OkStatus();
      case AttrKind::kSlot:
        return ParseField(cursor, "slot", ints);
      case AttrKind::kCarry:
        TD_RETURN_IF_ERROR(ParseField(cursor, "level", ints));
        return ParseField(cursor, "number", ints);
      case AttrKind::kLoop:
        TD_RETURN_IF_ERROR(ParseField(cursor, "level", ints));
        return ParseField(cursor, "most", ints);
      case AttrKind::kExchange:
        TD_RETURN_IF_ERROR(ParseKind<ExchangeKind>(cursor, 3, "kind of exchange", ints));
        TD_RETURN_IF_ERROR(ParseField(cursor, "devices", ints));
        return ParseField(cursor, "shift", ints);
      case AttrKind::kPlace:
        return ParseList(cursor, "places", ints);
      case AttrKind::kUserKernel:
        TD_RETURN_IF_ERROR(ParseOutputs(cursor, ints));
        return ParseQuoted(cursor, text);
    }
    return absl::OkStatus();
  }

  absl::Status ParseValue(Cursor& cursor, DType dtype, std::vector<int64_t>& ints) {
    cursor.SkipSpaces();
    const Cursor start = cursor;
    if (dtype == DType::kBool) {
      const std::string_view word = cursor.Word();
      if (word != "true" && word != "false") return start.Error("expected true or false");
      ints.push_back(word == "true");
    } else if (IsFloat(dtype)) {
      const std::optional<double> value = cursor.Number<double>();
      if (!value) return cursor.Error("expected a number");
      ints.push_back(Scalar::Float(dtype, *value).attribute());
    } else if (dtype == DType::kUint64) {
      const std::optional<uint64_t> value = cursor.Number<uint64_t>();
      if (!value) return cursor.Error("expected an integer in 0 ... 2^64-1");
      ints.push_back(static_cast<int64_t>(*value));
    } else {
      const std::optional<int64_t> value = cursor.Number<int64_t>();
      if (!value || WrapTo(dtype, *value) != *value) {
        return start.Error("expected an integer that {} can hold", Name(dtype));
      }
      ints.push_back(*value);
    }
    return absl::OkStatus();
  }

  absl::Status ParseField(Cursor& cursor, std::string_view name, std::vector<int64_t>& ints) {
    cursor.SkipSpaces();
    const Cursor start = cursor;
    if (cursor.Word() != name || !cursor.Take('=')) return start.Error("expected '{}='", name);
    const std::optional<int64_t> value = cursor.Number<int64_t>();
    if (!value) return cursor.Error("expected an integer after '{}='", name);
    ints.push_back(*value);
    return absl::OkStatus();
  }

  // name=1,2,3; absent when empty.
  absl::Status ParseList(Cursor& cursor, std::string_view name, std::vector<int64_t>& ints) {
    cursor.SkipSpaces();
    if (!cursor.AtField()) return absl::OkStatus();
    TD_RETURN_IF_ERROR(ParseField(cursor, name, ints));
    while (cursor.Take(',')) {
      const std::optional<int64_t> value = cursor.Number<int64_t>();
      if (!value) return cursor.Error("expected an integer after ','");
      ints.push_back(*value);
    }
    return absl::OkStatus();
  }

  // pairs=1:2,0:0; absent when empty.
  absl::Status ParsePairs(Cursor& cursor, std::vector<int64_t>& ints) {
    cursor.SkipSpaces();
    if (!cursor.AtField()) return absl::OkStatus();
    const Cursor start = cursor;
    if (cursor.Word() != "pairs" || !cursor.Take('=')) return start.Error("expected 'pairs='");
    const auto number = [&] {
      return cursor.Take('?') ? std::optional(kSymbolic) : cursor.Number<int64_t>();
    };
    do {
      const std::optional<int64_t> first = number();
      if (!first || !cursor.Take(':')) return cursor.Error("expected a pair such as 1:2");
      const std::optional<int64_t> second = number();
      if (!second) return cursor.Error("expected an integer after ':'");
      ints.push_back(*first);
      ints.push_back(*second);
    } while (cursor.Take(','));
    return absl::OkStatus();
  }

  // outputs=float32[2,3],int32[]
  absl::Status ParseOutputs(Cursor& cursor, std::vector<int64_t>& ints) {
    cursor.SkipSpaces();
    const Cursor start = cursor;
    if (cursor.Word() != "outputs" || !cursor.Take('=')) return start.Error("expected 'outputs='");
    do {
      const std::optional<DType> dtype = DTypeFromName(cursor.Word());
      if (!dtype || cursor.Peek() != '[') return cursor.Error("expected an output: float32[2,3]");
      Fields fields;
      TD_RETURN_IF_ERROR(ParseShape(cursor, fields));
      ints.push_back(static_cast<int64_t>(*dtype));
      ints.push_back(static_cast<int64_t>(fields.shape.size()));
      ints.insert(ints.end(), fields.shape.begin(), fields.shape.end());
    } while (cursor.Take(','));
    return absl::OkStatus();
  }

  template <typename Kind>
  absl::Status ParseKind(Cursor& cursor, int count, std::string_view what,
                         std::vector<int64_t>& ints) {
    cursor.SkipSpaces();
    const Cursor start = cursor;
    const std::string_view word = cursor.Word();
    for (int i = 0; i < count; ++i) {
      if (Name(static_cast<Kind>(i)) != word) continue;
      ints.push_back(i);
      return absl::OkStatus();
    }
    return start.Error("'{}' is no {}", word, what);
  }

  absl::Status ParseQuoted(Cursor& cursor, std::string& text) {
    cursor.SkipSpaces();
    if (!cursor.Take('"')) return cursor.Error("expected a name in quotes");
    while (!cursor.Take('"')) {
      char c = cursor.Peek();
      if (c == '\0') return cursor.Error("the name has no closing quote");
      cursor.Take(c);
      if (c == '\\') {
        c = cursor.Peek();
        cursor.Take(c);
        if (c == 'x') {
          TD_ASSIGN_OR_RETURN(c, ParseHex(cursor));
        } else if (c == 'n') {
          c = '\n';
        } else if (c != '"' && c != '\\') {
          return cursor.Error("unknown escape in the name");
        }
      }
      text += c;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<char> ParseHex(Cursor& cursor) {
    int value = 0;
    for (int i = 0; i < 2; ++i) {
      const char c = cursor.Peek();
      if (!absl::ascii_isxdigit(c)) return cursor.Error("expected two hexadecimal digits");
      cursor.Take(c);
      value = value * 16 + (absl::ascii_isdigit(c) ? c - '0' : absl::ascii_tolower(c) - 'a' + 10);
    }
    return static_cast<char>(value);
  }

  Graph& graph_;
  absl::flat_hash_map<uint32_t, const Node*> nodes_;
  std::vector<const Node*> roots_;
  bool returned_ = false;
};

}  // namespace

std::string Print(absl::Span<const Node* const> roots) {
  Numbers numbers;
  std::string text;
  for (const Node* node : TopologicalOrder(roots)) {
    numbers.emplace(node, numbers.size());
    text += Line(*node, [&](const Node* n) { return numbers.at(n); }) + "\n";
  }
  text += "return";
  for (const Node* root : roots) text += fmt::format(" %{}", numbers.at(root));
  return text + "\n";
}

std::string PrintList(absl::Span<const Node* const> nodes) {
  std::string text;
  for (const Node* node : nodes) text += PrintNode(node) + "\n";
  return text;
}

std::string PrintNode(const Node* node) {
  return Line(*node, [](const Node* n) { return n->id; });
}

absl::StatusOr<std::vector<const Node*>> Parse(std::string_view text, Graph& graph) {
  return Parser(graph).Run(text);
}

}  // namespace tensord
