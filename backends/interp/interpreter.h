// Interprets a linear program: one scalar after the other, each op by its definition (EvalOp), each
// access checked. So a compiler's fault is an error that names the place, and not a wrong number:
//   - an element outside of its buffer,
//   - a read of what nothing has written; a kernel that stores as often to a buffer as it has
//     elements, and reads nothing of it, is taken to store each, so that what was there before is
//     undefined from then on,
//   - an element that one workgroup stores and another one reads or stores, as they run in any
//   order.
//
//   TD_RETURN_IF_ERROR(Interpreter(program).Run(buffers, {.grid = program.grid}));
//
// Thread-safe.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/status.h>
#include <absl/types/span.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/ir/linear.h"

namespace tensord::interp {

// Memory that a kernel may use. `written` says of each byte whether anything has written it, 1 or
// 0; null: all of it counts as written.
struct BufferView {
  std::byte* data = nullptr;
  uint8_t* written = nullptr;
  uint64_t bytes = 0;
};

class Interpreter {
 public:
  struct Launch {
    int64_t grid = 1;
    absl::Span<const int64_t> variables = {};  // in the program's order
    // No element may be stored twice, but for reading and storing in place: what a compiler that
    // computes nothing twice should give.
    bool stores_once = false;
    const std::atomic<bool>* stop = nullptr;  // ends with an error soon after this is true
  };

  // The program and its nodes outlive this. It passes VerifyLinear.
  explicit Interpreter(const LinearProgram& program);

  // Runs the workgroups in order; buffers by slot, which may overlap. Internal: the first fault.
  absl::Status Run(absl::Span<const BufferView> buffers, const Launch& launch) const;

 private:
  friend class Machine;
  // A node of the body with the places of its operands and its result.
  struct Instruction {
    const Node* node;
    size_t result;
    std::vector<size_t> src;
    size_t end = 0;  // Range: the index of its End
  };

  size_t PlaceOf(const Node* node);

  const LinearProgram& program_;
  std::vector<Instruction> code_;
  std::vector<int64_t> stores_;  // by slot: of one workgroup; kNotAll if some may not happen
  static constexpr int64_t kNotAll = int64_t{1} << 62;
  absl::flat_hash_map<const Node*, size_t> places_;  // of values, in lanes
  size_t size_ = 0;                                  // of all values
};

}  // namespace tensord::interp
