// Session: what the tensors of one client share: the graph in which they build expressions, the
// connection, the programs already sent, and the trace under way. Internal to client/cc; users see
// Client, Tensor and Jit.
//
// Computing a set of values (Realize) copies their expressions into a program whose inputs are the
// buffers they reach, in an order that depends on structure alone. So the same computation over
// other buffers is the same program, found by its hash, and only a small Run command is sent.
//
// A view is a tensor of its own whose value is always taken from the present version of its base; a
// tensor that gets another version gives its views theirs. What is assigned to a view becomes a new
// version of the base.
//
// Assignments are computed by the next run, whatever else it computes. Their result goes into the
// buffer of the version that they replace; if somebody still holds that version, its data is copied
// aside first. One that can't be computed does not keep others from it, nor what else is asked for:
// it is tried again when its tensor is read.
//
// Thread-safe. A trace belongs to the thread that began it; others go on undisturbed.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/container/flat_hash_map.h>
#include <absl/status/statusor.h>
#include <absl/synchronization/mutex.h>

#include <atomic>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/cc/connection.h"
#include "client/cc/slice_log.h"
#include "client/cc/value.h"
#include "core/ir/program.h"
#include "core/tensor/expr.h"
#include "core/tensor/random.h"
#include "core/tensor/view.h"

namespace tensord::client {

class Session;
struct TensorState;

// Whether what this thread computes has gradients. Without, it is detached.
bool GradEnabled();
bool SetGradEnabled(bool enabled);  // what was set before

// A tensor that shares memory with another one and not its history, and the views of it: what is
// written to any of these gives all of them a history of their own.
struct Detached {
  ViewPath path;                   // to it, from the base
  std::shared_ptr<Value> history;  // what derivatives go on with; null as long as they end here
  bool by_no_grad = false;         // a view that was made without gradients, not by detach()
  uint64_t trace = 0;              // made inside the trace of that number
};

// That a tensor shows elements of another one.
struct ViewOf {
  std::shared_ptr<TensorState> base;  // itself no view
  ViewPath path;
  std::shared_ptr<Detached> detached;  // that the path goes through, if it does
  ViewPath within;                     // the rest of the path, from there
};

// What copies of a Tensor share.
struct TensorState {
  std::shared_ptr<Session> session;
  // Fixed when it is made. A tensor keeps its dtype and shape whatever is assigned to it.
  absl::Status error;  // why it could not be made
  DType dtype = DType::kVoid;
  DType stored_dtype = DType::kVoid;  // of its data; another than dtype if that is weak
  std::vector<int64_t> shape;

  // The session's lock guards the rest.
  std::shared_ptr<Value> value;  // never null without an error
  std::shared_ptr<TensorState> grad;
  std::optional<ViewOf> view;
  std::vector<std::weak_ptr<TensorState>> views;  // of this tensor; some may be gone
  // Made while that function was mapped over a batch (vmap), by number; 0: while none was.
  uint64_t mapping = 0;
  // Of a leaf: derivatives end here, and what is assigned brings no history along. Relaxed, because
  // it publishes nothing else.
  std::atomic<bool> requires_grad = false;
  bool retains_grad = false;  // though it is no leaf
};
using StateRef = std::shared_ptr<TensorState>;

// A source of random numbers. Its state lives on the device, so that a captured program advances
// it; numbers drawn since the last run are told apart by their distance from the counter. The two
// tensors name no session, which would keep itself alive.
struct RandomGenerator {
  StateRef key;
  StateRef counter;
  std::weak_ptr<Session> session;
  // What the two hold, or will hold once what was sent has run: so a state that is lost, with a
  // run that failed or with the session, is made again. Guarded by the session.
  uint64_t seed = 0;
  uint64_t drawn = 0;  // numbers
};
using GeneratorRef = std::shared_ptr<RandomGenerator>;
using DrawnNumbers = std::vector<std::pair<GeneratorRef, uint64_t>>;

// This thread's random numbers come from that generator; from the session's own if it is null.
class GeneratorScope {
 public:
  explicit GeneratorScope(GeneratorRef generator);
  ~GeneratorScope();
  GeneratorScope(const GeneratorScope&) = delete;
  GeneratorScope& operator=(const GeneratorScope&) = delete;

