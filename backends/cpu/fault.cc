#include "backends/cpu/fault.h"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <ucontext.h>

#include <cfenv>
#include <csetjmp>
#include <cstddef>
#include <iterator>
#include <memory>

namespace tensord::cpu {
namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
// Ignored unless somebody handles it, and not used by debuggers.
constexpr int kInterrupt = SIGURG;
constexpr const char* kNames[] = {"segmentation fault", "bus error", "arithmetic fault",
                                  "illegal instruction"};

// Of one thread. The handler reads it, so it is plain data without a constructor to run.
struct ThreadState {
  sigjmp_buf jump;
  volatile sig_atomic_t armed;  // the thread is inside a body
  const std::atomic<bool>* stop;
  Fault fault;
  GuardState guard;
};
constinit thread_local ThreadState thread_state = {};

struct sigaction previous[std::size(kSignals)];

[[noreturn]] void Leave(ThreadState& state, const Fault& fault, void* context) {
  state.armed = 0;
  state.fault = fault;
  // As a return from the handler would do; here, and not in each sigsetjmp, for its system call.
  pthread_sigmask(SIG_SETMASK, &static_cast<ucontext_t*>(context)->uc_sigmask, nullptr);
  siglongjmp(state.jump, 1);
}

// A signal that comes late finds the thread outside, or in a body that nobody stops.
void OnInterrupt(int signal, siginfo_t* info, void* context) {
  ThreadState& state = thread_state;
  if (!state.armed || !state.stop->load(std::memory_order_relaxed)) return;
  Leave(state, {signal, info->si_code, 0, state.guard.workgroup}, context);
}

void OnFault(int signal, siginfo_t* info, void* context) {
  ThreadState& state = thread_state;
  if (state.armed && info->si_code > 0) {  // <= 0: sent by somebody, not by an instruction
    Leave(
        state,
        {signal, info->si_code, reinterpret_cast<uintptr_t>(info->si_addr), state.guard.workgroup},
        context);
  }
  // Not ours: as if this handler were not there.
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    if (kSignals[i] != signal) continue;
    if (previous[i].sa_flags & SA_SIGINFO) {
      previous[i].sa_sigaction(signal, info, context);
    } else if (previous[i].sa_handler != SIG_DFL && previous[i].sa_handler != SIG_IGN) {
      previous[i].sa_handler(signal);
    } else {
      sigaction(signal, &previous[i], nullptr);
      if (info->si_code <= 0) raise(signal);  // else the instruction runs again, and faults again
    }
  }
}

bool InstallHandlers() {
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    struct sigaction action = {};
    action.sa_sigaction = OnFault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(kSignals[i], &action, &previous[i]);
  }
  struct sigaction action = {};
  action.sa_sigaction = OnInterrupt;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(kInterrupt, &action, nullptr);
  return true;
}

// What a thread needs before it runs generated code: a stack for the handler, as the fault may be
// that its own has overflowed, and the floating-point mode that all kernels are compiled for.
class ThreadSetup {
 public:
  ThreadSetup() : stack_(new std::byte[kStackBytes]) {
    static const bool installed = InstallHandlers();
    (void)installed;
    stack_t stack = {};
    stack.ss_sp = stack_.get();
    stack.ss_size = kStackBytes;
    sigaltstack(&stack, &previous_stack_);
    std::fesetenv(FE_DFL_ENV);  // round to nearest, denormals kept, no traps
  }
  ~ThreadSetup() { sigaltstack(&previous_stack_, nullptr); }

 private:
  static constexpr size_t kStackBytes = 64
                                        << 10;  // the kernel alone saves up to 11 KiB of registers
  std::unique_ptr<std::byte[]> stack_;
  stack_t previous_stack_;
};

}  // namespace

std::string Fault::Describe() const {
  if (signal == kInterrupt) return fmt::format("request in workgroup {}", workgroup);
  std::string text = "fault";
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    if (kSignals[i] == signal) text = kNames[i];
  }
  // SI_KERNEL: x86 doesn't tell which address, only that none could be right.
  if (code == SI_KERNEL)
    return fmt::format("{} at an impossible address in workgroup {}", text, workgroup);
  return fmt::format("{} at address {:#x} in workgroup {}", text, address, workgroup);
}

void Interrupt(pthread_t thread) { pthread_kill(thread, kInterrupt); }

bool RunGuarded(void (*body)(void* context, GuardState& guard), void* context,
                const std::atomic<bool>& stop, Fault* fault) {
  static thread_local ThreadSetup setup;
  (void)setup;
  ThreadState& state = thread_state;
  if (sigsetjmp(state.jump, /*savemask=*/0) != 0) {
    *fault = thread_state.fault;
    std::fesetenv(FE_DFL_ENV);
    return false;
  }
  state.guard.workgroup = 0;
  state.stop = &stop;
  state.armed = 1;
  // Sequentially consistent: either the request is seen here, or its signal comes after `armed`.
  if (stop.load(std::memory_order_seq_cst)) {
    state.armed = 0;
    *fault = {kInterrupt, 0, 0, 0};
    return false;
  }
  body(context, state.guard);
  state.armed = 0;
  return true;
}

}  // namespace tensord::cpu
