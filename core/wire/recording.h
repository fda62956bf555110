// Recordings of what a client and a daemon said to each other, as files: recording.proto says what
// is in one.
//
//   TD_ASSIGN_OR_RETURN(auto file, RecordingFile::Create("f.tdrec", header));
//   TD_RETURN_IF_ERROR(file->Append(event));
//   TD_ASSIGN_OR_RETURN(Recording recording, ReadRecording("f.tdrec"));
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <vector>

#include "proto/tensord/v1/recording.pb.h"

namespace tensord {

inline constexpr uint32_t kRecordingVersion = 1;

// A file that is being written; what was there before is gone. One process writes a file at a time.
// Not thread-safe.
class RecordingFile {
 public:
  // Writes the header, whose `format` fields it sets.
  static absl::StatusOr<std::unique_ptr<RecordingFile>> Create(const std::string& path,
                                                               v1::RecordingHeader header);
  ~RecordingFile();
  RecordingFile(const RecordingFile&) = delete;
  RecordingFile& operator=(const RecordingFile&) = delete;

  // On return it is in the file, whatever becomes of the process.
  absl::Status Append(const v1::RecordedEvent& event);

 private:
  RecordingFile(std::string path, int file) : path_(std::move(path)), file_(file) {}

  const std::string path_;
  const int file_;
};

struct Recording {
  v1::RecordingHeader header;
  std::vector<v1::RecordedEvent> events;  // without the header
  bool cut_off = false;                   // the file ends amid an event, as of a process that died
};

// InvalidArgument for a file that is no recording, or of a later format.
absl::StatusOr<Recording> ReadRecording(const std::string& path);

}  // namespace tensord
