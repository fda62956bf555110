// Client: a session with a daemon, and where its tensors come from.
//
//   TD_ASSIGN_OR_RETURN(auto client, Client::Connect("unix:/run/user/1000/tensord.sock"));
//   Tensor x = client->FromHost<float>({1, 2}, {2});
//   TD_ASSIGN_OR_RETURN(std::vector<float> y, (x + 1.0).ToHost<float>());
//
// The session ends with Close or with the client and its last tensor. It survives a broken
// connection for its lease. After that its tensors are lost, and say so; new ones are made in a new
// session.
//
// Thread-safe.
#pragma once

#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/cc/connection.h"
#include "client/cc/file.h"
#include "client/cc/session.h"
#include "client/cc/tensor.h"
#include "core/tensor/number.h"

namespace tensord {

class Client {
 public:
  static absl::StatusOr<std::unique_ptr<Client>> Connect(const std::string& address,
                                                         const ConnectOptions& options = {});

  std::string address() const { return session_->connection()->address(); }
  const std::string& device() const { return session_->device(); }
  const std::vector<std::string>& devices() const { return session_->devices(); }

  // Row-major data of that shape; copied before it returns.
  Tensor FromHost(absl::Span<const char> bytes, DType dtype, absl::Span<const int64_t> shape) const;
  template <typename T>
  Tensor FromHost(const std::vector<T>& data, absl::Span<const int64_t> shape) const {
    static_assert(!std::same_as<T, bool>, "vector<bool> holds no bytes; use uint8_t and Cast");
    return FromHost({reinterpret_cast<const char*>(data.data()), data.size() * sizeof(T)},
                    DTypeOf<T>(), shape);
  }

  // The same of bytes in a file, which are sent when a run, or reading the tensor, first needs
  // them.
  Tensor FromFile(std::shared_ptr<const File> file, uint64_t offset, DType dtype,
                  absl::Span<const int64_t> shape) const;

  // A tensor from a function of core/tensor that needs no operand. They are in operations.h, too:
  // Logspace(*client, 0, 1, 5, 10, DType::kFloat32).
  Tensor Make(const std::function<Expr(Graph&)>& function) const;
  Tensor Full(absl::Span<const int64_t> shape, Number value, DType dtype) const;
  Tensor Zeros(absl::Span<const int64_t> shape, DType dtype = DType::kFloat32) const;
  Tensor Ones(absl::Span<const int64_t> shape, DType dtype = DType::kFloat32) const;
  // start, start + step, ... before stop, in the dtype of ArangeDType unless one is given.
  Tensor Arange(Number start, Number stop, Number step = 1,
                std::optional<DType> dtype = std::nullopt) const;
  // Evenly spaced, both ends included.
  Tensor Linspace(Number start, Number stop, int64_t steps, DType dtype = DType::kFloat32) const;
  Tensor Eye(int64_t rows, int64_t columns, DType dtype = DType::kFloat32) const;

  // Random numbers from a counter-based generator that lives on the device. A client starts with a
  // seed of its own.
  absl::Status ManualSeed(uint64_t seed) const { return session_->Seed(seed); }
  Tensor Rand(absl::Span<const int64_t> shape, DType dtype = DType::kFloat32) const;  // [0, 1)
  Tensor Randn(absl::Span<const int64_t> shape, DType dtype = DType::kFloat32) const;
  Tensor RandInt(absl::Span<const int64_t> shape, int64_t low, int64_t high,
                 DType dtype = DType::kInt32) const;  // [low, high)

  // A named int32 scalar between the bounds (inclusive), given anew for each run by Bind. As a size
  // of tensors it is VariableSize(name, min, max) of core/tensor/size.h.
  Tensor Variable(std::string_view name, int64_t min, int64_t max) const;
  void Bind(const std::string& name, int64_t value) const { session_->BindVariable(name, value); }

  // Allows programs that are built from now on (captured functions: when they are captured) to
  // simplify floats as if they were real numbers. Off unless asked for.
  void SetFastMath(bool fast_math) const { session_->SetFastMath(fast_math); }
  bool fast_math() const { return session_->fast_math(); }

  // Tensors under a name of this user's, for other processes to attach: this user's own, those of
  // the users in `readers`, of all users with "*". Waits until they are computed, and on disk if
  // the daemon keeps them. What had the name before is replaced; who has attached that keeps it.
  // What is assigned to a published tensor later goes into memory of its own, so others see no
  // change.
  using Tensors = std::vector<std::pair<std::string, Tensor>>;
  absl::StatusOr<v1::PublishReply> Publish(const std::string& name, const Tensors& tensors,
                                           absl::Span<const std::string> readers = {}) const;
  // A single one, under the key "".
  absl::StatusOr<v1::PublishReply> Publish(const std::string& name, const Tensor& tensor,
                                           absl::Span<const std::string> readers = {}) const {
    return Publish(name, Tensors{{"", tensor}}, readers);
  }
  // The tensors that a user, or this one, has published: the same memory, not a copy. NotFound if
  // there are none that this user may attach.
  absl::StatusOr<Tensors> Attach(const std::string& name, const std::string& owner = "") const;
  // What this user may attach.
  absl::StatusOr<std::vector<v1::Publication>> Published() const;
  // Of this user's own. Who has attached it keeps it.
  absl::Status Unpublish(const std::string& name) const;

  // Waits until the device has done everything sent so far.
  absl::Status Wait() const { return session_->Wait({}); }
  // What the session has cost so far.
  absl::StatusOr<v1::CountersReply> Counters() const;
  // What the session waits for, why its last programs had to be compiled, who holds the memory.
  absl::StatusOr<v1::ExplainReply> Explain() const;
  // Ends the session. Tensors that are left say so when they are used.
  void Close() const { session_->connection()->Close(); }
  // Why the session is over; OK while it lives, and once new work has opened another one.
  absl::Status status() const { return session_->connection()->status(); }

  const std::shared_ptr<client::Session>& session() const { return session_; }

 private:
  Tensor RandomVaries() const;  // the error
  explicit Client(std::shared_ptr<client::Session> session) : session_(std::move(session)) {}

  std::shared_ptr<client::Session> session_;
};

}  // namespace tensord
