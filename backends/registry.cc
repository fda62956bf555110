#include "backends/registry.h"

#include <absl/algorithm/container.h>
#include <absl/strings/ascii.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>
#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "backends/cpu/cpu_backend.h"
#include "backends/interp/interp_backend.h"
#include "backends/null/null_backend.h"
#include "backends/paced/paced_backend.h"
#include "core/base/status.h"

namespace tensord {
namespace {

constexpr Backend kBackends[] = {
    {"cpu", cpu::Probe, cpu::Open},
    {"null", null::Probe, null::Open},
    {"interp", interp::Probe, interp::Open},
    {"paced", paced::Probe, paced::Open, /*takes_settings=*/true},
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

// A part of the specification: some devices of one backend.
struct Request {
  const Backend* backend;
  int count = 1;
  BackendSettings settings;
};

// The parts between commas, but not those within parentheses.
absl::StatusOr<std::vector<std::string>> Parts(std::string_view spec) {
  std::vector<std::string> parts(1);
  bool inside = false;
  for (const char c : spec) {
    if (c == ',' && !inside) {
      parts.emplace_back();
      continue;
    }
    if (c == '(' || c == ')') {
      if (inside == (c == '(')) break;
      inside = c == '(';
    }
    parts.back() += c;
  }
  if (inside || absl::c_count(spec, '(') != absl::c_count(spec, ')')) {
    return InvalidArgument("parentheses must come in pairs, as in paced(launch_us=100)");
  }
  for (std::string& part : parts) part = std::string(absl::StripAsciiWhitespace(part));
  return parts;
}

absl::StatusOr<BackendSettings> Settings(const Backend& backend, const std::string& text) {
  if (!backend.takes_settings) return InvalidArgument("{} takes no settings", backend.name);
  BackendSettings settings;
  for (const auto piece : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    const std::pair<std::string, std::string> pair = absl::StrSplit(piece, absl::MaxSplits('=', 1));
    settings.emplace_back(absl::StripAsciiWhitespace(pair.first),
                          absl::StripAsciiWhitespace(pair.second));
  }
  return settings;
}

// NAME, :COUNT and (KEY=VALUE,...), of which the last two may be missing.
absl::StatusOr<Request> Parse(std::string part) {
  std::optional<std::string> settings;
  if (const size_t open = part.find('('); open != std::string::npos && part.back() == ')') {
    settings = part.substr(open + 1, part.size() - open - 2);
    part.resize(open);
  }
  const size_t colon = part.find(':');
  Request request;
  TD_ASSIGN_OR_RETURN(request.backend, Find(part.substr(0, colon)));
  if (colon != std::string::npos && (!absl::SimpleAtoi(part.substr(colon + 1), &request.count) ||
                                     request.count < 1 || request.count > kMaxCount)) {
    return InvalidArgument("'{}' must end in a count from 1 to {}, as in {}:2", part, kMaxCount,
                           request.backend->name);
  }
  if (settings) {
    TD_ASSIGN_OR_RETURN(request.settings, Settings(*request.backend, *settings));
  }
  return request;
}

}  // namespace

absl::Span<const Backend> Backends() { return kBackends; }

absl::StatusOr<std::vector<std::unique_ptr<Device>>> OpenDevices(std::string_view spec,
                                                                 OpenOptions options) {
  std::vector<Request> requests;
  if (spec.empty()) {
    TD_ASSIGN_OR_RETURN(const Backend* first, FirstAvailable());
    requests.push_back({.backend = first});
  } else {
    TD_ASSIGN_OR_RETURN(const std::vector<std::string> parts, Parts(spec), "devices '{}'", spec);
    for (const std::string& part : parts) {
      TD_ASSIGN_OR_RETURN(Request request, Parse(part), "devices '{}'", spec);
      for (const Request& earlier : requests) {
        if (earlier.backend == request.backend) {
          return InvalidArgument("devices '{}': {} is named twice; write {}:COUNT for several",
                                 spec, request.backend->name, request.backend->name);
        }
      }
      requests.push_back(std::move(request));
    }
  }
  if (options.threads < 0 || options.threads > kMaxThreads) {
    return InvalidArgument("threads of a device: {} is not from 0 (one a core) to {}",
                           options.threads, kMaxThreads);
  }
  std::vector<std::unique_ptr<Device>> devices;
  for (Request& request : requests) {
    options.settings = std::move(request.settings);
    TD_RETURN_IF_ERROR(request.backend->probe(), "devices '{}': {}", spec, request.backend->name);
    TD_ASSIGN_OR_RETURN(auto opened, request.backend->open(request.count, options),
                        "devices '{}': {}", spec, request.backend->name);
    for (auto& device : opened) devices.push_back(std::move(device));
  }
  return devices;
}

}  // namespace tensord
