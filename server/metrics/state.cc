#include "server/metrics/state.h"

#include <algorithm>
#include <compare>
#include <string>
#include <tuple>
#include <utility>

#include "core/base/version.h"
#include "core/wire/handle.h"

namespace tensord {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

// Families in the making. A row is a value with its labels; rows of one name are one family.
class Families {
 public:
  using Labels = std::vector<ClientMetric::Label>;

  void Gauge(const char* name, const char* help, double value, Labels labels = {}) {
    Row(name, help, MetricType::Gauge, std::move(labels)).gauge.value = value;
  }
  void Counter(const char* name, const char* help, double value, Labels labels = {}) {
    Row(name, help, MetricType::Counter, std::move(labels)).counter.value = value;
  }
  std::vector<MetricFamily> Take() { return std::move(families_); }

 private:
  ClientMetric& Row(const char* name, const char* help, MetricType type, Labels labels) {
    auto family = std::find_if(families_.begin(), families_.end(),
                               [&](const MetricFamily& family) { return family.name == name; });
    if (family == families_.end()) {
      family = families_.insert(families_.end(), {name, help, type, {}});
    }
    ClientMetric& row = family->metric.emplace_back();
    row.label = std::move(labels);
    return row;
  }

  std::vector<MetricFamily> families_;
};

void CollectDevice(Device& device, Scheduler& scheduler, MemoryLedger& ledger, Families& out) {
  const Families::Labels labels = {{"device", device.name()}};
  Timeline& timeline = device.timeline();
  // Completed first, so that the difference is never negative.
  const uint64_t completed = timeline.signal()->value.load(std::memory_order_relaxed);
  const uint64_t submitted = timeline.last_reserved();
  out.Gauge("tensord_device_queue_depth",
            "Runs and copies that a device was given and has not done", submitted - completed,
            labels);
  out.Counter("tensord_device_submissions_total", "Runs and copies that a device was given",
              submitted, labels);
  out.Counter("tensord_device_busy_seconds_total",
              "Time that a device has spent on runs, by its own clock",
              static_cast<double>(scheduler.BusyNs(&device)) * 1e-9, labels);
  out.Counter("tensord_device_memory_byte_seconds_total",
              "Tensors of all sessions on a device, times how long they were there",
              static_cast<double>(ledger.OfDevice(&device).byte_ns) * 1e-9, labels);
  const MemoryStats memory = device.allocator().stats();
  out.Gauge("tensord_device_memory_capacity_bytes", "What a device may hand out at most",
            memory.capacity_bytes, labels);
  out.Gauge("tensord_device_memory_used_bytes", "Memory handed out", memory.in_use_bytes, labels);
  out.Gauge("tensord_device_memory_cached_bytes", "Free memory that is kept for reuse",
            memory.cached_bytes, labels);
  out.Gauge("tensord_device_memory_peak_bytes", "Most memory that was handed out at once",
            memory.peak_in_use_bytes, labels);
}

void CollectSessions(const std::vector<std::shared_ptr<Session>>& sessions, size_t most,
                     Families& out) {
  struct Row {
    v1::CountersReply counters;
    std::string id;
    auto operator<=>(const Row& other) const {
      return std::tuple(counters.live_bytes(), id) <=>
             std::tuple(other.counters.live_bytes(), other.id);
    }
  };
  std::vector<Row> held;
  for (const auto& session : sessions) {
    held.push_back({session->Counters(), session->identity().id});
  }
  most = std::min(most, held.size());
  std::partial_sort(held.begin(), held.begin() + most, held.end(), std::greater<>());
  uint64_t rest = 0;
  for (size_t i = most; i < held.size(); ++i) rest += held[i].counters.live_bytes();
  const auto add = [&](const std::string& session, uint64_t bytes) {
    out.Gauge("tensord_session_memory_bytes",
              "Tensors that a session holds; the largest sessions by id, all others together",
              bytes, {{"session", session}});
  };
  for (size_t i = 0; i < most; ++i) add(held[i].id, held[i].counters.live_bytes());
  add("other", rest);
  // Their bills. Others have none here, because what comes and goes can't be a counter.
  for (size_t i = 0; i < most; ++i) {
    const v1::CountersReply& c = held[i].counters;
    const Families::Labels labels = {{"session", held[i].id}};
    out.Counter("tensord_session_device_seconds_total",
                "Time that a session's runs took on devices; of the largest sessions",
                static_cast<double>(c.device_ns()) * 1e-9, labels);
    out.Counter("tensord_session_memory_byte_seconds_total",
                "Tensors of a session, times how long it held them; of the largest sessions",
                static_cast<double>(c.byte_seconds()), labels);
    out.Counter("tensord_session_compile_seconds_total",
                "Time to schedule and compile for a session, summed over threads; of the largest "
                "sessions",
                static_cast<double>(c.compile_ns() + c.schedule_ns()) * 1e-9, labels);
    const char* moved = "Tensor data from and to a session's client; of the largest sessions";
    out.Counter("tensord_session_moved_bytes_total", moved, c.bytes_uploaded(),
                {{"session", held[i].id}, {"direction", "up"}});
    out.Counter("tensord_session_moved_bytes_total", moved, c.bytes_downloaded(),
                {{"session", held[i].id}, {"direction", "down"}});
  }
}

void CollectSharing(const Publications::Stats& stats, Families& out) {
  out.Gauge("tensord_publications", "Names under which tensors are published", stats.publications);
  out.Gauge("tensord_published_bytes",
            "Tensors that are published, or were and are still held, charged to their owners",
            stats.bytes);
  out.Counter("tensord_snapshots_rejected_total",
              "Files of published tensors that were corrupt and set aside", stats.rejected);
}

void CollectSpilling(Spiller* spiller, Families& out) {
  const SpillStore::Stats stored =
      spiller != nullptr ? spiller->store().stats() : SpillStore::Stats();
  const Spiller::Stats stats = spiller != nullptr ? spiller->stats() : Spiller::Stats();
  const char* now = "Tensors that have left full devices, by where they are";
  out.Gauge("tensord_spilled_bytes", now, stored.host_bytes, {{"place", "host"}});
  out.Gauge("tensord_spilled_bytes", now, stored.disk_bytes, {{"place", "disk"}});
  out.Gauge("tensord_spill_requests_waiting", "Commands and downloads that wait for memory",
            stats.waiting);
  const char* bytes = "Tensor data that left full devices, or came back";
  out.Counter("tensord_spill_moved_bytes_total", bytes, stats.spilled_bytes,
              {{"direction", "out"}});
  out.Counter("tensord_spill_moved_bytes_total", bytes, stats.restored_bytes,
              {{"direction", "in"}});
  const char* moves = "Tensors that left full devices, or came back";
  out.Counter("tensord_spill_moves_total", moves, stats.spills, {{"direction", "out"}});
  out.Counter("tensord_spill_moves_total", moves, stats.restores, {{"direction", "in"}});
  const char* seconds = "Time spent to move them";
  out.Counter("tensord_spill_seconds_total", seconds, static_cast<double>(stats.spill_ns) * 1e-9,
              {{"direction", "out"}});
  out.Counter("tensord_spill_seconds_total", seconds, static_cast<double>(stats.restore_ns) * 1e-9,
              {{"direction", "in"}});
}

void CollectCaches(const CacheStats& stats, Families& out) {
  out.Gauge("tensord_plan_cache_entries", "Plans of programs in memory", stats.plans);
  out.Counter("tensord_plan_cache_hits_total", "Programs that had a plan", stats.plan_hits);
  out.Counter("tensord_plan_cache_misses_total", "Programs that were scheduled", stats.plan_misses);
  const char* hits = "Kernels that were there, by where";
  out.Counter("tensord_kernel_cache_hits_total", hits, stats.kernel_memory_hits,
              {{"tier", "memory"}});
  out.Counter("tensord_kernel_cache_hits_total", hits, stats.kernel_disk_hits, {{"tier", "disk"}});
  out.Counter("tensord_kernel_cache_misses_total", "Kernels that were compiled",
              stats.kernel_misses);
  out.Gauge("tensord_kernel_cache_disk_entries", "Kernels in the folder", stats.disk_entries);
  out.Gauge("tensord_kernel_cache_disk_bytes", "Size of the folder of kernels", stats.disk_bytes);
  out.Gauge("tensord_kernel_cache_disk_limit_bytes", "Size above which the oldest kernels go",
            stats.disk_limit_bytes);
  out.Counter("tensord_kernel_cache_rejected_total",
              "Kernels in the folder that were corrupt or foreign", stats.disk_rejected);
}

}  // namespace