 private:
  GeneratorRef outer_;
};

// A function being captured: what it changed of the tensors outside, with what was there before.
struct Trace {
  // A gradient that the function asked for or set.
  struct Gradient {
    StateRef of;
    StateRef before;
    bool read;  // before it was set
  };
  uint64_t id;
  const Session* session;
  std::vector<std::pair<StateRef, std::shared_ptr<Value>>> assigned;
  std::vector<Gradient> gradients;  // one for each tensor
  DrawnNumbers drawn;
  // Of a function that is to be expressions: what is used from outside, and what stands for it.
  bool pure = false;
  std::vector<std::pair<StateRef, std::shared_ptr<Value>>> used;

  // The one of that tensor, made if there is none.
  Gradient& GradientOf(const StateRef& state, bool read);
};

// A program that the daemon knows. Shared by the session's cache and by captured functions.
struct SentProgram {
  ~SentProgram() { connection->Release(handle, 0); }

  std::shared_ptr<Connection> connection;
  uint64_t hash;
  uint64_t handle;
  uint64_t sequence;  // of the command that sent it
  std::vector<std::string> variables;
  std::vector<int64_t> devices;  // that it runs on
  std::vector<int64_t> axes;     // of the outputs, along which they are divided
};

// A function as expressions over stand-ins for what it reads. Its values hold nothing but nodes.
struct Body {
  std::string name;
  std::vector<std::shared_ptr<Value>> parameters;  // arguments, then what it uses from outside
  std::vector<std::shared_ptr<Value>> results;     // null for one that is no expression
};

// A function that is used like an operation.
struct DefinedFunction {
  Body body;
  std::vector<StateRef> outside;  // the tensors that parameters after the arguments stand for
  std::vector<DType> dtypes;      // of the results
  // The tensors of the generators that it draws from, two each, are its last parameters.
  DrawnNumbers drawn;
};

// A captured function as the daemon knows it. Slots are those of the program's inputs: first the
// arguments, then what the function used from outside.
struct CapturedProgram {
  // A tensor as a call finds it: an argument, one from outside, or the gradient of such a one.
  struct Place {
    int64_t argument = -1;
    StateRef outside;
    bool gradient = false;

    const StateRef& In(absl::Span<const StateRef> arguments) const;
  };
  struct Input {
    Place place;
    std::shared_ptr<Value> fixed;  // instead of a tensor: always this value
    DType dtype = DType::kVoid;
    std::vector<int64_t> shape;
    Placement placement;  // without devices: wherever it is
    bool requires_grad = false;
  };
  struct Result {
    DType dtype = DType::kVoid;
    DType stored_dtype = DType::kVoid;
    std::vector<int64_t> shape;
    std::optional<Place> same;  // that tensor itself, or a view of it; else one that is computed
    std::optional<ViewPath> view;
  };
  // What the function does to the gradient of a tensor.
  struct Gradient {
    Place of;
    bool read = false;  // then it must be there before a call, or not, as it was
    bool present = false;
    enum After { kKept, kCleared, kSet } after = kKept;
    size_t result = 0;  // if it is set: in `results`, behind those that are returned
  };
  std::string name;
  std::shared_ptr<const SentProgram> program;
  bool placed = false;  // whether somebody said on which devices it runs
  size_t arguments = 0;
  std::vector<Input> inputs;  // by slot
  std::vector<Result> results;
  size_t returned = 0;
  std::vector<size_t> overwritten;  // slots, in the order of the program's outputs
  std::vector<bool> flows;          // whether a derivative would go on from there to an input
  std::vector<Gradient> gradients;
  DrawnNumbers drawn;  // by each call
  // For derivatives through the function; null if it has effects.
  std::shared_ptr<const Body> body;
  // What the results depend on, beside the arguments. Names no owner, which may own a result.
  std::shared_ptr<const std::vector<std::weak_ptr<TensorState>>> reads;
};

// The call of a captured function that computed a value: what derivatives go on with.
struct CapturedCall {
  std::string name;
  std::vector<std::weak_ptr<TensorState>> arguments;
  std::shared_ptr<const std::vector<std::weak_ptr<TensorState>>> reads;
  // Those with requires_grad of which inputs were made, if derivatives do not go through the call.
  std::vector<std::weak_ptr<TensorState>> below;
  // Kept if a derivative may be asked for: by parameter, the values that were read, whether
  // each was an expression before the call, and what those were made of.
  std::shared_ptr<const Body> body;
  struct Input {
    std::shared_ptr<Value> value;
    bool was_expression = false;
    std::vector<std::shared_ptr<Value>> parents;
  };
  std::vector<Input> inputs;
};

// Whether random numbers may be drawn in a function that is mapped over a batch (vmap), and whether
// each example has its own.
enum class Randomness { kError, kDifferent, kSame };

// Where in the caller's program an operation is, asked for each as long as it is set: for finding
// what makes a gradient NaN. It may be called while a session is locked.
using Recorder = std::function<std::string()>;
void SetRecorder(Recorder recorder);

// A Param that stands for the value.
const Node* ParamOf(Graph& graph, int64_t slot, const Value& value);

class Session : public std::enable_shared_from_this<Session> {
 public:
  using Expression = std::function<Expr(Graph&, absl::Span<const Expr>)>;
  using Expressions = std::function<std::vector<Expr>(Graph&, absl::Span<const Expr>)>;

