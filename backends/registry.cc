#include "backends/registry.h"

#include <absl/strings/ascii.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>
#include <fmt/format.h>

#include <string>
#include <utility>

#include "backends/cpu/cpu_backend.h"
#include "backends/interp/interp_backend.h"
#include "backends/null/null_backend.h"
#include "core/base/status.h"

namespace tensord {
namespace {

constexpr Backend kBackends[] = {
    {"cpu", cpu::Probe, cpu::Open},
    {"null", null::Probe, null::Open},
    {"interp", interp::Probe, interp::Open},
};

constexpr int kMaxThreads = 1024;
constexpr int kMaxCount = 64;  // each device has threads of its own

std::string Names() {
  std::string names;
  for (const Backend& backend : kBackends) {
    names += names.empty() ? "" : ", ";
    names += backend.name;
  }
  return names;
}

absl::StatusOr<const Backend*> Find(std::string_view name) {
  for (const Backend& backend : kBackends) {
    if (backend.name == name) return &backend;
  }
  return InvalidArgument("no backend '{}'; there are: {}", name, Names());
}

absl::StatusOr<const Backend*> FirstAvailable() {
  std::string reasons;
  for (const Backend& backend : kBackends) {
    const absl::Status status = backend.probe();
    if (status.ok()) return &backend;
    reasons += fmt::format("\n  {}: {}", backend.name, Message(status));
  }
  return Unavailable("no backend can run here:{}", reasons);
}

}  // namespace

absl::Span<const Backend> Backends() { return kBackends; }

absl::StatusOr<std::vector<std::unique_ptr<Device>>> OpenDevices(std::string_view spec,
                                                                 OpenOptions options) {
  struct Request {
    const Backend* backend;
    int count;
  };
  std::vector<Request> requests;
  if (spec.empty()) {
    TD_ASSIGN_OR_RETURN(const Backend* first, FirstAvailable());
    requests.push_back({first, 1});
  } else {
    const std::string text(spec);  // Abseil splits its own string_view
    for (const auto piece : absl::StrSplit(text, ',')) {
      const std::string part(absl::StripAsciiWhitespace(piece));
      const size_t colon = part.find(':');
      TD_ASSIGN_OR_RETURN(const Backend* backend, Find(part.substr(0, colon)), "devices '{}'",
                          spec);
      int count = 1;
      if (colon != std::string::npos &&
          (!absl::SimpleAtoi(part.substr(colon + 1), &count) || count < 1 || count > kMaxCount)) {
        return InvalidArgument("devices '{}': '{}' must end in a count from 1 to {}, as in {}:2",
                               spec, part, kMaxCount, backend->name);
      }
      for (const Request& request : requests) {
        if (request.backend == backend) {
          return InvalidArgument("devices '{}': {} is named twice; write {}:COUNT for several",
                                 spec, backend->name, backend->name);
        }
      }
      requests.push_back({backend, count});
    }
  }
  if (options.threads < 0 || options.threads > kMaxThreads) {
    return InvalidArgument("threads of a device: {} is not from 0 (one a core) to {}",
                           options.threads, kMaxThreads);
  }
  std::vector<std::unique_ptr<Device>> devices;
  for (const Request& request : requests) {
    TD_RETURN_IF_ERROR(request.backend->probe(), "devices '{}': {}", spec, request.backend->name);
    TD_ASSIGN_OR_RETURN(auto opened, request.backend->open(request.count, options),
                        "devices '{}': {}", spec, request.backend->name);
    for (auto& device : opened) devices.push_back(std::move(device));
  }
  return devices;
}

}  // namespace tensord
