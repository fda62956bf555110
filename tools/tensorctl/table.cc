#include "tools/tensorctl/table.h"

#include <absl/time/time.h>
#include <fmt/format.h>

#include <algorithm>

#include "core/base/text.h"

namespace tensord {

std::string FormatTable(std::vector<std::vector<std::string>> rows) {
  std::vector<size_t> widths;
  for (auto& row : rows) {
    // Names of clients and publications are anything.
    for (std::string& cell : row) cell = OneLine(cell);
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      const bool last = i + 1 == row.size();
      text += last ? row[i] : fmt::format("{:<{}}", row[i], widths[i] + 2);
    }
    text += '\n';
  }
  return text;
}

std::string FormatPairs(const std::vector<std::pair<std::string, std::string>>& pairs) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, value] : pairs) rows.push_back({name, value});
  return FormatTable(rows);
}

std::string FormatBytes(uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  auto value = static_cast<double>(bytes);
  const char* unit = "B";
  for (const char* larger : {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}) {
    if (value < 1024) break;
    value /= 1024;
    unit = larger;
  }
  return fmt::format("{:.1f} {}", value, unit);
}

std::string FormatAge(uint64_t ms) {
  return absl::FormatDuration(
      absl::Trunc(absl::Milliseconds(ms), ms < 10'000 ? absl::Milliseconds(1) : absl::Seconds(1)));
}

}  // namespace tensord
