// Runs generated code so that a fault in it (bad address, division by zero, illegal instruction)
// becomes a value instead of the end of the process; and so that it can be stopped, if it doesn't
// end by itself.
//
//   if (!RunGuarded([](void* context, GuardState& guard) { ... }, &context, stop, &fault)) ...
//   ... on another thread: stop = true;  Interrupt(thread);
//
// The body is left by a jump that skips destructors: it must hold no lock and own nothing.
// Thread-safe.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <string>

namespace tensord::cpu {

struct Fault {
  int signal = 0;  // SIGSEGV, ...; 0: none; kInterrupt: it was stopped
  int code = 0;    // the signal's si_code
  uintptr_t address = 0;
  int64_t workgroup = 0;

  std::string Describe() const;  // "segmentation fault at address 0x10 in workgroup 3"
};

// What the body tells about itself.
struct GuardState {
  volatile int64_t workgroup = 0;  // volatile: read after the jump
};

// True if the body returned; else *fault says what happened. A body begins only while `stop` is
// false.
bool RunGuarded(void (*body)(void* context, GuardState& guard), void* context,
                const std::atomic<bool>& stop, Fault* fault);

// The thread leaves its body, if it is inside one whose `stop` is true. Its system calls may return
// EINTR. What the process uses this signal for otherwise is ignored, as it is by default.
void Interrupt(pthread_t thread);

}  // namespace tensord::cpu