  Session(std::shared_ptr<Connection> connection, ConnectOptions options);

  // The present connection: one that was lost is replaced when there is new work.
  std::shared_ptr<Connection> connection() const {
    absl::MutexLock lock(&mu_);
    return connection_;
  }
  const std::vector<std::string>& devices() const { return devices_; }
  const std::string& device() const { return options_.device; }
  const std::string& client_name() const { return options_.client_name; }
  SliceLog& slices() { return slices_; }  // what it does, while somebody traces it
  absl::Time Deadline() const { return absl::Now() + options_.timeout; }

  // New tensors from old ones. The first error among operands becomes that of the result.
  StateRef Apply(absl::Span<const StateRef> operands, const Expression& expression);
  // What the expressions of results are made of: operands as wholes, or also what is inside of
  // these, as derivatives are. The latter stay right when an operand between is computed.
  enum class Reads { kOperands, kInside };
  // `count` results, even if there is an error.
  std::vector<StateRef> ApplyMany(absl::Span<const StateRef> operands, size_t count,
                                  const Expressions& expressions, Reads reads = Reads::kOperands);
  // The same over one operand. Results that are movement of its elements, each at most once, are
  // views of it: what is assigned to either is seen in both.
  std::vector<StateRef> Views(const StateRef& operand, size_t count,
                              const Expressions& expressions);
  StateRef Failed(absl::Status error);

  absl::StatusOr<StateRef> Upload(absl::Span<const char> data, DType dtype,
                                  absl::Span<const int64_t> shape);
  // The same of bytes in a file. They are sent when a run, or a download, first needs them.
  absl::StatusOr<StateRef> FromFile(std::shared_ptr<const File> file, uint64_t offset, DType dtype,
                                    absl::Span<const int64_t> shape);

  // The tensor on other devices. Its derivative is that of the tensor, where that is.
  StateRef Placed(const StateRef& state, const Placement& to);
  // The same tensor, moved.
  absl::Status MoveTo(const StateRef& state, const Placement& to);
  // Where it is; how an expression is divided is not known before it is computed: whole, then.
  Placement PlacementOf(const StateRef& state);
  // Whether it was put there, or is made of what was.
  bool IsPlaced(const StateRef& state);
  // Those that are still to be computed on several devices, and not as somebody said.
  std::vector<StateRef> DividedAnyhow(absl::Span<const StateRef> states);
  std::string PlacementText(const StateRef& state);  // what a captured function depends on of it
  // Where this thread puts new tensors of the session: nowhere, unless it is told. Returns the
  // names that were set before. InvalidArgument for an unknown device.
  absl::StatusOr<std::optional<std::vector<std::string>>> SetDefaultDevices(
      const std::optional<std::vector<std::string>>& names);
  std::string DefaultDevicesText() const;  // what a captured function depends on of them
  // By the name of each device; InvalidArgument names one that the daemon lacks, or that is twice.
  absl::StatusOr<Placement> FindPlacement(absl::Span<const std::string> names, int64_t axis) const;
  const std::string& DeviceName(int64_t number) const;
  std::string DevicesText(absl::Span<const int64_t> devices) const;  // "CPU:0, CPU:1"
  absl::Status Download(const StateRef& state, absl::Span<char> out);
  // Chunk by chunk. Sizes must be numbers.
  absl::Status Download(const StateRef& state, const Sink& sink);
  // The shape with numbers for sizes that vary: those of the run that computed it, or of the values
  // that are bound now.
  absl::StatusOr<std::vector<int64_t>> ActualShape(const StateRef& state);
  absl::Status Realize(absl::Span<const StateRef> states);
  // What Realize would launch, in order: it is compiled and not run. With the variables that a run
  // would bind. Parameters that were never computed, which have programs of their own, are.
  struct Scheduled {
    std::vector<std::string> kernels;
    std::map<std::string, int64_t> variables;
  };
  absl::StatusOr<Scheduled> Schedule(absl::Span<const StateRef> states);
  // Waits for the values on the device, and says the first error among them.
  absl::Status Wait(absl::Span<const StateRef> states);
  bool IsRealized(const StateRef& state);
  // Whether the function that this thread captures computes it, so that nobody outside has it.
  bool IsOwnOfTrace(const StateRef& state);

