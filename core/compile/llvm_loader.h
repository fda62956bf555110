// Loads relocatable object code into this process, with LLVM's JIT linker.
//
//   TD_ASSIGN_OR_RETURN(auto object, LlvmObject::Load(kernel.binary, kernel.entry));
//   auto* function = reinterpret_cast<LlvmKernelFunction*>(object->entry());
//
// The code may call only an allowlist of C functions (memory and maths), so a kernel can't reach
// anything else of the process by name. Thread-safe.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <string>

namespace tensord {

// Does one workgroup.
using LlvmKernelFunction = void(void* const* buffers, const int64_t* variables, int64_t grid_index);

// Code in memory; unmapped when this dies, which must not be before its last call has returned.
class LlvmObject {
 public:
  // InvalidArgument: not an object for this machine, no such entry, or an external symbol that is
  // not on the allowlist.
  static absl::StatusOr<std::unique_ptr<LlvmObject>> Load(const std::string& object,
                                                          const std::string& entry);
  ~LlvmObject();
  LlvmObject(const LlvmObject&) = delete;
  LlvmObject& operator=(const LlvmObject&) = delete;

  void* entry() const;

 private:
  struct State;
  explicit LlvmObject(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tensord
