// TracedFunction: a function over tensors that is used like an operation.
//
//   TracedFunction block(*client, "block", [](std::vector<Tensor> in) -> ... { ... });
//   for (const Weights& w : layers) TD_ASSIGN_OR_RETURN(x, block({x, w.a, w.b}));
//
// The first call with arguments of given shapes and dtypes runs the function on stand-ins. Each
// call gives what the function would: lazy tensors, with derivatives, made by substitution. So
// layers that are alike cost one run of the function, inside of captured functions as well as
// outside. The function has no effects: it assigns nothing and leaves no gradients. It may draw
// random numbers, which each call draws anew.
//
// Thread-safe.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/status/statusor.h>
#include <absl/synchronization/mutex.h>

#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/cc/client.h"
#include "client/cc/jit.h"
#include "client/cc/tensor.h"

namespace tensord {

class TracedFunction {
 public:
  struct Options {
    // Whether it may use tensors that are not its arguments: each call reads them as they are then.
    bool allow_implicit = false;
  };

  TracedFunction(const Client& client, std::string name, Jit::Function function, Options options)
      : session_(client.session()),
        name_(std::move(name)),
        function_(std::move(function)),
        options_(options) {}

  // Says, if asked, how often it had been traced when the trace was made that served this call.
  absl::StatusOr<std::vector<Tensor>> operator()(const std::vector<Tensor>& arguments,
                                                 int* trace = nullptr);
  int traces() const;

 private:
  struct Traced {
    std::string signature;
    int number;
    std::shared_ptr<const client::DefinedFunction> function;
  };

  const std::shared_ptr<client::Session> session_;
  const std::string name_;
  const Jit::Function function_;
  const Options options_;

  mutable absl::Mutex mu_;
  std::list<Traced> traced_ ABSL_GUARDED_BY(mu_);  // latest use first
  int traces_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tensord
