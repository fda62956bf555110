#include "tests/differential/worker.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "core/base/check.h"
#include "core/base/status.h"

namespace tensord {
namespace {

bool WriteAll(int fd, const void* data, size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = write(fd, at, size);
    if (written <= 0) return false;
    at += written;
    size -= static_cast<size_t>(written);
  }
  return true;
}

bool ReadAll(int fd, void* data, size_t size) {
  char* at = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t got = read(fd, at, size);
    if (got <= 0) return false;
    at += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

bool Send(int fd, std::string_view text) {
  const uint64_t size = text.size();
  return WriteAll(fd, &size, sizeof(size)) && WriteAll(fd, text.data(), text.size());
}

std::optional<std::string> Receive(int fd) {
  uint64_t size = 0;
  if (!ReadAll(fd, &size, sizeof(size))) return std::nullopt;
  std::string text(size, '\0');
  if (!ReadAll(fd, text.data(), text.size())) return std::nullopt;
  return text;
}

}  // namespace

void Worker::Start() {
  int to_child[2], from_child[2];
  log_ = memfd_create("worker", 0);
  TD_CHECK(pipe(to_child) == 0 && pipe(from_child) == 0, "pipes");
  signal(SIGPIPE, SIG_IGN);
  child_ = fork();
  TD_CHECK(child_ >= 0, "fork");
  if (child_ == 0) {
    close(to_child[1]);
    close(from_child[0]);
    dup2(log_, STDERR_FILENO);
    Serve(to_child[0], from_child[1]);
  }
  close(to_child[0]);
  close(from_child[1]);
  to_ = to_child[1];
  from_ = from_child[0];
}

void Worker::Serve(int from, int to) const {
  ProgramRunner runner("cpu,interp");
  while (const std::optional<std::string> text = Receive(from)) {
    absl::StatusOr<Case> test = ParseCase(*text);
    const std::string result =
        test.ok() ? tensord::Check(*test, runner, options_) : std::string(Message(test.status()));
    if (!Send(to, result)) break;
  }
  _exit(0);
}

void Worker::Stop() {
  if (child_ == 0) return;
  close(to_);
  close(from_);
  close(log_);
  kill(child_, SIGKILL);
  waitpid(child_, nullptr, 0);
  child_ = 0;
}

std::string Worker::LastWords() const {
  const off_t size = lseek(log_, 0, SEEK_END);
  std::string text(static_cast<size_t>(std::min<off_t>(size, 300)), '\0');
  const ssize_t got = pread(log_, text.data(), text.size(), size - static_cast<off_t>(text.size()));
  text.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

std::string Worker::Check(std::string_view text) {
  if (child_ == 0) Start();
  std::optional<std::string> result;
  bool timed_out = false;
  if (Send(to_, text)) {
    pollfd wait = {from_, POLLIN, 0};
    timed_out = poll(&wait, 1, timeout_seconds_ * 1000) == 0;
    if (!timed_out) result = Receive(from_);
  }
  if (result) return *result;
  if (!timed_out) {
    // Until it is gone it may still be writing.
    siginfo_t end;
    waitid(P_PID, static_cast<id_t>(child_), &end, WEXITED | WNOWAIT);
  }
  const std::string problem = timed_out ? "timed out" : fmt::format("crashed: {}", LastWords());
  Stop();
  return problem;
}

}  // namespace tensord
