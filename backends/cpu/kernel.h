// The CPU's LoadedKernel: a function that does one workgroup.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "core/device/device.h"

namespace tensord::cpu {

using KernelFunction = void(void* const* buffers, const int64_t* variables, int64_t grid_index);

class Kernel final : public LoadedKernel {
 public:
  // `code` is what must stay in memory for `function`: null for a function of this process, which
  // is how tests and benchmarks make kernels without a compiler.
  Kernel(std::string name, KernelFunction* function, std::shared_ptr<const void> code = nullptr)
      : name_(std::move(name)), function_(function), code_(std::move(code)) {}

  const std::string& name() const override { return name_; }
  KernelFunction* function() const { return function_; }

 private:
  const std::string name_;
  KernelFunction* const function_;
  const std::shared_ptr<const void> code_;
};

}  // namespace tensord::cpu
