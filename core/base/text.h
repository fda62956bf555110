// Text that others wrote, made fit for messages, logs and terminals. Messages of the protocol are
// UTF-8, and one that isn't cannot be read by its receiver: so no text is cut amid a character.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tensord {

// The beginning of `text`, at most so many bytes, that ends with a whole character.
std::string_view Prefix(std::string_view text, size_t max_bytes);

// UTF-8: of what is none, each byte is '?'.
std::string Utf8(std::string_view text);

// Utf8 without what ends a line, moves a terminal's cursor, or turns the order of what is read:
// each such character is '?'.
std::string OneLine(std::string_view text);

}  // namespace tensord
