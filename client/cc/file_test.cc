#include "client/cc/file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "client/cc/client.h"
#include "client/cc/fake_daemon.h"
#include "client/cc/ops.h"

namespace tensord {
namespace {

using Floats = std::vector<float>;

class FileTest : public ::testing::Test {
 protected:
  FileTest() : path_(::testing::TempDir() + "/file_test_data") {
    const Floats data = {9, 1, 2, 3};
    std::ofstream(path_, std::ios::binary)
        .write(reinterpret_cast<const char*>(data.data()), data.size() * sizeof(float));
    file_ = File::Open(path_).value();
    client_ = Client::Connect(daemon_.address()).value();
  }
  ~FileTest() override {
    EXPECT_TRUE(client_->Wait().ok());
    EXPECT_EQ(daemon_.violations(), std::vector<std::string>{});
    std::filesystem::remove(path_);
  }

  Tensor Three() { return client_->FromFile(file_, sizeof(float), DType::kFloat32, {3}); }
  int Uploads() {
    EXPECT_TRUE(client_->Wait().ok());
    return daemon_.count(v1::Command::kUpload);
  }

  const std::string path_;
  std::shared_ptr<const File> file_;
  FakeDaemon daemon_;
  std::unique_ptr<Client> client_;
};

TEST_F(FileTest, SendsWhatIsUsedAndOnce) {
  const int before = Uploads();
  const Tensor x = Three();
  const Tensor unused = Three();
  const Tensor y = x * 2.0;
  EXPECT_EQ(Uploads(), before);
  EXPECT_EQ(y.ToHost<float>().value(), (Floats{2, 4, 6}));
  EXPECT_EQ(x.ToHost<float>().value(), (Floats{1, 2, 3}));
  EXPECT_TRUE(x.is_realized());
  EXPECT_FALSE(unused.is_realized());
  EXPECT_EQ(Uploads(), before + 1);
}

TEST_F(FileTest, WhatIsOverwrittenIsNotSent) {
  const int before = Uploads();
  const Tensor x = Three();
  ASSERT_TRUE(x.Assign(client_->Ones({3})).ok());
  EXPECT_EQ(x.ToHost<float>().value(), (Floats{1, 1, 1}));
  EXPECT_EQ(Uploads(), before);
}

TEST_F(FileTest, ThreadsThatNeedOneTensorSendItOnce) {
  const int before = Uploads();
  const Tensor x = Three();
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&x] { EXPECT_EQ((x + 1.0).ToHost<float>().value(), (Floats{2, 3, 4})); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Uploads(), before + 1);
}

TEST_F(FileTest, AFileThatWasCutIsAnErrorAndMayBeTriedAgain) {
  const Tensor x = Three();
  std::filesystem::resize_file(path_, 8);
  const absl::StatusOr<Floats> cut = (x + 1.0).ToHost<float>();
  EXPECT_TRUE(absl::IsDataLoss(cut.status())) << cut.status();
  std::filesystem::resize_file(path_, 16);
  EXPECT_EQ((x + 1.0).ToHost<float>().value(), (Floats{2, 1, 1}));
}

TEST_F(FileTest, WhatDoesNotFitInTheFileIsAnError) {
  const struct {
    uint64_t offset;
    std::vector<int64_t> shape;
  } kCases[] = {
      {0, {5}}, {8, {3}}, {17, {0}}, {~uint64_t{0}, {1}}, {0, {-1}}, {0, {int64_t{1} << 62, 4}}};
  for (const auto& [offset, shape] : kCases) {
    const Tensor x = client_->FromFile(file_, offset, DType::kFloat32, shape);
    EXPECT_TRUE(absl::IsInvalidArgument(x.status())) << offset << ": " << x.status();
  }
  EXPECT_TRUE(client_->FromFile(file_, 16, DType::kFloat32, {0, 4}).ok());
}

TEST(File, OpensRegularFilesOnly) {
  EXPECT_TRUE(absl::IsNotFound(File::Open("/nonexistent/file").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(File::Open("/").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(File::Open("/dev/null").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(File::Open(std::string("/tmp\0x", 6)).status()));
}

}  // namespace
}  // namespace tensord
