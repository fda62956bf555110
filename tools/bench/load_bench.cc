// What a daemon bears: many clients at once that run, upload, compile and train for a while. Fails
// on the first error, on a wrong result and on a handle that is left over; reports latencies and
// rates by kind of work, and the daemon's memory on the way.
//
//   load_bench --address=unix:./t.sock --pid=PID --clients=64 --seconds=60
//   load_bench --address=unix:./t.sock --pid=PID --idle=1000
#include <absl/flags/flag.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>
#include <absl/synchronization/mutex.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>
#include <semaphore>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/cc/connection.h"
#include "core/base/status.h"
#include "core/ir/program.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/expr.h"
#include "core/tensor/movement.h"
#include "core/tensor/product.h"
#include "core/tensor/reduce.h"
#include "core/wire/program.h"
#include "tools/bench/report.h"

ABSL_FLAG(std::string, address, "", "of a daemon");
ABSL_FLAG(int, pid, 0, "of the daemon, whose memory is read");
ABSL_FLAG(int, clients, 64, "how many work at once");
ABSL_FLAG(double, seconds, 60, "how long they work");
ABSL_FLAG(int64_t, upload_bytes, 100'000'000, "of an upload");
ABSL_FLAG(int, idle, 0, "open so many sessions that do nothing instead, and say what they cost");
ABSL_FLAG(bool, quick, false, "few clients, briefly: whether the benchmark works");

namespace tensord {
namespace {

using client::Connection;

constexpr absl::Time kNever = absl::InfiniteFuture();
// Uploads at once, of all clients: each takes its bytes in the client and in the daemon.
constexpr int kUploadsAtOnce = 2;

int64_t UploadBytes() {
  return absl::GetFlag(FLAGS_quick) ? 5'000'000 : absl::GetFlag(FLAGS_upload_bytes);
}

// A field of the daemon's /proc/PID/status: "VmRSS" in KiB, "Threads".
absl::StatusOr<double> ProcessFigure(std::string_view field) {
  std::ifstream file(fmt::format("/proc/{}/status", absl::GetFlag(FLAGS_pid)));
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> parts =
        absl::StrSplit(line, absl::ByAnyChar(": \t"), absl::SkipEmpty());
    double value;
    if (parts.size() > 1 && parts[0] == field && absl::SimpleAtod(parts[1], &value)) return value;
  }
  return InvalidArgument("--pid {}: its status has no {}", absl::GetFlag(FLAGS_pid), field);
}

// One client: a session of its own, and the tensors and programs that it keeps.
class Worker {
 public:
  virtual ~Worker() = default;
  virtual absl::Status Prepare() = 0;
  virtual absl::Status Step() = 0;

  absl::Status Connect(int number) {
    number_ = number;
    ConnectOptions options;
    options.client_name = "load_bench";
    TD_ASSIGN_OR_RETURN(connection_, Connection::Open(absl::GetFlag(FLAGS_address), options));
    return Prepare();
  }
  // What it holds on the daemon is what it keeps, no more.
  absl::Status CheckHandles() {
    TD_RETURN_IF_ERROR(connection_->Wait(0, kNever));
    TD_ASSIGN_OR_RETURN(const v1::CountersReply counters, connection_->Counters(kNever));
    if (counters.live_handles() == kept_) return absl::OkStatus();
    return Internal("{} handles live where {} are kept", counters.live_handles(), kept_);
  }

