#include "server/console/log_ring.h"

#include <absl/time/clock.h>

#include <algorithm>
#include <utility>

#include "core/base/text.h"

namespace tensord {
void LogRing::log(const spdlog::details::log_msg& message) {
  const auto view = [](spdlog::string_view_t text) {
    return std::string_view(text.data(), text.size());
  };
  Line line{.time = absl::FromChrono(message.time),
            .level = std::string(view(spdlog::level::to_string_view(message.level))),
            .logger = Utf8(Prefix(view(message.logger_name), kMaxLineBytes)),
            .text = Utf8(Prefix(view(message.payload), kMaxLineBytes))};
  absl::MutexLock lock(&mu_);
  line.number = ++number_;
  lines_.push_back(std::move(line));
  if (lines_.size() > kMaxLines) lines_.pop_front();
}

std::vector<LogRing::Line> LogRing::After(uint64_t number) const {
  absl::MutexLock lock(&mu_);
  const auto begin =
      std::upper_bound(lines_.begin(), lines_.end(), number,
                       [](uint64_t wanted, const Line& line) { return wanted < line.number; });
  return {begin, lines_.end()};
}

}  // namespace tensord
