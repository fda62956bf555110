// The daemon under a service manager, whose part the tests play: they open its sockets, hear its
// notifications and tell it to read its configuration again.
#include <absl/time/time.h>
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "server/systemd.h"
#include "server/test_process.h"

namespace tensord {
namespace {

struct UnixAddress {
  explicit UnixAddress(const std::string& name) {
    std::memcpy(address.sun_path, name.data(), name.size());
    if (name[0] == '@') address.sun_path[0] = '\0';
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }

  sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
  socklen_t size;
};

// The manager's end of NOTIFY_SOCKET.
class Notifications {
 public:
  explicit Notifications(const std::string& name)
      : fd_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    const UnixAddress address(name);
    EXPECT_EQ(bind(fd_, address.get(), address.size), 0);
  }
  ~Notifications() { close(fd_); }

  // Waits for it.
  std::string Next() {
    char buffer[4096];
    const ssize_t got = recv(fd_, buffer, sizeof(buffer), 0);
    return got < 0 ? "" : std::string(buffer, got);
  }
  // The first that is neither of these.
  std::string NextBut(const std::string& unwanted) {
    std::string next;
    do next = Next();
    while (next == unwanted);
    return next;
  }

 private:
  const int fd_;
};

int ListenOn(const std::string& path) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const UnixAddress address(path);
  EXPECT_EQ(bind(fd, address.get(), address.size), 0);
  EXPECT_EQ(listen(fd, 16), 0);
  return fd;
}

// A port of the machine's choice; `type` as for socket().
int BindTcp(in_addr_t host, int type, std::string* address) {
  const int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
  sockaddr_in name = {.sin_family = AF_INET};
  name.sin_addr.s_addr = htonl(host);
  socklen_t size = sizeof(name);
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&name), size), 0);
  if (type == SOCK_STREAM) {
    EXPECT_EQ(listen(fd, 16), 0);
  }
  EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size), 0);
  *address = "127.0.0.1:" + std::to_string(ntohs(name.sin_port));
  return fd;
}

