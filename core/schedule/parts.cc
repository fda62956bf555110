#include "core/schedule/parts.h"

#include "core/base/status.h"
#include "core/ir/dims.h"
#include "core/rules/simplify.h"
#include "core/rules/spec.h"

namespace tensord {

absl::StatusOr<std::vector<const Node*>> Parts::Begin() {
  std::vector<const Node*> roots;
  for (const Program::Output& output : program_.outputs) roots.push_back(output.value);
  TD_RETURN_IF_ERROR(VerifyTensor(roots));
  TD_ASSIGN_OR_RETURN(roots,
                      SimplifyForSchedule(graph_, CopyTo(graph_, roots), program_.fast_math));
  for (size_t slot = 0; slot < program_.inputs.size(); ++slot) {
    const Node* input = program_.inputs[slot];
    AddInput(ParamFor(static_cast<int64_t>(slot), input),
             AddBuffer(Schedule::Kind::kInput, static_cast<int64_t>(slot), input));
  }
  return roots;
}

int Parts::AddBuffer(Schedule::Kind kind, int64_t index, const Node* tensor) {
  schedule_.buffers.push_back({kind, index, tensor->dtype, NumElements(tensor->shape)});
  return static_cast<int>(schedule_.buffers.size()) - 1;
}

void Parts::AddInput(const Node* value, int buffer) {
  const Node* param = ParamFor(static_cast<int64_t>(input_buffers_.size()), value);
  params_.push_back(param);
  input_buffers_.push_back(buffer);
  computed_[value] = {param};
}

int Parts::BufferOf(const Node* value) const {
  return input_buffers_[computed_.at(value).value->slot()];
}

const Node* Parts::ParamFor(int64_t slot, const Node* value) {
  const int64_t before[] = {slot};
  const SizedOp sized({}, ShapeOf(value), before);
  return graph_.Make(
      {.op = Op::kParam, .src = sized.src, .ints = sized.ints, .dtype = value->dtype});
}

Program Parts::NewPart() const {
  Program part;
  part.name = program_.name;
  part.fast_math = program_.fast_math;
  part.devices = program_.devices;
  part.variables = program_.variables;
  return part;
}

absl::Status Parts::AddPart(absl::Span<const Node* const> values, absl::Span<const int> buffers) {
  if (values.empty()) return absl::OkStatus();
  Program part = NewPart();
  part.inputs = params_;
  for (const Node* value : Substitute(graph_, values, computed_)) part.outputs.push_back({value});
  TD_ASSIGN_OR_RETURN(Schedule schedule, ScheduleOf(std::move(part)));
  Join(std::move(schedule), input_buffers_, buffers);
  return absl::OkStatus();
}

absl::Status Parts::AddOutputs(absl::Span<const Node* const> roots) {
  Program part = NewPart();
  part.inputs = params_;
  std::vector<int> buffers;
  for (size_t i = 0; i < roots.size(); ++i) {
    const int64_t overwrites = program_.outputs[i].overwrites;
    buffers.push_back(overwrites == Program::kFresh
                          ? AddBuffer(Schedule::Kind::kOutput, static_cast<int64_t>(i), roots[i])
                          : static_cast<int>(overwrites));
  }
  const std::vector<const Node*> values = Substitute(graph_, roots, computed_);
  for (size_t i = 0; i < values.size(); ++i) {
    part.outputs.push_back({values[i], program_.outputs[i].overwrites});
  }
  schedule_.outputs = buffers;
  TD_ASSIGN_OR_RETURN(Schedule schedule, ScheduleOf(std::move(part)));
  Join(std::move(schedule), input_buffers_, buffers);
  return absl::OkStatus();
}

absl::StatusOr<Schedule> Parts::ScheduleOf(Program part) {
  std::vector<const Node*> roots = part.inputs;
  roots.insert(roots.end(), part.variables.begin(), part.variables.end());
  for (const Program::Output& output : part.outputs) roots.push_back(output.value);
  const std::vector<const Node*> copies = CopyTo(part.graph, roots);
  auto copy = copies.begin();
  for (const Node*& input : part.inputs) input = *copy++;
  for (const Node*& variable : part.variables) variable = *copy++;
  for (Program::Output& output : part.outputs) output.value = *copy++;
  return ScheduleInParts(part);
}

void Parts::Join(Schedule part, absl::Span<const int> inputs, absl::Span<const int> outputs) {
  std::vector<int> buffer_of;
  for (const Schedule::Buffer& buffer : part.buffers) {
    switch (buffer.kind) {
      case Schedule::Kind::kInput:
        buffer_of.push_back(inputs[buffer.index]);
        break;
      case Schedule::Kind::kOutput:
        buffer_of.push_back(outputs[buffer.index]);
        break;
      case Schedule::Kind::kTemporary:
        buffer_of.push_back(static_cast<int>(schedule_.buffers.size()));
        schedule_.buffers.push_back(buffer);
        break;
    }
  }
  std::vector<int> kernel_of;
  for (std::unique_ptr<Kernel>& kernel : part.kernels) {
    const auto [known, is_new] =
        kernel_of_.emplace(StructuralKey(*kernel), static_cast<int>(schedule_.kernels.size()));
    if (is_new) schedule_.kernels.push_back(std::move(kernel));
    kernel_of.push_back(known->second);
  }
  for (Schedule::Step& step : part.steps) {
    for (int& buffer : step.buffers) buffer = buffer_of[buffer];
    if (step.kernel >= 0) step.kernel = kernel_of[step.kernel];
    schedule_.steps.push_back(std::move(step));
  }
}

}  // namespace tensord
