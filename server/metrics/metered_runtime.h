// A runtime that measures how long another one takes to prepare programs.
//
// Thread-safe.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/runtime/runtime.h"
#include "server/metrics/metrics.h"

namespace tensord {

class MeteredRuntime final : public Runtime {
 public:
  // `metrics` outlives it.
  MeteredRuntime(std::unique_ptr<Runtime> runtime, Metrics& metrics);

  using Runtime::Prepare;
  absl::Span<Device* const> devices() const override { return runtime_->devices(); }
  absl::StatusOr<Device*> FindDevice(std::string_view name) const override {
    return runtime_->FindDevice(name);
  }
  absl::StatusOr<std::shared_ptr<const Executable>> Prepare(const Program& program,
                                                            absl::Span<Device* const> devices,
                                                            CompileStats* stats) override;
  using Runtime::Submit;
  absl::StatusOr<Run> Submit(const std::shared_ptr<const Executable>& executable,
                             absl::Span<const BufferRef> inputs,
                             const absl::flat_hash_map<std::string, int64_t>& variables,
                             const SubmitOptions& options) override {
    return runtime_->Submit(executable, inputs, variables, options);
  }
  CacheStats cache_stats() const override { return runtime_->cache_stats(); }
  std::vector<CachedKernel> cached_kernels(size_t most) const override {
    return runtime_->cached_kernels(most);
  }
  absl::StatusOr<std::string> KernelSource(std::string_view key) override {
    return runtime_->KernelSource(key);
  }
  absl::Status ClearCache() override { return runtime_->ClearCache(); }

 private:
  Metrics& metrics_;
  const std::unique_ptr<Runtime> runtime_;
};

}  // namespace tensord
