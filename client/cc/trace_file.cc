#include "client/cc/trace_file.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>

#include "core/base/status.h"

namespace tensord::client {
namespace {

using Record = v1::TraceRecord;

struct Track {
  uint32_t group = 0;  // "process" in the format
  uint32_t number = 0;
};

// Of a kind of record: what its tracks are called, and which category its slices have.
struct KindNames {
  Record::Kind kind;
  const char* tracks;
  const char* category;
};
constexpr KindNames kKinds[] = {{Record::KIND_COMPILE, "compiles", "compile"},
                                {Record::KIND_UPLOAD, "uploads", "transfer"},
                                {Record::KIND_RUN, "runs", "run"},
                                {Record::KIND_DOWNLOAD, "downloads", "transfer"}};

// A part of a record's slice, from one time to the next.
struct Part {
  const char* name;
  int64_t begin_ns, end_ns;
};

double Microseconds(int64_t ns) { return static_cast<double>(ns) / 1e3; }

std::string NameOf(const Record& record) {
  switch (record.kind()) {
    case Record::KIND_RUN:
      return record.program().empty() ? "run" : record.program();
    case Record::KIND_COMPILE:
      return record.program().empty() ? "compile" : "compile " + record.program();
    case Record::KIND_UPLOAD:
      return "upload";
    default:
      return "download";
  }
}

class Maker {
 public:
  explicit Maker(const TraceContents& contents) : contents_(contents) {}

  v1::TraceFile Make() {
    file_.set_display_time_unit("ms");
    auto& about = *file_.mutable_other_data()->mutable_fields();
    for (const auto& [key, text] : contents_.about) about[key].set_string_value(text);
    AddClient();
    AddSessions();
    return std::move(file_);
  }

 private:
  v1::TraceEvent& Add(const char* kind, std::string name, Track track) {
    v1::TraceEvent& event = *file_.add_trace_events();
    event.set_ph(kind);
    event.set_name(std::move(name));
    event.set_pid(track.group);
    event.set_tid(track.number);
    return event;
  }

  void AddMetadata(Track track, const char* what, const char* field, std::string name) {
    (*Add("M", what, track).mutable_args()->mutable_fields())[field].set_string_value(
        std::move(name));
  }
  void AddOrder(Track track, const char* what, uint32_t order) {
    (*Add("M", what, track).mutable_args()->mutable_fields())["sort_index"].set_number_value(order);
  }

  uint32_t NewGroup(std::string name) {
    const Track group{.group = ++groups_};
    AddMetadata(group, "process_name", "name", std::move(name));
    AddOrder(group, "process_sort_index", group.group);
    return group.group;
  }

  Track NewTrack(uint32_t group, std::string name) {
    const Track track{.group = group, .number = ++tracks_};
    AddMetadata(track, "thread_name", "name", std::move(name));
    AddOrder(track, "thread_sort_index", track.number);
    return track;
  }

  google::protobuf::Map<std::string, google::protobuf::Value>& AddSlice(
      Track track, std::string name, const char* category, int64_t begin_ns, int64_t end_ns) {
    v1::TraceEvent& event = Add("X", std::move(name), track);
    event.set_cat(category);
    event.set_ts(Microseconds(begin_ns));
    event.set_dur(Microseconds(end_ns - begin_ns));
    return *event.mutable_args()->mutable_fields();
  }

  struct Point {
    Track track;
    int64_t at_ns;
  };
  void AddArrow(const char* name, Point from, Point to) {
    ++arrows_;
    for (const auto& [kind, point] : {std::pair("s", from), std::pair("f", to)}) {
      v1::TraceEvent& event = Add(kind, name, point.track);
      event.set_cat("flow");
      event.set_ts(Microseconds(point.at_ns));
      event.set_id(arrows_);
      if (*kind == 'f') event.set_bp("e");
    }
  }

