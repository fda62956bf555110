#include "tools/tensorctl/tensorctl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "server/server.h"
#include "server/session/fake_runtime.h"
#include "server/test_client.h"
#include "tools/tensorctl/table.h"

namespace tensord {
namespace {

class TensorctlTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/td-XXXXXX";
    folder_ = mkdtemp(name);
    address_ = "unix:" + folder_ + "/t.sock";
    auto server = Server::Start({.listen = {address_}, .drain = [this] { ++drains_; }},
                                std::make_unique<FakeRuntime>());
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  void TearDown() override {
    server_ = nullptr;
    std::filesystem::remove_all(folder_);
  }

  std::string Run(std::vector<std::string> arguments, const Show& show = nullptr) {
    const ControlResult result = Control(arguments, address_, show);
    EXPECT_EQ(result.exit_code, 0) << result.error;
    return result.output;
  }

  // Tensor 0 of the client.
  static void Publish(TestClient& client, const std::string& name,
                      const std::vector<std::string>& readers) {
    grpc::ClientContext context;
    v1::PublishRequest request;
    request.set_session_token(client.welcome.session_token());
    request.set_name(name);
    request.mutable_readers()->Add(readers.begin(), readers.end());
    request.add_tensors()->set_handle(TensorHandle(0));
    v1::PublishReply reply;
    const grpc::Status status = client.stub().Publish(&context, request, &reply);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }

  std::string folder_, address_;
  std::atomic<int> drains_ = 0;
  std::unique_ptr<TestClient> Open() {
    auto client = std::make_unique<TestClient>(server_->InProcessChannel());
    EXPECT_TRUE(client->Hello());
    return client;
  }

