#include "backends/paced/settings.h"

#include <absl/strings/numbers.h>
#include <fmt/format.h>

#include <cmath>
#include <string_view>

#include "core/base/status.h"

namespace tensord::paced {
namespace {

struct Row {
  std::string_view key;
  double Settings::*number;  // null if it is a text
  std::string Settings::*text;
  bool whole = false;  // a number without a fraction
};

constexpr Row kRows[] = {
    {"launch_us", &Settings::launch_us, nullptr},
    {"workgroup_ns", &Settings::workgroup_ns, nullptr},
    {"copy_us", &Settings::copy_us, nullptr},
    {"byte_ns", &Settings::byte_ns, nullptr},
    {"memory_mib", &Settings::memory_mib, nullptr},
    {"fault_launch", &Settings::fault_launch, nullptr, true},
    {"hang_launch", &Settings::hang_launch, nullptr, true},
    {"fault_kernel", nullptr, &Settings::fault_kernel},
    {"hang_kernel", nullptr, &Settings::hang_kernel},
};

// So that no sum of service times leaves 64 bits.
constexpr double kMax = 1e12;

std::string Keys() {
  std::string keys;
  for (const Row& row : kRows) keys += (keys.empty() ? "" : ", ") + std::string(row.key);
  return keys;
}

const Row* Find(std::string_view key) {
  for (const Row& row : kRows) {
    if (row.key == key) return &row;
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<Settings> ParseSettings(const BackendSettings& given) {
  Settings settings;
  for (const auto& [key, value] : given) {
    const Row* row = Find(key);
    if (row == nullptr) return InvalidArgument("no setting '{}'; there are: {}", key, Keys());
    if (row->text != nullptr) {
      settings.*row->text = value;
      continue;
    }
    double& number = settings.*row->number;
    // A comparison that is false for NaN as well.
    if (!absl::SimpleAtod(value, &number) || !(number >= 0 && number <= kMax)) {
      return InvalidArgument("{}={}: takes a number from 0 to {:g}", key, value, kMax);
    }
    if (row->whole && number != std::floor(number)) {
      return InvalidArgument("{}={}: takes the number of a launch, 1, 2, ...; 0 for none", key,
                             value);
    }
  }
  return settings;
}

}  // namespace tensord::paced
