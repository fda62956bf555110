#include "server/flags.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
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

absl::StatusOr<Flags> ParseFlags(const std::vector<std::string>& arguments,
                                 const Environment& environment) {
  const auto configuration = Configure(arguments, environment, "none");
  if (!configuration.ok()) return configuration.status();
  return configuration->flags;
}

// A config file that goes with the test.
class ConfigTest : public testing::Test {
 protected:
  void Write(const std::string& text) { std::ofstream(path_) << text; }
  absl::StatusOr<Configuration> Read(const std::vector<std::string>& arguments = {},
                                     std::map<std::string, std::string> variables = {}) {
    return Configure(arguments, Fake(std::move(variables)), path_);
  }
  void TearDown() override { std::filesystem::remove(path_); }

  const std::string path_ = testing::TempDir() + "/flags_test.toml";
};

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
                                        {"TENSORD_INSECURE", "true"},
                                        {"XDG_CACHE_HOME", "/cache"}});
  const auto flags = ParseFlags({"--devices", "cpu:2", "--log-level=debug"}, environment);
  ASSERT_TRUE(flags.ok()) << flags.status();
  EXPECT_EQ(flags->devices, "cpu:2");
  EXPECT_EQ(flags->cache_dir, "/from/variable");
  EXPECT_TRUE(flags->insecure);
  EXPECT_EQ(flags->log_level, "debug");
}

TEST(FlagsTest, ListenTakesSeveral) {
  const auto flags =
      ParseFlags({"--listen", "unix:/a.sock, localhost:1", "--listen=unix:/b.sock"}, Fake({}));
  ASSERT_TRUE(flags.ok()) << flags.status();
  EXPECT_EQ(flags->listen,
            (std::vector<std::string>{"unix:/a.sock", "localhost:1", "unix:/b.sock"}));
}

TEST(FlagsTest, BadFlagsAreNamed) {
  const struct {
    std::vector<std::string> arguments;
    const char* error;
  } kCases[] = {
      {{"--lissen", "x"}, "--lissen does not exist; the nearest is --listen: see tensord --help"},
      {{"serve"}, "'serve' is not a flag"},
      {{"--devices"}, "--devices needs a value"},
      {{"--cpu-threads", "many"}, "--cpu-threads=many: takes a number from 0 on"},
      {{"--cpu-threads=-1"}, "--cpu-threads=-1: takes a number"},
      {{"--cache-bytes=1GB"}, "--cache-bytes=1GB: takes a number, of bytes or with KiB"},
      {{"--cache-bytes=99999999TiB"}, "takes a number, of bytes or with KiB"},
      {{"--drain-timeout=soon"}, "takes a duration such as"},
      {{"--insecure=maybe"}, "takes true or false"},
      {{"--max-message-bytes=4GiB"}, "--max-message-bytes=4GiB: takes 2MiB to 2047MiB"},
      {{"--listen="}, "--listen needs an address"},
      {{"--listen=nowhere"}, "--listen: nowhere: there is no port"},
      {{"--listen=0.0.0.0:1"}, "other machines could connect"},
      {{"--metrics-listen=[::]:1"}, "other machines could connect"},
      {{"--metrics-listen=0.0.0.0:1", "--tls-cert=c", "--tls-key=k", "--auth-tokens=t"},
       "metrics are for everybody"},
      {{"--console-listen=0.0.0.0:1"},
       "what the console shows and who asks would not be encrypted; listen on localhost "
       "and reach it through ssh -L, or add --insecure"},
      {{"--console-listen=0.0.0.0:1", "--tls-cert=c", "--tls-key=k"}, "other machines could"},
      {{"--console-listen=unix:/c"}, "browsers need HOST:PORT"},
      {{"--listen=0.0.0.0:1", "--tls-cert=c", "--tls-key=k"},
       "other machines could connect, and anybody would be let in; listen on localhost, or give "
       "--auth-tokens or --tls-client-ca, or add"},
      {{"--listen=0.0.0.0:1", "--auth-tokens=t"}, "other machines could connect"},
      {{"--tls-cert=c"}, "--tls-cert needs --tls-key as well"},
      {{"--tls-key=k"}, "--tls-key needs --tls-cert as well"},
      {{"--tls-client-ca=a"}, "--tls-client-ca needs --tls-cert"},
      {{"--auth-tokens=t"}, "--auth-tokens needs --tls-cert"},
      {{"--socket-mode=0888"}, "--socket-mode=0888: takes permissions in octal"},
      {{"--socket-mode=2777"}, "--socket-mode=2777: takes permissions in octal"},
      {{"--log-level=loud"}, "--log-level=loud: takes trace, debug, info, warn, error or off"},
      {{"--metrics-sessions=10001"}, "--metrics-sessions=10001: takes 0 to 10000"},
  };
  for (const auto& test : kCases) {
    const absl::Status status = ParseFlags(test.arguments, Fake({})).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(Message(status).find(test.error), std::string_view::npos) << status;
  }
}

