// For tests of the daemon as a process: starts one, and holds its standard input, its output and
// what else a parent or a service manager has in hand. Not thread-safe.
#pragma once

#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proto/tensord/v1/admin.grpc.pb.h"

namespace tensord {

// What a service manager gives its child.
struct Surroundings {
  std::map<std::string, std::string> environment;
  std::vector<int> listen;  // LISTEN_FDS
};

// A child process with its standard input, output and a ready pipe in our hands.
class Process {
 public:
  Process(std::vector<std::string> arguments, bool ready_pipe, const Surroundings& around = {}) {
    int in[2], out[2], ready[2];
    EXPECT_EQ(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC) | pipe2(ready, O_CLOEXEC), 0);
    arguments.insert(arguments.begin(), "server/tensord");
    if (ready_pipe) {
      arguments.push_back("--ready-fd");
      arguments.push_back("100");
    }
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(in[0], STDIN_FILENO);
      dup2(out[1], STDOUT_FILENO);
      dup2(out[1], STDERR_FILENO);
      dup2(ready[1], 100);
      for (const auto& [name, value] : around.environment) {
        setenv(name.c_str(), value.c_str(), 1);
      }
      Inherit(around.listen);
      execv(argv[0], argv.data());
      _exit(127);
    }
    close(in[0]);
    close(out[1]);
    close(ready[1]);
    in_ = in[1];
    out_ = out[0];
    ready_ = ready[0];
  }
  ~Process() {
    if (!exit_code_) {
      kill(pid_, SIGKILL);
      Wait();
    }
    CloseInput();
    close(out_);
    close(ready_);
  }

  std::string Output() { return ReadAll(out_); }
  // The line on the ready pipe; empty if the daemon ended instead.
  std::string Address() {
    std::string line = ReadAll(ready_);
    return line.empty() ? line : line.substr(0, line.size() - 1);
  }
  void CloseInput() {
    if (in_ >= 0) close(std::exchange(in_, -1));
  }
  void Signal(int signal) { kill(pid_, signal); }
  // The exit code, or minus the signal that ended it.
  int Wait() {
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    return *exit_code_;
  }

 private:
  // In the child: descriptors from 3 on, and the variables that tell of them.
  static void Inherit(const std::vector<int>& listen) {
    if (listen.empty()) return;
    constexpr int kFirst = 3, kAside = 200;
    for (size_t i = 0; i < listen.size(); ++i) dup2(listen[i], kAside + static_cast<int>(i));
    for (size_t i = 0; i < listen.size(); ++i) {
      dup2(kAside + static_cast<int>(i), kFirst + static_cast<int>(i));
      close(kAside + static_cast<int>(i));
    }
    setenv("LISTEN_PID", std::to_string(getpid()).c_str(), 1);
    setenv("LISTEN_FDS", std::to_string(listen.size()).c_str(), 1);
  }
  static std::string ReadAll(int fd) {
    std::string text;
    char buffer[4096];
    for (ssize_t got; (got = read(fd, buffer, sizeof(buffer))) > 0;) text.append(buffer, got);
    return text;
  }

  pid_t pid_;
  int in_, out_, ready_;
  std::optional<int> exit_code_;
};

class DaemonTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/td-XXXXXX";
    folder_ = mkdtemp(name);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Listen() const { return "unix:" + folder_ + "/t.sock"; }
  std::vector<std::string> Arguments(std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments = {"--listen", Listen(),      "--devices",
                                          "null",     "--cache-dir", folder_ + "/cache"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  static bool Answers(const std::string& address) {
    const auto stub =
        v1::AdminService::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    v1::PingReply reply;
    return stub->Ping(&context, {}, &reply).ok();
  }

  std::string folder_;
};

}  // namespace tensord
