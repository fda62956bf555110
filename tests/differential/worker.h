// Worker: checks cases in a process of its own, so that a case that crashes or hangs the compiler
// is a result like any other.
//
//   Worker worker;                        // before the process has threads
//   std::string problem = worker.Check(PrintCase(test));
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "tests/differential/check.h"

namespace tensord {

class Worker {
 public:
  explicit Worker(CheckOptions options = {}, int timeout_seconds = 120)
      : options_(options), timeout_seconds_(timeout_seconds) {}
  ~Worker() { Stop(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // As tensord::Check on the case that the text describes; "crashed: ..." or "timed out" besides.
  std::string Check(std::string_view text);

 private:
  void Start();
  void Stop();
  std::string LastWords() const;  // the child's last line on stderr
  [[noreturn]] void Serve(int from, int to) const;

  const CheckOptions options_;
  const int timeout_seconds_;
  pid_t child_ = 0;
  int to_ = -1, from_ = -1, log_ = -1;
};

}  // namespace tensord
