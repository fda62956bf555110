#include "server/session/program_index.h"

#include <absl/hash/hash.h>
#include <absl/strings/str_join.h>
#include <fmt/format.h>

#include <optional>
#include <utility>

#include "core/base/text.h"

namespace tensord {
namespace {

// Whether a part differs, by the name that it has on the wire and in messages.
struct Part {
  const char* name;
  bool (*differs)(const ProgramSketch& a, const ProgramSketch& b);
};
constexpr Part kParts[] = {
    {"shape", [](const ProgramSketch& a, const ProgramSketch& b) { return a.shapes != b.shapes; }},
    {"dtype", [](const ProgramSketch& a, const ProgramSketch& b) { return a.dtypes != b.dtypes; }},
    {"constant",
     [](const ProgramSketch& a, const ProgramSketch& b) { return a.constants != b.constants; }},
    // Sizes inside follow those of the inputs.
    {"attribute",
     [](const ProgramSketch& a, const ProgramSketch& b) {
       return a.attributes != b.attributes && a.shapes == b.shapes;
     }},
    {"option",
     [](const ProgramSketch& a, const ProgramSketch& b) { return a.fast_math != b.fast_math; }},
    {"device",
     [](const ProgramSketch& a, const ProgramSketch& b) { return a.devices != b.devices; }},
};

template <typename... T>
void Mix(uint64_t& hash, const T&... values) {
  hash = absl::HashOf(hash, values...);
}

std::string TypeText(const Node* node) {
  return fmt::format("{}[{}]", Name(node->dtype), fmt::join(node->shape, ", "));
}

}  // namespace

ProgramSketch SketchOf(const v1::Program& message, const Program& program,
                       const std::vector<std::string>& devices) {
  ProgramSketch sketch{.name = program.name,
                       .fast_math = message.fast_math(),
                       .devices = absl::StrJoin(devices, ", ")};
  for (const v1::Node& node : message.nodes()) {
    Mix(sketch.structure, node.op(), node.src_size());
    for (uint32_t source : node.src()) Mix(sketch.structure, source);
    Mix(sketch.dtypes, node.dtype());
    const auto op = static_cast<Op>(node.op());
    if (op == Op::kParam) continue;  // its shape is that of an input
    uint64_t& values = op == Op::kConst ? sketch.constants : sketch.attributes;
    Mix(values, node.text(), node.ints_size());
    for (int64_t value : node.ints()) Mix(values, value);
  }
  Mix(sketch.structure, message.inputs_size(), message.devices());
  for (const v1::Output& output : message.outputs()) {
    Mix(sketch.structure, output.node(), output.overwrites_plus_one());
  }
  std::vector<std::string> inputs;
  const auto add_shape = [&sketch](const Node* node) {
    Mix(sketch.shapes, node->shape.size());
    for (int64_t size : node->shape) Mix(sketch.shapes, size);
  };
  for (const Node* input : program.inputs) {
    add_shape(input);
    inputs.push_back(TypeText(input));
  }
  for (const Program::Output& output : program.outputs) add_shape(output.value);
  sketch.inputs = Prefix(absl::StrJoin(inputs, ", "), 200);
  return sketch;
}

v1::ExplainReply::Miss ProgramIndex::Explain(const std::string& user, const ProgramSketch& sketch) {
  v1::ExplainReply::Miss miss;
  miss.set_program(sketch.name);
  std::optional<std::vector<const char*>> fewest;
  std::string inputs, devices;
  {
    absl::MutexLock lock(&mu_);
    const auto programs = programs_.find(user);
    if (programs != programs_.end()) {
      for (const ProgramSketch& other : programs->second) {
        if (other.structure != sketch.structure) continue;
        std::vector<const char*> differs;
        for (const Part& part : kParts) {
          if (part.differs(sketch, other)) differs.push_back(part.name);
        }
        if (fewest && differs.size() > fewest->size()) continue;
        fewest = std::move(differs);
        miss.set_nearest(other.name);
        inputs = other.inputs;
        devices = other.devices;
      }
    }
  }
  if (!fewest) {
    miss.set_text(fmt::format(
        "program '{}' is new: the user has registered none of its structure since the daemon began",
        sketch.name));
    return miss;
  }
  for (const char* part : *fewest) miss.add_differs(part);
  if (fewest->empty()) {
    miss.set_text(
        fmt::format("program '{}' was there before, but its plan is no longer kept", sketch.name));
    return miss;
  }
  std::string text = fmt::format("program '{}' is '{}' with another {}", sketch.name,
                                 miss.nearest(), fmt::join(*fewest, ", "));
  if (inputs != sketch.inputs) text += fmt::format(": {} instead of {}", sketch.inputs, inputs);
  if (devices != sketch.devices) {
    text += fmt::format(": on {} instead of {}", sketch.devices, devices);
  }
  miss.set_text(std::move(text));
  return miss;
}

void ProgramIndex::Add(const std::string& user, ProgramSketch sketch) {
  absl::MutexLock lock(&mu_);
  if (programs_.size() >= kUsers && !programs_.contains(user)) programs_.erase(programs_.begin());
  std::deque<ProgramSketch>& programs = programs_[user];
  programs.push_back(std::move(sketch));
  if (programs.size() > kProgramsOfUser) programs.pop_front();
}

}  // namespace tensord
