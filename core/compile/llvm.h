// LLVM IR text to relocatable object code (ELF) for the target's processor, in this process.
//
//   TD_ASSIGN_OR_RETURN(std::string object, CompileLlvm(ir_text, target));
//
// The passes are few and fixed: what codegen decided (vector widths, unrolling, tiles) stays as it
// is. Thread-safe: many threads may compile at once.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

#include "core/device/target.h"

namespace tensord {

// InvalidArgument carries LLVM's message about the text, Unavailable says that this LLVM lacks the
// target. The object refers to no outside symbols but those of ExternalSymbols().
absl::StatusOr<std::string> CompileLlvm(std::string_view ir_text, const Target& target);
// The same as assembly text, for people.
absl::StatusOr<std::string> LlvmAssembly(std::string_view ir_text, const Target& target);

}  // namespace tensord