  void AddClient() {
    if (contents_.slices.empty()) return;
    const uint32_t group = NewGroup("client " + contents_.client_name);
    const int64_t add = contents_.add_to_client_ns.value_or(0);
    std::map<int64_t, Track> threads;
    for (const Slice& slice : contents_.slices) {
      const auto [found, is_new] = threads.try_emplace(slice.thread);
      if (is_new) found->second = NewTrack(group, fmt::format("thread {}", slice.thread));
      auto& args =
          AddSlice(found->second, slice.name, "client", slice.begin_ns + add, slice.end_ns + add);
      if (slice.bytes > 0) args["bytes"].set_number_value(static_cast<double>(slice.bytes));
      if (slice.sequence == 0) continue;
      args["command"].set_number_value(static_cast<double>(slice.sequence));
      calls_[slice.sequence] = {found->second, slice.begin_ns + add};
    }
  }

  // When the client sent it, by the daemon's clock; 0 if nobody knows.
  int64_t SentNs(const Record& record) const {
    if (record.sent_ns() == 0) return 0;
    if (contents_.add_to_client_ns && record.session_id() == contents_.session_id) {
      return record.sent_ns() + *contents_.add_to_client_ns;
    }
    return record.same_clock() ? record.sent_ns() : 0;
  }

  std::vector<Part> PartsOf(const Record& record) const {
    std::vector<Part> parts;
    const int64_t sent = SentNs(record), received = record.received_ns();
    // One that was estimated may come out too late.
    if (sent != 0 && sent < received) parts.push_back({"rpc", sent, received});
    const auto add = [&parts](const char* name, int64_t begin_ns, int64_t end_ns) {
      if (begin_ns != 0 && end_ns >= begin_ns) parts.push_back({name, begin_ns, end_ns});
    };
    switch (record.kind()) {
      case Record::KIND_RUN:
        add("queue", received, record.ready_ns());
        add("turn", record.ready_ns(), record.turn_ns());
        add("device", record.turn_ns(), record.done_ns());
        add("reply", record.done_ns(), record.told_ns());
        break;
      case Record::KIND_COMPILE:
        add("queue", received, record.turn_ns());
        add("compile", record.turn_ns(), record.done_ns());
        break;
      default:
        add("wait", received, record.ready_ns());
        add("bytes", record.ready_ns() != 0 ? record.ready_ns() : received, record.done_ns());
    }
    return parts;
  }

  void AddSessions() {
    std::map<std::string_view, uint32_t> groups;
    for (const Record& record : contents_.records) {
      const auto [found, is_new] = groups.try_emplace(record.session_id());
      if (!is_new) continue;
      found->second = NewGroup(fmt::format(
          "daemon, {} of {}{}", record.session_id(),
          record.user().empty() ? "nobody" : record.user(),
          record.client_name().empty() ? "" : fmt::format(" ({})", record.client_name())));
    }
    std::map<std::string, Track> devices;
    for (const Record& record : contents_.records) {
      for (const Record::OnDevice& on : record.devices()) devices[on.device()];
    }
    const uint32_t device_group = devices.empty() ? 0 : NewGroup("devices");
    for (auto& [name, track] : devices) track = NewTrack(device_group, name);
    for (const auto& [session, group] : groups) {
      for (const KindNames& kind : kKinds) AddKind(session, group, kind, devices);
    }
  }

  // The records of one kind, of which several may be under way at once: each goes to the first
  // track that is free.
  void AddKind(std::string_view session, uint32_t group, const KindNames& kind,
               const std::map<std::string, Track>& devices) {
    struct Placed {
      const Record* record;
      std::vector<Part> parts;
    };
    std::vector<Placed> all;
    for (const Record& record : contents_.records) {
      if (record.kind() != kind.kind || record.session_id() != session) continue;
      std::vector<Part> parts = PartsOf(record);
      if (!parts.empty()) all.push_back({&record, std::move(parts)});
    }
    std::stable_sort(all.begin(), all.end(), [](const Placed& a, const Placed& b) {
      return a.parts.front().begin_ns < b.parts.front().begin_ns;
    });
    std::vector<std::pair<Track, int64_t>> tracks;  // and when each is free
    for (const Placed& placed : all) {
      const int64_t begin = placed.parts.front().begin_ns, end = placed.parts.back().end_ns;
      auto free = std::find_if(tracks.begin(), tracks.end(),
                               [begin](const auto& track) { return track.second <= begin; });
      if (free == tracks.end()) {
        const std::string name = tracks.empty()
                                     ? std::string(kind.tracks)
                                     : fmt::format("{} ({})", kind.tracks, tracks.size() + 1);
        free = tracks.insert(free, {NewTrack(group, name), 0});
      }
      free->second = end;
      AddRecord(*placed.record, placed.parts, free->first, kind.category);
      if (placed.record->kind() == Record::KIND_RUN) {
        AddDevices(*placed.record, free->first, devices);
      }
    }
  }

