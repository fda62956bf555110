// Runs generated code so that a fault in it (bad address, division by zero, illegal instruction)
// becomes a value instead of the end of the process.
//
//   if (!RunGuarded([](void* context, GuardState& guard) { ... }, &context, &fault)) ...
//
// The body is left by a jump that skips destructors: it must hold no lock and own nothing.
// Thread-safe.
#pragma once

#include <cstdint>
#include <string>

namespace tensord::cpu {

struct Fault {
  int signal = 0;  // SIGSEGV, ...; 0: none
  int code = 0;    // the signal's si_code
  uintptr_t address = 0;
  int64_t workgroup = 0;

  std::string Describe() const;  // "segmentation fault at address 0x10 in workgroup 3"
};

// What the body tells about itself.
struct GuardState {
  volatile int64_t workgroup = 0;  // volatile: read after the jump
};

// True if the body returned; else *fault says what happened.
bool RunGuarded(void (*body)(void* context, GuardState& guard), void* context, Fault* fault);

}  // namespace tensord::cpu
