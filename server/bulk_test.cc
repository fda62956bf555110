// Uploads and downloads.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "server/test_client.h"

namespace tensord {
namespace {

TEST_F(ServerTest, BulkDataComesInChunksBothWays) {
  StartServer();
  auto client = Open();
  const size_t kSizes[] = {0, 1, 1 << 18, (1 << 18) + 1, 3'000'000};  // floats; 12 MB > 4 MiB
  uint32_t slot = 0;
  for (size_t count : kSizes) {
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i % 1009);
    client->UploadLater(TensorHandle(slot), count, slot + 1);
    client->Send();
    const grpc::Status status = client->Bulk(slot + 1, Bytes(values));
    ASSERT_TRUE(status.ok()) << status.error_message();
    std::string bytes;
    int chunks = 0;
    ASSERT_TRUE(client->Download(TensorHandle(slot), &bytes, &chunks).ok());
    EXPECT_EQ(Floats(bytes), values) << count;
    EXPECT_EQ(chunks, std::max<int>(1, (count * 4 + (1 << 20) - 1) / (1 << 20)));
    ++slot;
  }
}

TEST_F(ServerTest, BulkDataMayComeBeforeItsCommand) {
  StartServer();
  auto client = Open();
  grpc::ClientContext context;
  v1::UploadReply reply;
  const auto writer = client->stub().Upload(&context, &reply);
  v1::UploadChunk chunk;
  chunk.set_session_token(client->welcome.session_token());
  chunk.set_transfer_id(7);
  chunk.set_total_bytes(12);
  chunk.set_data(Bytes({1, 2}));
  ASSERT_TRUE(writer->Write(chunk));  // in process, this returns once the daemon has read it
  client->UploadLater(TensorHandle(0), 3, 7);
  client->Send();
  while (client->Counters().bytes_uploaded() < 8) std::this_thread::yield();
  EXPECT_EQ(client->Bulk(7, Bytes({5, 6, 7})).error_code(), grpc::StatusCode::ALREADY_EXISTS);
  chunk.Clear();
  chunk.set_offset(8);
  chunk.set_data(Bytes({3}));
  ASSERT_TRUE(writer->Write(chunk));
  writer->WritesDone();
  const grpc::Status status = writer->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(client->Values(TensorHandle(0)), (std::vector<float>{1, 2, 3}));
}

TEST_F(ServerTest, ARunWaitsForItsUpload) {
  StartServer();
  auto client = Open();
  client->UploadLater(TensorHandle(0), 2, 1);
  client->Register(ProgramHandle(0), AddProgram("sum", 2));
  client->Run(ProgramHandle(0), {TensorHandle(0), TensorHandle(0)}, {TensorHandle(1)}, true);
  client->Send();
  client->ReadUntil(2);
  ASSERT_TRUE(client->Bulk(1, Bytes({1, 2})).ok());
  ASSERT_NE(client->ReadCompletion(3), nullptr);
  EXPECT_EQ(client->Values(TensorHandle(1)), (std::vector<float>{2, 4}));
}

TEST_F(ServerTest, AnUploadThatFailsPoisonsItsTensor) {
  StartServer();
  const struct {
    const char* name;
    std::string bytes;
    uint64_t announced;
    const char* error;
  } kCases[] = {
      {"OtherSize", Bytes({1, 2, 3}), 12, "transfer 1 brings 12 bytes: float32[2] has 8"},
      {"TooShort", Bytes({1}), 8, "the upload ended after 4 of 8 bytes"},
      {"TooLong", Bytes({1, 2, 3}), 8, "the upload brings more than the 8 bytes that it announced"},
      {"ChunkTooLarge", std::string((1 << 20) + 1, 'x'), 8, "a chunk has 1048577 bytes"},
  };
  for (const auto& test : kCases) {
    SCOPED_TRACE(test.name);
    auto client = Open();
    client->UploadLater(TensorHandle(0), 2, 1);
    client->SendAndRead();
    const grpc::Status status =
        client->Bulk(1, test.bytes, test.announced, client->welcome.session_token(), 2 << 20);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_NE(status.error_message().find(test.error), std::string::npos) << status.error_message();
    if (std::string_view(test.name) == "ChunkTooLarge") continue;  // refused before it was begun
    EXPECT_NE(client->Wait(TensorHandle(0)).message().find(test.error), std::string::npos);
  }
}

TEST_F(ServerTest, ACancelledDownloadEnds) {
  StartServer();
  auto client = Open();
  grpc::ClientContext context;
  v1::DownloadRequest request;
  request.set_session_token(client->welcome.session_token());
  request.set_handle(TensorHandle(0));
  request.set_after_sequence(100);  // never comes
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(20));
  const auto reader = client->stub().Download(&context, request);
  v1::DownloadChunk chunk;
  EXPECT_FALSE(reader->Read(&chunk));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
}

}  // namespace
}  // namespace tensord
