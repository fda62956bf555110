#include "core/compile/llvm_host.h"

#include <llvm/ADT/StringMap.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/Triple.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

namespace tensord {
namespace {

// The size that the system knows, else `fallback`: containers and emulators often know none.
int64_t CacheBytes(int name, int64_t fallback) {
  const long bytes = sysconf(name);
  return bytes > 0 ? bytes : fallback;
}

Target Detect() {
  Target target;
  target.renderer = "llvm-cpu";
  target.lacks = {DType::kFloat8E4M3, DType::kFloat8E5M2, DType::kFloat8E4M3Fnuz,
                  DType::kFloat8E5M2Fnuz};
  const llvm::Triple triple(llvm::sys::getProcessTriple());
  target.arch = triple.isX86()       ? "x86-64"
                : triple.isAArch64() ? "aarch64"
                                     : triple.getArchName().str();
  target.cpu = llvm::sys::getHostCPUName().str();

  const llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
  std::vector<std::string> enabled;  // sorted: the map's order is by hash
  for (const auto& feature : features) {
    enabled.push_back((feature.getValue() ? "+" : "-") + feature.getKey().str());
  }
  std::sort(enabled.begin(), enabled.end(),
            [](const std::string& a, const std::string& b) { return a.substr(1) < b.substr(1); });
  for (const std::string& feature : enabled) {
    target.features += (target.features.empty() ? "" : ",") + feature;
  }

  auto has = [&](const char* name) { return features.lookup(name); };
  if (target.arch == "aarch64") {
    target.vector_registers = 32;
    target.has_fma = true;
  } else {
    const bool avx512 = has("avx512f") && has("avx512vl") && has("avx512bw") && has("avx512dq");
    target.vector_bytes = avx512 ? 64 : has("avx") ? 32 : 16;
    target.vector_registers = avx512 ? 32 : 16;
    target.has_fma = has("fma");
  }
  target.cores = std::max(1u, std::thread::hardware_concurrency());
  target.l1_bytes = CacheBytes(_SC_LEVEL1_DCACHE_SIZE, target.l1_bytes);
  target.l2_bytes = CacheBytes(_SC_LEVEL2_CACHE_SIZE, target.l2_bytes);
  return target;
}

}  // namespace

const Target& LlvmHostTarget() {
  static const Target& target = *new Target(Detect());
  return target;
}

}  // namespace tensord
