// What a service manager and the daemon tell each other: systemd's protocols, which are few lines
// and need no library. Without a manager each of these does nothing.
//
//   const std::vector<int> sockets = InheritedDescriptors();   // LISTEN_FDS
//   NotifyManager("READY=1");                                  // NOTIFY_SOCKET
//   Watchdog watchdog(WatchdogInterval(), server.Probe());
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/status/status.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/time.h>

#include <functional>
#include <string_view>
#include <thread>
#include <vector>

namespace tensord {

// The sockets that the manager opened for this process, which owns them now. Empties the variables
// that tell of them, so that they are taken once.
std::vector<int> InheritedDescriptors();

// Sends lines of NAME=VALUE to the manager. OK if there is none.
absl::Status NotifyManager(std::string_view lines);

// Around a re-reading of the configuration: what systemd 253 and later want of Type=notify-reload.
absl::Status NotifyReloading();

// How often the manager wants to hear of us at least; infinite if it doesn't.
absl::Duration WatchdogInterval();

// Tells the manager twice an interval that we are alive, as long as `alive` says so.
class Watchdog {
 public:
  Watchdog(absl::Duration interval, std::function<bool(absl::Duration patience)> alive);
  ~Watchdog();

 private:
  void Run();

  const absl::Duration interval_;
  const std::function<bool(absl::Duration)> alive_;
  absl::Mutex mu_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::jthread thread_;
};

}  // namespace tensord