 protected:
  absl::StatusOr<uint64_t> Tensor(const std::vector<float>& values, std::vector<int64_t> shape) {
    const uint64_t handle = connection_->NewHandle(Handle::kTensor);
    const absl::Span<const char> bytes(reinterpret_cast<const char*>(values.data()),
                                       values.size() * sizeof(float));
    TD_RETURN_IF_ERROR(connection_->Upload(handle, DType::kFloat32, shape, "", bytes, kNever));
    ++kept_;
    return handle;
  }
  // Waits until it is compiled.
  absl::StatusOr<uint64_t> Register(const Program& program) {
    const uint64_t handle = connection_->NewHandle(Handle::kProgram);
    v1::Command command;
    command.mutable_register_program()->set_handle(handle);
    *command.mutable_register_program()->mutable_program() = Encode(program);
    connection_->Send(std::move(command));
    TD_RETURN_IF_ERROR(connection_->Wait(handle, kNever));
    ++kept_;
    return handle;
  }
  // Runs it, waits, and has the last output's first number. Outputs that are no input are released.
  absl::StatusOr<float> Run(uint64_t program, const std::vector<uint64_t>& inputs,
                            std::vector<uint64_t> outputs, bool read) {
    const uint64_t fresh = connection_->NewHandle(Handle::kTensor);
    outputs.push_back(fresh);
    v1::Command command;
    v1::RunProgram& run = *command.mutable_run();
    run.set_program(program);
    run.mutable_inputs()->Add(inputs.begin(), inputs.end());
    run.mutable_outputs()->Add(outputs.begin(), outputs.end());
    TD_RETURN_IF_ERROR(connection_->WaitForRoom(kNever));
    const uint64_t sequence = connection_->Send(std::move(command));
    const std::optional<absl::Status> done = connection_->AwaitRun(sequence, kNever);
    if (!done) return Internal("a run's outcome was forgotten");
    TD_RETURN_IF_ERROR(*done);
    float value = 0;
    if (read) {
      TD_RETURN_IF_ERROR(connection_->Download(
          fresh, absl::MakeSpan(reinterpret_cast<char*>(&value), sizeof(value)), kNever));
    }
    connection_->Release(fresh, sizeof(float));
    return value;
  }
  void Release(uint64_t handle) {
    connection_->Release(handle, 0);
    --kept_;
  }

  int number_ = 0;
  std::unique_ptr<Connection> connection_;

 private:
  uint64_t kept_ = 0;
};

// x + y of one number each; every 16th is read.
class TinyRuns : public Worker {
  absl::Status Prepare() override {
    Program program;
    program.name = "tiny";
    const Node* x = program.graph.Param(0, DType::kFloat32, {1});
    const Node* y = program.graph.Param(1, DType::kFloat32, {1});
    program.inputs = {x, y};
    program.outputs = {{.value = program.graph.Make(Op::kAdd, {x, y})}};
    TD_ASSIGN_OR_RETURN(program_, Register(program));
    TD_ASSIGN_OR_RETURN(x_, Tensor({static_cast<float>(number_)}, {1}));
    TD_ASSIGN_OR_RETURN(y_, Tensor({0.5f}, {1}));
    return absl::OkStatus();
  }
  absl::Status Step() override {
    const bool read = ++runs_ % 16 == 0;
    TD_ASSIGN_OR_RETURN(const float sum, Run(program_, {x_, y_}, {}, read));
    const float expected = static_cast<float>(number_) + 0.5f;
    if (read && sum != expected) return Internal("the sum is {}, not {}", sum, expected);
    return absl::OkStatus();
  }

  uint64_t program_ = 0, x_ = 0, y_ = 0;
  uint64_t runs_ = 0;
};

// Bytes that are there when the call returns, and then given up.
class Uploads : public Worker {
  absl::Status Prepare() override { return absl::OkStatus(); }
  absl::Status Step() override {
    static const auto& data = *new std::vector<char>(static_cast<size_t>(UploadBytes()), 'u');
    const uint64_t handle = connection_->NewHandle(Handle::kTensor);
    TD_RETURN_IF_ERROR(
        connection_->Upload(handle, DType::kUint8, {UploadBytes()}, "", data, kNever));
    TD_RETURN_IF_ERROR(connection_->Wait(handle, kNever));
    connection_->Release(handle, static_cast<uint64_t>(UploadBytes()));
    // Memory is back before the next one takes its turn.
    return connection_->Wait(0, kNever);
  }
};

// A program that nobody has compiled before, and one run of it.
class Compiles : public Worker {
  absl::Status Prepare() override {
    TD_ASSIGN_OR_RETURN(x_, Tensor(std::vector<float>(256, 1.0f), {256}));
    return absl::OkStatus();
  }
  absl::Status Step() override {
    static std::atomic<int> programs{0};
    const double factor = 1.0 + programs.fetch_add(1, std::memory_order_relaxed) * 0.25;
    Program program;
    program.name = fmt::format("compiled {}", factor);
    const Node* x = program.graph.Param(0, DType::kFloat32, {256});
    program.inputs = {x};
    const Expr sum = Sum(Expr(&program.graph, x) * factor);
    TD_RETURN_IF_ERROR(sum.status());
    program.outputs = {{.value = sum.node()}};
    TD_ASSIGN_OR_RETURN(const uint64_t handle, Register(program));
    TD_ASSIGN_OR_RETURN(const float found, Run(handle, {x_}, {}, /*read=*/true));
    Release(handle);
    const auto expected = static_cast<float>(256 * factor);
    if (found != expected) return Internal("the sum is {}, not {}", found, expected);
    return absl::OkStatus();
  }

