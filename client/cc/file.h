// File: bytes on the client's disk from which tensors are made (Client::FromFile). They are read
// when a run first needs them, so a file may be larger than the client's memory.
//
//   TD_ASSIGN_OR_RETURN(std::shared_ptr<const File> file, File::Open("model.safetensors"));
//   Tensor weight = client->FromFile(file, 1024, DType::kBFloat16, {4096, 4096});
//
// The descriptor stays open: a file that is replaced by another of its name is still the old one.
// Read by pread rather than mapped, because a page of a mapped file that somebody has truncated
// ends the process, and this is an error.
//
// Thread-safe.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace tensord {

class File {
 public:
  // NotFound, or InvalidArgument for what is no regular file.
  static absl::StatusOr<std::shared_ptr<File>> Open(const std::string& path);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const std::string& path() const { return path_; }
  int descriptor() const { return descriptor_; }
  uint64_t size() const { return size_; }  // when it was opened

  // DataLoss if the file ends before `out` is full.
  absl::Status Read(uint64_t offset, absl::Span<char> out) const;

 private:
  File(std::string path, int descriptor, uint64_t size)
      : path_(std::move(path)), descriptor_(descriptor), size_(size) {}

  const std::string path_;
  const int descriptor_;
  uint64_t size_;
};

}  // namespace tensord
