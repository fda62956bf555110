#include "core/wire/refusal.h"

#include <gtest/gtest.h>

#include "core/base/status.h"
#include "core/wire/status.h"

namespace tensord {
namespace {

TEST(RefusalTest, GoesOverTheWireAndThroughAnnotations) {
  const absl::Status refused = Refuse({.reason = "MEMORY_OF_USER",
                                       .subject = "user:alice",
                                       .limit = uint64_t{1} << 40,
                                       .used = 80,
                                       .needed = 40,
                                       .retry_after = absl::Milliseconds(1500),
                                       .holders = {{"session-2", 50}, {"session-1", 30}}},
                                      "no room");
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  v1::Status wire;
  Encode(Annotate(refused, "run of '{}'", "step"), &wire);
  const absl::Status received = Annotate(Decode(wire), "tensor");
  EXPECT_EQ(Message(received), "tensor: run of 'step': no room");
  const std::optional<Refusal> refusal = RefusalOf(received);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->reason, "MEMORY_OF_USER");
  EXPECT_EQ(refusal->subject, "user:alice");
  EXPECT_EQ(refusal->limit, uint64_t{1} << 40);
  EXPECT_EQ(refusal->used, 80u);
  EXPECT_EQ(refusal->needed, 40u);
  EXPECT_EQ(refusal->retry_after, absl::Milliseconds(1500));
  ASSERT_EQ(refusal->holders.size(), 2u);
  EXPECT_EQ(refusal->holders[1].session, "session-1");
  EXPECT_EQ(refusal->holders[1].bytes, 30u);
}

TEST(RefusalTest, OtherErrorsAreNone) {
  EXPECT_FALSE(RefusalOf(absl::OkStatus()).has_value());
  EXPECT_FALSE(RefusalOf(ResourceExhausted("no room")).has_value());
  v1::Status foreign;
  foreign.set_code(8);
  foreign.add_details()->set_type_url("type.googleapis.com/google.rpc.Help");
  EXPECT_FALSE(RefusalOf(Decode(foreign)).has_value());
}

}  // namespace
}  // namespace tensord
