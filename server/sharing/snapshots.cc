#include "server/sharing/snapshots.h"

#include <absl/container/flat_hash_map.h>
#include <absl/strings/escaping.h>
#include <absl/strings/match.h>
#include <absl/strings/string_view.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>

#include "core/base/check.h"
#include "core/base/status.h"
#include "server/sharing/snapshot.pb.h"

namespace tensord {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFormat = "tdshare1";
constexpr char kSuffix[] = ".published";
constexpr char kUnfinished[] = ".unfinished";
constexpr char kCorrupt[] = ".corrupt";
constexpr uint64_t kMaxHeaderBytes = 64 << 20;
constexpr size_t kHashBytes = 32;
constexpr size_t kPiece = 4 << 20;  // written, or read, and hashed while it is in the cache

std::string ErrorText() { return std::strerror(errno); }

class Hash {
 public:
  Hash() : context_(EVP_MD_CTX_new()) {
    TD_CHECK(EVP_DigestInit_ex(context_, EVP_sha256(), nullptr) == 1, "SHA-256");
  }
  ~Hash() { EVP_MD_CTX_free(context_); }
  Hash(const Hash&) = delete;
  Hash& operator=(const Hash&) = delete;

  void Add(std::string_view bytes) { EVP_DigestUpdate(context_, bytes.data(), bytes.size()); }
  std::string Take() {
    std::string hash(kHashBytes, '\0');
    EVP_DigestFinal_ex(context_, reinterpret_cast<unsigned char*>(hash.data()), nullptr);
    return hash;
  }

