#include "core/ir/user_kernel.h"

#include <fmt/format.h>

namespace tensord::user_kernel {

std::optional<std::vector<Output>> OutputsOf(absl::Span<const int64_t> ints) {
  std::vector<Output> outputs;
  while (!ints.empty()) {
    if (ints.size() < 2 || ints[0] <= 0 || ints[0] >= kNumDTypes || ints[1] < 0 ||
        ints[1] > static_cast<int64_t>(ints.size()) - 2) {
      return std::nullopt;
    }
    const auto rank = static_cast<size_t>(ints[1]);
    outputs.push_back({static_cast<DType>(ints[0]), ints.subspan(2, rank)});
    ints.remove_prefix(2 + rank);
  }
  return outputs;
}

std::vector<Output> OutputsOf(const Node* call) { return *OutputsOf(call->ints); }

std::vector<int64_t> IntsOf(absl::Span<const Output> outputs) {
  std::vector<int64_t> ints;
  for (const Output& output : outputs) {
    ints.push_back(static_cast<int64_t>(output.dtype));
    ints.push_back(static_cast<int64_t>(output.dims.size()));
    ints.insert(ints.end(), output.dims.begin(), output.dims.end());
  }
  return ints;
}

std::string_view NameOf(const Node* call) { return call->text.substr(0, call->text.find('\n')); }

std::string_view BodyOf(const Node* call) {
  const size_t end = call->text.find('\n');
  return end == std::string_view::npos ? std::string_view() : call->text.substr(end + 1);
}

std::string TextOf(std::string_view name, std::string_view body) {
  return fmt::format("{}\n{}", name, body);
}

}  // namespace tensord::user_kernel
