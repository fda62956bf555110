// Jit: a function over tensors, captured as one program.
//
//   Jit step(*client, "step", [&](std::vector<Tensor> in) -> absl::StatusOr<std::vector<Tensor>> {
//     Tensor y = Lift(..., in[0], weight);
//     TD_RETURN_IF_ERROR(weight.Assign(weight - 0.1 * gradient));
//     return std::vector<Tensor>{loss};
//   });
//   for (...) TD_ASSIGN_OR_RETURN(std::vector<Tensor> out, step({batch}));
//
// The first call with arguments of given shapes and dtypes runs the function on stand-ins and sends
// the program; each later call sends only the names of its inputs. Tensors from outside that the
// function used (weights) are inputs too: each call reads their present data. Those that it
// assigned are overwritten. Random numbers are drawn anew by each call. Inside the function there
// is no data yet, so asking for some is an error. A captured function that calls another one takes
// it in.
//
// Thread-safe.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/container/flat_hash_map.h>
#include <absl/status/statusor.h>
#include <absl/synchronization/mutex.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/cc/client.h"
#include "client/cc/tensor.h"

namespace tensord {

class Jit {
 public:
  using Function = std::function<absl::StatusOr<std::vector<Tensor>>(std::vector<Tensor>)>;

  // The name is for people: it appears in the daemon's traces.
  Jit(const Client& client, std::string name, Function function)
      : session_(client.session()), name_(std::move(name)), function_(std::move(function)) {}

  absl::StatusOr<std::vector<Tensor>> operator()(const std::vector<Tensor>& arguments);

  // How often the function was captured: once per signature, and again when a tensor that it uses
  // got another shape.
  int captures() const;

 private:
  const std::shared_ptr<client::Session> session_;
  const std::string name_;
  const Function function_;

  mutable absl::Mutex mu_;
  absl::flat_hash_map<std::string, std::shared_ptr<const client::CapturedProgram>> programs_
      ABSL_GUARDED_BY(mu_);  // by signature
  int captures_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tensord