std::vector<MetricFamily> StateMetrics::Collect() const {
  Families out;
  out.Gauge(
      "tensord_build_info", "1; the labels say what runs", 1,
      {{"version", std::string(kVersion)}, {"protocol", std::to_string(kMaxProtocolVersion)}});
  out.Gauge("tensord_start_time_seconds", "When the daemon started, since 1970",
            absl::ToDoubleSeconds(started_ - absl::UnixEpoch()));
  out.Gauge("tensord_draining", "1 while the daemon refuses new work because it is to end",
            registry_.going_away());
  Runtime& runtime = registry_.engine().runtime;
  for (size_t i = 0; i < runtime.devices().size(); ++i) {
    Device& device = *runtime.devices()[i];
    CollectDevice(device, registry_.engine().scheduler, registry_.engine().ledger, out);
    if (const std::optional<absl::Status> health = health_(i)) {
      out.Gauge("tensord_device_healthy", "1 if the last probe computed what it should in time",
                health->ok(), {{"device", device.name()}});
    }
  }

  const std::vector<std::shared_ptr<Session>> sessions = registry_.List();
  out.Gauge("tensord_sessions", "Sessions that are open", sessions.size());
  out.Gauge("tensord_sessions_parked", "Sessions whose connection broke, within their lease",
            registry_.parked());
  out.Counter("tensord_sessions_opened_total", "Sessions that were opened", registry_.total());
  CollectSessions(sessions, max_sessions_.load(std::memory_order_relaxed), out);
  const v1::CountersReply counters = registry_.Counters();
  out.Counter("tensord_programs_run_total", "Runs of programs", counters.programs_run());
  out.Counter("tensord_kernels_launched_total", "Kernels launched by runs",
              counters.kernels_launched());
  out.Counter("tensord_uploaded_bytes_total", "Tensor data from clients",
              counters.bytes_uploaded());
  out.Counter("tensord_not_sent_bytes_total", "Tensor data that clients had not to send again",
              counters.bytes_not_sent());
  out.Counter("tensord_downloaded_bytes_total", "Tensor data to clients",
              counters.bytes_downloaded());
  out.Counter("tensord_segment_uploaded_bytes_total",
              "Of the data from clients, that through shared memory",
              counters.segment_bytes_uploaded());
  out.Counter("tensord_segment_downloaded_bytes_total",
              "Of the data to clients, that through shared memory",
              counters.segment_bytes_downloaded());
  CollectSpilling(registry_.engine().spiller, out);
  CollectSharing(registry_.engine().publications.stats(), out);
  CollectCaches(runtime.cache_stats(), out);
  return out.Take();
}

}  // namespace tensord
