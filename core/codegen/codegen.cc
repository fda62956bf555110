#include "core/codegen/codegen.h"

#include "core/base/status.h"
#include "core/codegen/linearize.h"
#include "core/codegen/loops.h"
#include "core/codegen/tile.h"
#include "core/rules/spec.h"

namespace tensord {

absl::StatusOr<std::unique_ptr<LinearKernel>> LowerKernel(const Kernel& kernel,
                                                          const Target& target) {
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

  auto result = std::make_unique<LinearKernel>();
  LinearProgram& program = result->program;
  program.name = kernel.name;
  program.params = take(kernel.params.size());
  program.variables = take(kernel.variables.size());
  program.written.resize(program.params.size());
  for (const Node* store : nest.sink->src) program.written[store->src[0]->slot()] = true;

  NormalizeLoops(nest);
  Tile(nest, target);
  TD_RETURN_IF_ERROR(Linearize(nest, target, program));
#ifndef NDEBUG
  TD_RETURN_IF_ERROR(VerifyLinear(program.body), "codegen of kernel '{}'", kernel.name);
#endif
  result->graph = std::move(nest.graph);
  return result;
}

}  // namespace tensord
