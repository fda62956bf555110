// The last lines of the log, for who watches it: a sink beside the one that writes them.
//
//   auto ring = std::make_shared<LogRing>();     // a sink of spdlog
//   for (const LogRing::Line& line : ring->After(seen)) ...
//
// Thread-safe.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/time.h>
#include <spdlog/sinks/sink.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace tensord {

class LogRing final : public spdlog::sinks::sink {
 public:
  static constexpr size_t kMaxLines = 1000;
  static constexpr size_t kMaxLineBytes = 2048;  // the rest of a line is left out

  struct Line {
    uint64_t number = 0;  // from 1 on
    absl::Time time;
    std::string level, logger, text;  // valid UTF-8
  };

  // Lines after that number, the oldest first.
  std::vector<Line> After(uint64_t number) const;

  void log(const spdlog::details::log_msg& message) override;
  void flush() override {}
  void set_pattern(const std::string&) override {}
  void set_formatter(std::unique_ptr<spdlog::formatter>) override {}

 private:
  mutable absl::Mutex mu_;
  std::deque<Line> lines_ ABSL_GUARDED_BY(mu_);
  uint64_t number_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tensord
