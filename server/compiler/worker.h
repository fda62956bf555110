// The other end: what a process that compiles does.
#pragma once

namespace tensord::compiler {

// Answers requests on kWorkerSocket until it is closed. For main(), before anything else is set up.
//
// TENSORD_COMPILE_FAULT=KIND:NAME makes compiling programs of that name fail as if the compiler had
// a fault, for tests: `crash`, `loop` (without end) or `memory` (without limit).
[[noreturn]] void RunWorker();

// The argument that asks for it.
inline constexpr const char* kWorkerArgument = "--compile-worker";

}  // namespace tensord::compiler