  uint64_t x_ = 0;
};

// Steps of a linear model by gradient descent, in place: the loss falls.
class Training : public Worker {
  static constexpr int64_t kBatch = 32, kWidth = 16;

  absl::Status Prepare() override {
    Program program;
    program.name = "training step";
    Graph& graph = program.graph;
    program.inputs = {graph.Param(0, DType::kFloat32, {kWidth, 1}),
                      graph.Param(1, DType::kFloat32, {kBatch, kWidth}),
                      graph.Param(2, DType::kFloat32, {kBatch, 1})};
    const Expr w(&graph, program.inputs[0]), x(&graph, program.inputs[1]),
        y(&graph, program.inputs[2]);
    const Expr error = MatMul(x, w) - y;
    const Expr next = w - MatMul(Transpose(x, 0, 1), error) * (1.0 / kBatch);
    const Expr loss = Sum(error * error);
    TD_RETURN_IF_ERROR(next.status());
    TD_RETURN_IF_ERROR(loss.status());
    program.outputs = {{.value = next.node(), .overwrites = 0}, {.value = loss.node()}};
    TD_ASSIGN_OR_RETURN(program_, Register(program));
    std::vector<float> x_values, y_values;
    for (int64_t row = 0; row < kBatch; ++row) {
      float target = 0;
      for (int64_t column = 0; column < kWidth; ++column) {
        x_values.push_back(static_cast<float>((row * 7 + column * column * 3) % 11) / 11 - 0.5f);
        target += x_values.back() * static_cast<float>(column % 3);
      }
      y_values.push_back(target);
    }
    TD_ASSIGN_OR_RETURN(w_, Tensor(std::vector<float>(kWidth), {kWidth, 1}));
    TD_ASSIGN_OR_RETURN(x_, Tensor(x_values, {kBatch, kWidth}));
    TD_ASSIGN_OR_RETURN(y_, Tensor(y_values, {kBatch, 1}));
    return absl::OkStatus();
  }
  absl::Status Step() override {
    TD_ASSIGN_OR_RETURN(const float loss, Run(program_, {w_, x_, y_}, {w_}, /*read=*/true));
    // Near the end it may waver by a rounding.
    if (!(loss <= loss_ + 1e-4f)) return Internal("the loss rose from {} to {}", loss_, loss);
    loss_ = loss;
    return absl::OkStatus();
  }

