#include "tests/fuzz/mutate.h"

#include <algorithm>
#include <cstddef>

namespace tensord::fuzz {
namespace {

constexpr size_t kMostBytes = 64 << 10;
// Numbers at which parsers go wrong, as varints and as they stand in memory.
constexpr uint64_t kEdges[] = {0,       1,          0x7f,       0x80,       0xff,        0xffff,
                               1 << 20, 0x7fffffff, 0x80000000, 0xffffffff, ~0ull >> 1,  1ull << 63,
                               ~0ull,   1ull << 40, 64 << 20,   1ull << 32, ~0ull - 0xff};

std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

}  // namespace

std::string Mutate(std::string input, const std::vector<std::string>& others,
                   std::mt19937_64& random) {
  const auto below = [&random](size_t n) { return n == 0 ? 0 : static_cast<size_t>(random() % n); };
  const auto edge = [&] {
    const uint64_t value = kEdges[below(std::size(kEdges))];
    if (below(2) == 0) return Varint(value);
    return std::string(reinterpret_cast<const char*>(&value), size_t{1} << below(4));
  };
  for (size_t changes = 1 + below(below(4) == 0 ? 16 : 3); changes > 0; --changes) {
    const size_t at = below(input.size() + 1), left = input.size() - at;
    switch (below(8)) {
      case 0:  // one bit
        if (left > 0) input[at] = static_cast<char>(input[at] ^ (1 << below(8)));
        break;
      case 1:  // one byte
        if (left > 0) input[at] = static_cast<char>(random());
        break;
      case 2:
        input.erase(at, 1 + below(below(3) == 0 ? left + 1 : 4));
        break;
      case 3:
        input.insert(at, 1 + below(8), static_cast<char>(random()));
        break;
      case 4: {  // a part of it once more
        const std::string part = input.substr(at, 1 + below(32));
        input.insert(below(input.size() + 1), part);
        break;
      }
      case 5: {  // another number
        const std::string value = edge();
        input.replace(at, std::min(left, below(2) == 0 ? value.size() : 1), value);
        break;
      }
      case 6: {  // a part of another one
        if (others.empty()) break;
        const std::string& other = others[below(others.size())];
        const size_t from = below(other.size() + 1);
        input.replace(at, below(left + 1), other.substr(from, 1 + below(64)));
        break;
      }
      case 7:  // cut off
        if (below(4) == 0) input.resize(at);
        break;
    }
  }
  if (input.size() > kMostBytes) input.resize(kMostBytes);
  return input;
}

}  // namespace tensord::fuzz
