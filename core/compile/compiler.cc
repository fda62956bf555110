#include "core/compile/compiler.h"

#include <llvm/Config/llvm-config.h>

#include <utility>

#include "core/base/status.h"
#include "core/compile/llvm.h"
#include "core/compile/source.h"
#include "core/ir/linear_text.h"
#include "core/render/llvm.h"

namespace tensord {
namespace {

// Counts up whenever renderer or compiler would make another binary from the same content.
constexpr int kRevision = 1;

struct Row {
  std::string_view renderer;  // Target::renderer
  absl::StatusOr<std::string> (*render)(const LinearProgram&, const Target&);
  absl::StatusOr<std::string> (*compile)(std::string_view, const Target&);
};

// For a target that runs linear programs as they are: its binary is their text.
absl::StatusOr<std::string> RenderText(const LinearProgram& program, const Target& /*target*/) {
  return PrintLinear(program);
}
absl::StatusOr<std::string> KeepText(std::string_view text, const Target& /*target*/) {
  return std::string(text);
}

constexpr Row kCompilers[] = {
    {"llvm-cpu", RenderLlvm, CompileLlvm},
    {"linear", RenderText, KeepText},
};

}  // namespace

absl::StatusOr<CompiledKernel> CompileKernel(const LinearProgram& program, const Target& target) {
  for (const Row& row : kCompilers) {
    if (row.renderer != target.renderer) continue;
    TD_ASSIGN_OR_RETURN(const std::string text, row.render(program, target));
    TD_ASSIGN_OR_RETURN(std::string binary, row.compile(text, target), "kernel '{}'", program.name);
    return CompiledKernel{.name = program.name,
                          .entry = program.name,
                          .binary = std::move(binary),
                          .grid = program.grid,
                          .source = PackSource(PrintLinear(program))};
  }
  return Unavailable("no compiler for renderer '{}'", target.renderer);
}

std::string CompilerBuildId() { return fmt::format("{}-llvm{}", kRevision, LLVM_VERSION_STRING); }

KernelKey KeyOf(std::string_view content, const Target& target) {
  return HashKernelKey(fmt::format("{}\n{}\n{}", CompilerBuildId(), target.CacheKey(), content));
}

}  // namespace tensord
