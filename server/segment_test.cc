// Bulk data through memory that client and daemon share.
#include "server/session/segment.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "server/test_client.h"

namespace tensord {
namespace {

using testing::HasSubstr;

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;

int Memory(size_t bytes, int seals = kSeals, unsigned flags = MFD_ALLOW_SEALING) {
  const int fd = memfd_create("test", flags | MFD_CLOEXEC);
  EXPECT_EQ(ftruncate(fd, static_cast<off_t>(bytes)), 0);
  EXPECT_EQ(fcntl(fd, F_ADD_SEALS, seals), 0);
  return fd;
}

// Whether the daemon takes it: its answer, or -1 if there was none.
int Offer(const std::string& name, const std::string& packet, std::vector<int> descriptors) {
  sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address),
                    static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())),
            0);
  std::string bytes = packet;
  iovec part = {.iov_base = bytes.data(), .iov_len = bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(200 * sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
    std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size() * sizeof(int));
  }
  EXPECT_EQ(sendmsg(fd, &message, 0), static_cast<ssize_t>(bytes.size()));
  char answer = 2;
  const ssize_t got = recv(fd, &answer, 1, 0);
  char more;
  EXPECT_EQ(recv(fd, &more, 1, 0), 0);  // the daemon has closed its end
  close(fd);
  return got == 1 ? answer : -1;
}

std::string Packet(const std::string& token, char number) {
  return token + std::string(1, number) + std::string(7, '\0');
}

class SegmentTest : public ServerTest {
 protected:
  static constexpr size_t kBytes = 16384;

  void SetUp() override {
    StartServer();
    client_ = Open();
    socket_ = client_->welcome.segment_socket();
    token_ = client_->welcome.session_token();
    fd_ = Memory(kBytes);
    data_ = static_cast<float*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0));
    ASSERT_NE(data_, MAP_FAILED);
  }
  void TearDown() override {
    munmap(data_, kBytes);
    close(fd_);
  }

  // One chunk.
  grpc::Status Upload(uint64_t transfer, uint64_t total, uint64_t segment, uint64_t offset,
                      uint64_t bytes, const std::string& data = "") {
    grpc::ClientContext context;
    v1::UploadReply reply;
    const auto writer = client_->stub().Upload(&context, &reply);
    v1::UploadChunk chunk;
    chunk.set_session_token(token_);
    chunk.set_transfer_id(transfer);
    chunk.set_total_bytes(total);
    chunk.set_segment(segment);
    chunk.set_segment_offset(offset);
    chunk.set_segment_bytes(bytes);
    chunk.set_data(data);
    writer->Write(chunk);
    writer->WritesDone();
    return writer->Finish();
  }

  std::unique_ptr<TestClient> client_;
  std::string socket_, token_;
  int fd_ = -1;
  float* data_ = nullptr;
};

TEST_F(SegmentTest, DataGoesThroughItBothWays) {
  ASSERT_EQ(Offer(socket_, Packet(token_, 5), {fd_}), 1);
  for (int i = 0; i < 4; ++i) data_[i] = static_cast<float>(i);
  client_->UploadLater(TensorHandle(1), 3, 7);
  client_->SendAndRead();
  const grpc::Status status = Upload(7, 12, 5, 4, 12);
  EXPECT_TRUE(status.ok()) << status.error_message();
  data_[1] = 100;  // the tensor has its own
  EXPECT_EQ(client_->Values(TensorHandle(1)), (std::vector<float>{1, 2, 3}));

  grpc::ClientContext context;
  v1::DownloadRequest request;
  request.set_session_token(token_);
  request.set_handle(TensorHandle(1));
  request.set_segment(5);
  const auto reader = client_->stub().Download(&context, request);
  v1::DownloadChunk chunk;
  ASSERT_TRUE(reader->Read(&chunk));
  EXPECT_EQ(chunk.data(), "");
  EXPECT_EQ(chunk.segment_bytes(), 12);
  EXPECT_EQ(chunk.shape(0), 3);
  EXPECT_EQ(data_[0], 1);
  EXPECT_EQ(data_[2], 3);
  EXPECT_FALSE(reader->Read(&chunk));
  EXPECT_TRUE(reader->Finish().ok());
  const v1::CountersReply counters = client_->Counters();
  EXPECT_EQ(counters.bytes_uploaded(), 12);
  EXPECT_EQ(counters.segment_bytes_uploaded(), 12);
  EXPECT_EQ(counters.bytes_downloaded(), 24);
  EXPECT_EQ(counters.segment_bytes_downloaded(), 12);
}

