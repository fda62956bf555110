// The terminal as a screen of its own for live pictures, as pagers and top use it: what stood there
// comes back at the end.
#pragma once

#include <absl/time/time.h>
#include <termios.h>

#include <string>

namespace tensord {

class Terminal {
 public:
  // Whether standard input and output are one.
  static bool Here();

  Terminal() = default;
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  // Cuts the picture to the screen's size, shows it, and waits for so long or for a key. False
  // after q, Escape, Ctrl-C, or when the terminal is gone.
  bool Show(const std::string& picture, absl::Duration how_long);

 private:
  void Enter();

  bool entered_ = false;
  termios before_ = {};
};

}  // namespace tensord
