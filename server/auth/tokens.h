// The file of --auth-tokens: who has which token. It holds hashes, so that reading it gives nobody
// a token. A line for each token, of which a user may have several:
//
//   # name  hash, as `printf %s "$TOKEN" | sha256sum` prints it
//   alice   sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
//
// Tokens are random and long (`openssl rand -hex 32`), and so need no slow hash.
#pragma once

#include <absl/status/statusor.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace tensord {

class TokenTable {
 public:
  // Errors name the file and the line, never what stands there: it might be a token.
  static absl::StatusOr<TokenTable> Read(const std::string& path);

  // The user; empty if nobody has that token. Takes as long for one as for any other.
  std::string_view Find(std::string_view token) const;

 private:
  using Hash = std::array<unsigned char, 32>;
  struct Row {
    std::string user;
    Hash hash;
  };
  std::vector<Row> rows_;
};

}  // namespace tensord
