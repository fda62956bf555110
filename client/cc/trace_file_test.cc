#include "client/cc/trace_file.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace tensord::client {
namespace {

// Times in the tests are microseconds, so that they read like the file.
constexpr int64_t kUs = 1000;

v1::TraceRecord RunOf(uint64_t sequence, std::vector<int64_t> times) {
  v1::TraceRecord record;
  record.set_kind(v1::TraceRecord::KIND_RUN);
  record.set_session_id("session-1");
  record.set_user("alice");
  record.set_same_clock(true);
  record.set_sequence(sequence);
  record.set_program("step");
  record.set_program_hash(0xabc);
  record.set_sent_ns(times[0] * kUs);
  record.set_received_ns(times[1] * kUs);
  record.set_ready_ns(times[2] * kUs);
  record.set_turn_ns(times[3] * kUs);
  record.set_done_ns(times[4] * kUs);
  record.set_told_ns(times[5] * kUs);
  return record;
}

v1::TraceRecord::OnDevice OnDevice(const std::string& device, int64_t begin, int64_t end) {
  v1::TraceRecord::OnDevice on;
  on.set_device(device);
  on.set_begin_ns(begin * kUs);
  on.set_end_ns(end * kUs);
  return on;
}

// The slices, as "group/track: name begin-end", in the order of the file.
std::vector<std::string> Slices(const v1::TraceFile& file) {
  std::map<uint32_t, std::string> groups;
  std::map<std::pair<uint32_t, uint32_t>, std::string> tracks;
  std::vector<std::string> slices;
  const auto name = [](const v1::TraceEvent& event) {
    return event.args().fields().at("name").string_value();
  };
  for (const v1::TraceEvent& event : file.trace_events()) {
    if (event.name() == "process_name") groups[event.pid()] = name(event);
    if (event.name() == "thread_name") tracks[{event.pid(), event.tid()}] = name(event);
  }
  for (const v1::TraceEvent& event : file.trace_events()) {
    if (event.ph() != "X") continue;
    const auto end = static_cast<int64_t>(event.ts() + event.dur());
    slices.push_back(groups.at(event.pid()) + "/" + tracks.at({event.pid(), event.tid()}) + ": " +
                     event.name() + " " + std::to_string(static_cast<int64_t>(event.ts())) + "-" +
                     std::to_string(end));
  }
  return slices;
}

using Texts = std::vector<std::string>;

TEST(TraceFileTest, ARunIsItsPartsInOrder) {
  v1::TraceRecord record = RunOf(7, {10, 20, 30, 40, 90, 95});
  *record.add_devices() = OnDevice("CPU:0", 50, 80);
  v1::TraceRecord::Step* step = record.mutable_devices(0)->add_steps();
  step->set_name("matmul");
  step->set_begin_ns(51 * kUs);
  step->set_end_ns(79 * kUs);
  EXPECT_EQ(Slices(MakeTraceFile({.records = {record}})),
            Texts({"daemon, session-1 of alice/runs: step 10-95",
                   "daemon, session-1 of alice/runs: rpc 10-20",
                   "daemon, session-1 of alice/runs: queue 20-30",
                   "daemon, session-1 of alice/runs: turn 30-40",
                   "daemon, session-1 of alice/runs: device 40-90",
                   "daemon, session-1 of alice/runs: reply 90-95", "devices/CPU:0: step 50-80",
                   "devices/CPU:0: matmul 51-79"}));
}

TEST(TraceFileTest, WhatThereWasNotIsNoSlice) {
  const auto rows = [](const v1::TraceRecord& record) {
    return Slices(MakeTraceFile({.records = {record}}));
  };
  // No client that says when, nobody who was told, and a device that never began.
  v1::TraceRecord record = RunOf(7, {0, 20, 30, 40, 90, 0});
  *record.add_devices() = OnDevice("CPU:0", 0, 0);
  EXPECT_EQ(rows(record).front(), "daemon, session-1 of alice/runs: step 20-90");
  EXPECT_EQ(rows(record).size(), 4u);
  // A clock of another machine, which nobody has compared.
  record = RunOf(7, {10, 20, 30, 40, 90, 95});
  record.set_same_clock(false);
  EXPECT_EQ(rows(record).front(), "daemon, session-1 of alice/runs: step 20-95");
}

TEST(TraceFileTest, RunsThatOverlapHaveTracksOfTheirOwn) {
  const Texts slices = Slices(MakeTraceFile(
      {.records = {RunOf(1, {0, 10, 10, 10, 50, 60}), RunOf(2, {0, 20, 50, 50, 70, 80}),
                   RunOf(3, {0, 60, 70, 70, 90, 100}), RunOf(4, {0, 79, 90, 90, 95, 99})}}));
  Texts runs;
  for (const std::string& slice : slices) {
    if (slice.find(": step") != std::string::npos) runs.push_back(slice.substr(27));
  }
  EXPECT_EQ(runs, Texts({"runs: step 10-60", "runs (2): step 20-80", "runs: step 60-100",
                         "runs (3): step 79-99"}));
}

TEST(TraceFileTest, ARunThatWaitedForItsCompilationSaysSo) {
  v1::TraceRecord record = RunOf(7, {0, 20, 30, 40, 90, 95});
  record.mutable_compile()->set_begin_ns(5 * kUs);
  record.mutable_compile()->set_end_ns(28 * kUs);
  const Texts slices = Slices(MakeTraceFile({.records = {record}}));
  EXPECT_EQ(slices[1], "daemon, session-1 of alice/runs: queue 20-30");
  EXPECT_EQ(slices[2], "daemon, session-1 of alice/runs: compile 20-28");
}

TEST(TraceFileTest, ArrowsGoFromTheCallToTheRunToEachDevice) {
  v1::TraceRecord record = RunOf(7, {110, 20, 30, 40, 90, 95});
  *record.add_devices() = OnDevice("CPU:0", 50, 80);
  *record.add_devices() = OnDevice("CPU:1", 51, 81);
  v1::TraceRecord other = RunOf(7, {0, 20, 30, 40, 90, 95});
  other.set_session_id("session-2");  // whose number 7 is not the client's
  const v1::TraceFile file = MakeTraceFile(
      {.records = {record, other},
       .session_id = "session-1",
       .client_name = "test",
       .slices = {{.name = "run", .begin_ns = 105 * kUs, .end_ns = 112 * kUs, .sequence = 7}},
       .add_to_client_ns = -100 * kUs,
       .about = {{"clock", "shifted"}}});
  EXPECT_EQ(Slices(file)[0], "client test/thread 0: run 5-12");
  EXPECT_EQ(Slices(file)[1], "daemon, session-1 of alice/runs: step 10-95");
  std::map<uint32_t, Texts> arrows;
  for (const v1::TraceEvent& event : file.trace_events()) {
    if (event.ph() != "s" && event.ph() != "f") continue;
    arrows[event.id()].push_back(event.ph() + std::to_string(static_cast<int64_t>(event.ts())));
  }
  EXPECT_EQ(arrows, (std::map<uint32_t, Texts>{
                        {1, {"s5", "f10"}}, {2, {"s40", "f50"}}, {3, {"s40", "f51"}}}));
  EXPECT_EQ(file.other_data().fields().at("clock").string_value(), "shifted");
}

TEST(TraceFileTest, NumbersAreNumbersInJson) {
  v1::TraceRecord record;
  record.set_kind(v1::TraceRecord::KIND_UPLOAD);
  record.set_session_id("session-1");
  record.set_bytes(uint64_t{5} << 32);
  record.set_received_ns(int64_t{987'654'321} * 1'000'000 + 1);
  record.set_done_ns(record.received_ns());
  const auto json = TraceJson(MakeTraceFile({.records = {record}}));
  ASSERT_TRUE(json.ok()) << json.status();
  for (const char* part : {"\"traceEvents\":[", "\"ph\":\"X\"", "\"ts\":987654321000.001",
                           "\"dur\":0", "\"bytes\":21474836480", "\"displayTimeUnit\":\"ms\""}) {
    EXPECT_NE(json->find(part), std::string::npos) << part << "\n" << *json;
  }
}

}  // namespace
}  // namespace tensord::client
