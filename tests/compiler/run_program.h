// Runs tensor expressions through the whole compiler on a device, for tests that compare the
// result with an oracle.
#pragma once

#include <memory>
#include <vector>

#include "core/runtime/runtime.h"
#include "core/tensor/expr.h"
#include "core/tensor/testing.h"

namespace tensord {

class ProgramRunner {
 public:
  // Device as in OpenDevices; kernels are cached in memory only.
  explicit ProgramRunner(std::string_view device = "cpu");

  struct Result {
    std::vector<HostTensor> outputs;
    int kernels = 0;
    std::vector<std::string> kernel_names;
  };
  // `overwrites[i]`, if given, is the input that output i overwrites.
  absl::StatusOr<Result> Run(absl::Span<const Expr> outputs, absl::Span<const HostTensor> inputs,
                             absl::Span<const int64_t> overwrites = {},
                             const absl::flat_hash_map<std::string, int64_t>& variables = {});

  Runtime& runtime() { return *runtime_; }
  Device& device() { return *runtime_->devices()[0]; }

 private:
  std::unique_ptr<Runtime> runtime_;
};

// The program that `Run` would run.
Program MakeProgram(absl::Span<const Expr> outputs, absl::Span<const HostTensor> inputs,
                    absl::Span<const int64_t> overwrites = {});

BufferRef Upload(Device& device, const HostTensor& value);
HostTensor Download(const Buffer& buffer);

}  // namespace tensord
