#include "core/base/text.h"

#include <cstdint>

namespace tensord {
namespace {

struct Character {
  uint32_t code = 0;
  size_t bytes = 0;  // 0: there is none here
};

// As the Unicode standard has it, table 3-7: the shortest form only, and no surrogates.
Character FirstOf(std::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {first, 1};
  const size_t bytes = first < 0xc2   ? 0
                       : first < 0xe0 ? 2
                       : first < 0xf0 ? 3
                       : first < 0xf5 ? 4
                                      : 0;
  if (bytes == 0 || bytes > text.size()) return {};
  uint32_t code = first & (0x7fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = (code << 6) | (byte(i) & 0x3fu);
  }
  const bool longer_than_need_be = (bytes == 3 && code < 0x800) || (bytes == 4 && code < 0x10000);
  if (longer_than_need_be || (code >= 0xd800 && code < 0xe000) || code > 0x10ffff) return {};
  return {code, bytes};
}

bool IsPlain(uint32_t code) {
  constexpr struct {
    uint32_t first, last;
  } kOthers[] = {
      {0x00, 0x1f},     {0x7f, 0x9f},      // controls
      {0x061c, 0x061c}, {0x200e, 0x200f},  // marks of direction
      {0x2028, 0x202e},                    // ends of lines and paragraphs, and directions
      {0x2066, 0x2069},                    // isolated directions
  };
  for (const auto& range : kOthers) {
    if (code >= range.first && code <= range.last) return false;
  }
  return true;
}

std::string Replace(std::string_view text, bool (*stays)(uint32_t)) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const Character character = FirstOf(text);
    const size_t bytes = character.bytes > 0 ? character.bytes : 1;
    if (character.bytes > 0 && stays(character.code)) {
      result += text.substr(0, bytes);
    } else {
      result += '?';
    }
    text.remove_prefix(bytes);
  }
  return result;
}

}  // namespace

std::string_view Prefix(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  size_t end = max_bytes;
  // A character has four bytes at most; of what is no text, any beginning will do.
  for (int i = 0; i < 3 && end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80; ++i) {
    --end;
  }
  return text.substr(0, end);
}

std::string Utf8(std::string_view text) {
  return Replace(text, [](uint32_t) { return true; });
}

std::string OneLine(std::string_view text) { return Replace(text, IsPlain); }

}  // namespace tensord