  void AddRecord(const Record& record, const std::vector<Part>& parts, Track track,
                 const char* category) {
    const int64_t begin = parts.front().begin_ns;
    auto& args = AddSlice(track, NameOf(record), category, begin, parts.back().end_ns);
    if (record.sequence() != 0) {
      args["command"].set_number_value(static_cast<double>(record.sequence()));
    }
    if (record.bytes() != 0) args["bytes"].set_number_value(static_cast<double>(record.bytes()));
    if (record.program_hash() != 0) {
      args["program"].set_string_value(fmt::format("{:016x}", record.program_hash()));
    }
    if (record.code() != 0) {
      const auto code = static_cast<absl::StatusCode>(record.code());
      args["error"].set_string_value(absl::StatusCodeToString(code));
    }
    const bool is_compile = record.kind() == Record::KIND_COMPILE;
    if (is_compile) AddCompile(record.compile(), args);
    for (const Part& part : parts) {
      AddSlice(track, part.name, category, part.begin_ns, part.end_ns);
      if (is_compile || !record.has_compile() || std::string_view(part.name) != "queue") continue;
      // What it waited for in front of all others.
      const int64_t from = std::max(part.begin_ns, record.compile().begin_ns());
      const int64_t to = std::min(part.end_ns, record.compile().end_ns());
      if (from < to) AddCompile(record.compile(), AddSlice(track, "compile", "compile", from, to));
    }
    if (record.kind() != Record::KIND_RUN || record.session_id() != contents_.session_id) return;
    const auto call = calls_.find(record.sequence());
    if (call != calls_.end()) AddArrow("call", call->second, {track, begin});
  }

  static void AddCompile(const Record::Compile& compile,
                         google::protobuf::Map<std::string, google::protobuf::Value>& args) {
    args["plan in memory"].set_bool_value(compile.plan_cached());
    args["kernels compiled"].set_number_value(compile.kernels_compiled());
    args["kernels from memory"].set_number_value(compile.kernel_memory_hits());
    args["kernels from disk"].set_number_value(compile.kernel_disk_hits());
  }

  void AddDevices(const Record& record, Track run, const std::map<std::string, Track>& devices) {
    for (const Record::OnDevice& on : record.devices()) {
      if (on.end_ns() == 0) continue;  // it never got there
      const Track track = devices.at(on.device());
      auto& args = AddSlice(track, NameOf(record), "device", on.begin_ns(), on.end_ns());
      args["session"].set_string_value(record.session_id());
      args["command"].set_number_value(static_cast<double>(record.sequence()));
      for (const Record::Step& step : on.steps()) {
        AddSlice(track, step.name(), "kernel", step.begin_ns(), step.end_ns());
      }
      const int64_t first = on.steps().empty() ? on.begin_ns() : on.steps(0).begin_ns();
      AddArrow("run", {run, record.turn_ns()}, {track, first});
    }
  }

  const TraceContents& contents_;
  v1::TraceFile file_;
  uint32_t groups_ = 0, tracks_ = 0, arrows_ = 0;
  std::map<uint64_t, Point> calls_;  // of runs, by their numbers
};

}  // namespace

v1::TraceFile MakeTraceFile(const TraceContents& contents) { return Maker(contents).Make(); }

absl::StatusOr<std::string> TraceJson(const v1::TraceFile& file) {
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(file, &json);
  if (!status.ok()) return Internal("a trace is no JSON: {}", status.ToString());
  return json;
}

}  // namespace tensord::client
