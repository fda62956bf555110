#include "server/metrics/kernel_times.h"

#include <absl/algorithm/container.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <tuple>

namespace tensord {

void KernelTimes::Add(const std::string& user, const std::string& program, const StepTimes& steps) {
  // Relaxed: who waited for the run sees what it wrote.
  const auto stamp = [](const Signal& signal) {
    return signal.timestamp_ns.load(std::memory_order_relaxed);
  };
  absl::MutexLock lock(&mu_);
  for (size_t i = 0; i < steps.names->size(); ++i) {
    const uint64_t begin = stamp(steps.times[i].begin), end = stamp(steps.times[i].end);
    if (end == 0) continue;  // the run was stopped before
    const std::string& name = (*steps.names)[i];
    const std::vector<std::string>& kernels = (*steps.kernels)[i];
    Key key(user, name + ' ' + absl::StrJoin(kernels, " "));
    auto found = rows_.find(key);
    if (found == rows_.end()) {
      if (rows_.size() >= max_rows_) {
        rows_.erase(uses_.back());
        uses_.pop_back();
      }
      uses_.push_front(key);
      found = rows_.emplace(std::move(key), Entry{}).first;
      found->second.row.user = user;
      found->second.row.name = name;
      found->second.row.kernels = kernels;
      found->second.use = uses_.begin();
    } else {
      uses_.splice(uses_.begin(), uses_, found->second.use);
    }
    Row& row = found->second.row;
    ++row.launches;
    row.device_ns += static_cast<int64_t>(end - std::min(begin, end));
    if (row.programs.size() < kMaxPrograms && !absl::c_linear_search(row.programs, program)) {
      row.programs.push_back(program);
    }
  }
}

std::vector<KernelTimes::Row> KernelTimes::Largest(
    size_t most, const std::function<bool(const std::string&)>& may_see) const {
  std::vector<Row> rows;
  {
    absl::MutexLock lock(&mu_);
    for (const auto& [key, entry] : rows_) {
      if (may_see(entry.row.user)) rows.push_back(entry.row);
    }
  }
  const size_t listed = std::min(most, rows.size());
  std::partial_sort(rows.begin(), rows.begin() + static_cast<ptrdiff_t>(listed), rows.end(),
                    [](const Row& a, const Row& b) {
                      return std::tie(b.device_ns, a.name, a.kernels, a.user) <
                             std::tie(a.device_ns, b.name, b.kernels, b.user);
                    });
  rows.resize(listed);
  return rows;
}

bool KernelTimes::Has(std::string_view kernel,
                      const std::function<bool(const std::string&)>& may_see) const {
  absl::MutexLock lock(&mu_);
  return absl::c_any_of(rows_, [&](const auto& each) {
    const Row& row = each.second.row;
    return absl::c_linear_search(row.kernels, kernel) && may_see(row.user);
  });
}

}  // namespace tensord
