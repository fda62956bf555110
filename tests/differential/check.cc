#include "tests/differential/check.h"

#include <algorithm>
#include <cstring>

#include "core/base/status.h"
#include "core/device/target.h"
#include "core/rules/simplify.h"
#include "core/rules/spec.h"
#include "core/schedule/schedule.h"
#include "tests/differential/expect.h"
#include "tests/differential/interpret.h"

namespace tensord {
namespace {

// Memory that a run gets next is likely to be this one: what is read before it is written shows.
void Poison(Device& device, const Schedule& schedule) {
  std::vector<std::shared_ptr<DeviceMemory>> blocks;
  const auto poison = [&](uint64_t bytes) {
    auto memory = device.allocator().Allocate(bytes);
    if (!memory.ok() || bytes == 0) return;
    std::memset((*memory)->host_address(), 0xA7, bytes);
    blocks.push_back(*std::move(memory));
  };
  poison(schedule.scratch_bytes);
  for (const Schedule::Buffer& buffer : schedule.buffers) {
    if (buffer.kind == Schedule::Kind::kOutput) poison(buffer.bytes());
  }
}

// Temporaries that are needed at the same time must not overlap.
std::string CheckMemoryPlan(const Schedule& schedule) {
  constexpr uint64_t kMostScratch = 256 << 20;  // cases are small
  if (schedule.scratch_bytes > kMostScratch) {
    return fmt::format("the plan needs {} bytes of scratch memory", schedule.scratch_bytes);
  }
  struct Life {
    int first = -1, last = -1;
  };
  std::vector<Life> lives(schedule.buffers.size());
  for (size_t i = 0; i < schedule.steps.size(); ++i) {
    for (int buffer : schedule.steps[i].buffers) {
      Life& life = lives[static_cast<size_t>(buffer)];
      if (life.first < 0) life.first = static_cast<int>(i);
      life.last = static_cast<int>(i);
    }
  }
  // What a loop reads that was there before, its next iteration reads again.
  for (size_t i = 0; i < schedule.steps.size(); ++i) {
    if (schedule.steps[i].kernel != Schedule::Step::kLoop) continue;
    const int begin = static_cast<int>(i), end = begin + static_cast<int>(schedule.steps[i].body);
    for (Life& life : lives) {
      if (life.first <= begin && life.last >= begin) life.last = std::max(life.last, end);
    }
  }
  for (size_t a = 0; a < lives.size(); ++a) {
    const Schedule::Buffer& x = schedule.buffers[a];
    if (x.kind != Schedule::Kind::kTemporary || lives[a].first < 0) continue;
    if (x.offset + x.bytes() > schedule.scratch_bytes) {
      return fmt::format("temporary {} lies outside of the scratch memory", a);
    }
    for (size_t b = 0; b < a; ++b) {
      const Schedule::Buffer& y = schedule.buffers[b];
      if (y.kind != Schedule::Kind::kTemporary || lives[b].first < 0) continue;
      const bool same_time = lives[a].first <= lives[b].last && lives[b].first <= lives[a].last;
      const bool same_place = x.offset < y.offset + y.bytes() && y.offset < x.offset + x.bytes();
      if (same_time && same_place) return fmt::format("temporaries {} and {} overlap", b, a);
    }
  }
  return "";
}

// Without guards: what they would hide is to be seen.
Target Unguarded(Target target) {
  target.checks_bounds = true;
  return target;
}

// A machine that this one is not, so that other widths and tilings are seen.
Target OtherTarget(const Case& test, Target target) {
  target.vector_bytes = test.seed % 2 == 0 ? 16 : 64;
  target.vector_registers = test.seed % 2 == 0 ? 16 : 32;
  target.has_fma = test.seed % 3 != 0;
  target.cores = test.seed % 5 == 0 ? 1 : 64;
  return Unguarded(target);
}

std::string CheckLinear(const Case& test, const Schedule& schedule, const Target& target,
                        absl::Span<const HostTensor> inputs, const Variables& variables,
                        absl::Span<const Expected> expected) {
  std::vector<Memory> memory;
  for (const Schedule::Buffer& buffer : schedule.buffers) {
    memory.push_back(buffer.kind == Schedule::Kind::kInput
                         ? inputs[static_cast<size_t>(buffer.index)].values
                         : Memory(static_cast<size_t>(buffer.elements)));
  }
  if (std::string problem = Interpret(schedule, target, memory, variables); !problem.empty()) {
    return problem;
  }
  for (size_t i = 0; i < test.outputs.size(); ++i) {
    const Memory& actual = memory[static_cast<size_t>(schedule.outputs[i])];
    if (std::string wrong = Compare(actual, expected[i]); !wrong.empty()) {
      return fmt::format("interpreted output {}: {}", i, wrong);
    }
  }
  return "";
}

// One case with all that its runs share.
struct Prepared {
  Case& test;
  const Program& program;
  const Schedule& schedule;
  const std::vector<HostTensor>& inputs;
  const Variables& variables;
  const std::vector<Expected>& expected;
};

absl::StatusOr<std::string> CheckDevice(const Prepared& given, Runtime& runtime, Device& device) {
  const Case& test = given.test;
  TD_ASSIGN_OR_RETURN(const std::shared_ptr<const Executable> executable,
                      runtime.Prepare(given.program, device, nullptr));
  std::vector<BufferRef> buffers;
  for (const HostTensor& input : given.inputs) buffers.push_back(Upload(device, input));
  Poison(device, given.schedule);
  TD_ASSIGN_OR_RETURN(const Run run, runtime.Submit(executable, buffers, given.variables));
  TD_RETURN_IF_ERROR(device.timeline().Wait(run.done, absl::InfiniteFuture()));

  std::vector<bool> overwritten(given.inputs.size());
  for (size_t i = 0; i < test.outputs.size(); ++i) {
    const int64_t slot = test.overwrites[i];
    if (slot != Program::kFresh) overwritten[static_cast<size_t>(slot)] = true;
    const Buffer& buffer =
        slot == Program::kFresh ? *run.outputs[i] : *buffers[static_cast<size_t>(slot)];
    if (std::string wrong = Compare(Download(buffer).values, given.expected[i]); !wrong.empty()) {
      return fmt::format("output {}: {} [{}]", i, wrong, device.name());
    }
  }
  for (size_t slot = 0; slot < given.inputs.size(); ++slot) {
    if (!overwritten[slot] && Download(*buffers[slot]).values != given.inputs[slot].values) {
      return fmt::format("input {} has changed [{}]", slot, device.name());
    }
  }
  return "";
}

absl::StatusOr<std::string> TryCheck(Case& test, ProgramRunner& runner,
                                     const CheckOptions& options) {
  TD_ASSIGN_OR_RETURN(const std::vector<const Node*> params, ParamsOf(test));
  TD_RETURN_IF_ERROR(VerifyTensor(test.outputs));
  TD_ASSIGN_OR_RETURN(const Program program, ProgramOf(test));
  TD_ASSIGN_OR_RETURN(const Schedule schedule, MakeSchedule(program));
  if (std::string problem = CheckMemoryPlan(schedule); !problem.empty()) return problem;
  const std::vector<HostTensor> inputs = InputsOf(test, params);
  const auto variables = VariablesOf(test);
  ReferenceInputs reference;
  for (size_t slot = 0; slot < inputs.size(); ++slot) {
    reference.params[static_cast<int64_t>(slot)] = inputs[slot].values;
  }
  for (const auto& [name, value] : variables) reference.variables[name] = value;
  const std::vector<Expected> expected = Expect(test.outputs, reference);

  const auto check_linear = [&](const Target& target) {
    std::string problem = CheckLinear(test, schedule, target, inputs, variables, expected);
    if (problem.empty()) return problem;
    return fmt::format("{} [vectors of {} bytes, {} cores]", problem, target.vector_bytes,
                       target.cores);
  };
  const Target host = Unguarded(runner.device().target());
  if (std::string problem = check_linear(OtherTarget(test, host)); !problem.empty()) {
    return problem;
  }
  if (!options.compile) return check_linear(host);
  if (std::string problem = LowerKernels(schedule, host); !problem.empty()) return problem;
  for (Device* device : runner.runtime().devices()) {
    TD_ASSIGN_OR_RETURN(const std::string problem,
                        CheckDevice({test, program, schedule, inputs, variables, expected},
                                    runner.runtime(), *device));
    if (problem.empty()) continue;
    if (std::string earlier = check_linear(host); !earlier.empty()) return earlier;
    return problem + " (its linear program gives the right values for this machine)";
  }
  return "";
}

// Which rules simplified the case: where to look for who made a wrong node.
std::string RulesOf(const Case& test) {
  Graph graph;
  RewriteTrace trace;
  const std::vector<const Node*> roots = CopyTo(graph, test.outputs);
  if (!SimplifyForSchedule(graph, roots, false, {.trace = &trace}).ok()) return "";
  std::vector<std::string_view> names;
  for (const RewriteTrace::Step& step : trace.steps) {
    const bool known = std::find(names.begin(), names.end(), step.rule) != names.end();
    if (!step.rule.empty() && !known) names.push_back(step.rule);
  }
  return names.empty() ? "" : fmt::format("; rules that fired: {}", fmt::join(names, " "));
}

}  // namespace

std::string Check(Case& test, ProgramRunner& runner, const CheckOptions& options) {
  absl::StatusOr<std::string> result = TryCheck(test, runner, options);
  if (result.ok() && result->empty()) return "";
  return (result.ok() ? *result : std::string(Message(result.status()))) + RulesOf(test);
}

}  // namespace tensord
