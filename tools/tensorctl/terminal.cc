#include "tools/tensorctl/terminal.h"

#include <absl/strings/match.h>
#include <absl/strings/str_split.h>
#include <absl/time/clock.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string_view>
#include <vector>

namespace tensord {
namespace {

// xterm's control sequences, which all terminals of today know.
constexpr const char* kEnter = "\033[?1049h\033[?25l";  // the other screen; no cursor
constexpr const char* kLeave = "\033[?25h\033[?1049l";
constexpr const char* kHome = "\033[H";
constexpr const char* kEraseLine = "\033[K";
constexpr const char* kEraseBelow = "\033[J";

// The first columns of a line. Bytes of UTF-8 that continue a character take no column.
std::string_view FirstColumns(std::string_view line, size_t columns) {
  size_t seen = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    if ((static_cast<unsigned char>(line[i]) & 0xC0) == 0x80) continue;
    if (seen++ == columns) return line.substr(0, i);
  }
  return line;
}

}  // namespace

bool Terminal::Here() { return isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1; }

void Terminal::Enter() {
  entered_ = true;
  tcgetattr(STDIN_FILENO, &before_);
  termios raw = before_;
  // Keys come at once and unseen, Ctrl-C as a key: so the screen is always put back.
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);
  tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  std::fputs(kEnter, stdout);
}

Terminal::~Terminal() {
  if (!entered_) return;
  std::fputs(kLeave, stdout);
  std::fflush(stdout);
  tcsetattr(STDIN_FILENO, TCSANOW, &before_);
}

bool Terminal::Show(const std::string& picture, absl::Duration how_long) {
  if (!entered_) Enter();
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0) {
    size.ws_row = 24;
    size.ws_col = 80;
  }
  std::vector<std::string_view> lines;
  for (absl::string_view line : absl::StrSplit(picture, '\n')) {
    lines.emplace_back(line.data(), line.size());
  }
  if (lines.size() > size.ws_row) lines.resize(size.ws_row);
  std::string text = kHome;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) text += "\r\n";
    text += FirstColumns(lines[i], size.ws_col);
    text += kEraseLine;
  }
  text += kEraseBelow;
  if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0) return false;

  const absl::Time end = absl::Now() + how_long;
  for (absl::Duration rest = how_long; rest > absl::ZeroDuration(); rest = end - absl::Now()) {
    pollfd key = {.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    const timespec time = absl::ToTimespec(rest);
    const int got = ppoll(&key, 1, &time, nullptr);
    if (got < 0 && errno == EINTR) return true;  // a new size, perhaps
    if (got <= 0) return true;
    char pressed = 0;
    if (read(STDIN_FILENO, &pressed, 1) != 1) return false;
    constexpr std::string_view kQuit = "qQ\x1b\x03\x04";
    if (kQuit.find(pressed) != std::string_view::npos) return false;
    return true;  // any other key: a new picture now
  }
  return true;
}

}  // namespace tensord
