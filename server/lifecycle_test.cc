// Sockets, health, the admin service, and the drain.
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "proto/tensord/v1/admin.grpc.pb.h"
#include "server/test_client.h"

namespace tensord {
namespace {

TEST_F(ServerTest, DrainFinishesWhatWasAccepted) {
  StartServer();
  auto client = Open();
  runtime_->device().Hold();
  client->Upload(TensorHandle(0), {1});
  client->Register(ProgramHandle(0), AddProgram("sum", 1));
  client->Run(ProgramHandle(0), {TensorHandle(0), TensorHandle(0)}, {TensorHandle(1)}, true);
  client->Send();
  runtime_->device().AwaitQueued(1);
  bool finished = false;
  std::thread drain([&] { finished = server_->Drain(absl::Seconds(60)); });
  ASSERT_TRUE(client->ReadGoAway());
  client->Run(ProgramHandle(0), {TensorHandle(0), TensorHandle(0)}, {TensorHandle(2)});
  client->Send();
  const v1::CommandError* error = client->ReadError(4);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->status().message(), "command 4: the daemon is shutting down");
  TestClient late(channel_);
  EXPECT_FALSE(late.Hello());
  EXPECT_EQ(late.Finish().error_message(), "no new sessions: the daemon is shutting down");
  runtime_->device().Unhold();
  const v1::Completion* completion = client->ReadCompletion(3);
  ASSERT_NE(completion, nullptr);
  EXPECT_EQ(completion->status().code(), 0u);
  EXPECT_EQ(client->ReadCompletion(99), nullptr);  // reads until the daemon ends the stream
  const grpc::Status status = client->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  drain.join();
  EXPECT_TRUE(finished);
}

TEST_F(ServerTest, DrainDoesNotWaitForAClientThatGoesOnSending) {
  StartServer();
  auto client = Open();
  std::atomic<bool> ended{false};
  bool finished = false;
  std::jthread drain([&] {
    finished = server_->Drain(absl::Seconds(60));
    ended = true;
  });
  ASSERT_TRUE(client->ReadGoAway());
  std::jthread sender([&] {
    while (!ended) {
      for (int i = 0; i < 100; ++i) client->Release({TensorHandle(0)});
      client->Send();
    }
  });
  EXPECT_EQ(client->ReadCompletion(1), nullptr);  // reads until the daemon ends the stream
  sender.join();
  drain.join();
  EXPECT_TRUE(finished);
}

// A call with messages in their encoded form, for services whose classes gRPC keeps to itself.
grpc::Status RawCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                     const std::string& request, std::string* reply) {
  grpc::Slice slice(request);
  const grpc::ByteBuffer in(&slice, 1);
  grpc::ByteBuffer out;
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  grpc::GenericStub stub(channel);
  const auto call = stub.PrepareUnaryCall(&context, method, in, &queue);
  call->StartCall();
  grpc::Status status;
  call->Finish(&out, &status, nullptr);
  void* tag;
  bool ok;
  queue.Next(&tag, &ok);
  std::vector<grpc::Slice> slices;
  if (status.ok()) out.Dump(&slices);
  for (const grpc::Slice& part : slices) {
    reply->append(reinterpret_cast<const char*>(part.begin()), part.size());
  }
  return status;
}

// grpc.health.v1: field 1 of the request is the service's name, of the reply the status.
int Health(const std::shared_ptr<grpc::Channel>& channel, const std::string& service) {
  std::string request, reply;
  if (!service.empty()) {
    request = "\x0a" + std::string(1, static_cast<char>(service.size())) + service;
  }
  const grpc::Status status = RawCall(channel, "/grpc.health.v1.Health/Check", request, &reply);
  if (!status.ok()) return -static_cast<int>(status.error_code());
  return reply.size() == 2 ? reply[1] : 0;
}

TEST_F(ServerTest, ReflectionListsTheServices) {
  StartServer();
  std::string reply;
  const std::string list_services("\x3a\x00", 2);
  const grpc::Status status =
      RawCall(channel_, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
              list_services, &reply);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_NE(reply.find("tensord.v1.SessionService"), std::string::npos);
  EXPECT_NE(reply.find("tensord.v1.AdminService"), std::string::npos);
}

TEST_F(ServerTest, HealthKnowsTheDaemonAndItsDevices) {
  StartServer();
  EXPECT_EQ(Health(channel_, ""), 1);  // SERVING
  EXPECT_EQ(Health(channel_, "tensord.device.0"), 1);
  EXPECT_EQ(Health(channel_, "tensord.device.1"), 1);
  EXPECT_EQ(Health(channel_, "tensord.device.2"), -static_cast<int>(grpc::StatusCode::NOT_FOUND));
  auto client = Open();
  runtime_->device().Hold();
  client->Upload(TensorHandle(0), {1});
  client->Register(ProgramHandle(0), AddProgram("sum", 1));
  client->Run(ProgramHandle(0), {TensorHandle(0), TensorHandle(0)}, {TensorHandle(1)});
  client->Send();
  runtime_->device().AwaitQueued(1);
  std::thread drain([&] { server_->Drain(absl::Seconds(60)); });
  ASSERT_TRUE(client->ReadGoAway());
  EXPECT_EQ(Health(channel_, ""), 2);  // NOT_SERVING
  EXPECT_EQ(Health(channel_, "tensord.device.0"), 2);
  runtime_->device().Unhold();
  client->Finish();
  drain.join();
}

