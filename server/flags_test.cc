#include "server/flags.h"

#include <gtest/gtest.h>

#include <map>

#include "core/base/status.h"

namespace tensord {
namespace {

Environment Fake(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

TEST(FlagsTest, DefaultsAreUsable) {
  const auto flags = ParseFlags({}, Fake({{"HOME", "/home/me"}}));
  ASSERT_TRUE(flags.ok()) << flags.status();
  EXPECT_EQ(flags->listen.size(), 1u);
  EXPECT_EQ(flags->devices, "cpu");
  EXPECT_EQ(flags->cache_dir, "/home/me/.cache/tensord/kernels");
  EXPECT_EQ(flags->cache_bytes, uint64_t{1} << 30);
  EXPECT_EQ(flags->drain_timeout, absl::Seconds(30));
  EXPECT_EQ(flags->ready_fd, -1);
}

TEST(FlagsTest, CommandLineWinsOverEnvironmentWinsOverDefault) {
  const Environment environment = Fake({{"TENSORD_CACHE_DIR", "/from/variable"},
                                        {"TENSORD_DEVICES", "null"},
                                        {"TENSORD_ALLOW_REMOTE", "true"},
                                        {"XDG_CACHE_HOME", "/cache"}});
  const auto flags = ParseFlags({"--devices", "cpu:2", "--log-level=debug"}, environment);
  ASSERT_TRUE(flags.ok()) << flags.status();
  EXPECT_EQ(flags->devices, "cpu:2");
  EXPECT_EQ(flags->cache_dir, "/from/variable");
  EXPECT_TRUE(flags->allow_remote);
  EXPECT_EQ(flags->log_level, "debug");
}

TEST(FlagsTest, ListenTakesSeveral) {
  const auto flags =
      ParseFlags({"--listen", "unix:a.sock, localhost:1", "--listen=unix:b.sock"}, Fake({}));
  ASSERT_TRUE(flags.ok()) << flags.status();
  EXPECT_EQ(flags->listen, (std::vector<std::string>{"unix:a.sock", "localhost:1", "unix:b.sock"}));
}

TEST(FlagsTest, BadFlagsAreNamed) {
  const struct {
    std::vector<std::string> arguments;
    const char* error;
  } kCases[] = {
      {{"--lissen", "x"}, "--lissen does not exist: see tensord --help"},
      {{"serve"}, "'serve' is not a flag"},
      {{"--devices"}, "--devices needs a value"},
      {{"--cpu-threads", "many"}, "--cpu-threads=many: takes a number from 0 on"},
      {{"--cpu-threads=-1"}, "--cpu-threads=-1: takes a number"},
      {{"--cache-bytes=1GB"}, "--cache-bytes=1GB: takes a number, of bytes or with KiB"},
      {{"--cache-bytes=99999999TiB"}, "takes a number, of bytes or with KiB"},
      {{"--drain-timeout=soon"}, "takes a duration such as"},
      {{"--allow-remote=maybe"}, "takes true or false"},
      {{"--max-message-bytes=4GiB"}, "gRPC allows less than 2 GiB"},
      {{"--listen="}, "--listen needs an address"},
  };
  for (const auto& test : kCases) {
    const absl::Status status = ParseFlags(test.arguments, Fake({})).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(Message(status).find(test.error), std::string_view::npos) << status;
  }
}

TEST(FlagsTest, BadVariableIsNamed) {
  const absl::Status status = ParseFlags({}, Fake({{"TENSORD_CPU_THREADS", "two"}})).status();
  EXPECT_EQ(Message(status), "TENSORD_CPU_THREADS=two: takes a number from 0 on");
}

TEST(FlagsTest, HelpNamesEachFlagWithDefaultAndVariable) {
  const std::string help = FlagsHelp(Fake({{"HOME", "/home/me"}}));
  for (const char* name :
       {"listen", "allow-remote", "devices", "cpu-threads", "memory-bytes", "compile-threads",
        "cache-dir", "cache-bytes", "max-message-bytes", "max-graph-nodes", "max-tensor-bytes",
        "max-session-bytes", "drain-timeout", "log-level", "log-file", "exit-with-parent",
        "ready-fd"}) {
    std::string variable = std::string("environment: TENSORD_") + name;
    for (size_t i = sizeof("environment: "); i < variable.size(); ++i) {
      variable[i] = variable[i] == '-' ? '_' : static_cast<char>(std::toupper(variable[i]));
    }
    EXPECT_NE(help.find(std::string("--") + name), std::string::npos) << name;
    EXPECT_NE(help.find(variable), std::string::npos) << variable;
  }
  EXPECT_NE(help.find("default: /home/me/.cache/tensord/kernels"), std::string::npos) << help;
}

TEST(FlagsTest, BytesTakeUnits) {
  EXPECT_EQ(*ParseBytes("0"), 0u);
  EXPECT_EQ(*ParseBytes("4096"), 4096u);
  EXPECT_EQ(*ParseBytes("3KiB"), 3072u);
  EXPECT_EQ(*ParseBytes("2TiB"), uint64_t{2} << 40);
  EXPECT_FALSE(ParseBytes("").ok());
  EXPECT_FALSE(ParseBytes("KiB").ok());
  EXPECT_FALSE(ParseBytes("-1").ok());
}

}  // namespace
}  // namespace tensord
