#include "tests/differential/sharded.h"

#include <random>

#include "core/base/status.h"
#include "core/rules/spec.h"
#include "tests/differential/expect.h"

namespace tensord {
namespace {

// Part `number` of `count` along an axis.
HostTensor PartOf(const HostTensor& whole, int64_t axis, int64_t number, int64_t count) {
  if (axis == kWhole) return whole;
  HostTensor part{whole.dtype, whole.shape, {}};
  const int64_t size = whole.shape[axis], length = size / count;
  part.shape[axis] = length;
  int64_t inner = 1;
  for (size_t i = axis + 1; i < whole.shape.size(); ++i) inner *= whole.shape[i];
  for (size_t e = 0; e < whole.values.size(); ++e) {
    const int64_t index = static_cast<int64_t>(e) / inner % size;
    if (index / length == number) part.values.push_back(whole.values[e]);
  }
  return part;
}

// The inverse.
std::vector<Scalar> Whole(absl::Span<const HostTensor> parts, int64_t axis, Shape shape) {
  if (axis == kWhole) return parts[0].values;
  std::vector<Scalar> values(static_cast<size_t>(NumElements(shape)));
  const int64_t size = shape[axis], length = size / static_cast<int64_t>(parts.size());
  const int64_t inner = NumElements(shape.subspan(axis + 1));
  std::vector<size_t> next(parts.size());
  for (size_t e = 0; e < values.size(); ++e) {
    const int64_t owner = static_cast<int64_t>(e) / inner % size / length;
    values[e] = parts[owner].values[next[owner]++];
  }
  return values;
}

absl::StatusOr<std::string> TryCheckSharded(Case& test, ProgramRunner& runner, int64_t count,
                                            uint64_t choice, AllReduceKind all_reduce) {
  TD_ASSIGN_OR_RETURN(const std::vector<const Node*> params, ParamsOf(test));
  TD_ASSIGN_OR_RETURN(const Program program, ProgramOf(test));
  const std::vector<HostTensor> inputs = InputsOf(test, params);
  const auto variables = VariablesOf(test);
  ReferenceInputs reference;
  for (size_t slot = 0; slot < inputs.size(); ++slot) {
    reference.params[static_cast<int64_t>(slot)] = inputs[slot].values;
  }
  for (const auto& [name, value] : variables) reference.variables[name] = value;
  const std::vector<Expected> expected = Expect(test.outputs, reference);

  std::mt19937_64 random(choice);
  std::vector<int64_t> axes;
  std::string layout;
  for (const Node* param : params) {
    std::vector<int64_t> possible = {kWhole};
    for (int64_t axis = 0; axis < param->rank(); ++axis) {
      if (param->shape[axis] % count == 0) possible.insert(possible.end(), 2, axis);
    }
    axes.push_back(possible[random() % possible.size()]);
    layout += fmt::format(" {}", axes.back());
  }
  TD_ASSIGN_OR_RETURN(const Partitioned parts, Partition(program, count, axes, all_reduce));
  std::vector<const Node*> roots;
  for (const Program::Output& output : parts.program.outputs) roots.push_back(output.value);
  TD_RETURN_IF_ERROR(VerifyTensor(roots), "partitioned by{}", layout);

  const auto devices = runner.runtime().devices().first(count);
  TD_ASSIGN_OR_RETURN(const std::shared_ptr<const Executable> executable,
                      runner.runtime().Prepare(parts.program, devices, nullptr));
  std::vector<BufferRef> buffers;
  for (int64_t d = 0; d < count; ++d) {
    for (size_t slot = 0; slot < inputs.size(); ++slot) {
      buffers.push_back(Upload(*devices[d], PartOf(inputs[slot], axes[slot], d, count)));
    }
  }
  TD_ASSIGN_OR_RETURN(const Run run, runner.runtime().Submit(executable, buffers, variables));
  TD_RETURN_IF_ERROR(devices[0]->timeline().Wait(run.done, absl::InfiniteFuture()));
  for (const auto& [device, done] : run.done_on_others) {
    TD_RETURN_IF_ERROR(device->timeline().Wait(done, absl::InfiniteFuture()));
  }
  const size_t outputs = test.outputs.size();
  for (size_t i = 0; i < outputs; ++i) {
    std::vector<HostTensor> found;
    for (int64_t d = 0; d < count; ++d) {
      const int64_t slot = test.overwrites[i];
      found.push_back(Download(slot == Program::kFresh ? *run.outputs[d * outputs + i]
                                                       : *buffers[d * inputs.size() + slot]));
      if (parts.axes[i] == kWhole && found.back().values != found[0].values) {
        return fmt::format("output {}: devices 0 and {} differ, inputs by{}", i, d, layout);
      }
    }
    const std::vector<Scalar> whole = Whole(found, parts.axes[i], test.outputs[i]->shape);
    if (std::string wrong = Compare(whole, expected[i]); !wrong.empty()) {
      return fmt::format("output {} along {}, inputs by{}: {}", i, parts.axes[i], layout, wrong);
    }
  }
  return "";
}

}  // namespace

std::string CheckSharded(Case& test, ProgramRunner& runner, int64_t devices, uint64_t choice,
                         AllReduceKind all_reduce) {
  const absl::StatusOr<std::string> result =
      TryCheckSharded(test, runner, devices, choice, all_reduce);
  return result.ok() ? *result : std::string(Message(result.status()));
}

}  // namespace tensord