  std::unique_ptr<Server> server_;
};

TEST_F(TensorctlTest, EachCommandPrintsWhatTheDaemonSays) {
  const struct {
    std::vector<std::string> arguments;
    std::vector<const char*> parts;
  } kCases[] = {
      {{"status"},
       {"state          serving\n", "0 open, 0 of them parked, 0 since start", "t.sock"}},
      {{"devices"}, {"DEVICE  ARCH  MEMORY", "FAKE:0  fake  1.0 GiB", "FAKE:1"}},
      {{"sessions"}, {"no sessions\n"}},
      {{"buffers"}, {"no buffers\n"}},
      {{"published"}, {"nothing is published\n"}},
      {{"top", "--interval=1ms"},
       {"serving, up ", "0 sessions, 0 runs (0/s)", "FAKE:0  fake", "no sessions\n"}},
      {{"cache", "stats"}, {"/cache", "7, 8.0 KiB of 1.0 MiB", "1 kept, 2 hits, 3 misses"}},
      {{"cache", "clear"}, {"removed 7 kernels, 8.0 KiB\n"}},
      {{"ping", "--count", "3"}, {"tensord 0.1.0 at ", "3 pings, min ", " us, median "}},
      {{"status", "--json"}, {"\"server_version\": \"0.1.0\"", "\"sessions\": \"0\""}},
      {{"devices", "--json"}, {"\"name\": \"FAKE:0\""}},
      {{"trace"}, {"{\"displayTimeUnit\":\"ms\",\"otherData\":{\"", "\"clock\":\"monotonic"}},
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

TEST_F(TensorctlTest, BuffersAreListedLargestFirst) {
  const std::unique_ptr<TestClient> clients[] = {Open(), Open()};
  clients[0]->Upload(TensorHandle(0), {1, 2, 3});
  clients[0]->Upload(TensorHandle(1, 4), std::vector<float>(1000));
  clients[1]->Upload(TensorHandle(0), std::vector<float>(500));
  for (const auto& client : clients) client->SendAndRead();
  const std::string all = Run({"buffers"});
  const std::string rows[] = {"session-1  tensor 1.4  3.9 KiB  float32  [1000]  FAKE:0  value\n",
                              "session-2  tensor 0.1  2.0 KiB  float32  [500]   FAKE:0  value\n",
                              "session-1  tensor 0.1  12 B     float32  [3]     FAKE:0  value\n",
                              "3 of 3 buffers, 5.9 KiB in all\n"};
  size_t last = 0;
  for (const std::string& row : rows) {
    const size_t at = all.find(row);
    ASSERT_NE(at, std::string::npos) << row << all;
    EXPECT_GT(at, last);
    last = at;
  }
  EXPECT_NE(Run({"buffers", "--count=1"}).find("1 of 3 buffers, 5.9 KiB"), std::string::npos);
  EXPECT_NE(Run({"buffers", "session-2"}).find("1 of 1 buffers, 2.0 KiB"), std::string::npos);
  EXPECT_NE(Run({"buffers", "--json"}).find("\"count\": \"3\""), std::string::npos);
}

TEST_F(TensorctlTest, KillEndsOneSessionAndTellsItsClientWhy) {
  const auto victim = Open(), other = Open();
  victim->Upload(TensorHandle(0), std::vector<float>(1024));
  victim->SendAndRead();
  EXPECT_EQ(Run({"sessions", "kill", "session-1", "--reason", "too\nlarge"}),
            "ended session-1, which held 4.0 KiB\n");
  const grpc::Status status = victim->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_THAT(status.error_message(), testing::StartsWith("session-1 was ended by '"));
  EXPECT_THAT(status.error_message(), testing::EndsWith("': too?large"));
  other->Upload(TensorHandle(0), {7});
  other->SendAndRead();
  EXPECT_EQ(other->Values(TensorHandle(0)), std::vector<float>({7}));
  EXPECT_NE(Run({"buffers"}).find("1 of 1 buffers, 4 B"), std::string::npos);
}

TEST_F(TensorctlTest, TopShowsWhatHappenedSinceTheLastPicture) {
  const auto client = Open();
  client->Upload(TensorHandle(0), std::vector<float>(256));
  client->Upload(TensorHandle(1), std::vector<float>(256));
  client->Register(ProgramHandle(0), AddProgram("add", 256));
  client->SendAndRead();
  std::vector<std::string> pictures;
  const std::string printed = Run({"top", "--count=2"}, [&](const std::string& picture, auto) {
    pictures.push_back(picture);
    client->Run(ProgramHandle(0), {TensorHandle(0), TensorHandle(1)},
                {TensorHandle(2, static_cast<uint32_t>(pictures.size()))}, true);
    client->Release({TensorHandle(2, static_cast<uint32_t>(pictures.size()))});
    client->SendAndRead();
    return true;
  });
  EXPECT_EQ(printed, "");
  ASSERT_EQ(pictures.size(), 3u);
  EXPECT_NE(pictures[0].find("0 runs (-)"), std::string::npos) << pictures[0];
  EXPECT_NE(pictures[1].find("1 runs ("), std::string::npos) << pictures[1];
  EXPECT_NE(pictures[2].find("2 runs ("), std::string::npos) << pictures[2];
  EXPECT_NE(pictures[2].find("session-1  "), std::string::npos) << pictures[2];
  EXPECT_NE(pictures[2].find("test\n"), std::string::npos) << pictures[2];
  // It ends when nobody looks.
  int shown = 0;
  Run({"top"}, [&](const std::string&, absl::Duration) { return ++shown < 3; });
  EXPECT_EQ(shown, 3);
}

TEST_F(TensorctlTest, PublishedTensorsAreListedAndTakenBack) {
  const auto client = Open();
  client->Upload(TensorHandle(0), std::vector<float>(256));
  client->SendAndRead();
  Publish(*client, "weights", {"alice", "bob"});
  const std::string listed = Run({"published"});
  EXPECT_NE(listed.find("  1        1.0 KiB  1        alice, bob  no\n"), std::string::npos)
      << listed;
  EXPECT_NE(Run({"published", "--json"}).find("\"holders\": \"1\""), std::string::npos);
  EXPECT_EQ(Run({"published", "remove", "weights"}),
            "'weights' is not published any more; who has attached it keeps it\n");
  EXPECT_EQ(Run({"published"}), "nothing is published\n");
  EXPECT_EQ(client->Values(TensorHandle(0)), std::vector<float>(256));
}

TEST_F(TensorctlTest, NamesOfOthersAreWholeAndMoveNoCursor) {
  const struct {
    std::string name, shown;
  } kCases[] = {
      {"\x1b[2J\x07", "?[2J?"},
      {"a\nsession-9  root", "a?session-9  root"},
      {std::string("a\0b", 3), "a?b"},
  };
  for (const auto& test : kCases) {
    const auto client = std::make_unique<TestClient>(server_->InProcessChannel());
    ASSERT_TRUE(client->Hello({.client_name = test.name}));
    client->Upload(TensorHandle(0), {1});
    client->SendAndRead();
    Publish(*client, test.name, {test.name});
    for (const char* command : {"sessions", "published"}) {
      const std::string table = Run({command});
      EXPECT_NE(table.find(test.shown), std::string::npos) << table;
      EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 2) << table;
    }
    Run({"published", "remove", test.name});
    EXPECT_TRUE(client->EndSession().ok());
  }
}

// What is no UTF-8 in one name would make the whole list unreadable.
TEST_F(TensorctlTest, ALongNameOfAClientIsCutWhereACharacterEnds) {
  const auto client = std::make_unique<TestClient>(server_->InProcessChannel());
  const std::string name(199, 'a');
  ASSERT_TRUE(client->Hello({.client_name = name + "é"}));
  EXPECT_NE(Run({"sessions"}).find("  " + name + "  connected"), std::string::npos);
}

TEST_F(TensorctlTest, TraceShowsWhatRan) {
  const auto client = Open(), other = Open();
  for (const auto& each : {client.get(), other.get()}) {
    each->Upload(TensorHandle(0), std::vector<float>(256));
    each->Register(ProgramHandle(0), AddProgram("add", 256));
    each->Run(ProgramHandle(0), {TensorHandle(0), TensorHandle(0)}, {TensorHandle(1)}, true);
    each->SendAndRead();
  }
  const std::string all = Run({"trace"});
  for (const char* part : {"session-1", "session-2", "\"name\":\"add\"", "\"name\":\"compile add\"",
                           "\"bytes\":1024", "\"name\":\"FAKE:0\"", "\"ph\":\"X\""}) {
    EXPECT_NE(all.find(part), std::string::npos) << part << "\n" << all;
  }
  const std::string file = folder_ + "/trace.json";
  EXPECT_EQ(Run({"trace", "--session=session-2", "-o", file}),
            file +
                ": 1 runs, 1 transfers and 1 compilations of 1 sessions; open it in "
                "https://ui.perfetto.dev or chrome://tracing\n");
  EXPECT_TRUE(std::filesystem::exists(file));
}

TEST_F(TensorctlTest, DrainIsPassedOn) {
  Run({"drain"});
  EXPECT_EQ(drains_, 1);
}

TEST_F(TensorctlTest, WhatTheDaemonRefusesIsAnError) {
  const struct {
    std::vector<std::string> arguments;
    const char* error;
  } kCases[] = {
      {{"sessions", "kill", "session-9"},
       "there is no session 'session-9': tensorctl sessions lists them"},
      {{"buffers", "session-9"}, "there is no session 'session-9'"},
      {{"buffers", "--count=20000"}, "limit 20000: at most 10000 tensors can be listed"},
      {{"published", "remove", "x", "alice"}, "'alice' has published nothing as 'x'"},
      {{"top", "--json"}, "top prints no JSON"},
      {{"trace", "--session=session-9"}, "there is no session 'session-9', and no record of it"},
      {{"trace", "-o", "/nowhere/t.json"}, "the file '/nowhere/t.json' can't be written"},
  };
  for (const auto& test : kCases) {
    const ControlResult result = Control(test.arguments, address_);
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_NE(result.error.find(test.error), std::string::npos) << result.error;
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
      {{"sessions", "kill"}, "usage: tensorctl sessions kill SESSION..."},
      {{"buffers", "a", "b"}, "usage: tensorctl buffers [SESSION]"},
      {{"top", "--interval=0s"}, "--interval 0s: takes a duration"},
      {{"statsu"}, "there is no command 'statsu'"},
      {{"ping", "--count", "0"}, "--count 0: takes a number from 1"},
      {{"ping", "--times=3"}, "--times does not exist"},
      {{"trace", "--seconds=0"}, "--seconds 0: takes a number above 0, 3600 at most"},
      {{"trace", "-o"}, "--output needs a value"},
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
  for (const char* part :
       {"status", "devices", "sessions kill SESSION...", "cache stats", "cache clear", "ping",
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
