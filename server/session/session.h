// Session: what one client has: its tensors and programs under its own names, and its numbered
// commands, executed strictly in order. It knows no gRPC; the service feeds it and carries away
// what it has to say.
//
//   auto session = std::make_shared<Session>(std::move(identity), engine);
//   TD_ASSIGN_OR_RETURN(Attachment attachment, session->Attach(stream, 0));
//   TD_RETURN_IF_ERROR(session->Receive(attachment.number, frame));   // an error ends the session
//   ... in Wake():  if (session->TakeFrame(attachment.number, &frame)) StartWrite(&frame);
//   session->Detach(attachment.number);   // another stream may go on
//   session->End();
//
// With a lease the session outlives its streams, and keeps what it has told until the client says
// that it has it.
//
// "Executed" means queued on the device: a run that waits for its program to be compiled, for an
// upload, or for its turn on the device holds up the commands behind it, and no other session.
//
// Thread-safe. Shared by its stream, its other calls, and what it has in flight.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>
#include <absl/container/inlined_vector.h>
#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/time.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/log_limiter.h"
#include "core/runtime/runtime.h"
#include "core/wire/program.h"
#include "proto/tensord/v1/session.pb.h"
#include "server/memory/memory_ledger.h"
#include "server/metrics/kernel_times.h"
#include "server/scheduler/scheduler.h"
#include "server/session/handle_table.h"
#include "server/session/objects.h"
#include "server/session/program_index.h"
#include "server/session/segment.h"
#include "server/session/spiller.h"
#include "server/session/worker_pool.h"
#include "server/sharing/publications.h"
#include "server/trace/trace_ring.h"

