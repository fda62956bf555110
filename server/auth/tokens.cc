#include "server/auth/tokens.h"

#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/str_split.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "core/base/status.h"

namespace tensord {
namespace {

constexpr absl::string_view kScheme = "sha256:";

}  // namespace

absl::StatusOr<TokenTable> TokenTable::Read(const std::string& path) {
  std::ifstream file(path);
  struct stat info;
  if (!file || stat(path.c_str(), &info) != 0) {
    return InvalidArgument("--auth-tokens: cannot read {}: {}", path, std::strerror(errno));
  }
  if ((info.st_mode & 0022) != 0) {
    return FailedPrecondition(
        "--auth-tokens: others may change {} and so let themselves in: chmod go-w", path);
  }
  TokenTable table;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const std::vector<std::string> words =
        absl::StrSplit(line.substr(0, line.find('#')), absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (words.empty()) continue;
    Row row;
    std::string digits;
    if (words.size() == 2 && absl::StartsWith(words[1], kScheme)) {
      digits = words[1].substr(kScheme.size());
    }
    if (digits.size() != 2 * row.hash.size() ||
        !std::all_of(digits.begin(), digits.end(), absl::ascii_isxdigit)) {
      return InvalidArgument(
          "--auth-tokens: {}:{}: a line is a user's name and {} with 64 hexadecimal digits, by "
          "printf %s \"$TOKEN\" | sha256sum",
          path, number, std::string_view(kScheme.data(), kScheme.size()));
    }
    // Abseil's changed its form between the versions that distributions have.
    OPENSSL_hexstr2buf_ex(row.hash.data(), row.hash.size(), nullptr, digits.c_str(), '\0');
    row.user = words[0];
    table.rows_.push_back(std::move(row));
  }
  return table;
}

std::string_view TokenTable::Find(std::string_view token) const {
  Hash hash;
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), hash.data());
  const Row* found = nullptr;
  for (const Row& row : rows_) {
    if (CRYPTO_memcmp(row.hash.data(), hash.data(), hash.size()) == 0) found = &row;
  }
  return found != nullptr ? std::string_view(found->user) : std::string_view();
}

}  // namespace tensord
