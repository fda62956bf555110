// The daemon as a process: what it prints, how it begins and how it ends.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include "server/test_process.h"

namespace tensord {
namespace {

TEST_F(DaemonTest, SaysWhatItIs) {
  Process version({"--version"}, false);
  EXPECT_EQ(version.Output(), "tensord 0.1.0 (protocol 1 to 1)\n");
  EXPECT_EQ(version.Wait(), 0);
  Process help({"--help"}, false);
  EXPECT_NE(help.Output().find("environment: TENSORD_LISTEN"), std::string::npos);
  EXPECT_EQ(help.Wait(), 0);
  Process wrong({"--no-such-flag"}, false);
  EXPECT_EQ(
      wrong.Output(),
      "tensord: --no-such-flag does not exist; the nearest is --config: see tensord --help\n");
  EXPECT_EQ(wrong.Wait(), 2);
}

TEST_F(DaemonTest, ServesUntilSigterm) {
  Process daemon(Arguments(), true);
  EXPECT_EQ(daemon.Address(), Listen());
  EXPECT_TRUE(Answers(Listen()));
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/t.sock"));
}

TEST_F(DaemonTest, APrivateDaemonEndsWithItsInput) {
  Process daemon(Arguments({"--exit-with-parent"}), true);
  EXPECT_EQ(daemon.Address(), Listen());
  daemon.CloseInput();
  EXPECT_EQ(daemon.Wait(), 0);
}

TEST_F(DaemonTest, TakesTheSocketOfOneThatWasKilled) {
  {
    Process daemon(Arguments(), true);
    EXPECT_EQ(daemon.Address(), Listen());
    daemon.Signal(SIGKILL);
    EXPECT_EQ(daemon.Wait(), -SIGKILL);
    EXPECT_TRUE(std::filesystem::exists(folder_ + "/t.sock"));
  }
  Process daemon(Arguments(), true);
  EXPECT_EQ(daemon.Address(), Listen());
  EXPECT_TRUE(Answers(Listen()));
  Process second(Arguments(), true);
  EXPECT_EQ(second.Address(), "");
  EXPECT_NE(second.Output().find("a daemon listens on " + Listen() + " already"),
            std::string::npos);
  EXPECT_EQ(second.Wait(), 1);
  daemon.Signal(SIGINT);
  EXPECT_EQ(daemon.Wait(), 0);
}

TEST_F(DaemonTest, ChecksItsConfiguration) {
  const std::string file = folder_ + "/t.toml";
  std::ofstream(file) << "devices = \"null\"\nmax-session-bytes = \"1GiB\"\n";
  Process right({"--check-config", "--config", file, "--log-level=debug"}, false);
  const std::string output = right.Output();
  EXPECT_EQ(right.Wait(), 0);
  for (const std::string& line : {"devices = \"null\"  # " + file + ":1:1\n",
                                  "max-session-bytes = \"1GiB\"  # " + file + ":2:1\n",
                                  std::string("log-level = \"debug\"  # --log-level\n"),
                                  std::string("cpu-threads = 0  # default\n")}) {
    EXPECT_NE(output.find(line), std::string::npos) << line << "in\n" << output;
  }
  std::ofstream(file) << "device = \"null\"\ncpu-threads = \"1\"\n";
  Process wrong({"--check-config", "--config", file}, false);
  EXPECT_EQ(wrong.Output(), "tensord: " + file +
                                ":1:1: 'device' does not exist; the nearest is 'devices': see "
                                "tensord --help\ntensord: " +
                                file + ":2:1: 'cpu-threads' takes a number\n");
  EXPECT_EQ(wrong.Wait(), 1);
  // What only the backends know.
  Process unknown({"--check-config", "--config=none", "--devices=abacus"}, false);
  EXPECT_NE(unknown.Output().find("no backend 'abacus'"), std::string::npos);
  EXPECT_EQ(unknown.Wait(), 1);
}

}  // namespace
}  // namespace tensord
