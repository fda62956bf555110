// What the client library has to say on threads of its own, on its way to Python's logging: a
// thread of the package fetches it line by line, because those threads must not wait for the
// interpreter.
#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "client/python/bind.h"

namespace tensord::python {
namespace {

// Older lines go if nobody fetches them.
constexpr size_t kMaxLines = 1000;

// Thread-safe.
class Lines {
 public:
  void Add(std::string line) {
    absl::MutexLock lock(&mu_);
    if (lines_.size() == kMaxLines) lines_.pop_front();
    lines_.push_back(std::move(line));
  }
  void Stop() {
    absl::MutexLock lock(&mu_);
    stopped_ = true;
  }
  // Waits for one; nothing once all are fetched and it is stopped.
  std::optional<std::string> Next() {
    absl::MutexLock lock(&mu_);
    const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return !lines_.empty() || stopped_;
    };
    mu_.Await(absl::Condition(&ready));
    if (lines_.empty()) return std::nullopt;
    std::string line = std::move(lines_.front());
    lines_.pop_front();
    return line;
  }

 private:
  absl::Mutex mu_;
  std::deque<std::string> lines_ ABSL_GUARDED_BY(mu_);
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
};

Lines& AllLines() {
  static Lines& lines = *new Lines();
  return lines;
}

class Sink final : public spdlog::sinks::base_sink<std::mutex> {
 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    AllLines().Add(std::string(message.payload.begin(), message.payload.end()));
  }
  void flush_() override {}
};

}  // namespace

void BindLog(py::module_& module) {
  // The client library takes a logger of this name if there is one.
  if (!spdlog::get("client")) {
    spdlog::register_logger(std::make_shared<spdlog::logger>("client", std::make_shared<Sink>()));
  }
  module.def(
      "_next_line", [] { return AllLines().Next(); }, py::call_guard<py::gil_scoped_release>());
  module.def("_stop_lines", [] { AllLines().Stop(); });
}

}  // namespace tensord::python