  // The tensor becomes `source`. Shape and dtype must be the tensor's.
  absl::Status Assign(const StateRef& target, const StateRef& source);
  // The same as an operation in place does it: by PyTorch's rules on what may be written to, and
  // what requires a gradient does so afterwards, whatever was written.
  absl::Status WriteInPlace(const StateRef& target, const StateRef& source);
  // The tensor becomes another name of `source`'s version.
  absl::Status Rebind(const StateRef& target, const StateRef& source);
  // Gives the tensor a buffer of its own, so that it is a parameter of programs and a point at
  // which gradients end.
  absl::Status MakeLeaf(const StateRef& state);
  // The same, but not before the tensor is assigned to or a captured function uses it.
  absl::Status MakeVariable(const StateRef& state);

  StateRef Gradient(const StateRef& state);  // null if there is none
  void SetGradient(const StateRef& state, StateRef gradient);
  // Makes the tensor a leaf, or no leaf with a gradient any more. What was made of it before is not
  // affected. FailedPrecondition for one that is made of tensors that require a gradient if it is
  // to require none.
  absl::Status SetRequiresGrad(const StateRef& state, bool requires_grad);
  bool RequiresGrad(const StateRef& state);  // by itself, or because of what it is made of
  bool IsLeaf(const StateRef& state);        // made of nothing that requires a gradient
  absl::Status RetainGrad(const StateRef& state);
  // A tensor that a gradient is left with, and the version of it that the loss was made of. Of a
  // leaf that nobody holds any more the version only: derivatives arrive there, and nobody sees it.
  struct GradientTarget {
    StateRef state, at;
  };
  // Tensors that require a gradient and of which `loss` is made.
  absl::StatusOr<std::vector<GradientTarget>> GradientTargets(const StateRef& loss);
  // d loss / d target for each target. Goes through captured functions that have no effects, by
  // computing them again; FailedPrecondition if it would have to go through others. `given`: values
  // on the way, and what to take for the derivative by them.
  std::vector<StateRef> Gradients(const StateRef& loss, absl::Span<const StateRef> targets,
                                  const StateRef& seed,
                                  absl::Span<const std::pair<StateRef, StateRef>> given = {});
  // The values through which derivatives of `loss` go, from itself down; or those with hooks.
  std::vector<StateRef> ValuesOnTheWay(const StateRef& loss, bool with_hooks);
  std::shared_ptr<void> Hooks(const StateRef& state);
  void SetHooks(const StateRef& state, std::shared_ptr<void> hooks);
  bool has_hooks() const { return has_hooks_.load(std::memory_order_relaxed); }
  std::string MadeAt(const StateRef& state);
  std::string OpName(const StateRef& state);

