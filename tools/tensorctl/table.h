// Plain text tables.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tensord {

// Columns as wide as their widest cell, two spaces apart. The first row is the head.
std::string FormatTable(std::vector<std::vector<std::string>> rows);
// One pair a line, values below one another.
std::string FormatPairs(const std::vector<std::pair<std::string, std::string>>& pairs);
// "0 B", "1023 B", "1.5 KiB", "12.0 GiB".
std::string FormatBytes(uint64_t bytes);
// "12ms", "9.5s", "3h2m1s".
std::string FormatAge(uint64_t ms);

}  // namespace tensord
