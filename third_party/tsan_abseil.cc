// Tells ThreadSanitizer about Abseil's locks, for --config=tsan only.
//
// The packaged Abseil is not instrumented, so to TSan its mutexes are ordinary memory and
// everything they guard is a race. These definitions come before the library's in symbol lookup,
// and wrap them: what a lock publishes is announced, and what the library itself does meanwhile
// (such as evaluating a waiter's condition) is not recorded.

#include <absl/synchronization/blocking_counter.h>
#include <absl/synchronization/mutex.h>
#include <absl/synchronization/notification.h>
#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);

// Libraries that are not instrumented either, and synchronise by atomics that TSan does not see.
// The first are ignored only in what they themselves do through malloc, memcpy and the like, as
// they call us back, and races there count. The others lock mutexes that headers of theirs,
// compiled here, unlock; so they must be watched, and are ignored in reports.
const char* __tsan_default_suppressions() {
  return "called_from_lib:libabsl_cord.so\n"
         "called_from_lib:libabsl_random_internal_pool_urbg.so\n"
         "called_from_lib:libabsl_status.so\n"
         "called_from_lib:libabsl_strings.so\n"
         "called_from_lib:libabsl_synchronization.so\n"
         "called_from_lib:libgpr.so\n"
         "called_from_lib:libgrpc++.so\n"
         "called_from_lib:libgrpc.so\n"
         "race:libLLVM\n"
         "race:libprotobuf\n"
         "race:libspdlog\n";
}
}