  // The same values in a tensor by which derivatives can be taken and of which nothing else is
  // made. Derivatives go on through it to `state`.
  StateRef Independent(const StateRef& state);
  // `results`, with `from` replaced by `to`, which have the same dtypes and shapes.
  std::vector<StateRef> Substituted(absl::Span<const StateRef> results,
                                    absl::Span<const StateRef> from, absl::Span<const StateRef> to);
  // `results` for each row of `batches`, for which `stand_ins` stood when they were made: see Batch
  // in core/tensor/batch.h.
  std::vector<StateRef> Batched(absl::Span<const StateRef> results,
                                absl::Span<const StateRef> stand_ins,
                                absl::Span<const StateRef> batches, int64_t size);
  // Between these two this thread builds what is then Batched.
  void BeginMapped(Randomness randomness);
  // If examples have random numbers of their own: for each generator what stands for its counter,
  // and that of each example.
  absl::StatusOr<std::vector<std::pair<StateRef, StateRef>>> EndMapped(int64_t size);

  // Starts a generator anew, or makes one of its own if there is none. The session has one that
  // serves unless a GeneratorScope names another.
  absl::Status Seed(uint64_t seed, GeneratorRef& generator);
  absl::Status Seed(uint64_t seed);
  // The value of `draw`, which uses a block of random bits for each of `count` numbers.
  using Draw = std::function<Drawn(const RandomState&)>;
  StateRef Random(uint64_t count, const Draw& draw);

  void BindVariable(const std::string& name, int64_t value);

  // sharing.cc: tensors under their keys, for other sessions to read.
  using Tensors = std::vector<std::pair<std::string, StateRef>>;
  absl::StatusOr<v1::PublishReply> Publish(const std::string& name, const Tensors& tensors,
                                           absl::Span<const std::string> readers);
  absl::StatusOr<Tensors> Attach(const std::string& name, const std::string& owner);

  // Whether programs that are built from now on simplify floats as if they were real numbers.
  void SetFastMath(bool fast_math) { fast_math_.store(fast_math, std::memory_order_relaxed); }
  bool fast_math() const { return fast_math_.load(std::memory_order_relaxed); }

  // Calls `function` on stand-ins for the arguments, which are distinct tensors, and makes a
  // program of what it returned, assigned and left as gradients. Its effects are undone: Replay has
  // them, this time with data.
  using Function = std::function<absl::StatusOr<std::vector<StateRef>>(std::vector<StateRef>)>;
  absl::StatusOr<std::shared_ptr<const CapturedProgram>> Capture(
      const std::string& name, absl::Span<const StateRef> arguments, const Function& function);
  // Nothing if what the function used from outside is not as it was: it must be captured anew.
  absl::StatusOr<std::optional<std::vector<StateRef>>> Replay(
      const std::shared_ptr<const CapturedProgram>& captured, absl::Span<const StateRef> arguments);
  // Calls `function` on stand-ins for the arguments and keeps what it returned as expressions over
  // these and over tensors from outside, which are an error unless `allow_outside`. So are effects.
  absl::StatusOr<std::shared_ptr<const DefinedFunction>> Define(
      const std::string& name, absl::Span<const StateRef> arguments, bool allow_outside,
      const Function& function);
  // What the function returns for other arguments, of the same dtypes and shapes.
  std::vector<StateRef> CallDefined(const DefinedFunction& function,
                                    absl::Span<const StateRef> arguments);
  bool IsTracing() const;

  size_t graph_nodes();

 private:
  using ValueRef = std::shared_ptr<Value>;
  struct Plan;

