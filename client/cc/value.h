// Value: one version of a tensor, either an expression that is still to be computed or a buffer on
// the daemon. Tensors point to values; assigning to a tensor points it to another value, so what
// was built from the old one still means the old one.
//
// A value keeps alive what it needs: an expression its operands, until it is computed. Hence a
// buffer whose last user is gone is released at once, and the number of owners of a value tells
// whether its buffer may be overwritten.
//
// The fields belong to the session's lock; construction and destruction need none.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/container/flat_hash_set.h>
#include <absl/synchronization/mutex.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/cc/connection.h"
#include "client/cc/file.h"
#include "core/ir/graph.h"
#include "core/tensor/placement.h"

namespace tensord::client {

struct CapturedCall;
struct TensorState;

std::string TextOf(absl::Span<const int64_t> shape);  // "[2, 3]"

// A tensor on the daemon, as a whole or in parts on each of some devices. Shared by the value and
// by the runs that are about to be sent, which end in either order.
struct Buffer {
  // `bytes` of the whole.
  Buffer(std::shared_ptr<Connection> connection, uint64_t bytes, Placement placement);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  const std::shared_ptr<Connection> connection;  // tensors may outlive their session
  const Placement placement;
  const uint64_t bytes;                 // on each device
  const std::vector<uint64_t> handles;  // by device
  uint64_t run = 0;  // the command that computes it; 0 if none does. Guarded by the session.
  // The run overwrites it, or is to: such a run may have failed, and what it overwrites is right.
  // Guarded by the session, and so is the error that the daemon was asked for then.
  bool overwritten = false;
  absl::Status error;
  bool read_only = false;  // published or attached: others may read it. Guarded by the session.
  // The values of the variables in its shape when it was computed. Guarded by the session.
  std::map<std::string, int64_t> variables;
};

struct Value;

// The values alive in a session; when its graph is compacted their nodes move.
// Thread-safe.
class LiveValues {
 public:
  void Insert(Value* value) {
    absl::MutexLock lock(&mu_);
    values_.insert(value);
  }
  void Erase(Value* value) {
    absl::MutexLock lock(&mu_);
    values_.erase(value);
  }
  // None is destroyed while `function` sees them.
  template <typename Function>
  void Visit(Function function) {
    absl::MutexLock lock(&mu_);
    function(values_);
  }

  // Those whose data has not been sent from its file. Relaxed: publishes nothing else.
  std::atomic<int64_t> in_files = 0;

 private:
  absl::Mutex mu_;
  absl::flat_hash_set<Value*> values_ ABSL_GUARDED_BY(mu_);
};

struct Value : std::enable_shared_from_this<Value> {
  Value(std::shared_ptr<LiveValues> live, DType dtype, std::vector<int64_t> shape);
  ~Value();
  Value(const Value&) = delete;
  Value& operator=(const Value&) = delete;

  uint64_t bytes() const;  // that it takes in memory, which has room for the largest sizes

  const DType dtype;
  const std::vector<int64_t> shape;  // with codes for sizes that vary (core/tensor/size.h)

  // What expressions over this value are built from: the expression itself or, for a leaf, a Param
  // that stands for it (made when first needed, null until then).
  const Node* node = nullptr;
  bool leaf = false;

  // Becomes a leaf before something is assigned to it. Until then gradients go through it.
  bool variable = false;

  // A leaf to be computed: by `init`, and if it was assigned into the buffer of `dest`.
  const Node* init = nullptr;
  bool assigned = false;
  std::shared_ptr<Value> dest;

  std::vector<std::shared_ptr<Value>> parents;  // what `node` or `init` was built from

  // A leaf whose data lies in a file until a run needs it. Null again when it is sent.
  void SetFile(std::shared_ptr<const File> data);
  std::shared_ptr<const File> file;
  uint64_t file_offset = 0;
  bool sending = false;  // some thread does

  std::shared_ptr<Buffer> buffer;  // once computed
  // The expression that this was before: others may have been built over it, and derivatives go on
  // through it, or through `init` before it is computed, if `differentiable`. Then `parents` stay.
  const Node* origin = nullptr;

  // Somebody wants derivatives by this version, so what is made of it keeps its history.
  bool target = false;
  bool differentiable = false;  // made of such a one: derivatives go on below it
  std::shared_ptr<void> hooks;  // a front end's: what is to happen to the derivative that arrives
  std::string made_at;          // where in the caller's program, if that is recorded

  // Where it was put, or what it is made of: none if nobody said. Then it is wherever it is needed:
  // such a value may have copies on other devices than those of `buffer`, each of them the whole.
  std::vector<int64_t> devices;
  int64_t axis = kWhole;  // along which it is to be divided, or is as an argument of a capture
  std::vector<std::shared_ptr<Buffer>> copies;

  std::weak_ptr<TensorState> owner;  // the tensor that this is or was a version of
  uint64_t trace = 0;                // made inside the trace of that number

  // The call that computed it, of whose results it is that one.
  std::shared_ptr<CapturedCall> call;
  size_t result = 0;

 private:
  const std::shared_ptr<LiveValues> live_;
};

}  // namespace tensord::client