TEST(FlagsTest, OtherMachinesMayConnectIfTheyProveWhoTheyAre) {
  const std::vector<std::string> base = {"--listen=0.0.0.0:1"};
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{
           {"--insecure"},
           {"--tls-cert=c", "--tls-key=k", "--auth-tokens=t"},
           {"--tls-cert=c", "--tls-key=k", "--tls-client-ca=a"}}) {
    std::vector<std::string> arguments = base;
    arguments.insert(arguments.end(), more.begin(), more.end());
    const auto configuration = Configure(arguments, Fake({}), "none");
    ASSERT_TRUE(configuration.ok()) << configuration.status();
    EXPECT_EQ(configuration->secure(), more.size() > 1);
  }
}

TEST(FlagsTest, TheConsoleIsForOtherMachinesIfTheNetworkIsTrusted) {
  const auto configuration =
      Configure({"--console-listen=0.0.0.0:1", "--insecure"}, Fake({}), "none");
  ASSERT_TRUE(configuration.ok()) << configuration.status();
  EXPECT_EQ(configuration->flags.console_listen, "0.0.0.0:1");
}

TEST(FlagsTest, BadVariableIsNamed) {
  const absl::Status status = ParseFlags({}, Fake({{"TENSORD_CPU_THREADS", "two"}})).status();
  EXPECT_EQ(Message(status), "TENSORD_CPU_THREADS=two: takes a number from 0 on");
}

TEST(FlagsTest, HelpNamesEachFlagWithDefaultAndVariable) {
  const std::string help = FlagsHelp(Fake({{"HOME", "/home/me"}}));
  for (const char* name :
       {"config",           "metrics-listen",   "metrics-sessions",  "listen",
        "insecure",         "devices",          "cpu-threads",       "memory-bytes",
        "compile-threads",  "cache-dir",        "cache-bytes",       "max-message-bytes",
        "max-graph-nodes",  "max-tensor-bytes", "max-session-bytes", "drain-timeout",
        "log-level",        "log-file",         "exit-with-parent",  "ready-fd",
        "socket-mode",      "tls-cert",         "tls-key",           "tls-client-ca",
        "auth-tokens",      "admin-users",      "spill-host-bytes",  "spill-dir",
        "spill-disk-bytes", "console-listen"}) {
    std::string variable = std::string("environment: TENSORD_") + name;
    for (size_t i = sizeof("environment: "); i < variable.size(); ++i) {
      variable[i] = variable[i] == '-' ? '_' : static_cast<char>(std::toupper(variable[i]));
    }
    EXPECT_NE(help.find(std::string("--") + name), std::string::npos) << name;
    EXPECT_NE(help.find(variable), std::string::npos) << variable;
  }
  EXPECT_NE(help.find("default: /home/me/.cache/tensord/kernels"), std::string::npos) << help;
}

