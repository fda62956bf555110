#include "server/memory/memory_ledger.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>

#include "core/base/status.h"
#include "core/wire/refusal.h"
#include "server/session/fake_runtime.h"

namespace tensord {
namespace {

class MemoryLedgerTest : public testing::Test {
 protected:
  std::unique_ptr<MemoryLedger::Account> Open(const std::string& session, const std::string& user,
                                              uint64_t quota = 100) {
    return std::make_unique<MemoryLedger::Account>(ledger_, session, user, quota);
  }

  int64_t now_ = 1'000;
  FakeDevice first_{"FAKE:0"}, second_{"FAKE:1"};
  MemoryLedger ledger_{150, [this] { return now_; }};
};

TEST_F(MemoryLedgerTest, QuotasHoldToTheByteAndRefuseAsAWhole) {
  auto a = Open("session-1", "alice");
  EXPECT_TRUE(a->Charge({{&first_, 60}, {&second_, 40}}, "x").ok());
  const absl::Status refused = a->Charge({{&first_, 1}}, "y");
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(a->bytes(), 100u);
  const std::optional<Refusal> refusal = RefusalOf(refused);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->reason, "MEMORY_OF_SESSION");
  EXPECT_EQ(refusal->subject, "session:session-1");
  EXPECT_EQ(refusal->limit, 100u);
  EXPECT_EQ(refusal->used, 100u);
  EXPECT_EQ(refusal->needed, 1u);
  EXPECT_FALSE(refusal->retry_after.has_value());  // time alone changes nothing

  a->Release(&first_, 60);
  // Of two devices one has room: neither is charged.
  EXPECT_FALSE(a->Charge({{&first_, 60}, {&second_, 1}}, "z").ok());
  EXPECT_EQ(ledger_.OfDevice(&first_).bytes, 0u);
  EXPECT_TRUE(a->Charge({{&first_, 60}}, "z").ok());
  const uint64_t huge = std::numeric_limits<uint64_t>::max();
  EXPECT_FALSE(a->Charge({{&first_, huge}, {&second_, huge}}, "overflow").ok());
}

TEST_F(MemoryLedgerTest, AUserHasOneQuotaForAllSessionsAndLearnsWhoHoldsIt) {
  auto a = Open("session-1", "alice"), b = Open("session-2", "alice"), c = Open("session-3", "bob");
  EXPECT_TRUE(c->Charge({{&first_, 100}}, "bob's").ok());
  EXPECT_TRUE(a->Charge({{&first_, 90}}, "x").ok());
  EXPECT_TRUE(b->Charge({{&first_, 20}}, "x").ok());
  const std::optional<Refusal> refusal = RefusalOf(b->Charge({{&first_, 50}}, "y"));
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->reason, "MEMORY_OF_USER");
  EXPECT_EQ(refusal->limit, 150u);
  EXPECT_EQ(refusal->used, 110u);
  EXPECT_EQ(refusal->needed, 50u);
  EXPECT_EQ(refusal->retry_after, absl::Seconds(1));
  ASSERT_EQ(refusal->holders.size(), 2u);  // and not bob's
  EXPECT_EQ(refusal->holders[0].session, "session-1");
  EXPECT_EQ(refusal->holders[0].bytes, 90u);

  a->SetParkedUntil(absl::FromUnixNanos(now_) + absl::Milliseconds(300));
  EXPECT_EQ(RefusalOf(b->Charge({{&first_, 50}}, "y"))->retry_after, absl::Milliseconds(300));
  a = nullptr;
  EXPECT_TRUE(b->Charge({{&first_, 50}}, "y").ok());
  ledger_.SetUserQuota(60);
  EXPECT_FALSE(c->Charge({{&first_, 0}}, "nothing, above the quota").ok());
}

TEST_F(MemoryLedgerTest, ADeviceThatIsFullSaysWhoFillsIt) {
  first_.SetCapacity(10);
  auto a = Open("session-1", "alice"), b = Open("session-2", "bob");
  Allocator& allocator = static_cast<Device&>(first_).allocator();
  ASSERT_TRUE(a->Charge({{&first_, 8}}, "x").ok());
  const auto held = allocator.Allocate(8);
  ASSERT_TRUE(b->Charge({{&first_, 4}}, "y").ok());
  const MemoryLedger::Need needs[] = {{&first_, 4}};
  const absl::Status full = allocator.Allocate(4).status();
  b->Release(&first_, 4);
  const absl::Status explained = ledger_.Explain(full, needs);
  EXPECT_EQ(Message(explained), Message(full));
  const std::optional<Refusal> refusal = RefusalOf(explained);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->reason, "MEMORY_OF_DEVICE");
  EXPECT_EQ(refusal->subject, "device:FAKE:0");
  EXPECT_EQ(refusal->limit, 10u);
  EXPECT_EQ(refusal->used, 8u);
  EXPECT_EQ(refusal->retry_after, absl::Seconds(1));
  ASSERT_EQ(refusal->holders.size(), 1u);
  EXPECT_EQ(refusal->holders[0].session, "session-1");
  // A queue that is full, say.
  const MemoryLedger::Need fits[] = {{&first_, 2}};
  EXPECT_FALSE(RefusalOf(ledger_.Explain(full, fits)).has_value());
}

TEST_F(MemoryLedgerTest, BillsAddUpToWhatTheDevicesHeld) {
  auto a = Open("session-1", "alice"), b = Open("session-2", "bob");
  ASSERT_TRUE(a->Charge({{&first_, 10}, {&second_, 3}}, "x").ok());
  now_ += 7;
  ASSERT_TRUE(b->Charge({{&first_, 5}}, "x").ok());
  now_ += 11;
  a->Release(&first_, 4);
  now_ += 13;
  EXPECT_EQ(a->byte_ns(), 10u * 18 + 6u * 13 + 3u * 31);
  EXPECT_EQ(b->byte_ns(), 5u * 24);
  a->Close();
  const absl::uint128 bill = a->byte_ns();
  now_ += 17;
  EXPECT_EQ(a->byte_ns(), bill);
  EXPECT_EQ(a->byte_ns() + b->byte_ns(),
            ledger_.OfDevice(&first_).byte_ns + ledger_.OfDevice(&second_).byte_ns);
  a->Release(&first_, 6);  // of a run that was still in flight
  EXPECT_EQ(ledger_.OfDevice(&first_).bytes, 5u);
  now_ -= 100;  // a clock that is set back
  EXPECT_EQ(b->byte_ns(), 5u * 41);
}

}  // namespace
}  // namespace tensord
