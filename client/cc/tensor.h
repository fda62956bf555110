// Tensor: an array on a daemon, lazy until its data is asked for.
//
//   Tensor x = client->FromHost<float>({1, 2, 3}, {3});
//   Tensor y = Relu(x * 2.0 - 3.0);
//   absl::StatusOr<std::vector<float>> data = y.ToHost<float>();
//
// Copies are the same tensor: what is assigned to one is seen by all. So it is with views, such as
// slices and reshapes, whose elements are those of another tensor. An operation that cannot be
// done makes a tensor that holds the error; operations over it pass the error on, and it comes back
// from ToHost, Realize and status().
//
// Thread-safe.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/cc/session.h"
#include "core/base/status.h"
#include "core/ir/dtype.h"

namespace tensord {

// The dtype whose elements are held by a C++ type.
template <typename T>
constexpr DType DTypeOf() {
  if constexpr (std::same_as<T, bool>) {
    return DType::kBool;
  } else if constexpr (std::floating_point<T>) {
    static_assert(sizeof(T) <= 8);
    return sizeof(T) == 4 ? DType::kFloat32 : DType::kFloat64;
  } else {
    static_assert(std::integral<T>);
    constexpr bool kSigned = std::signed_integral<T>;
    switch (sizeof(T)) {
      case 1:
        return kSigned ? DType::kInt8 : DType::kUint8;
      case 2:
        return kSigned ? DType::kInt16 : DType::kUint16;
      case 4:
        return kSigned ? DType::kInt32 : DType::kUint32;
      default:
        return kSigned ? DType::kInt64 : DType::kUint64;
    }
  }
}

class Tensor {
 public:
  explicit Tensor(client::StateRef state) : state_(std::move(state)) {}

  bool ok() const { return state_->error.ok(); }
  const absl::Status& status() const { return state_->error; }

  // Valid only if ok(). They are known without computing anything.
  DType dtype() const;
  // A size that varies from run to run is a code, see core/tensor/size.h.
  // Of its data: another one if the dtype is weak.
  DType stored_dtype() const;
  const std::vector<int64_t>& shape() const;
  // With numbers for those. Computes the tensor if there are any.
  absl::StatusOr<std::vector<int64_t>> ActualShape() const;
  int64_t rank() const { return static_cast<int64_t>(shape().size()); }
  int64_t num_elements() const;

  // Where it is: a device, or several that have it divided along an axis or whole each. A tensor
  // that nobody put anywhere is on the client's device, and goes where it is used.
  std::vector<std::string> devices() const;
  std::optional<int64_t> shard_axis() const;
  // The tensor on another device; the derivative is back where the tensor is.
  Tensor To(const std::string& device) const;
  // The tensor on several devices: divided along an axis into equal parts, or whole on each. What
  // is computed from it is computed there, each device doing its part. InvalidArgument if the
  // number of devices does not divide the axis, or a device is unknown.
  Tensor Shard(absl::Span<const std::string> devices, std::optional<int64_t> axis) const;
  // Makes the tensor itself that, as models do with their parameters.
  absl::Status MoveTo(absl::Span<const std::string> devices, std::optional<int64_t> axis) const;

  // Whether it has data on the daemon (which may still be under way).
  bool is_realized() const { return state_->session->IsRealized(state_); }
  // Sends what is needed to compute it; doesn't wait.
  absl::Status Realize() const { return ok() ? state_->session->Realize({&state_, 1}) : status(); }
  // Waits until it is computed, and says whether that went well.
  absl::Status Wait() const { return ok() ? state_->session->Wait({&state_, 1}) : status(); }

  // Row-major, little-endian; `out` has the tensor's size in bytes.
  absl::Status CopyTo(absl::Span<char> out) const;
  // The same in chunks, from the first byte to the last. Sizes must be numbers.
  absl::Status CopyTo(const client::Sink& sink) const;
  // T must be the type of the stored dtype.
  template <typename T>
  absl::StatusOr<std::vector<T>> ToHost() const;

