// ProgramIndex: what programs each user has registered, so that one that has to be compiled can be
// told from the nearest of them. Of other users' programs nothing is said.
//
//   const ProgramSketch sketch = SketchOf(message, program, device_names);
//   if (!plan_was_there) miss = index.Explain(user, sketch);
//   index.Add(user, sketch);
//
// Thread-safe.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/container/flat_hash_map.h>
#include <absl/synchronization/mutex.h>

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "core/ir/program.h"
#include "proto/tensord/v1/session.pb.h"

namespace tensord {

// The parts of a program that its plan depends on.
struct ProgramSketch {
  std::string name;
  uint64_t structure = 0;  // operations, and which reads which
  uint64_t dtypes = 0;     // of all of them
  uint64_t shapes = 0;     // of inputs and outputs
  uint64_t constants = 0;
  uint64_t attributes = 0;  // axes, sizes, texts
  bool fast_math = false;
  std::string devices;
  std::string inputs;  // for people: "float32[2, 3], int32[5]"
};

ProgramSketch SketchOf(const v1::Program& message, const Program& program,
                       const std::vector<std::string>& devices);

class ProgramIndex {
 public:
  static constexpr size_t kProgramsOfUser = 256;  // the latest
  static constexpr size_t kUsers = 1024;

  // In what the nearest program of the user differs; fewest parts first, then the latest.
  v1::ExplainReply::Miss Explain(const std::string& user, const ProgramSketch& sketch);
  void Add(const std::string& user, ProgramSketch sketch);

 private:
  absl::Mutex mu_;
  absl::flat_hash_map<std::string, std::deque<ProgramSketch>> programs_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tensord
