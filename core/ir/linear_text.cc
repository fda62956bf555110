#include "core/ir/linear_text.h"

#include <absl/container/flat_hash_set.h>
#include <absl/strings/numbers.h>

#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/ir/text.h"

namespace tensord {
namespace {

constexpr std::string_view kMagic = "# linear ";

// The number that follows `name=` in the header.
absl::StatusOr<int64_t> Field(std::string_view header, std::string_view name) {
  const size_t at = header.find(fmt::format(" {}=", name));
  int64_t value = 0;
  if (at != std::string_view::npos) {
    const std::string_view rest = header.substr(at + name.size() + 2);
    const std::string_view digits = rest.substr(0, rest.find(' '));
    if (absl::SimpleAtoi(absl::string_view(digits.data(), digits.size()), &value) && value >= 0) {
      return value;
    }
  }
  return InvalidArgument("linear program: its header has no number '{}'", name);
}

}  // namespace

std::string PrintLinear(const LinearProgram& program) {
  std::string text;
  absl::flat_hash_set<const Node*> printed;
  const auto print = [&](const Node* node) {
    if (printed.insert(node).second) text += PrintNode(node) + "\n";
  };
  std::vector<const Node*> roots = program.params;
  roots.insert(roots.end(), program.variables.begin(), program.variables.end());
  roots.insert(roots.end(), program.body.begin(), program.body.end());
  for (const Node* root : roots) {
    for (const Node* src : root->src) print(src);  // leaves need not stand in the body
    print(root);
  }
  std::string written;
  for (size_t i = 0; i < program.written.size(); ++i) {
    if (program.written[i]) written += fmt::format(" written={}", i);
  }
  text = fmt::format("{}{} grid={} params={} variables={}{}\n{}return", kMagic, program.name,
                     program.grid, program.params.size(), program.variables.size(), written, text);
  for (const Node* root : roots) text += fmt::format(" %{}", root->id);
  return text + "\n";
}

absl::StatusOr<LinearProgram> ParseLinear(std::string_view text, Graph& graph) {
  const std::string_view header = text.substr(0, text.find('\n'));
  if (header.substr(0, kMagic.size()) != kMagic) {
    return InvalidArgument("no linear program: it doesn't begin with '{}'", kMagic);
  }
  LinearProgram program;
  const std::string_view name = header.substr(kMagic.size());
  program.name = name.substr(0, name.find(' '));
  TD_ASSIGN_OR_RETURN(program.grid, Field(header, "grid"));
  TD_ASSIGN_OR_RETURN(const int64_t params, Field(header, "params"));
  TD_ASSIGN_OR_RETURN(const int64_t variables, Field(header, "variables"));
  TD_ASSIGN_OR_RETURN(const std::vector<const Node*> roots, Parse(text, graph));
  const auto count = static_cast<int64_t>(roots.size());
  if (params > count || variables > count - params) {
    return InvalidArgument("linear program: {} nodes are fewer than {} params and {} variables",
                           count, params, variables);
  }
  auto next = roots.begin();
  program.params.assign(next, next + params);
  program.variables.assign(next + params, next + params + variables);
  program.body.assign(next + params + variables, roots.end());
  for (int64_t slot = 0; slot < params; ++slot) {
    const Node* param = program.params[static_cast<size_t>(slot)];
    if (param->op != Op::kParam || param->slot() != slot) {
      return InvalidArgument("linear program: {} is not param {}", PrintNode(param), slot);
    }
    const std::string field = fmt::format("written={}", slot);
    const size_t at = header.find(" " + field);
    const size_t end = at == std::string_view::npos ? at : at + 1 + field.size();
    program.written.push_back(end != std::string_view::npos &&
                              (end == header.size() || header[end] == ' '));
  }
  for (const Node* variable : program.variables) {
    if (variable->op != Op::kVariable) {
      return InvalidArgument("linear program: {} is no variable", PrintNode(variable));
    }
  }
  return program;
}

}  // namespace tensord
