#include "tests/resume/cutting_proxy.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace tensord {
namespace {

constexpr size_t kPreface = 24;  // that a client sends before its first frame
constexpr size_t kHeader = 9;    // of a frame
constexpr int kData = 0, kHeaders = 1;

sockaddr_un Address(const std::string& path) {
  sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  return address;
}

bool WriteAll(int fd, const char* data, size_t size) {
  while (size > 0) {
    const ssize_t written = send(fd, data, size, MSG_NOSIGNAL);
    if (written <= 0) return false;
    data += written;
    size -= static_cast<size_t>(written);
  }
  return true;
}

}  // namespace

struct CuttingProxy::Connection {
  ~Connection() {
    Break();
    for (std::jthread& pump : pumps) pump.join();
    close(client);
    close(server);
  }
  void Break() const {
    shutdown(client, SHUT_RDWR);
    shutdown(server, SHUT_RDWR);
  }

  int client, server;
  bool frozen = false;  // guarded by the proxy's lock
  std::vector<std::jthread> pumps;
};

CuttingProxy::CuttingProxy(const std::string& path, std::string target)
    : target_(std::move(target)),
      address_("unix:" + path),
      listener_(socket(AF_UNIX, SOCK_STREAM, 0)) {
  const sockaddr_un address = Address(path);
  TD_CHECK(bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
               listen(listener_, 1024) == 0,
           "a socket for the proxy");
  accepts_ = std::jthread([this] { Accept(); });
}

CuttingProxy::~CuttingProxy() {
  shutdown(listener_, SHUT_RDWR);
  accepts_.join();
  close(listener_);
  std::vector<std::unique_ptr<Connection>> dying;  // without the lock, which their pumps take
  absl::MutexLock lock(&mu_);
  dying.swap(connections_);
}

void CuttingProxy::CutAfter(Direction direction, Place place) {
  absl::MutexLock lock(&mu_);
  places_ = {};
  places_[direction] = place;
  cuts_ = 0;
}

void CuttingProxy::CutNow() {
  absl::MutexLock lock(&mu_);
  CutAll();
}

void CuttingProxy::Refuse(bool refuse) {
  absl::MutexLock lock(&mu_);
  refuses_ = refuse;
}

void CuttingProxy::Freeze() {
  absl::MutexLock lock(&mu_);
  for (const auto& connection : connections_) connection->frozen = true;
}

int CuttingProxy::cuts() const {
  absl::MutexLock lock(&mu_);
  return cuts_;
}

void CuttingProxy::CutAll() {
  ++cuts_;
  for (const auto& connection : connections_) connection->Break();
}

void CuttingProxy::Accept() {
  for (;;) {
    const int client = accept(listener_, nullptr, nullptr);
    if (client < 0) return;
    const int server = socket(AF_UNIX, SOCK_STREAM, 0);
    const sockaddr_un address = Address(target_);
    absl::MutexLock lock(&mu_);
    if (refuses_ ||
        connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      close(client);
      close(server);
      continue;
    }
    auto connection = std::make_unique<Connection>();
    connection->client = client;
    connection->server = server;
    for (const Direction direction : {kToServer, kToClient}) {
      connection->pumps.emplace_back(
          [this, direction, at = connection.get()] { Pump(*at, direction); });
    }
    connections_.push_back(std::move(connection));
  }
}

void CuttingProxy::Pump(Connection& connection, Direction direction) {
  const int from = direction == kToServer ? connection.client : connection.server;
  const int to = direction == kToServer ? connection.server : connection.client;
  std::string pending;
  std::vector<char> buffer(1 << 16);
  bool greeted = direction == kToClient;
  for (ssize_t got; (got = read(from, buffer.data(), buffer.size())) > 0;) {
    {
      absl::MutexLock lock(&mu_);
      if (connection.frozen) continue;
    }
    pending.append(buffer.data(), static_cast<size_t>(got));
    if (!Pass(to, direction, pending, greeted)) break;
  }
  connection.Break();
}

bool CuttingProxy::Pass(int to, Direction direction, std::string& pending, bool& greeted) {
  size_t begin = 0;
  for (;;) {
    const char* at = pending.data() + begin;
    const size_t left = pending.size() - begin;
    size_t size = kPreface;
    bool counts = false;
    if (greeted) {
      if (left < kHeader) break;
      const auto byte = [at](int i) { return static_cast<unsigned char>(at[i]); };
      size = kHeader + (size_t{byte(0)} << 16 | size_t{byte(1)} << 8 | byte(2));
      counts = byte(3) == kData || byte(3) == kHeaders;
    }
    if (left < size) break;
    greeted = true;
    bool last = false;
    if (counts) {
      absl::MutexLock lock(&mu_);
      std::optional<Place>& place = places_[direction];
      if (place && place->frames-- == 0) {
        size = std::min(size, place->bytes);
        last = true;
        place.reset();
      }
    }
    const bool written = WriteAll(to, at, size);
    if (last) {
      absl::MutexLock lock(&mu_);
      CutAll();
      return false;
    }
    if (!written) return false;
    begin += size;
  }
  pending.erase(0, begin);
  return true;
}

}  // namespace tensord
