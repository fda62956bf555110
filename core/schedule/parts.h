// Programs that are scheduled in parts. What has to be in memory at some point becomes an output of
// a part, and an input of those after it; the parts are scheduled like any other program and their
// steps are joined. Loops (loops.h) and exchanges between devices (exchange.h) cut programs so.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/status.h>
#include <absl/types/span.h>

#include <string>
#include <vector>

#include "core/ir/substitute.h"
#include "core/schedule/schedule.h"

namespace tensord {

class Parts {
 public:
  explicit Parts(const Program& program) : program_(program) {}

  // Checks the program; its simplified outputs, in the graph of the parts.
  absl::StatusOr<std::vector<const Node*>> Begin();

  const Program& program() const { return program_; }
  Graph& graph() { return graph_; }
  Schedule& schedule() { return schedule_; }

  int AddBuffer(Schedule::Kind kind, int64_t index, const Node* tensor);
  // A value that is in a buffer by now, and that the parts after it read there.
  void AddInput(const Node* value, int buffer);
  bool IsComputed(const Node* value) const { return computed_.contains(value); }
  // Of a computed value.
  int BufferOf(const Node* value) const;
  // Of the dtype and the sizes of `value`, which may vary.
  const Node* ParamFor(int64_t slot, const Node* value);

  // The values, computed from what is in buffers by now, into these buffers.
  absl::Status AddPart(absl::Span<const Node* const> values, absl::Span<const int> buffers);
  // The last part, which computes the program's outputs.
  absl::Status AddOutputs(absl::Span<const Node* const> roots);
  // Appends the steps of a part whose inputs and outputs lie in these buffers.
  void Join(Schedule part, absl::Span<const int> inputs, absl::Span<const int> outputs);

  // A program without nodes, of the name and options of the whole.
  Program NewPart() const;
  // Scheduled with nodes of its own.
  static absl::StatusOr<Schedule> ScheduleOf(Program part);

 private:
  const Program& program_;
  Graph graph_;
  ReplacementMap computed_;          // values in buffers -> their Params
  std::vector<const Node*> params_;  // the program's inputs, then the others
  std::vector<int> input_buffers_;   // by slot of params_
  absl::flat_hash_map<std::string, int> kernel_of_;
  Schedule schedule_;
};

}  // namespace tensord
