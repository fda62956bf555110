// The compiler's front door: a linear program becomes a binary, by the renderer and the compiler
// that its target names. Which targets there are is the table in compiler.cc.
//
//   const KernelKey key = KeyOf(content, target);       // content: whatever determines the kernel
//   TD_ASSIGN_OR_RETURN(auto kernel, cache.GetOrCompile(key, [&]() { return CompileKernel(p,
//   target); },
//                                                       &outcome));
// Thread-safe.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

#include "core/compile/cache.h"
#include "core/compile/kernel.h"
#include "core/device/target.h"
#include "core/ir/linear.h"

namespace tensord {

absl::StatusOr<CompiledKernel> CompileKernel(const LinearProgram& program, const Target& target);

// Changes whenever the same content could compile to another binary: our revision of renderer and
// compiler, LLVM's version.
std::string CompilerBuildId();

// `content` is anything that determines the kernel, its name and its grid: the rendered text, or a
// structural form of the kernel's graph with the options that codegen saw.
KernelKey KeyOf(std::string_view content, const Target& target);

}  // namespace tensord
