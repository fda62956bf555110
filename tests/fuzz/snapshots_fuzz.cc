// Files of published tensors. The first byte says whether the rest is the file as it is, or one
// whose checksum and name are made right: else nothing behind the checksum would ever be reached.
#include <absl/strings/escaping.h>
#include <google/protobuf/message_lite.h>
#include <openssl/sha.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/base/status.h"
#include "server/memory/memory_ledger.h"
#include "server/session/fake_runtime.h"
#include "server/sharing/publications.h"
#include "server/sharing/snapshot.pb.h"
#include "tests/fuzz/fuzz.h"

namespace tensord::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBefore = 16;  // the format, and the header's length
constexpr size_t kHashBytes = SHA256_DIGEST_LENGTH;

std::string Hash(std::string_view bytes) {
  std::string hash(kHashBytes, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
         reinterpret_cast<unsigned char*>(hash.data()));
  return hash;
}

// Quiet, and gone with the process.
const std::string& Folder() {
  static const std::string& folder = *new std::string([] {
    spdlog::set_level(spdlog::level::off);
    std::string name = (fs::temp_directory_path() / "td-fuzz-XXXXXX").string();
    const std::string made = mkdtemp(name.data());
    std::atexit([] { fs::remove_all(Folder()); });
    return made;
  }());
  return folder;
}

void Empty() {
  for (const auto& entry : fs::directory_iterator(Folder())) fs::remove_all(entry.path());
}

Publications::Draft Draft(FakeRuntime& runtime, const std::string& name, size_t tensors) {
  Publications::Draft draft{.owner = "alice", .name = name, .readers = {"bob"}, .tensors = {}};
  for (size_t i = 0; i < tensors; ++i) {
    auto buffer = std::make_shared<Buffer>();
    buffer->dtype = i % 2 == 0 ? DType::kFloat32 : DType::kUint8;
    buffer->shape = {static_cast<int64_t>(i), 4};
    const size_t bytes = 4 * i * ItemSize(buffer->dtype);
    buffer->memory = *runtime.device().allocator().Allocate(bytes);
    if (bytes > 0) std::memset(buffer->memory->host_address(), static_cast<int>(i), bytes);
    draft.tensors.push_back({.key = std::to_string(i), .buffer = buffer, .published = nullptr});
    if (i == 1) draft.tensors.push_back({.key = "tied", .buffer = buffer, .published = nullptr});
  }
  return draft;
}

}  // namespace

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  for (const size_t tensors : {1, 2, 4}) {
    Empty();
    MemoryLedger ledger(uint64_t{1} << 40);
    FakeRuntime runtime;
    {
      Publications publications(ledger);
      publications.Restore(Folder(), runtime).IgnoreError();
      publications.Publish(Draft(runtime, "weights", tensors)).IgnoreError();
    }
    for (const auto& entry : fs::directory_iterator(Folder())) {
      std::ifstream file(entry.path(), std::ios::binary);
      const std::string bytes{std::istreambuf_iterator<char>(file), {}};
      seeds.push_back('\0' + bytes);
      seeds.push_back('\1' + bytes);
    }
  }
  return seeds;
}

std::string Try(std::string_view input) {
  if (input.empty()) return "";
  std::string file(input.substr(1));
  std::string name = "any";
  if (input[0] % 2 != 0 && file.size() >= kBefore + kHashBytes) {
    const std::string body = file.substr(0, file.size() - kHashBytes);
    uint64_t length;
    std::memcpy(&length, body.data() + 8, sizeof(length));
    sharing::SnapshotHeader header;
    if (length <= body.size() - kBefore &&
        header.ParseFromString(body.substr(kBefore, static_cast<size_t>(length)))) {
      name = absl::BytesToHexString(Hash(header.owner() + '\0' + header.name()));
    }
    file = body + Hash(body);
  }
  Empty();
  std::ofstream(Folder() + "/" + name + ".published", std::ios::binary) << file;
  MemoryLedger ledger(uint64_t{1} << 40);
  FakeRuntime runtime;
  runtime.device().SetCapacity(1 << 20);
  const auto in_use = [&] { return runtime.device().allocator().stats().in_use_bytes; };
  {
    Publications publications(ledger, {.max_published_bytes = 1 << 16});
    if (const absl::Status status = publications.Restore(Folder(), runtime); !status.ok()) {
      return "a file keeps the daemon from starting: " + status.ToString();
    }
    const Publications::Stats stats = publications.stats();
    if (stats.bytes > 1 << 16) return "more is published than the limit allows";
    for (const PublicationRef& each : publications.List("", /*all=*/true)) {
      uint64_t bytes = 0;
      for (const auto& tensor : each->tensors) {
        const Buffer& buffer = *tensor.buffer->buffer();
        const uint64_t size = NumElements(buffer.shape) * ItemSize(buffer.dtype);
        if (size != buffer.memory->size()) {
          return "a tensor whose shape is not that of its memory";
        }
        bytes += tensor.buffer->bytes();
      }
      if (each->bytes() > bytes) return "a publication larger than its tensors";
      if (!publications.Unpublish(each->owner, each->name).ok()) return "it can't be taken back";
    }
    if (publications.stats().bytes != 0) return "bytes are charged for what is not published";
  }
  return in_use() == 0 ? "" : "memory stays";
}

}  // namespace tensord::fuzz