  // Waits until the daemon takes new work. A session that was lost is replaced; what was in it
  // stays lost.
  absl::Status AwaitRoom();
  absl::Status ReplaceConnection(const std::shared_ptr<Connection>& lost);
  // Whether what is in it is not, or may not be, what was computed.
  bool IsDoubtful(const Buffer& buffer) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Why the tensor on the daemon is of no use any more, as far as that is known.
  absl::Status CheckPresent(const Buffer& buffer) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status DownloadParts(const Buffer& buffer, const std::vector<int64_t>& shape,
                             const Sink& sink);
  absl::Status DownloadVarying(const StateRef& state, absl::Span<char> out);
  // The buffer of a computed tensor, and the run that fills it.
  std::shared_ptr<Buffer> BufferOf(const TensorState& state, uint64_t* run);
  // Waits for that run and says what became of the tensor.
  absl::Status AwaitBuffer(const std::shared_ptr<Buffer>& buffer, uint64_t run);
  const Node* NodeOf(Value& value) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  ValueRef NewLeaf(DType dtype, std::vector<int64_t> shape) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<ValueRef> Use(const StateRef& state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // With kEnds no derivative goes on below it.
  enum class History { kGoesOn, kEnds };
  void MakeLeafLocked(const StateRef& state, History history) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  ValueRef NewExpression(const Expr& expression, absl::Span<const ValueRef> parents)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  StateRef NewState(ValueRef value) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  StateRef Alias(ValueRef value, DType dtype) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Replace(const StateRef& target, ValueRef source) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::vector<StateRef> ApplyLocked(absl::Span<const StateRef> operands, size_t count,
                                    const Expressions& expressions,
                                    absl::Span<const ValueRef> also_read = {})
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // What the values are made of, themselves included, each after what it is made of. Those that
  // were computed know it only if they are differentiable.
  static std::vector<Value*> ValuesBelow(absl::Span<const ValueRef> values,
                                         bool only_differentiable = false);
  void AddLeavesBelow(std::vector<ValueRef>& values) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // New expressions over operands that stand for nothing themselves: of each the leaves that it
  // reads are kept, and what derivatives are wanted by.
  std::vector<StateRef> Rewritten(absl::Span<const StateRef> operands, size_t count,
                                  const Expressions& expressions)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  ValueRef WithoutGrad(const ValueRef& before, ValueRef after) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status AssignLocked(const StateRef& target, const StateRef& source, bool in_place)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CheckInPlace(const TensorState& target, const TensorState& source)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // `data`, whose derivatives go on with `history`.
  Expr WithHistory(const Expr& data, const Expr& history) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // What a detached tensor that is a view shows of a version of the base, without history.
  ValueRef SharedBy(const Detached& detached, const ValueRef& base)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CheckMapped(const TensorState& target, Value& source)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  struct Unfolded;
  Unfolded Unfold(Value& loss, absl::Span<const StateRef> targets)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status AssignView(const StateRef& target, const StateRef& source, ValueRef value)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // A view whose base nobody else can see needs none.
  void Settle(TensorState& state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Gives the tensor, and with it its views, another version.
  void SetValue(TensorState& state, ValueRef value) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void DeriveView(const StateRef& state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void DeriveViews(TensorState& base) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Makes views let go of their values, so that they do not count as owners of the base's. They
  // have none until DeriveViews.
  void ReleaseViews(TensorState& base) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Its version, or what stands for it in the function that is being defined.
  ValueRef VersionOf(const StateRef& state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Key and counter from which the next number of a generator is drawn, and the versions that they
  // are made of. `count` numbers are drawn.
  std::pair<RandomState, std::vector<ValueRef>> NextRandom(const GeneratorRef& generator,
                                                           uint64_t count)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CheckRandom() const;  // whether a function that is being mapped may draw
  bool HasDrawn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Makes a generator's state again if it is lost.
  void RestoreRandom(RandomGenerator& generator) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AdvanceRandom() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void CompactGraph() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Sends the data in files that the roots are built from, and says whether there was any: if so
  // it let go of the lock meanwhile.
  absl::StatusOr<bool> SendFiles(absl::Span<const ValueRef> roots)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status SendFile(Value& value) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Roots on any devices, in an order in which what is needed comes first.
  // With `only_sent` the programs are sent and named there, and do not run.
  using Programs = std::vector<std::shared_ptr<const SentProgram>>;
  absl::Status RealizeLocked(std::vector<ValueRef> roots, Programs* only_sent = nullptr)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Roots that one program computes, on these devices.
  absl::Status RealizeTogether(const std::vector<ValueRef>& roots,
                               const std::vector<int64_t>& devices, Programs* only_sent)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // place.cc: values on several devices, and their way from one to another.
  // Where expressions with these operands are; the error if that is in several places.
  absl::StatusOr<std::vector<int64_t>> DevicesFor(const Node* result,
                                                  absl::Span<const ValueRef> operands)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Whether it is what another value is, on other devices, and has to be brought there.
  static bool IsMoved(const Value& value);
  absl::Status Move(Value& value) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Adds to the plan values for what is brought over in the midst of its expressions.
  absl::Status GatherMoved(absl::Span<const ValueRef> roots, const Trace* trace, Plan& plan)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::shared_ptr<Buffer> Copied(const Buffer& source, uint64_t bytes, const Placement& to)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<std::shared_ptr<Buffer>> Split(const Value& value, const Buffer& whole,
                                                const Placement& to)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<std::shared_ptr<Buffer>> Joined(const Value& value, const Buffer& parts,
                                                 int64_t device) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // A buffer of the value's that a program on these devices can read; the value's own from then on
  // if the program is to overwrite it.
  std::shared_ptr<Buffer> BufferOn(Value& value, const std::vector<int64_t>& devices)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SendCopy(Connection& connection, uint64_t to, uint64_t from, int64_t device) const;
  static void AddInputs(v1::RunProgram& run, absl::Span<const std::shared_ptr<Buffer>> inputs);
  static void AddOutputs(v1::RunProgram& run, absl::Span<const std::shared_ptr<Buffer>> outputs);
  std::vector<int64_t> HomeDevices() const { return {home_}; }
  static Placement PlacementIn(const Value& value);
  const std::vector<int64_t>* DefaultDevices() const;  // of this thread, if it has any
  // Returns its number.
  uint64_t SendRun(v1::Command command) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status RealizePending(std::vector<ValueRef> roots) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Gather(absl::Span<const ValueRef> roots, const Trace* trace, Plan& plan)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Build(absl::Span<const ValueRef> roots, Plan& plan)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // For inputs that are divided along `axes`.
  absl::StatusOr<std::shared_ptr<const SentProgram>> Register(const Program& program,
                                                              const std::vector<int64_t>& devices,
                                                              absl::Span<const int64_t> axes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::shared_ptr<Buffer> NewBuffer(const Value& value, Placement placement)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::shared_ptr<Buffer> CopyAside(const Value& value) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  static void NoteBelow(absl::Span<const StateRef> tensors, CapturedCall& call);
  // A run overwrites the tensor's present version, which becomes the next one.
  void Overwrite(const StateRef& owner) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  StateRef ResultOf(const CapturedProgram::Result& result, absl::Span<const StateRef> arguments)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Makes the state a view, by `path`, of a tensor that may be a view itself.
  void BecomeView(const StateRef& state, const StateRef& of, ViewPath path)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Gives the run values for the program's variables. FailedPrecondition if an input was computed
  // for other values of those in its shape.
  absl::Status BindVariables(const SentProgram& program, v1::RunProgram& run,
                             absl::Span<const std::shared_ptr<Buffer>> inputs)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void NoteVariables(const Value& value) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<std::shared_ptr<const CapturedProgram>> Finish(
      const std::string& name, Trace& trace, absl::Span<const StateRef> stand_ins,
      absl::Span<const ValueRef> arguments, absl::Span<const StateRef> results)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const ConnectOptions options_;
  SliceLog slices_;
  const std::vector<std::string> devices_;  // of the daemon
  const int64_t home_;  // the number of the session's device, where values are that nobody placed
  std::atomic<bool> fast_math_ = false;
  std::atomic<bool> has_hooks_ = false;  // ever
  const std::shared_ptr<LiveValues> live_ = std::make_shared<LiveValues>();

  mutable absl::Mutex mu_;
  std::shared_ptr<Connection> connection_ ABSL_GUARDED_BY(mu_);
  Graph graph_ ABSL_GUARDED_BY(mu_);
  size_t compact_at_ ABSL_GUARDED_BY(mu_) = size_t{1} << 16;  // nodes
  int64_t next_leaf_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t last_trace_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<std::weak_ptr<TensorState>> assigned_ ABSL_GUARDED_BY(mu_);  // not yet computed
  std::vector<std::weak_ptr<TensorState>> with_gradient_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, int64_t> variables_ ABSL_GUARDED_BY(mu_);

  using ProgramList = std::list<std::shared_ptr<const SentProgram>>;
  ProgramList programs_ ABSL_GUARDED_BY(mu_);  // latest use first
  absl::flat_hash_map<uint64_t, ProgramList::iterator> program_of_ ABSL_GUARDED_BY(mu_);

  GeneratorRef generator_;                   // made by the first Seed
  DrawnNumbers drawn_ ABSL_GUARDED_BY(mu_);  // since the last run
};

}  // namespace tensord::client