TEST_F(ConfigTest, FileStandsBetweenEnvironmentAndDefault) {
  Write(
      "# a comment\n"
      "devices = \"cpu:2\"\n"
      "cpu-threads = 3\n"
      "listen = [\"unix:/a.sock\", \"localhost:1\"]\n"
      "max-session-bytes = \"2GiB\"\n"
      "max-tensor-bytes = 5000\n"
      "insecure = true\n"
      "drain-timeout = \"2m\"\n"
      "cache-dir = \"/from/file\"\n");
  const auto read = Read({"--cpu-threads=7"}, {{"TENSORD_CACHE_DIR", "/from/variable"}});
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->flags.devices, "cpu:2");
  EXPECT_EQ(read->flags.cpu_threads, 7);
  EXPECT_EQ(read->flags.listen, (std::vector<std::string>{"unix:/a.sock", "localhost:1"}));
  EXPECT_EQ(read->flags.max_session_bytes, uint64_t{2} << 30);
  EXPECT_EQ(read->flags.max_tensor_bytes, 5000u);
  EXPECT_TRUE(read->flags.insecure);
  EXPECT_EQ(read->flags.drain_timeout, absl::Minutes(2));
  EXPECT_EQ(read->flags.cache_dir, "/from/variable");
  EXPECT_EQ(read->Origin("devices"), path_ + ":2:1");
  EXPECT_EQ(read->Origin("cpu-threads"), "--cpu-threads");
  EXPECT_EQ(read->Origin("cache-dir"), "TENSORD_CACHE_DIR");
  EXPECT_EQ(read->Origin("log-level"), "default");
}

TEST_F(ConfigTest, FaultsSayWhereTheyAreAndAllAreTold) {
  const struct {
    const char* text;
    const char* error;  // after the path
  } kCases[] = {
      {"\nlog_level = \"info\"", ":2:1: 'log_level' does not exist; the nearest is 'log-level'"},
      {"[server]\ndevices = \"cpu\"", ":1:2: 'server' does not exist; the nearest is"},
      {"cpu-threads = \"two\"", ":1:1: 'cpu-threads' takes a number"},
      {"devices = 1", ":1:1: 'devices' takes a text in quotes"},
      {"listen = [1]", ":1:1: 'listen' takes a list of texts in quotes"},
      {"insecure = \"true\"", ":1:1: 'insecure' takes true or false"},
      {"cache-bytes = 1.5", ":1:1: 'cache-bytes' takes a number of bytes, or a text such as"},
      {"cache-bytes = \"1GB\"",
       ":1:1: cache-bytes = \"1GB\": takes a number, of bytes or with KiB"},
      {"drain-timeout = 30", ":1:1: 'drain-timeout' takes a text such as \"30s\""},
      {"cpu-threads = 4097", ":1:1: cpu-threads = 4097: takes 0 to 4096"},
      {"cpu-threads = -1", ":1:1: cpu-threads = -1: takes a number from 0 on"},
      {"log-level = \"loud\"", ":1:1: log-level = \"loud\": takes trace, debug"},
      {"ready-fd = 3", ":1:1: 'ready-fd' is for the command line, not for a file"},
      {"help = true", ":1:1: 'help' is for the command line, not for a file"},
      {"devices = cpu", ":1:11: "},
      {"cpu-threads = 1\ncpu-threads = 2", ":2:"},
  };
  for (const auto& test : kCases) {
    Write(test.text);
    const absl::Status status = Read().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << test.text;
    EXPECT_NE(Message(status).find(path_ + test.error), std::string_view::npos) << status;
  }
  Write("nonsense = 1\ncpu-threads = -1\n");
  const absl::Status status =
      Read({"--cpu-threads=1", "--cache-bytes=x"}, {{"TENSORD_LOG_LEVEL", "loud"}}).status();
  for (const char* part : {"--cache-bytes=x: ", "TENSORD_LOG_LEVEL=loud: ", ":1:1: 'nonsense'",
                           ":2:1: cpu-threads = -1: "}) {
    EXPECT_NE(Message(status).find(part), std::string_view::npos) << part << "\n" << status;
  }
}

