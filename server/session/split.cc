// Session: what is left of a run that can't be started: a run of each thing that it overwrites.
// They take its place in the queue one after another, under its number; the last one tells how it
// went.
#include <utility>

#include "core/base/status.h"
#include "server/session/session.h"
#include "server/session/updates.h"

namespace tensord {

void Session::MakeApart(LoadedProgram& program) {
  for (Updates& updates : UpdatesOf(*program.whole)) {
    LoadedProgram::Apart& apart = program.apart.emplace_back();
    apart.program = std::make_shared<LoadedProgram>();
    apart.program->name = program.name;
    apart.program->devices = program.devices;
    for (size_t device = 0; device < program.devices.size(); ++device) {
      for (size_t input : updates.inputs) {
        apart.inputs.push_back(device * program.whole->inputs.size() + input);
      }
      for (size_t output : updates.outputs) {
        apart.outputs.push_back(device * program.whole->outputs.size() + output);
      }
    }
    ++compiling_;
    auto source = std::make_shared<Program>(std::move(updates.program));
    engine_.compile_pool.Schedule([self = shared_from_this(), loaded = apart.program, source] {
      self->Compile(0, loaded, [&source] { return std::move(*source); });
    });
  }
}

// What it would have overwritten is intact until it starts.
bool Session::SplitRun(uint64_t sequence, const std::shared_ptr<LoadedProgram>& program,
                       v1::RunProgram& run, const absl::Status& error, bool refused) {
  if (program == nullptr || program->whole == nullptr || split_.sequence == sequence) return false;
  const Signature& signature = program->signature;
  if (static_cast<size_t>(run.inputs_size()) != signature.num_inputs ||
      static_cast<size_t>(run.outputs_size()) != signature.outputs.size()) {
    return false;
  }
  if (program->apart.empty()) MakeApart(*program);
  if (program->apart[0].outputs.size() == signature.outputs.size()) return false;  // the same again
  Handles others;
  for (size_t i = 0; i < signature.outputs.size(); ++i) {
    if (signature.outputs[i].overwrites == Program::kFresh) {
      others.push_back(run.outputs(static_cast<int>(i)));
    }
  }
  Fail(sequence, others, error, refused);
  split_ = {.sequence = sequence,
            .program = program,
            .error = error,
            .inputs = {run.inputs().begin(), run.inputs().end()},
            .outputs = {run.outputs().begin(), run.outputs().end()},
            .part = 0};
  TakePart(run);
  return true;
}

void Session::TakePart(v1::RunProgram& run) {
  const LoadedProgram::Apart& part = split_.program->apart[split_.part];
  run.clear_inputs();
  run.clear_outputs();
  for (size_t input : part.inputs) run.add_inputs(split_.inputs[input]);
  for (size_t output : part.outputs) run.add_outputs(split_.outputs[output]);
  poked_ = true;
}

bool Session::IsLastPart(uint64_t sequence) const {
  return split_.sequence != sequence || split_.part + 1 == split_.program->apart.size();
}

bool Session::NextPart(uint64_t sequence, v1::RunProgram& run) {
  if (IsLastPart(sequence)) return false;
  ++split_.part;
  TakePart(run);
  return true;
}

}  // namespace tensord
