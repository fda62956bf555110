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
// the program; each later call sends only the names of its inputs. What a call does is what the
// function would do: tensors from outside are read as they are at the call, tensors that the
// function assigns (arguments too) have their new data after it, gradients that it leaves are
// left, random numbers are drawn anew, and a result that is an argument or a tensor from outside is
// that tensor itself. Inside the function there is no data yet, so asking for some is an error. A
// captured function that calls another one takes it in. docs/jit.md has all rules.
//
// Thread-safe.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/status/statusor.h>
#include <absl/synchronization/mutex.h>

#include <functional>
#include <list>
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

  // Says, if asked, how often it had been captured when the program was made that served this call;
  // 0 if it was called by a captured function.
  absl::StatusOr<std::vector<Tensor>> operator()(const std::vector<Tensor>& arguments,
                                                 int* capture = nullptr);

  // How often the function was captured: once per signature, and again when what it uses from
  // outside is not as it was: shapes, dtypes, requires_grad, whether there is a gradient.
  int captures() const;

  // Of this many the programs are kept, those that were used last.
  static constexpr size_t kMaxPrograms = 64;

 private:
  struct Captured {
    std::string signature;
    int number;
    std::shared_ptr<const client::CapturedProgram> program;
  };

  // Marks it as used last, if it is still kept.
  void Use(int number) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::shared_ptr<client::Session> session_;
  const std::string name_;
  const Function function_;

  mutable absl::Mutex mu_;
  std::list<Captured> programs_ ABSL_GUARDED_BY(mu_);  // latest use first
  int captures_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tensord
