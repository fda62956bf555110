#include "core/compile/source.h"

#include <zstd.h>

#include "core/base/status.h"

namespace tensord {
namespace {

// Of a text that takes milliseconds to print, it takes a tenth of that.
constexpr int kLevel = 1;

// Room for the line that says what is left out.
constexpr size_t kNoteBytes = 100;

std::string Shortened(std::string_view text) {
  const size_t end =
      text.substr(0, kMaxSourceBytes - kNoteBytes).rfind('\n') + 1;  // 0: no line is so short
  return fmt::format("{}# {} bytes more are left out\n", text.substr(0, end), text.size() - end);
}

}  // namespace

std::string PackSource(std::string_view text) {
  if (text.size() > kMaxSourceBytes) return PackSource(Shortened(text));
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  const size_t size = ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), kLevel);
  packed.resize(ZSTD_isError(size) != 0 ? 0 : size);
  packed.shrink_to_fit();
  return packed;
}

absl::StatusOr<std::string> UnpackSource(std::string_view packed) {
  const auto lost = [](std::string_view why) {
    return MakeStatus(absl::StatusCode::kDataLoss, "the kernel's source is no text any more: {}",
                      why);
  };
  const unsigned long long size = ZSTD_getFrameContentSize(packed.data(), packed.size());
  if (size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN ||
      size > kMaxSourceBytes) {
    return lost("its size is wrong");
  }
  std::string text(size, '\0');
  const size_t got = ZSTD_decompress(text.data(), text.size(), packed.data(), packed.size());
  if (ZSTD_isError(got) != 0) return lost(ZSTD_getErrorName(got));
  if (got != size) return lost("its end is missing");
  return text;
}

}  // namespace tensord
