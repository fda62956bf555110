#include "server/compiler/messages.h"

#include <utility>

#include "core/base/status.h"
#include "core/ir/dtype.h"
#include "core/ir/op.h"

namespace tensord::compiler {
namespace {

template <typename T>
bool IsWithin(const T& number, size_t size) {
  return number >= 0 && static_cast<uint64_t>(number) < size;
}

// Temporaries that no step uses have none.
bool HasPlace(const Schedule::Buffer& buffer, const Schedule& schedule) {
  return buffer.kind != Schedule::Kind::kTemporary ||
         (buffer.offset <= schedule.scratch_bytes &&
          buffer.bytes() <= schedule.scratch_bytes - buffer.offset);
}

constexpr uint64_t kMaxElements = uint64_t{1} << 56;

bool IsDType(int64_t number) { return IsWithin(number, kNumDTypes); }

}  // namespace

void Encode(const tensord::Target& target, Target* out) {
  out->set_renderer(target.renderer);
  out->set_arch(target.arch);
  out->set_cpu(target.cpu);
  out->set_features(target.features);
  out->set_vector_bytes(target.vector_bytes);
  out->set_vector_registers(target.vector_registers);
  out->set_has_fma(target.has_fma);
  out->set_cores(target.cores);
  out->set_l1_bytes(target.l1_bytes);
  out->set_l2_bytes(target.l2_bytes);
  out->set_lacks(target.lacks.bits());
  out->set_checks_bounds(target.checks_bounds);
}

tensord::Target Decode(const Target& message) {
  return {.renderer = message.renderer(),
          .arch = message.arch(),
          .cpu = message.cpu(),
          .features = message.features(),
          .vector_bytes = message.vector_bytes(),
          .vector_registers = message.vector_registers(),
          .has_fma = message.has_fma(),
          .cores = message.cores(),
          .l1_bytes = message.l1_bytes(),
          .l2_bytes = message.l2_bytes(),
          .lacks = DTypeSet::OfBits(message.lacks()),
          .checks_bounds = message.checks_bounds()};
}

void Encode(const tensord::Plan& plan, Plan* out) {
  for (const tensord::Plan::Kernel& kernel : plan.kernels) {
    Plan::Kernel& row = *out->add_kernels();
    row.set_name(kernel.name);
    row.set_content(kernel.content);
    for (const std::string& variable : kernel.variables) row.add_variables(variable);
  }
  for (const Schedule::Buffer& buffer : plan.schedule.buffers) {
    Plan::Buffer& row = *out->add_buffers();
    row.set_kind(static_cast<int>(buffer.kind));
    row.set_index(buffer.index);
    row.set_dtype(static_cast<int>(buffer.dtype));
    row.set_elements(buffer.elements);
    row.set_offset(buffer.offset);
  }
  for (const Schedule::Step& step : plan.schedule.steps) {
    Plan::Step& row = *out->add_steps();
    row.set_kernel(step.kernel);
    for (const int buffer : step.buffers) row.add_buffers(buffer);
    row.set_most(step.most);
    row.set_body(step.body);
    row.set_exchange(static_cast<int>(step.exchange));
    row.set_shift(step.shift);
    row.set_meets(step.meets);
  }
  out->set_scratch_bytes(plan.schedule.scratch_bytes);
  for (const int output : plan.schedule.outputs) out->add_outputs(output);
}

absl::StatusOr<tensord::Plan> Decode(const Plan& message, size_t inputs, size_t outputs) {
  const auto wrong = [](std::string_view what) {
    return Internal("the plan that the compiler made names a {} that there is not", what);
  };
  tensord::Plan plan;
  Schedule& schedule = plan.schedule;
  for (const Plan::Kernel& row : message.kernels()) {
    plan.kernels.push_back(
        {row.name(), row.content(), {row.variables().begin(), row.variables().end()}});
  }
  schedule.scratch_bytes = message.scratch_bytes();
  for (const Plan::Buffer& row : message.buffers()) {
    if (!IsDType(row.dtype()) || !IsWithin(row.elements(), kMaxElements))
      return wrong("dtype or size");
    Schedule::Buffer& buffer = schedule.buffers.emplace_back(
        Schedule::Buffer{.kind = static_cast<Schedule::Kind>(row.kind()),
                         .index = row.index(),
                         .dtype = static_cast<DType>(row.dtype()),
                         .elements = row.elements(),
                         .offset = row.offset()});
    switch (buffer.kind) {
      case Schedule::Kind::kInput:
        if (!IsWithin(buffer.index, inputs)) return wrong("input");
        break;
      case Schedule::Kind::kOutput:
        if (!IsWithin(buffer.index, outputs)) return wrong("output");
        break;
      case Schedule::Kind::kTemporary:
        break;
      default:
        return wrong("kind of buffer");
    }
  }
  const size_t buffers = schedule.buffers.size(), steps = message.steps().size();
  for (const Plan::Step& row : message.steps()) {
    if (row.kernel() < Schedule::Step::kExchange ||
        (row.kernel() >= 0 && !IsWithin(row.kernel(), plan.kernels.size()))) {
      return wrong("kernel");
    }
    const size_t least = row.kernel() >= 0 ? 0 : row.kernel() == Schedule::Step::kLoop ? 1 : 2;
    if (static_cast<size_t>(row.buffers_size()) < least) return wrong("buffer");
    for (const int buffer : row.buffers()) {
      if (!IsWithin(buffer, buffers)) return wrong("buffer");
      if (!HasPlace(schedule.buffers[buffer], schedule))
        return wrong("place in the scratch memory");
    }
    if (row.body() < 0 || static_cast<size_t>(row.body()) >= steps - schedule.steps.size()) {
      return wrong("body of a loop");
    }
    schedule.steps.push_back({.kernel = row.kernel(),
                              .buffers = {row.buffers().begin(), row.buffers().end()},
                              .most = row.most(),
                              .body = row.body(),
                              .exchange = static_cast<ExchangeKind>(row.exchange()),
                              .shift = row.shift(),
                              .meets = row.meets()});
  }
  if (static_cast<size_t>(message.outputs_size()) != outputs) return wrong("output");
  for (const int output : message.outputs()) {
    if (!IsWithin(output, buffers)) return wrong("buffer");
    schedule.outputs.push_back(output);
  }
  return plan;
}

void Encode(const CompiledKernel& kernel, const PlanCompiler::Times& times, Kernel* out) {
  out->set_name(kernel.name);
  out->set_entry(kernel.entry);
  out->set_binary(kernel.binary);
  out->set_grid(kernel.grid);
  out->set_source(kernel.source);
  out->set_lower_ns(absl::ToInt64Nanoseconds(times.lower));
  out->set_compile_ns(absl::ToInt64Nanoseconds(times.compile));
}

CompiledKernel Decode(Kernel&& message, PlanCompiler::Times* times) {
  *times = {.lower = absl::Nanoseconds(message.lower_ns()),
            .compile = absl::Nanoseconds(message.compile_ns())};
  return {.name = message.name(),
          .entry = message.entry(),
          .binary = std::move(*message.mutable_binary()),
          .grid = message.grid(),
          .source = std::move(*message.mutable_source())};
}

}  // namespace tensord::compiler