 private:
  EVP_MD_CTX* const context_;
};

class OpenFile {
 public:
  OpenFile(std::string path, int flags)
      : path_(std::move(path)), fd_(open(path_.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, 0600)) {}
  ~OpenFile() {
    if (fd_ >= 0) close(fd_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  bool ok() const { return fd_ >= 0; }
  int fd() const { return fd_; }

  // In pieces, each added to `hash`.
  absl::Status Write(std::string_view bytes, Hash* hash) {
    while (!bytes.empty()) {
      const ssize_t written = write(fd_, bytes.data(), std::min(bytes.size(), kPiece));
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return Failed("write");
      if (hash) hash->Add(bytes.substr(0, static_cast<size_t>(written)));
      bytes.remove_prefix(static_cast<size_t>(written));
    }
    return absl::OkStatus();
  }
  absl::Status Read(char* out, size_t bytes, Hash* hash) {
    while (bytes > 0) {
      const ssize_t got = read(fd_, out, std::min(bytes, kPiece));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return Failed("read");
      if (got == 0) return absl::DataLossError("the file ends too early");
      if (hash) hash->Add({out, static_cast<size_t>(got)});
      out += got;
      bytes -= static_cast<size_t>(got);
    }
    return absl::OkStatus();
  }
  absl::Status Sync() { return fsync(fd_) == 0 ? absl::OkStatus() : Failed("fsync"); }

  absl::Status Failed(std::string_view what) const {
    const bool full = errno == ENOSPC || errno == EDQUOT;
    return MakeStatus(full ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kUnavailable,
                      "--state-dir: {} of {}: {}", what, path_, ErrorText());
  }

 private:
  const std::string path_;
  const int fd_;
};

std::string Number(uint64_t value) {
  std::string bytes(sizeof(value), '\0');
  for (size_t i = 0; i < sizeof(value); ++i) bytes[i] = static_cast<char>(value >> (8 * i));
  return bytes;
}

uint64_t NumberIn(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof(value); ++i) {
    value |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  }
  return value;
}

absl::Status CheckTensor(const sharing::SnapshotHeader& header,
                         const sharing::SnapshotHeader::Tensor& tensor) {
  if (tensor.dtype() >= kNumDTypes || ItemSize(static_cast<DType>(tensor.dtype())) == 0) {
    return absl::DataLossError("a tensor has no dtype that there is");
  }
  uint64_t bytes = ItemSize(static_cast<DType>(tensor.dtype()));
  for (int64_t dim : tensor.shape()) {
    if (dim < 0 ||
        (dim > 0 && bytes > std::numeric_limits<uint64_t>::max() / static_cast<uint64_t>(dim))) {
      return absl::DataLossError("a tensor has no shape that there is");
    }
    bytes *= static_cast<uint64_t>(dim);
  }
  if (bytes != tensor.bytes() || bytes > header.data_bytes()) {
    return absl::DataLossError("a tensor does not fit in the file");
  }
  return absl::OkStatus();
}

absl::StatusOr<BufferRef> NewBuffer(const sharing::SnapshotHeader::Tensor& tensor,
                                    Runtime& runtime) {
  TD_ASSIGN_OR_RETURN(Device * device, runtime.FindDevice(tensor.device()));
  auto buffer = std::make_shared<Buffer>();
  buffer->dtype = static_cast<DType>(tensor.dtype());
  buffer->shape.assign(tensor.shape().begin(), tensor.shape().end());
  TD_ASSIGN_OR_RETURN(buffer->memory, device->allocator().Allocate(tensor.bytes()));
  if (buffer->memory->host_address() == nullptr && tensor.bytes() > 0) {
    return Unimplemented("{}: its memory can't be reached from the host", device->name());
  }
  return buffer;
}

// DataLoss if the file is not what Save wrote. O_NONBLOCK: or a pipe would be waited for.
absl::StatusOr<Publications::Draft> Read(const std::string& path, Runtime& runtime) {
  OpenFile file(path, O_RDONLY | O_NONBLOCK);
  struct stat about;
  if (!file.ok() || fstat(file.fd(), &about) != 0) return file.Failed("open");
  if (!S_ISREG(about.st_mode)) return Unavailable("it is no file");
  const auto size = static_cast<uint64_t>(about.st_size);
  Hash hash;
  std::string start(kFormat.size() + sizeof(uint64_t), '\0');
  TD_RETURN_IF_ERROR(file.Read(start.data(), start.size(), &hash));
  const uint64_t header_bytes = NumberIn(std::string_view(start).substr(kFormat.size()));
  if (!absl::StartsWith(start, absl::string_view(kFormat.data(), kFormat.size())) ||
      header_bytes > kMaxHeaderBytes || header_bytes > size) {
    return absl::DataLossError("it does not begin as a publication does");
  }
  std::string text(header_bytes, '\0');
  TD_RETURN_IF_ERROR(file.Read(text.data(), text.size(), &hash));
  sharing::SnapshotHeader header;
  if (!header.ParseFromString(text)) return absl::DataLossError("its header is not one");
  const uint64_t around = start.size() + header_bytes + kHashBytes;
  if (size < around || size - around != header.data_bytes()) {
    return absl::DataLossError("its size is not what its header says");
  }
  // Untrusted until the checksum is right, so memory is taken for no more than the file has.
  Publications::Draft draft{.owner = header.owner(),
                            .name = header.name(),
                            .readers = {header.readers().begin(), header.readers().end()},
                            .tensors = {}};
  std::vector<BufferRef> pieces;
  uint64_t data_bytes = 0;
  for (const auto& tensor : header.tensors()) {
    TD_RETURN_IF_ERROR(CheckTensor(header, tensor));
    if (tensor.piece() == pieces.size()) {
      data_bytes += tensor.bytes();
      if (data_bytes > header.data_bytes()) break;
      TD_ASSIGN_OR_RETURN(pieces.emplace_back(), NewBuffer(tensor, runtime));
    } else if (tensor.piece() > pieces.size() ||
               pieces[tensor.piece()]->memory->size() != tensor.bytes()) {
      return absl::DataLossError("its tensors are out of order");
    }
    draft.tensors.push_back(
        {.key = tensor.key(), .buffer = pieces[tensor.piece()], .published = nullptr});
  }
  if (data_bytes != header.data_bytes()) {
    return absl::DataLossError("its tensors have other sizes than its data");
  }
  for (const BufferRef& piece : pieces) {
    TD_RETURN_IF_ERROR(
        file.Read(static_cast<char*>(piece->memory->host_address()), piece->memory->size(), &hash));
  }
  std::string expected(kHashBytes, '\0');
  TD_RETURN_IF_ERROR(file.Read(expected.data(), expected.size(), nullptr));
  if (hash.Take() != expected) return absl::DataLossError("its checksum is wrong");
  return draft;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Snapshots>> Snapshots::Open(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  struct stat about;
  if (descriptor < 0 || fstat(descriptor, &about) != 0) {
    const std::string text = ErrorText();
    if (descriptor >= 0) close(descriptor);
    return InvalidArgument("--state-dir={}: {}", folder, text);
  }
  auto snapshots = std::unique_ptr<Snapshots>(new Snapshots(folder, descriptor));
  if (about.st_uid != geteuid() || (about.st_mode & 0022) != 0) {
    return InvalidArgument(
        "--state-dir={}: it must belong to the daemon's user, and nobody else may write there, "
        "because what is there is published as it is",
        folder);
  }
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    return FailedPrecondition("--state-dir={}: another daemon uses it; each needs its own", folder);
  }
  return snapshots;
}

Snapshots::~Snapshots() { close(descriptor_); }

// Names may have any characters, and two may differ by case only.
std::string Snapshots::PathOf(std::string_view owner, std::string_view name) const {
  Hash hash;
  hash.Add(owner);
  hash.Add(std::string_view("\0", 1));
  hash.Add(name);
  return folder_ + "/" + absl::BytesToHexString(hash.Take()) + kSuffix;
}

absl::Status Snapshots::SyncFolder() const {
  if (fsync(descriptor_) == 0) return absl::OkStatus();
  return Unavailable("--state-dir={}: fsync: {}", folder_, ErrorText());
}

absl::StatusOr<bool> Snapshots::Save(const Publication& publication) {
  sharing::SnapshotHeader header;
  header.set_owner(publication.owner);
  header.set_name(publication.name);
  header.mutable_readers()->Add(publication.readers.begin(), publication.readers.end());
  absl::flat_hash_map<const PublishedBuffer*, uint32_t> piece_of;
  std::vector<std::string_view> pieces;
  uint64_t data_bytes = 0;
  for (const Publication::Tensor& tensor : publication.tensors) {
    const Buffer& buffer = *tensor.buffer->buffer();
    const uint64_t bytes = tensor.buffer->bytes();
    const auto* address = static_cast<const char*>(buffer.memory->host_address());
    if (address == nullptr && bytes > 0) return false;
    const auto [place, added] =
        piece_of.try_emplace(tensor.buffer.get(), static_cast<uint32_t>(pieces.size()));
    if (added) {
      pieces.emplace_back(address, bytes);
      data_bytes += bytes;
    }
    sharing::SnapshotHeader::Tensor& out = *header.add_tensors();
    out.set_key(tensor.key);
    out.set_dtype(static_cast<uint32_t>(buffer.dtype));
    out.mutable_shape()->Add(buffer.shape.begin(), buffer.shape.end());
    out.set_device(buffer.memory->device().name());
    out.set_piece(place->second);
    out.set_bytes(bytes);
  }
  header.set_data_bytes(data_bytes);
  const std::string path = PathOf(publication.owner, publication.name);
  const std::string unfinished = path + kUnfinished;
  const absl::Status written = [&]() -> absl::Status {
    OpenFile file(unfinished, O_WRONLY | O_CREAT | O_TRUNC);
    if (!file.ok()) return file.Failed("open");
    Hash hash;
    const std::string text = header.SerializeAsString();
    if (text.size() > kMaxHeaderBytes) {
      return ResourceExhausted("what describes the tensors has {} bytes, the limit is {}",
                               text.size(), kMaxHeaderBytes);
    }
    TD_RETURN_IF_ERROR(file.Write(std::string(kFormat) + Number(text.size()) + text, &hash));
    for (std::string_view piece : pieces) TD_RETURN_IF_ERROR(file.Write(piece, &hash));
    TD_RETURN_IF_ERROR(file.Write(hash.Take(), nullptr));
    TD_RETURN_IF_ERROR(file.Sync());
    if (rename(unfinished.c_str(), path.c_str()) != 0) return file.Failed("rename");
    return absl::OkStatus();
  }();
  if (!written.ok()) {
    unlink(unfinished.c_str());
    return written;
  }
  TD_RETURN_IF_ERROR(SyncFolder());
  return true;
}

absl::Status Snapshots::Remove(const std::string& owner, const std::string& name) {
  const std::string path = PathOf(owner, name);
  if (unlink(path.c_str()) != 0 && errno != ENOENT) {
    return Unavailable("--state-dir: cannot remove {}: {}", path, ErrorText());
  }
  return SyncFolder();
}

std::vector<Snapshots::Found> Snapshots::Load(Runtime& runtime) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    const std::string path = entry.path().string();
    // Of a daemon that was killed while it wrote.
    if (absl::EndsWith(path, kUnfinished)) unlink(path.c_str());
    if (absl::EndsWith(path, kSuffix)) paths.push_back(path);
  }
  std::sort(paths.begin(), paths.end());
  std::vector<Found> all;
  for (const std::string& path : paths) {
    Found found{.file = path, .draft = Read(path, runtime)};
    if (found.draft.ok() && PathOf(found.draft->owner, found.draft->name) != path) {
      found.draft = absl::DataLossError("it is not the file of the name that it holds");
    }
    found.corrupt = absl::IsDataLoss(found.draft.status());
    if (found.corrupt && rename(path.c_str(), (path + kCorrupt).c_str()) != 0) {
      found.draft = Annotate(found.draft.status(), "it cannot be renamed, {}", ErrorText());
    }
    all.push_back(std::move(found));
  }
  return all;
}

}  // namespace tensord