TEST_F(ConfigTest, OnlyTheDefaultFileMayBeMissing) {
  EXPECT_TRUE(Read().ok());
  EXPECT_EQ(Message(Read({"--config", path_}).status()), path_ + ": there is no such file");
  EXPECT_EQ(Message(Read({"--config", "/"}).status()), "/: is no regular file");
  const std::string pipe = path_ + ".pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(Message(Read({"--config", pipe}).status()), pipe + ": is no regular file");
  unlink(pipe.c_str());
  Write("cpu-threads = 3");
  EXPECT_EQ(Read()->flags.cpu_threads, 3);
  EXPECT_EQ(Read({"--config", "none"})->flags.cpu_threads, 0);
  EXPECT_EQ(Read({}, {{"TENSORD_CONFIG", "none"}})->flags.cpu_threads, 0);
  // The file of the machine's daemon is not for private ones.
  EXPECT_EQ(Read({"--exit-with-parent"})->flags.cpu_threads, 0);
  EXPECT_EQ(Read({"--exit-with-parent", "--config", path_})->flags.cpu_threads, 3);
  Write("");
  EXPECT_TRUE(Read({"--config", path_}).ok());
}

TEST_F(ConfigTest, WhatIsPrintedIsAConfigFile) {
  const auto first =
      Read({"--devices=cpu:2", "--log-file", "a \"b\"\\c", "--cache-bytes=3MiB", "--listen",
            "unix:/x,localhost:1", "--drain-timeout=90s", "--max-tensor-bytes=5001"},
           {{"TENSORD_INSECURE", "1"}});
  ASSERT_TRUE(first.ok()) << first.status();
  const std::string text = ConfigText(*first);
  EXPECT_NE(text.find("devices = \"cpu:2\"  # --devices\n"), std::string::npos) << text;
  EXPECT_NE(text.find("insecure = true  # TENSORD_INSECURE\n"), std::string::npos) << text;
  EXPECT_NE(text.find("cache-bytes = \"3MiB\"  # --cache-bytes\n"), std::string::npos) << text;
  Write(text);
  const auto second = Read();
  ASSERT_TRUE(second.ok()) << second.status();
  ASSERT_EQ(first->values.size(), second->values.size());
  for (size_t i = 0; i < first->values.size(); ++i) {
    EXPECT_EQ(first->values[i].text, second->values[i].text);
    EXPECT_EQ(second->values[i].origin, fmt::format("{}:{}:1", path_, i + 1));
  }
}

TEST_F(ConfigTest, AdoptsWhatMayChangeAndTellsTheRest) {
  auto running = *Read();
  Write("log-level = \"debug\"\nmax-session-bytes = 4096\ndevices = \"null\"\ncpu-threads = 0\n");
  const std::vector<FlagChange> changes = Adopt(running, *Read());
  ASSERT_EQ(changes.size(), 3u);
  const struct {
    const char *name, *from, *to;
    bool adopted;
  } kExpected[] = {{"devices", "\"cpu\"", "\"null\"", false},
                   {"max-session-bytes", "\"1TiB\"", "\"4KiB\"", true},
                   {"log-level", "\"info\"", "\"debug\"", true}};
  for (size_t i = 0; i < changes.size(); ++i) {
    EXPECT_EQ(changes[i].name, kExpected[i].name);
    EXPECT_EQ(changes[i].from, kExpected[i].from);
    EXPECT_EQ(changes[i].to, kExpected[i].to);
    EXPECT_EQ(changes[i].adopted, kExpected[i].adopted);
  }
  EXPECT_EQ(running.flags.log_level, "debug");
  EXPECT_EQ(running.flags.max_session_bytes, 4096u);
  EXPECT_EQ(running.flags.devices, "cpu");
  // What needs a restart is told again; what was adopted is not.
  EXPECT_EQ(Adopt(running, *Read()).size(), 1u);
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