TEST_F(SegmentTest, ADownloadEndsWhenTheSegmentIsFull) {
  ASSERT_EQ(Offer(socket_, Packet(token_, 1), {fd_}), 1);
  const size_t count = kBytes / sizeof(float) + 10;
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i);
  client_->Upload(TensorHandle(1), values);
  client_->SendAndRead();
  v1::DownloadRequest request;
  request.set_session_token(token_);
  request.set_handle(TensorHandle(1));
  request.set_segment(1);
  for (const size_t bytes : {kBytes, 10 * sizeof(float)}) {
    grpc::ClientContext context;
    const auto reader = client_->stub().Download(&context, request);
    v1::DownloadChunk chunk;
    ASSERT_TRUE(reader->Read(&chunk));
    EXPECT_EQ(chunk.segment_bytes(), bytes);
    EXPECT_EQ(chunk.offset(), request.offset());
    EXPECT_EQ(data_[0], values[request.offset() / sizeof(float)]);
    EXPECT_FALSE(reader->Read(&chunk));
    EXPECT_TRUE(reader->Finish().ok());
    request.set_offset(request.offset() + bytes);
    request.set_version(chunk.version() != 0 ? chunk.version() : request.version());
  }
}

TEST_F(SegmentTest, WhatIsNoSegmentIsRefused) {
  const int loose = Memory(kBytes, F_SEAL_GROW), huge = Memory(Segment::kMaxBytes + 1),
            empty = Memory(0), read_only = Memory(kBytes, kSeals | F_SEAL_WRITE),
            file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  const auto other = Open();
  const struct {
    const char* what;
    std::string packet;
    std::vector<int> descriptors;
  } kCases[] = {
      {"not sealed", Packet(token_, 1), {loose}},
      {"too large", Packet(token_, 1), {huge}},
      {"empty", Packet(token_, 1), {empty}},
      {"not to be written", Packet(token_, 1), {read_only}},
      {"a file", Packet(token_, 1), {file}},
      {"no descriptor", Packet(token_, 1), {}},
      {"two descriptors", Packet(token_, 1), {fd_, fd_}},
      {"no such session", Packet("0123456789abcdef", 1), {fd_}},
      {"short", token_, {fd_}},
      {"long", Packet(token_, 1) + "x", {fd_}},
  };
  for (const auto& test : kCases) {
    EXPECT_EQ(Offer(socket_, test.packet, test.descriptors), 0) << test.what;
  }
  EXPECT_EQ(Offer(socket_, Packet(token_, 1), {fd_}), 1);
  EXPECT_EQ(Offer(socket_, Packet(token_, 2), {fd_}), 1);
  EXPECT_EQ(Offer(socket_, Packet(token_, 1), {fd_}), 1);  // instead of the first
  EXPECT_EQ(Offer(socket_, Packet(token_, 3), {fd_}), 0);  // one too many
  for (int fd : {loose, huge, empty, read_only, file}) close(fd);
}

// Everybody on this machine may send here.
TEST_F(SegmentTest, WhatIsRefusedLeavesNoDescriptorOpen) {
  const auto open_here = [] {
    size_t count = 0;
    for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
      ++count;
    }
    return count;
  };
  const size_t before = open_here();
  for (const size_t count : {1, 2, 3, 8, 200}) {
    for (const std::string& packet : {Packet(token_, 1), Packet("0123456789abcdef", 1),
                                      std::string(), std::string(1000, 'x')}) {
      if (count == 1 && packet == Packet(token_, 1)) continue;  // that is a segment
      EXPECT_EQ(Offer(socket_, packet, std::vector<int>(count, fd_)), 0);
    }
  }
  EXPECT_EQ(open_here(), before);
}

TEST_F(SegmentTest, ItMustBeTheSessionsUserWhoBringsIt) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can act as another user";
  int answer = -1;
  std::thread([&] {
    // Of this thread alone, which glibc's function would not be.
    constexpr long kNobody = 65534;
    ASSERT_EQ(syscall(SYS_setresuid, kNobody, kNobody, kNobody), 0);
    answer = Offer(socket_, Packet(token_, 1), {fd_});
  }).join();
  EXPECT_EQ(answer, 0);
  EXPECT_EQ(Offer(socket_, Packet(token_, 1), {fd_}), 1);
}

TEST_F(SegmentTest, ChunksStayInsideOfIt) {
  ASSERT_EQ(Offer(socket_, Packet(token_, 1), {fd_}), 1);
  const struct {
    uint64_t segment, offset, bytes;
    const char* data;
    const char* message;
  } kCases[] = {
      {2, 0, 12, "", "no segment 2"},
      {1, kBytes - 11, 12, "", "of a segment of 16384"},
      {1, ~uint64_t{0}, 12, "", "of a segment of 16384"},
      {1, 4, ~uint64_t{0}, "", "at most 4194304 bytes"},
      {1, 0, 12, "both", "data or at most"},
      {1, 0, 13, "", "brings more than the 12 bytes"},
  };
  uint32_t number = 0;
  for (const auto& test : kCases) {
    ++number;
    client_->UploadLater(TensorHandle(number), 3, number);
    client_->SendAndRead();
    const grpc::Status status =
        Upload(number, 12, test.segment, test.offset, test.bytes, test.data);
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(status.error_message(), HasSubstr(test.message));
  }
}

}  // namespace
}  // namespace tensord