TEST_F(ServerTest, AdminAnswers) {
  StartServer();
  auto client = Open();
  const auto admin = v1::AdminService::NewStub(channel_);
  {
    grpc::ClientContext context;
    v1::GetStatusReply reply;
    ASSERT_TRUE(admin->GetStatus(&context, {}, &reply).ok());
    EXPECT_EQ(reply.sessions(), 1u);
    EXPECT_EQ(reply.pid(), static_cast<uint64_t>(getpid()));
    EXPECT_FALSE(reply.draining());
  }
  {
    grpc::ClientContext context;
    v1::ListDevicesReply reply;
    ASSERT_TRUE(admin->ListDevices(&context, {}, &reply).ok());
    ASSERT_EQ(reply.devices_size(), 2);
    EXPECT_EQ(reply.devices(1).info().name(), "FAKE:1");
  }
  {
    grpc::ClientContext context;
    v1::ListSessionsReply reply;
    ASSERT_TRUE(admin->ListSessions(&context, {}, &reply).ok());
    ASSERT_EQ(reply.sessions_size(), 1);
    EXPECT_EQ(reply.sessions(0).session_id(), client->welcome.session_id());
    EXPECT_EQ(reply.sessions(0).client_name(), "test");
  }
  {
    grpc::ClientContext context;
    v1::ClearCacheReply reply;
    ASSERT_TRUE(admin->ClearCache(&context, {}, &reply).ok());
    EXPECT_EQ(reply.entries_removed(), 7u);
    EXPECT_EQ(reply.bytes_removed(), 8192u);
  }
}

// Sockets have short paths, so not in the test's own folder.
class SocketTest : public ServerTest {
 protected:
  void SetUp() override {
    char name[] = "/tmp/td-XXXXXX";
    folder_ = mkdtemp(name);
  }
  void TearDown() override {
    server_ = nullptr;
    std::filesystem::remove_all(folder_);
  }
  std::string folder_;
};

TEST_F(SocketTest, ServesAUnixSocketForItsOwnerOnly) {
  StartServer({.listen = {"unix:" + folder_ + "/new/t.sock", "127.0.0.1:0"}});
  ASSERT_EQ(server_->addresses().size(), 2u);
  EXPECT_EQ(server_->addresses()[0], "unix:" + folder_ + "/new/t.sock");
  EXPECT_NE(server_->addresses()[1], "127.0.0.1:0");
  struct stat info;
  ASSERT_EQ(stat((folder_ + "/new/t.sock").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  ASSERT_EQ(stat((folder_ + "/new").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  for (const std::string& address : server_->addresses()) {
    TestClient client(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
    ASSERT_TRUE(client.Hello()) << address;
    client.Upload(TensorHandle(0), {42});
    client.Send();
    EXPECT_EQ(client.Values(TensorHandle(0)), (std::vector<float>{42}));
    EXPECT_TRUE(client.Finish().ok());
  }
  server_ = nullptr;
  EXPECT_TRUE(std::filesystem::is_empty(folder_ + "/new"));
}

// A connection of another user: the kernel notes who connects, which is this thread alone.
int ConnectAs(uid_t user, const std::string& path) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  EXPECT_EQ(syscall(SYS_setresuid, -1, user, -1), 0);
  EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(syscall(SYS_setresuid, -1, 0, -1), 0);
  return fd;
}

TEST_F(SocketTest, AnotherUserCannotTakeASessionByItsToken) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can act as another user";
  ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  const std::string path = folder_ + "/t.sock";
  ServerOptions options{.listen = {"unix:" + path}, .socket_mode = 0666};
  StartServer(options);
  const auto channel = [&](uid_t user) {
    return grpc::CreateInsecureChannelFromFd("t", ConnectAs(user, path));
  };
  constexpr uid_t kOwner = 12345, kThief = 12346;
  TestClient owner(channel(kOwner));
  ASSERT_TRUE(owner.Hello({.lease_ms = 10'000}));
  TestClient thief(channel(kThief));
  EXPECT_FALSE(thief.Hello({.lease_ms = 10'000, .token = owner.welcome.session_token()}));
  const grpc::Status status = thief.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_NE(status.error_message().find("there is no such session"), std::string::npos);
  grpc::ClientContext context;
  v1::CountersRequest request;
  request.set_session_token(owner.welcome.session_token());
  v1::CountersReply reply;
  EXPECT_EQ(thief.stub().Counters(&context, request, &reply).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(owner.Wait().code(), 0u);  // and nothing has happened to it
  TestClient again(channel(kOwner));
  EXPECT_TRUE(again.Hello({.lease_ms = 10'000, .token = owner.welcome.session_token()}));
}

TEST_F(SocketTest, ADeadSocketIsReplacedALiveOneIsNot) {
  const std::string path = folder_ + "/t.sock";
  // What a killed daemon leaves: a socket file that nobody listens on.
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  close(fd);
  StartServer({.listen = {"unix:" + path}});
  const auto second = Server::Start({.listen = {"unix:" + path}}, std::make_unique<FakeRuntime>());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Message(second.status()),
            "a daemon listens on unix:" + path +
                " already: use it, stop it, or choose another path with --listen");
  TestClient client(
      grpc::CreateChannel(server_->addresses()[0], grpc::InsecureChannelCredentials()));
  EXPECT_TRUE(client.Hello());
}

TEST_F(SocketTest, AFileThatIsNoSocketStays) {
  const std::string path = folder_ + "/notes";
  std::ofstream(path) << "mine";
  const auto server = Server::Start({.listen = {"unix:" + path}}, std::make_unique<FakeRuntime>());
  EXPECT_EQ(Message(server.status()),
            path + " exists and is not a socket: choose another path with --listen");
  EXPECT_TRUE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace tensord
