// A proxy between gRPC clients and a daemon, on unix sockets, that breaks connections where it is
// told: after so many HTTP/2 frames that carry messages, and so many bytes of the next one.
//
//   CuttingProxy proxy(folder + "/p.sock", folder + "/t.sock");
//   proxy.CutAfter(CuttingProxy::kToServer, {.frames = 3});
//   ... clients of proxy.address() ...
//   EXPECT_EQ(proxy.cuts(), 1);
//
// Thread-safe.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace tensord {

class CuttingProxy {
 public:
  enum Direction { kToServer, kToClient };
  struct Place {
    int frames = 0;    // HEADERS and DATA, from now on
    size_t bytes = 0;  // of the next one
  };

  CuttingProxy(const std::string& path, std::string target);
  ~CuttingProxy();

  const std::string& address() const { return address_; }

  // All connections, once.
  void CutAfter(Direction direction, Place place);
  void CutNow();
  // Connections that are made meanwhile break at once.
  void Refuse(bool refuse);
  // Nothing passes any more on the present connections, which stay open.
  void Freeze();
  int cuts() const;  // how many have happened since CutAfter

 private:
  struct Connection;

  void Accept();
  void Pump(Connection& connection, Direction direction);
  // Passes on what is complete in `pending`, and breaks the connections if it is time.
  bool Pass(int to, Direction direction, std::string& pending, bool& greeted);
  void CutAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::string target_, address_;
  int listener_;
  mutable absl::Mutex mu_;
  std::array<std::optional<Place>, 2> places_ ABSL_GUARDED_BY(mu_);
  int cuts_ ABSL_GUARDED_BY(mu_) = 0;
  bool refuses_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::unique_ptr<Connection>> connections_ ABSL_GUARDED_BY(mu_);
  std::jthread accepts_;
};

}  // namespace tensord
