#include "tools/tensorctl/tensorctl.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>

#include "server/server.h"
#include "server/session/fake_runtime.h"
#include "tools/tensorctl/table.h"

namespace tensord {
namespace {

class TensorctlTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/td-XXXXXX";
    folder_ = mkdtemp(name);
    address_ = "unix:" + folder_ + "/t.sock";
    auto server = Server::Start({.listen = {address_}}, std::make_unique<FakeRuntime>());
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  void TearDown() override {
    server_ = nullptr;
    std::filesystem::remove_all(folder_);
  }

  std::string folder_, address_;
  std::unique_ptr<Server> server_;
};

TEST_F(TensorctlTest, EachCommandPrintsWhatTheDaemonSays) {
  const struct {
    std::vector<std::string> arguments;
    std::vector<const char*> parts;
  } kCases[] = {
      {{"status"}, {"state          serving\n", "0 open, 0 since start", "t.sock"}},
      {{"devices"}, {"DEVICE  ARCH  MEMORY", "FAKE:0  fake  1.0 GiB", "FAKE:1"}},
      {{"sessions"}, {"no sessions\n"}},
      {{"cache", "stats"}, {"/cache", "7, 8.0 KiB of 1.0 MiB", "1 kept, 2 hits, 3 misses"}},
      {{"cache", "clear"}, {"removed 7 kernels, 8.0 KiB\n"}},
      {{"ping", "--count", "3"}, {"tensord 0.1.0 at ", "3 pings, min ", " us, median "}},
      {{"status", "--json"}, {"\"server_version\": \"0.1.0\"", "\"sessions\": \"0\""}},
      {{"devices", "--json"}, {"\"name\": \"FAKE:0\""}},
      {{"ping", "--json", "--count=2"}, {"\"pings\": 2, \"min_us\": "}},
  };
  for (const auto& test : kCases) {
    const ControlResult result = Control(test.arguments, address_);
    EXPECT_EQ(result.exit_code, 0) << result.error;
    for (const char* part : test.parts) {
      EXPECT_NE(result.output.find(part), std::string::npos) << part << "\n" << result.output;
    }
  }
}

TEST_F(TensorctlTest, SaysHowToStartAMissingDaemon) {
  const std::string nobody = "unix:" + folder_ + "/nobody.sock";
  const ControlResult result = Control({"status", "--address", nobody}, address_);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.error.find("tensorctl: no daemon at " + nobody +
                              ": start one with tensord --listen " + nobody),
            0u)
      << result.error;
}

TEST(TensorctlUsageTest, WrongUsageIsExplained) {
  const struct {
    std::vector<std::string> arguments;
    const char* error;
  } kCases[] = {
      {{}, "a command is missing"},
      {{"cache"}, "there is no command 'cache'"},
      {{"statsu"}, "there is no command 'statsu'"},
      {{"ping", "--count", "0"}, "--count 0: takes a number from 1"},
      {{"ping", "--times=3"}, "--times does not exist"},
      {{"ping", "--timeout=soon"}, "--timeout soon: takes a duration"},
      {{"ping", "--address"}, "--address needs a value"},
  };
  for (const auto& test : kCases) {
    const ControlResult result = Control(test.arguments, "unix:/nowhere");
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_NE(result.error.find(test.error), std::string::npos) << result.error;
  }
}

TEST(TensorctlUsageTest, HelpNamesCommandsAndFlags) {
  const ControlResult result = Control({"--help"}, "unix:/there.sock");
  EXPECT_EQ(result.exit_code, 0);
  for (const char* part : {"status", "devices", "sessions", "cache stats", "cache clear", "ping",
                           "--address", "--json", "--count", "unix:/there.sock"}) {
    EXPECT_NE(result.output.find(part), std::string::npos) << part;
  }
}

TEST(TableTest, BytesAreReadable) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1536), "1.5 KiB");
  EXPECT_EQ(FormatBytes(uint64_t{12} << 30), "12.0 GiB");
}

}  // namespace
}  // namespace tensord