  // The tensor becomes `value`, of its own shape and dtype; its memory is used again. What was
  // computed from it before keeps meaning the old data; views of it show the new. Through a view,
  // its part of the base becomes `value`.
  absl::Status Assign(const Tensor& value) const {
    return state_->session->Assign(state_, value.state_);
  }
  // The same as an operation in place does it, which a leaf that requires a gradient takes only
  // without gradients.
  absl::Status WriteInPlace(const Tensor& value) const {
    return state_->session->WriteInPlace(state_, value.state_);
  }
  // The tensor becomes what `other` is, of its own shape and dtype; no data moves.
  absl::Status Rebind(const Tensor& other) const {
    return state_->session->Rebind(state_, other.state_);
  }
  // The same tensor with memory of its own, as parameters need it; no view any more.
  absl::Status MakeLeaf() const { return state_->session->MakeLeaf(state_); }
  // The same as soon as it is assigned to or a captured function uses it; until then gradients go
  // through it.
  absl::Status MakeVariable() const { return state_->session->MakeVariable(state_); }

  // Whether Backward leaves a gradient with it. Makes it a leaf, unless it requires one already
  // because of what it is made of.
  absl::Status SetRequiresGrad(bool requires_grad) const;
  bool requires_grad() const { return ok() && session().RequiresGrad(state_); }
  bool is_leaf() const { return !ok() || session().IsLeaf(state_); }
  // Backward leaves a gradient with it though it is no leaf.
  absl::Status RetainGrad() const;
  std::optional<Tensor> grad() const;
  void SetGrad(std::optional<Tensor> gradient) const;
  // Adds the gradient of this tensor, which needs a single element unless a seed is given, to the
  // grad of every tensor that requires one and that it depends on, or of `targets`.
  // With `create_graph` these gradients can be differentiated.
  absl::Status Backward(std::optional<Tensor> seed = std::nullopt,
                        std::optional<std::vector<Tensor>> targets = std::nullopt,
                        bool create_graph = false) const;
  // Gradients by `targets`: zeros where it does not depend on one. They can be differentiated.
  absl::StatusOr<std::vector<Tensor>> Gradient(absl::Span<const Tensor> targets,
                                               std::optional<Tensor> seed = std::nullopt) const;

  // "Tensor(shape=[2, 3], dtype=float32, device=CPU:0, lazy)". Computes nothing.
  std::string ToString() const;
  // "CPU:0", "CPU:0, CPU:1" or "CPU:0, CPU:1 along axis 0".
  std::string PlaceText() const;

  const client::StateRef& state() const { return state_; }
  client::Session& session() const { return *state_->session; }

 private:
  client::StateRef state_;
};

// `results`, of which nothing is kept for the derivative but `arguments`: see Checkpoint in
// core/tensor/custom_gradient.h.
std::vector<Tensor> Checkpoint(absl::Span<const Tensor> results,
                               absl::Span<const Tensor> arguments);

// Computes several tensors by one program.
absl::Status Realize(absl::Span<const Tensor> tensors);

// Calls a function of the tensor language (core/tensor) on tensors of one client:
//   Tensor y = Lift([](const Expr& x, const Expr& w) { return MatMul(x, w); }, x, w);
template <typename Function, typename... Tensors>
Tensor Lift(Function function, const Tensor& first, const Tensors&... rest) {
  const client::StateRef operands[] = {first.state(), rest.state()...};
  return Tensor(
      first.session().Apply(operands, [&function](Graph&, absl::Span<const Expr> sources) -> Expr {
        return [&]<size_t... i>(std::index_sequence<i...>) { return function(sources[i]...); }
        (std::make_index_sequence<1 + sizeof...(Tensors)>());
      }));
}

// The same for movement of one tensor's elements: the result is a view of it, unless elements are
// repeated or added.
template <typename Function>
Tensor LiftView(Function function, const Tensor& x) {
  return Tensor(
      x.session().Views(x.state(), 1, [&function](Graph&, absl::Span<const Expr> sources) {
        return std::vector<Expr>{function(sources[0])};
      })[0]);
}

template <typename T>
absl::StatusOr<std::vector<T>> Tensor::ToHost() const {
  if (!ok()) return status();
  if (stored_dtype() != DTypeOf<T>()) {
    return InvalidArgument("ToHost: the tensor holds {}, {} is asked for", Name(stored_dtype()),
                           Name(DTypeOf<T>()));
  }
  TD_ASSIGN_OR_RETURN(const std::vector<int64_t> actual, ActualShape());
  std::vector<T> data(static_cast<size_t>(NumElements(actual)));
  TD_RETURN_IF_ERROR(CopyTo({reinterpret_cast<char*>(data.data()), data.size() * sizeof(T)}));
  return data;
}

}  // namespace tensord
