// TD_CHECK states what our own code guarantees; it ends the process when the guarantee is broken.
// Nothing that a client, a file or a device sent may reach one: such input gets a Status instead.
#pragma once

#include <string_view>

namespace tensord {

[[noreturn]] void CheckFailed(const char* file, int line, std::string_view condition,
                              std::string_view message);

}  // namespace tensord

#define TD_CHECK(condition, ...)                                                             \
  do {                                                                                       \
    if (!(condition)) [[unlikely]]                                                           \
      ::tensord::CheckFailed(__FILE__, __LINE__, #condition, std::string_view{__VA_ARGS__}); \
  } while (false)