namespace tensord {

struct SessionLimits {
  WireLimits graph;
  uint64_t max_session_bytes = uint64_t{1} << 40;  // tensors that one session holds
  uint64_t max_message_bytes = 64 << 20;
  uint32_t max_chunk_bytes = 1 << 20;
  uint32_t max_commands_per_frame = 1024;
  uint32_t max_pending_commands = 1024;  // received and not executed: then the stream isn't read
  uint32_t max_runs_in_flight = 128;     // executed and not done on the device
  uint32_t max_compiles = 64;            // of one session at once
  uint32_t max_transfers = 256;          // of one session at once
  uint32_t max_segments = 2;             // of one session, each of Segment::kMaxBytes at most
  absl::Duration max_lease = absl::Seconds(30);  // how long sessions live without a stream
  uint32_t max_parked_sessions = 1000;           // without a stream; above that the oldest end
  uint32_t max_kept_events = 16'384;             // told and not acknowledged
  uint32_t max_misses = 16;                      // of a session that are remembered
};

// What all sessions share. Outlives them.
struct SessionEngine {
  Runtime& runtime;
  WorkerPool& compile_pool;  // schedules and compiles programs
  WorkerPool& work_pool;     // short work that a device's thread must not do
  Scheduler& scheduler;      // whose run goes to a device next
  Publications& publications;
  std::string segment_socket;  // where clients hand over segments; empty: nowhere
  MemoryLedger& ledger;        // who holds which memory
  ProgramIndex& programs;      // who has registered which programs
  ContentIndex& contents;      // who has uploaded which bytes
  SessionLimits limits;
  TraceRing* trace = nullptr;           // where all note what they do; null: nowhere
  Spiller* spiller = nullptr;           // null: what finds no memory is refused
  KernelTimes* kernel_times = nullptr;  // null: nobody asks
};

struct SessionIdentity {
  std::string id;     // public: in logs and tensorctl
  std::string token;  // secret: names the session in calls beside the stream
  std::string client_name;
  std::string peer;
  std::string user;      // empty: nobody knows
  int weight = 4;        // of its part of a device while others want it as well
  absl::Duration lease;  // 0: it ends with its stream
};

// Hears that there may be something to take or room to receive. Called on any thread, without a
// lock of the session.
class SessionListener {
 public:
  virtual ~SessionListener() = default;
  virtual void Wake() = 0;
  // The daemon ends the session: this is its last word.
  virtual void Close(const absl::Status& status) = 0;
  // Another stream has the session now.
  virtual void Replaced() = 0;
};

// What a stream gets with a session.
struct Attachment {
  uint64_t number = 0;                        // names the stream in calls of the session
  uint64_t received = 0;                      // commands that have arrived
  std::shared_ptr<SessionListener> replaced;  // to be told so, without locks
};

struct AwaitRequest {
  uint64_t sequence = 0;  // waits until this command is executed
  uint64_t handle = 0;    // and until this object, unless 0, is a value or an error
  bool pin = false;       // keeps runs from overwriting the tensor while Awaited::pin lives
};

struct Awaited {
  BufferRef buffer;                                   // of the tensor, if the handle is one
  std::vector<std::pair<Device*, uint64_t>> pending;  // timeline values to wait for
  std::shared_ptr<const void> pin;
  uint64_t version = 0;          // another one once the tensor is overwritten
  PublishedBufferRef published;  // of a tensor that is
};
using AwaitDone = std::function<void(absl::StatusOr<Awaited>)>;

// Where the bytes of an upload go. `data` is null if the device keeps nothing.
struct UploadTarget {
  BufferRef buffer;  // null: all bytes have come before
  char* data = nullptr;
  uint64_t bytes = 0;
  uint64_t stored = 0;  // that have come before
};
using UploadReady = std::function<void(absl::StatusOr<UploadTarget>)>;

class Session final : public Scheduler::Listener,
                      public Spiller::Holder,
                      public std::enable_shared_from_this<Session> {
 public:
  Session(SessionIdentity identity, SessionEngine engine);
  ~Session() override;

  const SessionIdentity& identity() const { return identity_; }
  const SessionLimits& limits() const { return engine_.limits; }

  bool resumable() const { return identity_.lease > absl::ZeroDuration(); }

  // The stream takes the session, from another one if there is one. Its client has all events up to
  // `acknowledged`, and is told again what follows. NotFound if the session has ended.
  absl::StatusOr<Attachment> Attach(std::weak_ptr<SessionListener> listener, uint64_t acknowledged);
  // Without a stream from now on, until that time of SteadyNow. False if the stream does not have
  // the session.
  bool Detach(uint64_t attachment, absl::Time parked_until);
  // Nobody attaches any more; false if a stream has the session, or its time has not come.
  bool Expire(absl::Time now);
  std::optional<absl::Time> parked_until();  // nothing while it has a stream

  // What streams do, by the number of their attachment; one that was replaced does nothing.
  //
  // Takes the commands; executes what can be executed at once. An error ends the session, unless
  // it is Aborted: then only the stream, which was replaced.
  absl::Status Receive(uint64_t attachment, v1::ClientFrame& frame);
  // False while too many commands are pending. Wake comes when that is over, and then TakeRoom
  // says true to one caller.
  bool HasRoom(uint64_t attachment);
  bool TakeRoom(uint64_t attachment);
  // Fills `frame` with what is new and worth a frame; false if there is nothing.
  bool TakeFrame(uint64_t attachment, v1::ServerFrame* frame);

  // Commands received from now on are refused; those accepted are finished.
  void GoAway(const std::string& reason, absl::Duration grace);
  // Whether all that was accepted is done and told.
  bool Idle();
  // Ends the stream with that status, and so the session.
  void Close(const absl::Status& status);
  // Drops everything. Calls that wait get Cancelled. Its runs on the devices go on.
  void End();
  // Nobody will ask for what its runs compute: devices stop them, or don't begin them.
  void Abandon(const absl::Status& why);
  // What it was asked for and has not done, for people; empty if there is nothing.
  std::string Unfinished();

  // Calls `done` (maybe before it returns) once the request is met. The id is for CancelAwait.
  uint64_t Await(const AwaitRequest& request, AwaitDone done);
  // The waiting call, if it still waits, gets Cancelled.
  void CancelAwait(uint64_t id);
  // OK, or the error that the handle holds.
  absl::Status HandleStatus(uint64_t handle);
  // Of a program that is compiled; none of other handles.
  std::vector<std::string> KernelNames(uint64_t handle);

  // A call that brings bytes of a transfer. The ticket names the call: in a session with a lease a
  // later call of the same transfer takes it over.
  struct UploadRequest {
    uint64_t transfer_id = 0;
    uint64_t ticket = 0;
    uint64_t total_bytes = 0;
    uint64_t handle = 0;   // of the tensor, of a call that goes on; else 0
    bool abandon = false;  // no call will bring the rest
  };
  uint64_t NewTicket();
  // Calls `ready` (maybe before it returns) once the upload command of that transfer is executed.
  void BeginUpload(const UploadRequest& request, UploadReady ready);
  // Around the copy of a chunk. Aborted if another call has taken the transfer over.
  absl::Status BeginChunk(const UploadRequest& request);
  void EndChunk(const UploadRequest& request, uint64_t bytes, bool by_segment);
  // How many tensors of the same user might have the bytes.
  size_t Candidates(uint64_t bytes);
  // Copies the bytes from a tensor of the same user that has that hash, if there is one, on a
  // thread that may take its time; `done` says so.
  void Adopt(const UploadRequest& request, const UploadTarget& target, std::string sha256,
             std::function<void(absl::StatusOr<bool>)> done);
  // Ends the transfer, if it is the call's: OK if all bytes are there, else the tensor's error.
  void EndUpload(const UploadRequest& request, const absl::Status& status);
  // The call is over, and another one may go on.
  void PauseUpload(const UploadRequest& request);

  // The tensor, if it still has that buffer, is read-only from now on, and charged to the buffer's
  // owner.
  void SetPublished(uint64_t handle, const PublishedBuffer& published);

  // Memory of the client's for its bulk data, by a number of its choice. ResourceExhausted above
  // the limit; one by the same number is replaced.
  absl::Status SetSegment(uint64_t number, std::shared_ptr<Segment> segment);
  absl::StatusOr<std::shared_ptr<const Segment>> FindSegment(uint64_t number);

  void CountDownloaded(uint64_t bytes, bool by_segment);
  v1::CountersReply Counters();
  // What it waits for, and why its last programs had no plan; not who holds memory.
  v1::ExplainReply Explain();
  std::vector<HeldTensor> HeldTensors();  // in no order
  struct Load {
    size_t queued = 0;       // commands that were received and not executed
    uint32_t in_flight = 0;  // runs on devices
  };
  Load load();
  absl::Time opened() const { return opened_; }
  absl::Time last_command();

  // What it does, noted for itself alone, with the times of kernels; null while it is not.
  std::shared_ptr<TraceRing> own_trace();
  std::shared_ptr<TraceRing> StartTrace();  // anew, if there is one
  void StopTrace();
  // Runs that are submitted before that time of SteadyNs note when each kernel began and ended.
  void TimeStepsUntil(int64_t steady_ns);
  // That a call beside the stream has moved bytes, if that is noted.
  struct TransferTimes {
    int64_t received_ns = 0;  // when the call began
    int64_t ready_ns = 0;     // when the bytes began to move
  };
  void NoteTransfer(TraceRecord::Kind kind, uint64_t bytes, const TransferTimes& times);

  void TurnCame() override;

  // spill.cc: what the spiller asks.
  std::optional<std::vector<Spiller::Operand>> FindOperands(
      const Spiller::Request& request) override;
  void Look(absl::Span<Device* const> devices, const Spiller::Request* request,
            Spiller::Survey& survey) override;
  absl::StatusOr<uint64_t> Spill(const std::shared_ptr<Tensor>& tensor, SpillStore& store) override;
  uint64_t Restore(const std::shared_ptr<Tensor>& tensor,
                   std::shared_ptr<DeviceMemory> memory) override;
  void Granted(const Spiller::Request& request, Spiller::Grant grant) override;
  void Refused(const Spiller::Request& request, const absl::Status& status) override;
  void Bill(const Spiller::Moved& moved) override;
  // Something that may have held up a command is over; told on any thread.
  void Poke() override;

 private:
  enum class Outcome {
    kDone,
    kBlocked,
    kAwaitsTurn,  // blocked by what other sessions do on the device
  };
  // Why the command in front is not executed.
  struct Obstacle {
    uint64_t sequence = 0;  // of the command
    v1::ExplainReply::Cause cause = v1::ExplainReply::CAUSE_NOTHING;
    int input = -1;    // of the run, that is not there
    absl::Time since;  // when the command first met one
  };
  using Handles = absl::InlinedVector<uint64_t, 4>;
  using Tensors = absl::InlinedVector<std::shared_ptr<Tensor>, 4>;

  // A run on the device.
  struct RunInFlight {
    uint64_t sequence;
    bool notify;
    int kernels;
    std::vector<std::pair<Device*, std::shared_ptr<const RunTimes>>> times;
    std::shared_ptr<LoadedProgram> program;
    std::optional<Scheduler::Turn> turn;
    Tensors inputs, outputs;
    absl::Status refused;                            // why it is a part of one
    std::vector<std::pair<Device*, uint64_t>> ends;  // timeline values, by device
    // While devices are at it: how many, and what went wrong first.
    size_t unfinished = 1;
    absl::Status status;
    // If it is noted: see Queued, and when it got its turn; steps by device, if they are timed.
    int64_t sent_ns = 0, received_ns = 0, ready_ns = 0, turn_ns = 0;
    std::vector<std::shared_ptr<const StepTimes>> steps;
    bool notes_steps = false;  // else they are timed for KernelTimes only
  };

  struct Waiter {
    uint64_t id;
    AwaitRequest request;
    AwaitDone done;
  };

  // An upload command, the call that brings its bytes, or both.
  struct Transfer {
    std::shared_ptr<Tensor> tensor;  // once the command is executed
    absl::Status error;              // of the command
    UploadRequest call;              // the latest one; ticket 0: none is under way
    UploadReady parked;              // it waits for the command, or for the copy of an earlier call
    uint64_t stored = 0;             // bytes
    bool copying = false;            // a call, maybe one that was taken over, copies a chunk
    bool abandoned = false;          // before its command: that fails
  };

  // A command, and if it is noted when it arrived, and was first in line with all that it needs.
  struct Queued {
    v1::Command command;
    size_t bytes;
    int64_t sent_ns = 0, received_ns = 0, ready_ns = 0;
  };

  static absl::Status SessionEnded();

  // queue.cc: receiving, order, who waits. attach.cc: streams, and what is told to them.
  void Drain();
  void Flush();
  bool WorthAFrame() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // All that was accepted is done; what a client sends after it was told to go is only refused.
  bool AllDone() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool Full() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Acknowledge(uint64_t events) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void NotifyWaiters();
  std::optional<absl::StatusOr<Awaited>> Resolve(const AwaitRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::shared_ptr<const void> Pin(std::shared_ptr<Tensor> tensor)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Unpin(const std::shared_ptr<Tensor>& tensor);

  // execute.cc: the verbs. Each runs on one thread at a time, without the lock.
  Outcome Execute(v1::Command& command);
  // Whom programs and bytes belong to. Users without a name may be anybody: each session is one.
  const std::string& Owner() const {
    return identity_.user.empty() ? identity_.id : identity_.user;
  }
  Outcome Blocked(uint64_t sequence, v1::ExplainReply::Cause cause, int input = -1)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Outcome ExecuteRegister(uint64_t sequence, v1::RegisterProgram& command);
  absl::StatusOr<std::vector<Device*>> FindDevices(const v1::RegisterProgram& command);
  Outcome ExecuteRun(uint64_t sequence, v1::RunProgram& command);
  Outcome ExecuteCopy(uint64_t sequence, const v1::CopyTensor& command);
  Outcome ExecuteRelease(uint64_t sequence, const v1::Release& command);
  Outcome ExecuteAttach(uint64_t sequence, const v1::AttachTensor& command);  // sharing.cc
  // Remembers the program; if it had no plan, says why.
  std::optional<v1::ExplainReply::Miss> Index(const v1::Program& message, const Program& program,
                                              absl::Span<Device* const> devices,
                                              const CompileStats& stats);
  // `source` makes what is compiled; `sequence` is the command whose error it is if that fails, 0
  // if it is none's. `message`: as which a client has registered it, null for part of one.
  void Compile(uint64_t sequence, const std::shared_ptr<LoadedProgram>& program,
               const std::function<absl::StatusOr<Program>()>& source,
               const v1::Program* message = nullptr);
  // What a run needs, looked up and checked. A status: it is refused or an input has an error.
  struct RunPlan;
  absl::StatusOr<Outcome> PlanRun(uint64_t sequence, const v1::RunProgram& command, RunPlan& plan)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void FinishRun(const std::shared_ptr<RunInFlight>& run, const absl::Status& status);
  void LogFault(const absl::Status& fault);
  // A command that fails: its results hold the error; `refused` tells the client at once.
  void Fail(uint64_t sequence, const Handles& results, const absl::Status& status, bool refused)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Complete(uint64_t sequence, const absl::Status& status, int64_t device_ns, int kernels)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SetError(Tensor& tensor, const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // A pending tensor becomes a value, or an error.
  void Settle(Tensor& tensor, const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Uncharge(Tensor& tensor) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status ReleaseOne(uint64_t handle, std::vector<std::shared_ptr<const void>>& dying)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // split.cc: what is left of a run that can't be started.
  // A run that can't be started becomes several, of what it overwrites, if that takes it apart.
  bool SplitRun(uint64_t sequence, const std::shared_ptr<LoadedProgram>& program,
                v1::RunProgram& run, const absl::Status& error, bool refused)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void MakeApart(LoadedProgram& program) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void TakePart(v1::RunProgram& run) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The part after this one is in front then. False if that was the last, or the whole.
  bool NextPart(uint64_t sequence, v1::RunProgram& run) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool IsLastPart(uint64_t sequence) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // spill.cc: memory of devices that are full.
  // The command in front waits until these tensors are there and that can be allocated. The error
  // if it can't be, or `error` if nothing is spilled here.
  absl::StatusOr<Outcome> AwaitRoom(uint64_t sequence, const Tensors& tensors,
                                    std::vector<Spiller::Need> needs, const absl::Status& error)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // What was set aside for it, to be let go right before it is allocated anew.
  std::vector<std::shared_ptr<DeviceMemory>> TakeReserve(uint64_t sequence);
  // The command has what it needs, or waits for something else. What is returned is to die without
  // the lock.
  Spiller::Grant LeaveRoom() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  static absl::Status OthersAreFaster();
  // One that is there, or is being brought back for who reads it.
  bool IsThere(const std::shared_ptr<Tensor>& tensor) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // transfer.cc: uploads.
  Outcome ExecuteUpload(uint64_t sequence, const v1::UploadCommand& command);
  absl::StatusOr<Outcome> Upload(uint64_t sequence, const v1::UploadCommand& command);
  // A pending tensor under a fresh handle, with its memory; null if the command has to wait for
  // that, with its operands.
  absl::StatusOr<std::shared_ptr<Tensor>> NewTensor(uint64_t sequence, uint64_t handle,
                                                    Device* device, DType dtype,
                                                    std::vector<int64_t> shape,
                                                    const Tensors& operands = {});
  absl::StatusOr<UploadTarget> Claim(Transfer& transfer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status TooManyTransfers() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // What a call finds whose transfer is over; nothing if it has not begun.
  std::optional<absl::StatusOr<UploadTarget>> Complete(const UploadRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // trace.cc: what is noted of its work.
  static std::shared_ptr<const TracedSession> Traced(const SessionIdentity& identity);
  bool IsTraced() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return engine_.trace != nullptr || own_trace_ != nullptr;
  }
  bool TimesSteps(int64_t now_ns) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void NoteLocked(TraceRecord record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void NoteCompile(uint64_t sequence, const LoadedProgram& program)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void NoteRun(const RunInFlight& run, const absl::Status& status, int64_t done_ns)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Of the command in front, which has brought them itself.
  void NoteUpload(uint64_t sequence, uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void NoteTold(int64_t now_ns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const SessionIdentity identity_;
  const SessionEngine engine_;
  const std::shared_ptr<const TracedSession> traced_ = Traced(identity_);
  const absl::Time opened_ = absl::Now();
  Scheduler::Flow flow_;
  MemoryLedger::Account account_;

  absl::Mutex mu_;
  std::weak_ptr<SessionListener> listener_ ABSL_GUARDED_BY(mu_);
  uint64_t attachment_ ABSL_GUARDED_BY(mu_) = 0;  // of the stream that has the session
  std::optional<absl::Time> parked_until_ ABSL_GUARDED_BY(mu_);
  bool expired_ ABSL_GUARDED_BY(mu_) = false;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;

  // One thread at a time executes the front of the queue; it alone makes and renames objects.
  std::deque<Queued> queue_ ABSL_GUARDED_BY(mu_);
  size_t queued_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  bool executing_ ABSL_GUARDED_BY(mu_) = false;
  bool poked_ ABSL_GUARDED_BY(mu_) = false;      // what blocked the front may be over
  bool throttled_ ABSL_GUARDED_BY(mu_) = false;  // the front waits for a run in flight to end
  // The front, if it is a run that was split.
  struct Split {
    uint64_t sequence = 0;
    std::shared_ptr<LoadedProgram> program;
    absl::Status error;       // of the whole
    Handles inputs, outputs;  // of the whole
    size_t part = 0;          // that is to be run
  };
  Split split_ ABSL_GUARDED_BY(mu_);
  // Memory for the front, if it found too little.
  struct Room {
    uint64_t sequence = 0;
    bool asked = false;  // the spiller has not answered
    absl::Status refused;
    Spiller::Grant grant;
    Tensors tensors;  // that stay where they are
    int tries = 0;
  };
  Room room_ ABSL_GUARDED_BY(mu_);
  bool reader_waits_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t received_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t executed_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t acknowledged_ ABSL_GUARDED_BY(mu_) = 0;
  std::optional<uint64_t> accept_until_ ABSL_GUARDED_BY(mu_);  // set when going away
  bool told_all_ ABSL_GUARDED_BY(mu_) = false;  // and the client knows what became of all these
  absl::Time last_command_ ABSL_GUARDED_BY(mu_) = opened_;

  HandleTable<Tensor> tensors_ ABSL_GUARDED_BY(mu_){Handle::kTensor};
  HandleTable<LoadedProgram> programs_ ABSL_GUARDED_BY(mu_){Handle::kProgram};
  absl::flat_hash_map<uint64_t, Transfer> transfers_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<Device*, uint64_t> last_submitted_ ABSL_GUARDED_BY(mu_);
  uint32_t in_flight_ ABSL_GUARDED_BY(mu_) = 0;
  absl::flat_hash_set<std::shared_ptr<RunInFlight>> runs_ ABSL_GUARDED_BY(mu_);  // these
  absl::Status abandoned_ ABSL_GUARDED_BY(mu_);                                  // why, if they are
  uint32_t compiling_ ABSL_GUARDED_BY(mu_) = 0;
  uint32_t copying_ ABSL_GUARDED_BY(mu_) = 0;
  uint32_t pins_ ABSL_GUARDED_BY(mu_) = 0;
  bool faulted_ ABSL_GUARDED_BY(mu_) = false;  // a run has failed on a device
  LogLimiter faults_;                          // that are logged

  absl::flat_hash_map<uint64_t, std::shared_ptr<Segment>> segments_ ABSL_GUARDED_BY(mu_);
  std::vector<Waiter> waiters_ ABSL_GUARDED_BY(mu_);
  uint64_t next_waiter_ ABSL_GUARDED_BY(mu_) = 1;
  uint64_t last_ticket_ ABSL_GUARDED_BY(mu_) = 0;

  v1::ServerFrame outgoing_ ABSL_GUARDED_BY(mu_);  // without the acknowledgement
  bool something_to_tell_ ABSL_GUARDED_BY(mu_) = false;
  v1::GoAway go_away_ ABSL_GUARDED_BY(mu_);  // while accept_until_ is set
  // Events that were told and are not acknowledged, as they were told, and the first of these
  // frames that the present stream has not got.
  std::deque<v1::ServerFrame> kept_ ABSL_GUARDED_BY(mu_);
  size_t next_kept_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t events_ ABSL_GUARDED_BY(mu_) = 0;  // told so far
  uint64_t acknowledged_events_ ABSL_GUARDED_BY(mu_) = 0;
  std::shared_ptr<TraceRing> own_trace_ ABSL_GUARDED_BY(mu_);
  int64_t steps_until_ns_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<TraceRecord> untold_ ABSL_GUARDED_BY(mu_);  // of runs in outgoing_
  v1::CountersReply counters_ ABSL_GUARDED_BY(mu_);       // without the live ones
  Obstacle obstacle_ ABSL_GUARDED_BY(mu_);
  std::deque<v1::ExplainReply::Miss> misses_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tensord
