#include "server/trace/trace_ring.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace tensord {
namespace {

constexpr size_t kAll = 1 << 20;

bool Anything(const TraceRecord&) { return true; }

TraceRecord Record(uint64_t sequence, size_t steps = 0) {
  TraceRecord record;
  record.sequence = sequence;
  if (steps > 0) record.devices.emplace_back().steps.resize(steps);
  return record;
}

std::vector<uint64_t> Sequences(const TraceRing::Found& found) {
  std::vector<uint64_t> sequences;
  for (const TraceRecord& record : found.records) sequences.push_back(record.sequence);
  return sequences;
}

void Add(TraceRing& ring, TraceRecord record) { ring.Add({&record, 1}); }

using Numbers = std::vector<uint64_t>;

TEST(TraceRingTest, KeepsTheLatest) {
  TraceRing ring({.records = 3, .steps = 10});
  EXPECT_TRUE(ring.Read(0, kAll, Anything).records.empty());
  for (uint64_t i = 101; i <= 105; ++i) Add(ring, Record(i));
  const TraceRing::Found found = ring.Read(0, kAll, Anything);
  EXPECT_EQ(Sequences(found), Numbers({103, 104, 105}));
  EXPECT_EQ(found.records[0].number, 3u);
  EXPECT_EQ(found.lost, 2u);
  EXPECT_EQ(found.last, 5u);
  EXPECT_FALSE(found.more);
}

TEST(TraceRingTest, GoesOnWhereTheLastReadEnded) {
  TraceRing ring({.records = 8, .steps = 10});
  for (uint64_t i = 1; i <= 6; ++i) Add(ring, Record(i));
  TraceRing::Found found = ring.Read(1, 2, Anything);
  EXPECT_EQ(Sequences(found), Numbers({2, 3}));
  EXPECT_EQ(found.lost, 0u);
  EXPECT_TRUE(found.more);
  found = ring.Read(found.last, kAll, Anything);
  EXPECT_EQ(Sequences(found), Numbers({4, 5, 6}));
  EXPECT_FALSE(found.more);
  found = ring.Read(found.last, kAll, Anything);
  EXPECT_TRUE(found.records.empty());
  EXPECT_EQ(found.last, 6u);
  // A reader of another ring, from before a restart, finds nothing and is back at the present.
  EXPECT_EQ(ring.Read(1000, kAll, Anything).last, 6u);
}

TEST(TraceRingTest, LooksAtWhatIsNotWantedToo) {
  TraceRing ring({.records = 8, .steps = 10});
  for (uint64_t i = 1; i <= 6; ++i) Add(ring, Record(i));
  const auto even = [](const TraceRecord& record) { return record.sequence % 2 == 0; };
  const TraceRing::Found found = ring.Read(0, 3, even);
  EXPECT_EQ(Sequences(found), Numbers({2}));
  EXPECT_EQ(found.last, 3u);
  EXPECT_TRUE(found.more);
}

TEST(TraceRingTest, StepsPushOldRecordsOut) {
  TraceRing ring({.records = 8, .steps = 10});
  for (uint64_t i = 1; i <= 4; ++i) Add(ring, Record(i, 3));
  EXPECT_EQ(Sequences(ring.Read(0, kAll, Anything)), Numbers({2, 3, 4}));
  Add(ring, Record(5));  // takes no steps, so all stay
  EXPECT_EQ(Sequences(ring.Read(0, kAll, Anything)), Numbers({2, 3, 4, 5}));
  Add(ring, Record(6, 100));  // alone, whatever it has
  EXPECT_EQ(Sequences(ring.Read(0, kAll, Anything)), Numbers({6}));
  Add(ring, Record(7, 1));
  EXPECT_EQ(Sequences(ring.Read(0, kAll, Anything)), Numbers({7}));
  EXPECT_EQ(ring.Read(0, kAll, Anything).lost, 6u);
}

TEST(TraceRingTest, WhatIsPushedOutLetsGoOfItsProgram) {
  TraceRing ring({.records = 2, .steps = 10});
  auto program = std::make_shared<const TracedProgram>();
  TraceRecord record = Record(1);
  record.program = program;
  Add(ring, std::move(record));
  EXPECT_EQ(program.use_count(), 2);
  Add(ring, Record(2));
  Add(ring, Record(3));
  EXPECT_EQ(program.use_count(), 1);
}

TEST(TraceRingTest, ManyAddWhileOthersRead) {
  constexpr uint64_t kThreads = 4, kEach = 5000;
  TraceRing ring({.records = 64, .steps = 128});
  std::vector<std::jthread> writers;
  for (uint64_t thread = 0; thread < kThreads; ++thread) {
    writers.emplace_back([&ring, thread] {
      for (uint64_t i = 0; i < kEach; ++i) Add(ring, Record(thread * kEach + i, i % 4));
    });
  }
  uint64_t seen = 0, lost = 0, last = 0;
  while (last < kThreads * kEach) {
    const TraceRing::Found found = ring.Read(last, 16, Anything);
    for (const TraceRecord& record : found.records) {
      ASSERT_EQ(record.number, last + found.lost + 1 + (&record - found.records.data()));
    }
    seen += found.records.size();
    lost += found.lost;
    ASSERT_EQ(found.last, last + found.lost + found.records.size());
    last = found.last;
  }
  EXPECT_EQ(seen + lost, kThreads * kEach);
}

}  // namespace
}  // namespace tensord
