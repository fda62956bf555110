// Copies between host and device memory.
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "backends/conformance/suite.h"
#include "core/device/device.h"

namespace tensord::conformance {
namespace {

using CopyTest = ConformanceTest;

std::vector<uint8_t> Pattern(size_t bytes, uint32_t seed) {
  std::vector<uint8_t> data(bytes);
  uint32_t state = seed * 2654435761u + 1;
  for (uint8_t& byte : data) byte = (state = state * 1664525 + 1013904223) >> 24;
  return data;
}

TEST_F(CopyTest, BytesSurviveTheRoundTrip) {
  for (const size_t bytes : {0, 1, 2, 3, 7, 8, 63, 64, 65, 4095, 4097, 1 << 20, (1 << 20) + 1,
                             (16 << 20) - 3, 64 << 20}) {
    const auto memory = Allocate(bytes);
    const std::vector<uint8_t> sent = Pattern(bytes, bytes);
    Upload(*memory, sent.data(), bytes);
    std::vector<uint8_t> received(bytes);
    Download(received.data(), *memory, bytes);
    EXPECT_TRUE(sent == received) << bytes << " bytes";
  }
}

TEST_F(CopyTest, AnyAlignment) {
  constexpr size_t kBytes = 4096;
  const auto memory = Allocate(kBytes);
  const std::vector<uint8_t> sent = Pattern(kBytes, 1);
  for (size_t offset = 0; offset < 70; offset += 3) {
    const size_t bytes = kBytes - 2 * offset;
    auto* const inside = static_cast<uint8_t*>(memory->address()) + offset;
    std::vector<uint8_t> received(kBytes, 0);
    OrderedList list = Begin();
    list.commands.Copy(inside, sent.data() + offset / 2, bytes);
    list.commands.Copy(received.data() + offset, inside, bytes);
    ASSERT_TRUE(WaitFor(Submit(std::move(list))).ok());
    for (size_t i = 0; i < bytes; ++i) ASSERT_EQ(received[offset + i], sent[offset / 2 + i]);
  }
}

TEST_F(CopyTest, SingleBytes) {
  const auto memory = Allocate(256);
  for (int i = 0; i < 256; ++i) {
    const uint8_t sent = i;
    uint8_t received = ~sent;
    auto* const at = static_cast<uint8_t*>(memory->address()) + i;
    OrderedList list = Begin();
    list.commands.Copy(at, &sent, 1);
    list.commands.Copy(&received, at, 1);
    ASSERT_TRUE(WaitFor(Submit(std::move(list))).ok());
    ASSERT_EQ(received, sent);
  }
}

TEST_F(CopyTest, ChainedInOneSubmission) {
  constexpr size_t kBytes = (3 << 20) + 5;
  const auto a = Allocate(kBytes), b = Allocate(kBytes), c = Allocate(kBytes);
  const std::vector<uint8_t> sent = Pattern(kBytes, 3);
  std::vector<uint8_t> received(kBytes);
  OrderedList list = Begin();
  list.commands.Copy(a->address(), sent.data(), kBytes);
  list.commands.Copy(b->address(), a->address(), kBytes);
  list.commands.Copy(c->address(), b->address(), kBytes);
  list.commands.Copy(received.data(), c->address(), kBytes);
  ASSERT_TRUE(WaitFor(Submit(std::move(list))).ok());
  EXPECT_TRUE(sent == received);
}

TEST_F(CopyTest, HostWritesBeforeASubmissionAreSeen) {
  const auto memory = Allocate(8);
  if (memory->host_address() == nullptr) GTEST_SKIP() << "the host can't see device memory";
  for (uint64_t i = 1; i < 256; ++i) {
    *static_cast<uint64_t*>(memory->host_address()) = i;
    uint64_t received = 0;
    OrderedList list = Begin();
    list.commands.Barrier();
    list.commands.Copy(&received, memory->address(), sizeof received);
    ASSERT_TRUE(WaitFor(Submit(std::move(list))).ok());
    ASSERT_EQ(received, i);
  }
}

}  // namespace
}  // namespace tensord::conformance
