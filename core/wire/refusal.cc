#include "core/wire/refusal.h"

#include <absl/strings/numbers.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/wire/status.h"
#include "proto/google/rpc/error_details.pb.h"

namespace tensord {
namespace {

constexpr char kDomain[] = "tensord";
// Details travel in HTTP/2 trailers, whose size clients limit to 8 KiB.
constexpr size_t kMaxHolders = 8;
constexpr std::pair<const char*, uint64_t Refusal::*> kNumbers[] = {
    {"limit", &Refusal::limit}, {"used", &Refusal::used}, {"needed", &Refusal::needed}};

}  // namespace

absl::Status Refuse(const Refusal& refusal, const std::string& message) {
  return WithRefusal(absl::ResourceExhaustedError(message), refusal);
}

absl::Status WithRefusal(absl::Status status, const Refusal& refusal) {
  v1::Status details;
  google::rpc::ErrorInfo info;
  info.set_reason(refusal.reason);
  info.set_domain(kDomain);
  for (const auto& [name, field] : kNumbers) {
    (*info.mutable_metadata())[name] = std::to_string(refusal.*field);
  }
  details.add_details()->PackFrom(info);
  google::rpc::QuotaFailure failure;
  google::rpc::QuotaFailure::Violation& violation = *failure.add_violations();
  violation.set_subject(refusal.subject);
  violation.set_description(fmt::format("{} of {} are in use, {} more were asked for", refusal.used,
                                        refusal.limit, refusal.needed));
  details.add_details()->PackFrom(failure);
  if (refusal.retry_after) {
    google::rpc::RetryInfo retry;
    const absl::Duration delay = *refusal.retry_after;
    const int64_t seconds = absl::ToInt64Seconds(delay);
    retry.mutable_retry_delay()->set_seconds(seconds);
    retry.mutable_retry_delay()->set_nanos(
        static_cast<int32_t>(absl::ToInt64Nanoseconds(delay - absl::Seconds(seconds))));
    details.add_details()->PackFrom(retry);
  }
  for (size_t i = 0; i < std::min(refusal.holders.size(), kMaxHolders); ++i) {
    google::rpc::ResourceInfo holder;
    holder.set_resource_type("session");
    holder.set_resource_name(refusal.holders[i].session);
    holder.set_description(std::to_string(refusal.holders[i].bytes));
    details.add_details()->PackFrom(holder);
  }
  SetDetails(details, status);
  return status;
}

std::optional<Refusal> RefusalOf(const absl::Status& status) {
  v1::Status details;
  Encode(status, &details);
  std::optional<Refusal> refusal;
  google::rpc::ErrorInfo info;
  for (const google::protobuf::Any& detail : details.details()) {
    if (detail.UnpackTo(&info) && info.domain() == kDomain) refusal.emplace();
    if (refusal) break;
  }
  if (!refusal) return std::nullopt;
  refusal->reason = info.reason();
  for (const auto& [name, field] : kNumbers) {
    const auto found = info.metadata().find(name);
    if (found != info.metadata().end() && !absl::SimpleAtoi(found->second, &((*refusal).*field))) {
      return std::nullopt;
    }
  }
  for (const google::protobuf::Any& detail : details.details()) {
    google::rpc::QuotaFailure failure;
    google::rpc::RetryInfo retry;
    google::rpc::ResourceInfo holder;
    if (detail.UnpackTo(&failure) && failure.violations_size() > 0) {
      refusal->subject = failure.violations(0).subject();
    } else if (detail.UnpackTo(&retry)) {
      refusal->retry_after = absl::Seconds(retry.retry_delay().seconds()) +
                             absl::Nanoseconds(retry.retry_delay().nanos());
    } else if (detail.UnpackTo(&holder)) {
      uint64_t bytes = 0;
      if (!absl::SimpleAtoi(holder.description(), &bytes)) continue;
      refusal->holders.push_back({.session = holder.resource_name(), .bytes = bytes});
    }
  }
  return refusal;
}

}  // namespace tensord
