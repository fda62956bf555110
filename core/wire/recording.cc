#include "core/wire/recording.h"

#include <fcntl.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/util/delimited_message_util.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <sstream>
#include <utility>

#include "core/base/status.h"

namespace tensord {
namespace {

constexpr std::string_view kFormat = "tensord recording";

}  // namespace

absl::StatusOr<std::unique_ptr<RecordingFile>> RecordingFile::Create(const std::string& path,
                                                                     v1::RecordingHeader header) {
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor < 0) return InvalidArgument("cannot write '{}': {}", path, std::strerror(errno));
  std::unique_ptr<RecordingFile> file(new RecordingFile(path, descriptor));
  // It is emptied only by who has it alone.
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    return FailedPrecondition(
        "'{}' is being written by another process: record each process to a file of its own", path);
  }
  if (ftruncate(descriptor, 0) != 0) {
    return InvalidArgument("cannot write '{}': {}", path, std::strerror(errno));
  }
  header.set_format(std::string(kFormat));
  header.set_format_version(kRecordingVersion);
  v1::RecordedEvent event;
  *event.mutable_header() = std::move(header);
  TD_RETURN_IF_ERROR(file->Append(event));
  return file;
}

RecordingFile::~RecordingFile() { close(file_); }

absl::Status RecordingFile::Append(const v1::RecordedEvent& event) {
  std::ostringstream text;
  google::protobuf::util::SerializeDelimitedToOstream(event, &text);
  const std::string bytes = text.str();
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t written = write(file_, bytes.data() + done, bytes.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Unavailable("cannot write '{}': {}", path_, std::strerror(errno));
    done += static_cast<size_t>(written);
  }
  return absl::OkStatus();
}

absl::StatusOr<Recording> ReadRecording(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return NotFound("cannot read '{}': {}", path, std::strerror(errno));
  google::protobuf::io::FileInputStream stream(descriptor);
  stream.SetCloseOnDelete(true);
  Recording recording;
  bool first = true;
  for (;;) {
    v1::RecordedEvent event;
    bool clean_end = false;
    const bool read =
        google::protobuf::util::ParseDelimitedFromZeroCopyStream(&event, &stream, &clean_end);
    if (first && (!read || event.header().format() != kFormat)) {
      return InvalidArgument("'{}' is no recording of tensord", path);
    }
    if (!read) {
      recording.cut_off = !clean_end;
      return recording;
    }
    if (std::exchange(first, false)) {
      recording.header = event.header();
      if (recording.header.format_version() > kRecordingVersion) {
        return InvalidArgument(
            "'{}' is of format version {}, by tensord {}; this build reads up to {}: use a later "
            "one",
            path, recording.header.format_version(), recording.header.software_version(),
            kRecordingVersion);
      }
      continue;
    }
    recording.events.push_back(std::move(event));
  }
}

}  // namespace tensord