namespace absl {
ABSL_NAMESPACE_BEGIN
namespace {

// The library's definition of the method that `own`, a pointer to member, names here.
template <typename Method>
Method Next(Method own) {
  void* address = nullptr;
  std::memcpy(&address, &own, sizeof(address));
  Dl_info info;
  void* next = nullptr;
  if (dladdr(address, &info) != 0 && info.dli_sname != nullptr) {
    next = dlsym(RTLD_NEXT, info.dli_sname);
  }
  if (next == nullptr) {
    std::fprintf(stderr, "tsan_abseil: no next definition; is it linked with -rdynamic?\n");
    std::abort();
  }
  std::memcpy(&own, &next, sizeof(next));
  return own;
}

class IgnoreAccesses {
 public:
  IgnoreAccesses() {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  ~IgnoreAccesses() {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
};

}  // namespace

// Calls the library with the arguments that the enclosing method got. The cast picks an overload.
#define TD_NEXT(type, method, signature, ...)                             \
  [&] {                                                                   \
    static const auto next = Next(static_cast<signature>(&type::method)); \
    IgnoreAccesses ignore;                                                \
    return (this->*next)(__VA_ARGS__);                                    \
  }()

// Acquires, perhaps after waiting.
void Mutex::Lock() {
  TD_NEXT(Mutex, Lock, void(Mutex::*)());
  __tsan_acquire(this);
}

void Mutex::ReaderLock() {
  TD_NEXT(Mutex, ReaderLock, void(Mutex::*)());
  __tsan_acquire(this);
}

bool Mutex::TryLock() {
  const bool locked = TD_NEXT(Mutex, TryLock, bool(Mutex::*)());
  if (locked) __tsan_acquire(this);
  return locked;
}

bool Mutex::ReaderTryLock() {
  const bool locked = TD_NEXT(Mutex, ReaderTryLock, bool(Mutex::*)());
  if (locked) __tsan_acquire(this);
  return locked;
}

void Mutex::LockWhen(const Condition& condition) {
  TD_NEXT(Mutex, LockWhen, void(Mutex::*)(const Condition&), condition);
  __tsan_acquire(this);
}

bool Mutex::LockWhenWithTimeout(const Condition& condition, Duration timeout) {
  const bool met = TD_NEXT(Mutex, LockWhenWithTimeout, bool(Mutex::*)(const Condition&, Duration),
                           condition, timeout);
  __tsan_acquire(this);
  return met;
}

bool Mutex::LockWhenWithDeadline(const Condition& condition, Time deadline) {
  const bool met = TD_NEXT(Mutex, LockWhenWithDeadline, bool(Mutex::*)(const Condition&, Time),
                           condition, deadline);
  __tsan_acquire(this);
  return met;
}

void Mutex::ReaderLockWhen(const Condition& condition) {
  TD_NEXT(Mutex, ReaderLockWhen, void(Mutex::*)(const Condition&), condition);
  __tsan_acquire(this);
}

bool Mutex::ReaderLockWhenWithTimeout(const Condition& condition, Duration timeout) {
  const bool met = TD_NEXT(Mutex, ReaderLockWhenWithTimeout,
                           bool(Mutex::*)(const Condition&, Duration), condition, timeout);
  __tsan_acquire(this);
  return met;
}

bool Mutex::ReaderLockWhenWithDeadline(const Condition& condition, Time deadline) {
  const bool met = TD_NEXT(Mutex, ReaderLockWhenWithDeadline,
                           bool(Mutex::*)(const Condition&, Time), condition, deadline);
  __tsan_acquire(this);
  return met;
}

// Releases.
void Mutex::Unlock() {
  __tsan_release(this);
  TD_NEXT(Mutex, Unlock, void(Mutex::*)());
}

void Mutex::ReaderUnlock() {
  __tsan_release(this);
  TD_NEXT(Mutex, ReaderUnlock, void(Mutex::*)());
}

// Releases, waits, and acquires.
void Mutex::Await(const Condition& condition) {
  __tsan_release(this);
  TD_NEXT(Mutex, Await, void(Mutex::*)(const Condition&), condition);
  __tsan_acquire(this);
}

bool Mutex::AwaitWithTimeout(const Condition& condition, Duration timeout) {
  __tsan_release(this);
  const bool met = TD_NEXT(Mutex, AwaitWithTimeout, bool(Mutex::*)(const Condition&, Duration),
                           condition, timeout);
  __tsan_acquire(this);
  return met;
}

bool Mutex::AwaitWithDeadline(const Condition& condition, Time deadline) {
  __tsan_release(this);
  const bool met = TD_NEXT(Mutex, AwaitWithDeadline, bool(Mutex::*)(const Condition&, Time),
                           condition, deadline);
  __tsan_acquire(this);
  return met;
}

void CondVar::Wait(Mutex* mu) {
  __tsan_release(mu);
  TD_NEXT(CondVar, Wait, void(CondVar::*)(Mutex*), mu);
  __tsan_acquire(mu);
}

bool CondVar::WaitWithTimeout(Mutex* mu, Duration timeout) {
  __tsan_release(mu);
  const bool timed_out =
      TD_NEXT(CondVar, WaitWithTimeout, bool(CondVar::*)(Mutex*, Duration), mu, timeout);
  __tsan_acquire(mu);
  return timed_out;
}

bool CondVar::WaitWithDeadline(Mutex* mu, Time deadline) {
  __tsan_release(mu);
  const bool timed_out =
      TD_NEXT(CondVar, WaitWithDeadline, bool(CondVar::*)(Mutex*, Time), mu, deadline);
  __tsan_acquire(mu);
  return timed_out;
}

// A notification's flag, which HasBeenNotified reads in instrumented code, follows its mutex.
void Notification::Notify() {
  __tsan_release(reinterpret_cast<char*>(this) + sizeof(Mutex));
  __tsan_release(this);
  TD_NEXT(Notification, Notify, void(Notification::*)());
}

void Notification::WaitForNotification() const {
  TD_NEXT(Notification, WaitForNotification, void(Notification::*)() const);
  __tsan_acquire(const_cast<Notification*>(this));
}

bool Notification::WaitForNotificationWithTimeout(Duration timeout) const {
  const bool notified = TD_NEXT(Notification, WaitForNotificationWithTimeout,
                                bool(Notification::*)(Duration) const, timeout);
  if (notified) __tsan_acquire(const_cast<Notification*>(this));
  return notified;
}

bool Notification::WaitForNotificationWithDeadline(Time deadline) const {
  const bool notified = TD_NEXT(Notification, WaitForNotificationWithDeadline,
                                bool(Notification::*)(Time) const, deadline);
  if (notified) __tsan_acquire(const_cast<Notification*>(this));
  return notified;
}

bool BlockingCounter::DecrementCount() {
  __tsan_release(this);
  return TD_NEXT(BlockingCounter, DecrementCount, bool(BlockingCounter::*)());
}

void BlockingCounter::Wait() {
  TD_NEXT(BlockingCounter, Wait, void(BlockingCounter::*)());
  __tsan_acquire(this);
}

ABSL_NAMESPACE_END
}  // namespace absl
