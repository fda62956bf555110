// Status helpers: constructors that take a format, and macros that return early.
//
//   TD_RETURN_IF_ERROR(queue.Submit(std::move(commands)));
//   TD_ASSIGN_OR_RETURN(Program program, cache.Compile(kernel), "kernel '{}'", kernel.name);
//   return InvalidArgument("buffer {}: need {} bytes, has {}", id, need, has);
//
// The optional format arguments of the macros are evaluated only on error and are put in front of
// the message.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/cord.h>
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace tensord {

template <typename... Args>
absl::Status MakeStatus(absl::StatusCode code, fmt::format_string<Args...> format, Args&&... args) {
  return absl::Status(code, fmt::format(format, std::forward<Args>(args)...));
}

#define TD_DEFINE_STATUS(Name, Code)                                             \
  template <typename... Args>                                                    \
  absl::Status Name(fmt::format_string<Args...> format, Args&&... args) {        \
    return absl::Status(Code, fmt::format(format, std::forward<Args>(args)...)); \
  }
TD_DEFINE_STATUS(InvalidArgument, absl::StatusCode::kInvalidArgument)
TD_DEFINE_STATUS(NotFound, absl::StatusCode::kNotFound)
TD_DEFINE_STATUS(ResourceExhausted, absl::StatusCode::kResourceExhausted)
TD_DEFINE_STATUS(Unavailable, absl::StatusCode::kUnavailable)
TD_DEFINE_STATUS(FailedPrecondition, absl::StatusCode::kFailedPrecondition)
TD_DEFINE_STATUS(DeadlineExceeded, absl::StatusCode::kDeadlineExceeded)
TD_DEFINE_STATUS(Cancelled, absl::StatusCode::kCancelled)
TD_DEFINE_STATUS(AlreadyExists, absl::StatusCode::kAlreadyExists)
TD_DEFINE_STATUS(Unimplemented, absl::StatusCode::kUnimplemented)
TD_DEFINE_STATUS(Internal, absl::StatusCode::kInternal)
#undef TD_DEFINE_STATUS

// fmt prints only std's string_view and Abseil's is another type, hence this bridge.
inline std::string_view Message(const absl::Status& status) {
  return {status.message().data(), status.message().size()};
}

inline absl::Status Annotate(const absl::Status& status) { return status; }
template <typename... Args>
absl::Status Annotate(const absl::Status& status, fmt::format_string<Args...> format,
                      Args&&... args) {
  absl::Status annotated(status.code(), fmt::format(format, std::forward<Args>(args)...) + ": " +
                                            std::string(Message(status)));
  // What programs read, such as the limit of a quota, stays with the message that people read.
  status.ForEachPayload([&annotated](absl::string_view type, const absl::Cord& payload) {
    annotated.SetPayload(type, payload);
  });
  return annotated;
}

}  // namespace tensord

#define TD_CONCAT_INNER(a, b) a##b
#define TD_CONCAT(a, b) TD_CONCAT_INNER(a, b)

#define TD_RETURN_IF_ERROR(expression, ...)                                  \
  do {                                                                       \
    if (absl::Status td_status = (expression); !td_status.ok()) [[unlikely]] \
      return ::tensord::Annotate(td_status __VA_OPT__(, ) __VA_ARGS__);      \
  } while (false)

#define TD_ASSIGN_OR_RETURN(declaration, expression, ...) \
  TD_ASSIGN_OR_RETURN_IMPL(TD_CONCAT(td_statusor_, __LINE__), declaration, expression, __VA_ARGS__)
#define TD_ASSIGN_OR_RETURN_IMPL(statusor, declaration, expression, ...)      \
  auto statusor = (expression);                                               \
  if (!statusor.ok()) [[unlikely]]                                            \
    return ::tensord::Annotate(statusor.status() __VA_OPT__(, ) __VA_ARGS__); \
  declaration = *std::move(statusor)
