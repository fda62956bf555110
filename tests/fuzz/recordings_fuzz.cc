// Files that TENSORD_RECORD makes, as tensorctl replay reads them.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/wire/recording.h"
#include "tests/fuzz/fuzz.h"

namespace tensord::fuzz {
namespace {

namespace fs = std::filesystem;

const std::string& Path() {
  static const std::string& path = *new std::string([] {
    std::string name = (fs::temp_directory_path() / "td-fuzz-XXXXXX").string();
    const std::string made = std::string(mkdtemp(name.data())) + "/f.tdrec";
    std::atexit([] { fs::remove_all(fs::path(Path()).parent_path()); });
    return made;
  }());
  return path;
}

std::string Written(int events) {
  {
    auto file = RecordingFile::Create(Path(), {});
    if (!file.ok()) std::abort();
    for (int i = 1; i <= events; ++i) {
      v1::RecordedEvent event;
      event.set_time_us(static_cast<uint64_t>(i));
      event.set_session(1);
      event.set_call(static_cast<uint64_t>(i % 3));
      if (i == 1) event.set_begun("/tensord.v1.SessionService/Session");
      if (i == 2) event.set_sent(std::string(200, 'x'));
      if (i == 3) event.add_left_out()->set_bytes(1 << 20);
      if (i > 3) event.mutable_ended()->set_message("over");
      if (!(*file)->Append(event).ok()) std::abort();
    }
  }
  std::ifstream file(Path(), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

std::vector<std::string> Seeds() { return {Written(0), Written(2), Written(6)}; }

std::string Try(std::string_view input) {
  std::ofstream(Path(), std::ios::binary) << input;
  const absl::StatusOr<Recording> recording = ReadRecording(Path());
  if (!recording.ok()) {
    return absl::IsInvalidArgument(recording.status()) ? "" : recording.status().ToString();
  }
  size_t bytes = 0;
  for (const v1::RecordedEvent& event : recording->events) bytes += event.ByteSizeLong();
  // The same bytes may be said in a longer way, never in a shorter one.
  return bytes <= input.size() ? "" : "more events than the file has bytes for";
}

}  // namespace tensord::fuzz