  uint64_t program_ = 0, w_ = 0, x_ = 0, y_ = 0;
  float loss_ = std::numeric_limits<float>::max();
};

template <typename T>
std::unique_ptr<Worker> Make() {
  return std::make_unique<T>();
}

struct Kind {
  const char* name;
  int of_eight;  // clients, of each eight
  int at_once;   // steps of all its clients; 0: as many as want
  std::unique_ptr<Worker> (*make)();
};
constexpr Kind kKinds[] = {{"tiny run", 5, 0, Make<TinyRuns>},
                           {"upload", 1, kUploadsAtOnce, Make<Uploads>},
                           {"compile and run", 1, 0, Make<Compiles>},
                           {"training step", 1, 0, Make<Training>}};

// A worker, on a thread of its own.
struct Client {
  const Kind* kind;
  std::unique_ptr<Worker> worker;
  std::vector<double> milliseconds;
  absl::Status status;
};

// Steps until it is time, or another client's step has failed.
void Work(Client& client, std::counting_semaphore<>& turns, const Stopwatch& clock, double seconds,
          std::atomic<bool>& failed) {
  // relaxed: a hint, publishes nothing; threads are joined before their figures are read
  while (clock.Seconds() < seconds && !failed.load(std::memory_order_relaxed)) {
    const bool takes_turns = client.kind->at_once > 0;
    if (takes_turns && !turns.try_acquire_for(std::chrono::milliseconds(100))) continue;
    const Stopwatch stopwatch;
    client.status = client.worker->Step();
    client.milliseconds.push_back(stopwatch.Milliseconds());
    if (takes_turns) turns.release();
    if (client.status.ok()) continue;
    failed.store(true, std::memory_order_relaxed);
    return;
  }
}

// The daemon's memory in MiB, each second.
absl::StatusOr<std::vector<double>> WatchMemory(const Stopwatch& clock, double seconds,
                                                const std::atomic<bool>& failed) {
  std::vector<double> mib;
  while (clock.Seconds() < seconds && !failed.load(std::memory_order_relaxed)) {
    TD_ASSIGN_OR_RETURN(const double kib, ProcessFigure("VmRSS"));
    mib.push_back(kib / 1024);
    std::this_thread::sleep_for(std::chrono::milliseconds(seconds < 20 ? 100 : 1000));
  }
  return mib;
}

absl::Status Load(Report& report) {
  const bool quick = absl::GetFlag(FLAGS_quick);
  const int count = quick ? 8 : absl::GetFlag(FLAGS_clients);
  const double seconds = quick ? 1 : absl::GetFlag(FLAGS_seconds);
  std::vector<Client> clients;
  for (int i = 0; i < count; ++i) {
    size_t kind = 0;
    for (int before = kKinds[0].of_eight; before <= i % 8; before += kKinds[kind].of_eight) ++kind;
    Client& client = clients.emplace_back();
    client.kind = &kKinds[kind];
    client.worker = client.kind->make();
    TD_RETURN_IF_ERROR(client.worker->Connect(i), "client {} ({})", i, client.kind->name);
  }
  std::atomic<bool> failed{false};
  std::counting_semaphore<> turns(kUploadsAtOnce);
  const Stopwatch clock;
  std::vector<std::jthread> threads;
  for (Client& client : clients) {
    threads.emplace_back([&] { Work(client, turns, clock, seconds, failed); });
  }
  const absl::StatusOr<std::vector<double>> mib = WatchMemory(clock, seconds, failed);
  threads.clear();
  const double took = clock.Seconds();
  for (size_t i = 0; i < clients.size(); ++i) {
    Client& client = clients[i];
    TD_RETURN_IF_ERROR(client.status, "client {} ({})", i, client.kind->name);
    TD_RETURN_IF_ERROR(client.worker->CheckHandles(), "client {} ({})", i, client.kind->name);
  }
  for (const Kind& kind : kKinds) {
    std::vector<double> milliseconds;
    for (const Client& client : clients) {
      if (client.kind != &kind) continue;
      milliseconds.insert(milliseconds.end(), client.milliseconds.begin(),
                          client.milliseconds.end());
    }
    if (milliseconds.empty()) return Internal("no {} was done in time", kind.name);
    report.Add(fmt::format("{}, each second", kind.name), "1/s",
               {static_cast<double>(milliseconds.size()) / took});
    report.Add(kind.name, "ms", std::move(milliseconds));
  }
  TD_RETURN_IF_ERROR(mib.status());
  // What grows without bound grows in the second half as in the first.
  const auto middle = mib->begin() + static_cast<ptrdiff_t>(mib->size() / 2);
  report.Add("memory of the daemon, first half", "MiB", {mib->begin(), middle + 1});
  report.Add("memory of the daemon, second half", "MiB", {middle, mib->end()});
  return absl::OkStatus();
}

absl::Status Idle(Report& report) {
  const int count = absl::GetFlag(FLAGS_quick) ? 50 : absl::GetFlag(FLAGS_idle);
  TD_ASSIGN_OR_RETURN(const double kib, ProcessFigure("VmRSS"));
  TD_ASSIGN_OR_RETURN(const double threads, ProcessFigure("Threads"));
  std::vector<std::unique_ptr<Connection>> sessions;
  std::vector<double> milliseconds;
  for (int i = 0; i < count; ++i) {
    const Stopwatch stopwatch;
    TD_ASSIGN_OR_RETURN(sessions.emplace_back(),
                        Connection::Open(absl::GetFlag(FLAGS_address), {}));
    milliseconds.push_back(stopwatch.Milliseconds());
  }
  // All of them live.
  for (const auto& session : sessions) TD_RETURN_IF_ERROR(session->Wait(0, kNever));
  TD_ASSIGN_OR_RETURN(const double kib_after, ProcessFigure("VmRSS"));
  TD_ASSIGN_OR_RETURN(const double threads_after, ProcessFigure("Threads"));
  report.Add("opening a session", "ms", std::move(milliseconds));
  report.Add(fmt::format("memory of each of {} idle sessions", count), "KiB",
             {std::max(0.0, kib_after - kib) / count});
  report.Add(fmt::format("threads more with {} idle sessions", count), "",
             {std::max(0.0, threads_after - threads)});
  return absl::OkStatus();
}

absl::Status Measure(Report& report) {
  return absl::GetFlag(FLAGS_idle) > 0 ? Idle(report) : Load(report);
}

}  // namespace
}  // namespace tensord

int main(int argc, char** argv) {
  return tensord::RunBenchmark(argc, argv, "loads a daemon by many clients", tensord::Measure);
}
