// Times what a first call waits for: rendering, compiling and loading one kernel, and how fast the
// code is that comes out. With --asm it prints the assembly instead.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <string_view>
#include <vector>

#include "core/compile/linear_testing.h"
#include "core/compile/llvm.h"
#include "core/render/llvm.h"

namespace tensord {
namespace {

// Of this thread's processor time, so that a busy machine matters less.
double BestMicroseconds(int repeats, const std::function<void()>& run) {
  auto now = [] {
    timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) * 1e-3;
  };
  double best = 1e30;
  for (int i = 0; i < repeats; ++i) {
    const double start = now();
    run();
    best = std::min(best, now() - start);
  }
  return best;
}

// y = op(x), vector by vector.
void BuildUnary(LinearBuilder& b, Op op, DType dtype, int64_t count, int lanes) {
  const Node* in = b.Param(dtype, count);
  const Node* out = b.Param(dtype, count);
  const Node* range = b.Range(count / lanes);
  const Node* index = b.Add(Op::kMul, {range, b.graph.Index(lanes)});
  b.Store(out, index, b.Add(op, {b.Load(in, index, lanes)}));
  b.End(range);
}

void Report(std::string_view name, const LinearProgram& program, bool assembly) {
  const Target& target = LlvmHostTarget();
  const std::string text = RenderLlvm(program, target).value();
  if (assembly) {
    fmt::print("{}\n{}\n", text, LlvmAssembly(text, target).value());
    return;
  }
  const std::string object = CompileLlvm(text, target).value();
  const double render = BestMicroseconds(20, [&] { RenderLlvm(program, target).IgnoreError(); });
  const double compile = BestMicroseconds(20, [&] { CompileLlvm(text, target).IgnoreError(); });
  const double load =
      BestMicroseconds(20, [&] { LlvmObject::Load(object, program.name).IgnoreError(); });
  fmt::print("{:24} render {:7.0f} us  compile {:7.0f} us  load {:7.0f} us  {:6} bytes\n", name,
             render, compile, load, object.size());
}

void Main(bool assembly) {
  const Target& target = LlvmHostTarget();
  if (!assembly) fmt::print("{}\n", target.CacheKey());
  const int lanes = target.vector_bytes / 4;
  constexpr int64_t kSize = 384;
  {
    const MatmulTile tile{.lanes = lanes, .rows = 12, .vectors = 2};
    LinearBuilder b("matmul");
    BuildMatmul(b, tile, kSize, kSize, kSize);
    Report("matmul 12x2", b.program, assembly);
    if (!assembly) {
      std::vector<float> x(kSize * kSize, 1), y(kSize * kSize, 1), z(kSize * kSize);
      const LoadedLinear kernel(b.program);
      const double us = BestMicroseconds(20, [&] { kernel.Run({x.data(), y.data(), z.data()}); });
      fmt::print("{:24} {:.1f} GFLOP/s\n", "", 2e-3 * kSize * kSize * kSize / us);
    }
  }
  for (DType dtype : {DType::kFloat32, DType::kFloat64}) {
    for (Op op : {Op::kNeg, Op::kExp, Op::kLog, Op::kSin}) {
      constexpr int64_t kCount = 8192;
      LinearBuilder b(std::string(Name(op)) + "_kernel");
      BuildUnary(b, op, dtype, kCount, target.vector_bytes / ItemSize(dtype));
      Report(fmt::format("{} {}", Name(op), Name(dtype)), b.program, assembly);
      if (assembly) continue;
      std::vector<double> x(kCount, 1.5), y(kCount);
      if (dtype == DType::kFloat32) std::fill_n(reinterpret_cast<float*>(x.data()), kCount, 1.5f);
      const LoadedLinear kernel(b.program);
      const double us = BestMicroseconds(50, [&] { kernel.Run({x.data(), y.data()}); });
      fmt::print("{:24} {:.3f} ns per element\n", "", 1e3 * us / kCount);
    }
  }
}

}  // namespace
}  // namespace tensord

int main(int argc, char** argv) { tensord::Main(argc > 1 && std::string_view(argv[1]) == "--asm"); }