class ManagerTest : public DaemonTest {
 protected:
  std::vector<std::string> WithoutListen() const {
    return {"--devices", "null", "--cache-dir", "none", "--config", "none"};
  }
  std::string Read(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
};

TEST_F(ManagerTest, HearsWhenTheDaemonServesAndEnds) {
  for (const std::string& name : {folder_ + "/notify", "@" + folder_ + "/notify"}) {
    Notifications manager(name);
    Process daemon(Arguments(), false, {.environment = {{"NOTIFY_SOCKET", name}}});
    EXPECT_EQ(manager.Next(), "READY=1\nSTATUS=serving on " + Listen());
    EXPECT_TRUE(Answers(Listen()));
    daemon.Signal(SIGTERM);
    EXPECT_EQ(manager.Next(), "STOPPING=1");
    EXPECT_EQ(daemon.Wait(), 0);
  }
}

TEST_F(ManagerTest, OneThatCannotBeReachedIsNoReasonToEnd) {
  for (const char* name : {"/nowhere/notify", "notify"}) {
    Process daemon(Arguments(), true, {.environment = {{"NOTIFY_SOCKET", name}}});
    EXPECT_EQ(daemon.Address(), Listen());
    daemon.Signal(SIGTERM);
    EXPECT_EQ(daemon.Wait(), 0);
    EXPECT_NE(daemon.Output().find(std::string("NOTIFY_SOCKET=") + name), std::string::npos);
  }
}

TEST_F(ManagerTest, ServesOnASocketThatOutlivesIt) {
  const std::string path = folder_ + "/s.sock";
  const int listener = ListenOn(path);
  for (int round = 0; round < 2; ++round) {
    // Before a daemon is there, as after it ended: a client waits instead of being refused.
    const int early = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const UnixAddress address(path);
    EXPECT_EQ(connect(early, address.get(), address.size), 0);
    Process daemon(WithoutListen(), true, {.listen = {listener}});
    EXPECT_EQ(daemon.Address(), "unix:" + path);
    EXPECT_TRUE(Answers("unix:" + path));
    // gRPC's server speaks first, by its settings.
    char byte;
    EXPECT_EQ(read(early, &byte, 1), 1);
    close(early);
    daemon.Signal(SIGTERM);
    EXPECT_EQ(daemon.Wait(), 0);
    EXPECT_TRUE(std::filesystem::exists(path));
  }
  close(listener);
}

TEST_F(ManagerTest, ServesOnSeveralSocketsAndWhatItWasAskedFor) {
  const int first = ListenOn(folder_ + "/a.sock");
  std::string tcp;
  const int second = BindTcp(INADDR_LOOPBACK, SOCK_STREAM, &tcp);
  Process daemon(Arguments(), true, {.listen = {first, second}});
  EXPECT_EQ(daemon.Address(), Listen());
  EXPECT_TRUE(Answers(Listen()));
  EXPECT_TRUE(Answers("unix:" + folder_ + "/a.sock"));
  EXPECT_TRUE(Answers(tcp));
  close(first);
  close(second);
}

TEST_F(ManagerTest, SocketsThatAreOfNoUseAreRefused) {
  std::string address;
  const struct {
    int fd;
    std::string error;
  } cases[] = {
      {BindTcp(INADDR_ANY, SOCK_STREAM, &address), "other machines could connect"},
      {BindTcp(INADDR_LOOPBACK, SOCK_DGRAM, &address), "does not listen for streams"},
      {socket(AF_UNIX, SOCK_STREAM, 0), "does not listen for streams"},
      {open("/dev/null", O_RDONLY), "is no socket"},
  };
  for (const auto& test : cases) {
    Process daemon(WithoutListen(), true, {.listen = {test.fd}});
    EXPECT_EQ(daemon.Address(), "");
    EXPECT_EQ(daemon.Wait(), 1);
    const std::string output = daemon.Output();
    EXPECT_NE(output.find(test.error), std::string::npos) << output;
    close(test.fd);
  }
}

TEST_F(ManagerTest, ReadsItsConfigurationAgain) {
  const std::string file = folder_ + "/t.toml", log = folder_ + "/log", name = folder_ + "/notify";
  std::ofstream(file) << "log-file = \"" + log + "\"\n";
  Notifications manager(name);
  Process daemon(Arguments({"--config", file}), false, {.environment = {{"NOTIFY_SOCKET", name}}});
  EXPECT_EQ(manager.Next(), "READY=1\nSTATUS=serving on " + Listen());
  const auto hangup = [&] {
    daemon.Signal(SIGHUP);
    EXPECT_EQ(manager.Next().substr(0, 27), "RELOADING=1\nMONOTONIC_USEC=");
    EXPECT_EQ(manager.Next(), "READY=1");
  };
  std::ofstream(file) << "log-file = \"" + log + "\"\nlog-level = \"debug\"\ncpu-threads = 2\n"
                      << "devices = \"cpu\"\n";  // hidden by the command line
  hangup();
  std::string text = Read(log);
  EXPECT_NE(text.find("changed flag=log-level from=\"info\" to=\"debug\" origin=" + file + ":2:1"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("needs a restart flag=cpu-threads from=0 to=2"), std::string::npos) << text;
  EXPECT_NE(text.find("changes=2"), std::string::npos) << text;
  EXPECT_TRUE(Answers(Listen()));

  // What is wrong changes nothing, not even what is right beside it.
  std::ofstream(file) << "log-level = \"error\"\nmax-session-bytes = \"much\"\n";
  hangup();
  text = Read(log);
  EXPECT_NE(text.find("nothing is changed because of " + file +
                      ":2:1: max-session-bytes = \"much\": takes a number"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("to=\"error\""), std::string::npos) << text;
  EXPECT_NE(text.find("[debug] Ping status=OK"), std::string::npos) << text;

  // A log that was moved away goes on in a new file.
  std::filesystem::rename(log, log + ".1");
  std::ofstream(file) << "log-file = \"" + log + "\"\n";
  hangup();
  EXPECT_NE(Read(log).find("changed flag=log-level from=\"debug\" to=\"info\" origin=default"),
            std::string::npos);
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0);
}

TEST_F(ManagerTest, IsToldThatTheDaemonLives) {
  const std::string name = folder_ + "/notify";
  Notifications manager(name);
  Process daemon(Arguments(), false,
                 {.environment = {{"NOTIFY_SOCKET", name}, {"WATCHDOG_USEC", "100000"}}});
  EXPECT_EQ(manager.NextBut("WATCHDOG=1").substr(0, 7), "READY=1");
  EXPECT_EQ(manager.Next(), "WATCHDOG=1");
  EXPECT_EQ(manager.Next(), "WATCHDOG=1");
  daemon.Signal(SIGTERM);
  EXPECT_EQ(manager.NextBut("WATCHDOG=1"), "STOPPING=1");
  EXPECT_EQ(daemon.Wait(), 0);
}

TEST_F(ManagerTest, IsNotToldWhileNothingAnswers) {
  const std::string name = folder_ + "/notify";
  Notifications manager(name);
  setenv("NOTIFY_SOCKET", name.c_str(), 1);
  std::atomic<int> asked = 0;
  {
    const Watchdog watchdog(absl::Milliseconds(2), [&](absl::Duration) { return ++asked > 3; });
    EXPECT_EQ(manager.Next(), "WATCHDOG=1");
    EXPECT_GT(asked, 3);
  }
  unsetenv("NOTIFY_SOCKET");
}

TEST(SystemdTest, WhatIsMeantForAnotherProcessIsNotForUs) {
  const struct {
    const char *microseconds, *pid;
    absl::Duration interval;
  } kCases[] = {{"500", nullptr, absl::Microseconds(500)},
                {"500", "1", absl::InfiniteDuration()},
                {"0", nullptr, absl::InfiniteDuration()},
                {"soon", nullptr, absl::InfiniteDuration()}};
  for (const auto& test : kCases) {
    setenv("WATCHDOG_USEC", test.microseconds, 1);
    if (test.pid) setenv("WATCHDOG_PID", test.pid, 1);
    EXPECT_EQ(WatchdogInterval(), test.interval) << test.microseconds;
    unsetenv("WATCHDOG_PID");
  }
  unsetenv("WATCHDOG_USEC");
  EXPECT_EQ(WatchdogInterval(), absl::InfiniteDuration());
  setenv("LISTEN_FDS", "1", 1);
  setenv("LISTEN_PID", "1", 1);
  EXPECT_TRUE(InheritedDescriptors().empty());
  EXPECT_EQ(std::getenv("LISTEN_FDS"), nullptr);
  EXPECT_TRUE(NotifyManager("READY=1").ok());
}

}  // namespace
}  // namespace tensord
