#include "core/codegen/codegen.h"

#include <mutex>

#include "core/base/log.h"
#include "core/base/status.h"
#include "core/codegen/decompose.h"
#include "core/codegen/guard.h"
#include "core/codegen/linearize.h"
#include "core/codegen/loops.h"
#include "core/codegen/tile.h"
#include "core/rules/bounds.h"
#include "core/rules/spec.h"

namespace tensord {

namespace {

// In builds with assertions: the spec holds after every pass.
absl::Status VerifyBetweenPasses([[maybe_unused]] const Node* sink) {
#ifndef NDEBUG
  return VerifyKernel({sink});
#else
  return absl::OkStatus();
#endif
}

absl::Status Lower(const Kernel& kernel, const Target& target, bool tiled, LinearKernel& result) {
  LoopNest nest;
  std::vector<const Node*> roots = {kernel.sink};
  roots.insert(roots.end(), kernel.loops.begin(), kernel.loops.end());
  roots.insert(roots.end(), kernel.params.begin(), kernel.params.end());
  roots.insert(roots.end(), kernel.variables.begin(), kernel.variables.end());
  const std::vector<const Node*> copies = CopyTo(nest.graph, roots);
  nest.sink = copies[0];
  auto next = copies.begin() + 1;
  const auto take = [&](size_t count) {
    std::vector<const Node*> taken(next, next + static_cast<std::ptrdiff_t>(count));
    next += static_cast<std::ptrdiff_t>(count);
    return taken;
  };
  nest.loops = take(kernel.loops.size());

  LinearProgram& program = result.program;
  program.name = tiled ? kernel.name : kernel.name + "_untiled";
  program.params = take(kernel.params.size());
  program.variables = take(kernel.variables.size());
  program.written.resize(program.params.size());
  for (const Node* store : nest.sink->src) program.written[store->src[0]->slot()] = true;

  TD_RETURN_IF_ERROR(Decompose(nest, program.params, target));
  TD_RETURN_IF_ERROR(VerifyBetweenPasses(nest.sink));
  if (tiled) {
    NormalizeLoops(nest);
    TD_RETURN_IF_ERROR(VerifyBetweenPasses(nest.sink));
    Tile(nest, target);
  }
  TD_RETURN_IF_ERROR(VerifyBetweenPasses(nest.sink));
  TD_RETURN_IF_ERROR(Linearize(nest, target, program));
  result.graph = std::move(nest.graph);
  TD_RETURN_IF_ERROR(VerifyLinear(program.body));
  if (target.checks_bounds) return absl::OkStatus();
  const std::vector<const Node*> unproven = UnprovenAccesses(program);
  if (unproven.empty()) return absl::OkStatus();
  TD_RETURN_IF_ERROR(Guard(result.graph, unproven, program));
  return VerifyLinear(program.body);
}

// A tiling that does not work out costs speed, not the program.
void WarnOnce(const absl::Status& fault) {
  static std::once_flag once;
  std::call_once(once, [&] {
    Log("codegen").warn("a kernel could not be tiled and will be slow error='{}'", Message(fault));
  });
}

}  // namespace

absl::StatusOr<std::unique_ptr<LinearKernel>> LowerKernel(const Kernel& kernel,
                                                          const Target& target) {
  auto result = std::make_unique<LinearKernel>();
  const absl::Status tiled = Lower(kernel, target, true, *result);
  if (tiled.ok()) return result;
  const bool too_many_pieces = absl::IsResourceExhausted(tiled);
#ifndef NDEBUG
  if (!too_many_pieces) return Annotate(tiled, "codegen of kernel '{}'", kernel.name);
#endif
  result = std::make_unique<LinearKernel>();
  TD_RETURN_IF_ERROR(Lower(kernel, target, false, *result), "codegen of kernel '{}'", kernel.name);
  if (!too_many_pieces) WarnOnce(tiled);
  return result;
}

}  // namespace tensord
